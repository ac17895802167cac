"""Which neighbours merge next: the most similar or, in the controls, by a rule that ignores the vectors."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from banyan.model.dropout import node_key
from banyan.model.functions import Vector


class Span(NamedTuple):
    """A node of a frontier."""

    node: int
    key: int
    vector: Vector
    first: int  # its tokens in the batch
    last: int


def score(a: Span, b: Span, structure: str) -> float:
    """The pair of neighbours with the highest score merges."""
    if structure == "induced":
        return similarity(a.vector, b.vector, a.key == b.key)
    if structure == "random":
        return node_key(a.key, b.key) >> 33  # equal spans get equal trees
    if structure == "balanced":
        return a.first - b.last  # fewest tokens first
    assert structure == "right-branching", structure
    return a.first


def similarity(a: Vector, b: Vector, same: bool) -> float:
    """Cosine; equal nodes score exactly 1, all others are clamped to 1, a zero vector scores 0."""
    if same:
        return 1.0
    norms = np.sqrt(a @ a) * np.sqrt(b @ b)
    return min(a @ b / norms, 1.0) if norms > 0 else 0.0
