"""Training on several ranks: the losses of PyTorch's DistributedDataParallel, and of one rank with the whole batch."""

import json
import unittest

# Before torch: it sets the number of threads.
from parity_support import MODEL_DEFAULTS, ParityTest, relative_difference, run_ddp_peer, run_ranks, save_weights

import torch

import safetensors_io
from twins import make_model

STEPS = 20

TRAINING_DEFAULTS = {
    "steps": STEPS, "batch_size": 8, "micro_batches": 1, "learning_rate": 0.05, "momentum": 0.9,
    "dtype": "float32", "frozen": [], "worlds": [1, 2, 4],
    "backends": ["self", "tcp", "shm"],
}

SMALL = {"shape": [3, 2, 2], "in_features": 12, "num_classes": 5}

MLP = {"model": "mlp", "shape": [1, 28, 28]}

RESNET18 = {"model": "resnet18", "shape": [3, 32, 32]}

# Rounding on 4 ranks depends on the order of summation, and ResNet-18 at 32x32 (BatchNorm over 8 values in the last
# stage) makes 1e-2 of 1e-7 within 5 steps, in Python alone. On 1 and 2 ranks there is only one order. So on 4 ranks the
# full training is compared in float64, and in float32 one with larger pictures and smaller steps. Those leave biases
# so near to their start at 0 that most of their digits are rounding, so weights below 0.1 are compared as if 0.1.
CASES = {
    "resnet18": {**RESNET18, "learning_rate": 0.01, "worlds": [1, 2]},
    "resnet18_float64": {
        **RESNET18, "learning_rate": 0.01, "dtype": "float64", "worlds": [4], "backends": ["shm"],
    },
    "resnet18_48x48": {
        **RESNET18, "shape": [3, 48, 48], "learning_rate": 1e-5, "worlds": [4], "backends": ["tcp"],
        "weight_floor": 0.1,
    },
    # The late convolutions are products of matrices.
    "resnet18_channels_last": {
        **RESNET18, "learning_rate": 0.01, "dtype": "float64", "worlds": [2], "backends": ["shm"], "channels_last": True,
    },
    "mlp": MLP,
    "accumulation": {**MLP, "micro_batches": 2},
    "accumulation_with_batchnorm": {
        "model": "resnet20", "shape": [3, 16, 16], "micro_batches": 2, "steps": 8, "dtype": "float64",
    },
    "unused": {"model": "two_heads", **SMALL},
    "unused_and_accumulated": {"model": "two_heads", **SMALL, "micro_batches": 4},
    "shared": {"model": "tied", **SMALL},
    "frozen": {**MLP, "hidden": [64, 64], "frozen": ["fc1.weight", "fc2.bias"]},
}

LOSS_TOLERANCE = {"float32": 1e-4, "float64": 1e-8}
WEIGHT_TOLERANCE = {"float32": 1e-4, "float64": 1e-8}  # of the largest value of each tensor


def read_results(out, world):
    results = []
    for rank in range(world):
        with open(f"{out}.rank{rank}.json") as file:
            results.append(json.load(file))
    return results


class TrainingTest(ParityTest):
    def prepare(self, name, world, **case):
        """Writes weights, batches and the job; returns the job."""
        torch.manual_seed(7)
        case = {**MODEL_DEFAULTS, **TRAINING_DEFAULTS, **case}
        case["weights"] = str(self.folder / f"{name}.weights")
        case["batches"] = str(self.folder / f"{name}.batches")
        rows = [case["steps"], world * case["batch_size"]]
        pictures = torch.randn(rows + case["shape"])
        labels = torch.randint(case["num_classes"], rows)
        save_weights(make_model(case), case["weights"])
        safetensors_io.write(case["batches"], {"pictures": pictures, "labels": labels})
        return case

    def job_file(self, name, job, side):
        out = self.folder / f"{name}.{side}"
        return self.write_job(f"{name}.{side}", **job, out=str(out)), out


