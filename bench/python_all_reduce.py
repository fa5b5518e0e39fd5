#!/usr/bin/env python3
"""all_reduce of torch.distributed with lockstep beside gloo, in turns on the same ranks.

    torchrun --nproc-per-node 2 bench/python_all_reduce.py [--sizes BYTES...]

Prints for each size the median time of one call with each backend, and their ratio. The rounds of both alternate.
"""
import argparse
import statistics
import time

import torch
import torch.distributed as dist

import lockstep  # noqa: F401: it registers the backend


def seconds_per_call(tensor, group, calls):
    dist.barrier(group=group)
    begin = time.perf_counter()
    for _ in range(calls):
        dist.all_reduce(tensor, group=group)
    return (time.perf_counter() - begin) / calls


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--sizes", type=int, nargs="+", default=[1 << 10, 64 << 10, 1 << 20, 100_000_000])
    arguments.add_argument("--rounds", type=int, default=9)
    arguments = arguments.parse_args()
    dist.init_process_group("gloo")
    groups = {name: dist.new_group(backend=name) for name in ("gloo", "lockstep")}
    for size in arguments.sizes:
        tensor = torch.zeros(size // 4)
        calls = max(1, min(200, 20_000_000 // size))
        times = {name: [] for name in groups}
        for name, group in groups.items():
            seconds_per_call(tensor, group, 2)
        for _ in range(arguments.rounds):
            for name, group in groups.items():
                times[name].append(seconds_per_call(tensor, group, calls))
        median = {name: statistics.median(times[name]) * 1e6 for name in groups}
        if dist.get_rank() == 0:
            print(f"{size:>10} bytes: gloo {median['gloo']:10.1f} us, lockstep {median['lockstep']:10.1f} us, "
                  f"ratio {median['gloo'] / median['lockstep']:.1f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
