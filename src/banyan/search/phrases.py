"""Phrases of two texts that mean nearly the same, found by comparing every phrase of one tree with every phrase of the
other."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from banyan.search.word_spans import word_spans
from banyan.support.rows import unit_rows

if TYPE_CHECKING:
    from banyan.explanation import Explanation
    from banyan.tree import Tree

ALIKE = 0.5  # the lowest cosine of two phrases that match
SHARE = 0.05  # the least share of what all words contribute to the cosine of two texts that matching phrases have


class Match(NamedTuple):
    """Two phrases that mean nearly the same."""

    a: int  # node of the first tree
    b: int  # node of the second
    cosine: float


def matching_phrases(a: Tree, b: Tree, explanation: Explanation, most: int = 3) -> list[Match]:
    """Return the pairs of phrases of whole words with the highest cosines, best first. No two of them overlap. They are
    not the same single word, and they contribute to the cosine of the texts, which `explanation` explains."""
    ours, theirs = whole_phrases(a), whole_phrases(b)
    if not ours or not theirs:
        return []
    cosines = unit_rows(a.embeddings[ours]) @ unit_rows(b.embeddings[theirs]).T
    sums = np.pad(explanation.matrix.cumsum(0).cumsum(1), ((1, 0), (1, 0)))
    (first, end), (start, last) = _leaves(a)[ours].T, _leaves(b)[theirs].T
    added = sums[end][:, last] - sums[first][:, last] - sums[end][:, start] + sums[first][:, start]
    rows, columns = np.nonzero((cosines >= ALIKE) & (added >= SHARE * explanation.matrix[:-1, :-1].sum()))
    order = np.argsort(-cosines[rows, columns], kind="stable")
    found: list[Match] = []
    for row, column in zip(rows[order].tolist(), columns[order].tolist(), strict=True):
        match = Match(ours[row], theirs[column], float(min(cosines[row, column], 1.0)))
        if _tells(match, a, b) and not any(_overlaps(match, better, a, b) for better in found):
            found.append(match)
            if len(found) == most:
                break
    return found


def _leaves(tree: Tree) -> np.ndarray:
    """Return the first leaf under each node, and the one after the last, int64 [2n-1, 2]."""
    ranges = [[leaf, leaf + 1] for leaf in range(len(tree.pieces))]
    for left, right in tree.children.tolist():
        ranges.append([ranges[left][0], ranges[right][1]])
    return np.array(ranges)


def whole_phrases(tree: Tree) -> list[int]:
    """Return the nodes that begin and end with a word, except the root of several words: that is the text itself."""
    words = word_spans(tree.text)
    starts, ends = {start for start, _ in words}, {end for _, end in words}
    nodes = range(len(tree) - 1 if len(words) > 1 else len(tree))
    return [node for node in nodes if _edges(tree, node)[0] in starts and _edges(tree, node)[1] in ends]


def _edges(tree: Tree, node: int) -> tuple[int, int]:
    """Return where the text of a node begins and ends, without surrounding white space."""
    start, end = tree.spans[node].tolist()
    text = tree.text[start:end]
    return start + len(text) - len(text.lstrip()), end - len(text) + len(text.rstrip())


def _tells(match: Match, a: Tree, b: Tree) -> bool:
    """Whether a match says more than that both texts have the same word."""
    one, other = a.phrase(match.a), b.phrase(match.b)
    return len(one.split()) > 1 or len(other.split()) > 1 or one.lower() != other.lower()


def _overlaps(match: Match, better: Match, a: Tree, b: Tree) -> bool:
    return _share(a, match.a, better.a) or _share(b, match.b, better.b)


def _share(tree: Tree, one: int, other: int) -> bool:
    (first, end), (start, last) = _edges(tree, one), _edges(tree, other)
    return first < last and start < end
