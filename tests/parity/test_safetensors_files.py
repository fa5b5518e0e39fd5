"""Files that Lockstep writes are read by Python, and the other way round."""

import unittest

from parity_support import ParityTest, run_program  # before torch: it sets the number of threads

import torch

import safetensors_io


def examples():
    torch.manual_seed(3)
    tensors = {f"of {name}": (torch.rand(3, 5) * 100).to(dtype) for name, dtype in safetensors_io.DTYPES.items()}
    tensors["of BOOL"] = torch.rand(7) > 0.5
    tensors["scalar"] = torch.tensor(-3, dtype=torch.int64)
    tensors["empty"] = torch.empty(4, 0, 2)
    tensors["layer1.0.weight"] = torch.randn(2, 3, 4, 5)
    tensors['a "quoted" \\ name, ключ'] = torch.ones(1)
    tensors["not finite"] = torch.tensor([float("inf"), -0.0])
    return tensors


class SafetensorsFiles(ParityTest):
    def test_there_and_back(self):
        expected = examples()
        metadata = {"made by": "Python", "ключ": "значение"}
        safetensors_io.write(self.folder / "python.safetensors", expected, metadata)
        run_program(
            "parity_models", "copy", self.folder / "python.safetensors", self.folder / "cpp.safetensors",
            folder=self.folder,
        )
        actual, read_metadata = safetensors_io.read(self.folder / "cpp.safetensors")
        self.assertEqual(read_metadata, metadata)
        self.assertEqual(sorted(actual), sorted(expected))
        for name, tensor in expected.items():
            self.assertEqual(actual[name].dtype, tensor.dtype, name)
            self.assertTrue(torch.equal(actual[name], tensor), name)


if __name__ == "__main__":
    unittest.main()
