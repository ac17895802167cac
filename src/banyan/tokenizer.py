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
import math
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import chain, groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import tokenizers
from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers, trainers

from banyan import threads as pool
from banyan.errors import BanyanError
from banyan.files import write_text
from banyan.support.needs import needs

if TYPE_CHECKING:
    from banyan.backends._fast import Fast

START = "▁"
BYTES = [f"<0x{byte:02X}>" for byte in range(256)]
WHITE = r"\s"
MARKS = r"\p{M}\x{200C}\x{200D}"  # the joiners of Indic and Persian words, and of emoji, go with what they join
CUT = rf"{START}?(?:[\p{{L}}{MARKS}]+|\p{{N}}[\p{{N}}{MARKS}]*|([^{START}\p{{L}}\p{{N}}{MARKS}])\1*[{MARKS}]*)"

BLOCK = 2048  # texts in one job
BLOCK_CHARACTERS = 1 << 20  # or fewer texts, if they are long
COVERAGE = 0.9995  # of the text, by the characters of the alphabet
FEW = 256  # characters are all in the alphabet
MOST_WORDS = 1_000_000  # distinct chunks held while counting; beyond, those rare so far are forgotten
TRAINED_ON = 20_000_000  # chunks; the counts of a larger corpus are scaled down to it
SMALLEST = 300  # vocabulary
LARGEST = 1 << 21  # ids of a vocabulary that has holes, and pieces or merges of one that the kernels take
HIGHEST_SCORE = 1e6  # of a unigram piece, in size: sums of these over any chunk are finite and exact enough


class Tokenizer:
    """A tokenizer.json and what we do with it. Safe to use from several threads at once."""

    def __init__(self, tokenizer: tokenizers.Tokenizer) -> None:
        _check_ids(tokenizer)
        _check_scores(tokenizer)
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
        """A tokenizer made of texts; the same texts give the same file. None: a size that suits the corpus, times the
        factor.

        A small corpus may not have as many pieces as asked for.
        """
        if kind not in ("bpe", "unigram"):
            raise BanyanError(f"kind must be bpe or unigram, not {kind!r}")
        if vocab_size is not None and vocab_size < SMALLEST:
            raise BanyanError(f"vocab_size must be at least {SMALLEST} (256 of them stand for bytes), not {vocab_size}")
        counts = _count(texts, (lowercase, zero_digits))
        words = sum(count for chunk, count in counts.items() if chunk[0] == START)
        if not words:
            raise BanyanError("there is no text to make a vocabulary of")
        size = vocab_size or max(SMALLEST, round(vocab_factor * suitable_vocab_size(words)))
        alphabet = _alphabet(counts, size)
        counts = _known(counts, alphabet)
        make = _train_bpe if kind == "bpe" else _train_unigram
        return cls(_assemble(make(counts, alphabet, size, show_progress), lowercase, zero_digits))

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
                return cls(_from_sentencepiece(content, lowercase, zero_digits))
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
        encoded = _utf8(texts, first)
        if self._fast is None:
            return self._by_the_library(encoded)
        ids, counts = self._fast.encode(encoded)
        odd = np.flatnonzero(counts < 0)
        if not len(odd):
            return ids, counts
        from banyan.backends._fast import splice

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
        clean = _utf8([text], 0)[0].decode()
        encoding = self._tokenizers.encode(clean, add_special_tokens=False)
        offsets = _apart(encoding.tokens, encoding.offsets)
        return np.array(encoding.ids, np.int32), _spans(clean, encoding.tokens, offsets)

    @cached_property
    def _fast(self) -> Fast | None:
        """The kernels' tables, if this is a tokenizer of our own. (Two threads may build them at once: no harm.)"""
        state = json.loads(self.to_json())
        settings = _settings(state)
        if settings is None:
            return None
        model = state["model"]
        if model["type"] == "Unigram":
            pieces, scores = zip(*model["vocab"], strict=True)
            return _make_fast(settings, pieces, scores=scores)
        return _make_fast(settings, self.pieces, merges=[_pair(merge) for merge in model["merges"]])


