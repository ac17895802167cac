"""A tokenizer of letters, and small corpora for it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from banyan.corpus import Corpus

LIMITS = {"min_pieces": 2, "max_pieces": 6}


class Letters:
    """A token for every character. Remembers how many sentences it was given, and may stop in the middle."""

    def __init__(self, vocab_size: int = 1 << 16, stop_after: int | None = None) -> None:
        self.vocab_size = vocab_size
        self.stop_after = stop_after
        self.given = 0

    def encode(self, texts: list[str]) -> tuple[np.ndarray, np.ndarray]:
        self.given += len(texts)
        if self.stop_after is not None and self.given > self.stop_after:
            raise KeyboardInterrupt
        offsets = np.cumsum([0, *map(len, texts)])
        return np.array([ord(char) for text in texts for char in text], np.int32), offsets

    def to_json(self) -> str:
        return json.dumps(self.vocab_size)


def corpus_of(folder: Path, lines: list[str], layout: str = "lines") -> Corpus:
    """A corpus of these lines, or of the ones that it already has."""
    path = folder / "corpus.txt"
    if not path.exists():
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return Corpus(path, layout=layout, paragraphs=True)
