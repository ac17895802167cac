"""The model to train, in torch: an embedding, the seven functions that all channels share, and an output layer if the
objective asks for one."""

from __future__ import annotations

import math
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from banyan.backends import _numba, _torch
from banyan.config import Config
from banyan.model.dropout import NO_DROPOUT, Dropout
from banyan.model.functions import Functions
from banyan.model.graph import Forest, Graph, check_ragged, disentangled, entangle
from banyan.support.devices import has_triton

if TYPE_CHECKING:
    from banyan.backends._triton.batch import Batch, Noise
    from banyan.backends._triton.entangling import DeviceGraph
    from banyan.backends._triton.passes import Passes as DevicePasses


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
        """The sentences [B, E]. (Indexing would add up the gradients of a root that they share in no fixed order.)"""
        return self.up.index_select(0, _torch.on_device(self.graph.root, self.up.device))


class BanyanModel(nn.Module):
    def __init__(
        self, config: Config, vocab_size: int, backend: str | None = None
    ) -> None:
        """backend: "numba", "torch" or "triton"; by default, the one for the device that the weights are on."""
        super().__init__()
        self.config, self._backend = config, backend
        self.precision = "float32"  # of the output layer's matrix products; on a GPU also tf32 or bf16
        E, U = config.dim, config.width
        gate = (U, U) if config.functions == "linear" else (U,)
        self.embedding = nn.Parameter(torch.empty(vocab_size, E))
        self.comp_l, self.comp_r = (nn.Parameter(torch.empty(gate)) for _ in range(2))
        self.comp_b = nn.Parameter(torch.zeros(U))
        self.decomp_l, self.decomp_r = (nn.Parameter(torch.empty(gate)) for _ in range(2))
        self.decomp_lb, self.decomp_rb = (nn.Parameter(torch.zeros(U)) for _ in range(2))
        if config.objective != "contrastive":
            self.out_weight = nn.Parameter(torch.empty(vocab_size, E))
            self.out_bias = nn.Parameter(torch.empty(vocab_size))
        if config.lexical_dim:  # found when the text is there, and never learnt
            sketches = torch.zeros(vocab_size, config.lexical_dim, dtype=torch.int8)
            self.lexical = nn.Parameter(sketches, requires_grad=False)
        self.initialise(config.seed)

    @torch.no_grad()
    def initialise(self, seed: int) -> None:
        """Gates of diagonal functions as the authors do; linear ones, and the output layer, as torch's linear layers:
        uniform within one over the square root of how many numbers go in."""
        generator = torch.Generator().manual_seed(seed)
        E, U = self.config.dim, self.config.width
        self.embedding.uniform_(-0.1, 0.1, generator=generator)
        composing, decomposing = (self.comp_l, self.comp_r, self.comp_b), (self.decomp_l, self.decomp_r)
        if self.config.functions == "linear":
            _uniform(generator, 2 * U, *composing)
            _uniform(generator, U, *decomposing, self.decomp_lb, self.decomp_rb)
        else:
            for gate in (*composing[:2], *decomposing):
                gate.uniform_(0.6, 0.9, generator=generator)
                if self.config.init_gate is not None:
                    gate.fill_(math.log(self.config.init_gate / (1 - self.config.init_gate)))
        if self.config.objective != "contrastive":
            _uniform(generator, E, self.out_weight, self.out_bias)

    @property
    def functions(self) -> tuple[nn.Parameter, ...]:
        return tuple(getattr(self, name) for name in Functions._fields)

    @property
    def backend(self) -> str:
        return self._backend or _backend_for(self.embedding.device, self.config)

    def structure(
        self, tokens: np.ndarray, offsets: np.ndarray, dropout: Dropout = NO_DROPOUT
    ) -> Graph | DeviceGraph:
        """Induce the trees of a batch and make them one graph. Merges see dropped-out vectors.

        Structure is integers: on a device without kernels of ours, those of the CPU find it, from a copy of the leaves.
        """
        tokens, offsets = check_ragged(tokens, offsets)
        plain = self.config.trees == "plain"
        if self.backend == "triton":
            from banyan.backends._triton.batch import Batch, Noise

            device = self.embedding.device
            batch, noise = Batch.of(tokens, offsets, device, plain), Noise.of(dropout, device)
            graphs = (self.structure_of(batch, noise, salt) for salt in count())
            return next(graph for graph in graphs if not graph.collided)
        distinct, rows = (tokens, np.arange(len(tokens))) if plain else np.unique(tokens, return_inverse=True)
        leaves = _dropped_leaves(self.embedding, distinct, _numba.leaf_keys(distinct, plain), dropout)
        f = _numpy_functions(self.functions)
        structure = self.config.structure
        forest, _ = _numba.induce(tokens, offsets, leaves, rows.astype(np.int32), f, dropout, plain, structure)
        return self.graph_of(forest)

    def structure_of(self, batch: Batch, noise: Noise, salt: int = 0) -> DeviceGraph:
        """The same of a batch that was drawn on the GPU. Whether two different nodes had one hash is for the caller to
        ask; another salt tells them apart."""
        from banyan.backends._triton import entangling

        plain = self.config.trees == "plain"
        structure, table = self.config.structure, self.embedding.detach()
        return entangling.structure(batch, table, self.functions, noise, plain, salt, structure=structure)

    def graph_of(self, forest: Forest) -> Graph:
        """The graph of trees that are given, by the user or by `structure`."""
        return disentangled(forest) if self.config.trees == "plain" else entangle(forest)

    def forward(self, graph: Graph | DeviceGraph, dropout: Dropout = NO_DROPOUT) -> Passes | DevicePasses:
        """Both passes, by what suits the graph and the device."""
        if not isinstance(graph, Graph):  # made on the GPU, with its dropout
            from banyan.backends._triton import passes

            return passes.Passes(graph, *passes.UpAndDown.apply(graph, self.embedding, *self.functions))
        up_and_down = _UpAndDown.apply if self.backend == "numba" else _torch_up_and_down
        return Passes(graph, *up_and_down(graph, dropout, self.embedding, *self.functions))

    def clip_gradients(self) -> None:
        """To the norm that the settings allow, if they say any; without a word from the device."""
        if self.config.clip_grad_norm:
            nn.utils.clip_grad_norm_(self.parameters(), self.config.clip_grad_norm)

    def weights(self) -> dict[str, np.ndarray]:
        """Every parameter by its name, on the CPU."""
        return {name: parameter.detach().cpu().numpy() for name, parameter in self.named_parameters()}


