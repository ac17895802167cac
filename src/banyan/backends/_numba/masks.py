"""Keys of nodes, and the dropout masks that depend on them: see banyan.model.dropout."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from banyan.backends._numba.compiling import inlined, kernel
from banyan.model.dropout import LEAF, LEFT_MESSAGE, NODE, RIGHT_MESSAGE, Dropout

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
OCCURRENCE = np.uint64(0xD1342543DE82EF95)


class Mask(NamedTuple):
    """Dropout at one place."""

    threshold: np.uint32  # 0: none
    scale: float
    stream: np.uint64


class Noise(NamedTuple):
    """A Dropout as the kernels use it."""

    leaf: Mask
    node: Mask
    left: Mask
    right: Mask

    @classmethod
    def of(cls, dropout: Dropout) -> Noise:
        def at(place: int) -> Mask:
            rate = dropout.rate_at(place)
            return Mask(np.uint32(int(rate * 2**32)), 1 / (1 - rate), np.uint64(dropout.stream(place)))

        return cls(at(LEAF), at(NODE), at(LEFT_MESSAGE), at(RIGHT_MESSAGE))


@inlined
def mix(x):
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@inlined
def leaf_key(token):
    return mix(np.uint64(token) + GOLDEN)


@inlined
def node_key(left, right):
    return mix(left * GOLDEN + right)


@inlined
def occurrence_key(key, occurrence):
    return mix(key ^ (np.uint64(occurrence) * OCCURRENCE))


@kernel
def drop(rows, i, first, last, key, mask):
    """Apply a mask in place to rows[i, first:last]. (All inner loops index rows by number: a view of a row costs more
    than the loop over it.)"""
    if mask.threshold == 0:
        return
    state = mix(key ^ mask.stream)
    low, high = np.uint32(state), np.uint32(state >> np.uint64(32)) | np.uint32(1)
    zero, scale = rows.dtype.type(0), rows.dtype.type(mask.scale)
    for j in range(first, last):
        x = np.uint32(low + np.uint32(np.uint32(j) * high))
        x = np.uint32((x ^ (x >> np.uint32(16))) * np.uint32(0x85EBCA6B))
        x = np.uint32((x ^ (x >> np.uint32(13))) * np.uint32(0xC2B2AE35))
        x = x ^ (x >> np.uint32(16))
        rows[i, j] = rows[i, j] * scale if x >= mask.threshold else zero


@kernel
def drop_leaves(leaves, keys, noise):
    """Apply dropout to the leaves in place."""
    for i in range(len(leaves)):
        drop(leaves, i, 0, leaves.shape[1], keys[i], noise.leaf)


@kernel
def leaf_keys(tokens, plain):
    """Return the key of each leaf. In plain trees each occurrence has its own."""
    keys = np.empty(len(tokens), np.uint64)
    for i in range(len(tokens)):
        keys[i] = leaf_key(tokens[i])
        if plain:
            keys[i] = occurrence_key(keys[i], i)
    return keys
