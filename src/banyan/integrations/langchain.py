"""LangChain: `Embeddings` for its vector stores and retrievers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from banyan.integrations import as_model
from banyan.support.needs import needs

with needs("BanyanEmbeddings"):
    from langchain_core.embeddings import Embeddings

if TYPE_CHECKING:
    from banyan.encoder import Banyan


class BanyanEmbeddings(Embeddings):
    """Embeds queries and documents in the same way.

    Embeddings have length 1, so stores that rank by dot product or by distance rank by cosine. The embedding of a text
    without tokens is zero.
    """

    def __init__(self, model: Banyan | str | Path, *, normalize: bool = True, device: str = "cpu") -> None:
        self.model = as_model(model, device)
        self.normalize = normalize

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return self.model.encode(texts, normalize=self.normalize).tolist()

    def embed_query(self, text: str) -> list[float]:
        return self.model.encode(text, normalize=self.normalize).tolist()
