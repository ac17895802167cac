"""Read SentencePiece .model files as tokenizers of the `tokenizers` library."""

from __future__ import annotations

import math
import unicodedata
from typing import Any

import tokenizers
from tokenizers import Regex, models, normalizers, pre_tokenizers

from banyan.errors import BanyanError
from banyan.support.needs import needs
from banyan.tokenizer.checks import check_piece
from banyan.tokenizer.rules import START, character_steps, decoder


def from_sentencepiece(content: bytes, lowercase: bool, zero_digits: bool) -> tokenizers.Tokenizer:
    """Convert a SentencePiece model to a tokenizer of the `tokenizers` library."""
    with needs("Reading a SentencePiece model", "sentencepiece"):
        from google.protobuf.message import DecodeError
        from sentencepiece import sentencepiece_model_pb2
    proto: Any = sentencepiece_model_pb2.ModelProto()  # type: ignore[attr-defined]
    try:
        known = proto.ParseFromString(content) and len(proto.pieces)
    except DecodeError:
        known = False
    if not known:
        raise BanyanError("this is not a SentencePiece model")
    kinds = type(proto).SentencePiece
    if any(piece.type in (kinds.USER_DEFINED, kinds.UNUSED) for piece in proto.pieces):
        raise BanyanError("SentencePiece models with user-defined or unused pieces are not supported")
    unigram = proto.trainer_spec.model_type == proto.trainer_spec.UNIGRAM
    for piece in proto.pieces:
        check_piece(piece.piece, piece.score if unigram or not math.isfinite(piece.score) else 0.0)
    if proto.trainer_spec.model_type == proto.trainer_spec.BPE:
        tokenizer = tokenizers.Tokenizer(_sentencepiece_bpe(proto, kinds))
    elif proto.trainer_spec.model_type == proto.trainer_spec.UNIGRAM:
        tokenizer = tokenizers.Tokenizer(_sentencepiece_unigram(proto, kinds))
    else:
        raise BanyanError("only the BPE and unigram models of SentencePiece are supported")
    before = character_steps(lowercase, zero_digits)[1:-1]
    tokenizer.normalizer = normalizers.Sequence([*before, *_sentencepiece_steps(proto.normalizer_spec)])
    if not any(START in piece.piece[1:] for piece in proto.pieces):  # then no piece spans several words
        tokenizer.pre_tokenizer = pre_tokenizers.Split(START, "merged_with_next")
    tokenizer.decoder = decoder()
    return tokenizer


def _sentencepiece_steps(spec: Any) -> list[normalizers.Normalizer]:
    steps = _charsmap_steps(spec.precompiled_charsmap) if spec.precompiled_charsmap else []
    if spec.remove_extra_whitespaces:
        steps.append(normalizers.Replace(Regex(rf"\A +|[ {START}]+\z"), ""))
        steps.append(normalizers.Replace(Regex(" {2,}"), " "))
    if spec.add_dummy_prefix:
        steps.append(normalizers.Prepend(START))
    return [*steps, normalizers.Replace(" ", START)]


def _charsmap_steps(charsmap: bytes) -> list[normalizers.Normalizer]:
    """Convert a SentencePiece character map to a few rules followed by NFKC, if it amounts to that.

    `Precompiled` would take the map as it is, but it drops marks that combine with a mapped character: ½ with U+0301
    becomes 1⁄2. NFKC may compose sequences that SentencePiece leaves alone: ﬁ with U+0301 becomes fí.
    """
    precompiled, nfkc = normalizers.Precompiled(charsmap), normalizers.NFKC()
    rules: dict[str, list[str]] = {}
    for character in map(chr, [*range(0xD800), *range(0xE000, 0x20000)]):
        becomes = precompiled.normalize_str(character)
        if becomes in (nfkc.normalize_str(character), unicodedata.normalize("NFKC", character)):
            continue
        if unicodedata.category(character) != "Cn":  # else it is merely newer than our Unicode tables
            rules.setdefault(becomes, []).append(character)
    if len(rules) > 16:
        return [precompiled]
    sets = {becomes: "".join(f"\\x{{{ord(character):X}}}" for character in rules[becomes]) for becomes in rules}
    return [*(normalizers.Replace(Regex(f"[{sets[becomes]}]"), becomes) for becomes in sets), nfkc]


def _sentencepiece_bpe(proto: Any, kinds: Any) -> models.BPE:
    """Merge any two pieces that form a third. The merge order is the score of the third, highest first."""
    vocabulary = {piece.piece: id for id, piece in enumerate(proto.pieces)}
    score = {piece.piece: piece.score for piece in proto.pieces if piece.type == kinds.NORMAL}
    merges = [
        (piece[:at], piece[at:])
        for piece in sorted(score, key=score.__getitem__, reverse=True)
        for at in range(1, len(piece))
        if piece[:at] in score and piece[at:] in score
    ]
    unknown = next((piece.piece for piece in proto.pieces if piece.type == kinds.UNKNOWN), None)
    bytes = proto.trainer_spec.byte_fallback
    return models.BPE(vocab=vocabulary, merges=merges, unk_token=unknown, fuse_unk=True, byte_fallback=bytes)


def _sentencepiece_unigram(proto: Any, kinds: Any) -> models.Unigram:
    """Append a space to the names of pieces such as <s>, so that they never match any text."""
    hidden = (kinds.UNKNOWN, kinds.CONTROL)
    vocabulary = [(piece.piece + " " * (piece.type in hidden), piece.score) for piece in proto.pieces]
    unknown = next((id for id, piece in enumerate(proto.pieces) if piece.type == kinds.UNKNOWN), None)
    return models.Unigram(vocabulary, unk_id=unknown, byte_fallback=proto.trainer_spec.byte_fallback)
