"""What every handler works with, and what it gives back."""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import tokenizers

from banyan.encoder import Banyan
from banyan.serve.limits import Limits


class Answer(NamedTuple):
    body: bytes
    texts: int = 0
    tokens: int = 0
    content_type: bytes = b"application/json"


class Service:
    """A model under its names."""

    def __init__(self, model: Banyan, names: list[str], limits: Limits, created: int) -> None:
        self.model, self.names, self.limits, self.created = model, names, limits, created

    @cached_property
    def decoder(self) -> tokenizers.Tokenizer:
        return tokenizers.Tokenizer.from_str(self.model.tokenizer.to_json())
