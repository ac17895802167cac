"""From trees to one graph: entangle() of reference.py."""

from __future__ import annotations

import numpy as np

from banyan.backends._numba.compiling import kernel
from banyan.backends._numba.masks import leaf_key, leaf_keys, node_key, occurrence_key


@kernel
def _entangle(key_of_leaf, leaf, children):
    """Return the distinct inner nodes in order of first occurrence: children, keys, and the node of each occurrence."""
    T, L, M = len(leaf), len(key_of_leaf), len(children)
    node_of = np.empty(T + M, np.int32)
    node_of[:T] = leaf
    pairs = np.empty((M, 2), np.int32)
    key = np.empty(L + M, np.uint64)
    key[:L] = key_of_leaf
    slots = 16
    while slots < 2 * M:
        slots *= 2
    table = np.full(slots, -1, np.int32)
    met = 0
    for m in range(M):
        left, right = node_of[children[m, 0]], node_of[children[m, 1]]
        slot = node_key(np.uint64(left), np.uint64(right)) & np.uint64(slots - 1)
        while table[slot] >= 0 and (pairs[table[slot], 0] != left or pairs[table[slot], 1] != right):
            slot = (slot + np.uint64(1)) & np.uint64(slots - 1)
        if table[slot] < 0:
            table[slot] = met
            pairs[met, 0], pairs[met, 1] = left, right
            key[L + met] = node_key(key[left], key[right])
            met += 1
        node_of[T + m] = L + table[slot]
    return pairs[:met], key[: L + met], node_of


@kernel
def _renumber(L, pairs, key, node_of):
    """Number inner nodes by height and, within a height, in their old order."""
    M = len(pairs)
    height = np.zeros(L + M, np.int32)
    top = 0
    for m in range(M):
        height[L + m] = 1 + max(height[pairs[m, 0]], height[pairs[m, 1]])
        top = max(top, height[L + m])
    levels = np.zeros(top + 2, np.int64)
    for n in range(L + M):
        levels[height[n] + 1] += 1
    for h in range(1, top + 2):
        levels[h] += levels[h - 1]
    free = levels[:-1].copy()
    new = np.empty(L + M, np.int32)
    for n in range(L + M):
        new[n] = free[height[n]]
        free[height[n]] += 1
    children, new_key = np.empty((M, 2), np.int32), np.empty(L + M, np.uint64)
    for n in range(L + M):
        new_key[new[n]] = key[n]
    for m in range(M):
        children[new[L + m] - L, 0] = new[pairs[m, 0]]
        children[new[L + m] - L, 1] = new[pairs[m, 1]]
    for i in range(len(node_of)):
        node_of[i] = new[node_of[i]]
    return children, levels, new_key, node_of


def entangle(token: np.ndarray, leaf: np.ndarray, children: np.ndarray) -> tuple[np.ndarray, ...]:
    """Return children, levels, key and node_of of the entangled graph whose leaves are the distinct tokens `token`."""
    pairs, key, node_of = _entangle(leaf_keys(token, False), leaf, children)
    return _renumber(len(token), pairs, key, node_of)


@kernel
def _occurrence_keys(tokens, children):
    T, M = len(tokens), len(children)
    span, key = np.empty(T + M, np.uint64), np.empty(T + M, np.uint64)
    for n in range(T + M):
        span[n] = leaf_key(tokens[n]) if n < T else node_key(span[children[n - T, 0]], span[children[n - T, 1]])
        key[n] = occurrence_key(span[n], n)
    return key


def by_height(tokens: np.ndarray, children: np.ndarray) -> tuple[np.ndarray, ...]:
    """Return the same for the plain graph, in which every occurrence is a node."""
    T, M = len(tokens), len(children)
    return _renumber(T, children, _occurrence_keys(tokens, children), np.arange(T + M, dtype=np.int32))
