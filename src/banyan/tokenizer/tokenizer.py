"""Raw text in, ragged pieces out: (tokens, offsets).

Our own tokenizers, BPE or unigram, are files of the `tokenizers` library and mean what that library makes of them:

  normalised  NFKC, lower case if asked for, every decimal digit 0 if asked for, a literal ▁ turned into _,
              white space (Unicode's) to single spaces, none at the ends; lone surrogates count as U+FFFD
  cut         at spaces, and between letters (with their marks), numbers and other characters; only repeats of one other
              character ("...") stay together. A word's first chunk begins with ▁: "(word)," is ▁( word ) ,
  pieces      merges or splits inside a chunk; a character outside the alphabet is spelt in bytes <0x00> .. <0xFF>, so
              that nothing is unknown and decoding gives back the normalised text

`encode` makes the same pieces in Numba (backends/_text.py), some thirty times faster. A tokenizer.json or SentencePiece
model from elsewhere is left to `tokenizers`, at the speed of that.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from itertools import chain, groupby
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import tokenizers

from banyan.errors import BanyanError
from banyan.support import threads as pool
from banyan.support.files import write_text
from banyan.tokenizer.checks import check_ids, check_scores
from banyan.tokenizer.making import train_on
from banyan.tokenizer.rules import (
    BLOCK,
    BLOCK_CHARACTERS,
    BYTES,
    START,
    make_fast,
    pair_of,
    settings_of,
    utf8,
)
from banyan.tokenizer.sentencepiece import from_sentencepiece

if TYPE_CHECKING:
    from banyan.tokenizer.lookup import Fast



class Tokenizer:
    """A tokenizer.json and what we do with it. Safe to use from several threads at once."""

    def __init__(self, tokenizer: tokenizers.Tokenizer) -> None:
        check_ids(tokenizer)
        check_scores(tokenizer)
        tokenizer.no_padding()
        tokenizer.no_truncation()
        self._tokenizers = tokenizer

    @classmethod
    def train(
        cls,
        texts: Iterable[str],
        *,
        kind: str = "bpe",
        vocab_size: int | None = None,
        vocab_factor: float = 1.0,
        lowercase: bool = True,
        zero_digits: bool = True,
        show_progress: bool = False,
    ) -> Tokenizer:
        """Train a tokenizer on texts. The same texts give the same file.

        kind: bpe or unigram.
        vocab_size: by default, a size that suits the corpus, times vocab_factor. A small corpus may yield fewer pieces.
        """
        made = train_on(texts, kind, vocab_size, vocab_factor, lowercase, zero_digits, show_progress)
        return cls(made)

    @classmethod
    def from_file(cls, path: str | Path, *, lowercase: bool = False, zero_digits: bool = False) -> Tokenizer:
        """A tokenizer.json, or a SentencePiece .model.

        Tokenizers like BPEmb's leave lower case and digits to the caller: for a .model (only) the two flags put these
        steps in front. Its pieces are those of SentencePiece but for ties and for sequences of combining marks that
        SentencePiece does not normalise.
        """
        path = Path(path)
        try:
            content = path.read_bytes()
        except OSError as error:
            raise BanyanError(f"cannot read the tokenizer {path}: {error.strerror or error}") from None
        try:
            if path.suffix == ".model":
                return cls(from_sentencepiece(content, lowercase, zero_digits))
            return cls.from_json(content.decode("utf-8", errors="replace"))
        except BanyanError as error:
            raise BanyanError(f"{path}: {error}") from None

    @classmethod
    def from_json(cls, text: str) -> Tokenizer:
        """The tokenizer whose `to_json` this is."""
        try:
            tokenizer = tokenizers.Tokenizer.from_str(text)
        except Exception as error:  # what `tokenizers` raises is a bare Exception
            raise BanyanError(f"this is not a tokenizer.json ({error})") from None
        return cls(tokenizer)

    def to_json(self) -> str:
        """What `save` writes: the same text for the same tokenizer, so that it can serve as its fingerprint."""
        return self._tokenizers.to_str()

    def __reduce__(self) -> tuple[Callable[[str], Tokenizer], tuple[str]]:
        return Tokenizer.from_json, (self.to_json(),)

    def save(self, path: str | Path) -> None:
        """Write a tokenizer.json."""
        write_text(path, self.to_json())

    @cached_property
    def pieces(self) -> list[str]:
        """id -> piece"""
        vocabulary = self._tokenizers.get_vocab(with_added_tokens=True)
        pieces = [""] * (max(vocabulary.values(), default=-1) + 1)
        for piece, id in vocabulary.items():
            pieces[id] = piece
        return pieces

    @property
    def vocab_size(self) -> int:
        """The number of pieces; a token is below it."""
        return len(self.pieces)

    def encode(self, texts: Sequence[str], threads: int | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Ragged pieces: those of text i are tokens[offsets[i] : offsets[i + 1]], int32 and int64.

        `threads` is for our own tokenizers; `tokenizers` sees to its threads itself. Beyond what it is given and
        returns, this holds a few blocks of texts at a time.
        """
        if isinstance(texts, str):
            raise TypeError("texts must be a sequence of strings, not one string")
        threads = (threads or pool.available()) if self._fast else 1
        blocks = _blocks(texts)
        tokens = np.empty(0, np.int32)
        offsets = np.zeros(len(texts) + 1, np.int64)
        for wave in range(0, len(blocks), 8 * threads):
            jobs = [(texts[start:stop], start) for start, stop in blocks[wave : wave + 8 * threads]]
            for (_, start), (ids, counts) in zip(jobs, pool.run(self._encode, jobs, threads), strict=True):
                done = len(tokens)
                tokens.resize(done + len(ids), refcheck=False)  # in place: no second copy of the result
                tokens[done:] = ids
                offsets[start + 1 : start + 1 + len(counts)] = counts
        np.cumsum(offsets, out=offsets)
        return tokens, offsets

    def _encode(self, texts: Sequence[str], first: int) -> tuple[np.ndarray, np.ndarray]:
        """Tokens of a block and how many for each text; texts[0] is the caller's number `first`."""
        encoded = utf8(texts, first)
        if self._fast is None:
            return self._by_the_library(encoded)
        ids, counts = self._fast.encode(encoded)
        odd = np.flatnonzero(counts < 0)
        if not len(odd):
            return ids, counts
        from banyan.tokenizer.lookup import splice

        return splice(ids, counts, odd, *self._by_the_library([encoded[text] for text in odd])), counts

    def _by_the_library(self, encoded: list[bytes]) -> tuple[np.ndarray, np.ndarray]:
        texts = [text.decode() for text in encoded]
        pieces = [encoding.ids for encoding in self._tokenizers.encode_batch_fast(texts, add_special_tokens=False)]
        counts = np.array([len(ids) for ids in pieces], np.int64)
        return np.fromiter(chain.from_iterable(pieces), np.int32, counts.sum()), counts

    def encode_with_offsets(self, text: str) -> tuple[np.ndarray, list[tuple[int, int]]]:
        """Pieces of one text, the same as `encode` gives, and the characters of `text` that each stands for.

        White space before a word belongs to no piece, so a lone ▁ has an empty span; the bytes of a character share
        its span, as do several pieces of one character such as ½.
        """
        clean = utf8([text], 0)[0].decode()
        encoding = self._tokenizers.encode(clean, add_special_tokens=False)
        offsets = _apart(encoding.tokens, encoding.offsets)
        return np.array(encoding.ids, np.int32), _spans(clean, encoding.tokens, offsets)

    @cached_property
    def _fast(self) -> Fast | None:
        """The kernels' tables, if this is a tokenizer of our own. (Two threads may build them at once: no harm.)"""
        state = json.loads(self.to_json())
        settings = settings_of(state)
        if settings is None:
            return None
        model = state["model"]
        if model["type"] == "Unigram":
            pieces, scores = zip(*model["vocab"], strict=True)
            return make_fast(settings, pieces, scores=scores)
        return make_fast(settings, self.pieces, merges=[pair_of(merge) for merge in model["merges"]])


