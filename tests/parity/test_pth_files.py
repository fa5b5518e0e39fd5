"""What the installed PyTorch's torch.save writes is loaded by name, and never run."""

import unittest

from parity_support import ParityTest, run_program  # before torch: it sets the number of threads

import torch

import safetensors_io
from twins import make_model


class Touch:
    """Makes a file when it is unpickled carelessly."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (str(self.path), "w")


def resnet18():
    """torchvision's, with statistics of batch norms that are not those of a new model."""
    torch.manual_seed(5)
    model = make_model({"model": "resnet18", "num_classes": 10})
    model.train()
    with torch.no_grad():
        model(torch.randn(4, 3, 32, 32))
    return model


class PthFiles(ParityTest):
    def load(self, value, **how):
        weights, out = self.folder / "weights.pth", self.folder / "loaded.safetensors"
        torch.save(value, weights, **how)
        path = self.write_job("load", model="resnet18", weights=str(weights), out=str(out))
        run_program("parity_models", "load", path, folder=self.folder)
        return safetensors_io.read(out)[0]

    def assert_equal(self, actual, expected):
        self.assertEqual(self.assert_same_tensors(actual, expected, tolerance=0), 0)

    def test_a_state_dict_of_torchvision(self):
        state = resnet18().state_dict()
        self.assertEqual(len(state), 122)
        self.assert_equal(self.load(state), state)

    def test_a_checkpoint_after_a_step(self):
        model = resnet18()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
        model(torch.randn(4, 3, 32, 32)).sum().backward()
        optimizer.step()
        checkpoint = {
            "epoch": 1, "best_accuracy": 0.5, "note": "näheres", "state_dict": model.state_dict(),
            "optimizer": optimizer.state_dict(), "scheduler": {"last_epoch": scheduler.last_epoch},
        }
        self.assert_equal(self.load(checkpoint), model.state_dict())

    def test_narrow_and_reordered_weights(self):
        for change in (
            lambda model: model.half(),
            lambda model: model.bfloat16(),
            lambda model: model.double(),
            lambda model: model.to(memory_format=torch.channels_last),
        ):
            model = change(resnet18())
            expected = {name: tensor.float() if tensor.is_floating_point() else tensor
                        for name, tensor in model.state_dict().items()}
            self.assert_equal(self.load(model.state_dict()), expected)

    def test_views_of_one_tensor(self):
        state = resnet18().state_dict()
        flat = torch.cat([tensor.reshape(-1) for tensor in state.values() if tensor.is_floating_point()])
        views, begin = {}, 0
        for name, tensor in state.items():
            views[name] = tensor
            if tensor.is_floating_point():
                views[name] = flat[begin : begin + tensor.numel()].view(tensor.shape)
                begin += tensor.numel()
        self.assert_equal(self.load(views), state)

    def test_what_would_be_run_is_left_out(self):
        trace = self.folder / "trace"
        state = resnet18().state_dict()
        self.assert_equal(self.load({**state, "x": Touch(trace)}), state)
        self.assertFalse(trace.exists())

    def test_the_format_before_zip(self):
        state = resnet18().state_dict()
        self.assert_equal(self.load(state, _use_new_zipfile_serialization=False), state)


if __name__ == "__main__":
    unittest.main()
