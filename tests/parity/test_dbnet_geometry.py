"""What DBNet has from OpenCV and pyclipper: its targets, its words and the steps of its augmentation are theirs, pixel by
pixel. Versions of OpenCV draw polygons differently, so this Python's must be the one that Lockstep is built with."""

import json
import math
import os
import unittest
from pathlib import Path

from parity_support import ParityTest, run_program  # before torch: it sets the number of threads

import cv2
import numpy as np
import pyclipper
import torch

import safetensors_io

cv2.setNumThreads(0)


def offset(polygon, distance):
    clipper = pyclipper.PyclipperOffset()
    clipper.AddPath([tuple(corner) for corner in polygon], pyclipper.JT_ROUND, pyclipper.ET_CLOSEDPOLYGON)
    return clipper.Execute(distance)


def area(polygon):
    x, y = np.asarray(polygon, np.float64).T
    return abs(np.dot(x, np.roll(y, -1)) - np.dot(y, np.roll(x, -1))) / 2


def perimeter(polygon):
    polygon = np.asarray(polygon, np.float64)
    return np.linalg.norm(np.roll(polygon, -1, 0) - polygon, axis=1).sum()


def fill(canvas, polygon, value):
    cv2.fillPoly(canvas, [np.asarray(polygon).astype(np.int32)], value)


def segment_distances(xs, ys, a, b):
    edge = b - a
    length = (edge**2).sum()
    along = np.clip(((xs - a[0]) * edge[0] + (ys - a[1]) * edge[1]) / length, 0, 1) if length else 0 * xs
    return np.hypot(xs - a[0] - along * edge[0], ys - a[1] - along * edge[1])


def targets_of(words, height, width):
    text, mask = np.zeros((height, width), np.uint8), np.ones((height, width), np.uint8)
    border, border_mask = np.zeros((height, width), np.float32), np.zeros((height, width), np.uint8)
    ignored = []
    for word in words:
        polygon = np.asarray(word["points"], np.float64)
        out = word["transcription"] in ("###", "*") or min(np.ptp(polygon, axis=0)) < 8
        reach = area(polygon) * (1 - 0.4**2) / perimeter(polygon)
        shrunk = [] if out else offset(polygon, -reach)
        ignored.append(not shrunk)
        if not shrunk:
            fill(mask, polygon, 0)
            continue
        fill(text, shrunk[0], 1)
        grown = np.array(offset(polygon, reach)[0])
        fill(border_mask, grown, 1)
        (x1, y1), (x2, y2) = grown.min(0), grown.max(0)
        xs, ys = np.meshgrid(np.arange(max(0, x1), min(width - 1, x2) + 1), np.arange(max(0, y1), min(height - 1, y2) + 1))
        if not xs.size:
            continue
        nearest = np.min(
            [segment_distances(xs, ys, polygon[i], polygon[(i + 1) % len(polygon)]) for i in range(len(polygon))], axis=0
        )
        part = border[ys[0, 0] : ys[-1, 0] + 1, xs[0, 0] : xs[0, -1] + 1]
        np.maximum(part, (1 - np.minimum(nearest / reach, 1)).astype(np.float32), out=part)
    return text, mask, border * np.float32(0.4) + np.float32(0.3), border_mask, ignored


def fit_box(points):
    box = cv2.minAreaRect(np.asarray(points, np.int32))
    corners = sorted(cv2.boxPoints(box).tolist(), key=lambda corner: corner[0])
    left, right = sorted(corners[:2], key=lambda c: c[1]), sorted(corners[2:], key=lambda c: c[1])
    return [left[0], right[0], right[1], left[1]], min(box[1])


def words_in(probability, frame, shape):
    height, width, y_factor, x_factor = frame
    bits = (probability >= 0.3).astype(np.uint8)
    contours, _ = cv2.findContours(bits * 255, cv2.RETR_LIST, cv2.CHAIN_APPROX_SIMPLE)
    words = []
    for contour in contours[:1000]:
        contour = contour.squeeze(1)
        (x1, y1), (x2, y2) = contour.min(0), contour.max(0)
        score = cv2.mean(probability[y1 : y2 + 1, x1 : x2 + 1], bits[y1 : y2 + 1, x1 : x2 + 1])[0]
        if score < 0.6:
            continue
        if shape == "polygon":
            core = cv2.approxPolyDP(contour, 0.005 * cv2.arcLength(contour, True), True).squeeze(1)
            if len(core) < 4:
                continue
        else:
            core, side = fit_box(contour)
            if side < 3:
                continue
        grown = offset(core, area(core) * 1.5 / perimeter(core))
        if not grown or (shape == "polygon" and len(grown) > 1):
            continue
        box, side = fit_box(np.concatenate([np.array(piece) for piece in grown]))
        if side < 5:
            continue
        polygon = np.array(grown[0] if shape == "polygon" else box, np.float64) / [x_factor, y_factor]
        words.append((np.clip(np.round(polygon), 0, [width - 1, height - 1]), score))
    return words


def random_words(generator, count, height, width):
    words = []
    for _ in range(count):
        middle = generator.uniform([0, 0], [width, height])
        along, across = generator.uniform(6, 90), generator.uniform(3, 25)
        angle = generator.uniform(-math.pi, math.pi)
        turn = np.array([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]])
        corners = np.array([[-along, -across], [along, -across], [along, across], [-along, across]])
        polygon = corners @ turn.T + middle + generator.uniform(-4, 4, (4, 2))
        text = "###" if generator.uniform() < 0.2 else "word"
        words.append({"transcription": text, "points": polygon.tolist()})
    return words


