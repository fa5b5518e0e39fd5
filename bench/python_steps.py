#!/usr/bin/env python3
"""Training steps of DDP and FSDP2 with lockstep beside gloo, in turns on the same ranks.

    torchrun --nproc-per-node 2 bench/python_steps.py [--cases resnet50 resnet18 mlp gpt gpt_2 fsdp2] [--profile]

Prints for each case the median time of a step with each backend, and the median of the rounds' ratios. The rounds of both
alternate. One thread for each rank. --profile prints where the time of one step of each backend goes.
"""
import argparse
import os
import statistics
import time

os.environ.setdefault("DDP_DISABLE_COMM_MEM", "0")  # buckets in memory of the backend (docs/python.md); gloo has none

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from pytorch_ddp_step import Gpt2, mlp, resnet  # noqa: E402
from torch import nn  # noqa: E402
from torch.distributed.device_mesh import DeviceMesh  # noqa: E402
from torch.distributed.fsdp import fully_shard  # noqa: E402
from torch.nn.parallel import DistributedDataParallel  # noqa: E402

import lockstep  # noqa: E402, F401: it registers the backend


class Gpt(Gpt2):
    """Of 10 million parameters, for sequences of 64 tokens."""

    TOKENS, CONTEXT, LAYERS, HEADS, WIDTH = 8192, 64, 6, 5, 320


def gpt(batch):
    tokens = torch.randint(Gpt.TOKENS, (batch, Gpt.CONTEXT))
    return Gpt(), tokens, tokens.flatten(), nn.CrossEntropyLoss(), dict(lr=0.01, momentum=0.9)


# case: (model and data, samples of each rank, steps of a round)
CASES = {"resnet50": (lambda batch: resnet("resnet50", batch, 32), 32, 3),
         "resnet18": (lambda batch: resnet("resnet18", batch, 32), 32, 5),
         "mlp": (mlp, 32, 20), "gpt": (gpt, 4, 5), "gpt_2": (gpt, 2, 8), "fsdp2": (gpt, 4, 5)}


def step_of(case, backend):
    """A function that trains one step with this backend."""
    torch.manual_seed(1)
    make, batch, _ = CASES[case]
    model, inputs, targets, loss_of, options = make(batch)
    group = dist.new_group(backend=backend)
    if case == "fsdp2":
        mesh = DeviceMesh.from_group(group, "cpu", mesh_dim_names=("data",))
        for block in model.blocks:
            fully_shard(block, mesh=mesh)
        fully_shard(model, mesh=mesh)
    else:
        model = DistributedDataParallel(model, process_group=group, gradient_as_bucket_view=True)
    optimizer = torch.optim.SGD(model.parameters(), **options)

    def step():
        optimizer.zero_grad()
        loss = loss_of(model(inputs), targets)
        loss.backward()
        optimizer.step()
        return loss
    return step


def seconds_per_step(step, steps):
    dist.barrier()
    begin = time.perf_counter()
    for _ in range(steps):
        step()
    return (time.perf_counter() - begin) / steps


def measure(case, rounds):
    steps = {backend: step_of(case, backend) for backend in ("gloo", "lockstep")}
    for step in steps.values():
        seconds_per_step(step, 3)
    times = {backend: [] for backend in steps}
    for _ in range(rounds):
        for backend, step in steps.items():
            times[backend].append(seconds_per_step(step, CASES[case][2]))
    losses = {step().item() for step in steps.values()}
    if dist.get_rank() == 0:
        ratios = sorted(gloo / own for gloo, own in zip(times["gloo"], times["lockstep"]))
        median = {backend: statistics.median(times[backend]) * 1e3 for backend in times}
        print(f"{case:>9}: gloo {median['gloo']:8.2f} ms, lockstep {median['lockstep']:8.2f} ms, ratio {statistics.median(ratios):.2f} "
              f"({ratios[0]:.2f} to {ratios[-1]:.2f}), losses {sorted(losses)}", flush=True)
    return steps


def profile(steps):
    for backend, step in steps.items():
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as seen:
            step()
        if dist.get_rank() == 0:
            print(backend, seen.key_averages().table(sort_by="self_cpu_time_total", row_limit=15), flush=True)


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES))
    arguments.add_argument("--rounds", type=int, default=9)
    arguments.add_argument("--profile", action="store_true")
    arguments = arguments.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    for case in arguments.cases:
        steps = measure(case, arguments.rounds)
        if arguments.profile:
            profile(steps)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
