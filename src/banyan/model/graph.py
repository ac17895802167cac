"""Forests of merges and the graphs made from them: integers only.

A batch is ragged: the `tokens` [T] of all sentences one after another, and their `offsets` [B+1]. Nothing is padded.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from banyan.errors import BanyanError


@dataclass(frozen=True)
class Forest:
    """One binary tree per sentence; every occurrence is a node of its own.

    Nodes 0..T-1 are the positions of the batch. The merges follow, sentence by sentence, in the order they were made: a
    sentence of n tokens has n-1. Children always precede their parent.
    """

    tokens: np.ndarray  # int32 [T]
    offsets: np.ndarray  # int64 [B+1]
    children: np.ndarray  # int32 [T-B, 2]

    @property
    def merge_offsets(self) -> np.ndarray:
        """Where each sentence's merges begin in `children` [B+1]."""
        return self.offsets - np.arange(len(self.offsets))

    @property
    def root(self) -> np.ndarray:
        """Each sentence's root [B]: its last merge, or its only token."""
        last_merge = len(self.tokens) + self.merge_offsets[1:] - 1
        return np.where(np.diff(self.offsets) == 1, self.offsets[:-1], last_merge).astype(np.int32)


@dataclass(frozen=True)
class Graph:
    """A graph with many roots: leaves first, then inner nodes by height (1 + the maximum of the children's heights).

    A parent is always higher than its children, so one array drives both passes: up in ascending order, down in
    descending order.
    """

    token: np.ndarray  # int32 [L]: the token of each leaf
    children: np.ndarray  # int32 [M, 2]: left and right child of inner node L+m
    root: np.ndarray  # int32 [B]: the root of each sentence
    levels: np.ndarray  # int64 [H+2]: nodes levels[h]..levels[h+1] have height h
    key: np.ndarray  # uint64 [N]: identifies a node for dropout; equal keys get equal masks
    node_of: np.ndarray  # int32 [T + merges]: the node of each occurrence in the forest
    receivers: np.ndarray  # int32 [M, 2]: the children that get the first and the second half of a decomposition

    @property
    def n_leaves(self) -> int:
        return len(self.token)

    @property
    def n_nodes(self) -> int:
        return len(self.token) + len(self.children)

    @cached_property
    def messages(self) -> np.ndarray:
        """The number of messages each node gets on the way down [N]: one per (distinct parent, side)."""
        return np.bincount(self.children.ravel(), minlength=self.n_nodes).astype(np.int32)


