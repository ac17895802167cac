"""Rows of numbers: slices of them, and rows of length 1."""

from __future__ import annotations

import numpy as np


def slices(n: int, size: int) -> list[slice]:
    """n rows in slices of `size`; the last one may be shorter."""
    return [slice(start, min(start + size, n)) for start in range(0, n, size)]


def blocks(n: int, most: int) -> list[slice]:
    """n rows in as few slices of about equal size as possible, each of at most `most` rows (and at least one)."""
    return slices(n, -(-n // -(-n // max(most, 1)))) if n else []


def normalize_rows(rows: np.ndarray) -> np.ndarray:
    """Rows of length 1, in place; a zero row stays zero."""
    norm = np.sqrt(np.einsum("ij,ij->i", rows, rows))
    norm[norm == 0] = 1
    rows /= norm[:, None]
    return rows


def unit_rows(rows: np.ndarray) -> np.ndarray:
    """A copy with rows of length 1, float32, so that a dot product is a cosine; a zero row stays zero."""
    return normalize_rows(np.array(rows, np.float64)).astype(np.float32)
