"""Words: do the cosines of pairs of words rank as people's scores do?"""

from __future__ import annotations

from pathlib import Path

from banyan.evaluate.outcome import Outcome
from banyan.evaluate.similarity import Comparer, Encode, read_pairs, similarity


def word_similarity(encode: Encode | Comparer, path: str | Path, task: str) -> Outcome:
    """Of a list as SimLex or WordSim: two words and a score a line, with or without a header. A word is a text like any
    other, so one of several pieces is composed. Scores are numbers (the authors' program ranks them as text)."""
    return similarity(encode, read_pairs(path), task)
