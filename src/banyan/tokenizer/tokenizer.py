"""Tokenizer: text in, ragged pieces (tokens, offsets) out.

Our own tokenizers, BPE or unigram, are files of the `tokenizers` library, which defines their result:

  normalise  NFKC; lower case and all decimal digits to 0 if asked for; a literal ▁ becomes _; Unicode white space
             becomes single spaces, none at the ends; lone surrogates become U+FFFD
  cut        at spaces, and between letters (with their marks), numbers and other characters. Only repetitions of one
             other character ("...") stay together. The first chunk of a word begins with ▁: "(word)," is ▁( word ) ,
  encode     merge or split inside a chunk. A character outside the alphabet is spelt in bytes <0x00> .. <0xFF>, so
             nothing is unknown, and decoding returns the normalised text

`encode` computes the same pieces with kernels of its own, about thirty times faster. A tokenizer.json or SentencePiece
model from elsewhere is left to `tokenizers`, at its speed.
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
from banyan.support.files import LARGEST_JSON, write_text
from banyan.tokenizer.checks import check_ids, check_json, one_sentence
from banyan.tokenizer.ours import Ours, ours
from banyan.tokenizer.rules import BLOCK, BLOCK_CHARACTERS, BYTES, START, make_fast, utf8, without_surrogates

if TYPE_CHECKING:
    from banyan.tokenizer.lookup import Fast, Native


class Tokenizer:
    """A tokenizer.json and its use. Safe to use from several threads at once."""

    def __init__(self, tokenizer: tokenizers.Tokenizer | str, found: Ours | None = None) -> None:
        """found: one of our own tokenizers. Then `tokenizer` is its text, which `tokenizers` reads when needed."""
        if isinstance(tokenizer, str):
            self._text, self._found = tokenizer, found
        else:
            self._tokenizers = _checked(tokenizer)
            self._found = ours(json.loads(self.to_json()))

    @cached_property
    def _tokenizers(self) -> tokenizers.Tokenizer:
        return _read(self._text)  # `ours` and check_json have checked it

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
    ) -> Tokenizer:
        """Train a tokenizer on texts. The same texts give the same file.

        kind: bpe or unigram.
        vocab_size: by default, a size that suits the corpus, times vocab_factor. A small corpus may yield fewer pieces.
        """
        from banyan.tokenizer.making import train_on

        return cls(train_on(texts, kind, vocab_size, vocab_factor, lowercase, zero_digits))

    @classmethod
    def from_file(cls, path: str | Path, *, lowercase: bool = False, zero_digits: bool = False) -> Tokenizer:
        """Load a tokenizer.json or a SentencePiece .model.

        Some SentencePiece tokenizers, such as BPEmb's, leave lower-casing and digits to the caller. For a .model
        (only), the two flags add these steps. The pieces are those of SentencePiece except for ties and for sequences
        of combining marks that SentencePiece does not normalise.
        """
        path = Path(path)
        try:
            if path.stat().st_size > LARGEST_JSON:
                raise BanyanError(f"the tokenizer {path} has more than {LARGEST_JSON:,} bytes")
            content = path.read_bytes()
        except OSError as error:
            raise BanyanError(f"cannot read the tokenizer {path}: {error.strerror or error}") from None
        try:
            if path.suffix == ".model":
                from banyan.tokenizer.sentencepiece import from_sentencepiece

                return cls(from_sentencepiece(content, lowercase, zero_digits))
            return cls.from_json(content.decode("utf-8", errors="replace"))
        except BanyanError as error:
            raise BanyanError(f"{path}: {error}") from None

    @classmethod
    def from_json(cls, text: str) -> Tokenizer:
        """Load what `to_json` returned."""
        found = ours(check_json(text))
        return cls(text, found) if found else cls(_read(text))

    def to_json(self) -> str:
        """Return what `save` writes. The same tokenizer gives the same text, so it can serve as a fingerprint."""
        return self._tokenizers.to_str()

    def __reduce__(self) -> tuple[Callable[[str], Tokenizer], tuple[str]]:
        return Tokenizer.from_json, (self.to_json(),)

    def save(self, path: str | Path) -> None:
        """Write a tokenizer.json."""
        write_text(path, self.to_json())

    @cached_property
    def pieces(self) -> list[str]:
        """id -> piece"""
        if self._found:
            return self._found.pieces
        vocabulary = self._tokenizers.get_vocab(with_added_tokens=True)
        pieces = [""] * (max(vocabulary.values(), default=-1) + 1)
        for piece, id in vocabulary.items():
            pieces[id] = piece
        return pieces

    @property
    def vocab_size(self) -> int:
        """The number of pieces. Tokens are smaller."""
        return len(self.pieces)

    def encode(self, texts: Sequence[str], threads: int | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Return int32 tokens and int64 offsets: the pieces of text i are tokens[offsets[i] : offsets[i + 1]].

        `threads` applies to our own tokenizers; `tokenizers` manages its own threads. Besides the texts and the result,
        only a few blocks of texts are held in memory.
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
        """Return the tokens of a block and their number per text. first: the number of texts[0], for errors."""
        if self._fast is None:
            return self._by_the_library([text.decode() for text in utf8(texts, first)])
        ids, counts = self._fast.encode(texts, first)
        odd = np.flatnonzero(counts < 0)
        if not len(odd):
            return ids, counts
        from banyan.tokenizer.lookup import splice

        by_the_library = self._by_the_library([without_surrogates(texts[i]) for i in odd.tolist()])
        return splice(ids, counts, odd, *by_the_library), counts

    def _by_the_library(self, texts: list[str]) -> tuple[np.ndarray, np.ndarray]:
        with one_sentence("the tokenizer cannot split a text"):
            pieces = [encoding.ids for encoding in self._tokenizers.encode_batch_fast(texts, add_special_tokens=False)]
        counts = np.array([len(ids) for ids in pieces], np.int64)
        return np.fromiter(chain.from_iterable(pieces), np.int32, counts.sum()), counts

    def encode_with_offsets(self, text: str) -> tuple[np.ndarray, list[tuple[int, int]]]:
        """Return the pieces of one text, the same as from `encode`, and the span of `text` that each covers.

        White space before a word belongs to no piece, so a lone ▁ has an empty span. The bytes of a character share its
        span, as do several pieces of one character such as ½.
        """
        clean = utf8([text], 0)[0].decode()
        with one_sentence("the tokenizer cannot split a text"):
            encoding = self._tokenizers.encode(clean, add_special_tokens=False)
        offsets = _apart(encoding.tokens, encoding.offsets)
        return np.array(encoding.ids, np.int32), _spans(clean, encoding.tokens, offsets)

    @property
    def splits_natively(self) -> Native | None:
        """The native kernels that split texts, if this is one of our own tokenizers."""
        from banyan.tokenizer.lookup import Native

        return self._fast if isinstance(self._fast, Native) else None

    @cached_property
    def _fast(self) -> Fast | None:
        """The tables of the kernels, if this is one of our own tokenizers. Building them in two threads is harmless."""
        found = self._found
        return found and make_fast(found.settings, found.pieces, merges=found.merges, scores=found.scores)


def _read(text: str) -> tokenizers.Tokenizer:
    with one_sentence("this is not a tokenizer.json"):
        return tokenizers.Tokenizer.from_str(text)


def _checked(tokenizer: tokenizers.Tokenizer) -> tokenizers.Tokenizer:
    check_ids(tokenizer)
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer


# Texts in.


def _blocks(texts: Sequence[str]) -> list[tuple[int, int]]:
    """Return ranges of at most BLOCK texts and BLOCK_CHARACTERS characters, unless one text alone has more."""
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
    """Give neighbouring unknown characters, which a unigram model treats as one, separate spans where possible."""
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
    """Make the spans from `tokenizers` tight around words, and complete around composed characters."""
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


