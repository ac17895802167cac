"""Dice's coefficient, 2 |a ∩ b| / (|a| + |b|), of two texts as multisets of character bigrams or words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from banyan.baselines import folder as folders
from banyan.baselines.text import words
from banyan.errors import BanyanError

SOURCE = ""  # `banyan baseline dice` takes no corpus


def train(corpus_paths: Sequence[str | Path], out: str | Path, *, quiet: bool = False, of: str = "bigrams") -> None:
    """of: what to compare, "bigrams" (pairs of characters inside words split at white space) or "words"."""
    if corpus_paths:
        raise BanyanError("dice needs no training text: leave the corpus out")
    Dice(of)
    with folders.made(out, folders.Manifest("dice", {"of": of})):
        pass


def load(folder: str | Path) -> Dice:
    return Dice(**folders.read(folder).settings)


def bigrams(text: str) -> Counter[str]:
    """Pairs of adjacent characters inside words split at white space; a word of one character counts as itself."""
    parts = text.lower().split()
    return Counter(part[i : i + 2] for part in parts for i in range(max(len(part) - 1, 1)))


def dice(a: Counter[str], b: Counter[str]) -> float:
    """Dice's coefficient; 0 if both are empty."""
    both, either = (a & b).total(), a.total() + b.total()
    return 2 * both / either if either else 0.0


_FEATURES: dict[str, Callable[[str], Counter[str]]] = {"bigrams": bigrams, "words": lambda text: Counter(words(text))}


class Dice:
    """A Comparer: it has no vectors."""

    def __init__(self, of: str = "bigrams") -> None:
        if of not in _FEATURES:
            raise BanyanError(f"dice compares {' or '.join(_FEATURES)}, not {of!r}")
        self.features = _FEATURES[of]

    def similarity(self, first: Sequence[str], second: Sequence[str]) -> np.ndarray:
        return np.array([dice(self.features(a), self.features(b)) for a, b in zip(first, second, strict=True)])
