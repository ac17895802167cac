"""BERTopic: `BERTopic(embedding_model=model)`, with a `Banyan`, or with `BanyanBackend("model/")`.

BERTopic chooses an embedding model by its class, and takes a transformer in place of what it does not know. A `Banyan`
that it asks for its class becomes an `Embedder` (see `class_of`).
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from banyan.encoder import Banyan
from banyan.integrations import as_model
from banyan.support.needs import needs

with needs("BanyanBackend"):
    from bertopic.backend import BaseEmbedder


class BanyanBackend(BaseEmbedder):
    """Embeds documents and words. model: a Banyan, a model folder or a name on the Hub."""

    def __init__(self, model: Banyan | str | Path) -> None:
        super().__init__(embedding_model=as_model(model))

    def embed(self, documents: list[str], verbose: bool = False) -> np.ndarray:
        return self.embedding_model.encode(list(documents), normalize=True, show_progress_bar=verbose)


class Embedder(Banyan, BaseEmbedder):
    """A Banyan that embeds documents and words for BERTopic. It is never made anew."""

    def embed(self, documents: list[str], verbose: bool = False) -> np.ndarray:
        return self.encode(list(documents), normalize=True, show_progress_bar=verbose)


class _Asked(Embedder):
    """isinstance() looks at `__class__` only if it is not the type."""


def adopt(model: Banyan) -> type[Banyan]:
    """Make a Banyan an Embedder. Return what `__class__` answers."""
    vars(object)["__class__"].__set__(model, Embedder)
    return _Asked
