"""A Python DDP program, started as a rank: it must not notice that no torchrun started it."""
import sys

import torch
import torch.distributed as dist

torch.set_num_threads(1)
dist.init_process_group("gloo")
rank = dist.get_rank()

total = torch.tensor([float(rank + 1)])
dist.all_reduce(total)

model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(1, 1, bias=False))
if "fail" in sys.argv and rank == 1:
    raise ValueError("rank 1 was told to fail")
model(torch.tensor([[float(rank + 1)]])).sum().backward()
print(f"sum {total.item():g} mean gradient {model.module.weight.grad.item():g}")
dist.destroy_process_group()
