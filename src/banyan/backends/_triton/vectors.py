"""The seven vectors that all channels share, as gates, and back."""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from banyan.backends._triton.batch import kernel


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
