"""A teacher that knows the small language, and translations of it into another one."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np

from tests.helpers.corpora import lines

WIDTH = 24


def vector_of(word: str) -> np.ndarray:
    seed = int.from_bytes(hashlib.sha256(word.encode()).digest()[:8], "little")
    return np.random.default_rng(seed).standard_normal(WIDTH)


class WordTeacher:
    """Its vector of a text is the sum of a random vector for each word; function words hardly count."""

    name, kind, licence = "tests/word-teacher", "hub", "cc0-1.0"

    def __init__(self) -> None:
        self.asked: list[str] = []

    def encode(self, texts: list[str]) -> np.ndarray:
        self.asked += texts
        words = [text.lower().replace(".", " ").split() for text in texts]
        rows = [sum((0.1 if word in ("the", "a") else 1) * vector_of(word) for word in some) for some in words]
        return np.array([row if np.ndim(row) else np.zeros(WIDTH) for row in rows], np.float32)


def translated(text: str) -> str:
    """Every word backwards, with a mark."""
    return " ".join(f"q{word[::-1]}" for word in text.lower().rstrip(".").split())


def write_translations(path: Path, n: int, seed: int = 0) -> Path:
    path.write_text("".join(f"{line}\t{translated(line)}\n" for line in lines(n, seed)), encoding="utf-8")
    return path