# Texts in.


def _blocks(texts: Sequence[str]) -> list[tuple[int, int]]:
    """Stretches of at most BLOCK texts, and BLOCK_CHARACTERS characters unless one text alone has more."""
    try:
        ends = np.cumsum(np.fromiter(map(len, texts), np.int64, len(texts)))
    except TypeError:
        utf8(texts, 0)
        raise
    blocks = []
    start = 0
    while start < len(texts):
        full = int(np.searchsorted(ends, (ends[start - 1] if start else 0) + BLOCK_CHARACTERS, "right"))
        stop = min(start + BLOCK, max(full, start + 1), len(texts))
        blocks.append((start, stop))
        start = stop
    return blocks


def _apart(pieces: list[str], offsets: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """A unigram model takes neighbouring unknown characters for one: give each its span, where that can be told."""
    apart: list[tuple[int, int]] = []
    for (start, end), run in groupby(zip(pieces, offsets, strict=True), key=lambda pair: pair[1]):
        names = [piece for piece, _ in run]
        if end - start > 1 and {*names} <= {*BYTES}:
            characters = bytes(int(name[3:5], 16) for name in names).decode(errors="replace")
            if len(characters) == end - start:
                for at, character in enumerate(characters, start):
                    apart += [(at, at + 1)] * len(character.encode())
                continue
        apart += [(start, end)] * len(names)
    return apart


def _spans(text: str, pieces: list[str], offsets: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Make the spans that `tokenizers` gives tight around words, and whole around composed characters."""
    spans = []
    following, shared, whole = len(text), None, (len(text), len(text))
    for piece, (start, end) in zip(reversed(pieces), reversed(offsets), strict=True):
        if piece == START:
            spans.append((following, following))
            continue
        if (start, end) != shared:
            shared = start, end
            start = end - len(text[start:end].lstrip() or text[start:end])
            whole = start, end + len(text[end:following].rstrip())
            following = start
        spans.append(whole)
    return spans[::-1]


