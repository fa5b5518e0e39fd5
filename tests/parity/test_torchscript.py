"""Models that Python exported as TorchScript: `lockstep train` makes the steps that Python makes, and leaves a file that Python
loads with the trained weights."""
import json
import pathlib
import subprocess
import tempfile
import unittest

import numpy
import torch
from torch import nn

from parity_support import PROGRAMS

LOCKSTEP = PROGRAMS.parent / "lockstep"
BATCH, STEPS, RATE = 8, 6, 0.05


class Counting(nn.Module):
    """Its buffer is another tensor after each call."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3072, 10)
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, x):
        self.calls = self.calls + 1
        return self.layer(x.flatten(1))


def write_data(folder: pathlib.Path) -> tuple[torch.Tensor, torch.Tensor]:
    """A small data set in CIFAR-10's layout; pictures as the transforms make them, and labels."""
    numbers = numpy.random.default_rng(7)
    count = BATCH * STEPS
    labels = numbers.integers(0, 10, count, dtype=numpy.uint8)
    pictures = numbers.integers(0, 256, (count, 3, 32, 32), dtype=numpy.uint8)
    records = numpy.concatenate([labels[:, None], pictures.reshape(count, -1)], axis=1)
    parts = numpy.array_split(records, 5)
    for index, part in enumerate(parts):
        part.tofile(folder / f"data_batch_{index + 1}.bin")
    parts[0].tofile(folder / "test_batch.bin")
    return torch.from_numpy(pictures).float() / 255, torch.from_numpy(labels.astype(numpy.int64))


def train_in_python(net: nn.Module, pictures: torch.Tensor, labels: torch.Tensor) -> None:
    optimizer = torch.optim.SGD(net.parameters(), lr=RATE, momentum=0.9)
    for x, y in zip(pictures.split(BATCH), labels.split(BATCH)):
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(x), y).backward()
        optimizer.step()


