#!/usr/bin/env python3
"""Training with PyTorch's fully_shard (FSDP2) on CPUs: each rank holds its part of every parameter.

    lockstep run --nproc-per-node 2 python examples/python/fsdp2.py
    torchrun --nproc-per-node 2 examples/python/fsdp2.py --backend gloo

The model learns to continue sequences of numbers that count up from a random start.
"""
import argparse

import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard

import lockstep  # noqa: F401: it makes the backend "lockstep" known

NUMBERS, WIDTH, LENGTH = 32, 64, 16


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = torch.nn.LayerNorm(WIDTH)
        self.attention = torch.nn.MultiheadAttention(WIDTH, 4, batch_first=True)
        self.layers = torch.nn.Sequential(torch.nn.LayerNorm(WIDTH), torch.nn.Linear(WIDTH, 4 * WIDTH), torch.nn.GELU(),
                                          torch.nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, values):
        mask = torch.nn.Transformer.generate_square_subsequent_mask(values.shape[1])
        normed = self.norm(values)
        values = values + self.attention(normed, normed, normed, attn_mask=mask, need_weights=False)[0]
        return values + self.layers(values)


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--backend", default="lockstep")
    arguments.add_argument("--steps", type=int, default=40)
    arguments = arguments.parse_args()

    dist.init_process_group(arguments.backend)
    rank, size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)  # the same first parameters on all ranks
    model = torch.nn.Sequential(torch.nn.Embedding(NUMBERS, WIDTH), Block(), Block(), torch.nn.Linear(WIDTH, NUMBERS))
    for layer in model:
        fully_shard(layer)
    fully_shard(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    generator = torch.Generator().manual_seed(1 + rank)

    loss = torch.zeros(())
    for _ in range(arguments.steps):
        starts = torch.randint(NUMBERS, (16, 1), generator=generator)
        numbers = (starts + torch.arange(LENGTH + 1)) % NUMBERS
        optimizer.zero_grad()
        scores = model(numbers[:, :-1])
        loss = torch.nn.functional.cross_entropy(scores.flatten(0, 1), numbers[:, 1:].flatten())
        loss.backward()
        optimizer.step()

    loss = loss.detach()
    dist.all_reduce(loss)
    held = sum(parameter.to_local().numel() for parameter in model.parameters())
    line = f"rank {rank} of {size} with {dist.get_backend()}: loss {loss.item() / size:.4f}, {held} numbers of the model here"
    print(line + "\n", end="", flush=True)  # one write: lines of ranks that share a terminal do not mix
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
