"""Dice's coefficient: twice what two texts share, over what they have, counted with repeats."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from banyan.baselines import folder as folders
from banyan.baselines.text import words
from banyan.errors import BanyanError

SOURCE = ""  # it needs no text


def train(corpus_paths: Sequence[str | Path], out: str | Path, *, quiet: bool = False, of: str = "bigrams") -> None:
    """of: what is shared, "bigrams" of characters inside white-space words, or "words". No text is needed."""
    if corpus_paths:
        raise BanyanError("dice learns nothing from text: leave the corpus out")
    Dice(of)
    with folders.made(out, folders.Manifest("dice", {"of": of})):
        pass


def load(folder: str | Path) -> Dice:
    return Dice(**folders.read(folder).settings)


def bigrams(text: str) -> Counter[str]:
    """Pairs of neighbouring characters inside a white-space word; of a word of one character, the character."""
    parts = text.lower().split()
    return Counter(part[i : i + 2] for part in parts for i in range(max(len(part) - 1, 1)))


def dice(a: Counter[str], b: Counter[str]) -> float:
    """0 where neither has anything."""
    both, either = (a & b).total(), a.total() + b.total()
    return 2 * both / either if either else 0.0


_FEATURES: dict[str, Callable[[str], Counter[str]]] = {"bigrams": bigrams, "words": lambda text: Counter(words(text))}


class Dice:
    """Compares texts; it has no vectors."""

    def __init__(self, of: str = "bigrams") -> None:
        if of not in _FEATURES:
            raise BanyanError(f"dice compares {' or '.join(_FEATURES)}, not {of!r}")
        self.features = _FEATURES[of]

    def similarity(self, first: Sequence[str], second: Sequence[str]) -> np.ndarray:
        return np.array([dice(self.features(a), self.features(b)) for a, b in zip(first, second, strict=True)])