class TorchScript(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.path = pathlib.Path(self.folder.name)
        self.pictures, self.labels = write_data(self.path)
        torch.manual_seed(3)

    def tearDown(self):
        self.folder.cleanup()

    def lockstep(self, file: str, *more: str, ranks: int = 1) -> subprocess.CompletedProcess:
        config = {
            "model": {"name": "torchscript", "file": str(self.path / file)},
            "data": {"name": "cifar10", "root": str(self.path), "global_batch_size": BATCH, "shuffle": False,
                     "train_transforms": [{"rescale": {"scale": 1 / 255}}, "hwc2chw"]},
            "optimizer": {"name": "momentum", "momentum": 0.9, "lr": RATE},
            "train": {"epochs": 1},
            "system": {"work_dir": str(self.path / "out")},
        }
        (self.path / "run.yaml").write_text(json.dumps(config))
        launcher = [str(LOCKSTEP), "run", "--nproc-per-node", str(ranks)] if ranks > 1 else []
        command = [*launcher, str(LOCKSTEP), "train", "--config", str(self.path / "run.yaml"), *more]
        return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)

    def check(self, net: nn.Module, script: torch.jit.ScriptModule, ranks: int) -> None:
        script.save(str(self.path / "model.pt"))
        ran = self.lockstep("model.pt", ranks=ranks)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        train_in_python(net, self.pictures, self.labels)
        trained = torch.jit.load(str(self.path / "out" / "model.pt"))
        expected, actual = net.state_dict(), trained.state_dict()
        self.assertEqual(expected.keys(), actual.keys())
        for name, tensor in expected.items():
            torch.testing.assert_close(actual[name], tensor, rtol=1e-4, atol=1e-5, msg=lambda text, n=name: f"{n}: {text}")
        # The mode of the script is that of the run: batch norm's averages count in evaluation.
        net.eval(), trained.eval()
        torch.testing.assert_close(trained(self.pictures), net(self.pictures), rtol=1e-4, atol=1e-5)
        result = json.loads((self.path / "out" / "result.json").read_text())
        test = self.pictures[:10], self.labels[:10]
        loss = nn.functional.cross_entropy(net(test[0]), test[1]).item()
        self.assertAlmostEqual(result["eval_loss"], loss, places=4)

    def test_a_buffer_that_the_script_replaces_is_kept(self):
        torch.jit.script(Counting()).save(str(self.path / "model.pt"))
        ran = self.lockstep("model.pt")
        self.assertEqual(ran.returncode, 0, ran.stderr)
        # In evaluation, too: two batches, and one that is tried before the first step.
        self.assertEqual(torch.jit.load(str(self.path / "out" / "model.pt")).calls.item(), STEPS + 3)

    def test_scripted_steps(self):
        net = nn.Sequential(nn.Conv2d(3, 6, 3, stride=2), nn.BatchNorm2d(6), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                            nn.Sequential(nn.Linear(6, 12), nn.Tanh(), nn.Linear(12, 10)))
        self.check(net, torch.jit.script(net), ranks=1)

    def test_traced_steps_on_2_ranks(self):
        net = nn.Sequential(nn.Conv2d(3, 6, 3, stride=2), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(6, 10))
        self.check(net, torch.jit.trace(net, self.pictures[:2]), ranks=2)

    def test_the_mode_of_a_trace_is_said_before_the_first_step(self):
        net = nn.Sequential(nn.Conv2d(3, 6, 3, stride=2), nn.BatchNorm2d(6), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.5),
                            nn.Linear(6, 10))
        said = {"eval": "was traced in evaluation mode: 1 batch_norm, 1 dropout", "train": "was traced in training mode: 1 batch_norm"}
        for mode, words in said.items():
            net.train(mode == "train")
            torch.jit.trace(net, self.pictures[:2], check_trace=False).save(str(self.path / "model.pt"))
            ran = self.lockstep("model.pt", f"system.work_dir={self.path / mode}")
            self.assertEqual(ran.returncode, 0, ran.stderr)
            self.assertIn(words, ran.stdout + ran.stderr)
        torch.jit.script(net).save(str(self.path / "model.pt"))
        ran = self.lockstep("model.pt", f"system.work_dir={self.path / 'scripted'}")
        self.assertNotIn("traced", ran.stdout + ran.stderr)

    def test_same_weights_after_a_stop(self):
        net = nn.Sequential(nn.Flatten(), nn.Linear(3072, 10))
        torch.jit.script(net).save(str(self.path / "model.pt"))
        self.assertEqual(self.lockstep("model.pt", "train.epochs=3").returncode, 0)
        whole = json.loads((self.path / "out" / "result.json").read_text())["params_sha256"]
        other = f"system.work_dir={self.path / 'stopped'}"
        self.assertEqual(self.lockstep("model.pt", "train.epochs=2", other).returncode, 0)
        self.assertEqual(self.lockstep("model.pt", "train.epochs=3", other).returncode, 0)
        self.assertEqual(json.loads((self.path / "stopped" / "result.json").read_text())["params_sha256"], whole)

    def test_mistakes(self):
        net = nn.Sequential(nn.Flatten(), nn.Linear(3072, 10))
        torch.save(net.state_dict(), self.path / "weights.pth")
        torch.jit.freeze(torch.jit.script(net.eval())).save(str(self.path / "frozen.pt"))
        torch.jit.script(net).save(str(self.path / "model.pt"))
        whole = (self.path / "model.pt").read_bytes()
        (self.path / "cut.pt").write_bytes(whole[: len(whole) // 2])
        (self.path / "words.pt").write_text("words")
        for file, more, words in [
            ("no.pt", [], "is no file"),
            ("weights.pth", [], "cannot be read as TorchScript"),
            ("cut.pt", [], "cannot be read as TorchScript"),
            ("words.pt", [], "cannot be read as TorchScript"),
            ("frozen.pt", [], "has no parameters to train"),
            ("model.pt", ["parallel.mode=semi_auto"], "cannot be divided"),
            ("model.pt", ["parallel.mode=auto"], "set parallel.mode=data_parallel"),
            ("model.pt", ["model={name: torchscript}"], "model.file is missing"),
        ]:
            with self.subTest(file=file, more=more):
                ran = self.lockstep(file, *more)
                self.assertEqual(ran.returncode, 2, ran.stderr)
                self.assertIn(words, ran.stderr)


if __name__ == "__main__":
    unittest.main()
