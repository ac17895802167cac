"""Examples: texts that belong together, and which examples are linked by equal texts.

Texts are equal if they differ only in case: most models read them as one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from banyan.support.needs import needs


@dataclass(frozen=True)
class Examples:
    """Texts that belong together."""

    first: list[str]
    second: list[str]
    negative: list[str] | None  # a text that does not belong to `first`; "" where an example has none
    score: np.ndarray | None  # float64 [n]
    group: np.ndarray  # int64 [n]: equal for examples that are linked by equal texts, directly or in a chain
    label: np.ndarray | None = None  # int64 [n]: the label that both texts have, if they were paired by label

    @classmethod
    def of(
        cls,
        first: Sequence[str],
        second: Sequence[str],
        negative: Sequence[str] | None = None,
        score: np.ndarray | None = None,
        label: np.ndarray | None = None,
    ) -> Examples:
        """Make examples with their groups."""
        return cls(
            list(first),
            list(second),
            None if negative is None else list(negative),
            None if score is None else np.asarray(score, np.float64),
            linked(*numbered(first, second)),
            None if label is None else np.asarray(label, np.int64),
        )

    def __len__(self) -> int:
        return len(self.first)

    def __getitem__(self, indices: np.ndarray | slice) -> Examples:
        """Return some of the examples, with the groups they have here. indices: a slice, positions, or a mask [n]."""
        chosen = np.arange(len(self))[indices]
        first, second, negative = (
            None if texts is None else [texts[i] for i in chosen] for texts in (self.first, self.second, self.negative)
        )
        assert first is not None
        assert second is not None
        score, label = (None if values is None else values[chosen] for values in (self.score, self.label))
        return Examples(first, second, negative, score, self.group[chosen], label)


def numbered(*columns: Sequence[str]) -> list[np.ndarray]:
    """Return int64 [n] for each column of texts, with equal numbers for equal texts, from 0 without gaps."""
    numbers: dict[str, int] = {}
    return [
        np.array([numbers.setdefault(text.casefold(), len(numbers)) for text in texts], np.int64) for texts in columns
    ]


def linked(first: np.ndarray, second: np.ndarray, through: np.ndarray | None = None) -> np.ndarray:
    """Return the group of each example, int64 [n]: the connected components of the graph of texts.

    first, second: the number of each example's texts. through: the texts that link examples, as a mask over numbers;
    by default all do."""
    with needs("Tuning", "train"):
        from scipy import sparse
        from scipy.sparse.csgraph import connected_components

    n, texts = len(first), int(max(first.max(initial=-1), second.max(initial=-1))) + 1
    # The nodes are the examples and the texts, the edges are between an example and its texts.
    example, text = np.tile(np.arange(n), 2), np.concatenate([first, second])
    kept = slice(None) if through is None else through[text]
    edges = example[kept], n + text[kept]
    graph = sparse.coo_matrix((np.ones(len(edges[0]), bool), edges), (n + texts, n + texts))
    return connected_components(graph, directed=False)[1][:n].astype(np.int64)


def paired_by_label(texts: Sequence[str], label: np.ndarray, seed: int = 0) -> tuple[Examples, int]:
    """Pair each text with another text that has its label. Also return the number of rows that have no such text.

    The texts of a label are put in a random circle, and each is paired with the next. So each is once the first and
    once the second text of an example. A text that a label has several times counts once."""
    different = {(its_label, text.casefold()): (its_label, text) for its_label, text in zip(label, texts, strict=True)}
    rows = list(different.values())
    by_label: dict[int, list[int]] = {}
    for row, (its_label, _) in enumerate(rows):
        by_label.setdefault(int(its_label), []).append(row)
    rng = np.random.default_rng(seed)
    partner = np.full(len(rows), -1)
    for members in by_label.values():
        if len(members) > 1:
            circle = rng.permutation(members)
            partner[circle] = np.roll(circle, -1)
    paired = np.flatnonzero(partner >= 0)
    first, second = ([rows[row][1] for row in places] for places in (paired, partner[paired]))
    labels = np.array([rows[row][0] for row in paired], np.int64)
    return Examples.of(first, second, label=labels), len(texts) - len(paired)
