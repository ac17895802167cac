"""The CPU kernels on torch's parameters: the graph of a batch, and both passes, or the first, as an autograd function.

The only module of _numba that imports torch.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from banyan.backends._numba.masks import Noise, drop_leaves, leaf_keys
from banyan.backends._numba.passes import backward, down_pass, up_pass
from banyan.backends._numba.trees import induce
from banyan.model.dropout import Dropout
from banyan.model.functions import Functions
from banyan.model.graph import Graph, disentangled, distinct, entangle


def graph_of_batch(
    tokens: np.ndarray,
    offsets: np.ndarray,
    embedding: Tensor,
    functions: tuple[Tensor, ...],
    dropout: Dropout,
    plain: bool,
    structure: str,
    halves: str,
    joined: np.ndarray | None = None,
) -> Graph:
    """Backend.structure on the CPU. The weights may be on any device, because the leaves are copied."""
    token, rows = (tokens, np.arange(len(tokens), dtype=np.int32)) if plain else distinct(tokens)
    leaves = _dropped_leaves(embedding, token, leaf_keys(token, plain), dropout)
    f = _as_numpy(functions)
    forest, _ = induce(tokens, offsets, leaves, rows, f, dropout, plain, structure, joined)
    return disentangled(forest, halves) if plain else entangle(forest)


def _up(
    graph: Graph,
    dropout: Dropout,
    embedding: Tensor,
    functions: tuple[Tensor, ...],
    out: np.ndarray | None = None,
) -> tuple[Functions, np.ndarray]:
    """The functions, and the up vector of every node."""
    f = _as_numpy(functions)
    leaves = _dropped_leaves(embedding, graph.token, graph.key[: graph.n_leaves], dropout)
    return f, up_pass(graph, leaves, f, dropout, out)


class Lent:
    """Memory for the vectors of a graph. When nobody holds it any more, the next graph gets it: the system takes longer
    to provide fresh memory than the passes take to fill it."""

    _free: ClassVar[list[np.ndarray]] = []

    def __init__(self, shape: tuple[int, int], dtype: Any) -> None:
        size = int(np.prod(shape)) * np.dtype(dtype).itemsize
        self._memory = np.empty(0, np.uint8)
        with suppress(IndexError):  # another thread may take the last one
            self._memory = self._free.pop()
        if len(self._memory) < size:
            self._memory = np.empty(size, np.uint8)
        self.array = self._memory[:size].view(dtype).reshape(shape)

    def __del__(self) -> None:
        if len(self._free) < 2:  # the vectors of a step, and their gradients
            self._free.append(self._memory)


class UpAndDown(torch.autograd.Function):
    """Both passes over a graph."""

    @staticmethod
    def forward(ctx: Any, graph: Graph, dropout: Dropout, embedding: Tensor, *functions: Tensor) -> Any:
        f, up = _up(graph, dropout, embedding, functions)
        down = down_pass(graph, up, f, dropout)
        ctx.saved = graph, dropout, f, up, down, embedding.shape
        ctx.set_materialize_grads(False)
        return torch.from_numpy(up), torch.from_numpy(down)

    @staticmethod
    def backward(ctx: Any, g_up: Tensor | None, g_down: Tensor | None) -> Any:
        graph, dropout, f, up, down, shape = ctx.saved
        of_up, of_down = (np.zeros_like(up) if g is None else g.numpy().copy() for g in (g_up, g_down))
        return None, None, *_of_parameters(graph, up, down, of_up, of_down, f, dropout, shape)


class Up(torch.autograd.Function):
    """The up pass over a graph: the vectors of its roots [B, E]."""

    @staticmethod
    def forward(ctx: Any, graph: Graph, dropout: Dropout, embedding: Tensor, *functions: Tensor) -> Any:
        lent = Lent((graph.n_nodes, embedding.shape[1]), torch.empty(0, dtype=embedding.dtype).numpy().dtype)
        f, up = _up(graph, dropout, embedding, functions, lent.array)
        ctx.saved = graph, dropout, f, lent, embedding.shape
        return torch.from_numpy(up[graph.root])

    @staticmethod
    def backward(ctx: Any, g_roots: Tensor) -> Any:
        graph, dropout, f, lent, shape = ctx.saved
        up, given = lent.array, np.zeros(graph.n_nodes, np.bool_)
        of_gradients = Lent(up.shape, up.dtype)
        given[graph.root], of_gradients.array[graph.root] = True, 0
        torch.from_numpy(of_gradients.array).index_add_(0, torch.from_numpy(graph.root), g_roots)
        return None, None, *_of_parameters(graph, up, None, of_gradients.array, None, f, dropout, shape, given)


def _of_parameters(
    graph: Graph,
    up: np.ndarray,
    down: np.ndarray | None,
    g_up: np.ndarray,
    g_down: np.ndarray | None,
    f: Functions,
    dropout: Dropout,
    shape: torch.Size,
    given: np.ndarray | None = None,
) -> list[Tensor]:
    """The gradients with respect to the embedding and the functions. Overwrites g_up and g_down."""
    g_leaves, g_functions = backward(graph, up, down, g_up, g_down, f, dropout, given)
    drop_leaves(g_leaves, graph.key, Noise.of(dropout))
    leaves = torch.from_numpy(g_leaves)
    g_embedding = torch.zeros(shape, dtype=leaves.dtype)
    g_embedding.index_add_(0, torch.from_numpy(graph.token), leaves)
    return [g_embedding, *(torch.from_numpy(g).to(leaves.dtype) for g in g_functions)]


def _as_numpy(functions: tuple[Tensor, ...]) -> Functions:
    return Functions(*(vector.detach().cpu().double().numpy() for vector in functions))


def _dropped_leaves(embedding: Tensor, token: np.ndarray, keys: np.ndarray, dropout: Dropout) -> np.ndarray:
    leaves = embedding.detach()[torch.from_numpy(token).to(embedding.device)].cpu().numpy()
    drop_leaves(leaves, keys, Noise.of(dropout))
    return leaves
