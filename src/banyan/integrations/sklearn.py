"""scikit-learn: texts to embeddings as the first step of a pipeline."""

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
    """Texts in, embeddings float32 [n, dim] out.

    model: a folder, a name on the Hugging Face Hub, or a Banyan. It is finished: `fit` only loads it, and `transform`
    works without. A fitted transformer takes the model with it when it is pickled.
    texts: a list, an array, a Series, or a table of one column. A text that is missing is an error, an empty one is
    zeros.
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
        """Look at the texts, and load the model."""
        _texts(X)
        self.model_ = as_model(self.model, self.device)
        return self

    def transform(self, X: Any) -> np.ndarray:
        """float32 [n, dim]."""
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
    """A list of strings, whatever form they have."""
    if isinstance(X, str):
        raise BanyanError("this is one string where a list of texts is expected: put it in a list")
    if len(getattr(X, "shape", ())) == 2:
        rows, columns = X.shape
        if columns != 1:
            raise BanyanError(f"texts must be one column, not {columns}: choose one, as a ColumnTransformer does")
        X = np.asarray(X, dtype=object).reshape(rows)
    if not isinstance(X, Iterable):
        raise BanyanError(f"a list of texts is expected, not {type(X).__name__}")
    texts = list(X)
    for row, text in enumerate(texts):
        if not isinstance(text, str):
            raise BanyanError(f"text {row} is {text!r} ({type(text).__name__}), not a string")
    return texts
