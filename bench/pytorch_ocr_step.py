#!/usr/bin/env python3
"""Times data-parallel training of DBNet and CRNN with PyTorch DDP over Gloo, from files to updated weights.

Started by ocr_vs_pytorch.py, one process a rank, with RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT set. Networks, losses and
targets are the twins of tests/parity. Rank 0 prints one JSON object.
"""
import argparse
import contextlib
import json
import math
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "parity"))

import parity_support  # noqa: F401  before torch: it sets the number of threads
import cv2
import numpy as np
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler

cv2.setNumThreads(0)
MEAN, DEVIATION = np.array([123.675, 116.28, 103.53], np.float32), np.array([58.395, 57.12, 57.375], np.float32)


def free_lines(polygons, axis, length):
    free = np.ones(length, bool)
    for polygon in polygons:
        low, high = np.round(polygon[:, axis].min()), np.round(polygon[:, axis].max())
        free[max(0, int(low)): max(0, int(high) + 1)] = False
    return np.flatnonzero(free)


def crop_window(polygons, height, width, random):
    """A window whose borders cut through no word, as text_random_crop draws it."""
    rows, columns = free_lines(polygons, 1, height), free_lines(polygons, 0, width)
    if len(polygons) and len(rows) and len(columns):
        for _ in range(10):
            top, bottom = np.sort(random.choice(rows, 2))
            left, right = np.sort(random.choice(columns, 2))
            if bottom - top < 0.1 * height or right - left < 0.1 * width:
                continue
            if any(p[:, 0].max() > left and p[:, 0].min() < right and p[:, 1].max() > top and p[:, 1].min() < bottom
                   for p in polygons):
                return top, bottom, left, right
    return 0, height, 0, width