def check_ragged(tokens: np.ndarray, offsets: np.ndarray, empty: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """The batch as int32 tokens and int64 offsets. Raise an error if it is malformed, or, unless `empty` is set, if a
    sentence has no tokens."""
    tokens, offsets = np.ascontiguousarray(tokens, np.int32), np.ascontiguousarray(offsets, np.int64)
    if tokens.ndim != 1 or offsets.ndim != 1:
        raise BanyanError("tokens and offsets must be one-dimensional")
    lengths = np.diff(offsets)
    if len(offsets) == 0 or offsets[0] != 0 or offsets[-1] != len(tokens) or (lengths < 0).any():
        raise BanyanError(f"offsets must increase from 0 to the number of tokens ({len(tokens)})")
    if not empty and (lengths < 1).any():
        raise BanyanError(f"sentence {int(np.argmin(lengths))} of the batch has no tokens, so it has no tree")
    return tokens, offsets


def runs_of_sentences(offsets: np.ndarray, tokens: int) -> list[tuple[int, int]]:
    """Divide a batch into runs of sentences with about this many tokens: the start and end of each."""
    cuts = np.searchsorted(offsets, np.arange(tokens, offsets[-1], tokens))
    bounds = np.unique(np.concatenate([[0], cuts, [len(offsets) - 1]]))
    return list(pairwise(bounds.tolist()))


def runs_of_tokens(tokens: np.ndarray, starts: np.ndarray, lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A ragged batch made of the runs of tokens with these starts and lengths."""
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    places = np.repeat(starts - offsets[:-1], lengths) + np.arange(offsets[-1])
    return tokens[places].astype(np.int32), offsets


KEPT = np.ceil(np.exp(np.arange(20))).astype(np.int64)  # keep occurrences 1, 3, 8, 21, ...: ⌊1 + ln n⌋ of n


def kept_occurrences(tokens: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Which tokens sublinear term frequency keeps [T]: ⌊1 + ln n⌋ of the n occurrences of a token in a sentence."""
    from banyan.native import kernels

    native = kernels()
    if native:
        arrays = np.ascontiguousarray(tokens, np.int32), np.ascontiguousarray(offsets, np.int64), KEPT
        return np.frombuffer(native.kept_occurrences(*arrays), np.bool_)
    from banyan.backends import _numba

    return _numba.kept_occurrences(tokens, offsets, KEPT)


def distinct(tokens: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The distinct tokens in order, and the place of each token among them, int32. As np.unique, without sorting."""
    occurs = np.zeros(tokens.max(initial=-1) + 1, np.bool_)
    occurs[tokens] = True
    place = np.cumsum(occurs, dtype=np.int32) - np.int32(1)
    return np.flatnonzero(occurs).astype(tokens.dtype), place[tokens]


def entangle(forest: Forest) -> Graph:
    """Equal nodes (same left child, same right child) of all sentences become one node."""
    from banyan.backends import _numba

    token, leaf = distinct(forest.tokens)
    children, levels, key, node_of = _numba.entangle(token, leaf, forest.children)
    return Graph(token, children, node_of[forest.root], levels, key, node_of, children)


def disentangled(forest: Forest, halves: str = "side") -> Graph:
    """Plain trees, as in Self-StrAE: every occurrence has its own node and key. halves: as in the settings."""
    from banyan.backends import _numba

    children, levels, key, node_of = _numba.by_height(forest.tokens, forest.children)
    receivers, T = children, len(forest.tokens)
    if halves == "age":  # a forest numbers its nodes in the order they were made
        receivers = np.empty_like(children)
        receivers[node_of[T:] - T] = node_of[np.sort(forest.children, axis=1)]
    elif halves == "random":
        turned = key[T:, None] & np.uint64(1) == 1
        receivers = np.where(turned, children[:, ::-1], children)
    return Graph(forest.tokens, children, node_of[forest.root], levels, key, node_of, receivers)


def from_merges(
    tokens: np.ndarray, offsets: np.ndarray, merges: list[list[tuple[int, int]]] | list[np.ndarray]
) -> Forest:
    """A forest of given trees. The merges of a sentence are pairs of its own node numbers: 0..n-1 are its tokens, n+k
    is the parent made by its k-th merge."""
    tokens, offsets = check_ragged(tokens, offsets)
    if len(merges) != len(offsets) - 1:
        raise BanyanError(f"there are {len(merges)} trees for {len(offsets) - 1} sentences")
    children = np.empty((len(tokens) - len(merges), 2), np.int32)
    start = 0
    for sentence, pairs in enumerate(merges):
        first, n = int(offsets[sentence]), int(offsets[sentence + 1] - offsets[sentence])
        local = np.asarray(pairs, np.int64).reshape(-1, 2)
        _check_tree(local, n, sentence)
        children[start : start + n - 1] = np.where(local < n, local + first, local - n + len(tokens) + start)
        start += n - 1
    return Forest(tokens, offsets, children)


def _check_tree(local: np.ndarray, n: int, sentence: int) -> None:
    """Check that the merges form a binary tree over n leaves in order, each joining two adjacent spans."""
    if len(local) != n - 1:
        raise BanyanError(f"the tree of sentence {sentence} has {len(local)} merges; {n} tokens need {n - 1}")
    spans = [(i, i + 1) for i in range(n)]
    used: set[int] = set()
    for k, (left, right) in enumerate(local.tolist()):
        if not (0 <= left < n + k and 0 <= right < n + k) or left in used or right in used or left == right:
            raise BanyanError(f"merge {k} of sentence {sentence} joins {left} and {right}: missing, or already joined")
        if spans[left][1] != spans[right][0]:
            raise BanyanError(f"merge {k} of sentence {sentence} joins {left} and {right}, which are not neighbours")
        used |= {left, right}
        spans.append((spans[left][0], spans[right][1]))


def tokens_under(tokens: np.ndarray, kept: np.ndarray, children: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the tokens from the first to the last leaf under each node of a tree, ragged. kept: which are leaves.
    Those before the first leaf of all belong to it, and those after the last leaf to that one."""
    first, end = kept.tolist(), (kept + 1).tolist()
    first[:1], end[-1:] = [0] * bool(first), [len(tokens)] * bool(end)
    for left, right in children.tolist():
        first.append(first[left])
        end.append(end[right])
    starts = np.array(first, np.int64)
    return runs_of_tokens(tokens, starts, np.array(end, np.int64) - starts)
