"""The interface of every back end, in the paper's terms. reference.py defines what each method must compute.

B sentences with T tokens in total have L leaves and N nodes. Vectors have E dimensions, and the vocabulary has V
tokens. Batches are ragged: `tokens` [T] holds all sentences one after another, with boundaries `offsets` [B+1].
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from banyan.model.dropout import NO_DROPOUT, Dropout
from banyan.model.functions import Functions
from banyan.model.word_ngrams import WordNgrams

if TYPE_CHECKING:
    import torch
    from torch import Tensor


class Passes(Protocol):
    """The results of both passes over a batch. Each back end stores the other nodes in its own way."""

    @property
    def graph(self) -> Any: ...

    @property
    def rebuilt(self) -> Tensor:
        """The reconstructed leaves [L, E]."""

    @property
    def roots(self) -> Tensor:
        """The up vectors of the roots, one per sentence [B, E]."""


class UpPass(Protocol):
    """The result of the up pass alone."""

    @property
    def roots(self) -> Tensor:
        """The up vectors of the roots, one per sentence [B, E]."""


class Encoder(Protocol):
    """Computes the roots of sentences, without gradients."""

    def roots(
        self,
        tokens: np.ndarray,
        offsets: np.ndarray,
        out: np.ndarray,
        n_threads: int | None = None,
        joined: np.ndarray | None = None,
    ) -> None:
        """Write the roots to the first E columns of `out` [B, ...]. No sentence may be empty. n_threads: of the CPU.
        joined: as in Backend.structure."""


class CpuEncoder(Encoder, Protocol):
    """Also returns trees and the vectors of all their nodes."""

    def tree(self, tokens: np.ndarray, joined: np.ndarray | None = None) -> np.ndarray:
        """Return the tree over the tokens of one text (at least one): the children of its merges, int32 [n-1, 2]."""

    def phrases(self, tokens: np.ndarray, children: np.ndarray) -> np.ndarray:
        """Return the up vector of every node: of the tokens, then of the merges [n + merges, E]."""


class LexicalSums(Protocol):
    """Computes the lexical dimensions of embeddings (banyan.model.lexical)."""

    def put(self, tokens: np.ndarray, offsets: np.ndarray, out: np.ndarray, n_threads: int | None = None) -> None:
        """Write the sketches of texts to the last columns of `out`, whose first columns are roots, and scale both parts
        to their norms."""


class Encodes(Protocol):
    """A back end, as far as encoding goes."""

    name: str
    on_device: bool
    """Whether batches are stored on the device. If so, training samples them there and replays recorded steps, and
    encoding sends large batches one after another. If not, the host drives every step and every block."""

    def encoder(
        self, embedding: np.ndarray, functions: Functions, structure: str, device: torch.device | str
    ) -> Encoder:
        """Return an encoder with these weights."""

    def lexical_sums(self, table: np.ndarray, weight: float, device: torch.device | str) -> LexicalSums:
        """Return an object that adds sums of sketches (int8 [V, D]) to embeddings. weight: the norm of that part."""

    def word_sums(self, ngrams: WordNgrams, weight: float, device: torch.device | str) -> LexicalSums:
        """The same with sketches of the n-grams of whole words."""


class Backend(Encodes, Protocol):
    """A back end that also trains."""

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
        """Algorithm 1: induce the trees of a batch and entangle them into one graph, or leave them plain. Merges see
        vectors after dropout. structure, halves: as in the settings. joined: tokens that are in one word with the token
        before [T]; if given, the pieces of a word merge first."""

    def up_and_down(
        self, graph: Any, embedding: Tensor, functions: tuple[Tensor, ...], dropout: Dropout = NO_DROPOUT
    ) -> Any:
        """Return Passes: Equation 3 from the leaves up and Equation 4 from the roots down (or 1 and 2), differentiable.
        The graph comes from `structure`, with the same dropout, or is a banyan.model.graph.Graph of given trees."""

    def up(
        self, graph: Any, embedding: Tensor, functions: tuple[Tensor, ...], dropout: Dropout = NO_DROPOUT
    ) -> Any:
        """Return the roots alone (UpPass, or Passes): the same up pass, for losses that need no reconstruction."""

    def cross_entropy(
        self, passes: Any, weight: Tensor, bias: Tensor, candidates: str, mean_over: str, precision: str
    ) -> Tensor:
        """The mean cross-entropy of the reconstructed leaves under an output layer [V, E], [V]. candidates, mean_over:
        as in the settings. precision: of the matrix products, if the back end supports more than one."""

    def contrastive(self, passes: Any, inner: bool, precision: str) -> Tensor:
        """The mean contrastive loss over nodes (or inner nodes only): each up vector must identify its node among all
        down vectors, and each down vector among all up vectors."""
