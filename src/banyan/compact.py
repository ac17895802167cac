"""Smaller vectors: fewer dimensions, int8 instead of float32, or one bit per dimension.

    dimensions   the first `truncate_dim`
    int8         each vector divided by its own largest absolute value, times 127, rounded. Needs no calibration, and
                 preserves directions (cosines), not lengths
    binary       one bit per dimension, 1 if it is above 0, eight to a byte (np.packbits). Similarity is
                 1 - 2·h / dimensions with the Hamming distance h, which is the cosine of the signs

The names are those of sentence-transformers, but its `ubinary` is our `binary`, and its int8 is calibrated on other
vectors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from banyan.errors import BanyanError

if TYPE_CHECKING:
    from banyan.baselines import Encoder
    from banyan.encoder import Banyan

Precision = Literal["float32", "int8", "binary"]
_TYPES: dict[Precision, Any] = {"float32": np.float32, "int8": np.int8, "binary": np.uint8}
PRECISIONS: tuple[Precision, ...] = get_args(Precision)
LARGEST = 127  # -128 is not used, so that a vector and its negative have the same length


@dataclass(frozen=True)
class Form:
    """The dimensions and the precision of stored vectors."""

    dim: int  # the number of leading dimensions to keep
    precision: Precision = "float32"

    @classmethod
    def of(cls, dim: int, truncate_dim: int | None, precision: Precision, normalize: bool = False) -> Form:
        """Return the form for vectors of `dim` dimensions, or raise an error if it is impossible."""
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
        """The number of stored values per vector."""
        return -(-self.dim // 8) if self.precision == "binary" else self.dim

    def keep(self, vectors: np.ndarray) -> np.ndarray:
        """Convert float32 [n, E] to [n, width] of dtype. A zero vector stays zero."""
        kept = vectors[:, : self.dim]
        if self.precision == "float32":
            return kept
        if not np.isfinite(kept).all():
            raise BanyanError(f"the model returned a vector that is not finite, which {self.precision} cannot hold")
        if self.precision == "binary":
            return np.packbits(kept > 0, axis=1)
        largest = np.abs(kept).max(axis=1, keepdims=True)
        largest[largest == 0] = 1
        return np.rint(kept / largest * LARGEST).astype(np.int8)  # divide first: the inverse of a tiny value overflows


def check(truncate_dim: int | None, precision: str, normalize: bool = False) -> None:
    """Raise an error for options that no model supports."""
    if precision not in PRECISIONS:
        raise BanyanError(f"there is no precision {precision!r}: choose one of {', '.join(PRECISIONS)}")
    if truncate_dim is not None and truncate_dim < 1:
        raise BanyanError(f"cannot truncate to {truncate_dim} dimensions: keep at least 1")
    if normalize and precision != "float32":
        raise BanyanError(f"normalize needs float32, because {precision} does not preserve lengths: leave it out")


def expanded(kept: np.ndarray, dim: int) -> np.ndarray:
    """Return float32 vectors [n, dim] whose cosines are the similarities of int8 or binary embeddings.

    int8 values become numbers from -1 to 1, bits (uint8) become -1 or 1, and float32 is returned unchanged."""
    if kept.dtype == np.uint8:
        return np.unpackbits(kept, axis=-1, count=dim).astype(np.float32) * 2 - 1
    return kept.astype(np.float32) / LARGEST if kept.dtype == np.int8 else kept


def comparable(model: Banyan | Encoder, form: Form) -> Callable[[Sequence[str]], np.ndarray]:
    """Return an `encode` for banyan.evaluate, which compares by cosine."""
    return lambda texts: expanded(form.keep(model.encode(texts)), form.dim)