class Photographs(Dataset):
    """Flip, rotation, scale, crop, targets, normalization."""

    def __init__(self, root, size):
        self.size, self.pictures = size, root / "train/images"
        self.lines = [line.split("\t") for line in (root / "train_det_gt.txt").read_text().splitlines()]
        self.words = [json.loads(words) for _, words in self.lines]

    def __len__(self):
        return len(self.lines)

    def __getitem__(self, index):
        from test_dbnet_geometry import targets_of
        random = np.random.default_rng(torch.randint(1 << 31, (1,)).item())
        picture = cv2.imread(str(self.pictures / self.lines[index][0]))[:, :, ::-1]
        polygons = [np.array(word["points"], np.float64) for word in self.words[index]]
        if random.uniform() < 0.5:
            picture = picture[:, ::-1]
            polygons = [(polygon * [-1, 1] + [picture.shape[1] - 1, 0])[::-1] for polygon in polygons]
        height, width = picture.shape[:2]
        turn = cv2.getRotationMatrix2D((width // 2, height // 2), int(random.integers(-10, 10)), 1)
        picture = cv2.warpAffine(np.ascontiguousarray(picture), turn, (width, height))
        factor = random.uniform(0.5, 3)
        picture = cv2.resize(picture, (round(width * factor), round(height * factor)))
        polygons = [(polygon @ turn[:, :2].T + turn[:, 2]) * factor for polygon in polygons]
        readable = [p for p, word in zip(polygons, self.words[index]) if word["transcription"] not in ("###", "*")]
        top, bottom, left, right = crop_window(readable, *picture.shape[:2], random)
        factor = self.size / max(bottom - top, right - left)
        small = cv2.resize(picture[top:bottom, left:right],
                           (max(1, int((right - left) * factor)), max(1, int((bottom - top) * factor))))
        padded = np.zeros((self.size, self.size, 3), np.uint8)
        padded[: small.shape[0], : small.shape[1]] = small
        words = []
        for polygon, word in zip(polygons, self.words[index]):
            polygon = (polygon - [left, top]) * factor
            (x1, y1), (x2, y2) = polygon.min(0), polygon.max(0)
            if x2 > 0 and y2 > 0 and x1 < small.shape[1] and y1 < small.shape[0]:
                words.append({"transcription": word["transcription"], "points": polygon})
        text, mask, border, border_mask, _ = targets_of(words, self.size, self.size)
        picture = ((padded - MEAN) / DEVIATION).transpose(2, 0, 1)
        return (torch.from_numpy(np.ascontiguousarray(picture)), torch.from_numpy(text), torch.from_numpy(mask),
                torch.from_numpy(border), torch.from_numpy(border_mask))


class Words(Dataset):
    CHARACTERS = {c: i for i, c in enumerate("0123456789abcdefghijklmnopqrstuvwxyz")}

    def __init__(self, root):
        self.pictures, self.items = root / "train/images", []
        for line in (root / "train_rec_gt.txt").read_text(encoding="utf-8-sig").splitlines():
            name, _, text = line.partition("\t")
            classes = [self.CHARACTERS[c] for c in text.lower() if c in self.CHARACTERS]
            if classes:
                self.items.append((name, classes))

    def __len__(self):
        return len(self.items)

    def __getitem__(self, index):
        name, classes = self.items[index]
        picture = cv2.resize(cv2.imread(str(self.pictures / name))[:, :, ::-1], (100, 32))
        picture = ((picture.astype(np.float32) - 127) / 127).transpose(2, 0, 1)
        return torch.from_numpy(np.ascontiguousarray(picture)), torch.tensor(classes)


def collate_words(samples):
    pictures, classes = zip(*samples)
    return torch.stack(pictures), torch.cat(classes), torch.tensor([len(c) for c in classes])


def dbnet(args):
    from test_dbnet import Dbnet, loss_of

    model = Dbnet(18, args.channels)

    def loss(model, batch):
        picture, text, mask, border, border_mask = batch
        maps = [m.float() for m in model(picture)]
        return loss_of(*maps, text.float(), mask.float(), border, border_mask.float())

    return model, Photographs(args.data / "detection", args.size), None, loss, \
        lambda parameters: torch.optim.SGD(parameters, lr=1e-4, momentum=0.9, weight_decay=1e-4)


def crnn(args):
    from test_crnn import Crnn

    model = Crnn(args.case, args.channels, 256, 37)

    def loss(model, batch):
        pictures, classes, lengths = batch
        logits = model(pictures).float()
        columns = torch.full((len(pictures),), len(logits), dtype=torch.long)
        return F.ctc_loss(logits.log_softmax(2), classes, columns, lengths, 36, reduction="none",
                          zero_infinity=True).mean()

    return model, Words(args.data / "recognition"), collate_words, loss, \
        lambda parameters: torch.optim.AdamW(parameters, lr=1e-4, weight_decay=1e-4)


def batches_of(loader, sampler):
    epoch = 0
    while True:
        sampler.set_epoch(epoch)
        yield from loader
        epoch += 1


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--case", choices=("dbnet", "crnn_vgg7", "crnn_resnet34"), required=True)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--channels", type=int, required=True)
    parser.add_argument("--size", type=int, default=320)
    parser.add_argument("--warmup", type=int, default=2)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--channels-last", action="store_true")
    parser.add_argument("--bfloat16", action="store_true")
    args = parser.parse_args()

    torch.set_num_threads(1)
    torch.manual_seed(1)
    dist.init_process_group("gloo")
    model, dataset, collate, loss_of_batch, make_optimizer = (dbnet if args.case == "dbnet" else crnn)(args)
    if args.channels_last:
        model = model.to(memory_format=torch.channels_last)
    ddp = DistributedDataParallel(model)
    optimizer = make_optimizer(ddp.parameters())
    sampler = DistributedSampler(dataset, shuffle=True)
    loader = DataLoader(dataset, args.batch, sampler=sampler, num_workers=1, collate_fn=collate, drop_last=True,
                        persistent_workers=True)
    batches = batches_of(loader, sampler)
    precision = torch.autocast("cpu", torch.bfloat16) if args.bfloat16 else contextlib.nullcontext()

    def step():
        batch = next(batches)
        if args.channels_last:
            batch = (batch[0].contiguous(memory_format=torch.channels_last), *batch[1:])
        optimizer.zero_grad(set_to_none=True)
        with precision:
            loss = loss_of_batch(ddp, batch)
        loss.backward()
        optimizer.step()
        if not math.isfinite(loss.item()):
            raise RuntimeError("the loss is not finite")

    for _ in range(args.warmup):
        step()
    dist.barrier()
    start = time.perf_counter()
    for _ in range(args.steps):
        step()
    dist.barrier()
    seconds = time.perf_counter() - start
    if dist.get_rank() == 0:
        print(json.dumps({"samples_per_s": args.batch * dist.get_world_size() * args.steps / seconds,
                          "pytorch": torch.__version__}))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
