#!/usr/bin/env python3
"""Data-parallel training with PyTorch's DistributedDataParallel, and Lockstep as its backend.

    lockstep run --nproc-per-node 2 python examples/python/ddp.py
    torchrun --nproc-per-node 2 examples/python/ddp.py --backend gloo

The data is made up: each label follows from the picture's brightest quarter. The last line is the same on all ranks.
"""
import argparse

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import lockstep  # noqa: F401: it makes the backend "lockstep" known


def model():
    return torch.nn.Sequential(
        torch.nn.Conv2d(1, 16, 3, padding=1), torch.nn.BatchNorm2d(16), torch.nn.ReLU(), torch.nn.MaxPool2d(4),
        torch.nn.Flatten(), torch.nn.Linear(16 * 16, 64), torch.nn.ReLU(), torch.nn.Linear(64, 4))


def pictures(generator, count):
    labels = torch.randint(4, (count,), generator=generator)
    images = torch.rand(count, 1, 16, 16, generator=generator)
    for image, label in zip(images, labels.tolist()):
        row, column = 8 * (label // 2), 8 * (label % 2)
        image[0, row:row + 8, column:column + 8] += 0.2
    return images, labels


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--backend", default="lockstep")
    arguments.add_argument("--steps", type=int, default=60)
    arguments = arguments.parse_args()

    dist.init_process_group(arguments.backend)
    rank, size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)  # DistributedDataParallel sends the parameters of rank 0 anyway
    network = DistributedDataParallel(model())
    optimizer = torch.optim.SGD(network.parameters(), lr=0.05, momentum=0.9)
    generator = torch.Generator().manual_seed(1 + rank)

    loss = torch.zeros(())
    for _ in range(arguments.steps):
        images, labels = pictures(generator, 32)
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(network(images), labels)
        loss.backward()
        optimizer.step()

    loss = loss.detach()
    dist.all_reduce(loss)
    total = sum(parameter.double().sum() for parameter in network.parameters()).item()
    line = f"rank {rank} of {size} with {dist.get_backend()}: loss {loss.item() / size:.4f}, sum of parameters {total:.6f}"
    print(line + "\n", end="", flush=True)  # one write: lines of ranks that share a terminal do not mix
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
