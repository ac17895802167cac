"""The functions that all K channels share, and how a gate acts on a vector.

Diagonal functions are Equations 3 and 4 of the paper; linear ones are Equations 1 and 2, those of Self-StrAE.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

Vector = np.ndarray


class Functions(NamedTuple):
    """What all K channels share. Diagonal (Equations 3 and 4): seven vectors [U], four of them gates, before their
    sigmoid. Linear (Equations 1 and 2, the predecessor's): the gates are matrices [U, U]."""

    comp_l: Vector  # Φl
    comp_r: Vector  # Φr
    comp_b: Vector  # φ
    decomp_l: Vector  # Θl
    decomp_r: Vector  # Θr
    decomp_lb: Vector  # θl
    decomp_rb: Vector  # θr


GATES = ("comp_l", "comp_r", "decomp_l", "decomp_r")  # the others are biases


def sigmoid(x: Vector) -> Vector:
    return (1 + np.tanh(x / 2)) / 2


def per_channel(vector: Vector, E: int) -> Vector:
    """Entry u of channel k stands at k·U+u, so a U-wide vector repeats K times."""
    return np.tile(vector, E // len(vector))


def through(gate: Vector, x: Vector) -> Vector:
    """Each channel of x [..., E] times the sigmoid of a vector, or times a matrix."""
    if gate.ndim == 1:
        return x * per_channel(sigmoid(gate), x.shape[-1])
    return (x.reshape(-1, len(gate)) @ gate).reshape(x.shape)


def back_through(gate: Vector, x: Vector, g: Vector) -> tuple[Vector, Vector, Vector]:
    """From the gradient g by `through(gate, x) + bias` [E], those by x, by the gate and by the bias."""
    U = len(gate)
    x_k, g_k = x.reshape(-1, U), g.reshape(-1, U)  # one row per channel
    if gate.ndim == 1:
        s = sigmoid(gate)
        return through(gate, g), (g_k * x_k).sum(0) * s * (1 - s), g_k.sum(0)
    return through(gate.T, g), x_k.T @ g_k, g_k.sum(0)
