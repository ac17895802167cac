"""What handlers work with and what they return."""

from __future__ import annotations

from functools import cached_property
from typing import Any, NamedTuple

import tokenizers

from banyan.classify.classifier import Classifier
from banyan.encoder import Banyan
from banyan.serve.limits import Limits
from banyan.serve.metrics import Metrics


class Answer(NamedTuple):
    body: bytes
    texts: int = 0
    tokens: int = 0
    content_type: bytes = b"application/json"


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
    ) -> None:
        self.model, self.names, self.limits, self.created, self.metrics = model, names, limits, created, metrics
        self.key = key  # the API key that requests must send
        self.classifier = classifier  # on top of the model, if its folder has one
        self.stopping = False  # the server is shutting down
        self.document: dict[str, Any] = {}  # OpenAPI; App makes it from the table of routes

    @cached_property
    def decoder(self) -> tokenizers.Tokenizer:
        return tokenizers.Tokenizer.from_str(self.model.tokenizer.to_json())
