#!/usr/bin/env python3
"""One rank of a job that trains with what PyTorch builds on its collectives, with lockstep and with gloo, and compares.

    torchrun --nproc-per-node 2 tests/python/users_of_collectives.py [WORDS...]
"""
import os
import sys
import tempfile

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as checkpoint
from torch.distributed._functional_collectives import all_gather_tensor, all_reduce, reduce_scatter_tensor
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.distributed.tensor import Replicate, Shard, distribute_tensor
from torch.nn.parallel import DistributedDataParallel

import lockstep  # noqa: F401: it registers the backend


def network():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 8))


def batches(count=5):
    generator = torch.Generator().manual_seed(1 + dist.get_rank())
    return [torch.randn(4, 16, generator=generator) for _ in range(count)]


def train(model, optimizer=None, inputs=None):
    optimizer = optimizer or torch.optim.SGD(model.parameters(), lr=0.1)
    for batch in inputs or batches():
        optimizer.zero_grad()
        model(batch).square().mean().backward()
        optimizer.step()
    return [parameter.detach() for parameter in model.parameters()]


def ddp():
    return train(DistributedDataParallel(network(), bucket_cap_mb=0.001))


def ddp_views():
    return train(DistributedDataParallel(network(), gradient_as_bucket_view=True, static_graph=True))


def ddp_hook():
    model = DistributedDataParallel(network())
    model.register_comm_hook(None, default_hooks.fp16_compress_hook)
    return train(model)


def ddp_power_sgd():
    model = DistributedDataParallel(network())
    model.register_comm_hook(powerSGD_hook.PowerSGDState(None, start_powerSGD_iter=2), powerSGD_hook.powerSGD_hook)
    return train(model)


def ddp_join():
    model = DistributedDataParallel(network())
    with model.join():
        return train(model, inputs=batches(2 + dist.get_rank()))


def fsdp2():
    model = network()
    for layer in model:
        fully_shard(layer)
    fully_shard(model)
    return [parameter.full_tensor() for parameter in train(model)]


def zero():
    model = DistributedDataParallel(network())
    return train(model, ZeroRedundancyOptimizer(model.parameters(), torch.optim.Adam, lr=0.01))


def dtensor():
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    one = distribute_tensor(torch.arange(24.0).reshape(6, 4), mesh, [Shard(0)])
    other = distribute_tensor(torch.arange(8.0).reshape(4, 2), mesh, [Replicate()])
    product = one @ other
    return [product.full_tensor(), one.redistribute(mesh, [Shard(1)]).full_tensor(), one.sum().full_tensor()]


def functional():
    group = dist.group.WORLD

    def compute(tensor):
        return all_gather_tensor(all_reduce(tensor * 2, "sum", group), 0, group) + 1

    tensor = torch.arange(4.0) + dist.get_rank()
    results = [compute(tensor), reduce_scatter_tensor(torch.arange(4.0 * dist.get_world_size()), "sum", 0, group)]
    return [torch.clone(result) for result in results]


def compiled():
    @torch.compile(backend="aot_eager")
    def compute(tensor):
        return all_reduce(tensor * 2, "sum", dist.group.WORLD) + 1

    return [compute(torch.arange(4.0) + dist.get_rank())]


def dcp():
    model = network()
    fully_shard(model)
    train(model)
    folder = [tempfile.mkdtemp()]
    dist.broadcast_object_list(folder, 0)
    state = {"model": model.state_dict()}
    checkpoint.save(state, checkpoint_id=folder[0])
    fresh = network()
    fully_shard(fresh)
    state = {"model": fresh.state_dict()}
    checkpoint.load(state, checkpoint_id=folder[0])
    fresh.load_state_dict(state["model"])
    return [parameter.full_tensor() for parameter in fresh.parameters()]


USERS = [ddp, ddp_views, ddp_hook, ddp_power_sgd, ddp_join, fsdp2, zero, dtensor, functional, compiled, dcp]


def results_with(backend, users):
    dist.init_process_group(backend)
    results = {}
    for user in users:
        results[user.__name__] = user()
        if dist.get_rank() == 0:
            print(f"{user.__name__} with {backend}", flush=True)
    dist.destroy_process_group()
    return results


def main():
    users = [user for user in USERS if not sys.argv[1:] or user.__name__ in sys.argv[1:]]
    found, expected = results_with("lockstep", users), results_with("gloo", users)
    for name, tensors in expected.items():
        for one, other in zip(tensors, found[name]):
            torch.testing.assert_close(other, one, msg=lambda text, name=name: f"{name}: {text}")
    print(f"ok: {len(users)} users of collectives", flush=True)


if __name__ == "__main__":
    main()
    sys.stdout.flush()
    os._exit(0)  # gloo's threads abort some processes while Python ends: 2 of 12, with PyTorch alone
