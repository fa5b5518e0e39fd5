#!/usr/bin/env python3
"""Times data-parallel training steps with PyTorch DDP over Gloo (on CUDA: NCCL), on the workloads of cases.cpp.

Started by vs_pytorch_ddp.py, one process a rank, with RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT set.
Rank 0 prints one JSON object.
"""
import argparse
import contextlib
import json
import os
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def toy():
    model = nn.Sequential(nn.Linear(10, 10), nn.ReLU(), nn.Linear(10, 5))
    return model, torch.randn(20, 10), torch.randn(20, 5), nn.MSELoss(), dict(lr=0.001)


def mlp():
    model = nn.Sequential(nn.Linear(784, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 10))
    return model, torch.randn(100, 784), torch.randint(10, (100,)), nn.CrossEntropyLoss(), dict(lr=0.01, momentum=0.9)


def resnet(name, batch, size):
    import torchvision

    model = getattr(torchvision.models, name)(num_classes=10)
    inputs = torch.randn(batch, 3, size, size)
    return model, inputs, torch.randint(10, (batch,)), nn.CrossEntropyLoss(), dict(lr=0.01, momentum=0.9)


CASES = {
    "toy": toy,
    "mlp": mlp,
    "resnet18_32": lambda: resnet("resnet18", 64, 32),
    "resnet50_32": lambda: resnet("resnet50", 32, 32),
    "resnet50_224": lambda: resnet("resnet50", 8, 224),
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
    parser.add_argument("--set-to-none", action="store_true", help="remove gradients, which is the default since 2.0")
    parser.add_argument("--channels-last", action="store_true", help="pictures and weights in channels_last")
    parser.add_argument("--bfloat16", action="store_true", help="forward under autocast with bfloat16")
    parser.add_argument("--compile", action="store_true", help="torch.compile of the data-parallel model")
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
    model, inputs, targets, criterion, options = CASES[args.case]()
    model, inputs, targets = model.to(device), inputs.to(device), targets.to(device)
    if args.channels_last:
        model = model.to(memory_format=torch.channels_last)
        inputs = inputs.contiguous(memory_format=torch.channels_last)
    ddp = DistributedDataParallel(model, device_ids=[device] if on_cuda else None)
    if args.fused:
        options["fused"] = True
    optimizer = torch.optim.SGD(ddp.parameters(), **options)
    forward = torch.compile(ddp) if args.compile else ddp
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
