"""A model of a program's own, with two inputs and two losses, trained by a Trainer, beside PyTorch for 20 steps: alone,
with the average of weights, and with a dynamic loss scale and overflows made on purpose, in each parallel mode.

PyTorch's GradScaler and its average of weights (swa_utils with a decay) are written out: the scaler of this version
works on CUDA only.
"""

import contextlib
import json
import unittest

# Before torch: it sets the number of threads.
from parity_support import ParityTest, run_ranks

import torch
import torch.nn.functional as F

import safetensors_io

STEPS = 20
BATCH = 16  # of all ranks
RATE = 0.05
SCALE = 2.0**70

LOSS_TOLERANCE = 1e-4
WEIGHT_TOLERANCE = 1e-4  # of the largest value of each tensor
# Where ranks divide a product of bfloat16 matrices, each part of its sum is rounded to 8 bits.
DIVIDED_BFLOAT16_TOLERANCE = 1e-2

# Ranks and keys of each way to train.
WAYS = {
    "alone": (1, []),
    "data_parallel on 2": (2, []),
    "data_parallel on 4": (4, []),
    "sharded optimizer on 2": (2, ["parallel.shard_optimizer=true"]),
    "semi_auto on 2": (2, ["parallel.mode=semi_auto"]),
    "columns of a layer on 2": (
        2, ["parallel.mode=semi_auto", "parallel.mesh={model: 2}",
            "parallel.shard={middle.weight: {model: 0}, middle.bias: {model: 0}}"]),
    "auto on 2": (2, ["parallel.mode=auto"]),
}


class TwoHeads(torch.nn.Module):
    """As in own_model.cpp."""

    def __init__(self):
        super().__init__()
        self.kinds = torch.nn.Embedding(5, 16)
        self.add_module("in", torch.nn.Linear(6, 16))
        self.middle = torch.nn.Linear(16, 16)
        self.number = torch.nn.Linear(16, 1)
        self.classes = torch.nn.Linear(16, 3)

    def forward(self, row, kind):
        hidden = torch.tanh(self.middle(torch.tanh(self.get_submodule("in")(row) + self.kinds(kind))))
        return self.number(hidden), self.classes(hidden)


def make_data(overflow_in=()):
    """Samples in the order of the steps; in some steps one target is so large that scaled gradients overflow."""
    torch.manual_seed(2)
    count = STEPS * BATCH
    data = {
        "row": torch.randn(count, 6), "kind": torch.randint(5, (count,)),
        "number": torch.randn(count, 1), "class": torch.randint(3, (count,)),
    }
    for step in overflow_in:
        data["number"][step * BATCH + 3] = 1e19
    return data


class Scaler:
    """torch.cuda.amp.GradScaler on a CPU."""

    def __init__(self, scale, factor, window):
        self.scale, self.factor, self.window = scale, factor, window
        self.steps, self.skipped = 0, 0

    def step(self, optimizer):
        gradients = [p.grad for group in optimizer.param_groups for p in group["params"]]
        for gradient in gradients:
            gradient /= self.scale
        if all(bool(torch.isfinite(gradient).all()) for gradient in gradients):
            optimizer.step()
            self.steps += 1
            if self.steps == self.window:
                self.scale, self.steps = self.scale * self.factor, 0
        else:
            self.scale, self.steps, self.skipped = self.scale / self.factor, 0, self.skipped + 1


def train(model, data, optimizer, scaler=None, autocast=None, average=None, decay=None):
    losses = []
    for step in range(STEPS):
        batch = {name: tensor[step * BATCH : (step + 1) * BATCH] for name, tensor in data.items()}
        optimizer.zero_grad()
        cast = torch.autocast("cpu", dtype=autocast) if autocast else contextlib.nullcontext()
        with cast:
            number, classes = model(batch["row"], batch["kind"])
            loss = F.mse_loss(number, batch["number"]) + 0.5 * F.cross_entropy(classes, batch["class"])
        losses.append(loss.item())
        if scaler:
            (loss * scaler.scale).backward()
            scaler.step(optimizer)
        else:
            loss.backward()
            optimizer.step()
        if average is not None:
            with torch.no_grad():
                for name, parameter in model.named_parameters():
                    average[name] = decay * average[name] + (1 - decay) * parameter
    return losses