def suitable_vocab_size(words: int) -> int:
    """25,000 pieces for ten million words or more, fewer for less: the square root of the share, in hundreds."""
    share = min(words / 10_000_000, 1.0)
    return max(1000, round(25_000 * share**0.5 / 100) * 100)


# Texts in.


def _blocks(texts: Sequence[str]) -> list[tuple[int, int]]:
    """Stretches of at most BLOCK texts, and BLOCK_CHARACTERS characters unless one text alone has more."""
    try:
        ends = np.cumsum(np.fromiter(map(len, texts), np.int64, len(texts)))
    except TypeError:
        _utf8(texts, 0)
        raise
    blocks = []
    start = 0
    while start < len(texts):
        full = int(np.searchsorted(ends, (ends[start - 1] if start else 0) + BLOCK_CHARACTERS, "right"))
        stop = min(start + BLOCK, max(full, start + 1), len(texts))
        blocks.append((start, stop))
        start = stop
    return blocks


def without_surrogates(text: str) -> str:
    """A lone surrogate is no character, and no file can hold it: U+FFFD stands for it."""
    return re.sub("[\ud800-\udfff]", "\ufffd", text)


def _utf8(texts: Iterable[str], first: int) -> list[bytes]:
    """Texts in UTF-8; texts[0] is the caller's number `first`. A lone surrogate has no UTF-8 and becomes U+FFFD."""
    texts = list(texts)
    try:
        return list(map(str.encode, texts))
    except UnicodeEncodeError:
        return [without_surrogates(text).encode() for text in texts]
    except TypeError:
        for number, text in enumerate(texts, first):
            if not isinstance(text, str):
                raise TypeError(f"text {number} is not a string but {type(text).__name__}") from None
        raise


# Our own tokenizers.


def _character_steps(lowercase: bool, zero_digits: bool) -> list[normalizers.Normalizer]:
    """What happens to characters, whatever stands beside them once NFKC is done."""
    steps: list[normalizers.Normalizer] = [normalizers.NFKC()]
    if lowercase:
        steps.append(normalizers.Lowercase())
    if zero_digits:
        steps.append(normalizers.Replace(Regex(r"\p{Nd}"), "0"))
    return [*steps, normalizers.Replace(START, "_")]


def _assemble(model: models.Model, lowercase: bool, zero_digits: bool) -> tokenizers.Tokenizer:
    tokenizer = tokenizers.Tokenizer(model)
    tokenizer.normalizer = normalizers.Sequence(
        [
            *_character_steps(lowercase, zero_digits),
            normalizers.Replace(Regex(WHITE + "+"), " "),
            normalizers.Strip(),
        ]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Metaspace(START, prepend_scheme="always", split=False),
            pre_tokenizers.Split(Regex(CUT), "isolated"),
        ]
    )
    tokenizer.decoder = _decoder()
    return tokenizer