class LikePythonsDdp(TrainingTest):
    """Same weights and batches: losses and final weights within the tolerances above of PyTorch's."""

    def run_world(self, world, backends):
        jobs = {name: self.prepare(name, world, **case) for name, case in CASES.items()}
        jobs = {name: job for name, job in jobs.items() if world in job["worlds"]}
        peer = {name: self.job_file(name, job, "python") for name, job in jobs.items()}
        run_ddp_peer(world, [file for file, _ in peer.values()], self.folder)
        for backend in backends:
            ours = {
                name: self.job_file(name, job, backend) for name, job in jobs.items() if backend in job["backends"]
            }
            run_ranks(world, "parity_train_steps", backend, *[file for file, _ in ours.values()], folder=self.folder)
            for name, (_, out) in ours.items():
                with self.subTest(name, backend=backend, world=world):
                    worst = self.compare(world, backend, jobs[name], out, peer[name][1])
                    print(f"{name} on {world} of {backend}: largest relative difference {worst}")

    def compare(self, world, backend, job, ours, peer):
        actual, expected = read_results(ours, world), read_results(peer, world)
        worst = 0.0
        for rank in range(world):
            self.assertEqual(actual[rank]["backend"], backend)
            self.assertEqual(actual[rank]["params_sha256"], actual[0]["params_sha256"], f"rank {rank} differs from 0")
            self.assertEqual(len(actual[rank]["losses"]), len(expected[rank]["losses"]))
            for step, (a, e) in enumerate(zip(actual[rank]["losses"], expected[rank]["losses"])):
                tolerance = LOSS_TOLERANCE[job["dtype"]] * abs(e)
                self.assertLessEqual(abs(a - e), tolerance, f"rank {rank} step {step}: {a} instead of {e}")
                worst = max(worst, abs(a - e) / abs(e))
        weights = self.assert_same_tensors(
            safetensors_io.read(f"{ours}.safetensors")[0],
            safetensors_io.read(f"{peer}.safetensors")[0],
            WEIGHT_TOLERANCE[job["dtype"]],
            job.get("weight_floor", 0),
        )
        return f"{worst:.1e} of losses, {weights:.1e} of weights"

    def test_1_rank(self):
        self.run_world(1, ["self"])

    def test_2_ranks(self):
        self.run_world(2, ["tcp", "shm"])

    def test_4_ranks(self):
        self.run_world(4, ["tcp", "shm"])


class LikeOneRank(TrainingTest):
    """Ranks with a share of the batch each train as one rank with the whole of it, where there is no BatchNorm."""

    CASES = {
        "mlp": {**MLP, "hidden": [128, 64], "batch_size": 16},
        "lenet5": {"model": "lenet5", "shape": [1, 28, 28], "in_channels": 1, "batch_size": 16},
        "shared": {"model": "tied", **SMALL, "batch_size": 16},
    }

    def check(self, dtype, tolerance):
        jobs = {name: self.prepare(name, world=1, **case, dtype=dtype) for name, case in self.CASES.items()}
        whole = self.train(jobs, world=1)
        for world in (2, 4):
            shares = self.train(jobs, world)
            for name in jobs:
                with self.subTest(name, world=world, dtype=dtype):
                    worst = self.compare(world, shares[name], whole[name], tolerance)
                    print(f"{name} in {dtype}, {world} ranks or one: relative difference {worst}")

    def train(self, jobs, world):
        """Trains with 1 / world of the batch on each rank; returns where the results are."""
        files = {
            name: self.job_file(name, {**job, "batch_size": 16 // world}, f"on{world}") for name, job in jobs.items()
        }
        backend = "self" if world == 1 else "tcp"
        run_ranks(world, "parity_train_steps", backend, *[file for file, _ in files.values()], folder=self.folder)
        return {name: out for name, (_, out) in files.items()}

    def compare(self, world, share, whole, tolerance):
        losses = torch.tensor([result["losses"] for result in read_results(share, world)], dtype=torch.float64).mean(0)
        expected = torch.tensor(read_results(whole, 1)[0]["losses"], dtype=torch.float64)
        difference = relative_difference(losses, expected)
        self.assertLessEqual(difference, tolerance)
        weights = self.assert_same_tensors(
            safetensors_io.read(f"{share}.safetensors")[0], safetensors_io.read(f"{whole}.safetensors")[0], tolerance
        )
        return f"{difference:.1e} of losses, {weights:.1e} of weights"

    def test_in_float32(self):
        self.check("float32", 1e-5)

    def test_in_float64(self):
        self.check("float64", 1e-13)


if __name__ == "__main__":
    unittest.main()
