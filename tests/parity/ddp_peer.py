"""Trains the jobs of job files with PyTorch's DistributedDataParallel over Gloo: what Lockstep is compared with.

    ddp_peer.py WORLD_SIZE JOB.json...

One process is forked for each rank. Each job's `out` names the results: OUT.rank0.json, ..., and OUT.safetensors.
"""

import contextlib
import json
import multiprocessing
import os
import sys
import tempfile

from parity_support import end_with_parent  # before torch: it sets the number of threads

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel

import safetensors_io
from twins import make_model


def load_model(job):
    model = make_model(job)
    weights, _ = safetensors_io.read(job["weights"])
    model.load_state_dict(weights)
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(name not in job["frozen"])
    return model.to(getattr(torch, job["dtype"]))


def share_of_rank(tensor, step, rank, batch_size):
    return tensor[step, rank * batch_size : (rank + 1) * batch_size]


def route(rank, step):
    """Which head a rank uses: both are in use, on different ranks, but in each fourth step only head 0."""
    return 0 if step % 4 == 3 else (rank + step) % 2


def train(job, rank, world):
    model = load_model(job)
    replica = model
    if world > 1:
        replica = DistributedDataParallel(model, find_unused_parameters=job["model"] == "two_heads")
    trainable = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.SGD(trainable, lr=job["learning_rate"], momentum=job["momentum"])
    batches, _ = safetensors_io.read(job["batches"])
    losses = []
    for step in range(job["steps"]):
        model.route = route(rank, step)
        pictures = share_of_rank(batches["pictures"], step, rank, job["batch_size"]).to(getattr(torch, job["dtype"]))
        labels = share_of_rank(batches["labels"], step, rank, job["batch_size"])
        optimizer.zero_grad(set_to_none=True)
        losses.append(accumulate(replica, pictures, labels, job["micro_batches"]))
        optimizer.step()
    return model, losses


def accumulate(replica, pictures, labels, micro_batches):
    """Gradients of the whole batch, summed over micro-batches, sent once; returns the mean loss."""
    total = 0.0
    parts = list(zip(pictures.chunk(micro_batches), labels.chunk(micro_batches)))
    for i, (some_pictures, some_labels) in enumerate(parts):
        is_last = i + 1 == len(parts)
        quiet = isinstance(replica, DistributedDataParallel) and not is_last
        with replica.no_sync() if quiet else contextlib.nullcontext():
            loss = F.cross_entropy(replica(some_pictures), some_labels) / micro_batches
            loss.backward()
        total += loss.item()
    return total


def run_rank(rank, world, store, job_files):
    end_with_parent()
    if world > 1:
        dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=world)
    for job_file in job_files:
        with open(job_file) as file:
            job = json.load(file)
        model, losses = train(job, rank, world)
        with open(f"{job['out']}.rank{rank}.json", "w") as file:
            json.dump({"losses": losses}, file)
        if rank == 0:
            safetensors_io.write(f"{job['out']}.safetensors", model.state_dict())


def main():
    world = int(sys.argv[1])
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    fork = multiprocessing.get_context("fork")
    with tempfile.TemporaryDirectory(prefix="lockstep-ddp-peer-") as folder:
        arguments = (world, os.path.join(folder, "store"), sys.argv[2:])
        ranks = [fork.Process(target=run_rank, args=(rank, *arguments), daemon=True) for rank in range(world)]
        for process in ranks:
            process.start()
        for process in ranks:
            process.join()
    return 0 if all(process.exitcode == 0 for process in ranks) else 1


if __name__ == "__main__":
    sys.exit(main())
