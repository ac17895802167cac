"""LanceDB: an embedding function, registered as "banyan", that its tables remember."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from banyan.integrations import as_model
from banyan.support.needs import needs

with needs("BanyanFunction"):
    from lancedb.embeddings import TextEmbeddingFunction, register

if TYPE_CHECKING:
    import numpy as np

    from banyan.encoder import Banyan


@register("banyan")
class BanyanFunction(TextEmbeddingFunction):
    """`get_registry().get("banyan").create(name="model/")`. A table keeps the name with it, so a program that opens the
    table must import this module and have the model there too."""

    name: str
    normalize: bool = True
    device: str = "cpu"
    max_retries: int = 0  # nothing here gets better by waiting

    @cached_property
    def _model(self) -> Banyan:
        return as_model(self.name, self.device)

    def ndims(self) -> int:
        return self._model.dim

    def generate_embeddings(self, texts: list[str] | np.ndarray, *args: Any, **kwargs: Any) -> list[Any]:
        """A row that has no text has no vector."""
        vectors = self._model.encode(["" if text is None else text for text in texts], normalize=self.normalize)
        return [None if text is None else vector for text, vector in zip(texts, vectors, strict=True)]
