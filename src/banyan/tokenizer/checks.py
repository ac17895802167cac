"""Reject tokenizer files that would crash, hang or exhaust the memory of this process, or give random tokens.

A tokenizer.json is checked before `tokenizers` reads it: what it allocates depends on the ids and pieces in the file.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import tokenizers

from banyan.errors import BanyanError, first_line
from banyan.tokenizer.rules import LARGEST

HIGHEST_SCORE = 1e6  # in absolute value, of a unigram piece: sums over any chunk stay finite and accurate
LONGEST_PIECE = 4096  # characters
MOST_GROWTH = 4096  # characters that normalising may make of one


@contextmanager
def one_sentence(what: str) -> Iterator[None]:
    """Turn an error of `tokenizers` into a BanyanError. It raises bare Exceptions and, if Rust panics, a
    PanicException, which is not even an Exception."""
    try:
        yield
    except BanyanError:
        raise
    except Exception as error:
        raise BanyanError(f"{what} ({first_line(error)})") from None
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        raise BanyanError(f"{what} ({first_line(error)})") from None


def check_json(text: str) -> dict[str, Any]:
    """Return the content of a tokenizer.json, or raise an error."""
    try:
        state = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BanyanError(f"this is not a tokenizer.json ({first_line(error)})") from None
    if not isinstance(state, dict) or not isinstance(state.get("model"), dict):
        raise BanyanError("this is not a tokenizer.json (it has no model)")
    model = state["model"]
    if model.get("dropout"):
        raise BanyanError("the tokenizer has BPE dropout, so a text has other tokens each time: set dropout to null")
    vocabulary = model.get("vocab")
    if isinstance(vocabulary, dict):
        _check_ids(vocabulary)
    elif isinstance(vocabulary, list):
        _check_scores(vocabulary)
    added = state.get("added_tokens")
    for token in added if isinstance(added, list) else []:
        if isinstance(token, dict):
            _check_ids({token.get("content"): token.get("id")}, len(vocabulary or ()))
    for steps in ("normalizer", "pre_tokenizer", "decoder"):
        if _growth(state.get(steps)) > MOST_GROWTH:
            raise BanyanError(f"the {steps} makes more than {MOST_GROWTH:,} characters of one")
    return state


def _check_scores(entries: list[Any]) -> None:
    if {*map(type, entries)} != {list} or {*map(len, entries)} != {2}:
        entries = [entry for entry in entries if isinstance(entry, list) and len(entry) == 2]
    pieces, scores = [piece for piece, _ in entries], [score for _, score in entries]
    usual = {*map(type, pieces)} <= {str} and {*map(type, scores)} <= {int, float}  # then a large vocabulary is quick
    usual = usual and max(map(len, pieces), default=0) <= LONGEST_PIECE
    usual = usual and min(scores, default=0) >= -HIGHEST_SCORE and max(scores, default=0) <= HIGHEST_SCORE
    usual = usual and sum(scores) == sum(scores)  # not NaN
    for entry in [] if usual else entries:
        check_piece(*entry)


def check_piece(piece: Any, score: Any = 0.0) -> None:
    """Reject a piece that is too long, or a unigram score whose sums could overflow."""
    if isinstance(piece, str) and len(piece) > LONGEST_PIECE:
        found = f"the piece {_shortened(piece)} has {len(piece):,} characters"
        raise BanyanError(f"{found}, and {LONGEST_PIECE:,} is the most")
    if not isinstance(score, int | float) or not abs(score) <= HIGHEST_SCORE:
        raise bad_score(piece, score)


def bad_score(piece: Any, score: Any) -> BanyanError:
    found = f"the score of the piece {_shortened(piece)} is {'not a finite number' if score is None else score}"
    rule = f"scores must be finite and, in a unigram model, at most {HIGHEST_SCORE:,.0f} in absolute value"
    return BanyanError(f"{found}: {rule}")


def check_ids(tokenizer: tokenizers.Tokenizer) -> None:
    """Reject ids far beyond the number of pieces: lists and matrices have an entry for every id."""
    _check_ids(tokenizer.get_vocab(with_added_tokens=True))


def _check_ids(vocabulary: dict[Any, Any], others: int = 0) -> None:
    """others: the number of pieces beside these."""
    pieces = len(vocabulary) + others
    for piece, id in vocabulary.items():
        check_piece(piece)
        if isinstance(id, int) and id >= max(LARGEST, 2 * pieces):
            found = f"the piece {_shortened(piece)} has the id {id:,}, but there are {pieces:,} pieces"
            raise BanyanError(f"{found}: ids must not have large gaps")


def _growth(steps: Any) -> int:
    """Return how many characters one may become: each step that inserts text multiplies them."""
    if isinstance(steps, list):
        product = 1
        for step in steps:
            product = min(product * _growth(step), MOST_GROWTH + 1)
        return product
    if not isinstance(steps, dict):
        return 1
    inside = [_growth(value) for value in steps.values() if isinstance(value, dict | list)]
    inserted = [len(steps[name]) for name in ("content", "prepend") if isinstance(steps.get(name), str)]
    return max([1, *inside, *inserted])


def _shortened(piece: Any) -> str:
    return repr(piece if len(str(piece)) <= 40 else str(piece)[:40] + "…")
