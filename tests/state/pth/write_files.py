#!/usr/bin/env python3
"""Writes the files that test_pth_files.cpp, test_weights.cpp and the fuzzer read: python3 write_files.py (with Debian's
python3-torch 1.13).

The files are in the repository, so that the tests need no Python. test_weights.cpp says which values they hold.
"""

import argparse
import collections
import datetime
import enum
import io
import os
import warnings
import zipfile
from pathlib import Path

import numpy
import torch

FOLDER = Path(__file__).resolve().parent / "files"
CORPUS = FOLDER.parents[2] / "fuzz" / "corpus"


def module():
    network = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2))
    with torch.no_grad():
        for i, tensor in enumerate(network.state_dict().values()):
            tensor.copy_((torch.arange(tensor.numel()).reshape(tensor.shape) + 10 * i).to(tensor.dtype))
    return network


def views():
    base = torch.arange(20.0).reshape(4, 5)
    numbers = torch.tensor([[0, 1, 1], [0, 100, 3]])
    state = collections.OrderedDict()
    state["whole"] = base
    state["transposed part"] = base.t()[1:3]
    state["every other"] = base.view(-1)[3::2]
    state["expanded"] = base[1, 2].expand(2, 3)
    state["scalar"] = torch.tensor(7)
    state["scalar in the middle"] = base[2, 2]
    state["empty"] = torch.empty(2, 0, 3)
    state["empty at the end"] = base[4:]
    state["parameter"] = torch.nn.Parameter(base[0])
    state["channels_last"] = torch.arange(24.0).reshape(1, 2, 3, 4).contiguous(memory_format=torch.channels_last)
    for dtype in ("float64", "float32", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool"):
        state[dtype] = numbers.to(getattr(torch, dtype))
    return state


def checkpoint():
    network = module()
    optimizer = torch.optim.Adam(network.parameters(), lr=0.5)
    network(torch.ones(4, 3)).sum().backward()
    optimizer.step()
    itself = []
    itself.append(itself)
    history = ({},)
    history[0]["history"] = history
    return {
        "epoch": 3, "best": 0.75, "name": "run é", "large": 2**70, "negative": [-5, -(2**40), 2**40, 300, 70000],
        "nothing": None, "yes": True, "no": False, "tuples": [(), (1,), (1, 2), (1, 2, 3), (1, 2, 3, 4)],
        "itself": itself, "history": history, "many": {i: str(i) for i in range(300)},
        "optimizer": optimizer.state_dict(), "state_dict": module().state_dict(),
    }


def anything():
    """What people save beside tensors."""
    tensor = torch.tensor([1.0, 2.0])
    return {
        "best": numpy.float64(0.75), "array": numpy.arange(3), "when": datetime.datetime(2024, 1, 2), "z": 1 + 2j,
        "path": Path("runs"), "set": {1, 2}, "frozen": frozenset({3}), "bytes": b"\xff\x00", "kind": Kind.FIRST,
        "history": collections.deque([1, 2]), "counts": collections.Counter("abc"), "slice": slice(1, 2),
        "quantized": torch.quantize_per_tensor(tensor, 0.5, 0, torch.qint8), "sparse": tensor.to_sparse(),
        "device": torch.device("cpu"), "dtype": torch.float16, "size": torch.Size([1, 2]), "text": "x" * 300,
    }


class Kind(enum.Enum):
    FIRST = 1


class Calls:
    """Pickled as a call, which whoever unpickles it carelessly makes."""

    def __init__(self, function, *arguments):
        self.function, self.arguments = function, arguments

    def __reduce__(self):
        return self.function, self.arguments


def entries(data):
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def archive_of(parts, compression=zipfile.ZIP_STORED):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", compression) as archive:
        for name, data in parts.items():
            archive.writestr(zipfile.ZipInfo(name), data, compression)
    return out.getvalue()


def save(name, value, **how):
    torch.save(value, FOLDER / name, **how)


def main():
    FOLDER.mkdir(exist_ok=True)
    save("plain.pth", module().state_dict())
    save("views.pth", views())
    save("checkpoint.pth", checkpoint())
    save("twice.pth", {"model": {"state_dict": module().state_dict()}, "epoch": 1})
    save("parallel.pth", {f"module.{name}": tensor for name, tensor in module().state_dict().items()})
    save("elsewhere.pth", {"net": module().state_dict(), "epoch": 1})
    save("tensor.pth", torch.ones(2))
    save("mixed.pth", {**module().state_dict(), "epoch": 3})
    # None of these may be carried out, and none is harmless.
    state = module().state_dict()
    save("system.pth", {**state, "x": Calls(os.system, "touch /tmp/lockstep-was-fooled")})
    save("eval.pth", {**state, "x": Calls(eval, "open('/tmp/lockstep-was-fooled', 'w')")})
    save("namespace.pth", {"state_dict": state, "args": argparse.Namespace(lr=0.1)})
    for name, protocol in (("anything.pth", 2), ("anything5.pth", 5)):
        save(name, {**state, **anything()}, pickle_protocol=protocol)
    save("complex.pth", {"w": torch.zeros(2, dtype=torch.complex64)})
    save("protocol4.pth", state, pickle_protocol=4)
    save("old.pth", state, _use_new_zipfile_serialization=False)
    save("old4.pth", state, _use_new_zipfile_serialization=False, pickle_protocol=4)
    save("old_views.pth", views(), _use_new_zipfile_serialization=False)
    save("old_checkpoint.pth", checkpoint(), _use_new_zipfile_serialization=False)
    save("two.pth", {"net": state, "ema": {"module": state, "decay": 0.9}, "epoch": 1})
    save("found.pth", {"my_own_key": state, "epoch": 1})
    save("gan.pth", {"painter": state, "critic": state})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        save("module.pth", module())
    torch.jit.save(torch.jit.script(torch.nn.Linear(1, 1)), FOLDER / "script.pt")
    parts = entries((FOLDER / "plain.pth").read_bytes())
    (FOLDER / "zipped_by_python.pth").write_bytes(archive_of(parts))
    (FOLDER / "compressed.pth").write_bytes(archive_of(parts, zipfile.ZIP_DEFLATED))
    (FOLDER / "little.pth").write_bytes(archive_of({**parts, "plain/byteorder": b"little"}))
    (FOLDER / "big.pth").write_bytes(archive_of({**parts, "plain/byteorder": b"big"}))
    for folder in ("pth_archive", "pth_pickle"):
        (CORPUS / folder).mkdir(exist_ok=True)
    for name in ("plain", "little", "twice"):
        (CORPUS / "pth_archive" / name).write_bytes((FOLDER / f"{name}.pth").read_bytes())
    (CORPUS / "pth_archive" / "old").write_bytes((FOLDER / "old_views.pth").read_bytes())
    (CORPUS / "pth_pickle" / "anything").write_bytes(entries((FOLDER / "anything5.pth").read_bytes())["anything5/data.pkl"])
    for name in ("checkpoint", "views", "twice", "namespace"):
        (CORPUS / "pth_pickle" / name).write_bytes(entries((FOLDER / f"{name}.pth").read_bytes())[f"{name}/data.pkl"])


if __name__ == "__main__":
    main()
