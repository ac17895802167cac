"""BERTopic: `BERTopic(embedding_model=BanyanBackend("model/"))`.

BERTopic chooses an embedding model by its class. It would not know a `Banyan`, and take a transformer instead.
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
