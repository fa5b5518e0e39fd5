"""Decoded pictures beside PIL's, transforms beside torchvision's on tensors."""

import json
import os
import subprocess
import tempfile
import unittest
from pathlib import Path

# Before torch: it sets the number of threads.
from parity_support import PROGRAMS

import torch
import torchvision.transforms as T
import torchvision.transforms.functional as F
from PIL import Image, ImageOps
from torchvision.transforms import InterpolationMode

import safetensors_io

EXIF_ORIENTATION = 0x0112


def colours(width, height):
    """A picture with soft and sharp places, some of them saturated and some grey."""
    x = torch.arange(width).repeat(height, 1)
    y = torch.arange(height).unsqueeze(1).repeat(1, width)
    channels = [(x * 5 + y * 2) % 256, ((x // 3) * (y // 4) * 7) % 256, (255 - 3 * x + y) % 256]
    picture = torch.stack(channels, 2).to(torch.uint8)
    picture[:3] = 128
    picture[3:5, :, 0] = 255
    return Image.fromarray(picture.numpy())


def as_tensor(image):
    """HWC, uint8."""
    return F.pil_to_tensor(image).permute(1, 2, 0).contiguous()


class Pictures(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.root = Path(cls.folder.name)
        cls.png = cls.root / "colours.png"
        colours(61, 45).save(cls.png)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def run_jobs(self, jobs):
        config, out = self.root / "jobs.yaml", self.root / "out.safetensors"
        config.write_text(json.dumps({"jobs": jobs}))
        subprocess.run([PROGRAMS / "parity_picture_steps", config, out], check=True)
        return safetensors_io.read(out)[0]

    def expect_equal(self, jobs, expected, most=0):
        results = self.run_jobs(jobs)
        self.assertEqual(set(results), set(expected))
        for name, tensor in expected.items():
            with self.subTest(name):
                self.assertEqual(results[name].shape, tensor.shape)
                difference = (results[name].double() - tensor.double()).abs().max().item()
                # The way through hue and back is float32 in another order, whose result is cut to a whole number.
                self.assertLessEqual(difference, 1 if name.startswith("hue") else most)

    def test_every_kind_of_file_is_decoded_as_pil_does(self):
        image = colours(61, 45)
        files = {}

        def save(name, picture, **options):
            files[name] = self.root / name
            picture.save(files[name], **options)

        save("baseline.jpg", image, quality=90)
        save("progressive.jpg", image, quality=70, progressive=True)
        save("subsampled.jpg", image, subsampling="4:2:0")
        save("grey.jpg", image.convert("L"))
        save("cmyk.jpg", image.convert("CMYK"), quality=95)
        save("rgb.png", image)
        save("grey.png", image.convert("L"))
        save("bit.png", image.convert("1"))
        save("palette.png", image.convert("P", palette=Image.ADAPTIVE))
        alpha = image.copy()
        alpha.putalpha(image.convert("L"))
        save("alpha.png", alpha)
        save("grey_alpha.png", alpha.convert("LA"))
        for mode in ["RGB", "L", "1", "P", "RGBA"]:
            save(f"{mode}.bmp", alpha if mode == "RGBA" else image.convert(mode))
        save("lossless.webp", image, lossless=True)
        save("lossy.webp", image, quality=60)
        save("alpha.webp", alpha, quality=90)
        save("lossless_alpha.webp", alpha, lossless=True, exact=True)
        for mode in ["RGB", "L", "1", "P", "RGBA", "LA"]:
            for compression in [None, "tiff_lzw", "tiff_adobe_deflate", "packbits"]:
                if mode != "1" or compression is None:
                    save(f"{mode}_{compression}.tif", (alpha if "A" in mode else image).convert(mode), compression=compression)
        save("scan.tif", image.convert("1"), compression="group4")
        save("jpeg.tif", image, compression="jpeg")
        save("cmyk.tif", image.convert("CMYK"), compression="tiff_lzw")
        for orientation in range(1, 9):
            exif = Image.Exif()
            exif[EXIF_ORIENTATION] = orientation
            save(f"turned{orientation}.jpg", image, exif=exif.tobytes())
            save(f"turned{orientation}.png", image, exif=exif.tobytes())
            save(f"turned{orientation}.webp", image, exif=exif.tobytes())
            save(f"turned{orientation}.tif", image, exif=exif.tobytes())
        jobs = [{"name": name, "picture": str(file)} for name, file in files.items()]
        expected = {}
        for name, file in files.items():
            with Image.open(file) as opened:
                # PIL turns a TIFF when it decodes it.
                seen = opened if name.endswith(".tif") else ImageOps.exif_transpose(opened)
                expected[name] = as_tensor(seen.convert("RGB"))
        cmyk = {name: expected.pop(name) for name in ["cmyk.jpg", "cmyk.tif"]}
        self.expect_equal([job for job in jobs if job["name"] in expected], expected)
        # PIL multiplies inks with another rounding.
        self.expect_equal([job for job in jobs if job["name"] in cmyk], cmyk, most=1)

    def test_sixteen_bits_are_rounded(self):
        file = self.root / "deep.png"
        values = torch.arange(0, 65536, 257 // 2)[: 20 * 25].reshape(20, 25)
        Image.fromarray(values.to(torch.int32).numpy()).convert("I;16").save(file)
        rounded = ((values.double() / 257).round()).to(torch.uint8).unsqueeze(2).repeat(1, 1, 3)
        self.expect_equal([{"name": "deep", "picture": str(file)}], {"deep": rounded})

    def test_grey_is_that_of_pil(self):
        expected = {"grey": as_tensor(colours(61, 45).convert("L"))}
        self.expect_equal([{"name": "grey", "picture": str(self.png), "color": "grey"}], expected)

    def test_real_photographs_and_words(self):
        folder = os.environ.get("LOCKSTEP_TEST_DATA")
        if not folder:
            self.skipTest("LOCKSTEP_TEST_DATA names no folder with icdar2015_sample/")
        sample = Path(folder) / "icdar2015_sample"
        files = sorted((sample / "detection/test/images").glob("*.jpg"))[:3]
        files += sorted((sample / "recognition/test/images").glob("*.png"))[:20]
        self.assertEqual(len(files), 23)
        expected = {file.name: as_tensor(Image.open(file).convert("RGB")) for file in files}
        self.expect_equal([{"name": file.name, "picture": str(file)} for file in files], expected)

    def test_transforms_are_those_of_torchvision_on_tensors(self):
        chw = F.pil_to_tensor(colours(61, 45))
        bilinear = InterpolationMode.BILINEAR
        mean, std = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]

        def hwc(tensor):
            return tensor.permute(1, 2, 0)

        cases = {
            "shorter": ("resize: {size: 20}", hwc(F.resize(chw, [20], bilinear, antialias=False))),
            "shorter_antialias": ("resize: {size: 20, antialias: true}", hwc(F.resize(chw, [20], bilinear, antialias=True))),
            "exact": ("resize: {size: [30, 17]}", hwc(F.resize(chw, [30, 17], bilinear, antialias=False))),
            "exact_antialias": ("resize: {size: [30, 17], antialias: true}",
                                hwc(F.resize(chw, [30, 17], bilinear, antialias=True))),
            "larger": ("resize: {size: 100}", hwc(F.resize(chw, [100], bilinear, antialias=False))),
            "center": ("center_crop: {size: [20, 31]}", hwc(F.center_crop(chw, [20, 31]))),
            "center_odd": ("center_crop: {size: 26}", hwc(F.center_crop(chw, [26, 26]))),
            "center_larger": ("center_crop: {size: [50, 64]}", hwc(F.center_crop(chw, [50, 64]))),
            "pad": ("pad: {padding: [1, 2, 3, 4], fill: 7}", hwc(F.pad(chw, [1, 2, 3, 4], fill=7))),
            "flip": ("random_horizontal_flip: {prob: 1}", hwc(F.hflip(chw))),
            "to_tensor": ("to_tensor", F.convert_image_dtype(chw)),
        }
        jobs = [{"name": name, "picture": str(self.png), "transforms": [step_of(text)]}
                for name, (text, _) in cases.items()]
        self.expect_equal(jobs, {name: tensor for name, (_, tensor) in cases.items()})
        whole = [{"resize": {"size": 40, "antialias": True}}, {"center_crop": {"size": 32}}, "to_tensor",
                 {"normalize": {"mean": mean, "std": std}}]
        expected = F.normalize(F.convert_image_dtype(F.center_crop(F.resize(chw, [40], bilinear, antialias=True), [32, 32])),
                               mean, std)
        self.expect_equal([{"name": "whole", "picture": str(self.png), "transforms": whole}], {"whole": expected}, 1e-6)

    def test_colours_are_those_of_torchvision(self):
        chw = F.pil_to_tensor(colours(61, 45))
        steps = {"brightness": F.adjust_brightness, "contrast": F.adjust_contrast, "saturation": F.adjust_saturation,
                 "hue": F.adjust_hue}
        jobs, expected = [], {}
        for step, function in steps.items():
            for value in [-0.4, 0.1, 0.5] if step == "hue" else [0.0, 0.3, 1.0, 1.7]:
                name = f"{step} {value}"
                jobs.append({"name": name, "picture": str(self.png), "step": step, "value": str(value)})
                expected[name] = function(chw, value).permute(1, 2, 0)
        self.expect_equal(jobs, expected)


    def run_with_seeds(self, step, picture, jobs):
        """The results of the jobs by name, and the seed of the step for each."""
        results = self.run_jobs([{"picture": str(picture), "seed_of": step, **job} for job in jobs])
        seeds = {job["name"]: results[job["name"] + ".seed"].item() % 2**64 for job in jobs}
        return results, seeds

    def test_rand_augment_is_that_of_torchvision_after_the_same_seed(self):
        chw = F.pil_to_tensor(colours(61, 45))
        kinds = {
            "usual": ({}, {}),
            "strong": ({"num_ops": 1, "magnitude": 30}, {"num_ops": 1, "magnitude": 30}),
            "filled": ({"fill": 17, "num_magnitude_bins": 11}, {"fill": 17, "num_magnitude_bins": 11}),
            "bilinear": ({"num_ops": 1, "interpolation": "bilinear", "fill": 40},
                         {"num_ops": 1, "interpolation": T.InterpolationMode.BILINEAR, "fill": 40}),
        }
        jobs = [{"name": f"{kind} {i}", "index": i, "transforms": [{"rand_augment": options}]}
                for kind, (options, _) in kinds.items() for i in range(60)]
        results, seeds = self.run_with_seeds("rand_augment", self.png, jobs)
        for name, seed in seeds.items():
            with self.subTest(name):
                torch.manual_seed(seed)
                expected = T.RandAugment(**kinds[name.split()[0]][1])(chw).permute(1, 2, 0)
                self.assertTrue(torch.equal(results[name], expected))

    def assert_near(self, result, expected, most, share):
        """Equal but for a share of the values, where versions of libtorch add in another order before they round."""
        difference = (result.double() - expected.double()).abs()
        self.assertLessEqual((difference > 0).double().mean().item(), share)
        self.assertLessEqual(difference.max().item(), most)

    def test_random_erasing_is_that_of_torchvision_after_the_same_seed(self):
        chw = F.convert_image_dtype(F.pil_to_tensor(colours(61, 45)))
        kinds = {
            "usual": ({}, {}),
            "large": ({"prob": 1, "scale": [0.5, 0.9], "value": [1, 2, 3]}, {"p": 1, "scale": (0.5, 0.9), "value": (1, 2, 3)}),
            "noise": ({"prob": 0.9, "ratio": [1, 2], "noise": True}, {"p": 0.9, "ratio": (1, 2), "value": "random"}),
        }
        jobs = [{"name": f"{kind} {i}", "index": i, "transforms": ["to_tensor", {"random_erasing": options}]}
                for kind, (options, _) in kinds.items() for i in range(30)]
        results, seeds = self.run_with_seeds("random_erasing", self.png, jobs)
        for name, seed in seeds.items():
            with self.subTest(name):
                torch.manual_seed(seed)
                expected = T.RandomErasing(**kinds[name.split()[0]][1])(chw)
                self.assertLessEqual((results[name] - expected).abs().max().item(), 1e-6 if name.startswith("noise") else 0)

    def test_mixup_and_cutmix_are_those_of_torchvision_after_the_same_seed(self):
        try:
            from torchvision.transforms import v2
        except ImportError:
            self.skipTest("this torchvision has neither MixUp nor CutMix")
        chw = F.convert_image_dtype(F.pil_to_tensor(colours(61, 45)))
        copies = 5
        batch = torch.stack([chw.roll([5 * i, 3 * i], [1, 2]) for i in range(copies)])
        for step, kind in {"mixup": v2.MixUp, "cutmix": v2.CutMix}.items():
            jobs = [{"name": f"{step} {alpha}", "copies": copies,
                     "transforms": ["to_tensor", {step: {"alpha": alpha, "num_classes": 7}}]} for alpha in [0.2, 1, 4]]
            results, seeds = self.run_with_seeds(step, self.png, jobs)
            for name, seed in seeds.items():
                with self.subTest(name):
                    torch.manual_seed(seed)
                    pictures, labels = kind(alpha=float(name.split()[1]), num_classes=7)(batch, torch.arange(copies))
                    self.assertTrue(torch.equal(results[name], pictures))
                    self.assertTrue(torch.equal(results[name + ".labels"], labels))

    def test_crops_and_colours_are_those_of_torchvision_for_the_same_numbers(self):
        chw = F.pil_to_tensor(colours(61, 45))
        crop, strength = {"size": [20, 24]}, {"brightness": 0.4, "contrast": 0.3, "saturation": 0.5}
        for step, options in [("random_resized_crop", crop), ("color_jitter", strength),
                              ("color_jitter", {**strength, "hue": 0.1})]:
            jobs = [{"name": f"{step} {i}", "index": i, "transforms": [{step: options}]} for i in range(30)]
            results, seeds = self.run_with_seeds(step, self.png, jobs)
            for name, seed in seeds.items():
                with self.subTest(name, options=options):
                    numbers = Stream(seed)
                    if step == "color_jitter":
                        # Four are drawn, whether there is a hue or not.
                        with drawn_by(numbers, uniforms=[numbers.uniform() for _ in range(4)]):
                            expected = T.ColorJitter(**options)(chw)
                    else:
                        transform = T.RandomResizedCrop([20, 24], antialias=False)
                        with drawn_by(numbers):
                            box = T.RandomResizedCrop.get_params(chw, transform.scale, transform.ratio)
                        expected = F.resized_crop(chw, *box, [20, 24], InterpolationMode.BILINEAR, antialias=False)
                    # Hue is cut to a whole number, and what comes after it makes differences larger.
                    most, share = (6, 0.5) if "hue" in options else (1, 0.01)
                    self.assert_near(results[name], expected.permute(1, 2, 0), most, share)


BITS = 2**64 - 1
STEP = 0x9E3779B97F4A7C15


def mix64(x):
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & BITS
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & BITS
    return x ^ (x >> 31)


class Stream:
    """data::RandomStream of a step: SplitMix64."""

    NAMED_STEP = 4

    def __init__(self, seed):
        self.state = mix64(mix64((seed + STEP) & BITS) ^ mix64((self.NAMED_STEP + STEP) & BITS))

    def next(self):
        self.state = (self.state + STEP) & BITS
        return mix64(self.state)

    def uniform(self):
        return (self.next() >> 11) * 2.0**-53

    def below(self, bound):
        product = self.next() * bound
        while product & BITS < (-bound) % 2**64 % bound:
            product = self.next() * bound
        return product >> 64


class drawn_by:
    """Within it, torchvision's transforms draw from the stream; `uniforms` are drawn first."""

    def __init__(self, stream, uniforms=()):
        self.stream, self.uniforms = stream, list(uniforms)

    def __enter__(self):
        T.transforms.torch = self

    def __exit__(self, *_):
        T.transforms.torch = torch

    def __getattr__(self, name):
        return getattr(torch, name)

    def empty(self, _):
        return self

    def uniform_(self, low, high):
        share = self.uniforms.pop(0) if self.uniforms else self.stream.uniform()
        low, high = float(low), float(high)
        return torch.tensor([low + (high - low) * share], dtype=torch.float64)

    def randint(self, low, high, size):
        return torch.tensor([low + self.stream.below(high - low)])

    def randperm(self, count):
        order = list(range(count))
        for i in range(count - 1, 0, -1):
            j = self.stream.below(i + 1)
            order[i], order[j] = order[j], order[i]
        return torch.tensor(order)


def step_of(text):
    """'pad: {padding: 1}' as JSON, which is YAML, too."""
    if ":" not in text:
        return text
    name, arguments = text.split(":", 1)
    pairs = arguments.strip()[1:-1]
    out, depth, start = [], 0, 0
    for i, letter in enumerate(pairs + ","):
        depth += {"[": 1, "]": -1}.get(letter, 0)
        if letter == "," and depth == 0:
            key, value = pairs[start:i].split(":", 1)
            out.append((key.strip(), json.loads(value)))
            start = i + 1
    return {name: dict(out)}


if __name__ == "__main__":
    unittest.main()
