"""The model to train, in torch: an embedding, seven vectors of width U, an output layer."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from banyan.backends import _numba
from banyan.config import Config
from banyan.graph import Forest, Graph, check_ragged, disentangled, entangle
from banyan.reference import NO_DROPOUT, Dropout, Functions


class Passes(NamedTuple):
    """A batch, up and down."""

    graph: Graph
    up: Tensor  # [N, E]
    down: Tensor  # [N, E]

    @property
    def rebuilt(self) -> Tensor:
        """The leaves as they come down [L, E]."""
        return self.down[: self.graph.n_leaves]

    @property
    def roots(self) -> Tensor:
        """The sentences [B, E]."""
        return self.up[torch.from_numpy(self.graph.root)]


class BanyanModel(nn.Module):
    def __init__(self, config: Config, vocab_size: int) -> None:
        super().__init__()
        self.config = config
        E, U = config.dim, config.width
        self.embedding = nn.Parameter(torch.empty(vocab_size, E))
        self.comp_l, self.comp_r, self.comp_b = (nn.Parameter(torch.zeros(U)) for _ in range(3))
        self.decomp_l, self.decomp_r = (nn.Parameter(torch.zeros(U)) for _ in range(2))
        self.decomp_lb, self.decomp_rb = (nn.Parameter(torch.zeros(U)) for _ in range(2))
        self.out_weight = nn.Parameter(torch.empty(vocab_size, E))
        self.out_bias = nn.Parameter(torch.empty(vocab_size))
        self.initialise(config.seed)

    @torch.no_grad()
    def initialise(self, seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        self.embedding.uniform_(-0.1, 0.1, generator=generator)
        for gate in (self.comp_l, self.comp_r, self.decomp_l, self.decomp_r):
            gate.uniform_(0.6, 0.9, generator=generator)
        bound = self.config.dim**-0.5
        self.out_weight.uniform_(-bound, bound, generator=generator)
        self.out_bias.uniform_(-bound, bound, generator=generator)

    @property
    def functions(self) -> tuple[nn.Parameter, ...]:
        return tuple(getattr(self, name) for name in Functions._fields)

    def structure(self, tokens: np.ndarray, offsets: np.ndarray, dropout: Dropout = NO_DROPOUT) -> Graph:
        """Induce the trees of a batch and make them one graph. Merges see dropped-out vectors."""
        tokens, offsets = check_ragged(tokens, offsets)
        plain = self.config.trees == "plain"
        distinct, rows = (tokens, np.arange(len(tokens))) if plain else np.unique(tokens, return_inverse=True)
        leaves = _dropped_leaves(self.embedding, distinct, _numba.leaf_keys(distinct, plain), dropout)
        f = _numpy_functions(self.functions)
        forest, _ = _numba.induce(tokens, offsets, leaves, rows.astype(np.int32), f, dropout, plain)
        return self.graph_of(forest)

    def graph_of(self, forest: Forest) -> Graph:
        """The graph of trees that are given, by the user or by `structure`."""
        return disentangled(forest) if self.config.trees == "plain" else entangle(forest)

    def forward(self, graph: Graph, dropout: Dropout = NO_DROPOUT) -> Passes:
        up, down = _UpAndDown.apply(graph, dropout, self.embedding, *self.functions)
        return Passes(graph, up, down)


class _UpAndDown(torch.autograd.Function):
    """Both passes through a graph, by the kernels."""

    @staticmethod
    def forward(ctx: Any, graph: Graph, dropout: Dropout, embedding: Tensor, *functions: Tensor) -> Any:
        f = _numpy_functions(functions)
        leaves = _dropped_leaves(embedding, graph.token, graph.key[: graph.n_leaves], dropout)
        up = _numba.up_pass(graph, leaves, f, dropout)
        down = _numba.down_pass(graph, up, f, dropout)
        ctx.saved = graph, dropout, f, up, down, embedding.shape
        ctx.set_materialize_grads(False)
        return torch.from_numpy(up), torch.from_numpy(down)

    @staticmethod
    def backward(ctx: Any, g_up: Tensor | None, g_down: Tensor | None) -> Any:
        graph, dropout, f, up, down, shape = ctx.saved
        of_up, of_down = (np.zeros_like(up) if g is None else g.numpy().copy() for g in (g_up, g_down))
        g_leaves, g_functions = _numba.backward(graph, up, down, of_up, of_down, f, dropout)
        _numba.drop_leaves(g_leaves, graph.key, _numba.Noise.of(dropout))
        leaves = torch.from_numpy(g_leaves)
        g_embedding = torch.zeros(shape, dtype=leaves.dtype)
        g_embedding.index_add_(0, torch.from_numpy(graph.token), leaves)
        return None, None, g_embedding, *(torch.from_numpy(g).to(leaves.dtype) for g in g_functions)


def _numpy_functions(functions: tuple[Tensor, ...]) -> Functions:
    return Functions(*(vector.detach().double().numpy() for vector in functions))


def _dropped_leaves(embedding: Tensor, token: np.ndarray, keys: np.ndarray, dropout: Dropout) -> np.ndarray:
    leaves = embedding.detach()[torch.from_numpy(token)].numpy()
    _numba.drop_leaves(leaves, keys, _numba.Noise.of(dropout))
    return leaves
