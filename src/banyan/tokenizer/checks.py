"""Refuse tokenizer files that the kernels cannot handle."""

from __future__ import annotations

import json

import tokenizers
from tokenizers import models

from banyan.errors import BanyanError
from banyan.tokenizer.rules import LARGEST

HIGHEST_SCORE = 1e6  # of a unigram piece, in size: sums of these over any chunk are finite and exact enough


def check_ids(tokenizer: tokenizers.Tokenizer) -> None:
    """Refuse ids far beyond the number of pieces: lists and matrices have a place for every id."""
    vocabulary = tokenizer.get_vocab(with_added_tokens=True)
    last = max(vocabulary, key=vocabulary.__getitem__, default="")
    if last and vocabulary[last] >= max(LARGEST, 2 * len(vocabulary)):
        told = f"the piece {_shortened(last)} has the id {vocabulary[last]:,}, but there are {len(vocabulary):,} pieces"
        raise BanyanError(f"{told}: number them without large gaps")


def check_scores(tokenizer: tokenizers.Tokenizer) -> None:
    """Refuse unigram scores whose sums could overflow."""
    if isinstance(tokenizer.model, models.Unigram):
        for piece, score in json.loads(tokenizer.to_str())["model"]["vocab"]:
            if score is None or not abs(score) <= HIGHEST_SCORE:  # None: how `tokenizers` writes inf and nan
                raise bad_score(piece, score)


def bad_score(piece: str, score: float | None) -> BanyanError:
    told = f"the score of the piece {_shortened(piece)} is {'not a finite number' if score is None else score}"
    rule = f"scores must be finite, and those of a unigram model at most {HIGHEST_SCORE:,.0f} in size"
    return BanyanError(f"{told}: {rule}")


def _shortened(piece: str) -> str:
    return repr(piece if len(piece) <= 40 else piece[:40] + "…")


