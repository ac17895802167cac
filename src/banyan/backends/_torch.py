"""The back end for devices that Banyan has no kernels for (mps, xpu, older CUDA GPUs): both passes of reference.py in
plain torch, in float32 or float64, with gradients from autograd. The CPU kernels induce the trees.

All nodes of the same height are computed together, and nothing is written in place. Each height copies all rows
computed so far, which is cheap because sentences have only a few dozen heights.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor

from banyan.backends._numba.backend import Numba
from banyan.backends.passes import Passes, UpPass, on_device
from banyan.model.dropout import LEAF, LEFT_MESSAGE, NO_DROPOUT, NODE, RIGHT_MESSAGE, Dropout, mix
from banyan.model.graph import Graph

_32 = (1 << 32) - 1


class Torch(Numba):
    """Inherits everything but the passes from the CPU back end: the structure is integers, computed from a copy of the
    leaves, and the losses run on any device."""

    name = "torch"

    def up_and_down(
        self, graph: Any, embedding: Tensor, functions: tuple[Tensor, ...], dropout: Dropout = NO_DROPOUT
    ) -> Any:
        up = _up_from_embedding(graph, embedding, functions, dropout)
        return Passes(graph, up, down_pass(graph, up, functions, dropout))

    def up(
        self, graph: Any, embedding: Tensor, functions: tuple[Tensor, ...], dropout: Dropout = NO_DROPOUT
    ) -> Any:
        up = _up_from_embedding(graph, embedding, functions, dropout)
        return UpPass(up.index_select(0, on_device(graph.root, up.device)))


# --- Dropout ---------------------------------------------------------------------------------------------------------


def masks(
    dropout: Dropout, place: int, keys: np.ndarray, E: int, device: torch.device, dtype: torch.dtype
) -> Tensor:
    """The masks of reference.py, one row per key [n, E].

    Torch has no unsigned arithmetic. So NumPy mixes the 64 bits of each key, and the 32 bits of each column are mixed
    in int64, with 2^32 subtracted from the multipliers. The low 32 bits stay the same, and no product can overflow.
    """
    rate = dropout.rate_at(place)
    state = mix(keys ^ np.uint64(dropout.stream(place)))
    low, high = on_device(np.stack([state & np.uint64(_32), state >> np.uint64(32) | np.uint64(1)]), device)
    x = low[:, None] + torch.arange(E, device=device) * high[:, None] & _32
    x = (x ^ x >> 16) * (0x85EBCA6B - 2**32) & _32
    x = (x ^ x >> 13) * (0xC2B2AE35 - 2**32) & _32
    kept = (x ^ x >> 16) >= int(rate * 2**32)
    return kept.to(dtype) * (1 / (1 - rate))


def _drop(rows: Tensor, place: int, keys: np.ndarray, dropout: Dropout) -> Tensor:
    if dropout.rate_at(place) == 0:
        return rows
    return rows * masks(dropout, place, keys, rows.shape[1], rows.device, rows.dtype)


def drop_leaves(leaves: Tensor, keys: np.ndarray, dropout: Dropout) -> Tensor:
    return _drop(leaves, LEAF, keys, dropout)


# --- Both passes -----------------------------------------------------------------------------------------------------


def _per_channel(E: int, *vectors: Tensor) -> list[Tensor]:
    return [vector.repeat(E // len(vector)) for vector in vectors]


def _gates(E: int, *gates: Tensor) -> list[Tensor]:
    """Gates as `_times` takes them: diagonal gates after the sigmoid [E], linear gates as their matrices [U, U]."""
    return [gate if gate.ndim == 2 else gate.sigmoid().repeat(E // len(gate)) for gate in gates]


def _times(rows: Tensor, gate: Tensor) -> Tensor:
    if gate.ndim == 1:
        return rows * gate
    return (rows.unflatten(1, (-1, len(gate))) @ gate).flatten(1)


def _up_from_embedding(graph: Graph, embedding: Tensor, functions: tuple[Tensor, ...], dropout: Dropout) -> Tensor:
    leaves = embedding.index_select(0, on_device(graph.token, embedding.device))
    return up_pass(graph, drop_leaves(leaves, graph.key[: graph.n_leaves], dropout), functions, dropout)


def up_pass(graph: Graph, leaves: Tensor, functions: tuple[Tensor, ...], dropout: Dropout = NO_DROPOUT) -> Tensor:
    """Equation 3 (or 1) from leaves after dropout: the up vector of every node [N, E]."""
    comp_l, comp_r, comp_b = functions[:3]
    L, E = leaves.shape
    (gate_l, gate_r), (bias,) = _gates(E, comp_l, comp_r), _per_channel(E, comp_b)
    children = on_device(graph.children, leaves.device)
    up = leaves
    for first, last in pairwise(graph.levels[1:].tolist()):
        left, right = (up.index_select(0, side) for side in children[first - L : last - L].unbind(1))
        parents = _times(left, gate_l) + _times(right, gate_r) + bias
        up = torch.cat([up, _drop(parents, NODE, graph.key[first:last], dropout)])
    return up


def down_pass(graph: Graph, up: Tensor, functions: tuple[Tensor, ...], dropout: Dropout = NO_DROPOUT) -> Tensor:
    """Equation 4 (or 2) from the roots down: the mean of each node's messages, or its up vector if it receives none
    [N, E]."""
    decomp_l, decomp_r, decomp_lb, decomp_rb = functions[3:]
    L, E = graph.n_leaves, up.shape[1]
    (gate_l, gate_r), (bias_l, bias_r) = _gates(E, decomp_l, decomp_r), _per_channel(E, decomp_lb, decomp_rb)
    receivers, messages = on_device(graph.receivers, up.device), torch.from_numpy(graph.messages)[:, None].to(up)
    levels = list(pairwise(graph.levels.tolist()))
    own = up.split([last - first for first, last in levels])
    down = []
    below = torch.zeros_like(up)  # sums of the messages so far, for all nodes not yet reached
    for height in reversed(range(len(levels))):
        first, last = levels[height]
        below, reached = below.split([first, last - first])
        n = messages[first:last]
        parents = torch.where(n > 0, reached / n.clamp(min=1), own[height])  # never 0/0: its gradient would be NaN
        down.append(parents)
        if height > 0:
            half_1 = _drop(_times(parents, gate_l) + bias_l, LEFT_MESSAGE, graph.key[first:last], dropout)
            half_2 = _drop(_times(parents, gate_r) + bias_r, RIGHT_MESSAGE, graph.key[first:last], dropout)
            both = torch.stack([half_1, half_2], 1).flatten(0, 1)
            below = below.index_add(0, receivers[first - L : last - L].flatten(), both)
    return torch.cat(down[::-1])
