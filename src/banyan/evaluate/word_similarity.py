"""Word similarity: Spearman correlation of cosines with human scores of word pairs."""

from __future__ import annotations

from pathlib import Path

from banyan.evaluate.outcome import Outcome
from banyan.evaluate.similarity import Comparer, Encode, read_pairs, similarity


def word_similarity(encode: Encode | Comparer, path: str | Path, task: str) -> Outcome:
    """Measure on a list such as SimLex or WordSim: two words and a score per line, with or without a header.

    A word is encoded like any text, so a word of several pieces is composed. Scores are numbers; the authors' program
    ranks them as strings."""
    return similarity(encode, read_pairs(path), task)
