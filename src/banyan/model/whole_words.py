"""Words whose pieces merge before anything else (whole_words).

A word stands between white space, from its first piece with a letter or a digit to the last one: the brackets and the
full stop around it are not part of it, the hyphen and the apostrophe inside it are. Text without spaces is one word.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from banyan.model.word_ngrams import DIGITS, EMPTY, LETTERS, Spelling


class WordPieces(NamedTuple):
    """What each piece of a vocabulary can be in a word."""

    begins: np.ndarray  # bool [V]: white space comes before it
    solid: np.ndarray  # bool [V]: it has a letter or a digit
    blank: np.ndarray  # bool [V]: it is white space alone, and part of a word that follows

    @classmethod
    def of(cls, spelt: Spelling) -> WordPieces:
        return cls(spelt.begins, (spelt.kind == LETTERS) | (spelt.kind == DIGITS), spelt.kind == EMPTY)


def joined_tokens(tokens: np.ndarray, offsets: np.ndarray, words: WordPieces) -> np.ndarray:
    """Which tokens are in the same word as the token before them, bool [T]."""
    begins = words.begins[tokens]
    begins[offsets[:-1][np.diff(offsets) > 0]] = True
    starts, place = np.flatnonzero(begins), np.arange(len(tokens))
    if not len(starts):
        return begins
    solid, word = words.solid[tokens], np.cumsum(begins) - 1
    solid[:-1] |= words.blank[tokens[:-1]] & solid[1:] & ~begins[1:]
    first = np.minimum.reduceat(np.where(solid, place, len(tokens)), starts)
    last = np.maximum.reduceat(np.where(solid, place, -1), starts)
    return (place > first[word]) & (place <= last[word])
