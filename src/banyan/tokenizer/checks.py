"""Reject tokenizer files that the kernels cannot handle."""

from __future__ import annotations

import json

import tokenizers
from tokenizers import models

from banyan.errors import BanyanError
from banyan.tokenizer.rules import LARGEST

HIGHEST_SCORE = 1e6  # in absolute value, of a unigram piece: sums over any chunk stay finite and accurate


def check_ids(tokenizer: tokenizers.Tokenizer) -> None:
    """Reject ids far beyond the number of pieces: lists and matrices have an entry for every id."""
    vocabulary = tokenizer.get_vocab(with_added_tokens=True)
    last = max(vocabulary, key=vocabulary.__getitem__, default="")
    if last and vocabulary[last] >= max(LARGEST, 2 * len(vocabulary)):
        piece = f"the piece {_shortened(last)} has the id {vocabulary[last]:,}"
        raise BanyanError(f"{piece}, but there are {len(vocabulary):,} pieces: ids must not have large gaps")


def check_scores(tokenizer: tokenizers.Tokenizer) -> None:
    """Reject unigram scores whose sums could overflow."""
    if isinstance(tokenizer.model, models.Unigram):
        for piece, score in json.loads(tokenizer.to_str())["model"]["vocab"]:
            if score is None or not abs(score) <= HIGHEST_SCORE:  # `tokenizers` writes inf and nan as null
                raise bad_score(piece, score)


def bad_score(piece: str, score: float | None) -> BanyanError:
    found = f"the score of the piece {_shortened(piece)} is {'not a finite number' if score is None else score}"
    rule = f"scores must be finite and, in a unigram model, at most {HIGHEST_SCORE:,.0f} in absolute value"
    return BanyanError(f"{found}: {rule}")


def _shortened(piece: str) -> str:
    return repr(piece if len(piece) <= 40 else piece[:40] + "…")


