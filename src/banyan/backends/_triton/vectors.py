"""The seven vectors that all channels share, as gates, and back."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import triton
import triton.language as tl
from torch import Tensor

from banyan.backends._triton.batch import kernel


@triton.jit
def _is_gate(i):
    """Of the seven, in the order of reference.Functions: whether it goes through a sigmoid."""
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


def gates_of(functions: Sequence[Tensor], E: int) -> Tensor:
    """The seven vectors as the kernels use them: sigmoids taken, repeated over the channels [7, E]."""
    vectors = torch.stack([vector.detach() for vector in functions])
    gates = vectors.new_empty(7, E)
    _gates_kernel[(7,)](vectors, gates, vectors.shape[1], E, COLUMNS=triton.next_power_of_2(E))
    return gates


def g_functions(g_gates: Tensor, functions: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """From the gradients by the gates to those by the seven vectors."""
    vectors = torch.stack([vector.detach() for vector in functions])
    U, E = vectors.shape[1], g_gates.shape[1]
    g_vectors = torch.empty_like(vectors)
    _g_vectors_kernel[(7,)](
        vectors, g_gates, g_vectors, U, E, CHANNELS=triton.next_power_of_2(E // U), WIDTH=triton.next_power_of_2(U)
    )
    return g_vectors.unbind()
