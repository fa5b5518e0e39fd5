#!/usr/bin/env python3
"""What bench/first_all_reduce.cpp does, in Python. Started by vs_startup.py with torchrun's variables set."""
import time

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
number = torch.ones(1)
dist.all_reduce(number)
print(f"{time.time():.6f} {number.item():g}", flush=True)
dist.destroy_process_group()
