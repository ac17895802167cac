"""Batches of examples: which texts they have, and which of those are no negatives of each other."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from banyan.corpus.report import Report
from banyan.corpus.store import Store
from banyan.errors import BanyanError
from banyan.model.graph import runs_of_tokens
from banyan.support.needs import needs
from banyan.tokenizer import Tokenizer
from banyan.tuning.examples import Examples, numbered

NONE = -1  # instead of the number of a text


@dataclass(frozen=True)
class Known:
    """What is known about all examples."""

    table: np.ndarray  # int64 [n, columns]: the numbers of the first and the second text and of any negatives, or NONE
    same: np.ndarray  # int64 [texts]: the first text that differs only in case, or the text itself
    group: np.ndarray  # int64 [texts]: equal for texts that are linked by examples; NONE for those that only negate
    pairs: np.ndarray  # int64, sorted: the examples as pairs of texts, in both orders, each as one number
    label: np.ndarray | None  # int64 [n]
    labels: Any  # of each text: a sparse matrix of scipy [texts, labels], or None
    score: np.ndarray | None  # float64 [n]

    @classmethod
    def of(cls, table: np.ndarray, examples: Examples, same: np.ndarray) -> Known:
        texts, group = len(same), np.full(len(same), NONE)
        whole = (table[:, :2] != NONE).all(1)
        first, second = same[table[whole, :2]].T
        for text in (first, second):
            group[text] = examples.group[whole]
        pairs = np.unique([first * texts + second, second * texts + first])
        label = examples.label
        labels = None if label is None else _labels(np.append(first, second), np.tile(label[whole], 2), same)
        return cls(table, same, group[same], pairs, label, labels, examples.score)

    def belong(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        """Whether texts are equal, or make up an example together, bool [n]."""
        first, second = self.same[first], self.same[second]
        code = first * len(self.group) + second
        place = np.minimum(np.searchsorted(self.pairs, code), len(self.pairs) - 1)
        return (first == second) | (self.pairs[place] == code)


def _labels(text: np.ndarray, label: np.ndarray, same: np.ndarray) -> Any:
    with needs("Tuning", "train"):
        from scipy import sparse

    shape = len(same), int(label.max(initial=-1)) + 1
    return sparse.coo_matrix((np.ones(len(text), np.float32), (text, label)), shape).tocsr()[same]


@dataclass(frozen=True)
class Batches:
    """Some examples. It takes the place of a banyan.training.passages.Part; an example is a passage."""

    store: Store  # the distinct texts
    known: Known
    indices: np.ndarray  # int64 [n]: the examples

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, chosen: slice | np.ndarray) -> Batches:
        return Batches(self.store, self.known, self.indices[chosen])

    def with_negatives(self, more: np.ndarray) -> Batches:
        """The same examples with more negatives, int64 [n, ...]."""
        table = np.full((len(self.known.table), more.shape[1]), NONE)
        table[self.indices] = more
        known = replace(self.known, table=np.hstack([self.known.table, table]))
        return Batches(self.store, known, self.indices)

    @property
    def table(self) -> np.ndarray:
        """The numbers of the texts of each example [n, columns]."""
        return self.known.table[self.indices]

    @property
    def score(self) -> np.ndarray | None:
        return None if self.known.score is None else self.known.score[self.indices]

    @property
    def counts(self) -> np.ndarray:
        """The number of texts of each example."""
        return (self.table != NONE).sum(1)

    def passages(self, config: object, epoch: int) -> Batches:
        return self

    def fewest_passages(self, most: int) -> int:
        return len(self)

    def has_negatives(self) -> bool:
        """Whether a first text has any negative, in any batch."""
        first, second = (np.unique(self.known.same[column]) for column in self.table[:, :2].T)
        if (self.table[:, 2:] != NONE).any() or len(first) * len(second) > len(self.known.pairs) + len(first):
            return True
        return not self.known.belong(np.repeat(first, len(second)), np.tile(second, len(first))).all()

    def texts(self) -> np.ndarray:
        """The numbers of all first texts, then of all second texts, then of all negatives."""
        in_order = self.table.T.ravel()
        return in_order[in_order != NONE]

    def spans(self) -> tuple[np.ndarray, np.ndarray]:
        """Where the tokens of each text begin in the store, and how many there are."""
        offsets, texts = np.asarray(self.store.offsets), self.texts()
        return offsets[texts], offsets[texts + 1] - offsets[texts]

    def batch(self) -> tuple[np.ndarray, np.ndarray]:
        """The tokens and offsets of a ragged batch of all texts."""
        return runs_of_tokens(np.asarray(self.store.tokens), *self.spans())

    def left_out(self) -> np.ndarray:
        """Which second texts and negatives are no negatives of a first text, bool [n, n + M]: a text that is equal or
        makes up an example with it, and a second text with one of its labels. Its own second text is not among them."""
        n, texts = len(self), self.texts()
        first, others, group = texts[:n], texts[n:], self.known.group
        found = group[first, None] == group[others]
        row, column = np.nonzero(found)
        found[row, column] = self.known.belong(first[row], others[column])
        if self.known.labels is not None:
            own, other = self.known.labels[first], self.known.labels[others[:n]]
            found[:, :n] |= (own @ other.T).toarray() > 0
        np.fill_diagonal(found, False)
        return found


def prepared(train: Examples, held_out: Examples, tokenizer: Tokenizer, max_pieces: int) -> tuple[Batches, Batches]:
    """The examples to tune on and those held out, tokenised. Longer texts are cut in tuning; examples with a text
    without tokens are left out."""
    number: dict[str, int] = {}
    tables = [_numbered(examples, number) for examples in (train, held_out)]
    tokens, offsets = _cut(*tokenizer.encode(list(number)), max_pieces)
    digest = hashlib.sha256(tokens.tobytes() + offsets.tobytes())
    for examples, table in zip((train, held_out), tables, strict=True):
        for array in (table, examples.group, examples.label, examples.score):
            digest.update(b"none" if array is None else array.tobytes())
    store = Store(tokens, offsets, Report(), digest.hexdigest())
    some = np.append(np.diff(offsets) > 0, False)  # the last for NONE
    (equal,) = numbered(list(number))
    same = np.unique(equal, return_index=True)[1][equal]
    train_part, held_out_part = (
        _of(store, table, examples, some, same) for table, examples in zip(tables, (train, held_out), strict=True)
    )
    _check(train_part)
    return train_part, held_out_part


def _check(train: Batches) -> None:
    """Refuse examples that nothing can be learned from."""
    if not len(train):
        raise BanyanError("there is nothing to tune on: no example has two texts with words in them")
    label = train.known.label
    if label is not None and len(np.unique(label[train.indices])) == 1:
        raise BanyanError("all texts have the same label: tuning needs texts of at least two labels")
    if train.score is not None and len(np.unique(train.score)) == 1:
        raise BanyanError("all examples to tune on have the same score, so there is nothing to rank")
    if train.score is None and not train.has_negatives():
        raise BanyanError(
            "tuning needs texts that do not belong together: at least two pairs without a common text, or a negative"
        )


def _numbered(examples: Examples, number: dict[str, int]) -> np.ndarray:
    """The numbers of the texts of all examples [n, 2 or 3]. New texts get the next numbers."""
    columns = [examples.first, examples.second, *([examples.negative] if examples.negative is not None else [])]
    rows = [[number.setdefault(text, len(number)) if text else NONE for text in column] for column in columns]
    return np.array(rows, np.int64).reshape(len(columns), -1).T


def _cut(tokens: np.ndarray, offsets: np.ndarray, most: int) -> tuple[np.ndarray, np.ndarray]:
    return runs_of_tokens(tokens, offsets[:-1], np.minimum(np.diff(offsets), most))


def _of(store: Store, table: np.ndarray, examples: Examples, some: np.ndarray, same: np.ndarray) -> Batches:
    table = np.where(some[table], table, NONE)  # a negative without tokens is none
    whole = np.flatnonzero((table[:, :2] != NONE).all(1))
    return Batches(store, Known.of(table, examples, same), whole)
