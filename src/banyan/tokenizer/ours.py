"""Recognise our own tokenizers in a tokenizer.json, without `tokenizers`, which reads large ones slowly.

A file is ours if the rest of it is exactly what `rules.assemble` writes. Then `tokenizers` reads it without an error,
and the kernels give the same pieces.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from banyan.tokenizer.rules import BYTES, CUT, LARGEST, START, WHITE, pair_of

_DECODER = {
    "type": "Sequence",
    "decoders": [
        {"type": "Replace", "pattern": {"String": START}, "content": " "},
        {"type": "ByteFallback"},
        {"type": "Fuse"},
        {"type": "Strip", "content": " ", "start": 1, "stop": 0},
    ],
}
_PRE_TOKENIZER = {
    "type": "Sequence",
    "pretokenizers": [
        {"type": "Metaspace", "replacement": START, "prepend_scheme": "always", "split": False},
        {"type": "Split", "pattern": {"Regex": CUT}, "behavior": "Isolated", "invert": False},
    ],
}
_FIXED: dict[str, Any] = {
    "version": "1.0",
    "truncation": None,
    "padding": None,
    "added_tokens": [],
    "pre_tokenizer": _PRE_TOKENIZER,
    "post_processor": None,
    "decoder": _DECODER,
}
_BPE = ("dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix")


class Ours(NamedTuple):
    """One of our own tokenizers."""

    settings: tuple[bool, bool]  # lowercase, zero_digits
    pieces: list[str]
    merges: Sequence[tuple[str, str]] = ()  # BPE
    scores: Sequence[float] = ()  # unigram


def ours(state: dict[str, Any]) -> Ours | None:
    """Return the tokenizer in a parsed tokenizer.json if it is one of ours."""
    model = state.get("model")
    settings = _settings(state.get("normalizer"))
    fixed = {name: value for name, value in state.items() if name not in ("model", "normalizer")}
    if settings is None or fixed != _FIXED:
        return None
    if not isinstance(model, dict) or model.get("byte_fallback") is not True:
        return None
    found = {"BPE": _bpe, "Unigram": _unigram}.get(str(model.get("type")), lambda *_: None)(settings, model)
    return found if found and _is_plain(found.pieces) else None


def _settings(normalizer: Any) -> tuple[bool, bool] | None:
    for lowercase in (False, True):
        for zero_digits in (False, True):
            if normalizer == _normalizer(lowercase, zero_digits):
                return lowercase, zero_digits
    return None


def _normalizer(lowercase: bool, zero_digits: bool) -> dict[str, Any]:
    steps: list[dict[str, Any]] = [{"type": "NFKC"}]
    if lowercase:
        steps.append({"type": "Lowercase"})
    if zero_digits:
        steps.append({"type": "Replace", "pattern": {"Regex": r"\p{Nd}"}, "content": "0"})
    steps += [
        {"type": "Replace", "pattern": {"String": START}, "content": "_"},
        {"type": "Replace", "pattern": {"Regex": WHITE + "+"}, "content": " "},
        {"type": "Strip", "strip_left": True, "strip_right": True},
    ]
    return {"type": "Sequence", "normalizers": steps}


def _unigram(settings: tuple[bool, bool], model: dict[str, Any]) -> Ours | None:
    vocabulary = model.get("vocab")
    if set(model) != {"type", "unk_id", "vocab", "byte_fallback"} or not isinstance(vocabulary, list):
        return None
    if {*map(type, vocabulary)} != {list} or {*map(len, vocabulary)} != {2}:
        return None
    pieces, scores = [piece for piece, _ in vocabulary], [score for _, score in vocabulary]
    unknown = model["unk_id"]
    if type(unknown) is not int or not 0 <= unknown < len(pieces) or not {*map(type, scores)} <= {int, float}:
        return None
    return Ours(settings, pieces, scores=scores)


def _bpe(settings: tuple[bool, bool], model: dict[str, Any]) -> Ours | None:
    names = {"type", *_BPE, "fuse_unk", "byte_fallback", "ignore_merges", "vocab", "merges"}
    vocabulary, merges = model.get("vocab"), model.get("merges")
    if set(model) != names or not isinstance(vocabulary, dict) or not isinstance(merges, list):
        return None
    if any(model[name] is not None for name in _BPE) or model["ignore_merges"] or type(model["fuse_unk"]) is not bool:
        return None
    pieces = [""] * len(vocabulary)
    for piece, id in vocabulary.items():
        if type(id) is not int or not 0 <= id < len(pieces):
            return None
        pieces[id] = piece
    if len(merges) >= LARGEST or not {*map(type, merges)} <= {list, str}:
        return None
    if not all(len(merge) == 2 if type(merge) is list else merge.count(" ") == 1 for merge in merges):
        return None
    pairs = [pair_of(merge) for merge in merges]
    known = {*pieces}
    if not all(type(a) is type(b) is str and a in known and b in known and a + b in known for a, b in pairs):
        return None
    return Ours(settings, pieces, merges=pairs)


def _is_plain(pieces: list[Any]) -> bool:
    """Whether all pieces are different strings, bytes among them."""
    if not len(pieces) < LARGEST or {*map(type, pieces)} != {str}:
        return False
    distinct = {*pieces}
    if len(distinct) != len(pieces) or not distinct.issuperset(BYTES):
        return False
    try:
        "".join(pieces).encode()
    except UnicodeEncodeError:  # lone surrogates
        return False
    return True
