"""How little a word says about a subject, in any language, from the texts alone.

Words of grammar (articles, pronouns, conjunctions, particles) are frequent and short, and many different words stand
next to them. Each of these signs has exceptions. So the words that stand in the same places count, too: a rare pronoun
stands where the frequent ones do.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

FREQUENT, AT_LEAST = 0.002, 8  # share and number of the texts that have a word; nothing is said of rarer ones
ENOUGH = 100  # words, at least, to compare with
DRAWS = 16  # neighbours of a word among which the different ones are counted
PLACES = 200  # frequent words; a word stands in the same places as another if the same ones are next to both
ALIKE, DIMENSIONS = 10, 50  # so many words that stand in the same places are asked, in a space of so many dimensions
# A logistic regression on words of five languages, marked by hand (docs/experiments.md, "Search and maps"):
FREQUENCY, LENGTH, VARIETY, CONSTANT = 0.95, -0.68, 0.85, -3.1
OTHERS = 1.5  # the weight of what the words alike look like


def weights(texts: Sequence[Sequence[str]]) -> dict[str, float]:
    """Return a weight for each frequent word, from 0 (grammar) to 1 (a subject). texts: their words, in order."""
    counts = Counter(word for text in texts for word in set(text))
    words = [word for word, count in counts.items() if count >= max(AT_LEAST, FREQUENT * len(texts))]
    if len(words) < ENOUGH:
        return {}
    before, after = _neighbours(texts, set(words))
    variety = [max(_variety(before[word]), _variety(after[word])) for word in words]
    signs = np.array([np.log([counts[word] for word in words]), list(map(len, words)), variety])
    signs = (signs - signs.mean(1, keepdims=True)) / np.maximum(signs.std(1, keepdims=True), 1e-9)
    looks = np.array([FREQUENCY, LENGTH, VARIETY]) @ signs + CONSTANT
    alike = looks[_alike(words, before, after, texts)].mean(1)
    found = 1 / (1 + np.exp(looks + OTHERS * (alike - alike.mean())))
    return dict(zip(words, (found**2).tolist(), strict=True))


def _neighbours(texts: Sequence[Sequence[str]], words: set[str]) -> tuple[dict[str, Counter], dict[str, Counter]]:
    """How often each word stands directly before, and after, each of some words."""
    before: dict[str, Counter] = defaultdict(Counter)
    after: dict[str, Counter] = defaultdict(Counter)
    for text in texts:
        for first, second in pairwise(text):
            if first in words:
                after[first][second] += 1
            if second in words:
                before[second][first] += 1
    return before, after


def _variety(neighbours: Counter) -> float:
    """The expected share of different words among a few draws from the neighbours."""
    counts = np.fromiter(neighbours.values(), float)
    return float((1 - (1 - counts / counts.sum()) ** DRAWS).sum() / DRAWS) if len(counts) else 1.0


def _alike(
    words: list[str], before: dict[str, Counter], after: dict[str, Counter], texts: Sequence[Sequence[str]]
) -> np.ndarray:
    """The numbers of the words that stand in the most similar places [n, ALIKE]."""
    frequent = Counter(word for text in texts for word in text).most_common(PLACES)
    places = {word: i for i, (word, _) in enumerate(frequent)}
    counts = np.zeros((len(words), 2, len(places)))
    for row, word in zip(counts, words, strict=True):
        for side, found in zip(row, (before[word], after[word]), strict=True):
            for neighbour, count in found.items():
                if neighbour in places:
                    side[places[neighbour]] = count
    flat = counts.reshape(len(words), -1)
    expected = np.maximum(flat.sum(0) / max(flat.sum(), 1), 1e-9)
    total = flat.sum(1, keepdims=True) + 1
    surprise = np.log(np.maximum(flat / (total + 5) / expected, 1))  # positive PMI; that of rare words counts less
    points = surprise @ np.linalg.eigh(surprise.T @ surprise)[1][:, -DIMENSIONS:]
    points /= np.maximum(np.linalg.norm(points, axis=1, keepdims=True), 1e-9)
    cosines = points @ points.T
    np.fill_diagonal(cosines, -2)
    return np.argsort(-cosines, axis=1, kind="stable")[:, :ALIKE]
