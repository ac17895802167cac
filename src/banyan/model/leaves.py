"""Which tokens of a text are the leaves of its tree when it is encoded (sublinear_tf, end_marks), and which of them are
in one word (whole_words).

Training takes all tokens, and knows no words.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from banyan.corpus.sentences import END_MARKS
from banyan.model.graph import kept_occurrences
from banyan.model.whole_words import WordPieces, joined_tokens
from banyan.model.word_ngrams import Spelling, spelling
from banyan.tokenizer.rules import START

if TYPE_CHECKING:
    from banyan.config import Config


Span = tuple[int, int]  # of characters


class Leaves(NamedTuple):
    """The leaves of texts, ragged."""

    tokens: np.ndarray
    offsets: np.ndarray
    joined: np.ndarray | None  # as joined_tokens finds it; None if words do not matter


@dataclass(frozen=True)
class LeafChoice:
    """Chooses the leaves of texts. A text of nothing but end marks keeps them."""

    sublinear_tf: bool = False
    marks: np.ndarray | None = None  # bool [V]: pieces that are end marks, if these are left out
    words: WordPieces | None = None  # if the pieces of a word merge first
    pieces: Sequence[str] = ()  # the vocabulary

    @classmethod
    def of(cls, config: Config, pieces: Sequence[str], spelt: Spelling | None = None) -> LeafChoice:
        """spelt: of the pieces, if it is known."""
        words = WordPieces.of(spelt or spelling(pieces)) if config.whole_words else None
        return cls(config.sublinear_tf, None if config.end_marks else marks_among(pieces), words, pieces)

    def with_words(self, whole: bool | None) -> LeafChoice:
        """The same leaves; whether their words merge first is chosen here, unless `whole` is None."""
        return self if whole in (None, self.words is not None) else self._other

    @cached_property
    def _other(self) -> LeafChoice:
        return replace(self, words=None if self.words else WordPieces.of(spelling(self.pieces)))

    @property
    def takes_all(self) -> bool:
        return not self.sublinear_tf and self.marks is None

    def kept(self, tokens: np.ndarray, offsets: np.ndarray) -> np.ndarray:
        """Which tokens are leaves [T]."""
        kept = kept_occurrences(tokens, offsets) if self.sublinear_tf else np.ones(len(tokens), np.bool_)
        if self.marks is None:
            return kept
        words = ~self.marks[tokens]
        before = np.append(0, np.cumsum(words))
        some = np.diff(before[offsets]) > 0
        return kept & (words | ~np.repeat(some, np.diff(offsets)))

    def leaves(self, tokens: np.ndarray, offsets: np.ndarray) -> Leaves:
        joined = joined_tokens(tokens, offsets, self.words) if self.words else None
        if self.takes_all:
            return Leaves(tokens, offsets, joined)
        kept = self.kept(tokens, offsets)
        before = np.append(0, np.cumsum(kept))
        return Leaves(tokens[kept], before[offsets], None if joined is None else _of_kept(joined, kept))


    def spans(self, tokens: np.ndarray, spans: Sequence[Span], kept: np.ndarray) -> list[Span]:
        """The spans of the leaves of a text, given those of its tokens. kept: which tokens are leaves.

        If words are whole, a piece that is left out of a word counts to the leaf beside it: the word is shown whole."""
        if self.words is None:
            return [spans[i] for i in kept]
        joined = joined_tokens(tokens, np.array([0, len(tokens)]), self.words)
        found: list[Span] = []
        leaves, word_has_leaf = set(kept.tolist()), False
        left_out = None  # where a word begins that has no leaf yet
        for place, (start, end) in enumerate(spans):
            if not joined[place]:
                word_has_leaf, left_out = False, None
            if place in leaves:
                found.append((start if left_out is None else left_out, end))
                word_has_leaf, left_out = True, None
            elif word_has_leaf:
                found[-1] = found[-1][0], end
            elif left_out is None:
                left_out = start
        return found


def marks_among(pieces: Sequence[str]) -> np.ndarray:
    """Which pieces consist of marks that end a sentence, such as the full stop, bool [V]."""
    ends = frozenset(END_MARKS)
    return np.array([bool(word := piece.removeprefix(START)) and ends.issuperset(word) for piece in pieces], np.bool_)


def _of_kept(joined: np.ndarray, kept: np.ndarray) -> np.ndarray:
    """The same for the tokens that are kept: joined if they and all between them were."""
    places, runs = np.flatnonzero(kept), np.append(0, np.cumsum(joined))
    found = joined[places]
    found[1:] = runs[places[1:] + 1] - runs[places[:-1] + 1] == np.diff(places)
    return found
