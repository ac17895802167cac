"""The seven functions that all channels share: as the kernels use them, and their gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from banyan.backends._triton.batch import kernel

# --- Inside a kernel -------------------------------------------------------------------------------------------------
# U is that of Gates: what is said of it is known when a kernel is compiled.


@triton.jit
def function_at(gates, WHICH: tl.constexpr, U: tl.constexpr):
    """Where one of the seven linear functions starts: there is a vector before the fourth and one before the last."""
    vectors: tl.constexpr = (1 if WHICH > 2 else 0) + (1 if WHICH > 5 else 0)
    return gates + (WHICH - vectors) * U * U + vectors * U


@triton.jit
def load_gate(gates, WHICH: tl.constexpr, c, E, U: tl.constexpr, C: tl.constexpr, BACK: tl.constexpr = False):
    """Load a gate for columns c [1, C]: a vector [1, C], or the matrices of the channels as a block diagonal [C, C].
    BACK: its transpose, for gradients."""
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
    """Multiply rows x [..., C] by a gate: Equation 3 or 4, or 1 or 2."""
    if not U:
        product = x * gate
    elif C >= 16:
        product = tl.dot(x, gate, input_precision="ieee")
    else:  # too small for the compiler's product
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


# --- From the functions to the gates, and back -----------------------------------------------------------------------


class Gates(NamedTuple):
    """Diagonal: the seven vectors [7, E], gates after the sigmoid, repeated over the channels. Linear: the numbers of
    all seven functions, one after another."""

    numbers: Tensor  # float32
    U: int  # the width of a channel of linear functions; 0: they are diagonal


@triton.jit
def _is_gate(i):
    """Whether the i-th of the seven functions, in the order of Functions, goes through a sigmoid."""
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
    """Return the gradients of the seven functions, given those of Gates."""
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
