"""scikit-learn: a transformer from texts to embeddings, for the first step of a pipeline, and a classifier of texts."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from banyan.errors import BanyanError
from banyan.integrations import as_model
from banyan.support.needs import needs

with needs("Banyan in scikit-learn"):
    from sklearn.base import BaseEstimator, ClassifierMixin, ClassNamePrefixFeaturesOutMixin, TransformerMixin
    from sklearn.utils import Tags
    from sklearn.utils.validation import check_is_fitted

if TYPE_CHECKING:
    from banyan.classify.classifier import Classifier
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


class BanyanClassifier(ClassifierMixin, BaseEstimator):
    """Classifies texts, or pairs of texts. `fit` trains a classifier on top of a model, as `banyan classify` does.

    model: a folder, a name on the Hugging Face Hub, or a Banyan. `fit` leaves it as it is.
    pair: the inputs are pairs of texts: a list of pairs, or a table with two columns.
    frozen: keep the token vectors, and train only the classifier on top.
    balanced: give rare classes as much weight as frequent ones.
    epochs, batch_size: None chooses them from the number of texts. lr: of the token vectors.

    A part of the texts is held out to stop training and to calibrate probabilities. The labels may be strings or
    numbers, lists of labels, or a matrix of zeros and ones with a column per class, dense or sparse.

    After `fit`, classifier_ is a banyan.classify.Classifier; its method save_pretrained writes a folder for
    `banyan classify predict` and `banyan serve`.
    """

    def __init__(
        self,
        model: Banyan | str | Path = "model",
        *,
        pair: bool = False,
        frozen: bool = False,
        balanced: bool = False,
        epochs: int | None = None,
        batch_size: int | None = None,
        lr: float = 3e-3,
        seed: int = 0,
    ) -> None:
        self.model = model
        self.pair = pair
        self.frozen = frozen
        self.balanced = balanced
        self.epochs = epochs
        self.batch_size = batch_size
        self.lr = lr
        self.seed = seed

    def fit(self, X: Any, y: Any) -> Self:
        """Train the classifier. X: texts or pairs of texts. y: their labels."""
        from banyan.classify.labelled import Labelled
        from banyan.classify.settings import Settings
        from banyan.classify.trainer import learned, prepared
        from banyan.support.display import Display

        columns = self._columns(X)
        if not columns[0]:
            raise BanyanError("there are no texts to learn from")
        rows, self.classes_, self._kind = _rows_of_labels(y)
        if len(rows) != len(columns[0]):
            raise BanyanError(f"there are {len(columns[0]):,} texts and {len(rows):,} labels")
        names = ("frozen", "balanced", "epochs", "batch_size", "lr", "seed")
        settings = Settings(**{name: getattr(self, name) for name in names})
        known = Labelled(columns, rows, self._kind != _ONE)
        ready = prepared(as_model(self.model), known, settings)
        self.classifier_: Classifier
        self.classifier_, _ = learned(ready, Display(quiet=True))
        classes = ready.classes
        self._order = [classes.index(name) if name in classes else -1 for name in map(str, _names(self.classes_))]
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the probability of each class, float32 [n, classes], in the order of classes_."""
        check_is_fitted(self)
        columns = self._columns(X)
        given = list(zip(*columns, strict=True)) if self.pair else columns[0]
        found = self.classifier_.predict_proba(given)
        return np.where(np.array(self._order) >= 0, found[:, self._order], np.float32(0))

    def predict(self, X: Any) -> np.ndarray:
        """Return a label per text; lists of labels or a matrix if that is what `fit` was given."""
        p = self.predict_proba(X)
        if self._kind == _ONE:
            return self.classes_[p.argmax(1)]
        if self._kind == _MATRIX:
            return (p >= 0.5).astype(np.int64)
        found = np.empty(len(p), object)
        found[:] = [self.classes_[row >= 0.5].tolist() for row in p]
        return found

    def _columns(self, X: Any) -> tuple[list[str], ...]:
        if not self.pair:
            return (_texts(X),)
        rows = np.asarray(X, dtype=object)
        if rows.ndim != 2 or rows.shape[1] != 2:
            raise BanyanError("expected pairs of texts: a list of pairs, or a table with two columns")
        return _texts(rows[:, 0]), _texts(rows[:, 1])

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = True
        tags.input_tags.two_d_array = self.pair
        tags.classifier_tags.multi_label = True
        return tags


_ONE, _LISTS, _MATRIX = "one label", "lists of labels", "a matrix"


def _rows_of_labels(y: Any) -> tuple[list[tuple[str, ...]], np.ndarray, str]:
    """The labels of each text as names, the classes, and how the labels were given."""
    if hasattr(y, "toarray"):
        y = y.toarray()  # a sparse matrix
    if len(getattr(y, "shape", ())) == 2:
        matrix = np.asarray(y)
        if matrix.shape[1] == 1:
            return _rows_of_labels(matrix[:, 0])
        if not np.isin(matrix, (0, 1)).all():
            raise BanyanError("a matrix of labels must have zeros and ones only")
        classes = np.arange(matrix.shape[1])
        return [tuple(map(str, np.flatnonzero(row))) for row in matrix], classes, _MATRIX
    labels = list(y)
    lists = [isinstance(label, list | tuple | set | np.ndarray) for label in labels]
    if any(lists):
        if not all(lists):
            raise BanyanError("some texts have a list of labels and some a single label: use lists for all")
        classes = _distinct([label for own in labels for label in own])
    else:
        classes = _distinct(labels)
    name = dict(zip(classes.tolist(), _names(classes), strict=True))
    if len(set(name.values())) < len(name):
        raise BanyanError("two labels are the same text: rename one of them")

    def named(label: Any) -> str:
        return name[label.item() if isinstance(label, np.generic) else label]

    rows = [tuple(map(named, own)) if any(lists) else (named(own),) for own in labels]
    return rows, classes, _LISTS if any(lists) else _ONE


def _distinct(labels: list[Any]) -> np.ndarray:
    from banyan.tuning.layout import is_missing

    for row, label in enumerate(labels):
        if is_missing(label):
            raise BanyanError(f"label {row} is missing ({label!r})")
    if len({isinstance(label, str) for label in labels}) > 1:
        raise BanyanError("some labels are strings and some are not: use strings for all")
    return np.unique(labels)


def _names(classes: np.ndarray) -> list[str]:
    from banyan.classify.labelled import label_of

    return [label_of(label) for label in classes.tolist()]


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
