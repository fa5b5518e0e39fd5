#!/usr/bin/env python3
"""One rank of four that train with what PyTorch builds on meshes and stages, with lockstep and with gloo, and compare.

    torchrun --nproc-per-node 4 tests/python/users_of_meshes.py [WORDS...]

The ranks are a mesh of 2 x 2, so that each sum has two summands: results are the same to the last bit. Only what all four
ranks sum (SUMS_OF_FOUR) may differ as float32 does when it is summed in another order.
"""
import itertools
import os
import sys
import tempfile

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as checkpoint
import torch.distributed.nn.functional as differentiable
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict, get_optimizer_state_dict, set_model_state_dict
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe, ScheduleInterleaved1F1B
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, SequenceParallel, loss_parallel, parallelize_module

from users_of_collectives import network, results_with, train

RANKS = 4


def mesh_of(*names):
    return init_device_mesh("cpu", (2, 2), mesh_dim_names=names)


def redistribute():
    """Each pair of placements, of a tensor that no number of ranks divides. Whole numbers, so each order of a sum is right."""
    mesh = mesh_of("rows", "columns")
    whole = torch.arange(5.0 * 7).reshape(5, 7)
    kept = [Replicate(), Shard(0), Shard(1)]
    results = []
    for source in itertools.product([*kept, Partial()], repeat=2):
        local = distribute_tensor(whole, mesh, [Replicate() if place == Partial() else place for place in source]).to_local()
        if Partial() in source:
            local = local * (1 + dist.get_rank())
        tensor = DTensor.from_local(local, mesh, source, run_check=False, shape=whole.shape, stride=whole.stride())
        for target in itertools.product(kept, repeat=2):
            results.append(tensor.redistribute(mesh, target).to_local().clone())
    return results


def hybrid_sharding():
    mesh = mesh_of("copies", "parts")
    model = network()
    for layer in (*model, model):
        fully_shard(layer, mesh=mesh)
    return [parameter.full_tensor() for parameter in train(model, torch.optim.Adam(model.parameters(), lr=0.01))]


def fsdp1():
    model = FullyShardedDataParallel(network(), device_id=torch.device("cpu"), process_group=mesh_of("copies", "parts").get_group("parts"))
    train(model)
    with FullyShardedDataParallel.summon_full_params(model):
        return [parameter.detach().clone() for parameter in model.parameters()]


class Attention(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.table = torch.nn.Embedding(32, 16)
        self.norm = torch.nn.LayerNorm(16)
        self.into = torch.nn.Linear(16, 32)
        self.out = torch.nn.Linear(32, 16)
        self.scores = torch.nn.Linear(16, 32)

    def forward(self, words):
        values = self.norm(self.table(words))
        return self.scores(self.out(torch.relu(self.into(values))))


def tensor_parallel():
    """Columns, rows and sequences over two ranks, and data over two."""
    mesh = mesh_of("data", "tensor")
    torch.manual_seed(0)
    model = parallelize_module(Attention(), mesh["tensor"], {
        "table": RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1)),
        "norm": SequenceParallel(),
        "into": ColwiseParallel(input_layouts=Shard(1)),
        "out": RowwiseParallel(output_layouts=Shard(1)),
        "scores": ColwiseParallel(input_layouts=Shard(1), output_layouts=Shard(-1), use_local_output=False)})
    fully_shard(model, mesh=mesh["data"])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    generator = torch.Generator().manual_seed(1 + mesh["data"].get_local_rank())
    losses = []
    for _ in range(4):
        words = torch.randint(32, (2, 8), generator=generator)
        optimizer.zero_grad()
        with loss_parallel():
            loss = torch.nn.functional.cross_entropy(model(words).flatten(0, 1), words.flatten())
            loss.backward()
        optimizer.step()
        losses.append(loss.full_tensor().detach())
    return losses + [parameter.full_tensor().detach() for parameter in model.parameters()]


def pipeline():
    """Activations and gradients between stages: one stage for each rank, and two."""
    def stages(count):
        torch.manual_seed(0)
        layers = [torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.Tanh()) for _ in range(count)]
        return [PipelineStage(layers[index], index, count, torch.device("cpu")) for index in range(dist.get_rank(), count, RANKS)]

    generator = torch.Generator().manual_seed(1)
    inputs, targets = torch.randn(16, 16, generator=generator), torch.randn(16, 16, generator=generator)
    results = []
    for kind in (ScheduleGPipe, Schedule1F1B, ScheduleInterleaved1F1B):
        own = stages(2 * RANKS if kind is ScheduleInterleaved1F1B else RANKS)
        schedule = kind(own if kind is ScheduleInterleaved1F1B else own[0], 8, loss_fn=torch.nn.functional.mse_loss)
        losses = []
        for _ in range(3):
            last = own[-1].is_last
            schedule.step(*([inputs] if own[0].is_first else []), **({"target": targets, "losses": losses} if last else {}))
            results += [loss.detach() for loss in losses]
        results += [parameter.grad for stage in own for parameter in stage.submod.parameters()]
    return results


