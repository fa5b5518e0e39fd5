#!/usr/bin/env python3
"""A program that starts the ranks of its host itself, with torch.multiprocessing.spawn. Started once on every host:

    python examples/python/one_step_spawn.py --init_method tcp://HOST:6060 --world_size 2 --rank 0

world_size and rank count hosts. Each has a rank for each GPU or, without GPUs, as many as --ranks_per_host says.
"""
import argparse

import torch
import torch.multiprocessing as mp

from one_step import init_from_arguments

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--world_size", type=int, required=True)
    parser.add_argument("--rank", type=int, required=True)
    parser.add_argument("--init_method", required=True)
    parser.add_argument("--ranks_per_host", type=int, default=1)
    arguments, _ = parser.parse_known_args()

    ranks = torch.cuda.device_count() or arguments.ranks_per_host
    mp.spawn(init_from_arguments, args=(ranks * arguments.rank, ranks * arguments.world_size, arguments.init_method),
             nprocs=ranks, join=True)