class OwnModel(ParityTest):
    def setUp(self):
        super().setUp()
        torch.manual_seed(1)
        self.model = TwoHeads()
        safetensors_io.write(self.folder / "weights.safetensors", self.model.state_dict())

    def train_ours(self, name, ranks, data, *keys):
        """Returns the folder of the run."""
        place = self.folder / name.replace(" ", "_")
        safetensors_io.write(self.folder / "data.safetensors", data)
        run_ranks(ranks, "parity_own_model", self.folder / "weights.safetensors", self.folder / "data.safetensors",
                  f"system.work_dir={place}", f"data.global_batch_size={BATCH}", *keys, folder=self.folder)
        return place

    def assert_same_run(self, place, losses, weights, tolerance=WEIGHT_TOLERANCE):
        ours = [json.loads(line)["loss"] for line in (place / "metrics.jsonl").read_text().splitlines()]
        self.assertEqual(len(ours), STEPS)
        for step, (actual, expected) in enumerate(zip(ours, losses)):
            self.assertLessEqual(abs(actual - expected), max(LOSS_TOLERANCE, tolerance) * max(1, abs(expected)), f"step {step}")
        self.assert_same_tensors(safetensors_io.read(place / "model.safetensors")[0], weights, tolerance)

    def test_two_inputs_and_two_losses(self):
        data = make_data()
        losses = train(self.model, data, torch.optim.SGD(self.model.parameters(), lr=RATE, momentum=0.9))
        self.assertLess(losses[-1], losses[0])
        for name, (ranks, keys) in WAYS.items():
            with self.subTest(name):
                place = self.train_ours(name, ranks, data, f"optimizer={{name: momentum, lr: {RATE}}}", *keys)
                self.assert_same_run(place, losses, self.model.state_dict())

    def test_average_of_weights(self):
        data = make_data()
        average = {name: parameter.detach().clone() for name, parameter in self.model.named_parameters()}
        start = dict(average)
        losses = train(self.model, data, torch.optim.Adam(self.model.parameters(), lr=0.01), average=average, decay=0.9)
        self.assertGreater((average["middle.weight"] - start["middle.weight"]).abs().max().item(), 0.01)
        for name, (ranks, keys) in WAYS.items():
            with self.subTest(name):
                place = self.train_ours(name, ranks, data, "optimizer={name: adam, lr: 0.01}",
                                        "callbacks.use=[ema: {decay: 0.9}]", *keys)
                self.assert_same_run(place, losses, self.model.state_dict())
                ours = safetensors_io.read(place / "ema.safetensors")[0]
                self.assert_same_tensors(ours, average, WEIGHT_TOLERANCE)

    def test_dynamic_loss_scale_with_overflows(self):
        data = make_data(overflow_in=(4, 5, 12))
        for dtype in (None, torch.bfloat16):
            torch.manual_seed(1)
            model = TwoHeads()
            scaler = Scaler(SCALE, 4, 3)
            optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
            losses = train(model, data, optimizer, scaler, dtype)
            self.assertEqual(scaler.skipped, 3)
            for name, (ranks, keys) in WAYS.items():
                with self.subTest(name, dtype=dtype):
                    keys = [*keys, *(["model.autocast=bfloat16"] if dtype else [])]
                    place = self.train_ours(
                        f"{name} {dtype}", ranks, data, f"optimizer={{name: sgd, lr: {RATE}}}",
                        f"loss_scaler={{type: dynamic, loss_scale: {SCALE}, scale_factor: 4, scale_window: 3}}", *keys)
                    tolerance = DIVIDED_BFLOAT16_TOLERANCE if dtype and ranks > 1 else WEIGHT_TOLERANCE
                    self.assert_same_run(place, losses, model.state_dict(), tolerance)
                    self.assertEqual(json.loads((place / "result.json").read_text())["skipped_steps"], 3)


if __name__ == "__main__":
    unittest.main()
