"""The back end for CPUs. Trees and passes run in Banyan's own kernels; the losses use torch's matrix products.

Only the methods that training calls import torch, so encoding does not need it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from banyan.backends._numba import lexical, trees, word_ngrams
from banyan.backends.interface import Encoder, LexicalSums
from banyan.model.dropout import NO_DROPOUT, Dropout
from banyan.model.functions import Functions
from banyan.model.word_ngrams import WordNgrams

if TYPE_CHECKING:
    import torch
    from torch import Tensor


class Numba:
    name = "numba"
    on_device = False

    def structure(
        self,
        tokens: np.ndarray,
        offsets: np.ndarray,
        embedding: Tensor,
        functions: tuple[Tensor, ...],
        dropout: Dropout = NO_DROPOUT,
        plain: bool = False,
        structure: str = "induced",
        halves: str = "side",
        joined: np.ndarray | None = None,
    ) -> Any:
        from banyan.backends._numba.autograd import graph_of_batch

        return graph_of_batch(tokens, offsets, embedding, functions, dropout, plain, structure, halves, joined)

    def up_and_down(
        self, graph: Any, embedding: Tensor, functions: tuple[Tensor, ...], dropout: Dropout = NO_DROPOUT
    ) -> Any:
        from banyan.backends._numba.autograd import UpAndDown
        from banyan.backends.passes import Passes

        return Passes(graph, *UpAndDown.apply(graph, dropout, embedding, *functions))

    def up(
        self, graph: Any, embedding: Tensor, functions: tuple[Tensor, ...], dropout: Dropout = NO_DROPOUT
    ) -> Any:
        from banyan.backends._numba.autograd import Up
        from banyan.backends.passes import UpPass

        return UpPass(Up.apply(graph, dropout, embedding, *functions))

    def cross_entropy(
        self, passes: Any, weight: Tensor, bias: Tensor, candidates: str, mean_over: str, precision: str
    ) -> Tensor:
        from banyan.backends.losses import cross_entropy_of_leaves

        return cross_entropy_of_leaves(passes, weight, bias, candidates, mean_over)

    def contrastive(self, passes: Any, inner: bool, precision: str) -> Tensor:
        from banyan.backends.losses import contrastive_of_nodes

        return contrastive_of_nodes(passes, inner)

    def encoder(
        self, embedding: np.ndarray, functions: Functions, structure: str, device: torch.device | str
    ) -> Encoder:
        return trees.Encoder(embedding, functions, structure)

    def lexical_sums(self, table: np.ndarray, weight: float, device: torch.device | str) -> LexicalSums:
        return lexical.LexicalSums(table, weight)

    def word_sums(self, ngrams: WordNgrams, weight: float, device: torch.device | str) -> LexicalSums:
        return word_ngrams.WordSums(ngrams, weight)
