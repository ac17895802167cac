"""The functions that all K channels share, and how a gate acts on a vector.

Diagonal functions are Equations 3 and 4 of the paper; linear ones are Equations 1 and 2, those of Self-StrAE.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

Vector = np.ndarray


class Functions(NamedTuple):
    """The parameters of composition and decomposition. Diagonal: seven vectors [U], of which four are gates before the
    sigmoid. Linear: the gates are matrices [U, U]."""

    comp_l: Vector  # Φl
    comp_r: Vector  # Φr
    comp_b: Vector  # φ
    decomp_l: Vector  # Θl
    decomp_r: Vector  # Θr
    decomp_lb: Vector  # θl
    decomp_rb: Vector  # θr


def sigmoid(x: Vector) -> Vector:
    return (1 + np.tanh(x / 2)) / 2


def per_channel(vector: Vector, E: int) -> Vector:
    """Repeat a vector over all K channels: entry u of channel k is at k·U+u."""
    return np.tile(vector, E // len(vector))


def through(gate: Vector, x: Vector) -> Vector:
    """Multiply each channel of x [..., E] by the sigmoid of a vector, or by a matrix."""
    if gate.ndim == 1:
        return x * per_channel(sigmoid(gate), x.shape[-1])
    return (x.reshape(-1, len(gate)) @ gate).reshape(x.shape)


def repeated(gate: Vector, E: int) -> Callable[[Vector], Vector]:
    """Return through(gate, .) for many vectors of E dimensions: the sigmoid is computed once."""
    if gate.ndim > 1:
        return lambda x: through(gate, x)
    factor = per_channel(sigmoid(gate), E)
    return lambda x: x * factor


def back_through(gate: Vector, x: Vector, g: Vector) -> tuple[Vector, Vector, Vector]:
    """The gradients with respect to x, gate and bias, given that of `through(gate, x) + bias` [E]."""
    U = len(gate)
    x_k, g_k = x.reshape(-1, U), g.reshape(-1, U)  # one row per channel
    if gate.ndim == 1:
        s = sigmoid(gate)
        return through(gate, g), (g_k * x_k).sum(0) * s * (1 - s), g_k.sum(0)
    return through(gate.T, g), x_k.T @ g_k, g_k.sum(0)