def real_words(test):
    """The words of 20 real pictures; made-up ones where there are none."""
    folder = os.environ.get("LOCKSTEP_TEST_DATA")
    file = Path(folder or "") / "icdar2015_sample/detection/train_det_gt.txt"
    if not folder or not file.exists():
        print("LOCKSTEP_TEST_DATA names no folder with icdar2015_sample/: made-up words alone")
        return []
    return [json.loads(line.split("\t")[1]) for line in file.read_text().splitlines()[:20]]


class DbnetTargets(ParityTest):
    def test_made_up_words(self):
        generator = np.random.default_rng(5)
        for number in range(10):
            self.compare(number, random_words(generator, 12, 200, 320), 200, 320)

    def test_real_words(self):
        for number, words in enumerate(real_words(self)):
            self.compare(number, words, 720, 1280)

    def compare(self, number, words, height, width):
        out = str(self.folder / f"out{number}.safetensors")
        job = self.write_job(f"job{number}", words=words, height=height, width=width, out=out)
        run_program("parity_dbnet", "targets", job, folder=self.folder)
        actual, _ = safetensors_io.read(out)
        text, mask, threshold, threshold_mask, ignored = targets_of(words, height, width)
        self.assertEqual(actual["ignored"].tolist(), ignored)
        for name, expected in {"text": text, "mask": mask, "threshold_mask": threshold_mask}.items():
            self.assertEqual(int((actual[name].numpy() != expected).sum()), 0, f"{name} of picture {number}")
        self.assertLess(np.abs(actual["threshold"].numpy() - threshold).max(), 1e-6)


class DbnetWords(ParityTest):
    def test_quads(self):
        self.compare("quad")

    def test_polygons(self):
        self.compare("polygon")

    def compare(self, shape):
        generator = np.random.default_rng(3)
        pictures = real_words(self) or [random_words(generator, 20, 720, 1280) for _ in range(20)]
        maps = {}
        for number, words in enumerate(pictures):
            text = targets_of(words, 720, 1280)[0].astype(np.float32)
            text = cv2.GaussianBlur(cv2.resize(text, (640, 352)), (5, 5), 0)
            maps[f"map{number}"] = np.clip(text * generator.uniform(0.7, 1, text.shape), 0, 1).astype(np.float32)
        files = {"maps": str(self.folder / "maps.safetensors"), "out": str(self.folder / "out.json")}
        safetensors_io.write(files["maps"], {name: torch.from_numpy(array) for name, array in maps.items()})
        frame = (720, 1280, 352 / 720, 0.5)
        names = ("height", "width", "y_factor", "x_factor")
        job = self.write_job("words", shape=shape, **dict(zip(names, frame)), **files)
        run_program("parity_dbnet", "words", job, folder=self.folder)
        actual = json.loads(Path(files["out"]).read_text())
        count = 0
        for name, array in maps.items():
            expected = words_in(array, frame, shape)
            self.assertEqual(len(actual[name]), len(expected), name)
            for found, (polygon, score) in zip(actual[name], expected):
                self.assertEqual(found["points"], polygon.tolist(), name)
                self.assertAlmostEqual(found["score"], score, places=6)
            count += len(expected)
        self.assertGreater(count, 60)
        print(f"{count} words in {len(maps)} maps")


class DbnetSteps(ParityTest):
    """Each step of geometry against OpenCV in Python."""

    def test_steps(self):
        generator = np.random.default_rng(2)
        pixels = cv2.GaussianBlur(generator.integers(0, 256, (301, 402, 3), np.uint8), (7, 7), 0)
        polygons = np.array([w["points"] for w in random_words(generator, 6, 301, 402)])
        files = {key: str(self.folder / f"{key}.safetensors") for key in ("picture", "out")}
        safetensors_io.write(files["picture"], {
            "pixels": torch.from_numpy(pixels), "polygons": torch.from_numpy(polygons),
            "ignored": torch.zeros(len(polygons), dtype=torch.bool),
        })
        run_program("parity_dbnet", "steps", self.write_job("steps", **files), folder=self.folder)
        actual, _ = safetensors_io.read(files["out"])

        turn = cv2.getRotationMatrix2D((201, 150), -7, 1)
        window = pixels[21:261, 37:370]
        factor = min(160 / 240, 320 / 333)
        padded = np.zeros((160, 320, 3), np.uint8)
        padded[:160, :222] = cv2.resize(window, (222, 160))
        expected = {
            "mirror": (pixels[:, ::-1], (np.array([401, 0]) - polygons * [1, -1])[:, ::-1]),
            "rotate": (cv2.warpAffine(pixels, turn, (402, 301)), polygons @ turn[:, :2].T + turn[:, 2]),
            "scale": (cv2.resize(pixels, (551, 412)), polygons * 1.37),
            "crop": (padded, (polygons - [37, 21]) * factor),
        }
        for name, (picture, corners) in expected.items():
            self.assertEqual(int((actual[f"{name}.pixels"].numpy() != picture).sum()), 0, name)
            found = actual[f"{name}.polygons"].numpy()
            if name == "crop":  # words outside of it are dropped
                shown = (corners.max(1) > 0).all(1) & (corners[:, :, 0].min(1) < 222) & (corners[:, :, 1].min(1) < 160)
                corners = corners[shown]
            np.testing.assert_allclose(found, corners, atol=1e-9, err_msg=name)


if __name__ == "__main__":
    unittest.main()
