"""The GPU kernels, in Triton: what reference.py says, from a batch's tokens to every gradient without a word from the
host in between. How many distinct nodes and levels there are is known on the device alone.

Structure: one warp merges one sentence, all sentences of a batch in one launch; equal nodes are found by sorting a
hash of (height, left, right), which is then verified. Passes: Equations 3 and 4 never mix columns, so one program
takes a few columns through all levels and waits for nobody else. Its columns of all nodes lie together in memory (a
"slab" [N, C], of which there are E/C), so that they stay in the cache of its own processor.
Every sum has a fixed order: the same seed gives the same bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import torch
import triton
import triton.language as tl
from torch import Tensor

from banyan.graph import Graph
from banyan.reference import LEAF, LEFT_MESSAGE, NODE, RIGHT_MESSAGE, Dropout, Functions

SLABS = 128  # about one for each multiprocessor of a large GPU
IN_REGISTERS = 512  # the longest sentence whose frontier is a linked list in registers
TOKENS = 1 << 20  # that are encoded at a time, each with a vector of its own in memory
BLOCK = 512  # nodes or edges that one program of the passes handles at a time
_NUMBERED = 512  # merges that one program numbers
PLACES = (LEAF, NODE, LEFT_MESSAGE, RIGHT_MESSAGE)
GONE = tl.constexpr(-(2**31))  # ranks below every pair


# What changes from batch to batch: a variant of a kernel for each peculiarity of these would be compiled for nothing.
_VARIES = {
    "do_not_specialize": ["T", "B", "M", "N", "salt", "shift", "hash_bits", "n", "before", "parts"],
    "do_not_specialize_on_alignment": ["tokens", "offsets", "token", "leaf", "sizes", "streams", "target", "count"],
}


def kernel(function: Any) -> Any:
    names = function.__code__.co_varnames[: function.__code__.co_argcount]
    return triton.jit(function, **{how: [name for name in which if name in names] for how, which in _VARIES.items()})


class Batch(NamedTuple):
    """Sentences on the device. Which tokens are distinct does not depend on the weights, so it is known beforehand.

    There may be room for more tokens and more distinct ones than there are, so that batches of different sizes can
    take the same way (a CUDA graph) through the same memory."""

    tokens: Tensor  # int32 [T]
    offsets: Tensor  # int32 [B+1]
    token: Tensor  # int32 [L]: of each leaf
    leaf: Tensor  # int32 [T]: of each position
    sizes: Tensor  # int32 [2]: how many tokens and leaves there really are
    longest: int  # sentence that there can be, in tokens

    @classmethod
    def of(cls, tokens: np.ndarray, offsets: np.ndarray, device: torch.device, plain: bool = False) -> Batch:
        token, leaf = (tokens, np.arange(len(tokens))) if plain else np.unique(tokens, return_inverse=True)
        arrays = (tokens, offsets, token, leaf, np.array([len(tokens), len(token)]))
        tensors = [torch.from_numpy(array.astype(np.int32)).to(device) for array in arrays]
        return cls._make([*tensors, int(np.diff(offsets).max())])


class Noise(NamedTuple):
    """A Dropout as the kernels use it."""

    streams: Tensor  # int64: of the four places, and the threshold
    scale: float
    on: bool

    @classmethod
    def of(cls, dropout: Dropout, device: torch.device) -> Noise:
        return cls(cls.streams_of([dropout], device)[0], 1 / (1 - dropout.rate), dropout.rate > 0)

    @staticmethod
    def streams_of(dropouts: Sequence[Dropout], device: torch.device) -> Tensor:
        """Of many steps, brought to the device together [steps, 6]."""
        numbers = [[*map(d.stream, PLACES), int(d.rate * 2**32), 0] for d in dropouts]
        return torch.from_numpy(np.array(numbers, np.uint64).view(np.int64)).to(device)


@dataclass(frozen=True)
class Forest:
    """The trees of a batch, numbered as in banyan.graph.Forest."""

    batch: Batch
    children: Tensor  # int32 [T-B, 2]
    key: Tensor  # int64 [T-B]: what each merge is, for dropout
    order: Tensor  # int64 [T-B]: height, and a hash of left and right; sorts equal nodes together
    shift: int  # by which the height stands in it
    node_of: Tensor  # int32 [T + T-B]: the leaf of each position; room for the nodes of the merges


@dataclass(frozen=True)
class DeviceGraph:
    """banyan.graph.Graph on the device, with room for as many nodes as there could be; and what its merges saw."""

    batch: Batch
    children: Tensor  # int32 [room, 2]
    root: Tensor  # int32 [B]
    apart: Tensor  # int32 [B]: the roots that are in no other tree, each once; -1 elsewhere
    levels: Tensor  # int32
    key: Tensor  # int64 [L + room]
    node_of: Tensor  # int32 [T + T-B]
    messages: Tensor  # int32 [L + room]
    counts: Tensor  # int32 [4]: nodes, levels, whether two different nodes had one hash, and leaves
    owner: Tensor  # int32 [2·room]: the child that each message goes to, in order
    edge: Tensor  # int64 [2·room]: twice the number of the inner node that sends it, plus 1 if to its right child
    edge_levels: Tensor  # int32: messages edge_levels[h]..edge_levels[h+1] go to nodes of height h
    states: Tensor  # int64 [2, 2·room]: where the masks of each message begin, and those of the node that sends it
    leaves: Tensor  # float32 [L, E], dropped out
    gates: Tensor  # float32 [7, E]
    noise: Noise
    plain: bool

    @property
    def token(self) -> Tensor:
        return self.batch.token

    @property
    def n_nodes(self) -> Tensor:
        return self.counts[0]

    @property
    def collided(self) -> Tensor:
        return self.counts[2]

    def to_numpy(self) -> Graph:
        nodes, levels, collided, L = self.counts.tolist()
        assert not collided
        return Graph(
            self.token[:L].cpu().numpy(),
            self.children[: nodes - L].cpu().numpy(),
            self.root.cpu().numpy(),
            self.levels[: levels + 1].cpu().numpy().astype(np.int64),
            self.key[:nodes].cpu().numpy().view(np.uint64),
            self.node_of.cpu().numpy(),
        )


# --- Keys and masks --------------------------------------------------------------------------------------------------


@triton.jit
def _mix(x):
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB
    return x ^ (x >> 31)


@triton.jit
def _leaf_key(token):
    return _mix(token.to(tl.uint64) + 0x9E3779B97F4A7C15)


@triton.jit
def _node_key(left, right):
    return _mix(left * 0x9E3779B97F4A7C15 + right)


@triton.jit
def _occurrence_key(key, occurrence):
    return _mix(key ^ (occurrence.to(tl.uint64) * 0xD1342543DE82EF95))


@triton.jit
def _load_key(pointer, mask=None):
    return tl.load(pointer, mask=mask).to(tl.uint64, bitcast=True)


@triton.jit
def _store_key(pointer, key, mask=None):
    tl.store(pointer, key.to(tl.int64, bitcast=True), mask=mask)


@triton.jit
def _mask(state, columns, streams, scale):
    """Of these columns; state and columns broadcast against each other."""
    low, high = state.to(tl.uint32), (state >> 32).to(tl.uint32) | 1
    x = low + columns.to(tl.uint32) * high
    x = (x ^ (x >> 16)) * 0x85EBCA6B
    x = (x ^ (x >> 13)) * 0xC2B2AE35
    x = x ^ (x >> 16)
    return tl.where(x >= tl.load(streams + 4).to(tl.uint32), scale, 0.0)


@triton.jit
def _state(key, place, streams):
    return _mix(key ^ _load_key(streams + place))


@kernel
def _leaves_kernel(
    embedding, token, leaves, keys, sizes, streams, scale, E,
    PLAIN: tl.constexpr, DROP: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    L = tl.load(sizes + 1)
    i = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    j = tl.arange(0, COLUMNS)
    t = tl.load(token + i, mask=i < L, other=0)
    key = _leaf_key(t)
    if PLAIN:
        key = _occurrence_key(key, i)
    _store_key(keys + i, key, mask=i < L)
    inside = (i < L)[:, None] & (j < E)[None, :]
    row = tl.load(embedding + t.to(tl.int64)[:, None] * E + j[None, :], mask=inside, other=0.0)
    if DROP:
        row *= _mask(_state(key, 0, streams)[:, None], j[None, :], streams, scale)
    tl.store(leaves + i.to(tl.int64)[:, None] * E + j[None, :], row, mask=inside)


@kernel
def _return_kernel(
    g_leaves, token, g_embedding, keys, counts, streams, scale, E,
    DROP: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """The gradients of the leaves, through their masks, to their rows of the embedding, which no two share."""
    L = tl.load(counts + 3)
    i = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    j = tl.arange(0, COLUMNS)
    inside = (i < L)[:, None] & (j < E)[None, :]
    row = tl.load(g_leaves + i.to(tl.int64)[:, None] * E + j[None, :], mask=inside, other=0.0)
    if DROP:
        row *= _mask(_state(_load_key(keys + i, i < L), 0, streams)[:, None], j[None, :], streams, scale)
    t = tl.load(token + i, mask=i < L, other=0)
    tl.store(g_embedding + t.to(tl.int64)[:, None] * E + j[None, :], row, mask=inside)


_ROWS = 8


def dropped_leaves(embedding: Tensor, batch: Batch, key: Tensor, noise: Noise, plain: bool) -> Tensor:
    """The leaves of a batch [L, E], dropped out; `key` gets what they are."""
    L, E = len(batch.token), embedding.shape[1]
    leaves = embedding.new_empty(L, E)
    _leaves_kernel[(triton.cdiv(L, _ROWS),)](
        embedding, batch.token, leaves, key, batch.sizes, noise.streams, noise.scale, E,
        PLAIN=plain, DROP=noise.on, ROWS=_ROWS, COLUMNS=triton.next_power_of_2(E), num_warps=4,
    )  # fmt: skip
    return leaves


def returned(graph: DeviceGraph, g_leaves: Tensor, V: int) -> Tensor:
    """The gradient by the embedding [V, E], from that by the leaves."""
    (L, E), noise = g_leaves.shape, graph.noise
    g_embedding = g_leaves.new_zeros(V, E)
    token = torch.arange(L, device=graph.token.device, dtype=torch.int32) if graph.plain else graph.token
    to = torch.zeros_like(g_leaves) if graph.plain else g_embedding
    _return_kernel[(triton.cdiv(L, _ROWS),)](
        g_leaves, token, to, graph.key, graph.counts, noise.streams, noise.scale, E,
        DROP=noise.on, ROWS=_ROWS, COLUMNS=triton.next_power_of_2(E), num_warps=4,
    )  # fmt: skip
    return g_embedding.index_put_((graph.token,), to, accumulate=True) if graph.plain else g_embedding


# --- Induction: greedy() of reference.py -----------------------------------------------------------------------------


@triton.jit
def _rank(dot, norm_a, norm_b, same):
    """The similarity as a whole number in the same order, so that a warp finds the highest in one instruction. Equal
    nodes score exactly 1, all others are clamped to 1, a zero vector scores 0, and what is not a number comes last."""
    both = norm_a * norm_b
    cosine = tl.where(both > 0, tl.minimum(dot / tl.where(both > 0, both, 1.0), 1.0), 0.0)
    cosine = tl.where((dot != dot) | (both != both), -2.0, cosine)
    bits = (tl.where(same, 1.0, cosine) + 0.0).to(tl.int32, bitcast=True)  # + 0.0: there is a negative zero
    return bits ^ ((bits >> 31) & 0x7FFFFFFF)


@kernel
def _frontier_kernel(
    leaves, leaf, tokens, work, norm, key, identity, rank, height, node, node_of, order, sizes, B, salt, M, E,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Each position's vector, and its similarity with the next one."""
    T = tl.load(sizes)
    i = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    j = tl.arange(0, COLUMNS)
    here, there = i < T, i + 1 < T
    a_row, b_row = tl.load(leaf + i, mask=here, other=0), tl.load(leaf + i + 1, mask=there, other=0)
    a_place, b_place = a_row.to(tl.int64)[:, None] * E + j[None, :], b_row.to(tl.int64)[:, None] * E + j[None, :]
    a = tl.load(leaves + a_place, mask=here[:, None] & (j < E)[None, :], other=0.0)
    b = tl.load(leaves + b_place, mask=there[:, None] & (j < E)[None, :], other=0.0)
    token = tl.load(tokens + i, mask=here, other=0)
    same = token == tl.load(tokens + i + 1, mask=there, other=-1)
    a_norm, b_norm = tl.sqrt_rn(tl.sum(a * a, 1)), tl.sqrt_rn(tl.sum(b * b, 1))
    tl.store(rank + i, _rank(tl.sum(a * b, 1), a_norm, b_norm, same), mask=here)
    tl.store(work + i.to(tl.int64)[:, None] * E + j[None, :], a, mask=here[:, None] & (j < E)[None, :])
    tl.store(norm + i, a_norm, mask=here)
    tl.store(height + i, 0, mask=here)
    tl.store(node + i, i, mask=here)
    tl.store(node_of + i, a_row, mask=here)
    tl.store(order + i, 0x7FFFFFFFFFFFFFFF, mask=(i >= T - B) & (i < M))  # room that is not needed sorts last
    own = _leaf_key(token)
    _store_key(key + i, own, mask=here)
    _store_key(identity + i, _mix(own + salt.to(tl.uint64)), mask=here)


