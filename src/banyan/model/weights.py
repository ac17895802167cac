"""The weights of a model: read a file of them, and check their shapes, types and values."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np

from banyan.config import Config, check_format
from banyan.errors import BanyanError, first_line
from banyan.model.shapes import check_shapes, read_head

LARGEST = 1e6  # in absolute value: norms of the longest texts stay far from overflow
_LARGE = 1 << 22  # bytes; NumPy asks for huge pages from here on
_INTEGERS = {"lexical": np.dtype(np.int8), "lexical_idf": np.dtype(np.uint8)}  # all other weights are float32


def load_weights(path: Path, config: Config, vocab_size: int) -> dict[str, np.ndarray]:
    """Read all tensors of a weights file, and check them against the settings."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, "np") as file:
            _check_head((file.metadata() or {}).get("banyan", "{}"), path)
            weights = {name: _as_used(name, _read(name, file, path)) for name in file.keys()}  # noqa: SIM118
    except (OSError, SafetensorError) as error:
        raise BanyanError(f"cannot read {path}: {first_line(error)}") from None
    except (TypeError, AttributeError) as error:  # of a type that NumPy does not have, such as BF16
        raise BanyanError(f"cannot read {path}: NumPy cannot hold its numbers ({first_line(error)})") from None
    check_shapes(path, {name: array.shape for name, array in weights.items()}, config, vocab_size)
    for name, dtype in _INTEGERS.items():
        if name in weights and weights[name].dtype != dtype:
            raise BanyanError(f"{path}: {name} has the type {weights[name].dtype}, not {dtype}")
    check_values(weights, str(path))
    return weights


def _read(name: str, file: Any, path: Path) -> np.ndarray:
    """A tensor of an open file. A large matrix is read into memory that NumPy allocates: NumPy asks for huge pages, in
    which rows are found faster."""
    shape = file.get_slice(name).get_shape()
    if file.get_slice(name).get_dtype() != "F32" or 4 * math.prod(shape) < _LARGE:
        return file.get_tensor(name)
    start, head = read_head(path)
    begin, end = head[name]["data_offsets"]
    matrix = np.empty(shape, "<f4")
    with open(path, "rb") as data:
        data.seek(start + begin)
        if end - begin != matrix.nbytes or data.readinto(matrix.data.cast("B")) != matrix.nbytes:
            raise OSError("it changed while it was read")
    return matrix


def check_values(weights: dict[str, np.ndarray], where: str) -> None:
    """Reject weights that are not finite, or so large that embeddings would not be."""
    for name, values in weights.items():
        if values.dtype.kind != "f" or not values.size:
            continue
        largest = max(float(values.max()), -float(values.min()))  # NaN if any is
        if not largest <= LARGEST:
            found = f"{largest:g}" if np.isfinite(largest) else "a number that is not finite"
            raise BanyanError(f"{where}: {name} holds {found}; weights must be between -{LARGEST:g} and {LARGEST:g}")


def _check_head(text: str, path: Path) -> None:
    try:
        head = json.loads(text)
    except (ValueError, RecursionError):
        head = None
    if not isinstance(head, dict):
        raise BanyanError(f"cannot read {path}: its metadata are not those of a Banyan model")
    check_format(head, path)


def _as_used(name: str, array: np.ndarray) -> np.ndarray:
    if name in _INTEGERS:
        return array
    with np.errstate(over="ignore"):  # infinity is rejected below
        return array.astype(np.float32, copy=False)
