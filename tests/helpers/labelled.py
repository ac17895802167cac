"""Labelled texts of a few words."""

from __future__ import annotations

import numpy as np

from banyan.classify.labelled import Labelled

WORDS = {"animal": ("cat", "dog"), "rest": ("sat", "slept"), "place": ("mat", "house", "tree")}
FILLER = "the a on green over under".split()


def texts(n: int, seed: int = 0) -> Labelled:
    """The label of a text is that of one of its words. Classes are not balanced."""
    rng = np.random.default_rng(seed)
    label = rng.choice(list(WORDS), n, p=[0.6, 0.3, 0.1])
    found = [" ".join(rng.permutation([rng.choice(WORDS[name]), *rng.choice(FILLER, 4)])) for name in label]
    return Labelled((found,), [(str(name),) for name in label], False)


def pairs(n: int, seed: int = 0) -> Labelled:
    """Pairs are alike if the second text has the words of the first in another order."""
    rng = np.random.default_rng(seed)
    words = [word for some in WORDS.values() for word in some] + FILLER
    first = [list(rng.choice(words, 4, replace=False)) for _ in range(n)]
    alike = rng.random(n) < 0.5
    second = [
        list(rng.permutation(own)) if same else list(rng.choice(words, 4, replace=False))
        for own, same in zip(first, alike, strict=True)
    ]
    columns = [" ".join(text) for text in first], [" ".join(text) for text in second]
    return Labelled(columns, [("same" if same else "other",) for same in alike], False)