@triton.jit
def _merge(
    k, i, j, m, r, n, merge, T, E, work, norm, key, identity, height, node, children, merge_key, order, gates,
    sizes, streams, scale, shift, hash_bits,
    PLAIN: tl.constexpr, DROP: tl.constexpr, STRUCTURE: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Positions i and j of a sentence become one, at i; m and r are its neighbours. Their new ranks with it. (Where
    there is no neighbour, i stands in, and the rank is not used.)"""
    column = tl.arange(0, COLUMNS)
    inside = column < E
    left, right = tl.where(m >= 0, m, i), tl.where(r < n, r, i)
    a = tl.load(work + i.to(tl.int64) * E + column, mask=inside, other=0.0)
    b = tl.load(work + j.to(tl.int64) * E + column, mask=inside, other=0.0)
    left_row = tl.load(work + left.to(tl.int64) * E + column, mask=inside, other=0.0)
    right_row = tl.load(work + right.to(tl.int64) * E + column, mask=inside, other=0.0)
    left_norm, right_norm = tl.load(norm + left), tl.load(norm + right)
    left_key, right_key = _load_key(key + left), _load_key(key + right)
    own = _node_key(_load_key(key + i), _load_key(key + j))
    parent = a * tl.load(gates + column, mask=inside, other=0.0)
    parent += b * tl.load(gates + E + column, mask=inside, other=0.0)
    parent += tl.load(gates + 2 * E + column, mask=inside, other=0.0)
    if DROP:
        drop_key = own
        if PLAIN:
            drop_key = _occurrence_key(own, tl.load(sizes) + merge + k)
        parent *= _mask(_state(drop_key, 1, streams), column, streams, scale)
    own_norm = tl.sqrt_rn(tl.sum(parent * parent, 0))
    with_left, with_right = tl.sum(left_row * parent, 0), tl.sum(right_row * parent, 0)
    if STRUCTURE:
        own_height = 1 + tl.maximum(tl.load(height + i), tl.load(height + j))
        own_identity = _node_key(_load_key(identity + i), _load_key(identity + j))
        left_node, right_node = tl.load(node + i), tl.load(node + j)
    tl.debug_barrier()  # all have read what is now written
    tl.store(work + i.to(tl.int64) * E + column, parent, mask=inside)
    tl.store(norm + i, own_norm)
    _store_key(key + i, own)
    if STRUCTURE:
        tl.store(height + i, own_height)
        _store_key(identity + i, own_identity)
        tl.store(node + i, T + merge + k)
        tl.store(children + 2 * k, left_node)
        tl.store(children + 2 * k + 1, right_node)
        if PLAIN:
            _store_key(merge_key + k, _occurrence_key(own, tl.load(sizes) + merge + k))
            low = (merge + k).to(tl.int64)
        else:
            _store_key(merge_key + k, own)
            low = (own_identity >> (64 - hash_bits).to(tl.uint64)).to(tl.int64, bitcast=True)
        tl.store(order + k, (own_height.to(tl.int64) << shift) | low)
    tl.debug_barrier()
    of_left = _rank(with_left, left_norm, own_norm, left_key == own)
    return of_left, _rank(with_right, own_norm, right_norm, own == right_key)


@kernel
def _induce_kernel(
    offsets, work, norm, key, identity, rank, height, node, after, before, children, merge_key, order, gates,
    sizes, streams, scale, shift, hash_bits, T, E,
    PLAIN: tl.constexpr, DROP: tl.constexpr, STRUCTURE: tl.constexpr, LONG: tl.constexpr,
    COLUMNS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Merge one sentence in its rows of `work`; a parent takes its left child's place, so the root ends in the first.

    A merge changes only two similarities. The frontier is a linked list of positions: in registers for sentences of
    up to BLOCK tokens, where only the ranks of pairs and the links are looked at by all, and in memory beyond."""
    b = tl.program_id(0)
    first = tl.load(offsets + b).to(tl.int64)
    n = (tl.load(offsets + b + 1) - first).to(tl.int32)
    merge = (first - b).to(tl.int32)  # the merges of the sentences before
    work, norm, key, identity, rank = work + first * E, norm + first, key + first, identity + first, rank + first
    height, node, after, before = height + first, node + first, after + first, before + first
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
            of_m, of_i = _merge(
                k, i, j, m, r, n, merge, T, E, work, norm, key, identity, height, node, children, merge_key, order,
                gates, sizes, streams, scale, shift, hash_bits, PLAIN, DROP, STRUCTURE, COLUMNS,
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
            best, i = tl.full((), GONE, tl.int32), tl.full((), 0, tl.int32)
            for start in range(0, n, BLOCK):
                ranks = tl.load(rank + start + p, mask=start + p < n, other=GONE)
                highest = tl.max(ranks, 0)
                at = start + tl.min(tl.where(ranks == highest, p, BLOCK), 0)
                i, best = tl.where(highest > best, at, i), tl.maximum(highest, best)
            j, m = tl.load(after + i), tl.load(before + i)
            r = tl.load(after + j)
            of_m, of_i = _merge(
                k, i, j, m, r, n, merge, T, E, work, norm, key, identity, height, node, children, merge_key, order,
                gates, sizes, streams, scale, shift, hash_bits, PLAIN, DROP, STRUCTURE, COLUMNS,
            )  # fmt: skip
            tl.store(rank + i, tl.where(r < n, of_i, GONE))
            tl.store(rank + j, GONE)
            tl.store(rank + m, of_m, mask=m >= 0)
            tl.store(after + i, r)
            tl.store(before + r, i, mask=r < n)
            tl.debug_barrier()


class _Space(NamedTuple):
    """Room to work in, one entry a position."""

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
    batch: Batch, leaves: Tensor, gates: Tensor, noise: Noise, plain: bool, structure: bool, salt: int, hash_bits: int
) -> tuple[_Space, Forest]:
    T, B, E = len(batch.tokens), len(batch.offsets) - 1, leaves.shape[1]
    M = T - B
    shift = 63 - max(batch.longest.bit_length(), 1)
    long = batch.longest > IN_REGISTERS
    integers = batch.tokens.new_empty(5, T)  # rank, height, node, after, before
    keys = batch.tokens.new_empty(2, T, dtype=torch.int64)
    space = _Space(leaves.new_empty(T, E), leaves.new_empty(T), *keys.unbind(), *integers.unbind())
    room = max(M, 1) if structure else 0
    node_of, children = batch.tokens.new_empty(T + M), batch.tokens.new_empty(room, 2)
    own = keys.new_empty(2, room)
    columns = triton.next_power_of_2(E)
    _frontier_kernel[(triton.cdiv(T, _ROWS),)](
        leaves, batch.leaf, batch.tokens, *space[:7], node_of, own[1], batch.sizes, B, salt, room, E,
        ROWS=_ROWS, COLUMNS=columns, num_warps=4,
    )  # fmt: skip
    _induce_kernel[(B,)](
        batch.offsets, *space, children, own[0], own[1], gates, batch.sizes, noise.streams, noise.scale, shift,
        min(hash_bits, shift), T, E, PLAIN=plain, DROP=noise.on, STRUCTURE=structure, LONG=long,
        COLUMNS=columns, BLOCK=max(16, min(triton.next_power_of_2(batch.longest), IN_REGISTERS)), num_warps=1,
    )  # fmt: skip
    return space, Forest(batch, children[:M], own[0, :M], own[1, :M], shift, node_of)


def induce(
    batch: Batch,
    leaves: Tensor,
    gates: Tensor,
    noise: Noise,
    plain: bool = False,
    salt: int = 0,
    hash_bits: int = 64,
) -> Forest:
    """The induced trees of a batch whose leaves, already dropped out, are given."""
    return _merge_all(batch, leaves, gates, noise, plain, True, salt, hash_bits)[1]


class Encoder:
    """Roots of batches of sentences, and nothing else: what inference needs. As _numba.Encoder, on a GPU."""

    def __init__(self, embedding: np.ndarray, f: Functions, device: torch.device) -> None:
        self.embedding = torch.from_numpy(embedding).to(device)
        functions = tuple(torch.from_numpy(vector.astype(np.float32)).to(device) for vector in f)
        with _on(device):
            self.gates = gates_of(functions, embedding.shape[1])
        self.noise = Noise(torch.zeros(5, dtype=torch.int64, device=device), 1.0, False)

    def roots(self, tokens: np.ndarray, offsets: np.ndarray, out: np.ndarray, n_threads: int | None = None) -> None:
        """n_threads is the CPU's business."""
        for start, end in _runs_of_sentences(offsets, TOKENS):
            own = offsets[start : end + 1] - offsets[start]
            arrays = tokens[offsets[start] : offsets[end]], own
            brought = [torch.from_numpy(array.astype(np.int32)).to(self.embedding.device) for array in arrays]
            out[start:end] = self.on_device(brought[0], brought[1], int(np.diff(own).max())).cpu().numpy()

    def on_device(self, tokens: Tensor, offsets: Tensor, longest: int) -> Tensor:
        """The roots [B, E] of sentences that are on the device; no sentence may be empty."""
        sizes = offsets[-1:]
        batch = Batch(tokens, offsets, tokens, tokens, sizes, longest)
        with _on(tokens.device):
            space, _ = _merge_all(batch, self.embedding, self.gates, self.noise, False, False, 0, 64)
        return space.work[offsets[:-1].long()]


def _on(device: torch.device) -> AbstractContextManager[object]:
    """Triton launches on the current device."""
    return torch.cuda.device(device) if device.type == "cuda" else nullcontext()


def _runs_of_sentences(offsets: np.ndarray, tokens: int) -> list[tuple[int, int]]:
    """Cut a batch into runs of sentences of about so many tokens."""
    cuts = np.searchsorted(offsets, np.arange(tokens, offsets[-1], tokens))
    bounds = np.unique(np.concatenate([[0], cuts, [len(offsets) - 1]])).tolist()
    return list(pairwise(bounds))


# --- From forest to graph --------------------------------------------------------------------------------------------


@triton.jit
def _is_new(order, i, here):
    """Whether the i-th merge in order is the first of its equals."""
    own = tl.load(order + i, mask=here, other=0)
    last = tl.load(order + i - 1, mask=here & (i > 0), other=-1)
    return own, last, (here & (own != last)).to(tl.int32)


@kernel
def _count_kernel(order, news, sizes, B, BLOCK: tl.constexpr):
    """How many distinct merges each block has."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    _, _, new = _is_new(order, i, i < tl.load(sizes) - B)
    tl.store(news + tl.program_id(0), tl.sum(new, 0))


@kernel
def _number_kernel(
    order, news, occurrence, merge_key, node_of, key, first_of, levels, counts, sizes, shift, B, T,
    BLOCK: tl.constexpr, BLOCKS: tl.constexpr,
):  # fmt: skip
    """Each merge, in order, gets the number of its node; the first of equals stands for all."""
    L, M = tl.load(sizes + 1), tl.load(sizes) - B
    block = tl.arange(0, BLOCKS)
    before = tl.sum(tl.load(news + block, mask=block < tl.program_id(0), other=0), 0)
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    here = i < M
    own, last, new = _is_new(order, i, here)
    node = L - 1 + before + tl.cumsum(new, 0)
    m = tl.load(occurrence + i, mask=here, other=0)
    tl.store(node_of + T + m, node, mask=here)
    tl.store(first_of + node - L, m, mask=new > 0)
    tl.store(key + node, tl.load(merge_key + m, mask=new > 0, other=0), mask=new > 0)
    height = own >> shift
    tl.store(levels + height, node, mask=here & (height != (last >> shift)))
    tl.store(levels + height + 1, node + 1, mask=i == M - 1)
    tl.store(counts + 0 * i, node + 1, mask=i == M - 1)
    tl.store(counts + 1 + 0 * i, (height + 1).to(tl.int32), mask=i == M - 1)
    if tl.program_id(0) == 0:
        tl.store(levels, 0)
        tl.store(counts + 2, 0)
        tl.store(counts + 3, L)
        if M == 0:
            tl.store(levels + 1, L)
            tl.store(counts, L)
            tl.store(counts + 1, 1)


@kernel
def _link_kernel(
    forest, node_of, first_of, children, owner, messages, counts, sizes, B, T, M, N, BLOCK: tl.constexpr
):
    """The children of each node. All merges that share a number must have the same, or two hashes were equal."""
    L = tl.load(sizes + 1)
    m = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    here = m < tl.load(sizes) - B
    left = tl.load(node_of + tl.load(forest + 2 * m, mask=here, other=0), mask=here, other=0)
    right = tl.load(node_of + tl.load(forest + 2 * m + 1, mask=here, other=0), mask=here, other=0)
    inner = tl.load(node_of + T + m, mask=here, other=0) - L
    first = tl.load(first_of + inner, mask=here, other=0)
    stands = here & (first == m)
    first_left = tl.load(node_of + tl.load(forest + 2 * first, mask=here, other=0), mask=here, other=0)
    first_right = tl.load(node_of + tl.load(forest + 2 * first + 1, mask=here, other=0), mask=here, other=0)
    differs = here & ((left != first_left) | (right != first_right))
    tl.atomic_max(counts + 2, tl.max(differs.to(tl.int32), 0))
    tl.store(children + 2 * inner, left, mask=stands)
    tl.store(children + 2 * inner + 1, right, mask=stands)
    tl.store(owner + 2 * inner, left, mask=stands)
    tl.store(owner + 2 * inner + 1, right, mask=stands)
    empty = (m < M) & (m >= tl.load(counts) - L)  # no node has this number: sorted behind all messages
    tl.store(owner + 2 * m, N, mask=empty)
    tl.store(owner + 2 * m + 1, N, mask=empty)
    tl.atomic_add(messages + left, 1, mask=stands)
    tl.atomic_add(messages + right, 1, mask=stands)


@kernel
def _root_kernel(offsets, node_of, messages, seen, root, apart, B, T, BLOCK: tl.constexpr):
    """Each sentence's root: its last merge, or its only token. Those that are in no other tree are also listed apart,
    each once."""
    b = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    here = b < B
    first, end = tl.load(offsets + b, mask=here, other=0), tl.load(offsets + b + 1, mask=here, other=0)
    node = tl.load(node_of + tl.where(end - first == 1, first, T + end - b - 2), mask=here, other=0)
    tl.store(root + b, node, mask=here)
    alone = here & (tl.load(messages + node, mask=here, other=1) == 0)
    again = tl.atomic_add(seen + node, 1, mask=alone)
    tl.store(apart + b, tl.where(alone & (again == 0), node, -1), mask=here)


@kernel
def _edge_kernel(edge, key, states, streams, counts, M, BLOCK: tl.constexpr):
    """What the masks of each message begin with: of the message itself, and of the node that sends it."""
    L = tl.load(counts + 3)
    e = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    here = e < 2 * (tl.load(counts) - L)
    sent = tl.load(edge + e, mask=here, other=0)
    own = _load_key(key + L + (sent >> 1), here)
    _store_key(states + e, _mix(own ^ _load_key(streams + 2 + (sent & 1), here)), here)
    _store_key(states + 2 * M + e, _state(own, 1, streams), here)


def structure(
    batch: Batch,
    embedding: Tensor,
    functions: tuple[Tensor, ...],
    noise: Noise,
    plain: bool = False,
    salt: int = 0,
    hash_bits: int = 64,
) -> DeviceGraph:
    """Induce the trees of a batch and make them one graph. Another `salt` gives other hashes; at most `hash_bits` of
    them are used."""
    T, B, L = len(batch.tokens), len(batch.offsets) - 1, len(batch.token)
    gates = gates_of(functions, embedding.shape[1])
    key = batch.tokens.new_empty(L + T - B, dtype=torch.int64)
    leaves = dropped_leaves(embedding.detach(), batch, key, noise, plain)
    forest = induce(batch, leaves, gates, noise, plain, salt, hash_bits)
    return entangle(forest, key, leaves, gates, noise, plain)


def entangle(
    forest: Forest, key: Tensor, leaves: Tensor, gates: Tensor, noise: Noise, plain: bool
) -> DeviceGraph:
    """Equal nodes of all sentences become one. (Of a plain forest no two are equal: this sorts it by height.) `key` is
    known of the leaves, and has room for the rest."""
    batch, M = forest.batch, len(forest.children)
    T, B, N = len(batch.tokens), len(batch.offsets) - 1, len(key)
    levels, counts = batch.tokens.new_empty(batch.longest + 2), batch.tokens.new_empty(4)
    messages, seen = batch.tokens.new_zeros(2, N).unbind()
    children, owner, first_of = batch.tokens.new_empty(5, M).split([2, 2, 1])
    owner = owner.view(-1)
    order, occurrence = torch.sort(forest.order)
    blocks = max(1, triton.cdiv(M, _NUMBERED))
    news = batch.tokens.new_empty(blocks)
    _count_kernel[(blocks,)](order, news, batch.sizes, B, BLOCK=_NUMBERED)
    _number_kernel[(blocks,)](
        order, news, occurrence, forest.key, forest.node_of, key, first_of, levels, counts, batch.sizes, forest.shift,
        B, T, BLOCK=_NUMBERED, BLOCKS=triton.next_power_of_2(blocks),
    )  # fmt: skip
    if M:
        _link_kernel[(triton.cdiv(M, 256),)](
            forest.children, forest.node_of, first_of, children, owner, messages, counts, batch.sizes, B, T, M, N,
            BLOCK=256,
        )  # fmt: skip
    root, apart = batch.offsets.new_empty(2, B).unbind()
    _root_kernel[(triton.cdiv(B, 256),)](
        batch.offsets, forest.node_of, messages, seen, root, apart, B, T, BLOCK=256
    )
    owner, edge = torch.sort(owner, stable=True)
    edge_levels = torch.searchsorted(owner, levels, out_int32=True)
    states = key.new_empty(2, 2 * M)
    if M and noise.on:
        _edge_kernel[(triton.cdiv(2 * M, 256),)](edge, key, states, noise.streams, counts, M, BLOCK=256)
    return DeviceGraph(
        batch, children.view(M, 2), root, apart, levels, key, forest.node_of, messages, counts, owner, edge,
        edge_levels, states, leaves, gates, noise, plain,
    )  # fmt: skip


# --- Both passes and their gradients ---------------------------------------------------------------------------------


@kernel
def _up_kernel(
    leaves, up, children, key, levels, counts, gates, streams, scale, N, E,
    DROP: tl.constexpr, C: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Equation 3 from the leaves up."""
    L = tl.load(counts + 3)
    c = tl.program_id(0) * C + tl.arange(0, C)[None, :]
    up += tl.program_id(0).to(tl.int64) * N * C + tl.arange(0, C)[None, :]
    gate_l, gate_r, bias = tl.load(gates + c), tl.load(gates + E + c), tl.load(gates + 2 * E + c)
    p = tl.arange(0, BLOCK)[:, None]
    for start in range(0, L, BLOCK):
        leaf = start + p
        tl.store(up + leaf * C, tl.load(leaves + leaf.to(tl.int64) * E + c, mask=leaf < L, other=0.0), mask=leaf < L)
    tl.debug_barrier()
    for h in range(1, tl.load(counts + 1)):
        end = tl.load(levels + h + 1)
        for start in range(tl.load(levels + h), end, BLOCK):
            node = start + p
            here = node < end
            left = tl.load(children + 2 * (node - L), mask=here, other=0)
            right = tl.load(children + 2 * (node - L) + 1, mask=here, other=0)
            parent = tl.load(up + left * C, mask=here, other=0.0) * gate_l
            parent += tl.load(up + right * C, mask=here, other=0.0) * gate_r
            parent += bias
            if DROP:
                parent *= _mask(_state(_load_key(key + node, here), 1, streams), c, streams, scale)
            tl.store(up + node * C, parent, mask=here)
        tl.debug_barrier()


@triton.jit
def _add_within(a, a_starts, b, b_starts):
    """Sums that begin anew where a segment starts."""
    return tl.where(b_starts != 0, b, a + b), a_starts | b_starts


@triton.jit
def _sums(value, child, last, carry, carry_child, BLOCK: tl.constexpr, C: tl.constexpr):
    """Sums of `value` over neighbouring rows of the same child, complete in the last of them; `carry` is the sum of
    carry_child's rows in the blocks before. Returns the sums and what to carry on."""
    starts = tl.broadcast_to((child != last).to(tl.int32), (BLOCK, C))
    total, _ = tl.associative_scan((value, starts), 0, _add_within)
    total += tl.where(child == carry_child, carry, 0.0)
    p = tl.arange(0, BLOCK)[:, None]
    carry = tl.sum(tl.where(p == BLOCK - 1, total, 0.0), 0, keep_dims=True)
    return total, carry, tl.max(tl.where(p == BLOCK - 1, child, -1))


@kernel
def _down_kernel(
    up, down, rebuilt, apart, B, messages, edge_levels, owner, edge, states, counts, gates, streams, scale, N, E,
    DROP: tl.constexpr, C: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Equation 4 from the roots down; a node takes the mean of its messages."""
    L = tl.load(counts + 3)
    c = tl.program_id(0) * C + tl.arange(0, C)[None, :]
    slab = tl.program_id(0).to(tl.int64) * N * C + tl.arange(0, C)[None, :]
    up, down = up + slab, down + slab
    gate_l, gate_r = tl.load(gates + 3 * E + c), tl.load(gates + 4 * E + c)
    bias_l, bias_r = tl.load(gates + 5 * E + c), tl.load(gates + 6 * E + c)
    p = tl.arange(0, BLOCK)[:, None]
    n_levels = tl.load(counts + 1)
    for start in range(0, B, BLOCK):
        node = tl.load(apart + start + p, mask=start + p < B, other=-1)
        tl.store(down + node * C, tl.load(up + node * C, mask=node >= 0, other=0.0), mask=node >= 0)
    tl.debug_barrier()
    for below in range(2, n_levels + 1):
        begin, end = tl.load(edge_levels + n_levels - below), tl.load(edge_levels + n_levels - below + 1)
        carry, carry_child = tl.zeros((1, C), tl.float32), tl.full((), -1, tl.int32)
        for start in range(begin, end, BLOCK):
            e = start + p
            here = e < end
            child = tl.load(owner + e, mask=here, other=-2)
            sent = tl.load(edge + e, mask=here, other=0)
            node, to_left = L + (sent >> 1), (sent & 1) == 0
            message = tl.load(down + node * C, mask=here, other=0.0) * tl.where(to_left, gate_l, gate_r)
            message += tl.where(to_left, bias_l, bias_r)
            if DROP:
                message *= _mask(_load_key(states + e, here), c, streams, scale)
            last = tl.load(owner + e - 1, mask=here & (p > 0), other=-3)
            total, carry, carry_child = _sums(message, child, last, carry, carry_child, BLOCK, C)
            whole = here & (child != tl.load(owner + e + 1, mask=e + 1 < end, other=-3))
            count = tl.load(messages + child, mask=whole, other=1)
            tl.store(down + child * C, total / count.to(tl.float32), mask=whole)
        tl.debug_barrier()
    for start in range(0, L, BLOCK):
        leaf = start + p
        value = tl.load(down + leaf * C, mask=leaf < L, other=0.0)
        tl.store(rebuilt + leaf.to(tl.int64) * E + c, value, mask=leaf < L)


@kernel
def _back_up_kernel(
    down, g_rebuilt, g_down, children, key, messages, levels, counts, gates, g_gates, streams, scale, N, E,
    DROP: tl.constexpr, MORE: tl.constexpr, C: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Gradients along the messages, from the leaves back up to the roots. MORE: g_down holds some from outside."""
    L = tl.load(counts + 3)
    c = tl.program_id(0) * C + tl.arange(0, C)[None, :]
    slab = tl.program_id(0).to(tl.int64) * N * C + tl.arange(0, C)[None, :]
    down, g_down = down + slab, g_down + slab
    gate_l, gate_r = tl.load(gates + 3 * E + c), tl.load(gates + 4 * E + c)
    g_gate_l, g_gate_r = tl.zeros((BLOCK, C), tl.float32), tl.zeros((BLOCK, C), tl.float32)
    g_bias_l, g_bias_r = tl.zeros((BLOCK, C), tl.float32), tl.zeros((BLOCK, C), tl.float32)
    p = tl.arange(0, BLOCK)[:, None]
    for start in range(0, L, BLOCK):
        leaf = start + p
        g = tl.load(g_rebuilt + leaf.to(tl.int64) * E + c, mask=leaf < L, other=0.0)
        if MORE:
            g += tl.load(g_down + leaf * C, mask=leaf < L, other=0.0)
        tl.store(g_down + leaf * C, g, mask=leaf < L)
    tl.debug_barrier()
    for h in range(1, tl.load(counts + 1)):
        end = tl.load(levels + h + 1)
        for start in range(tl.load(levels + h), end, BLOCK):
            node = start + p
            here = node < end
            left = tl.load(children + 2 * (node - L), mask=here, other=0)
            right = tl.load(children + 2 * (node - L) + 1, mask=here, other=0)
            g_left = tl.load(g_down + left * C, mask=here, other=0.0)
            g_left /= tl.load(messages + left, mask=here, other=1).to(tl.float32)
            g_right = tl.load(g_down + right * C, mask=here, other=0.0)
            g_right /= tl.load(messages + right, mask=here, other=1).to(tl.float32)
            if DROP:
                own = _load_key(key + node, here)
                g_left *= _mask(_state(own, 2, streams), c, streams, scale)
                g_right *= _mask(_state(own, 3, streams), c, streams, scale)
            value = tl.load(down + node * C, mask=here, other=0.0)
            g_gate_l += g_left * value
            g_gate_r += g_right * value
            g_bias_l += g_left
            g_bias_r += g_right
            g = g_left * gate_l + g_right * gate_r
            if MORE:
                g += tl.load(g_down + node * C, mask=here, other=0.0)
            tl.store(g_down + node * C, g, mask=here)
        tl.debug_barrier()
    tl.store(g_gates + 3 * E + c, tl.sum(g_gate_l, 0, keep_dims=True))
    tl.store(g_gates + 4 * E + c, tl.sum(g_gate_r, 0, keep_dims=True))
    tl.store(g_gates + 5 * E + c, tl.sum(g_bias_l, 0, keep_dims=True))
    tl.store(g_gates + 6 * E + c, tl.sum(g_bias_r, 0, keep_dims=True))


@kernel
def _back_down_kernel(
    up, g_up, g_down, g_leaves, apart, B, edge_levels, owner, edge, states, counts, gates, g_gates, streams,
    scale, N, E, DROP: tl.constexpr, MORE: tl.constexpr, C: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Gradients along the compositions, from the roots back down to the leaves. MORE: g_up holds some from outside."""
    L = tl.load(counts + 3)
    c = tl.program_id(0) * C + tl.arange(0, C)[None, :]
    slab = tl.program_id(0).to(tl.int64) * N * C + tl.arange(0, C)[None, :]
    up, g_up, g_down = up + slab, g_up + slab, g_down + slab
    gate_l, gate_r = tl.load(gates + c), tl.load(gates + E + c)
    g_gate_l, g_gate_r = tl.zeros((BLOCK, C), tl.float32), tl.zeros((BLOCK, C), tl.float32)
    g_bias = tl.zeros((BLOCK, C), tl.float32)
    p = tl.arange(0, BLOCK)[:, None]
    n_levels = tl.load(counts + 1)
    for start in range(0, B, BLOCK):  # a root that is in no other tree came down as it went up
        node = tl.load(apart + start + p, mask=start + p < B, other=-1)
        g = tl.load(g_down + node * C, mask=node >= 0, other=0.0)
        if MORE:
            g += tl.load(g_up + node * C, mask=node >= 0, other=0.0)
        tl.store(g_up + node * C, g, mask=node >= 0)
    tl.debug_barrier()
    for below in range(2, n_levels + 1):
        begin, end = tl.load(edge_levels + n_levels - below), tl.load(edge_levels + n_levels - below + 1)
        carry, carry_child = tl.zeros((1, C), tl.float32), tl.full((), -1, tl.int32)
        for start in range(begin, end, BLOCK):
            e = start + p
            here = e < end
            child = tl.load(owner + e, mask=here, other=-2)
            sent = tl.load(edge + e, mask=here, other=0)
            node, to_left = L + (sent >> 1), (sent & 1) == 0
            g = tl.load(g_up + node * C, mask=here, other=0.0)
            if DROP:
                g *= _mask(_load_key(states + e, here), c, streams, scale)
            of_gate = g * tl.load(up + child * C, mask=here, other=0.0)
            g_gate_l += tl.where(to_left, of_gate, 0.0)
            g_gate_r += tl.where(to_left, 0.0, of_gate)
            g_bias += tl.where(to_left, g, 0.0)
            last = tl.load(owner + e - 1, mask=here & (p > 0), other=-3)
            g *= tl.where(to_left, gate_l, gate_r)
            total, carry, carry_child = _sums(g, child, last, carry, carry_child, BLOCK, C)
            whole = here & (child != tl.load(owner + e + 1, mask=e + 1 < end, other=-3))
            if MORE:
                total += tl.load(g_up + child * C, mask=whole, other=0.0)
            tl.store(g_up + child * C, total, mask=whole)
        tl.debug_barrier()
    for start in range(0, L, BLOCK):
        leaf = start + p
        g = tl.load(g_up + leaf * C, mask=leaf < L, other=0.0)
        tl.store(g_leaves + leaf.to(tl.int64) * E + c, g, mask=leaf < L)
    tl.store(g_gates + c, tl.sum(g_gate_l, 0, keep_dims=True))
    tl.store(g_gates + E + c, tl.sum(g_gate_r, 0, keep_dims=True))
    tl.store(g_gates + 2 * E + c, tl.sum(g_bias, 0, keep_dims=True))


def _columns(E: int) -> int:
    """C: of one slab."""
    C = 1
    while E % (2 * C) == 0 and E // C > SLABS:
        C *= 2
    return C


def _warps(C: int) -> int:
    return max(4, min(16, BLOCK * C // 64))


def up_pass(graph: DeviceGraph) -> Tensor:
    """The embedding of every node on the way up, in slabs [E/C, N, C]."""
    E, N, noise = graph.leaves.shape[1], len(graph.key), graph.noise
    C = _columns(E)
    up = graph.leaves.new_empty(E // C, N, C)
    _up_kernel[(E // C,)](
        graph.leaves, up, graph.children, graph.key, graph.levels, graph.counts, graph.gates, noise.streams,
        noise.scale, N, E, DROP=noise.on, C=C, BLOCK=BLOCK, num_warps=_warps(C),
    )  # fmt: skip
    return up


def down_pass(graph: DeviceGraph, up: Tensor) -> tuple[Tensor, Tensor]:
    """The embedding of every node on the way down, in slabs; and of the leaves alone, in rows [L, E]."""
    (slabs, N, C), noise = up.shape, graph.noise
    down, rebuilt = torch.empty_like(up), torch.empty_like(graph.leaves)
    _down_kernel[(slabs,)](
        up, down, rebuilt, graph.apart, len(graph.apart), graph.messages, graph.edge_levels, graph.owner, graph.edge,
        graph.states[0], graph.counts, graph.gates, noise.streams, noise.scale, N, slabs * C,
        DROP=noise.on, C=C, BLOCK=BLOCK, num_warps=_warps(C),
    )  # fmt: skip
    return down, rebuilt


def backward(
    graph: DeviceGraph, up: Tensor, down: Tensor, g_up: Tensor | None, g_down: Tensor | None, g_rebuilt: Tensor
) -> tuple[Tensor, Tensor]:
    """The gradients by the leaves [L, E] and by the gates [7, E]; g_up and g_down are used up."""
    (slabs, N, C), noise, gates = up.shape, graph.noise, graph.gates
    E = slabs * C
    g_leaves, g_gates = torch.empty_like(graph.leaves), up.new_empty(7, E)
    options = {"DROP": noise.on, "C": C, "BLOCK": BLOCK, "num_warps": _warps(C)}
    more_up, more_down = g_up is not None, g_down is not None
    g_up, g_down = (torch.empty_like(up) if g is None else g for g in (g_up, g_down))
    _back_up_kernel[(slabs,)](
        down, g_rebuilt, g_down, graph.children, graph.key, graph.messages, graph.levels, graph.counts, gates, g_gates,
        noise.streams, noise.scale, N, E, MORE=more_down, **options,
    )  # fmt: skip
    _back_down_kernel[(slabs,)](
        up, g_up, g_down, g_leaves, graph.apart, len(graph.apart), graph.edge_levels, graph.owner, graph.edge,
        graph.states[1], graph.counts, gates, g_gates, noise.streams, noise.scale, N, E, MORE=more_up, **options,
    )  # fmt: skip
    return g_leaves, g_gates


# --- The seven vectors -----------------------------------------------------------------------------------------------


@triton.jit
def _vector(i, a, b, c, d, e, f, g, u, mask):
    """The i-th of seven, and whether it goes through a sigmoid."""
    if i == 0:
        value = tl.load(a + u, mask=mask)
    elif i == 1:
        value = tl.load(b + u, mask=mask)
    elif i == 2:
        value = tl.load(c + u, mask=mask)
    elif i == 3:
        value = tl.load(d + u, mask=mask)
    elif i == 4:
        value = tl.load(e + u, mask=mask)
    elif i == 5:
        value = tl.load(f + u, mask=mask)
    else:
        value = tl.load(g + u, mask=mask)
    return value, (i < 5) & (i != 2)


@kernel
def _gates_kernel(a, b, c, d, e, f, g, gates, U, E, COLUMNS: tl.constexpr):
    i, j = tl.program_id(0), tl.arange(0, COLUMNS)
    value, gated = _vector(i, a, b, c, d, e, f, g, j % U, j < E)
    tl.store(gates + i * E + j, tl.where(gated, tl.sigmoid(value), value), mask=j < E)


@kernel
def _g_functions_kernel(
    a, b, c, d, e, f, g, g_gates, out, U, E, CHANNELS: tl.constexpr, WIDTH: tl.constexpr
):
    i = tl.program_id(0)
    k, u = tl.arange(0, CHANNELS)[:, None], tl.arange(0, WIDTH)[None, :]
    inside = (u < U) & (k * U + u < E)
    total = tl.sum(tl.load(g_gates + i * E + k * U + u, mask=inside, other=0.0), 0, keep_dims=True)
    value, gated = _vector(i, a, b, c, d, e, f, g, u, u < U)
    s = tl.sigmoid(value)
    tl.store(out + i * U + u, tl.where(gated, total * s * (1 - s), total), mask=u < U)


def gates_of(functions: tuple[Tensor, ...], E: int) -> Tensor:
    """The seven vectors as the kernels use them: sigmoids taken, repeated over the channels [7, E]."""
    gates = functions[0].new_empty(7, E)
    _gates_kernel[(7,)](*functions, gates, len(functions[0]), E, COLUMNS=triton.next_power_of_2(E))
    return gates


def g_functions(g_gates: Tensor, functions: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """From the gradients by the gates to those by the seven vectors."""
    U, E = len(functions[0]), g_gates.shape[1]
    out = g_gates.new_empty(7, U)
    _g_functions_kernel[(7,)](
        *functions, g_gates, out, U, E, CHANNELS=triton.next_power_of_2(E // U), WIDTH=triton.next_power_of_2(U)
    )
    return out.unbind()


# --- For autograd ----------------------------------------------------------------------------------------------------


class UpAndDown(torch.autograd.Function):
    """Both passes through a graph: up and down in slabs, and the rebuilt leaves."""

    @staticmethod
    def forward(ctx: Any, graph: DeviceGraph, embedding: Tensor, *functions: Tensor) -> Any:
        up = up_pass(graph)
        down, rebuilt = down_pass(graph, up)
        ctx.graph, ctx.vocab_size = graph, len(embedding)
        ctx.save_for_backward(up, down, *functions)
        ctx.set_materialize_grads(False)
        return up, down, rebuilt

    @staticmethod
    def backward(ctx: Any, g_up: Tensor | None, g_down: Tensor | None, g_rebuilt: Tensor | None) -> Any:
        graph, (up, down, *functions) = ctx.graph, ctx.saved_tensors
        own_up, own_down = (
            None if g is None else g.clone(memory_format=torch.contiguous_format) for g in (g_up, g_down)
        )
        of_rebuilt = torch.zeros_like(graph.leaves) if g_rebuilt is None else g_rebuilt.contiguous()
        g_leaves, g_gates = backward(graph, up, down, own_up, own_down, of_rebuilt)
        return None, returned(graph, g_leaves, ctx.vocab_size), *g_functions(g_gates, functions)


class Passes(NamedTuple):
    """A batch, up and down, as banyan.model.Passes."""

    graph: DeviceGraph
    up: Tensor  # in slabs [E/C, N, C]
    down: Tensor
    rebuilt: Tensor  # the leaves as they come down [L, E]

    @property
    def roots(self) -> Tensor:
        """The sentences [B, E]."""
        slabs = self.up[:, self.graph.root.long()]
        return slabs.permute(1, 0, 2).reshape(slabs.shape[1], -1)
