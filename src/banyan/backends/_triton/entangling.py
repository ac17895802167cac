"""From trees to one graph: equal nodes are found by sorting hashes and then verified."""

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
from banyan.config import SETTINGS
from banyan.model.graph import Graph

NUMBERED = 512  # merges that each program numbers
SIDE, AGE, RANDOM = (tl.constexpr(i) for i in range(3))  # as in SETTINGS["halves"].choices


@dataclass(frozen=True)
class DeviceGraph:
    """A Graph on the device, with room for the greatest possible number of nodes, and the inputs of its merges."""

    batch: Batch
    children: Tensor  # int32 [room, 2]
    root: Tensor  # int32 [B]
    apart: Tensor  # int32 [B]: the roots that are in no other tree, each listed once; -1 elsewhere
    levels: Tensor  # int32
    receivers: Tensor  # int32 [room, 2]: the children in the order of the halves that they get
    key: Tensor  # int64 [L + room]
    node_of: Tensor  # int32 [T + T-B]
    messages: Tensor  # int32 [L + room]
    counts: Tensor  # int32 [4]: nodes, levels, whether two different nodes had the same hash, leaves
    owner: Tensor  # int32 [2·room]: the child that receives each message, sorted
    edge: Tensor  # int64 [2·room]: twice the inner-node number of the sender, plus 1 if sent to its right child
    edge_levels: Tensor  # int32: messages edge_levels[h]..edge_levels[h+1] go to nodes of height h
    states: Tensor  # int64 [2, 2·room]: the mask states of each message and of the node that sends it
    leaves: Tensor  # float32 [L, E], after dropout
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
            self.receivers[: nodes - L].cpu().numpy(),
        )


