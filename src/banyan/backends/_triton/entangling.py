"""From trees to one graph: equal nodes are found by sorting hashes, and then verified."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
import triton
import triton.language as tl
from torch import Tensor

from banyan.backends._triton.batch import Batch, Noise, kernel
from banyan.backends._triton.functions import Gates, gates_of
from banyan.backends._triton.masks import load_key, mix, state_of, store_key
from banyan.backends._triton.trees import Forest, dropped_leaves, induce
from banyan.model.graph import Graph

NUMBERED = 512  # merges that one program numbers


@dataclass(frozen=True)
class DeviceGraph:
    """A Graph on the device, in buffers for the largest possible number of nodes, with the leaves, gates and dropout of
    its trees."""

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
    gates: Gates
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


@triton.jit
def _is_new(order, i, here):
    """Return whether the i-th merge in sorted order is the first of its equals."""
    own = tl.load(order + i, mask=here, other=0)
    last = tl.load(order + i - 1, mask=here & (i > 0), other=-1)
    return own, last, (here & (own != last)).to(tl.int32)


@kernel
def _count_kernel(order, news, sizes, B, BLOCK: tl.constexpr):
    """Count the distinct merges of each block."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    _, _, new = _is_new(order, i, i < tl.load(sizes) - B)
    tl.store(news + tl.program_id(0), tl.sum(new, 0))


@kernel
def _number_kernel(
    order, news, occurrence, merge_key, node_of, key, first_of, levels, counts, sizes, shift, B, T,
    BLOCK: tl.constexpr, BLOCKS: tl.constexpr,
):  # fmt: skip
    """Give each merge, in sorted order, the number of its node. The first of equal merges represents all."""
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
    """Write the children of each node. All merges with one number must have the same children, or two hashes
    collided."""
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
    """Write the root of each sentence: its last merge, or its only token. Roots that are in no other tree are also
    written to `apart`, each once."""
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
    """Write the initial states of the masks of each message and of the node that sends it."""
    L = tl.load(counts + 3)
    e = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    here = e < 2 * (tl.load(counts) - L)
    sent = tl.load(edge + e, mask=here, other=0)
    own = load_key(key + L + (sent >> 1), here)
    store_key(states + e, mix(own ^ load_key(streams + 2 + (sent & 1), here)), here)
    store_key(states + 2 * M + e, state_of(own, 1, streams), here)


def structure(
    batch: Batch,
    embedding: Tensor,
    functions: tuple[Tensor, ...],
    noise: Noise,
    plain: bool = False,
    salt: int = 0,
    hash_bits: int = 64,
    structure: str = "induced",
) -> DeviceGraph:
    """Induce the trees of a batch and entangle them. A different `salt` gives different hashes; at most `hash_bits` of
    their bits are used."""
    T, B, L = len(batch.tokens), len(batch.offsets) - 1, len(batch.token)
    gates = gates_of(functions, embedding.shape[1])
    key = batch.tokens.new_empty(L + T - B, dtype=torch.int64)
    leaves = dropped_leaves(embedding.detach(), batch, key, noise, plain)
    forest = induce(batch, leaves, gates, noise, plain, salt, hash_bits, structure)
    return entangle(forest, key, leaves, gates, noise, plain)


def entangle(
    forest: Forest, key: Tensor, leaves: Tensor, gates: Gates, noise: Noise, plain: bool
) -> DeviceGraph:
    """Merge equal nodes of all sentences. (In a plain forest no two are equal, and this sorts it by height.) `key`
    holds the keys of the leaves and has room for the others."""
    batch, M = forest.batch, len(forest.children)
    T, B, N = len(batch.tokens), len(batch.offsets) - 1, len(key)
    levels, counts = batch.tokens.new_empty(batch.longest + 2), batch.tokens.new_empty(4)
    messages, seen = batch.tokens.new_zeros(2, N).unbind()
    children, owner, first_of = batch.tokens.new_empty(5, M).split([2, 2, 1])
    owner = owner.view(-1)
    order, occurrence = torch.sort(forest.order)
    blocks = max(1, triton.cdiv(M, NUMBERED))
    news = batch.tokens.new_empty(blocks)
    _count_kernel[(blocks,)](order, news, batch.sizes, B, BLOCK=NUMBERED)
    _number_kernel[(blocks,)](
        order, news, occurrence, forest.key, forest.node_of, key, first_of, levels, counts, batch.sizes, forest.shift,
        B, T, BLOCK=NUMBERED, BLOCKS=triton.next_power_of_2(blocks),
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
