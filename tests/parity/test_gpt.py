"""`lockstep train` with the model gpt on a text, beside a twin of it in PyTorch for 20 steps: alone and on several ranks,
in both views, with activations that backward computes again, and with accumulation.
"""

import json
import math
import unittest

# Before torch: it sets the number of threads.
from parity_support import PROGRAMS, ParityTest, run_ranks

import torch
import torch.nn.functional as F

import safetensors_io

STEPS = 20
BATCH = 8  # of all ranks
LENGTH = 24
LAYERS, HEADS, WIDTH = 2, 2, 32

LOSS_TOLERANCE = 1e-4
WEIGHT_TOLERANCE = 1e-4  # of the largest value of each tensor

RECOMPUTE = 'parallel.recompute=["blocks.*"]'
TENSOR_PARALLEL = [
    "parallel.mode=semi_auto", "parallel.mesh={model: 2}",
    "parallel.shard={"
    + ", ".join(f'"blocks.*.{name}.weight": {{model: 0}}, "blocks.*.{name}.bias": {{model: 0}}'
                for name in ("attention.query", "attention.key", "attention.value", "fc1"))
    + ', "blocks.*.attention.output.weight": {model: 1}, "blocks.*.fc2.weight": {model: 1}}',
]
WAYS = {
    "alone": (1, []),
    "recompute": (1, [RECOMPUTE]),
    "data_parallel on 2": (2, []),
    "accumulation on 2": (2, ["train.accumulate=2", f"data.global_batch_size={BATCH // 2}"]),
    "recompute on 4": (4, [RECOMPUTE]),
    "tensor parallel on 2": (2, TENSOR_PARALLEL),
    "tensor parallel with recompute on 2": (2, [*TENSOR_PARALLEL, RECOMPUTE]),
    "auto on 2": (2, ["parallel.mode=auto"]),
}


class Attention(torch.nn.Module):
    def __init__(self):
        super().__init__()
        for name in ("query", "key", "value", "output"):
            self.add_module(name, torch.nn.Linear(WIDTH, WIDTH))

    def forward(self, x):
        def in_heads(y):
            return y.view(*y.shape[:2], HEADS, WIDTH // HEADS).transpose(1, 2)

        scores = in_heads(self.query(x)) @ in_heads(self.key(x)).transpose(2, 3) / math.sqrt(WIDTH // HEADS)
        later = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
        weights = scores.masked_fill(later, -math.inf).softmax(-1)
        return self.output((weights @ in_heads(self.value(x))).transpose(1, 2).reshape(x.shape))


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1 = torch.nn.LayerNorm(WIDTH)
        self.attention = Attention()
        self.norm2 = torch.nn.LayerNorm(WIDTH)
        self.fc1 = torch.nn.Linear(WIDTH, 4 * WIDTH)
        self.fc2 = torch.nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.fc2(F.gelu(self.fc1(self.norm2(x))))


class Gpt(torch.nn.Module):
    """With the names of Lockstep's."""

    def __init__(self):
        super().__init__()
        self.token = torch.nn.Embedding(256, WIDTH)
        self.position = torch.nn.Embedding(LENGTH, WIDTH)
        self.blocks = torch.nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm = torch.nn.LayerNorm(WIDTH)

    def forward(self, tokens):
        x = self.token(tokens) + self.position.weight
        for block in self.blocks:
            x = block(x)
        return F.linear(self.norm(x), self.token.weight)


class GptOnAText(ParityTest):
    def test_twenty_steps(self):
        torch.manual_seed(1)
        text = torch.randint(32, 127, (STEPS * BATCH * LENGTH + 1,), dtype=torch.uint8)
        (self.folder / "text.txt").write_bytes(bytes(text.tolist()))
        model = Gpt()
        safetensors_io.write(self.folder / "weights.safetensors", model.state_dict())

        # Not Adam, which divides by the gradients' size: those of the keys' biases are rounding alone, as softmax does not
        # depend on them.
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=0.01)
        losses = []
        for step in range(STEPS):
            begin = step * BATCH * LENGTH
            tokens, following = (
                text[begin + i : begin + i + BATCH * LENGTH].long().view(BATCH, LENGTH) for i in (0, 1))
            loss = F.cross_entropy(model(tokens).flatten(0, 1), following.flatten())
            losses.append(loss.item())
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
        self.assertLess(losses[-1], losses[0])

        for name, (ranks, keys) in WAYS.items():
            with self.subTest(name):
                self.compare(name.replace(" ", "_"), ranks, keys, losses, model.state_dict())

    def compare(self, name, ranks, keys, losses, weights):
        config = self.folder / "run.yaml"
        config.write_text(f"""
model: {{name: gpt, vocabulary: 256, context: {LENGTH}, layers: {LAYERS}, heads: {HEADS}, width: {WIDTH},
        weights: {self.folder}/weights.safetensors}}
task: {{name: language_modelling, sample_bytes: 0}}
data: {{name: text, file: {self.folder}/text.txt, length: {LENGTH}, eval_share: 0, shuffle: false,
       global_batch_size: {BATCH}}}
optimizer: {{name: momentum, lr: 0.1, momentum: 0.9, weight_decay: 0.01}}
train: {{epochs: 1, clip_norm: 1}}
callbacks: {{metrics_every: 1}}
""")
        place = self.folder / name
        run_ranks(ranks, PROGRAMS.parent / "lockstep", "train", "--config", config, f"system.work_dir={place}", *keys,
                  folder=self.folder)
        ours = [json.loads(line)["loss"] for line in (place / "metrics.jsonl").read_text().splitlines()]
        self.assertEqual(len(ours), STEPS)
        for step, (actual, expected) in enumerate(zip(ours, losses)):
            self.assertLessEqual(abs(actual - expected), LOSS_TOLERANCE * expected, f"step {step}")
        self.assert_same_tensors(safetensors_io.read(place / "model.safetensors")[0], weights, WEIGHT_TOLERANCE)


if __name__ == "__main__":
    unittest.main()
