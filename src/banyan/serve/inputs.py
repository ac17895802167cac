"""Checks the texts and tokens of a request and encodes them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from banyan.encoder import Banyan
from banyan.serve.limits import Limits
from banyan.serve.refusal import EMPTY, INVALID, TOO_LONG, Refused, whole
from banyan.support.rows import normalize_rows

NUMBER_BYTES = 13  # of a float32 in JSON, at most, with its comma


class Ragged(NamedTuple):
    """A batch of token lists, one after another."""

    tokens: np.ndarray
    offsets: np.ndarray

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def followed_by(self, other: Ragged) -> Ragged:
        offsets = np.concatenate([self.offsets, other.offsets[1:] + self.offsets[-1]])
        return Ragged(np.concatenate([self.tokens, other.tokens]), offsets)

    def cut(self, longest: int, keep_end: bool) -> Ragged:
        """Keep at most `longest` tokens of each text: the first, or with `keep_end` the last."""
        lengths = np.minimum(np.diff(self.offsets), longest)
        starts = self.offsets[1:] - lengths if keep_end else self.offsets[:-1]
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        within = np.arange(offsets[-1]) - np.repeat(offsets[:-1], lengths)
        return Ragged(self.tokens[np.repeat(starts, lengths) + within], offsets)


def texts(value: Any, name: str, limits: Limits) -> list[str]:
    """A string or a list of strings."""
    found = [value] if isinstance(value, str) else value
    if value is None:
        raise Refused(INVALID, f"{name} is missing: send a string or a list of strings", name)
    if not isinstance(found, list) or (found and set(map(type, found)) != {str}):
        raise Refused(INVALID, f"{name} must be a string or a list of strings", name)
    _check_batch(found, name, limits)
    return found


def ragged(value: Any, name: str, model: Banyan, limits: Limits, truncate: str | None = None) -> Ragged:
    """The tokens of a string, of a list of strings, or of lists of tokens. truncate: as in `within`."""
    if is_tokens(value):
        return tokens(value, name, model, limits)
    found, most = texts(value, name, limits), limits.input_characters
    if max(map(len, found)) > most:
        if truncate is None:
            which = max(range(len(found)), key=lambda i: len(found[i]))
            message = f"{name}[{which}] has {len(found[which]):,} characters; the limit is {most:,}"
            raise Refused(TOO_LONG, message, name)
        found = [text[-most:] if truncate == "Left" else text[:most] for text in found]
    return Ragged(*model.tokenizer.encode(found))


def within(batch: Ragged, name: str, limits: Limits, truncate: str | None = None) -> Ragged:
    """The batch, if it respects the limits. truncate: the side, Right or Left, on which long texts are cut."""
    if len(batch.tokens) <= min(limits.input_tokens, limits.batch_tokens):
        return batch
    lengths = np.diff(batch.offsets)
    if lengths.max() > limits.input_tokens:
        if truncate is None:
            which, longest = int(np.argmax(lengths)), int(lengths.max())
            message = f"{name}[{which}] has {longest:,} tokens; the limit is {limits.input_tokens:,}"
            raise Refused(TOO_LONG, message, name)
        batch = batch.cut(limits.input_tokens, keep_end=truncate == "Left")
    if len(batch.tokens) > limits.batch_tokens:
        message = f"{name} has {len(batch.tokens):,} tokens in total; the limit per request is {limits.batch_tokens:,}"
        raise Refused(TOO_LONG, message, name)
    return batch


def is_tokens(value: Any) -> bool:
    return isinstance(value, list) and not {int, float, list}.isdisjoint(map(type, value[:1]))


def tokens(value: Any, name: str, model: Banyan, limits: Limits) -> Ragged:
    """The tokens of a list of tokens, or of a list of such lists."""
    lists = value if isinstance(value, list) and value and type(value[0]) is list else [value]
    if set(map(type, lists)) != {list}:
        raise Refused(INVALID, f"{name} must be a list of tokens, or a list of such lists", name)
    _check_batch(lists, name, limits)
    offsets = np.cumsum([0, *map(len, lists)])
    flat = [whole(token) for tokens in lists for token in tokens]
    if set(map(type, flat)) != {int}:
        raise Refused(INVALID, f"the tokens in {name} must be integers", name)
    if min(flat) < 0 or max(flat) >= len(model.embedding):
        known = f"its tokenizer (POST /tokenize) has tokens 0 to {len(model.embedding) - 1}"
        raise Refused(INVALID, f"{name} has a token that the model does not know; {known}", name)
    return Ragged(np.array(flat, np.int32), offsets)


def _check_batch(items: list, name: str, limits: Limits) -> None:
    if not items:
        raise Refused(EMPTY, f"{name} is empty: send at least one text", name)
    check_count(len(items), name, limits)
    if not all(items):
        which = "" if len(items) == 1 else f"[{next(i for i, item in enumerate(items) if not item)}]"
        raise Refused(EMPTY, f"{name}{which} is empty: a text needs at least one character", name)


def check_count(texts: int, name: str, limits: Limits) -> None:
    if texts > limits.batch:
        raise Refused(TOO_LONG, f"{name} has {texts:,} texts; the limit per request is {limits.batch:,}", name)


def check_answer(size: int, limits: Limits) -> None:
    """Refuse a request whose answer would have about this many bytes, if that is too many."""
    if size > limits.answer:
        message = f"the answer would have about {size:,} bytes; the limit is {limits.answer:,}: send fewer texts"
        raise Refused(TOO_LONG, message)


def dimensions(value: int | None, model: Banyan) -> int | None:
    if value is not None and not 1 <= value <= model.dim:
        raise Refused(INVALID, f"dimensions must be between 1 and {model.dim}, not {value}", "dimensions")
    return value


def vectors(model: Banyan, batch: Ragged, keep: int | None, normalize: bool) -> np.ndarray:
    """Embeddings, float32, equal bit by bit to model.encode(..., truncate_dim=keep, normalize=normalize)."""
    if keep is None or keep == model.dim:
        found = model.encode_tokens(batch.tokens, batch.offsets, normalize)
    else:
        found = np.ascontiguousarray(model.encode_tokens(batch.tokens, batch.offsets)[:, :keep])
        if normalize:
            normalize_rows(found)
    return found
