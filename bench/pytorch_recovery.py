#!/usr/bin/env python3
"""Trains a small GPT with PyTorch until --steps steps are done, also when its processes are killed meanwhile.

Started by recovery_race.py: with --way torchrun by torchrun, under DistributedDataParallel, with checkpoints of
torch.distributed.checkpoint; with --way torchft once for each rank, as a replica of torchft that a lighthouse joins with the
others; --way lighthouse is that lighthouse. Each rank appends a line to progress.RANK after each completed step, and rank 0
leaves result.json (with torchft each rank, result.RANK.json).
"""
import argparse
import hashlib
import json
import os
import shutil
import time
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from pytorch_ddp_step import Gpt2
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict


class Samples:
    """Pieces of a text, which depend on the step and the rank alone."""

    def __init__(self, args, ranks):
        self.text = torch.frombuffer(bytearray(args.text.read_bytes()), dtype=torch.uint8).long()
        self.length, self.share, self.ranks = args.context, args.batch // ranks, ranks

    def of(self, step, rank):
        places = torch.randint(len(self.text) - self.length - 1, (self.share * self.ranks,), generator=torch.Generator().manual_seed(step))
        rows = [self.text[place:place + self.length + 1] for place in places[rank * self.share:(rank + 1) * self.share]]
        both = torch.stack(rows)
        return both[:, :-1], both[:, 1:].flatten()


def model_of(args):
    torch.manual_seed(1)
    Gpt2.TOKENS, Gpt2.CONTEXT, Gpt2.LAYERS, Gpt2.HEADS, Gpt2.WIDTH = 256, args.context, args.layers, args.heads, args.width
    return Gpt2()


def optimizer_of(model):
    return torch.optim.AdamW(model.parameters(), lr=0.001, weight_decay=0.01, fused=True)


def save(args, step, model, optimizer, more=None, **how):
    """The checkpoint of a step. The file .metadata is written last, so a checkpoint with it is complete."""
    folder = args.work_dir / "checkpoints"
    weights, moments = get_state_dict(model, optimizer)
    dcp.save({"model": weights, "optimizer": moments, "step": step, **(more or {})}, checkpoint_id=folder / f"step_{step:08}", **how)
    if "no_dist" in how or dist.get_rank() == 0:
        for old in complete(folder)[:-args.keep]:
            shutil.rmtree(old)


def complete(folder):
    return sorted(path.parent for path in folder.glob("step_*/.metadata"))


def load_newest(args, model, optimizer, more=None, **how):
    """Returns the numbers of the newest checkpoint; None without one."""
    checkpoints = complete(args.work_dir / "checkpoints")
    if not checkpoints:
        return None
    weights, moments = get_state_dict(model, optimizer)
    state = {"model": weights, "optimizer": moments, "step": 0, **(more or {})}
    dcp.load(state, checkpoint_id=checkpoints[-1], **how)
    set_state_dict(model, optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"])
    return state


def finish(file, model, loss, **more):
    digest = hashlib.sha256()
    for parameter in model.parameters():
        digest.update(parameter.detach().numpy().tobytes())
    file.write_text(json.dumps({"params_sha256": digest.hexdigest(), "loss": loss, **more}) + "\n")


def with_torchrun(args):
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    model = model_of(args)
    ddp = nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True)
    optimizer = optimizer_of(ddp)
    samples = Samples(args, dist.get_world_size())
    state = load_newest(args, model, optimizer)
    step = state["step"] if state else 0
    with open(args.work_dir / f"progress.{rank}", "a", buffering=1) as progress:
        while step < args.steps:
            inputs, targets = samples.of(step, rank)
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(ddp(inputs), targets)
            loss.backward()
            optimizer.step()
            step += 1
            progress.write(f"{step}\n")
            if step % args.checkpoint_every == 0:
                save(args, step, model, optimizer)
    if rank == 0:
        finish(args.work_dir / "result.json", model, loss.item())
    dist.barrier()
    dist.destroy_process_group()


def with_torchft(args):
    import torchft

    class Ddp(torchft.DistributedDataParallel):
        @staticmethod
        def _comm_hook(manager, bucket):
            # That of torchft 0.2.0 fails, and with it the rank, if gloo notices the loss of another rank during this wait.
            manager.allreduce(bucket.buffer()).wait()
            done = torch.futures.Future()
            done.set_result(bucket.buffer())
            return done

    rank = args.rank
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    model = model_of(args)
    optimizer = optimizer_of(model)

    def load(state):
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])

    manager = torchft.Manager(
        pg=torchft.ProcessGroupGloo(timeout=timedelta(seconds=30)), load_state_dict=load,
        state_dict=lambda: {"model": model.state_dict(), "optimizer": optimizer.state_dict()}, min_replica_size=1,
        rank=0, world_size=1, store_addr="127.0.0.1", store_port=store.port, lighthouse_addr=args.lighthouse_at,
        replica_id=f"replica_{rank}", init_sync=False, hostname="127.0.0.1")
    state = load_newest(args, model, optimizer, {"torchft": manager.state_dict()}, no_dist=True)
    if state:
        manager.load_state_dict(state["torchft"])
    # A lighthouse begins with those who are there, and the others would join a training that is under way.
    (args.work_dir / f"ready.{rank}").touch()
    while len(list(args.work_dir.glob("ready.*"))) < args.ranks:
        time.sleep(0.01)
    ddp = Ddp(manager, model)
    committing = torchft.Optimizer(manager, optimizer)
    samples = Samples(args, args.ranks)
    with open(args.work_dir / f"progress.{rank}", "a", buffering=1) as progress:
        while manager.current_step() < args.steps:
            step = manager.current_step()
            inputs, targets = samples.of(step, rank)
            committing.zero_grad()
            loss = nn.functional.cross_entropy(ddp(inputs), targets)
            loss.backward()
            committing.step()
            if manager.current_step() == step:
                continue  # an error of a peer: this step is tried again
            step = manager.current_step()
            progress.write(f"{step}\n")
            if step % args.checkpoint_every == 0 and manager.participating_rank() == 0:
                save(args, step, model, optimizer, {"torchft": manager.state_dict()}, no_dist=True)
    finish(args.work_dir / f"result.{rank}.json", model, loss.item(), shares=manager.batches_committed())
    manager.shutdown()


def be_lighthouse(args):
    from torchft.coordination import LighthouseServer

    # Ticks and joining as in torchft's own example; the rest are its defaults.
    server = LighthouseServer(bind="127.0.0.1:0", min_replicas=1, quorum_tick_ms=100, join_timeout_ms=10000)
    args.address_file.with_suffix(".new").write_text(server.address())
    args.address_file.with_suffix(".new").rename(args.address_file)
    while True:
        input()  # until the pipe of the parent closes


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--way", choices=("torchrun", "torchft", "lighthouse"), required=True)
    parser.add_argument("--text", type=Path)
    parser.add_argument("--work-dir", type=Path)
    for name in ("steps", "batch", "context", "layers", "heads", "width", "checkpoint-every", "keep", "ranks", "rank"):
        parser.add_argument(f"--{name}", type=int)
    parser.add_argument("--lighthouse-at")
    parser.add_argument("--address-file", type=Path)
    args = parser.parse_args()
    torch.set_num_threads(1)
    {"torchrun": with_torchrun, "torchft": with_torchft, "lighthouse": be_lighthouse}[args.way](args)


if __name__ == "__main__":
    main()