def common_folder():
    folder = [tempfile.mkdtemp() if dist.get_rank() == 0 else None]
    dist.broadcast_object_list(folder, 0)
    return folder[0]


def state_of(model, optimizer):
    return {"model": get_model_state_dict(model), "optimizer": get_optimizer_state_dict(model, optimizer)}


def trained(mesh=None):
    model = network()
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    train(model, optimizer)
    return model, optimizer


def full(tensors):
    return [tensor.full_tensor().detach() if isinstance(tensor, DTensor) else tensor.detach() for tensor in tensors]


def flat(state):
    """The tensors of nested dictionaries, in the order of their keys."""
    if isinstance(state, dict):
        return [tensor for key in sorted(state) for tensor in flat(state[key])]
    return [state] if isinstance(state, torch.Tensor) else []


def resharded_checkpoint():
    """Saved by four ranks, and read by two of them with parts of another size, which then have what was saved."""
    folder, (model, optimizer) = common_folder(), trained()
    saved = state_of(model, optimizer)
    checkpoint.save(saved, checkpoint_id=folder)
    expected = full(flat(saved))
    two = DeviceMesh("cpu", [0, 1])
    if dist.get_rank() >= 2:
        return expected
    model = network()
    fully_shard(model, mesh=two)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()  # makes the optimizer's tensors
    state = state_of(model, optimizer)
    checkpoint.load(state, checkpoint_id=folder, process_group=two.get_group())
    found = full(flat(state))
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=0)
    return found


def checkpoint_in_the_background():
    """The thread that saves has collectives of its own while the training goes on."""
    folder, (model, optimizer) = common_folder(), trained()
    group = dist.new_group()
    saving = checkpoint.async_save(state_of(model, optimizer), checkpoint_id=folder, process_group=group)
    results = full(train(model, optimizer))
    saving.result()
    state = state_of(model, optimizer)
    checkpoint.load(state, checkpoint_id=folder)
    return results + full(flat(state))


def state_from_rank_0():
    options = StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)
    state = get_model_state_dict(trained()[0], options=StateDictOptions(full_state_dict=True, cpu_offload=True))
    fresh = network()
    fully_shard(fresh, mesh=mesh_of("copies", "parts"))
    set_model_state_dict(fresh, state if dist.get_rank() == 0 else {}, options=options)
    return full(fresh.parameters())


def gradients_of_collectives():
    rank = dist.get_rank()
    tensor = (torch.arange(8.0) + rank).requires_grad_()
    total = differentiable.all_reduce(tensor * 2).square().sum()
    total = total + torch.stack(differentiable.all_gather(tensor)).pow(3).sum()
    total = total + (differentiable.all_to_all_single(torch.empty(8), tensor) * (1 + rank)).sum()
    total = total + differentiable.broadcast(tensor, 1).sum()
    total = total + differentiable.reduce(tensor, 2).sum() * (rank == 2)  # what the others hold is not said; with gloo, parts of sums
    total.backward()
    return [total.detach(), tensor.grad]


USERS = [redistribute, hybrid_sharding, fsdp1, tensor_parallel, pipeline, resharded_checkpoint, checkpoint_in_the_background,
         state_from_rank_0, gradients_of_collectives]
SUMS_OF_FOUR = {"resharded_checkpoint", "checkpoint_in_the_background", "state_from_rank_0"}


def main():
    users = [user for user in USERS if not sys.argv[1:] or user.__name__ in sys.argv[1:]]
    found, expected = results_with("lockstep", users), results_with("gloo", users)
    for name, tensors in expected.items():
        assert tensors, f"{name} has no results to compare"
        tolerance = {} if name in SUMS_OF_FOUR else {"rtol": 0, "atol": 0}
        for one, other in zip(tensors, found[name], strict=True):
            torch.testing.assert_close(other, one, **tolerance, msg=lambda text, name=name: f"{name}: {text}")
    print(f"ok: {len(users)} users of meshes", flush=True)


if __name__ == "__main__":
    main()
    sys.stdout.flush()
    os._exit(0)  # gloo's threads abort some processes while Python ends: 2 of 12, with PyTorch alone
