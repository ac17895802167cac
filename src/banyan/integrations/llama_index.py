"""LlamaIndex: an embedding model for its indexes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from banyan.integrations import as_model
from banyan.support.needs import needs

with needs("BanyanEmbedding"):
    from llama_index.core.base.embeddings.base import BaseEmbedding
    from llama_index.core.bridge.pydantic import Field, PrivateAttr

if TYPE_CHECKING:
    from banyan.encoder import Banyan


class BanyanEmbedding(BaseEmbedding):
    """Embeds queries and texts in the same way. Embeddings have length 1; that of a text without tokens is zero."""

    normalize: bool = Field(default=True, description="Scale embeddings to length 1.")
    device: str = Field(default="cpu", description="Device that encodes: cpu or cuda.")
    _model: Any = PrivateAttr()

    def __init__(self, model: Banyan | str | Path | None = None, **fields: Any) -> None:
        """model: a folder, a name on the Hub, or a Banyan. LlamaIndex saves only its name, as `model_name`."""
        given = model if model is not None else fields.get("model_name", "model")
        super().__init__(**{"model_name": str(given), "embed_batch_size": 1024, **fields})
        self._model = as_model(given, self.device)

    @classmethod
    def class_name(cls) -> str:
        return "BanyanEmbedding"

    def _get_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        return self._model.encode(texts, normalize=self.normalize).tolist()

    def _get_text_embedding(self, text: str) -> list[float]:
        return self._model.encode(text, normalize=self.normalize).tolist()

    def _get_query_embedding(self, query: str) -> list[float]:
        return self._get_text_embedding(query)

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return self._get_text_embedding(query)
