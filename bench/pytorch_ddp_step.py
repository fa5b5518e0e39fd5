#!/usr/bin/env python3
"""Times data-parallel training steps with PyTorch DDP over Gloo (on CUDA: NCCL), on the workloads of cases.cpp.

Started by vs_pytorch_ddp.py, one process a rank, with RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT set.
Rank 0 prints one JSON object.
"""
import argparse
import contextlib
import json
import os
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def toy(batch):
    model = nn.Sequential(nn.Linear(10, 10), nn.ReLU(), nn.Linear(10, 5))
    return model, torch.randn(20, 10), torch.randn(20, 5), nn.MSELoss(), dict(lr=0.001)


def mlp(batch):
    model = nn.Sequential(nn.Linear(784, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 10))
    return model, torch.randn(batch, 784), torch.randint(10, (batch,)), nn.CrossEntropyLoss(), dict(lr=0.01, momentum=0.9)


def resnet(name, batch, size):
    if name == "resnet20":
        sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "parity"))
        import twins

        model = twins.CifarResNet20(10, 3)
    else:
        import torchvision

        model = getattr(torchvision.models, name)(num_classes=10)
    inputs = torch.randn(batch, 3, size, size)
    return model, inputs, torch.randint(10, (batch,)), nn.CrossEntropyLoss(), dict(lr=0.01, momentum=0.9)


class Gpt2(nn.Module):
    """GPT-2 of 124 million parameters as PyTorch's users write it: one matrix for queries, keys and values, attention in one
    kernel. Gives [N * T, tokens]."""

    TOKENS, CONTEXT, LAYERS, HEADS, WIDTH = 50304, 1024, 12, 12, 768

    class Block(nn.Module):
        def __init__(self, width, heads):
            super().__init__()
            self.heads = heads
            self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.attention, self.output = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.fc1, self.fc2 = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x):
            parts = self.attention(self.norm1(x)).unflatten(2, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
            seen = nn.functional.scaled_dot_product_attention(*parts, is_causal=True)
            x = x + self.output(seen.transpose(1, 2).reshape(x.shape))
            return x + self.fc2(nn.functional.gelu(self.fc1(self.norm2(x))))

    def __init__(self):
        super().__init__()
        self.token, self.position = nn.Embedding(self.TOKENS, self.WIDTH), nn.Embedding(self.CONTEXT, self.WIDTH)
        self.blocks = nn.Sequential(*(self.Block(self.WIDTH, self.HEADS) for _ in range(self.LAYERS)))
        self.norm = nn.LayerNorm(self.WIDTH)
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, std=0.02)

    def forward(self, tokens):
        x = self.norm(self.blocks(self.token(tokens) + self.position.weight[:tokens.shape[1]]))
        return nn.functional.linear(x, self.token.weight).flatten(0, 1)


def gpt2(batch):
    tokens = torch.randint(Gpt2.TOKENS, (batch, Gpt2.CONTEXT))
    targets = torch.randint(Gpt2.TOKENS, (batch * Gpt2.CONTEXT,))
    return Gpt2(), tokens, targets, nn.CrossEntropyLoss(), dict(lr=0.01, momentum=0.9)


# (what makes it of a number of samples, that number)
CASES = {
    "toy": (toy, 20),
    "mlp": (mlp, 100),
    "resnet20_32": (lambda batch: resnet("resnet20", batch, 32), 128),
    "resnet18_32": (lambda batch: resnet("resnet18", batch, 32), 64),
    "resnet50_32": (lambda batch: resnet("resnet50", batch, 32), 32),
    "resnet50_224": (lambda batch: resnet("resnet50", batch, 224), 8),
    "gpt2_124m": (gpt2, 16),
}


def kilobytes(file, key):
    with open(file) as lines:
        return next((float(line.split()[1]) for line in lines if line.startswith(key + ":")), 0.0)


def peak_memory_mb():
    """As bench/memory.h."""
    status = "/proc/self/status"
    return (kilobytes(status, "VmHWM") - kilobytes(status, "RssShmem")
            + kilobytes("/proc/self/smaps_rollup", "Pss_Shmem")) / 1024


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--case", choices=sorted(CASES), default="mlp")
    parser.add_argument("--warmup", type=int, default=3)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--batch", type=int, default=0, help="samples of a rank; 0: the case's own number")
    parser.add_argument("--set-to-none", action="store_true", help="remove gradients, which is the default since 2.0")
    parser.add_argument("--channels-last", action="store_true", help="pictures and weights in channels_last")
    parser.add_argument("--bfloat16", action="store_true", help="forward under autocast with bfloat16")
    parser.add_argument("--compile", action="store_true", help="torch.compile of the data-parallel model")
    parser.add_argument("--compile-mode", default="default", help="the mode of torch.compile, for example reduce-overhead")
    parser.add_argument("--fused", action="store_true", help="the optimizer as one kernel")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu", help="cuda: that of LOCAL_RANK")
    args = parser.parse_args()

    torch.set_num_threads(1)
    torch.manual_seed(1)
    on_cuda = args.device == "cuda"
    backend = "nccl" if on_cuda else "gloo"
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if on_cuda else torch.device("cpu")
    if on_cuda:
        torch.cuda.set_device(device)
    dist.init_process_group(backend)
    make, batch = CASES[args.case]
    model, inputs, targets, criterion, options = make(args.batch or batch)
    model, inputs, targets = model.to(device), inputs.to(device), targets.to(device)
    if args.channels_last:
        model = model.to(memory_format=torch.channels_last)
        inputs = inputs.contiguous(memory_format=torch.channels_last)
    ddp = DistributedDataParallel(model, device_ids=[device] if on_cuda else None)
    if args.fused:
        options["fused"] = True
    optimizer = torch.optim.SGD(ddp.parameters(), **options)
    forward = torch.compile(ddp, mode=args.compile_mode) if args.compile else ddp
    precision = torch.autocast(args.device, torch.bfloat16) if args.bfloat16 else contextlib.nullcontext()
    zeroing = {"set_to_none": True} if args.set_to_none else {}

    def step():
        optimizer.zero_grad(**zeroing)
        with precision:
            loss = criterion(forward(inputs), targets)
        loss.backward()
        optimizer.step()

    def finish():
        if on_cuda:
            torch.cuda.synchronize()
        dist.barrier()

    for _ in range(args.warmup):
        step()
    finish()
    start = time.perf_counter()
    for _ in range(args.steps):
        step()
    finish()
    seconds = time.perf_counter() - start
    if dist.get_rank() == 0:
        world = dist.get_world_size()
        print(json.dumps({
            "case": args.case,
            "world": world,
            "backend": backend,
            "pytorch": torch.__version__,
            "steps": args.steps,
            "seconds": seconds,
            "samples_per_s": len(inputs) * world * args.steps / seconds,
            "peak_memory_mb": peak_memory_mb(),
        }))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
