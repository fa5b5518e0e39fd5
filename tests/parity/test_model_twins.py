"""Every model computes what its twin in Python computes: logits, loss, gradients and BatchNorm's statistics."""

import unittest

from parity_support import ParityTest, run_program, save_weights  # before torch: it sets the number of threads

import torch
import torch.nn.functional as F

import safetensors_io
from twins import make_model

TOLERANCE = 1e-5

CASES = {
    "resnet18": {"shape": [4, 3, 32, 32]},
    "resnet18 with the stem of CIFAR": {"model": "resnet18", "stem": "cifar", "shape": [4, 3, 16, 16]},
    "resnet34": {"shape": [4, 3, 32, 32]},
    "resnet50": {"shape": [4, 3, 64, 64]},
    "resnet20": {"shape": [4, 3, 32, 32]},
    "mlp": {"shape": [4, 1, 28, 28]},
    "mlp of one layer": {"model": "mlp", "shape": [4, 3, 2, 2], "in_features": 12, "hidden": []},
    "lenet5": {"shape": [4, 3, 32, 32]},
    "lenet5 on 28x28": {"model": "lenet5", "shape": [4, 1, 28, 28], "in_channels": 1},
    "resnet20 on gray pictures": {"model": "resnet20", "shape": [2, 1, 28, 28], "in_channels": 1, "num_classes": 3},
}


def compute(model, pictures, labels):
    """What `parity_models gradients` writes."""
    model.train()
    logits = model(pictures)
    loss = F.cross_entropy(logits, labels)
    loss.backward()
    results = {"logits": logits.detach(), "loss": loss.detach()}
    results.update({f"gradient.{name}": parameter.grad for name, parameter in model.named_parameters()})
    results.update({f"buffer.{name}": tensor for name, tensor in model.named_buffers()})
    model.eval()
    with torch.no_grad():
        results["eval_logits"] = model(pictures)
    return results


class ModelTwins(ParityTest):
    def test_same_results_for_the_same_weights(self):
        for name, case in CASES.items():
            with self.subTest(name):
                self.compare({"model": name, **case})

    def compare(self, case):
        torch.manual_seed(11)
        files = {key: str(self.folder / f"{key}.safetensors") for key in ("weights", "batch", "out")}
        path = self.write_job("gradients", **case, **files)
        model = make_model({"num_classes": 10, "in_channels": 3, "in_features": 784, "hidden": [1024, 1024], **case})
        pictures = torch.randn(case["shape"])
        labels = torch.arange(case["shape"][0]) % case.get("num_classes", 10)
        save_weights(model, files["weights"])
        safetensors_io.write(files["batch"], {"pictures": pictures, "labels": labels})
        run_program("parity_models", "gradients", path, folder=self.folder)
        actual, _ = safetensors_io.read(files["out"])
        worst = self.assert_same_tensors(actual, compute(model, pictures, labels), TOLERANCE)
        print(f"{case['model']}: largest relative difference {worst:.1e}")

    def test_same_seed_gives_torchvisions_weights(self):
        for name in ("resnet18", "resnet34", "resnet50"):
            with self.subTest(name):
                out = self.folder / "initial.safetensors"
                path = self.write_job("initial", model=name, num_classes=10, seed=42, out=str(out))
                run_program("parity_models", "initial", path, folder=self.folder)
                torch.manual_seed(42)
                expected = make_model({"model": name, "num_classes": 10}).state_dict()
                actual, _ = safetensors_io.read(out)
                self.assertEqual(self.assert_same_tensors(actual, expected, tolerance=0), 0)


if __name__ == "__main__":
    unittest.main()
