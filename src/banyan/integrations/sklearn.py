"""scikit-learn: a transformer from texts to embeddings, for the first step of a pipeline."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from banyan.errors import BanyanError
from banyan.integrations import as_model
from banyan.support.needs import needs

with needs("BanyanTransformer"):
    from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
    from sklearn.utils import Tags

if TYPE_CHECKING:
    from banyan.encoder import Banyan


class BanyanTransformer(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Transforms texts to embeddings, float32 [n, dim].

    model: a folder, a name on the Hugging Face Hub, or a Banyan. It is already trained: `fit` only loads it, and
        `transform` works without `fit`. Pickling a fitted transformer includes the model.

    Texts may be a list, an array, a Series, or a table with one column. A missing text is an error; the embedding of an
    empty text is zero.
    """

    def __init__(
        self,
        model: Banyan | str | Path = "model",
        *,
        normalize: bool = False,
        truncate_dim: int | None = None,
        device: str = "cpu",
    ) -> None:
        self.model = model
        self.normalize = normalize
        self.truncate_dim = truncate_dim
        self.device = device

    def fit(self, X: Any, y: Any = None) -> Self:
        """Check the texts and load the model."""
        _texts(X)
        self.model_ = as_model(self.model, self.device)
        return self

    def transform(self, X: Any) -> np.ndarray:
        """Return embeddings, float32 [n, dim]."""
        texts = _texts(X)
        return self._loaded().encode(texts, normalize=self.normalize, truncate_dim=self.truncate_dim)

    def _loaded(self) -> Banyan:
        if not hasattr(self, "model_"):
            self.model_ = as_model(self.model, self.device)
        return self.model_

    @property
    def _n_features_out(self) -> int:
        return self.truncate_dim or self._loaded().dim

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        tags.input_tags.string = True
        tags.input_tags.two_d_array = False
        tags.transformer_tags.preserves_dtype = []
        return tags


def _texts(X: Any) -> list[str]:
    """Convert to a list of strings."""
    if isinstance(X, str):
        raise BanyanError("expected a list of texts, not one string: put it in a list")
    if len(getattr(X, "shape", ())) == 2:
        rows, columns = X.shape
        if columns != 1:
            raise BanyanError(f"texts must be one column, not {columns}: select one with a ColumnTransformer")
        X = np.asarray(X, dtype=object).reshape(rows)
    if not isinstance(X, Iterable):
        raise BanyanError(f"expected a list of texts, not {type(X).__name__}")
    texts = list(X)
    for row, text in enumerate(texts):
        if not isinstance(text, str):
            raise BanyanError(f"text {row} is {text!r} ({type(text).__name__}), not a string")
    return texts
