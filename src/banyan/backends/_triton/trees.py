"""From tokens to trees: greedy() of reference.py, with one warp per sentence. For encoding, only the roots."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
import triton
import triton.language as tl
from torch import Tensor

from banyan.backends._triton.batch import ROWS, Batch, Noise, kernel
from banyan.backends._triton.functions import Gates, function_at, gates_of, load_bias
from banyan.backends._triton.masks import (
    leaf_key,
    load_key,
    mask_of,
    mix,
    node_key,
    occurrence_key,
    state_of,
    store_key,
)
from banyan.config import SETTINGS
from banyan.errors import BanyanError
from banyan.model.dropout import NO_DROPOUT
from banyan.model.functions import Functions
from banyan.model.graph import runs_of_sentences

IN_REGISTERS = 512  # the longest sentence whose frontier is a linked list in registers
TOKENS = 1 << 20  # encoded at a time, each with its own vector in memory
# Whether the compiler may fuse a product and a sum. Where a thread has one column, it would fuse the first sum over
# threads: each thread then rounds the other's product and not its own, and the same cosine has other bits in other
# threads. Pairs that mirror each other ("the X the", once X is one node) would no longer tie.
FUSED = False
GONE = tl.constexpr(-(2**31))  # ranks below every pair
INDUCED, RANDOM, BALANCED, RIGHT_BRANCHING = (tl.constexpr(i) for i in range(4))  # as in SETTINGS["structure"].choices


@dataclass(frozen=True)
class Forest:
    """The trees of a batch, numbered as in banyan.model.graph.Forest."""

    batch: Batch
    children: Tensor  # int32 [T-B, 2]
    key: Tensor  # int64 [T-B]: the key of each merge, for dropout
    order: Tensor  # int64 [T-B]: the height, then a hash of left and right; sorting it groups equal nodes
    shift: int  # the lowest bit of the height in `order`
    node_of: Tensor  # int32 [T + T-B]: the leaf of each position; room for the nodes of the merges


@kernel
def _leaves_kernel(
    embedding, token, leaves, keys, sizes, streams, scale, E,
    PLAIN: tl.constexpr, DROP: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    L = tl.load(sizes + 1)
    i = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    j = tl.arange(0, COLUMNS)
    t = tl.load(token + i, mask=i < L, other=0)
    key = leaf_key(t)
    if PLAIN:
        key = occurrence_key(key, i)
    store_key(keys + i, key, mask=i < L)
    inside = (i < L)[:, None] & (j < E)[None, :]
    row = tl.load(embedding + t.to(tl.int64)[:, None] * E + j[None, :], mask=inside, other=0.0)
    if DROP:
        row *= mask_of(state_of(key, 0, streams)[:, None], j[None, :], streams, scale, True)
    tl.store(leaves + i.to(tl.int64)[:, None] * E + j[None, :], row, mask=inside)


def dropped_leaves(embedding: Tensor, batch: Batch, key: Tensor, noise: Noise, plain: bool) -> Tensor:
    """The leaves of a batch [L, E] after dropout. Writes their keys to `key`."""
    L, E = len(batch.token), embedding.shape[1]
    leaves = embedding.new_empty(L, E)
    _leaves_kernel[(triton.cdiv(L, ROWS),)](
        embedding, batch.token, leaves, key, batch.sizes, noise.streams, noise.leaf_scale, E,
        PLAIN=plain, DROP=noise.on, ROWS=ROWS, COLUMNS=triton.next_power_of_2(E), num_warps=4,
    )  # fmt: skip
    return leaves


@triton.jit
def _rank(dot, norm_a, norm_b, same):
    """The similarity as an integer with the same order, so that a warp finds the highest in one instruction. Equal
    nodes score exactly 1, all others at most 1, a zero vector scores 0, and NaN ranks last, as -1.5."""
    both = norm_a * norm_b
    cosine = tl.where(both > 0, tl.minimum(dot / tl.where(both > 0, both, 1.0), 1.0), 0.0)
    cosine = tl.where((dot != dot) | (both != both), -1.5, cosine)
    bits = (tl.where(same, 1.0, cosine) + 0.0).to(tl.int32, bitcast=True)  # + 0.0 turns -0.0 into 0.0
    return bits ^ ((bits >> 31) & 0x7FFFFFFF)


@triton.jit
def _words_first(rank, inside):
    """Ranks of similarities lie between -2**30 and 2**30: move pairs within words above them, and others below."""
    return tl.where(inside != 0, rank + 2**30, rank - 2**30)


@triton.jit
def _rank_by_chance(left, right):
    """31 bits of the key that the parent would have, so that equal pairs rank equally."""
    return (node_key(left, right) >> 33).to(tl.int32)


@kernel
def _frontier_kernel(
    leaves, leaf, tokens, joined, work, norm, key, identity, rank, height, node, node_of, order, sizes, B, salt, M, E,
    ORDER: tl.constexpr, WORDS: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Initialise the frontier: the vector of each position and the rank of its pair with the next one."""
    T = tl.load(sizes)
    i = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    j = tl.arange(0, COLUMNS)
    here, there = i < T, i + 1 < T
    a_row, b_row = tl.load(leaf + i, mask=here, other=0), tl.load(leaf + i + 1, mask=there, other=0)
    a_place, b_place = a_row.to(tl.int64)[:, None] * E + j[None, :], b_row.to(tl.int64)[:, None] * E + j[None, :]
    a = tl.load(leaves + a_place, mask=here[:, None] & (j < E)[None, :], other=0.0)
    token, next_token = tl.load(tokens + i, mask=here, other=0), tl.load(tokens + i + 1, mask=there, other=-1)
    if ORDER == INDUCED:
        b = tl.load(leaves + b_place, mask=there[:, None] & (j < E)[None, :], other=0.0)
        a_norm, b_norm = tl.sqrt_rn(tl.sum(a * a, 1)), tl.sqrt_rn(tl.sum(b * b, 1))
        ranks = _rank(tl.sum(a * b, 1), a_norm, b_norm, token == next_token)
        if WORDS:
            ranks = _words_first(ranks, tl.load(joined + i + 1, mask=there, other=0))
        tl.store(rank + i, ranks, mask=here)
        tl.store(norm + i, a_norm, mask=here)
    elif ORDER == RANDOM:
        tl.store(rank + i, _rank_by_chance(leaf_key(token), leaf_key(next_token)), mask=here)
    elif ORDER == BALANCED:
        tl.store(rank + i, -2, mask=here)
    else:
        tl.store(rank + i, i, mask=here)
    tl.store(work + i.to(tl.int64)[:, None] * E + j[None, :], a, mask=here[:, None] & (j < E)[None, :])
    tl.store(height + i, 0, mask=here)
    tl.store(node + i, i, mask=here)
    tl.store(node_of + i, a_row, mask=here)
    tl.store(order + i, 0x7FFFFFFFFFFFFFFF, mask=(i >= T - B) & (i < M))  # unused entries sort last
    own = leaf_key(token)
    store_key(key + i, own, mask=here)
    store_key(identity + i, mix(own + salt.to(tl.uint64)), mask=here)