def _uniform(generator: torch.Generator, numbers_in: int, *weights: Tensor) -> None:
    for weight in weights:
        weight.uniform_(-(numbers_in**-0.5), numbers_in**-0.5, generator=generator)


def _backend_for(device: torch.device, config: Config) -> str:
    if has_triton(device, config.matrix_width):
        return "triton"
    return "numba" if device.type == "cpu" else "torch"


class _UpAndDown(torch.autograd.Function):
    """Both passes through a graph, by the CPU kernels."""

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


def _torch_up_and_down(
    graph: Graph, dropout: Dropout, embedding: Tensor, *functions: Tensor
) -> tuple[Tensor, Tensor]:
    """The same, in plain torch on any device."""
    leaves = embedding.index_select(0, _torch.on_device(graph.token, embedding.device))
    up = _torch.up_pass(graph, _torch.drop_leaves(leaves, graph.key[: graph.n_leaves], dropout), functions, dropout)
    return up, _torch.down_pass(graph, up, functions, dropout)


def _numpy_functions(functions: tuple[Tensor, ...]) -> Functions:
    return Functions(*(vector.detach().cpu().double().numpy() for vector in functions))


def _dropped_leaves(embedding: Tensor, token: np.ndarray, keys: np.ndarray, dropout: Dropout) -> np.ndarray:
    leaves = embedding.detach()[torch.from_numpy(token).to(embedding.device)].cpu().numpy()
    _numba.drop_leaves(leaves, keys, _numba.Noise.of(dropout))
    return leaves
