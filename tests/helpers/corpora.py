"""A small language of cats, dogs and places."""

from __future__ import annotations

import random
from pathlib import Path

NOUNS = "cat dog bird fish horse mouse wolf bear child teacher doctor farmer king queen sailor baker".split()
VERBS = "sees likes finds follows helps hears knows teaches paints remembers".split()
PLACES = "in the garden,on the hill,near the river,behind the house,at the market,under the old tree".split(",")
LINES = ["the cat sat on a mat", "", "a dog slept", "   ", "the cat sat", "naïve 日本 😀", 'quo"te \\ and\ttab', "end"]


def lines(n: int, seed: int = 0) -> list[str]:
    rng = random.Random(seed)
    return [
        f"The {rng.choice(NOUNS)} {rng.choice(VERBS)} the {rng.choice(NOUNS)} {rng.choice(PLACES)}." for _ in range(n)
    ]


def write_lines(path: Path, n: int, seed: int = 0) -> Path:
    path.write_text("\n".join(lines(n, seed)) + "\n", encoding="utf-8")
    return path
