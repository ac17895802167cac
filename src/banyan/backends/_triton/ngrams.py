"""The n-grams of leaves (banyan.ngrams): one program a row, which adds up what is listed for it in that order."""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from banyan.backends._triton.batch import Batch, kernel
from banyan.ngrams import Ngrams

LISTED = 16  # rows that a program adds at a time


@triton.jit
def _sum(table, rows, begin, end, E, LISTED: tl.constexpr, COLUMNS: tl.constexpr):
    """The sum of these rows of a table, and over how many: rows[begin : end]."""
    j = tl.arange(0, COLUMNS)[None, :]
    total = tl.zeros((COLUMNS,), tl.float32)
    for start in range(begin, end, LISTED):
        k = start + tl.arange(0, LISTED)
        row = tl.load(rows + k, mask=k < end, other=0).to(tl.int64)[:, None]
        total += tl.sum(tl.load(table + row * E + j, mask=(k < end)[:, None] & (j < E), other=0.0), 0)
    return total


@kernel
def _ngrams_kernel(
    embedding, vectors, ids, offsets, token, sizes, table, E, LISTED: tl.constexpr, COLUMNS: tl.constexpr
):
    """The leaf of a token of the batch, to its row of the table."""
    i, j = tl.program_id(0), tl.arange(0, COLUMNS)
    if i < tl.load(sizes + 1):
        t = tl.load(token + i)
        begin, end = tl.load(offsets + t), tl.load(offsets + t + 1)
        total = _sum(vectors, ids, begin, end, E, LISTED, COLUMNS)
        place = t.to(tl.int64) * E + j
        own = tl.load(embedding + place, mask=j < E, other=0.0)
        tl.store(table + place, own + total / tl.maximum(end - begin, 1).to(tl.float32), mask=j < E)


@kernel
def _g_ngrams_kernel(g_shares, tokens, starts, g_vectors, E, LISTED: tl.constexpr, COLUMNS: tl.constexpr):
    """The gradient by one vector: the sum of its shares in those by the tokens."""
    i, j = tl.program_id(0), tl.arange(0, COLUMNS)
    total = _sum(g_shares, tokens, tl.load(starts + i), tl.load(starts + i + 1), E, LISTED, COLUMNS)
    tl.store(g_vectors + i.to(tl.int64) * E + j, total, mask=j < E)


def leaves(ngrams: Ngrams, batch: Batch, embedding: Tensor, vectors: Tensor) -> Tensor:
    """The table of leaves [V, E], where only the rows of the batch's tokens are written."""
    table, E = torch.empty_like(embedding), embedding.shape[1]
    ids, offsets, _, _ = ngrams.on(embedding.device)
    _ngrams_kernel[(len(batch.token),)](
        embedding, vectors, ids, offsets, batch.token, batch.sizes, table, E,
        LISTED=LISTED, COLUMNS=triton.next_power_of_2(E), num_warps=4,
    )  # fmt: skip
    return table


def g_vectors(ngrams: Ngrams, g_table: Tensor) -> Tensor:
    """The gradient by the vectors of n-grams, from that by the table of leaves."""
    E = g_table.shape[1]
    _, offsets, tokens, starts = ngrams.on(g_table.device)
    g_shares = g_table / offsets.diff().clamp(min=1)[:, None]
    result = g_table.new_empty(len(starts) - 1, E)
    if len(result):
        _g_ngrams_kernel[(len(result),)](
            g_shares, tokens, starts, result, E, LISTED=LISTED, COLUMNS=triton.next_power_of_2(E), num_warps=4
        )
    return result


class Table(torch.autograd.Function):
    """The table of leaves, for its gradient alone: a graph on the GPU has brought its leaves along, so that nobody
    reads the numbers, and there are none."""

    @staticmethod
    def forward(ctx: Any, ngrams: Ngrams, embedding: Tensor, vectors: Tensor) -> Tensor:
        ctx.ngrams = ngrams
        return embedding.new_empty(()).expand_as(embedding)

    @staticmethod
    def backward(ctx: Any, g_table: Tensor) -> Any:
        return None, g_table, g_vectors(ctx.ngrams, g_table)
