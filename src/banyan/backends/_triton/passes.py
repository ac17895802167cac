"""Both passes and their gradients, in slabs: each program takes a few columns through all levels."""

from __future__ import annotations

from math import gcd
from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from banyan.backends._triton.batch import ROWS, kernel
from banyan.backends._triton.entangling import DeviceGraph, is_first_half
from banyan.backends._triton.functions import g_functions, load_bias, load_gate, through, through_either
from banyan.backends._triton.masks import load_key, mask_of, state_of

SLABS = 128  # about one for each multiprocessor of a large GPU
BLOCK = 512  # nodes or messages that a program processes at a time
SMALLEST = 16  # the smallest matrix that tl.dot supports
PARTS = 256  # the most parts into which products over all nodes are split


@kernel
def _up_kernel(
    leaves, up, children, key, levels, counts, gates, streams, scale, N, E,
    U: tl.constexpr, DROP: tl.constexpr, C: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Equation 3 (or 1) from the leaves up."""
    L = tl.load(counts + 3)
    c = tl.program_id(0) * C + tl.arange(0, C)[None, :]
    up += tl.program_id(0).to(tl.int64) * N * C + tl.arange(0, C)[None, :]
    gate_l, gate_r = load_gate(gates, 0, c, E, U, C), load_gate(gates, 1, c, E, U, C)
    bias = load_bias(gates, 2, c, E, U)
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
            parent = through(tl.load(up + left * C, mask=here, other=0.0), gate_l, U, C)
            parent += through(tl.load(up + right * C, mask=here, other=0.0), gate_r, U, C)
            parent += bias
            if DROP:
                parent *= mask_of(state_of(load_key(key + node, here), 1, streams), c, streams, scale)
            tl.store(up + node * C, parent, mask=here)
        tl.debug_barrier()


@triton.jit
def _add_within(a, a_starts, b, b_starts):
    """Combine two partial sums of a segmented scan, which restarts at each segment."""
    return tl.where(b_starts != 0, b, a + b), a_starts | b_starts


@triton.jit
def _messages(e, end, L, owner, edge):
    """For messages e: whether e < end, the receiving child, the sending node, and the value of DeviceGraph.edge."""
    here = e < end
    sent = tl.load(edge + e, mask=here, other=0)
    return here, tl.load(owner + e, mask=here, other=-2), L + (sent >> 1), sent


@triton.jit
def _sums(
    value, e, end, child, here, owner, carry, carry_child, PLAIN: tl.constexpr, BLOCK: tl.constexpr, C: tl.constexpr
):
    """Sum `value` over consecutive messages to the same child; `carry` is the sum of carry_child's messages in earlier
    blocks. Returns the sums, where they are complete (at the last message to a child), and what to carry over.
    In PLAIN trees a child receives one message."""
    total, whole = value, here
    if not PLAIN:
        p = tl.arange(0, BLOCK)[:, None]
        last = tl.load(owner + e - 1, mask=here & (p > 0), other=-3)
        starts = tl.broadcast_to((child != last).to(tl.int32), (BLOCK, C))
        total, _ = tl.associative_scan((value, starts), 0, _add_within)
        total += tl.where(child == carry_child, carry, 0.0)
        whole = here & (child != tl.load(owner + e + 1, mask=e + 1 < end, other=-3))
        carry = tl.sum(tl.where(p == BLOCK - 1, total, 0.0), 0, keep_dims=True)
        carry_child = tl.max(tl.where(p == BLOCK - 1, child, -1))
    return total, whole, carry, carry_child


@kernel
def _down_kernel(
    up, down, rebuilt, apart, B, messages, receivers, edge_levels, owner, edge, states, counts, gates, streams, scale,
    N, E,
    PLAIN: tl.constexpr, U: tl.constexpr, DROP: tl.constexpr, C: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Equation 4 (or 2) from the roots down. A node is the mean of its messages."""
    L = tl.load(counts + 3)
    c = tl.program_id(0) * C + tl.arange(0, C)[None, :]
    slab = tl.program_id(0).to(tl.int64) * N * C + tl.arange(0, C)[None, :]
    up, down = up + slab, down + slab
    gate_1, gate_2 = load_gate(gates, 3, c, E, U, C), load_gate(gates, 4, c, E, U, C)
    bias_1, bias_2 = load_bias(gates, 5, c, E, U), load_bias(gates, 6, c, E, U)
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
            here, child, node, sent = _messages(e, end, L, owner, edge)
            first = is_first_half(sent, child, receivers, here, PLAIN)
            parent = tl.load(down + node * C, mask=here, other=0.0)
            message = through_either(parent, first, gate_1, gate_2, U, C)
            message += tl.where(first, bias_1, bias_2)
            if DROP:
                message *= mask_of(load_key(states + e, here), c, streams, scale)
            total, whole, carry, carry_child = _sums(
                message, e, end, child, here, owner, carry, carry_child, PLAIN, BLOCK, C
            )
            count = tl.load(messages + child, mask=whole, other=1)
            tl.store(down + child * C, total / count.to(tl.float32), mask=whole)
        tl.debug_barrier()
    for start in range(0, L, BLOCK):
        leaf = start + p
        value = tl.load(down + leaf * C, mask=leaf < L, other=0.0)
        tl.store(rebuilt + leaf.to(tl.int64) * E + c, value, mask=leaf < L)


@kernel
def _back_up_kernel(
    down, g_rebuilt, g_down, receivers, key, messages, levels, counts, gates, g_gates, streams, scale, N, E,
    U: tl.constexpr, DROP: tl.constexpr, MORE: tl.constexpr, C: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Propagate gradients along the messages, from the leaves to the roots. MORE: g_down holds incoming gradients.
    Gradients of diagonal gates are summed here; for linear ones, g_gates stores what _g_linear needs."""
    L = tl.load(counts + 3)
    c = tl.program_id(0) * C + tl.arange(0, C)[None, :]
    slab = tl.program_id(0).to(tl.int64) * N * C + tl.arange(0, C)[None, :]
    down, g_down = down + slab, g_down + slab
    gate_1, gate_2 = load_gate(gates, 3, c, E, U, C, True), load_gate(gates, 4, c, E, U, C, True)
    if U:
        of_half_1 = g_gates + slab + 3 * tl.num_programs(0).to(tl.int64) * N * C
        of_half_2 = g_gates + slab + 4 * tl.num_programs(0).to(tl.int64) * N * C
    else:
        g_gate_1, g_gate_2 = tl.zeros((BLOCK, C), tl.float32), tl.zeros((BLOCK, C), tl.float32)
        g_bias_1, g_bias_2 = tl.zeros((BLOCK, C), tl.float32), tl.zeros((BLOCK, C), tl.float32)
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
            a = tl.load(receivers + 2 * (node - L), mask=here, other=0)
            b = tl.load(receivers + 2 * (node - L) + 1, mask=here, other=0)
            g_half_1 = tl.load(g_down + a * C, mask=here, other=0.0)
            g_half_1 /= tl.load(messages + a, mask=here, other=1).to(tl.float32)
            g_half_2 = tl.load(g_down + b * C, mask=here, other=0.0)
            g_half_2 /= tl.load(messages + b, mask=here, other=1).to(tl.float32)
            if DROP:
                own = load_key(key + node, here)
                g_half_1 *= mask_of(state_of(own, 2, streams), c, streams, scale)
                g_half_2 *= mask_of(state_of(own, 3, streams), c, streams, scale)
            if U:
                tl.store(of_half_1 + node * C, g_half_1, mask=here)
                tl.store(of_half_2 + node * C, g_half_2, mask=here)
            else:
                value = tl.load(down + node * C, mask=here, other=0.0)
                g_gate_1 += g_half_1 * value
                g_gate_2 += g_half_2 * value
                g_bias_1 += g_half_1
                g_bias_2 += g_half_2
            g = through(g_half_1, gate_1, U, C) + through(g_half_2, gate_2, U, C)
            if MORE:
                g += tl.load(g_down + node * C, mask=here, other=0.0)
            tl.store(g_down + node * C, g, mask=here)
        tl.debug_barrier()
    if not U:
        tl.store(g_gates + 3 * E + c, tl.sum(g_gate_1, 0, keep_dims=True))
        tl.store(g_gates + 4 * E + c, tl.sum(g_gate_2, 0, keep_dims=True))
        tl.store(g_gates + 5 * E + c, tl.sum(g_bias_1, 0, keep_dims=True))
        tl.store(g_gates + 6 * E + c, tl.sum(g_bias_2, 0, keep_dims=True))


@kernel
def _back_down_kernel(
    up, g_up, g_down, g_leaves, apart, B, edge_levels, owner, edge, states, counts, gates, g_gates, streams,
    scale, N, E, PLAIN: tl.constexpr, U: tl.constexpr, DROP: tl.constexpr, MORE: tl.constexpr, C: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """Propagate gradients along the compositions, from roots to leaves. MORE: g_up holds incoming gradients."""
    L = tl.load(counts + 3)
    c = tl.program_id(0) * C + tl.arange(0, C)[None, :]
    slab = tl.program_id(0).to(tl.int64) * N * C + tl.arange(0, C)[None, :]
    up, g_up, g_down = up + slab, g_up + slab, g_down + slab
    gate_l, gate_r = load_gate(gates, 0, c, E, U, C, True), load_gate(gates, 1, c, E, U, C, True)
    if U:
        of_sum, of_child = g_gates + slab, tl.num_programs(0).to(tl.int64) * N * C
    else:
        g_gate_l, g_gate_r = tl.zeros((BLOCK, C), tl.float32), tl.zeros((BLOCK, C), tl.float32)
        g_bias = tl.zeros((BLOCK, C), tl.float32)
    p = tl.arange(0, BLOCK)[:, None]
    n_levels = tl.load(counts + 1)
    for start in range(0, B, BLOCK):  # the down vector of a root in no other tree is its up vector
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
            here, child, node, sent = _messages(e, end, L, owner, edge)
            to_left = (sent & 1) == 0
            g = tl.load(g_up + node * C, mask=here, other=0.0)
            if DROP:
                g *= mask_of(load_key(states + e, here), c, streams, scale)
            value = tl.load(up + child * C, mask=here, other=0.0)
            if U:
                tl.store(of_sum + node * C, g, mask=here & to_left)
                tl.store(of_sum + tl.where(to_left, of_child, 2 * of_child) + node * C, value, mask=here)
            else:
                of_gate = g * value
                g_gate_l += tl.where(to_left, of_gate, 0.0)
                g_gate_r += tl.where(to_left, 0.0, of_gate)
                g_bias += tl.where(to_left, g, 0.0)
            g = through_either(g, to_left, gate_l, gate_r, U, C)
            total, whole, carry, carry_child = _sums(
                g, e, end, child, here, owner, carry, carry_child, PLAIN, BLOCK, C
            )
            if MORE:
                total += tl.load(g_up + child * C, mask=whole, other=0.0)
            tl.store(g_up + child * C, total, mask=whole)
        tl.debug_barrier()
    for start in range(0, L, BLOCK):
        leaf = start + p
        g = tl.load(g_up + leaf * C, mask=leaf < L, other=0.0)
        tl.store(g_leaves + leaf.to(tl.int64) * E + c, g, mask=leaf < L)
    if not U:
        tl.store(g_gates + c, tl.sum(g_gate_l, 0, keep_dims=True))
        tl.store(g_gates + E + c, tl.sum(g_gate_r, 0, keep_dims=True))
        tl.store(g_gates + 2 * E + c, tl.sum(g_bias, 0, keep_dims=True))


def _columns(E: int, U: int) -> int:
    """C, the columns of a slab. Linear functions mix the columns of a channel, so a slab holds whole channels."""
    if U:
        return U if U >= SMALLEST or E % SMALLEST else SMALLEST
    C = 1
    while E % (2 * C) == 0 and E // C > SLABS:
        C *= 2
    return C


def _shape(C: int, U: int) -> dict[str, int]:
    """Launch options for slabs. Blocks are smaller for matrix products, which hold a whole block in registers."""
    block = min(BLOCK, max(16, 4096 // C)) if U else BLOCK
    return {"U": U, "C": C, "BLOCK": block, "num_warps": max(4, min(16, BLOCK * C // 64))}


def up_pass(graph: DeviceGraph) -> Tensor:
    """The up vector of every node, in slabs [E/C, N, C]."""
    E, N, noise, gates = graph.leaves.shape[1], len(graph.key), graph.noise, graph.gates
    C = _columns(E, gates.U)
    up = graph.leaves.new_empty(E // C, N, C)
    _up_kernel[(E // C,)](
        graph.leaves, up, graph.children, graph.key, graph.levels, graph.counts, gates.numbers, noise.streams,
        noise.scale, N, E, DROP=noise.on, **_shape(C, gates.U),
    )  # fmt: skip
    return up


def down_pass(graph: DeviceGraph, up: Tensor) -> tuple[Tensor, Tensor]:
    """The down vector of every node, in slabs, and the reconstructed leaves in rows [L, E]."""
    (slabs, N, C), noise, gates = up.shape, graph.noise, graph.gates
    # _g_linear also reads rows without a node: they may hold any finite number
    down = torch.zeros_like(up) if gates.U else torch.empty_like(up)
    rebuilt = torch.empty_like(graph.leaves)
    _down_kernel[(slabs,)](
        up, down, rebuilt, graph.apart, len(graph.apart), graph.messages, graph.receivers, graph.edge_levels,
        graph.owner, graph.edge, graph.states[0], graph.counts, gates.numbers, noise.streams, noise.scale, N, slabs * C,
        PLAIN=graph.plain, DROP=noise.on, **_shape(C, gates.U),
    )  # fmt: skip
    return down, rebuilt


def backward(
    graph: DeviceGraph, up: Tensor, down: Tensor, g_up: Tensor | None, g_down: Tensor | None, g_rebuilt: Tensor
) -> tuple[Tensor, Tensor]:
    """The gradients with respect to the leaves [L, E] and the gates, laid out as in Gates. Overwrites g_up, g_down."""
    (slabs, N, C), noise, gates = up.shape, graph.noise, graph.gates
    E = slabs * C
    g_leaves = torch.empty_like(graph.leaves)
    g_gates = up.new_zeros(5, slabs, N, C) if gates.U else up.new_empty(7, E)
    options = {"DROP": noise.on, **_shape(C, gates.U)}
    more_up, more_down = g_up is not None, g_down is not None
    g_up, g_down = (torch.empty_like(up) if g is None else g for g in (g_up, g_down))
    _back_up_kernel[(slabs,)](
        down, g_rebuilt, g_down, graph.receivers, graph.key, graph.messages, graph.levels, graph.counts, gates.numbers,
        g_gates, noise.streams, noise.scale, N, E, MORE=more_down, **options,
    )  # fmt: skip
    _back_down_kernel[(slabs,)](
        up, g_up, g_down, g_leaves, graph.apart, len(graph.apart), graph.edge_levels, graph.owner, graph.edge,
        graph.states[1], graph.counts, gates.numbers, g_gates, noise.streams, noise.scale, N, E,
        PLAIN=graph.plain, MORE=more_up, **options,
    )  # fmt: skip
    return g_leaves, _g_linear(gates.U, down, *g_gates) if gates.U else g_gates


def _g_linear(
    U: int, down: Tensor, g_sum: Tensor, left: Tensor, right: Tensor, g_left: Tensor, g_right: Tensor
) -> Tensor:
    """The gradients with respect to the linear functions, from those of each node's composition and both its messages,
    and from the vectors composed. All are in slabs, 0 where there is no inner node. Channels of a slab do not mix."""
    C, rows = down.shape[2], down.shape[0] * down.shape[1]
    parts = gcd(rows, PARTS)  # multiplied in one batch by the library, then added in order

    def of_matrix(x: Tensor, g: Tensor) -> Tensor:
        products = torch.bmm(x.view(parts, -1, C).transpose(1, 2), g.view(parts, -1, C)).sum(0)
        return products.view(C // U, U, C // U, U).diagonal(dim1=0, dim2=2).sum(-1).flatten()

    def of_bias(g: Tensor) -> Tensor:
        return g.view(-1, C).sum(0).view(-1, U).sum(0)

    return torch.cat([
        of_matrix(left, g_sum), of_matrix(right, g_sum), of_bias(g_sum),
        of_matrix(down, g_left), of_matrix(down, g_right), of_bias(g_left), of_bias(g_right),
    ])  # fmt: skip


@kernel
def _return_kernel(
    g_leaves, token, g_embedding, keys, counts, streams, scale, E,
    DROP: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Mask the gradients of the leaves and write them to their rows of the embedding. No two leaves share a row."""
    L = tl.load(counts + 3)
    i = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    j = tl.arange(0, COLUMNS)
    inside = (i < L)[:, None] & (j < E)[None, :]
    row = tl.load(g_leaves + i.to(tl.int64)[:, None] * E + j[None, :], mask=inside, other=0.0)
    if DROP:
        row *= mask_of(state_of(load_key(keys + i, i < L), 0, streams)[:, None], j[None, :], streams, scale, True)
    t = tl.load(token + i, mask=i < L, other=0)
    tl.store(g_embedding + t.to(tl.int64)[:, None] * E + j[None, :], row, mask=inside)


def returned(graph: DeviceGraph, g_leaves: Tensor, V: int) -> Tensor:
    """The gradient with respect to the embedding [V, E], from that with respect to the leaves."""
    (L, E), noise = g_leaves.shape, graph.noise
    g_embedding = g_leaves.new_zeros(V, E)
    token = torch.arange(L, device=graph.token.device, dtype=torch.int32) if graph.plain else graph.token
    to = torch.zeros_like(g_leaves) if graph.plain else g_embedding
    _return_kernel[(triton.cdiv(L, ROWS),)](
        g_leaves, token, to, graph.key, graph.counts, noise.streams, noise.leaf_scale, E,
        DROP=noise.on, ROWS=ROWS, COLUMNS=triton.next_power_of_2(E), num_warps=4,
    )  # fmt: skip
    return g_embedding.index_put_((graph.token,), to, accumulate=True) if graph.plain else g_embedding


# --- For autograd ----------------------------------------------------------------------------------------------------


class UpAndDown(torch.autograd.Function):
    """Both passes over a graph: up and down in slabs, and the reconstructed leaves."""

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


def rows(slabs: Tensor) -> Tensor:
    """Slabs [E/C, N, C] as rows [N, E]."""
    return slabs.permute(1, 0, 2).flatten(1)


class Passes(NamedTuple):
    """The results of both passes over a batch, like banyan.backends.passes.Passes."""

    graph: DeviceGraph
    up: Tensor  # in slabs [E/C, N, C]
    down: Tensor
    rebuilt: Tensor  # the reconstructed leaves [L, E]

    @property
    def roots(self) -> Tensor:
        """One vector per sentence [B, E]."""
        return rows(self.up[:, self.graph.root.long()])
