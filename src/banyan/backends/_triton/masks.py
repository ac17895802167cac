"""Keys of nodes, and the dropout masks that depend on them: see banyan.model.dropout."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def mix(x):
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB
    return x ^ (x >> 31)


@triton.jit
def leaf_key(token):
    return mix(token.to(tl.uint64) + 0x9E3779B97F4A7C15)


@triton.jit
def node_key(left, right):
    return mix(left * 0x9E3779B97F4A7C15 + right)


@triton.jit
def occurrence_key(key, occurrence):
    return mix(key ^ (occurrence.to(tl.uint64) * 0xD1342543DE82EF95))


@triton.jit
def load_key(pointer, mask=None):
    return tl.load(pointer, mask=mask).to(tl.uint64, bitcast=True)


@triton.jit
def store_key(pointer, key, mask=None):
    tl.store(pointer, key.to(tl.int64, bitcast=True), mask=mask)


@triton.jit
def mask_of(state, columns, streams, scale, LEAF: tl.constexpr = False):
    """Return the mask of these columns. state and columns are broadcast."""
    low, high = state.to(tl.uint32), (state >> 32).to(tl.uint32) | 1
    x = low + columns.to(tl.uint32) * high
    x = (x ^ (x >> 16)) * 0x85EBCA6B
    x = (x ^ (x >> 13)) * 0xC2B2AE35
    x = x ^ (x >> 16)
    return tl.where(x >= tl.load(streams + (5 if LEAF else 4)).to(tl.uint32), scale, 0.0)


@triton.jit
def state_of(key, place, streams):
    return mix(key ^ load_key(streams + place))
