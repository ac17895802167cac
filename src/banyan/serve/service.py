"""What handlers work with and what they return."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import tokenizers

from banyan.classify.classifier import Classifier
from banyan.encoder import Banyan
from banyan.serve.limits import Limits
from banyan.serve.metrics import Metrics

if TYPE_CHECKING:
    from banyan.search.searching import Searcher
    from banyan.serve.explore_map import CollectionMap


class Answer(NamedTuple):
    body: bytes
    texts: int = 0
    tokens: int = 0
    content_type: bytes = b"application/json"
    headers: tuple[tuple[bytes, bytes], ...] = ()  # further ones


class Beside(NamedTuple):
    """Another model, which searches the same rows."""

    name: str
    model: Banyan
    searcher: Searcher


class Service:
    """A model under its names, and the state of the server around it."""

    def __init__(
        self,
        model: Banyan,
        names: list[str],
        limits: Limits,
        created: int,
        metrics: Metrics,
        key: str | None = None,
        classifier: Classifier | None = None,
        cors: tuple[str, ...] = (),
        searcher: Searcher | None = None,
    ) -> None:
        self.model, self.names, self.limits, self.created, self.metrics = model, names, limits, created, metrics
        self.key = key  # the API key that requests must send
        self.classifier = classifier  # on top of the model, if its folder has one
        self.cors = cors  # the origins whose pages may ask; "*" is every origin
        self.searcher = searcher  # of an index that the model made, if the server has one
        self.beside: Beside | None = None  # another model, to compare with
        self.examples: list[str] | None = None  # texts that the page begins with, once they are looked for
        self.map: CollectionMap | None = None  # of that index; App makes it
        self.hosts: frozenset[str] | None = None  # the names by which requests may call the server; None: any
        self.reload: Callable[[], None] = lambda: None  # has every worker load the model again
        self.stopping = False  # the server is shutting down
        self.document: dict[str, Any] = {}  # OpenAPI; App makes it from the table of routes

    @cached_property
    def fingerprint(self) -> str:
        return self.model.fingerprint()

    @cached_property
    def piece_bytes(self) -> np.ndarray:
        """int64 [V]: the length of each piece in bytes."""
        return np.array([len(piece.encode(errors="replace")) for piece in self.model.tokenizer.pieces], np.int64)

    @cached_property
    def decoder(self) -> tokenizers.Tokenizer:
        return tokenizers.Tokenizer.from_str(self.model.tokenizer.to_json())
