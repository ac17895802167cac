"""Words whose pieces merge before anything else (whole_words).

A word stands between white space, from its first piece with a letter or a digit to the last one: the brackets and the
full stop around it are not part of it, the hyphen and the apostrophe inside it are. Text without spaces is one word.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from banyan.model.graph import kept_occurrences
from banyan.model.word_ngrams import DIGITS, EMPTY, LETTERS, Spelling


class WordPieces(NamedTuple):
    """What each piece of a vocabulary can be in a word."""

    begins: np.ndarray  # bool [V]: white space comes before it
    solid: np.ndarray  # bool [V]: it has a letter or a digit
    blank: np.ndarray  # bool [V]: it is white space alone, and part of a word that follows

    @classmethod
    def of(cls, spelt: Spelling) -> WordPieces:
        return cls(spelt.begins, (spelt.kind == LETTERS) | (spelt.kind == DIGITS), spelt.kind == EMPTY)


class Leaves(NamedTuple):
    """The leaves of texts, ragged."""

    tokens: np.ndarray
    offsets: np.ndarray
    joined: np.ndarray | None  # as joined_tokens finds it; None if words do not matter


def leaves_of(tokens: np.ndarray, offsets: np.ndarray, sublinear_tf: bool, words: WordPieces | None) -> Leaves:
    """The leaves of tokenised texts. words: if the pieces of a word merge first."""
    found = joined_tokens(tokens, offsets, words) if words else None
    if not sublinear_tf:
        return Leaves(tokens, offsets, found)
    kept = kept_occurrences(tokens, offsets)
    before = np.append(0, np.cumsum(kept))
    return Leaves(tokens[kept], before[offsets], None if found is None else _of_kept(found, kept))


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


def _of_kept(joined: np.ndarray, kept: np.ndarray) -> np.ndarray:
    """The same for the tokens that are kept: joined if they and all between them were."""
    places, runs = np.flatnonzero(kept), np.append(0, np.cumsum(joined))
    found = joined[places]
    found[1:] = runs[places[1:] + 1] - runs[places[:-1] + 1] == np.diff(places)
    return found
