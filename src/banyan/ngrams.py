"""Leaves that know how their token is spelt: to its own vector is added the mean of those of its character n-grams.

Which n-grams a token has never changes, so they are listed once: of each token, and for the gradient of each n-gram.
Every sum has a fixed order. A GPU does the same in backends/_triton/ngrams.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import numpy as np
import torch
from numba import njit
from torch import Tensor

from banyan import threads
from banyan.backends import _torch
from banyan.tokenizer import BYTES

_BASIS, _PRIME = 0xCBF29CE484222325, 0x100000001B3  # of FNV-1a, 64 bits
_BYTES = frozenset(BYTES)


def buckets_of(piece: str, buckets: int, shortest: int, longest: int) -> Iterator[int]:
    """The buckets of a piece's n-grams, from left to right, the shorter first. "▁" is a character like any other; the
    whole piece is not one of its own n-grams, for it has a vector already; the name of a byte is not text."""
    characters = [] if piece in _BYTES else [character.encode("utf-8", "surrogatepass") for character in piece]
    for start in range(len(characters)):
        value = _BASIS
        for n, character in enumerate(characters[start : start + longest], 1):
            for byte in character:
                value = (value ^ byte) * _PRIME % (1 << 64)
            if shortest <= n < len(characters):
                yield value % buckets


@dataclass(frozen=True, eq=False)
class Ngrams:
    """The n-grams of every token. Only buckets that some token needs have a vector; those that most need come first,
    because a GPU should begin with what takes longest."""

    bucket: np.ndarray  # int64 [n]: of each vector
    ids: np.ndarray  # int32: the vectors of token t are ids[offsets[t] : offsets[t + 1]], one for each n-gram
    offsets: np.ndarray  # int32 [V+1]
    tokens: np.ndarray  # int32: the tokens that have vector i are tokens[starts[i] : starts[i + 1]]
    starts: np.ndarray  # int32 [n+1]
    _on: dict[torch.device, tuple[Tensor, ...]] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, pieces: Sequence[str], buckets: int, shortest: int, longest: int) -> Ngrams:
        found = [list(buckets_of(piece, buckets, shortest, longest)) for piece in pieces]
        counts = np.array([len(one) for one in found])
        bucket = np.fromiter(chain.from_iterable(found), np.int64, counts.sum())
        used, place, needed = np.unique(bucket, return_inverse=True, return_counts=True)
        order = np.argsort(-needed, kind="stable")
        listed = np.argsort(order)[place]
        having = np.repeat(np.arange(len(pieces)), counts)[np.argsort(listed, kind="stable")]
        arrays = listed, _ends(counts), having, _ends(needed[order])
        ids, offsets, tokens, starts = (array.astype(np.int32) for array in arrays)
        return cls(used[order], ids, offsets, tokens, starts)

    def counts(self, token: np.ndarray) -> np.ndarray:
        """How many n-grams each of these tokens has; 1 where there are none, as what their sum is divided by."""
        return np.maximum(self.offsets[token + 1] - self.offsets[token], 1)

    def on(self, device: torch.device) -> tuple[Tensor, ...]:
        """ids, offsets, tokens and starts, brought there once."""
        if device not in self._on:
            arrays = self.ids, self.offsets, self.tokens, self.starts
            self._on[device] = tuple(torch.from_numpy(array).to(device) for array in arrays)
        return self._on[device]


def _ends(counts: np.ndarray) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(counts)])


# --- On the CPU ------------------------------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def _add_means(rows, token, vectors, ids, offsets):
    """To the vectors of these tokens, the means of those of their n-grams."""
    total = np.empty_like(rows[0])
    for i in range(len(rows)):
        begin, end = offsets[token[i]], offsets[token[i] + 1]
        total[:] = 0
        for k in range(begin, end):
            row = vectors[ids[k]]
            for j in range(len(total)):
                total[j] += row[j]
        if end > begin:
            for j in range(len(total)):
                rows[i, j] += total[j] / (end - begin)


@njit(cache=True, nogil=True)
def _sum_shares(g_vectors, g_shares, row_of, tokens, starts):
    """The gradients by these vectors: the sum of the shares they have in those of the tokens; row_of says where."""
    for i in range(len(g_vectors)):
        total = g_vectors[i]
        total[:] = 0
        for k in range(starts[i], starts[i + 1]):
            if row_of[tokens[k]] >= 0:
                row = g_shares[row_of[tokens[k]]]
                for j in range(len(total)):
                    total[j] += row[j]


def cpu_leaves(ngrams: Ngrams, token: np.ndarray, embedding: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """The leaves of these tokens [n, E]."""
    rows = embedding[token]
    given = vectors, ngrams.ids, ngrams.offsets
    threads.run(_add_means, [(rows[some], token[some], *given) for some in threads.shares(len(token))])
    return rows


class Leaves(torch.autograd.Function):
    """The leaves of distinct tokens."""

    @staticmethod
    def forward(ctx: Any, ngrams: Ngrams, token: np.ndarray, embedding: Tensor, vectors: Tensor) -> Any:
        ctx.given = ngrams, token, embedding.shape, vectors.shape
        return torch.from_numpy(cpu_leaves(ngrams, token, embedding.detach().numpy(), vectors.detach().numpy()))

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        ngrams, token, of_embedding, of_vectors = ctx.given
        g_embedding = g.new_zeros(of_embedding).index_copy_(0, torch.from_numpy(token).long(), g)
        g_shares = (g / torch.from_numpy(ngrams.counts(token))[:, None]).numpy()
        g_vectors = g.new_empty(of_vectors)
        row_of = np.full(of_embedding[0], -1, np.int32)
        row_of[token] = np.arange(len(token))
        out, starts = g_vectors.numpy(), ngrams.starts
        jobs = [
            (out[some], g_shares, row_of, ngrams.tokens, starts[some.start : some.stop + 1])
            for some in threads.shares(len(out))
        ]
        threads.run(_sum_shares, jobs)
        return None, None, g_embedding, g_vectors


# --- On any device ---------------------------------------------------------------------------------------------------


def torch_leaves(ngrams: Ngrams, token: np.ndarray, embedding: Tensor, vectors: Tensor) -> Tensor:
    """The leaves of distinct tokens, in plain torch."""
    counts = ngrams.offsets[token + 1] - ngrams.offsets[token]
    before = np.cumsum(counts) - counts
    listed = ngrams.ids[np.arange(counts.sum()) + np.repeat(ngrams.offsets[token] - before, counts)]
    rows = np.repeat(np.arange(len(token)), counts)
    at, ids, row, divisor = (
        _torch.on_device(array, embedding.device) for array in (token, listed, rows, ngrams.counts(token))
    )
    own = embedding.index_select(0, at)
    total = torch.zeros_like(own).index_add(0, row, vectors.index_select(0, ids))
    return own + total / divisor[:, None]
