#!/usr/bin/python3
"""Input pipeline of CIFAR-10 (random crop, flip, normalize) on one core: Lockstep against torchvision's transforms.

    bench/vs_torchvision.py DIR        DIR holds CIFAR-10 in its binary layout

Both read the same files, draw batches of 100 and end with float32 CHW tensors; they run in turn, and the ratio is taken
pair by pair. torchvision gets its usual PIL pictures, decoded beforehand. Needs the release build and a Python with
torch and torchvision.
"""
import argparse
import statistics
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent


def torchvision_rate(folder, passes):
    import numpy
    import torch
    from PIL import Image
    from torchvision import transforms

    torch.set_num_threads(1)
    records = numpy.concatenate([numpy.fromfile(folder / f"data_batch_{i}.bin", dtype=numpy.uint8) for i in range(1, 6)])
    pixels = records.reshape(-1, 3073)[:, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
    pictures = [Image.fromarray(numpy.ascontiguousarray(picture)) for picture in pixels]
    pipeline = transforms.Compose([
        transforms.RandomCrop(32, padding=4),
        transforms.RandomHorizontalFlip(),
        transforms.ToTensor(),
        transforms.Normalize((0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)),
    ])
    start = time.perf_counter()
    for _ in range(passes):
        order = torch.randperm(len(pictures)).tolist()
        for first in range(0, len(order) - 99, 100):
            torch.stack([pipeline(pictures[i]) for i in order[first:first + 100]])
    return len(pictures) * passes / (time.perf_counter() - start)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--build", type=Path, default=HERE.parent / "build" / "release")
    args = parser.parse_args()
    ours, theirs = [], []
    for _ in range(args.rounds):
        command = [args.build / "bench" / "input_pipeline", args.folder, "20"]
        ours.append(float(subprocess.run(command, check=True, capture_output=True, text=True).stdout))
        theirs.append(torchvision_rate(args.folder, 1))
    ratios = [a / b for a, b in zip(ours, theirs)]
    print(f"ratio {statistics.median(ratios):.1f} ({min(ratios):.1f}..{max(ratios):.1f}): Lockstep "
          f"{statistics.median(ours):.0f}, torchvision {statistics.median(theirs):.0f} pictures/s on one core")


if __name__ == "__main__":
    sys.exit(main())
