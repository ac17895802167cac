"""Loads a model with memory-mapped weights: all processes that use the model share one copy in memory."""

from __future__ import annotations

import json
import mmap
from pathlib import Path
from typing import Any

import numpy as np

from banyan.encoder import WEIGHTS, Banyan

_HEAD = 8  # bytes that hold the length of the header
_TYPES: dict[str, np.dtype[Any]] = {"F32": np.dtype("<f4"), "I8": np.dtype(np.int8)}  # learned weights; n-gram sketches


def load(path: str | Path) -> Banyan:
    """Load a model as Banyan.from_pretrained does, but with its weights mapped from the file."""
    checked = Banyan.from_pretrained(path)
    assert checked.folder
    weights = {**checked.weights, **_mapped(checked.folder / WEIGHTS)}
    model = Banyan(checked.config, checked.tokenizer, weights)
    model.folder, model.taught_by = checked.folder, checked.taught_by
    return model


def _mapped(path: Path) -> dict[str, np.ndarray]:
    """The tensors of a safetensors file, mapped copy-on-write. The kernels are compiled for writable arrays; as nothing
    writes to these, nothing is copied."""
    with path.open("rb") as file:
        data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
    start = _HEAD + int.from_bytes(data[:_HEAD], "little")
    tensors = {}
    for name, tensor in json.loads(data[_HEAD:start]).items():
        if name == "__metadata__" or tensor["dtype"] not in _TYPES:
            continue
        (first, last), kind = tensor["data_offsets"], _TYPES[tensor["dtype"]]
        values = np.frombuffer(data, kind, (last - first) // kind.itemsize, start + first).reshape(tensor["shape"])
        if values.flags.aligned:
            tensors[name] = values
    return tensors
