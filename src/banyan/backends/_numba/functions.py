"""Equations 1 to 4 and their gradients, on columns first..last of a row: compose() and decompose() of reference.py.

Diagonal and linear functions share all kernels. A gate is a vector or a matrix, and where a kernel branches on `ndim`,
Numba compiles only the branch that is taken.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from banyan.backends._numba.compiling import step
from banyan.model.functions import Functions, per_channel, sigmoid
from banyan.model.shapes import GATES


class Gates(NamedTuple):
    """The functions as the kernels use them. Biases, and diagonal gates after the sigmoid, are repeated over the
    channels [E]. A linear gate is its matrix [U, U]."""

    comp_l: np.ndarray
    comp_r: np.ndarray
    comp_b: np.ndarray
    decomp_l: np.ndarray
    decomp_r: np.ndarray
    decomp_lb: np.ndarray
    decomp_rb: np.ndarray

    @classmethod
    def of(cls, f: Functions, E: int, dtype: np.dtype) -> Gates:
        def as_used(name: str, value: np.ndarray) -> np.ndarray:
            if value.ndim == 2:
                return value
            return per_channel(sigmoid(value) if name in GATES else value, E)

        return cls(*(np.ascontiguousarray(as_used(*item), dtype) for item in f._asdict().items()))


@step
def _add_product(out, o, rows, i, matrix, first, last):
    """Add each channel of rows[i], times a matrix, to out[o]. Channels alternate, so no sum waits for its last term."""
    U = np.uint64(len(matrix))
    for u in range(U):
        for channel in range(first // U, last // U):
            x = rows[i, channel * U + u]
            for v in range(U):
                out[o, channel * U + v] += x * matrix[u, v]


@step
def compose(rows, parent, left, right, comp_l, comp_r, bias, first, last):
    if comp_l.ndim == 1:
        for j in range(first, last):
            rows[parent, j] = rows[left, j] * comp_l[j] + rows[right, j] * comp_r[j] + bias[j]
    else:
        for j in range(first, last):
            rows[parent, j] = bias[j]
        _add_product(rows, parent, rows, left, comp_l, first, last)
        _add_product(rows, parent, rows, right, comp_r, first, last)


@step
def decompose(message, down, parent, gate, bias, first, last):
    if gate.ndim == 1:
        for j in range(first, last):
            message[0, j] = down[parent, j] * gate[j] + bias[j]
    else:
        for j in range(first, last):
            message[0, j] = bias[j]
        _add_product(message, 0, down, parent, gate, first, last)


@step
def back_through(gate, rows, i, g, n, g_gate, g_rows, first, last):
    """Given the gradient g[n] with respect to rows[i] times a gate, add the gradients with respect to the gate and to
    rows[i]. For a matrix, g_gate holds one matrix of sums per channel, stacked [E, U], so no two jobs share a sum."""
    if gate.ndim == 1:
        for j in range(first, last):
            g_gate[j] += g[n, j] * rows[i, j]
            g_rows[i, j] += g[n, j] * gate[j]
    else:
        U = np.uint64(len(gate))
        for channel in range(first // U, last // U):
            for u in range(U):
                x, total = rows[i, channel * U + u], rows.dtype.type(0)
                for v in range(U):
                    g_gate[channel * U + u, v] += g[n, channel * U + v] * x
                    total += g[n, channel * U + v] * gate[u, v]
                g_rows[i, channel * U + u] += total
