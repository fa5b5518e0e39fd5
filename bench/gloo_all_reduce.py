#!/usr/bin/env python3
"""Times torch.distributed's all_reduce over Gloo, as a peer for `lockstep bench all_reduce`.

Started by vs_all_reduce.py, one process a rank, with RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT set; arguments are
sizes in bytes. Rank 0 prints one JSON object a size.
"""
import json
import statistics
import sys
import time

import torch
import torch.distributed as dist


def seconds_of(tensor, times):
    dist.barrier()
    start = time.perf_counter()
    for _ in range(times):
        dist.all_reduce(tensor)
    return (time.perf_counter() - start) / times


def measure(size):
    tensor = torch.zeros(size // 4)
    times = torch.tensor([min(max(int(0.02 / max(seconds_of(tensor, 3), 1e-7)), 2), 10_000)])
    dist.broadcast(times, 0)
    return statistics.median(seconds_of(tensor, int(times)) for _ in range(5))


torch.set_num_threads(1)
dist.init_process_group("gloo")
for argument in sys.argv[1:]:
    seconds = measure(int(argument))
    if dist.get_rank() == 0:
        print(json.dumps({"bytes": int(argument), "us": seconds * 1e6}), flush=True)
dist.destroy_process_group()
