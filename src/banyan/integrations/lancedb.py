"""LanceDB: an embedding function, registered as "banyan"."""

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
    """`get_registry().get("banyan").create(name="model/")`.

    A table stores the name of the function and of its model. A program that opens the table must import this module
    and be able to load the model.
    """

    name: str
    normalize: bool = True
    device: str = "cpu"
    max_retries: int = 0  # local errors do not go away by retrying

    @cached_property
    def _model(self) -> Banyan:
        return as_model(self.name, self.device)

    def ndims(self) -> int:
        return self._model.dim

    def generate_embeddings(self, texts: list[str] | np.ndarray, *args: Any, **kwargs: Any) -> list[Any]:
        """Encode texts; None for a row without text."""
        vectors = self._model.encode(["" if text is None else text for text in texts], normalize=self.normalize)
        return [None if text is None else vector for text, vector in zip(texts, vectors, strict=True)]
