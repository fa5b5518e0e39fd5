#!/usr/bin/env python3
"""One step of DistributedDataParallel on each GPU, or on the CPU where there is none, with two ways in.

    lockstep run --nproc-per-node 2 examples/python/one_step.py     # or one_step_launch.sh, one_step_run.sh
    python examples/python/one_step_spawn.py ...                    # starts its ranks itself, with init_from_arguments()

The last line has the same sum on all ranks. LOCKSTEP_EXAMPLE_BACKEND=gloo compares with another backend.
"""
import os

import torch
import torch.distributed as dist
from torch import nn, optim
from torch.nn.parallel import DistributedDataParallel

import lockstep  # noqa: F401: it makes the backend "lockstep" known

BACKEND = os.environ.get("LOCKSTEP_EXAMPLE_BACKEND", "lockstep")


def init_from_arguments(local_rank, first_rank, world_size, init_method):
    """Of a process that torch.multiprocessing.spawn started."""
    dist.init_process_group(BACKEND, rank=first_rank + local_rank, init_method=init_method, world_size=world_size)
    train(local_rank)


def init_from_environment():
    """Of a process that a launcher started."""
    dist.init_process_group(backend=BACKEND, init_method="env://")
    train(int(os.environ["LOCAL_RANK"]))


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(10, 10)
        self.relu = nn.ReLU()
        self.second = nn.Linear(10, 5)

    def forward(self, values):
        return self.second(self.relu(self.first(values)))


def train(local_rank):
    gpu = torch.cuda.is_available()
    device = torch.device("cuda", local_rank) if gpu else torch.device("cpu")
    torch.manual_seed(dist.get_rank())  # so that each way to start computes the same
    network = DistributedDataParallel(Network().to(device), device_ids=[local_rank] if gpu else None)
    optimizer = optim.SGD(network.parameters(), lr=0.001)

    optimizer.zero_grad()
    outputs = network(torch.randn(20, 10).to(device))
    nn.functional.mse_loss(outputs, torch.randn(20, 5).to(device)).backward()
    optimizer.step()

    total = sum(parameter.double().sum() for parameter in network.parameters()).item()
    line = f"rank {dist.get_rank()} of {dist.get_world_size()} with {dist.get_backend()}: sum of parameters {total:.12f}"
    print(line + "\n", end="", flush=True)  # one write: lines of ranks that share a terminal do not mix
    dist.destroy_process_group()


if __name__ == "__main__":
    init_from_environment()