def _decoder() -> decoders.Decoder:
    return decoders.Sequence(
        [decoders.Replace(START, " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )


def _settings(state: dict[str, Any]) -> tuple[bool, bool] | None:
    """(lowercase, zero_digits) of a tokenizer that does in every respect what ours do, or None."""
    if state["added_tokens"] or state["post_processor"] or not _is_plain(state["model"]):
        return None
    for lowercase in (False, True):
        for zero_digits in (False, True):
            ours = json.loads(_assemble(models.BPE(), lowercase, zero_digits).to_str())
            if all(state[part] == ours[part] for part in ("normalizer", "pre_tokenizer")):
                return lowercase, zero_digits
    return None


def _is_plain(model: dict[str, Any]) -> bool:
    """Whether a model is BPE or unigram with bytes to fall back to and nothing out of the way."""
    if model["type"] == "BPE":
        options = ("dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix", "ignore_merges")
        plain = not any(model.get(option) for option in options)
        pieces = sorted(model["vocab"], key=model["vocab"].get)
        plain &= [model["vocab"][piece] for piece in pieces] == list(range(len(pieces)))
        plain &= len(model["merges"]) < LARGEST
    elif model["type"] == "Unigram":
        plain = model["unk_id"] is not None
        pieces = [piece for piece, _ in model["vocab"]]
    else:
        return False
    return plain and model["byte_fallback"] and {*BYTES} <= {*pieces} and len({*pieces}) == len(pieces) < LARGEST


def _check_ids(tokenizer: tokenizers.Tokenizer) -> None:
    """Refuse ids far beyond the number of pieces: lists and matrices have a place for every id."""
    vocabulary = tokenizer.get_vocab(with_added_tokens=True)
    last = max(vocabulary, key=vocabulary.__getitem__, default="")
    if last and vocabulary[last] >= max(LARGEST, 2 * len(vocabulary)):
        told = f"the piece {_shortened(last)} has the id {vocabulary[last]:,}, but there are {len(vocabulary):,} pieces"
        raise BanyanError(f"{told}: number them without large gaps")


def _check_scores(tokenizer: tokenizers.Tokenizer) -> None:
    """Refuse unigram scores whose sums could overflow."""
    if isinstance(tokenizer.model, models.Unigram):
        for piece, score in json.loads(tokenizer.to_str())["model"]["vocab"]:
            if score is None or not abs(score) <= HIGHEST_SCORE:  # None: how `tokenizers` writes inf and nan
                raise _bad_score(piece, score)


def _bad_score(piece: str, score: float | None) -> BanyanError:
    told = f"the score of the piece {_shortened(piece)} is {'not a finite number' if score is None else score}"
    rule = f"scores must be finite, and those of a unigram model at most {HIGHEST_SCORE:,.0f} in size"
    return BanyanError(f"{told}: {rule}")


def _shortened(piece: str) -> str:
    return repr(piece if len(piece) <= 40 else piece[:40] + "…")


def _make_fast(settings: tuple[bool, bool], pieces: Sequence[str], **model: Any) -> Fast:
    from banyan.backends import _fast, _text  # here, because importing Numba takes its time

    def marked(kind: str) -> Callable[[str], str]:
        return normalizers.Replace(Regex(kind), "_").normalize_str

    kinds = {
        _text.LETTER: marked(r"\p{L}"),
        _text.NUMBER: marked(r"\p{N}"),
        _text.MARK: marked(f"[{MARKS}]"),
        _text.SPACE: marked(WHITE),
    }
    return _fast.Fast(pieces, normalizers.Sequence(_character_steps(*settings)).normalize_str, kinds, **model)


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


# Training.


def _count(texts: Iterable[str], settings: tuple[bool, bool]) -> dict[str, int]:
    """How often each chunk comes, white space and punctuation cut as `encode` will cut them."""
    from banyan.backends._text import tally

    fast = _make_fast(settings, [])
    blank = _assemble(models.BPE(), *settings)

    def count(block: list[str], first: int) -> tuple[list[str], list[int]]:
        encoded = _utf8(block, first)
        points, lengths = fast.encode(encoded, whole=True)
        distinct, counts = tally(points)
        chunks = distinct.tobytes().decode("utf-32").split("\n")[:-1]
        odd = [encoded[text].decode() for text in np.flatnonzero(lengths < 0)]
        odd = [blank.normalizer.normalize_str(text) for text in odd]
        rest = [chunk for text in odd for chunk, _ in blank.pre_tokenizer.pre_tokenize_str(text)]
        return chunks + rest, counts.tolist() + [1] * len(rest)

    total: Counter[str] = Counter()
    for jobs in _waves(texts):
        for chunks, counts in pool.run(count, jobs):
            for chunk, times in zip(chunks, counts, strict=True):
                total[chunk] += times
        least = 1
        while len(total) > MOST_WORDS:  # a corpus without end: forget what is rare so far
            least += 1
            total = Counter({chunk: times for chunk, times in total.items() if times >= least})
    return total


def _waves(texts: Iterable[str]) -> Iterator[list[tuple[list[str], int]]]:
    """Blocks of texts with the number of their first, a few blocks at a time."""
    jobs: list[tuple[list[str], int]] = []
    block: list[str] = []
    size = 0
    for number, text in enumerate(texts, 1):
        block.append(text)
        size += len(text) if isinstance(text, str) else 0
        if len(block) == 4 * BLOCK or size > BLOCK_CHARACTERS:
            jobs.append((block, number - len(block)))
            block, size = [], 0
        if len(jobs) == 8:
            yield jobs
            jobs = []
    yield [*jobs, (block, number - len(block))] if block else jobs


def _alphabet(counts: dict[str, int], vocab_size: int) -> set[str]:
    """The characters that cover COVERAGE of the text, or the FEW most frequent; at most half of the vocabulary."""
    characters: Counter[str] = Counter()
    for chunk, times in counts.items():
        for character in chunk:
            characters[character] += times
    del characters[START]
    ranked = sorted(characters, key=lambda character: (-characters[character], character))
    covered = np.cumsum([characters[character] for character in ranked])
    enough = int(np.searchsorted(covered, COVERAGE * covered[-1])) + 1
    return {START, *ranked[: min(max(enough, FEW), (vocab_size - len(BYTES)) // 2)]}


def _known(counts: dict[str, int], alphabet: set[str]) -> dict[str, int]:
    """Chunks with characters of the alphabet only, in a fixed order: others are broken where they have another one."""
    known: Counter[str] = Counter()
    for chunk, times in counts.items():
        if alphabet.issuperset(chunk):
            known[chunk] += times
        else:
            for part in "".join(c if c in alphabet else "\n" for c in chunk).split("\n"):
                known[part] += times
    del known[""]
    return dict(sorted(known.items()))


def _merges(
    counts: dict[str, int], alphabet: set[str], size: int, show_progress: bool
) -> tuple[list[str], list[tuple[str, str]]]:
    """At most `size` pieces of a BPE, the alphabet first, and its merges.

    The library's trainer takes texts, not counts, so a chunk is fed as often as it comes. Its result does not depend on
    the order of its hash tables once the alphabet is given: pairs of equal count are ranked by their ids.
    """
    total = sum(counts.values())
    scale = min(1.0, TRAINED_ON / total)
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        initial_alphabet=sorted(alphabet),
        limit_alphabet=len(alphabet),
        min_frequency=2,
        special_tokens=[],
        show_progress=show_progress,
    )
    tokenizer = tokenizers.Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.CharDelimiterSplit("\n")
    feed = ((chunk + "\n") * int(times * scale) for chunk, times in counts.items() if len(chunk) > 1)
    tokenizer.train_from_iterator(feed, trainer)
    model = json.loads(tokenizer.to_str())["model"]
    return sorted(model["vocab"], key=model["vocab"].get), [_pair(merge) for merge in model["merges"]]


def _pair(merge: str | list[str]) -> tuple[str, str]:
    """A merge as tokenizer.json writes it: a pair, or in older files the two with a space between."""
    left, right = merge.split(" ") if isinstance(merge, str) else merge
    return left, right


def _train_bpe(counts: dict[str, int], alphabet: set[str], size: int, show_progress: bool) -> models.BPE:
    pieces, merges = _merges(counts, alphabet, size - len(BYTES), show_progress)
    vocabulary = {piece: id for id, piece in enumerate(BYTES + pieces)}
    return models.BPE(vocab=vocabulary, merges=merges, byte_fallback=True)


def _train_unigram(counts: dict[str, int], alphabet: set[str], size: int, show_progress: bool) -> models.Unigram:
    """Three times as many pieces as wanted come from BPE; those that matter least go, a quarter at a time."""
    from banyan.backends._unigram import Unigram

    size -= len(BYTES)
    seeds, _ = _merges(counts, alphabet, 3 * size, show_progress)
    model = Unigram(seeds, counts)
    while len(model.pieces) > size:
        model.prune(max(size, len(model.pieces) * 3 // 4))
    model.fit(2)
    scores = [round(score, 6) for score in model.scores]
    ranked = sorted(zip(model.pieces, scores, strict=True), key=lambda pair: (-pair[1], pair[0]))
    lowest = min(scores)
    return models.Unigram([(byte, lowest) for byte in BYTES] + ranked, unk_id=0, byte_fallback=True)


# SentencePiece.


def _from_sentencepiece(content: bytes, lowercase: bool, zero_digits: bool) -> tokenizers.Tokenizer:
    """A SentencePiece model as a tokenizer of the `tokenizers` library."""
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
        raise BanyanError("SentencePiece models with user-defined or unused pieces cannot be used")
    for piece in proto.pieces:
        if not math.isfinite(piece.score):
            raise _bad_score(piece.piece, piece.score)
    if proto.trainer_spec.model_type == proto.trainer_spec.BPE:
        tokenizer = tokenizers.Tokenizer(_sentencepiece_bpe(proto, kinds))
    elif proto.trainer_spec.model_type == proto.trainer_spec.UNIGRAM:
        tokenizer = tokenizers.Tokenizer(_sentencepiece_unigram(proto, kinds))
    else:
        raise BanyanError("only the BPE and unigram models of SentencePiece can be used")
    before = _character_steps(lowercase, zero_digits)[1:-1]
    tokenizer.normalizer = normalizers.Sequence([*before, *_sentencepiece_steps(proto.normalizer_spec)])
    if not any(START in piece.piece[1:] for piece in proto.pieces):  # then words do not know of each other
        tokenizer.pre_tokenizer = pre_tokenizers.Split(START, "merged_with_next")
    tokenizer.decoder = _decoder()
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
    """A SentencePiece table of characters, as its few rules of its own and then NFKC if that is what it amounts to.

    `Precompiled` would take the table as it is, but loses what is joined to a character that has an entry: ½ and U+0301
    become 1⁄2. With NFKC, sequences that SentencePiece leaves alone may be composed: ﬁ and U+0301 become fí.
    """
    precompiled, nfkc = normalizers.Precompiled(charsmap), normalizers.NFKC()
    rules: dict[str, list[str]] = {}
    for character in map(chr, [*range(0xD800), *range(0xE000, 0x20000)]):
        becomes = precompiled.normalize_str(character)
        if becomes in (nfkc.normalize_str(character), unicodedata.normalize("NFKC", character)):
            continue
        if unicodedata.category(character) != "Cn":  # else it is only newer than our tables
            rules.setdefault(becomes, []).append(character)
    if len(rules) > 16:
        return [precompiled]
    sets = {becomes: "".join(f"\\x{{{ord(character):X}}}" for character in rules[becomes]) for becomes in rules}
    return [*(normalizers.Replace(Regex(f"[{sets[becomes]}]"), becomes) for becomes in sets), nfkc]


def _sentencepiece_bpe(proto: Any, kinds: Any) -> models.BPE:
    """Any two pieces that make a third merge, the best-scored third first."""
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
    """Pieces such as <s> get a space in their name: no text has one then, so they cannot be found in it."""
    hidden = (kinds.UNKNOWN, kinds.CONTROL)
    vocabulary = [(piece.piece + " " * (piece.type in hidden), piece.score) for piece in proto.pieces]
    unknown = next((id for id, piece in enumerate(proto.pieces) if piece.type == kinds.UNKNOWN), None)
    return models.Unigram(vocabulary, unk_id=unknown, byte_fallback=proto.trainer_spec.byte_fallback)
