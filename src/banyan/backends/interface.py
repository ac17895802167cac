"""What every back end offers, in the paper's words. reference.py says what each of it must compute.

B sentences of T tokens in all have L leaves and N nodes; a vector has E numbers, the vocabulary V tokens. A batch is
ragged: `tokens` [T] of all sentences one after another, `offsets` [B+1].
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from banyan.model.dropout import NO_DROPOUT, Dropout
from banyan.model.functions import Functions

if TYPE_CHECKING:
    import torch
    from torch import Tensor


class Passes(Protocol):
    """A batch, up and down. How a back end stores the other nodes is its own affair."""

    @property
    def graph(self) -> Any: ...

    @property
    def rebuilt(self) -> Tensor:
        """The leaves as they come down [L, E]."""

    @property
    def roots(self) -> Tensor:
        """The sentences [B, E]."""


class Encoder(Protocol):
    """Roots of sentences, without gradients."""

    def roots(self, tokens: np.ndarray, offsets: np.ndarray, out: np.ndarray, n_threads: int | None = None) -> None:
        """Put the roots into the first E columns of `out` [B, ...]; no sentence may be empty. n_threads: on the CPU."""


class LexicalSums(Protocol):
    """The lexical dimensions of embeddings (banyan.model.lexical)."""

    def put(self, tokens: np.ndarray, offsets: np.ndarray, out: np.ndarray, n_threads: int | None = None) -> None:
        """Put the sums of the tokens' sketches into the last columns of `out`, whose first columns are roots, and
        give both parts their lengths."""


class Backend(Protocol):
    name: str
    on_device: bool
    """Whether batches live on the device. If so, training draws them there and replays recorded steps, and encoding
    sends large batches one after another; if not, both go step by step and block by block from the host."""

    def structure(
        self,
        tokens: np.ndarray,
        offsets: np.ndarray,
        embedding: Tensor,
        functions: tuple[Tensor, ...],
        dropout: Dropout = NO_DROPOUT,
        plain: bool = False,
        structure: str = "induced",
    ) -> Any:
        """Algorithm 1: induce the trees of a batch and entangle them into one graph, or leave them plain. Merges see
        vectors after dropout. structure: as of the settings."""

    def up_and_down(
        self, graph: Any, embedding: Tensor, functions: tuple[Tensor, ...], dropout: Dropout = NO_DROPOUT
    ) -> Any:
        """Passes: Equation 3 from the leaves up and Equation 4 from the roots down (or 1 and 2), with their gradients.
        The graph comes from `structure`, with the same dropout, or is a banyan.model.graph.Graph of given trees."""

    def cross_entropy(
        self, passes: Any, weight: Tensor, bias: Tensor, candidates: str, mean_over: str, precision: str
    ) -> Tensor:
        """The mean cross-entropy of the rebuilt leaves under an output layer [V, E], [V]. candidates, mean_over: as of
        the settings. precision: of the matrix products, if the back end has more than one."""

    def contrastive(self, passes: Any, inner: bool, precision: str) -> Tensor:
        """The mean over nodes (or inner nodes only) of how well each, on its way up, finds itself among all that come
        down, and back."""

    def encoder(
        self, embedding: np.ndarray, functions: Functions, structure: str, device: torch.device | str
    ) -> Encoder:
        """What encodes with these weights."""

    def lexical_sums(self, table: np.ndarray, weight: float, device: torch.device | str) -> LexicalSums:
        """What completes embeddings by sketches int8 [V, D]. weight: the length of that part."""
