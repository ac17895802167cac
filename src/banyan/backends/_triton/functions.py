"""The seven functions that all channels share, in the form that the kernels use, and their gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from banyan.backends._triton.batch import kernel

# --- Inside a kernel -------------------------------------------------------------------------------------------------
# U is Gates.U, a compile-time constant.


@triton.jit
def function_at(gates, WHICH: tl.constexpr, U: tl.constexpr):
    """Pointer to one of the seven linear functions. One bias precedes the fourth to sixth; two precede the last."""
    vectors: tl.constexpr = (1 if WHICH > 2 else 0) + (1 if WHICH > 5 else 0)
    return gates + (WHICH - vectors) * U * U + vectors * U


@triton.jit
def load_gate(gates, WHICH: tl.constexpr, c, E, U: tl.constexpr, C: tl.constexpr, BACK: tl.constexpr = False):
    """Load a gate for columns c [1, C]: a vector [1, C], or a block-diagonal matrix [C, C] with one block per channel.
    BACK: the transpose, as gradients need it."""
    if U:
        i, j = tl.arange(0, C)[:, None], tl.arange(0, C)[None, :]
        u, v = i % U, j % U
        place = v * U + u if BACK else u * U + v
        gate = tl.load(function_at(gates, WHICH, U) + place, mask=i // U == j // U, other=0.0)
    else:
        gate = tl.load(gates + WHICH * E + c)
    return gate


@triton.jit
def load_bias(gates, WHICH: tl.constexpr, c, E, U: tl.constexpr):
    return tl.load(function_at(gates, WHICH, U) + c % U if U else gates + WHICH * E + c)


@triton.jit
def through(x, gate, U: tl.constexpr, C: tl.constexpr):
    """Multiply rows x [..., C] by a gate, as in Equations 3 and 4 (or 1 and 2)."""
    if not U:
        product = x * gate
    elif C >= 16:
        product = tl.dot(x, gate, input_precision="ieee")
    else:  # too small for tl.dot
        column = tl.arange(0, C)
        product = tl.zeros_like(x)
        for u in tl.static_range(C):
            of_x = tl.sum(tl.where(column[None, :] == u, x, 0.0), 1, keep_dims=True)
            product += of_x * tl.sum(tl.where(column[:, None] == u, gate, 0.0), 0, keep_dims=True)
    return product


@triton.jit
def through_either(x, is_left, gate_l, gate_r, U: tl.constexpr, C: tl.constexpr):
    """Multiply each row by one of two gates."""
    if U:
        product = tl.where(is_left, through(x, gate_l, U, C), through(x, gate_r, U, C))
    else:
        product = x * tl.where(is_left, gate_l, gate_r)
    return product


# --- From functions to gates, and the gradients back -----------------------------------------------------------------


class Gates(NamedTuple):
    """Diagonal functions: the seven vectors [7, E], gates after the sigmoid, repeated over the channels. Linear
    functions: the numbers of all seven, concatenated."""

    numbers: Tensor  # float32
    U: int  # the channel width of linear functions; 0 if they are diagonal


@triton.jit
def _is_gate(i):
    """Whether the i-th of the seven functions, in the order of reference.Functions, goes through a sigmoid."""
    return (i < 5) & (i != 2)


@kernel
def _gates_kernel(vectors, gates, U, E, COLUMNS: tl.constexpr):
    i, j = tl.program_id(0), tl.arange(0, COLUMNS)
    value = tl.load(vectors + i * U + j % U, mask=j < E, other=0.0)
    tl.store(gates + i * E + j, tl.where(_is_gate(i), tl.sigmoid(value), value), mask=j < E)


@kernel
def _g_vectors_kernel(vectors, g_gates, g_vectors, U, E, CHANNELS: tl.constexpr, WIDTH: tl.constexpr):
    i = tl.program_id(0)
    k, u = tl.arange(0, CHANNELS)[:, None], tl.arange(0, WIDTH)[None, :]
    inside = (u < U) & (k * U + u < E)
    total = tl.sum(tl.load(g_gates + i * E + k * U + u, mask=inside, other=0.0), 0, keep_dims=True)
    s = tl.sigmoid(tl.load(vectors + i * U + u, mask=u < U, other=0.0))
    tl.store(g_vectors + i * U + u, tl.where(_is_gate(i), total * s * (1 - s), total), mask=u < U)


def gates_of(functions: Sequence[Tensor], E: int) -> Gates:
    if functions[0].dim() == 2:
        return Gates(torch.cat([function.detach().flatten() for function in functions]), len(functions[0]))
    vectors = torch.stack([vector.detach() for vector in functions])
    gates = vectors.new_empty(7, E)
    _gates_kernel[(7,)](vectors, gates, vectors.shape[1], E, COLUMNS=triton.next_power_of_2(E))
    return Gates(gates, 0)


def g_functions(g_gates: Tensor, functions: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Convert gradients with respect to the gates, laid out as in Gates, to gradients of the seven functions."""
    if functions[0].dim() == 2:
        parts = g_gates.split([function.numel() for function in functions])
        return tuple(part.view_as(function) for part, function in zip(parts, functions, strict=True))
    vectors = torch.stack([vector.detach() for vector in functions])
    U, E = vectors.shape[1], g_gates.shape[1]
    g_vectors = torch.empty_like(vectors)
    _g_vectors_kernel[(7,)](
        vectors, g_gates, g_vectors, U, E, CHANNELS=triton.next_power_of_2(E // U), WIDTH=triton.next_power_of_2(U)
    )
    return g_vectors.unbind()
