"""The safetensors format, written from its description: an independent reader and writer to compare Lockstep's with."""

import json
import struct

import torch

DTYPES = {
    "F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16,
    "I64": torch.int64, "I32": torch.int32, "I16": torch.int16, "I8": torch.int8, "U8": torch.uint8,
    "BOOL": torch.bool,
}
NAMES = {dtype: name for name, dtype in DTYPES.items()}


def read(path):
    """Returns (tensors by name, metadata); raises ValueError when the file breaks the format."""
    with open(path, "rb") as file:
        content = file.read()
    (length,) = struct.unpack("<Q", content[:8])
    if length > len(content) - 8 or (8 + length) % 8 != 0:
        raise ValueError(f"header of {length} bytes in a file of {len(content)}")
    header = json.loads(content[8 : 8 + length])
    data = content[8 + length :]
    metadata = header.pop("__metadata__", {})
    tensors = {}
    covered = 0
    for name, entry in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        begin, end = entry["data_offsets"]
        if begin != covered:
            raise ValueError(f"{name} begins at {begin}, not at {covered}")
        dtype = DTYPES[entry["dtype"]]
        if begin == end:
            tensors[name] = torch.empty(entry["shape"], dtype=dtype)
        else:
            tensors[name] = torch.frombuffer(bytearray(data[begin:end]), dtype=dtype).reshape(entry["shape"])
        covered = end
    if covered != len(data):
        raise ValueError(f"{len(data) - covered} bytes belong to no tensor")
    return tensors, metadata


def write(path, tensors, metadata=None):
    header = {"__metadata__": metadata} if metadata else {}
    parts = []
    offset = 0
    for name, tensor in tensors.items():
        flat = tensor.detach().contiguous().reshape(-1)
        data = flat.view(torch.uint8).numpy().tobytes() if flat.numel() else b""
        header[name] = {
            "dtype": NAMES[tensor.dtype],
            "shape": list(tensor.shape),
            "data_offsets": [offset, offset + len(data)],
        }
        parts.append(data)
        offset += len(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + b"".join(parts))
