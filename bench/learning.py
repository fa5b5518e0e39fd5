#!/usr/bin/python3
"""What is learned: ResNet-20 on CIFAR-10 with one recipe and several seeds, in PyTorch and in Lockstep.

    bench/learning.py DIR --out runs.jsonl       DIR holds CIFAR-10 in its binary layout

Sides: `pytorch` (one process), `1_rank`, `2_ranks` (64 pictures each, batch norms of 64), `2_ranks_sync` (64 pictures each,
batch norms over all 128). The recipe: random crop, flip, learning rate 0.1, nesterov, weight decay 5e-4, label smoothing 0.1, 2
epochs of warm-up, then cosine, 128 pictures a step. Every finished run is a line of the file; a second call goes on where
the first ended. The last epoch's test accuracy counts. Needs the release build and a Python with torch.
"""
import argparse
import json
import math
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
SIDES = ("pytorch", "1_rank", "2_ranks", "2_ranks_sync")
BATCH, WARMUP_EPOCHS, RATE = 128, 2, 0.1
MEAN, DEVIATION = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)


def read_records(folder, names):
    import torch
    content = bytearray(b"".join((folder / name).read_bytes() for name in names))
    records = torch.frombuffer(content, dtype=torch.uint8).reshape(-1, 3073)
    return records[:, 1:].reshape(-1, 3, 32, 32), records[:, 0].long()


def train_pytorch(folder, seed, epochs):
    """Returns the test accuracy after the last epoch."""
    import torch
    import torch.nn.functional as F
    sys.path.insert(0, str(ROOT / "tests" / "parity"))
    from twins import CifarResNet20

    torch.manual_seed(seed)
    torch.set_num_threads(1)
    mean, deviation = (torch.tensor(values).view(1, 3, 1, 1) for values in (MEAN, DEVIATION))
    pictures, labels = read_records(folder, [f"data_batch_{i}.bin" for i in range(1, 6)])
    test_pictures, test_labels = read_records(folder, ["test_batch.bin"])

    model = CifarResNet20(10, 3).to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE, momentum=0.9, nesterov=True, weight_decay=5e-4)
    steps_per_epoch = len(pictures) // BATCH
    warmup, total = WARMUP_EPOCHS * steps_per_epoch, epochs * steps_per_epoch

    def rate(step):
        if step < warmup:
            return RATE * (step + 1) / warmup
        return RATE * (1 + math.cos(math.pi * (step - warmup) / (total - warmup))) / 2

    def augmented(batch):
        padded = F.pad(batch, (4, 4, 4, 4))
        rows, columns = torch.randint(0, 9, (2, len(batch))).tolist()
        crops = torch.stack([p[:, y:y + 32, x:x + 32] for p, y, x in zip(padded, rows, columns)])
        flip = torch.rand(len(batch)) < 0.5
        crops[flip] = crops[flip].flip(3)
        return crops

    def prepared(batch):
        return ((batch.float() / 255 - mean) / deviation).contiguous(memory_format=torch.channels_last)

    for epoch in range(epochs):
        model.train()
        order = torch.randperm(len(pictures))
        for i in range(steps_per_epoch):
            chosen = order[i * BATCH:(i + 1) * BATCH]
            for group in optimizer.param_groups:
                group["lr"] = rate(epoch * steps_per_epoch + i)
            optimizer.zero_grad()
            F.cross_entropy(model(prepared(augmented(pictures[chosen]))), labels[chosen], label_smoothing=0.1).backward()
            optimizer.step()
    model.eval()
    with torch.no_grad():
        right = sum((model(prepared(test_pictures[i:i + 250])).argmax(1) == test_labels[i:i + 250]).sum().item()
                    for i in range(0, len(test_pictures), 250))
    return right / len(test_pictures)


def train_lockstep(build, folder, side, seed, epochs):
    ranks = 1 if side == "1_rank" else 2
    lockstep = build / "lockstep"
    with tempfile.TemporaryDirectory(prefix="lockstep-learning-") as out:
        train = [lockstep, "train", "--config", ROOT / "configs" / "resnet20_cifar10.yaml", f"data.root={folder}",
                 f"system.work_dir={out}", f"system.seed={seed}", f"data.batch_size={BATCH // ranks}", f"train.epochs={epochs}",
                 f"train.eval_every={epochs}", f"checkpoint.every_epochs={epochs}"]
        if side == "2_ranks_sync":
            train.append("parallel.sync_batch_norm=true")
        command = train if ranks == 1 else [lockstep, "run", "--nproc-per-node", "2", *train]
        subprocess.run([str(word) for word in command], check=True, stdout=subprocess.DEVNULL)
        return json.loads((Path(out) / "result.json").read_text())["eval_accuracy"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--sides", default=",".join(SIDES))
    parser.add_argument("--build", type=Path, default=ROOT / "build" / "release")
    args = parser.parse_args()

    runs = [json.loads(line) for line in args.out.read_text().splitlines()] if args.out.exists() else []
    done = {(run["side"], run["seed"], run["epochs"]): run["accuracy"] for run in runs}
    for seed in range(1, args.seeds + 1):
        for side in args.sides.split(","):
            if (side, seed, args.epochs) in done:
                continue
            if side == "pytorch":
                accuracy = train_pytorch(args.folder, seed, args.epochs)
            else:
                accuracy = train_lockstep(args.build, args.folder.resolve(), side, seed, args.epochs)
            done[side, seed, args.epochs] = accuracy
            with args.out.open("a") as out:
                out.write(json.dumps({"side": side, "seed": seed, "epochs": args.epochs, "accuracy": accuracy}) + "\n")
    for side in args.sides.split(","):
        values = [100 * accuracy for (name, _, epochs), accuracy in done.items() if name == side and epochs == args.epochs]
        spread = statistics.stdev(values) if len(values) > 1 else 0
        print(f"{side:13} {statistics.mean(values):5.1f} % +- {spread:.1f} ({len(values)} seeds: {min(values):.1f} to {max(values):.1f})")


if __name__ == "__main__":
    main()
