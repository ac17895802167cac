"""Smaller vectors: fewer dimensions, bytes instead of floats, bits instead of bytes.

    dimensions   the first `truncate_dim` of them
    int8         each vector divided by its own largest absolute value, times 127, rounded: needs no calibration, and
                 keeps directions (cosines), not lengths
    binary       one bit for each dimension, 1 where it is above 0, eight to a byte (np.packbits): compared by Hamming
                 distance h, as 1 - 2·h / dimensions, which is the cosine of the signs

The names are sentence-transformers'; its `ubinary` is this `binary`, and its int8 is calibrated on other vectors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from banyan.errors import BanyanError

if TYPE_CHECKING:
    from banyan.baselines import Encoder
    from banyan.encoder import Banyan

_TYPES: dict[str, Any] = {"float32": np.float32, "int8": np.int8, "binary": np.uint8}
PRECISIONS = tuple(_TYPES)
LARGEST = 127  # -128 stays unused, so that a vector and its negative are equally long


@dataclass(frozen=True)
class Form:
    """What is kept of a vector."""

    dim: int  # its first dimensions
    precision: str = "float32"

    @classmethod
    def of(cls, dim: int, truncate_dim: int | None, precision: str, normalize: bool = False) -> Form:
        """Of vectors of `dim` dimensions, if it can be had."""
        check(truncate_dim, precision, normalize)
        if truncate_dim is not None and truncate_dim > dim:
            raise BanyanError(f"cannot truncate to {truncate_dim} dimensions: the model has {dim}")
        return cls(truncate_dim or dim, precision)

    def __str__(self) -> str:
        return f"{self.dim} dimensions" + (f" as {self.precision}" if self.precision != "float32" else "")

    @property
    def dtype(self) -> np.dtype:
        return np.dtype(_TYPES[self.precision])

    @property
    def width(self) -> int:
        """Numbers that hold a vector."""
        return -(-self.dim // 8) if self.precision == "binary" else self.dim

    def keep(self, vectors: np.ndarray) -> np.ndarray:
        """float32 [n, E] -> [n, width] of dtype. A vector of zeros gives zeros."""
        kept = vectors[:, : self.dim]
        if self.precision == "float32":
            return kept
        if not np.isfinite(kept).all():
            raise BanyanError(f"the model gave a vector that is not finite, which {self.precision} cannot hold")
        if self.precision == "binary":
            return np.packbits(kept > 0, axis=1)
        largest = np.abs(kept).max(axis=1, keepdims=True)
        largest[largest == 0] = 1
        return np.rint(kept / largest * LARGEST).astype(np.int8)  # divided first: of tiny ones the inverse overflows


def check(truncate_dim: int | None, precision: str, normalize: bool = False) -> None:
    """An error for what no model can give."""
    if precision not in PRECISIONS:
        raise BanyanError(f"there is no precision {precision!r}: choose one of {', '.join(PRECISIONS)}")
    if truncate_dim is not None and truncate_dim < 1:
        raise BanyanError(f"cannot truncate to {truncate_dim} dimensions: keep at least 1")
    if normalize and precision != "float32":
        raise BanyanError(f"normalize goes with float32 only: {precision} keeps no lengths anyway; leave it out")


def expanded(kept: np.ndarray, dim: int) -> np.ndarray:
    """Vectors [n, dim] whose cosines are the similarities of what `encode` gave: of int8 between -1 and 1, of binary
    (uint8) -1 or 1; float32 as it is."""
    if kept.dtype == np.uint8:
        return np.unpackbits(kept, axis=-1, count=dim).astype(np.float32) * 2 - 1
    return kept.astype(np.float32) / LARGEST if kept.dtype == np.int8 else kept


def comparable(model: Banyan | Encoder, form: Form) -> Callable[[Sequence[str]], np.ndarray]:
    """`model.encode` for banyan.evaluate, which compares by cosine."""
    return lambda texts: expanded(form.keep(model.encode(texts)), form.dim)
