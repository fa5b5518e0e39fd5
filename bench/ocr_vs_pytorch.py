#!/usr/bin/env python3
"""Samples a second of training DBNet and CRNN from files: `lockstep train` against PyTorch DDP, in turn on this machine.

    bench/ocr_vs_pytorch.py DIR --cases dbnet,crnn_vgg7,crnn_resnet34 --rounds 3
    bench/ocr_vs_pytorch.py DIR --bfloat16                   (Lockstep with bfloat16 autocast, PyTorch with its float32)
    bench/ocr_vs_pytorch.py DIR --peer-channels-last --bfloat16 --peer-bfloat16

DIR has detection/ and recognition/ with labels in MindOCR's form (docs/ocr.md). Both sides read and augment the same pictures on
2 ranks of one thread, each with one thread or process that loads, and make the same networks, losses and updates; Lockstep's
side is the configuration of configs/ with channels_last. The ratio is that of each round's pair. Needs the release build and a
Python with torch, OpenCV and pyclipper.
"""
import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from vs_pytorch_ddp import run_pytorch_ranks, spread

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
NORMALIZE = "normalize: {mean: [123.675, 116.28, 103.53], std: [58.395, 57.12, 57.375]}"
# case: (configuration, batch of a rank, channels, steps before and in the measurement, keys)
CASES = {
    "dbnet": ("det/dbnet/db_r18_icdar15.yaml", 4, 256, 2, 8,
              [f"data.train_transforms=[text_random_flip, text_random_rotate, text_random_scale, "
               f"text_random_crop: {{size: 320}}, text_shrink_map, text_border_map, {NORMALIZE}, hwc2chw]",
               "model.channels_last=true", "callbacks.use=[]"]),
    "crnn_vgg7": ("rec/crnn/crnn_vgg7.yaml", 16, 64, 2, 10, []),
    "crnn_resnet34": ("rec/crnn/crnn_resnet34.yaml", 8, 64, 2, 6, []),
}


def run_lockstep(args, case):
    config, batch, channels, warmup, steps, keys = CASES[case]
    data = args.data / ("detection" if case == "dbnet" else "recognition")
    with tempfile.TemporaryDirectory() as folder:
        command = [args.build / "lockstep", "run", "--nproc-per-node", str(args.world), args.build / "lockstep", "train",
                   "--config", ROOT / "configs" / config, f"data.root={data}", f"system.work_dir={folder}",
                   f"data.batch_size={batch}", f"model.channels={channels}", "data.workers=1",
                   "data.eval=~" if case == "dbnet" else "data.eval=[]",
                   "optimizer.lr=0.0001", "scheduler.name=constant", "scheduler.warmup_epochs=0", "train.clip_norm=0",
                   f"train.steps={warmup + steps}", "checkpoint.every_epochs=0", "callbacks.metrics_every=1", *keys]
        command += ["model.autocast=bfloat16"] if args.bfloat16 else []
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=1800)
        if done.returncode:
            raise RuntimeError(f"Lockstep failed on {case}:\n{done.stdout}")
        lines = [json.loads(line) for line in (Path(folder) / "metrics.jsonl").read_text().splitlines()]
    rates = [line["samples_per_s"] for line in lines if "loss" in line][warmup:]
    return len(rates) / sum(1 / rate for rate in rates)


def run_pytorch(args, case):
    _, batch, channels, warmup, steps, _ = CASES[case]
    command = [args.python, HERE / "pytorch_ocr_step.py", "--case", case, "--data", args.data, "--batch", str(batch),
               "--channels", str(channels), "--warmup", str(warmup), "--steps", str(steps)]
    command += ["--channels-last"] if args.peer_channels_last else []
    command += ["--bfloat16"] if args.peer_bfloat16 else []
    return run_pytorch_ranks(command, args.world, case)["samples_per_s"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--cases", default="dbnet,crnn_vgg7,crnn_resnet34", help=f"of {', '.join(CASES)}")
    parser.add_argument("--world", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--build", type=Path, default=ROOT / "build" / "release")
    parser.add_argument("--python", default="/usr/bin/python3")
    parser.add_argument("--bfloat16", action="store_true", help="Lockstep with bfloat16 autocast")
    parser.add_argument("--peer-bfloat16", action="store_true", help="PyTorch with bfloat16 autocast, too")
    parser.add_argument("--peer-channels-last", action="store_true", help="PyTorch in channels_last, too")
    args = parser.parse_args()
    for case in args.cases.split(","):
        ours, theirs = [], []
        for _ in range(args.rounds):
            ours.append(run_lockstep(args, case))
            theirs.append(run_pytorch(args, case))
        ratio = spread([a / b for a, b in zip(ours, theirs)])
        print(f"{case:13} ratio {ratio['ratio_median']:.2f} ({ratio['ratio_min']:.2f}..{ratio['ratio_max']:.2f})   Lockstep "
              f"{sorted(ours)[len(ours) // 2]:.2f}  PyTorch {sorted(theirs)[len(theirs) // 2]:.2f} samples/s", flush=True)


if __name__ == "__main__":
    sys.exit(main())