@triton.jit
def _linear(a, b, gates, E, U: tl.constexpr, COLUMNS: tl.constexpr):
    """Equation 1 for two rows in memory, as [channels, U]."""
    k, v = tl.arange(0, COLUMNS // U)[:, None], tl.arange(0, U)[None, :]
    of_a, of_b = function_at(gates, 0, U), function_at(gates, 1, U)
    parent = tl.zeros((COLUMNS // U, U), tl.float32) + load_bias(gates, 2, v, E, U)
    for u in tl.static_range(U):
        parent += tl.load(a + k * U + u, mask=k * U < E, other=0.0) * tl.load(of_a + u * U + v)
        parent += tl.load(b + k * U + u, mask=k * U < E, other=0.0) * tl.load(of_b + u * U + v)
    return tl.reshape(tl.where(k * U < E, parent, 0.0), (COLUMNS,))


@triton.jit
def _compose(a, b, gates, E, U: tl.constexpr, COLUMNS: tl.constexpr):
    """Equation 3, or 1 for linear functions, for two rows in memory."""
    if U:
        parent = _linear(a, b, gates, E, U, COLUMNS)
    else:
        column = tl.arange(0, COLUMNS)
        inside = column < E
        parent = tl.load(a + column, mask=inside, other=0.0) * tl.load(gates + column, mask=inside, other=0.0)
        parent += tl.load(b + column, mask=inside, other=0.0) * tl.load(gates + E + column, mask=inside, other=0.0)
        parent += tl.load(gates + 2 * E + column, mask=inside, other=0.0)
    return parent


@triton.jit
def _merge(
    k, i, j, m, r, s, n, merge, T, E, joined, work, norm, key, identity, height, node, children, merge_key, order,
    gates, sizes, streams, scale, shift, hash_bits, ORDER: tl.constexpr, WORDS: tl.constexpr, U: tl.constexpr,
    PLAIN: tl.constexpr, DROP: tl.constexpr, STRUCTURE: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Merge positions i and j of a sentence into i. Return the new ranks of its pairs with its neighbours m and r; s
    follows r. (If a neighbour is missing, i stands in for it, and the rank is not used.)"""
    column = tl.arange(0, COLUMNS)
    inside = column < E
    left, right = tl.where(m >= 0, m, i), tl.where(r < n, r, i)
    if ORDER == INDUCED:
        left_row = tl.load(work + left.to(tl.int64) * E + column, mask=inside, other=0.0)
        right_row = tl.load(work + right.to(tl.int64) * E + column, mask=inside, other=0.0)
        left_norm, right_norm = tl.load(norm + left), tl.load(norm + right)
    left_key, right_key = load_key(key + left), load_key(key + right)
    own = node_key(load_key(key + i), load_key(key + j))
    parent = _compose(work + i.to(tl.int64) * E, work + j.to(tl.int64) * E, gates, E, U, COLUMNS)
    if DROP:
        drop_key = occurrence_key(own, tl.load(sizes) + merge + k) if PLAIN else own
        parent *= mask_of(state_of(drop_key, 1, streams), column, streams, scale)
    if ORDER == INDUCED:
        own_norm = tl.sqrt_rn(tl.sum(parent * parent, 0))
        with_left, with_right = tl.sum(left_row * parent, 0), tl.sum(right_row * parent, 0)
    if STRUCTURE:
        own_height = 1 + tl.maximum(tl.load(height + i), tl.load(height + j))
        own_identity = node_key(load_key(identity + i), load_key(identity + j))
        left_node, right_node = tl.load(node + i), tl.load(node + j)
    tl.debug_barrier()  # every thread has read what is overwritten below
    tl.store(work + i.to(tl.int64) * E + column, parent, mask=inside)
    if ORDER == INDUCED:
        tl.store(norm + i, own_norm)
    store_key(key + i, own)
    if STRUCTURE:
        tl.store(height + i, own_height)
        store_key(identity + i, own_identity)
        tl.store(node + i, T + merge + k)
        tl.store(children + 2 * k, left_node)
        tl.store(children + 2 * k + 1, right_node)
        if PLAIN:
            store_key(merge_key + k, occurrence_key(own, tl.load(sizes) + merge + k))
            low = (merge + k).to(tl.int64)
        else:
            store_key(merge_key + k, own)
            low = (own_identity >> (64 - hash_bits).to(tl.uint64)).to(tl.int64, bitcast=True)
        tl.store(order + k, (own_height.to(tl.int64) << shift) | low)
    tl.debug_barrier()
    if ORDER == INDUCED:
        of_left = _rank(with_left, left_norm, own_norm, left_key == own)
        of_right = _rank(with_right, own_norm, right_norm, own == right_key)
        if WORDS:
            of_left = _words_first(of_left, tl.load(joined + i))
            of_right = _words_first(of_right, tl.load(joined + right))
    elif ORDER == RANDOM:
        of_left, of_right = _rank_by_chance(left_key, own), _rank_by_chance(own, right_key)
    elif ORDER == BALANCED:
        of_left, of_right = m - r, i - s
    else:  # the ranks stay the same: positions in the batch
        of_left, of_right = merge + tl.program_id(0) + m, merge + tl.program_id(0) + i
    return of_left, of_right


@triton.jit
def _best_in_memory(rank, n, BLOCK: tl.constexpr):
    """The position of the highest of n ranks, the leftmost if there is a tie."""
    p = tl.arange(0, BLOCK)
    best, i = tl.full((), GONE, tl.int32), tl.full((), 0, tl.int32)
    for start in range(0, n, BLOCK):
        ranks = tl.load(rank + start + p, mask=start + p < n, other=GONE)
        highest = tl.max(ranks, 0)
        at = start + tl.min(tl.where(ranks == highest, p, BLOCK), 0)
        i, best = tl.where(highest > best, at, i), tl.maximum(highest, best)
    return i


@kernel
def _induce_kernel(
    offsets, joined, work, norm, key, identity, rank, height, node, after, before, children, merge_key, order, gates,
    sizes, streams, scale, shift, hash_bits, T, E,
    ORDER: tl.constexpr, WORDS: tl.constexpr, U: tl.constexpr, PLAIN: tl.constexpr, DROP: tl.constexpr,
    STRUCTURE: tl.constexpr, LONG: tl.constexpr, COLUMNS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Merge one sentence in its rows of `work`. A parent replaces its left child, so the root ends up in the first row.

    A merge changes only two similarities. The frontier is a linked list of positions. Its ranks and links are in
    registers for sentences of up to BLOCK tokens, and in memory for longer ones."""
    b = tl.program_id(0)
    first = tl.load(offsets + b).to(tl.int64)
    n = (tl.load(offsets + b + 1) - first).to(tl.int32)
    merge = (first - b).to(tl.int32)  # the number of merges in earlier sentences
    work, norm, key, identity, rank = work + first * E, norm + first, key + first, identity + first, rank + first
    height, node, after, before, joined = height + first, node + first, after + first, before + first, joined + first
    children, merge_key, order = children + 2 * (first - b), merge_key + (first - b), order + (first - b)
    p = tl.arange(0, BLOCK)
    if not LONG or n <= BLOCK:
        ranks = tl.load(rank + p, mask=p < n - 1, other=GONE)
        nexts, lasts = p + 1, p - 1
        for k in range(n - 1):
            best = tl.max(ranks, 0)
            i = tl.min(tl.where(ranks == best, p, BLOCK), 0)  # the leftmost
            j, m = tl.sum(tl.where(p == i, nexts, 0), 0), tl.sum(tl.where(p == i, lasts, 0), 0)
            r = tl.sum(tl.where(p == j, nexts, 0), 0)
            s = r
            if ORDER == BALANCED:
                s = tl.sum(tl.where(p == r, nexts, 0), 0)
            of_m, of_i = _merge(
                k, i, j, m, r, s, n, merge, T, E, joined, work, norm, key, identity, height, node, children, merge_key,
                order, gates, sizes, streams, scale, shift, hash_bits, ORDER, WORDS, U, PLAIN, DROP, STRUCTURE, COLUMNS,
            )  # fmt: skip
            ranks = tl.where((p == j) | ((p == i) & (r >= n)), GONE, tl.where(p == i, of_i, ranks))
            ranks = tl.where(p == m, of_m, ranks)
            nexts, lasts = tl.where(p == i, r, nexts), tl.where(p == r, i, lasts)
    else:
        for start in range(0, n, BLOCK):
            tl.store(after + start + p, start + p + 1, mask=start + p < n)
            tl.store(before + start + p, start + p - 1, mask=start + p < n)
        tl.store(rank + n - 1, GONE)
        tl.debug_barrier()
        for k in range(n - 1):
            i = _best_in_memory(rank, n, BLOCK)
            j, m = tl.load(after + i), tl.load(before + i)
            r = tl.load(after + j)
            s = r
            if ORDER == BALANCED:
                s = tl.load(after + r, mask=r < n, other=0)
            of_m, of_i = _merge(
                k, i, j, m, r, s, n, merge, T, E, joined, work, norm, key, identity, height, node, children, merge_key,
                order, gates, sizes, streams, scale, shift, hash_bits, ORDER, WORDS, U, PLAIN, DROP, STRUCTURE, COLUMNS,
            )  # fmt: skip
            tl.store(rank + i, tl.where(r < n, of_i, GONE))
            tl.store(rank + j, GONE)
            tl.store(rank + m, of_m, mask=m >= 0)
            tl.store(after + i, r)
            tl.store(before + r, i, mask=r < n)
            tl.debug_barrier()


class _Space(NamedTuple):
    """Workspace, with one entry per position."""

    work: Tensor
    norm: Tensor
    key: Tensor
    identity: Tensor
    rank: Tensor
    height: Tensor
    node: Tensor
    after: Tensor
    before: Tensor


def _merge_all(
    batch: Batch,
    leaves: Tensor,
    gates: Gates,
    noise: Noise,
    plain: bool,
    with_forest: bool,
    salt: int,
    hash_bits: int,
    structure: str,
    joined: Tensor | None,
) -> tuple[_Space, Forest]:
    if joined is not None and structure != "induced":
        raise BanyanError(f"on a GPU, words cannot merge first in {structure} trees: use the CPU")
    T, B, E = len(batch.tokens), len(batch.offsets) - 1, leaves.shape[1]
    M = T - B
    shift = 63 - max(batch.longest.bit_length(), 1)
    long = batch.longest > IN_REGISTERS
    integers = batch.tokens.new_empty(5, T)  # rank, height, node, after, before
    keys = batch.tokens.new_empty(2, T, dtype=torch.int64)
    space = _Space(leaves.new_empty(T, E), leaves.new_empty(T), *keys.unbind(), *integers.unbind())
    room = max(M, 1) if with_forest else 0
    node_of, children = batch.tokens.new_empty(T + M), batch.tokens.new_empty(room, 2)
    own = keys.new_empty(2, room)
    columns, order = triton.next_power_of_2(E), SETTINGS["structure"].choices.index(structure)
    words, inside = joined is not None, batch.tokens if joined is None else joined  # not read without words
    _frontier_kernel[(triton.cdiv(T, ROWS),)](
        leaves, batch.leaf, batch.tokens, inside, *space[:7], node_of, own[1], batch.sizes, B, salt, room, E,
        ORDER=order, WORDS=words, ROWS=ROWS, COLUMNS=columns, num_warps=4, enable_fp_fusion=FUSED,
    )  # fmt: skip
    _induce_kernel[(B,)](
        batch.offsets, inside, *space, children, own[0], own[1], gates.numbers, batch.sizes, noise.streams, noise.scale,
        shift, min(hash_bits, shift), T, E, ORDER=order, WORDS=words, U=gates.U, PLAIN=plain, DROP=noise.on,
        STRUCTURE=with_forest, LONG=long, COLUMNS=columns,
        BLOCK=max(16, min(triton.next_power_of_2(batch.longest), IN_REGISTERS)), num_warps=1,
        enable_fp_fusion=FUSED,
    )  # fmt: skip
    return space, Forest(batch, children[:M], own[0, :M], own[1, :M], shift, node_of)


def induce(
    batch: Batch,
    leaves: Tensor,
    gates: Gates,
    noise: Noise,
    plain: bool = False,
    salt: int = 0,
    hash_bits: int = 64,
    structure: str = "induced",
    joined: Tensor | None = None,
) -> Forest:
    """The trees of a batch, from its leaves after dropout. joined [T]: as in Backend.structure."""
    return _merge_all(batch, leaves, gates, noise, plain, True, salt, hash_bits, structure, joined)[1]


# --- Roots alone -----------------------------------------------------------------------------------------------------


class Encoder:
    """Computes only the roots of sentences, which is all that inference needs: _numba.Encoder on a GPU."""

    def __init__(
        self, embedding: np.ndarray, f: Functions, device: torch.device, structure: str = "induced"
    ) -> None:
        self.embedding = torch.from_numpy(embedding).to(device)
        functions = tuple(torch.from_numpy(vector.astype(np.float32)).to(device) for vector in f)
        with _on(device):
            self.gates = gates_of(functions, embedding.shape[1])
        self.noise = Noise.of(NO_DROPOUT, device)
        self.structure = structure

    def roots(
        self,
        tokens: np.ndarray,
        offsets: np.ndarray,
        out: np.ndarray,
        n_threads: int | None = None,
        joined: np.ndarray | None = None,
    ) -> None:
        """n_threads is ignored: it concerns only the CPU."""
        for start, end in runs_of_sentences(offsets, TOKENS):
            first, last = offsets[start], offsets[end]
            own = offsets[start : end + 1] - first
            arrays = [tokens[first:last], own, *([] if joined is None else [joined[first:last]])]
            brought = [torch.from_numpy(array.astype(np.int32)).to(self.embedding.device) for array in arrays]
            roots = self.on_device(brought[0], brought[1], int(np.diff(own).max()), *brought[2:])
            out[start:end, : roots.shape[1]] = roots.cpu().numpy()

    def on_device(self, tokens: Tensor, offsets: Tensor, longest: int, joined: Tensor | None = None) -> Tensor:
        """The roots [B, E] of sentences on the device. No sentence may be empty. joined: as in Backend.structure."""
        sizes = offsets[-1:]
        batch = Batch(tokens, offsets, tokens, tokens, sizes, longest)
        with _on(tokens.device):
            given = batch, self.embedding, self.gates, self.noise, False, False, 0, 64
            space, _ = _merge_all(*given, self.structure, joined)
        return space.work[offsets[:-1].long()]


def _on(device: torch.device) -> AbstractContextManager[object]:
    """Make this the current device, on which Triton launches its kernels."""
    return torch.cuda.device(device) if device.type == "cuda" else nullcontext()
