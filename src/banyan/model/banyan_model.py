"""The torch module that is trained: an embedding, the seven functions that all channels share, and an output layer if
the objective needs one."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import embedding as embedding_of

from banyan import backends
from banyan.backends.interface import Backend
from banyan.backends.passes import Passes
from banyan.config import Config
from banyan.model.dropout import NO_DROPOUT, Dropout
from banyan.model.functions import Functions
from banyan.model.graph import Forest, Graph, check_ragged, disentangled, entangle
from banyan.model.word_ngrams import BUCKETS

__all__ = ["BanyanModel", "Passes"]


class BanyanModel(nn.Module):
    def __init__(self, config: Config, vocab_size: int, backend: str | None = None) -> None:
        """backend: "numba", "torch" or "triton"; by default the one for the device of the weights."""
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
        if config.has_output_layer:
            self.out_weight = nn.Parameter(torch.empty(vocab_size, E))
            self.out_bias = nn.Parameter(torch.empty(vocab_size))
        if config.hashes_words:  # computed from the training text, never learned
            self.lexical_idf = nn.Parameter(torch.zeros(BUCKETS, dtype=torch.uint8), requires_grad=False)
        elif config.lexical_dim:
            sketches = torch.zeros(vocab_size, config.lexical_dim, dtype=torch.int8)
            self.lexical = nn.Parameter(sketches, requires_grad=False)
        self.lexical_scale: nn.Parameter | None = None  # in tuning, of the weights of n-grams
        self.embedding_before: Tensor | None = None  # token vectors to stay near
        self.moving_tokens: np.ndarray | None = None  # the only ones that can move away from them; None: all tokens
        self.sparse_gradients = False  # whether that of the embedding has only the rows of a batch
        self.initialise(config.seed)

    @torch.no_grad()
    def initialise(self, seed: int) -> None:
        """Initialise diagonal gates as the authors do, and linear functions and the output layer like torch's linear
        layers: uniformly within ±1 / sqrt(number of inputs)."""
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
        if self.config.has_output_layer:
            _uniform(generator, E, self.out_weight, self.out_bias)

    def learn_ngram_weights(self) -> None:
        """Add a parameter that scales the weights of the n-grams of words (banyan.model.ngram_weights)."""
        self.lexical_scale = nn.Parameter(torch.zeros(BUCKETS, device=self.embedding.device))

    @property
    def functions(self) -> tuple[nn.Parameter, ...]:
        return tuple(getattr(self, name) for name in Functions._fields)

    @property
    def backend(self) -> Backend:
        """The back end chosen by name, or else the one for the device of the weights."""
        if self._backend:
            return backends.named(self._backend)
        return backends.choose(self.embedding.device, self.config.matrix_width)

    def structure(
        self,
        tokens: np.ndarray,
        offsets: np.ndarray,
        dropout: Dropout = NO_DROPOUT,
        joined: np.ndarray | None = None,
    ) -> Any:
        """The graph of a batch, in the back end's own form. Merges see vectors after dropout. joined: as in Backend."""
        tokens, offsets = check_ragged(tokens, offsets)
        plain, structure, halves = self.config.trees == "plain", self.config.structure, self.config.halves
        batch = tokens, offsets, self.embedding, self.functions
        return self.backend.structure(*batch, dropout, plain, structure, halves, joined)

    def graph_of(self, forest: Forest) -> Graph:
        """The graph of given trees."""
        return disentangled(forest, self.config.halves) if self.config.trees == "plain" else entangle(forest)

    def forward(self, graph: Any, dropout: Dropout = NO_DROPOUT) -> Any:
        """Run both passes over a graph from `structure` (with the same dropout) or from `graph_of`, or only the up pass
        if the objective reconstructs nothing."""
        if self.config.objective != "none":
            return self.backend.up_and_down(graph, self.embedding, self.functions, dropout)
        embedding: Tensor = self.embedding
        if self.sparse_gradients:  # the leaves take the place of the vocabulary
            embedding = embedding_of(torch.from_numpy(graph.token), embedding, sparse=True)
            graph = replace(graph, token=np.arange(graph.n_leaves))
        return self.backend.up(graph, embedding, self.functions, dropout)

    def clip_gradients(self) -> None:
        """Clip the gradient norm to clip_grad_norm, if that is set, without synchronising with the device."""
        if self.config.clip_grad_norm:
            nn.utils.clip_grad_norm_(self.parameters(), self.config.clip_grad_norm)

    def weights(self) -> dict[str, np.ndarray]:
        """Return all parameters by name, on the CPU."""
        return {name: parameter.detach().cpu().numpy() for name, parameter in self.named_parameters()}


def _uniform(generator: torch.Generator, numbers_in: int, *weights: Tensor) -> None:
    for weight in weights:
        weight.uniform_(-(numbers_in**-0.5), numbers_in**-0.5, generator=generator)