@triton.jit
def _is_new(order, i, here):
    """The i-th sort key, the one before it, and whether they differ, so that merge i is the first of its equals."""
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
    """Assign a node number to each merge, in sorted order. The first of equal merges represents all of them."""
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
    forest, merge_key, node_of, first_of, children, receivers, owner, messages, counts, sizes, B, T, M, N,
    HALVES: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Find the children of each node. If merges with the same number have different children, their hashes collided.
    In a forest, the older of two nodes has the lower number."""
    L = tl.load(sizes + 1)
    m = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    here = m < tl.load(sizes) - B
    left_in_forest = tl.load(forest + 2 * m, mask=here, other=0)
    right_in_forest = tl.load(forest + 2 * m + 1, mask=here, other=0)
    left = tl.load(node_of + left_in_forest, mask=here, other=0)
    right = tl.load(node_of + right_in_forest, mask=here, other=0)
    inner = tl.load(node_of + T + m, mask=here, other=0) - L
    first = tl.load(first_of + inner, mask=here, other=0)
    stands = here & (first == m)
    first_left = tl.load(node_of + tl.load(forest + 2 * first, mask=here, other=0), mask=here, other=0)
    first_right = tl.load(node_of + tl.load(forest + 2 * first + 1, mask=here, other=0), mask=here, other=0)
    differs = here & ((left != first_left) | (right != first_right))
    tl.atomic_max(counts + 2, tl.max(differs.to(tl.int32), 0))
    tl.store(children + 2 * inner, left, mask=stands)
    tl.store(children + 2 * inner + 1, right, mask=stands)
    if HALVES != SIDE:
        turned = right_in_forest < left_in_forest
        if HALVES == RANDOM:
            turned = (load_key(merge_key + m, here) & 1) == 1
        tl.store(receivers + 2 * inner, tl.where(turned, right, left), mask=stands)
        tl.store(receivers + 2 * inner + 1, tl.where(turned, left, right), mask=stands)
    tl.store(owner + 2 * inner, left, mask=stands)
    tl.store(owner + 2 * inner + 1, right, mask=stands)
    empty = (m < M) & (m >= tl.load(counts) - L)  # no node has this number: sorts after all messages
    tl.store(owner + 2 * m, N, mask=empty)
    tl.store(owner + 2 * m + 1, N, mask=empty)
    tl.atomic_add(messages + left, 1, mask=stands)
    tl.atomic_add(messages + right, 1, mask=stands)


@kernel
def _root_kernel(offsets, node_of, messages, seen, root, apart, B, T, BLOCK: tl.constexpr):
    """Find each sentence's root: its last merge, or its only token. Roots that are in no other tree are also listed in
    `apart`, each once."""
    b = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    here = b < B
    first, end = tl.load(offsets + b, mask=here, other=0), tl.load(offsets + b + 1, mask=here, other=0)
    node = tl.load(node_of + tl.where(end - first == 1, first, T + end - b - 2), mask=here, other=0)
    tl.store(root + b, node, mask=here)
    alone = here & (tl.load(messages + node, mask=here, other=1) == 0)
    again = tl.atomic_add(seen + node, 1, mask=alone)
    tl.store(apart + b, tl.where(alone & (again == 0), node, -1), mask=here)


@triton.jit
def is_first_half(sent, child, receivers, here, PLAIN: tl.constexpr):
    """Whether messages `sent` (values of DeviceGraph.edge) to `child` are first halves. In plain trees, both children
    of a node are never the same."""
    first = (sent & 1) == 0
    if PLAIN:
        first = tl.load(receivers + 2 * (sent >> 1), mask=here, other=-1) == child
    return first


@kernel
def _edge_kernel(
    edge, owner, receivers, key, states, streams, counts, M, PLAIN: tl.constexpr, BLOCK: tl.constexpr
):
    """Compute the mask states of each message and of the node that sends it."""
    L = tl.load(counts + 3)
    e = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    here = e < 2 * (tl.load(counts) - L)
    sent = tl.load(edge + e, mask=here, other=0)
    own = load_key(key + L + (sent >> 1), here)
    first = is_first_half(sent, tl.load(owner + e, mask=here, other=0), receivers, here, PLAIN)
    store_key(states + e, mix(own ^ load_key(streams + tl.where(first, 2, 3), here)), here)
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
    halves: str = "side",
    joined: Tensor | None = None,
) -> DeviceGraph:
    """Induce the trees of a batch and turn them into one graph. A different `salt` gives different hashes, of which at
    most `hash_bits` bits are used. structure, halves, joined: as in Backend.structure."""
    T, B, L = len(batch.tokens), len(batch.offsets) - 1, len(batch.token)
    gates = gates_of(functions, embedding.shape[1])
    key = batch.tokens.new_empty(L + T - B, dtype=torch.int64)
    leaves = dropped_leaves(embedding.detach(), batch, key, noise, plain)
    forest = induce(batch, leaves, gates, noise, plain, salt, hash_bits, structure, joined)
    return entangle(forest, key, leaves, gates, noise, plain, halves)


def entangle(
    forest: Forest, key: Tensor, leaves: Tensor, gates: Gates, noise: Noise, plain: bool, halves: str = "side"
) -> DeviceGraph:
    """Merge equal nodes of all sentences. (A plain forest has no equal nodes, so this only sorts it by height.) `key`
    holds the keys of the leaves and has room for the rest."""
    batch, M = forest.batch, len(forest.children)
    T, B, N = len(batch.tokens), len(batch.offsets) - 1, len(key)
    levels, counts = batch.tokens.new_empty(batch.longest + 2), batch.tokens.new_empty(4)
    messages, seen = batch.tokens.new_zeros(2, N).unbind()
    children, owner, first_of = batch.tokens.new_empty(5, M).split([2, 2, 1])
    children, owner = children.view(M, 2), owner.view(-1)
    receivers = children if halves == "side" else torch.empty_like(children)
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
            forest.children, forest.key, forest.node_of, first_of, children, receivers, owner, messages, counts,
            batch.sizes, B, T, M, N, HALVES=SETTINGS["halves"].choices.index(halves), BLOCK=256,
        )  # fmt: skip
    root, apart = batch.offsets.new_empty(2, B).unbind()
    _root_kernel[(triton.cdiv(B, 256),)](
        batch.offsets, forest.node_of, messages, seen, root, apart, B, T, BLOCK=256
    )
    owner, edge = torch.sort(owner, stable=True)
    edge_levels = torch.searchsorted(owner, levels, out_int32=True)
    states = key.new_empty(2, 2 * M)
    if M and noise.on:
        _edge_kernel[(triton.cdiv(2 * M, 256),)](
            edge, owner, receivers, key, states, noise.streams, counts, M, PLAIN=plain, BLOCK=256
        )
    return DeviceGraph(
        batch, children, root, apart, levels, receivers, key, forest.node_of, messages, counts, owner, edge,
        edge_levels, states, leaves, gates, noise, plain,
    )  # fmt: skip
