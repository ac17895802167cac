"""Train a subword vocabulary on a corpus: count chunks, choose an alphabet, merge (BPE) or prune (unigram)."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import chain

import numpy as np
import tokenizers
from tokenizers import models, pre_tokenizers, trainers

from banyan.errors import BanyanError
from banyan.support import threads as pool
from banyan.tokenizer.rules import (
    BLOCK,
    BLOCK_CHARACTERS,
    BYTES,
    START,
    assemble,
    make_fast,
    pair_of,
    without_surrogates,
)

COVERAGE = 0.9995  # the share of the text that the alphabet covers
FEW = 256  # the alphabet has at least this many characters, if there are so many
MOST_WORDS = 1_000_000  # distinct chunks held while counting; beyond that, the rarest are dropped
TRAINED_ON = 20_000_000  # chunks; the counts of a larger corpus are scaled down to this
REPEATED = 1 << 16  # characters that the trainer is given at once
SMALLEST = 300  # the smallest vocabulary


def train_on(
    texts: Iterable[str],
    kind: str,
    vocab_size: int | None,
    vocab_factor: float,
    lowercase: bool,
    zero_digits: bool,
) -> tokenizers.Tokenizer:
    """Train the tokenizer that Tokenizer.train wraps."""
    if kind not in ("bpe", "unigram"):
        raise BanyanError(f"kind must be bpe or unigram, not {kind!r}")
    if vocab_size is not None and vocab_size < SMALLEST:
        raise BanyanError(f"vocab_size must be at least {SMALLEST} (256 pieces are bytes), not {vocab_size}")
    counts = _count(texts, (lowercase, zero_digits))
    words = sum(count for chunk, count in counts.items() if chunk[0] == START)
    if not words:
        raise BanyanError("there is no text to train a vocabulary on")
    size = vocab_size or max(SMALLEST, round(vocab_factor * suitable_vocab_size(words)))
    alphabet = _alphabet(counts, size)
    counts = _known(counts, alphabet)
    make = _train_bpe if kind == "bpe" else _train_unigram
    return assemble(make(counts, alphabet, size), lowercase, zero_digits)


def suitable_vocab_size(words: int) -> int:
    """Return 25,000 pieces for ten million words or more; below that, in proportion to the square root of the words."""
    share = min(words / 10_000_000, 1.0)
    return max(1000, round(25_000 * share**0.5 / 100) * 100)


def _count(texts: Iterable[str], settings: tuple[bool, bool]) -> dict[str, int]:
    """Count chunks, cut at white space and punctuation as `encode` cuts them."""
    from banyan.tokenizer.kernels import tally

    fast = make_fast(settings, [])
    blank = assemble(models.BPE(), *settings)

    def count(block: list[str], first: int) -> tuple[list[str], list[int]]:
        points, lengths = fast.encode(block, first, whole=True)
        distinct, counts = tally(points)
        chunks = distinct.tobytes().decode("utf-32").split("\n")[:-1]
        odd = [without_surrogates(block[text]) for text in np.flatnonzero(lengths < 0)]
        odd = [blank.normalizer.normalize_str(text) for text in odd]
        rest = [chunk for text in odd for chunk, _ in blank.pre_tokenizer.pre_tokenize_str(text)]
        return chunks + rest, counts.tolist() + [1] * len(rest)

    total: Counter[str] = Counter()
    for jobs in _waves(texts):
        for chunks, counts in pool.run(count, jobs):
            for chunk, times in zip(chunks, counts, strict=True):
                total[chunk] += times
        least = 1
        while len(total) > MOST_WORDS:  # a huge corpus: drop what is rare so far
            least += 1
            total = Counter({chunk: times for chunk, times in total.items() if times >= least})
    return total


def _waves(texts: Iterable[str]) -> Iterator[list[tuple[list[str], int]]]:
    """Yield blocks of texts with the number of their first text, a few blocks at a time."""
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
    """Return the characters that cover COVERAGE of the text, at least FEW and at most half the vocabulary."""
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
    """Return chunks of alphabet characters only, in a fixed order. Other chunks are split at characters outside it."""
    known: Counter[str] = Counter()
    for chunk, times in counts.items():
        if alphabet.issuperset(chunk):
            known[chunk] += times
        else:
            for part in "".join(c if c in alphabet else "\n" for c in chunk).split("\n"):
                known[part] += times
    del known[""]
    return dict(sorted(known.items()))


def _merges(counts: dict[str, int], alphabet: set[str], size: int) -> tuple[list[str], list[tuple[str, str]]]:
    """Return at most `size` BPE pieces, the alphabet first, and the merges.

    The trainer of `tokenizers` takes texts, not counts, so each chunk is repeated as often as it occurs. With a given
    alphabet its result does not depend on the order of its hash tables: pairs of equal count are ranked by id.
    """
    total = sum(counts.values())
    scale = min(1.0, TRAINED_ON / total)
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        initial_alphabet=sorted(alphabet),
        limit_alphabet=len(alphabet),
        min_frequency=2,
        special_tokens=[],
        show_progress=False,  # its bars count to 0
    )
    tokenizer = tokenizers.Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.CharDelimiterSplit("\n")
    feed = (_repeated(chunk + "\n", int(times * scale)) for chunk, times in counts.items() if len(chunk) > 1)
    tokenizer.train_from_iterator(chain.from_iterable(feed), trainer)
    model = json.loads(tokenizer.to_str())["model"]
    return sorted(model["vocab"], key=model["vocab"].get), [pair_of(merge) for merge in model["merges"]]


def _repeated(line: str, times: int) -> Iterator[str]:
    """Yield a line so many times, some at once: for each character of a text, the trainer takes a hundred bytes."""
    at_once = max(1, REPEATED // len(line))
    for first in range(0, times, at_once):
        yield line * min(at_once, times - first)


def _train_bpe(counts: dict[str, int], alphabet: set[str], size: int) -> models.BPE:
    pieces, merges = _merges(counts, alphabet, size - len(BYTES))
    vocabulary = {piece: id for id, piece in enumerate(BYTES + pieces)}
    return models.BPE(vocab=vocabulary, merges=merges, byte_fallback=True)


def _train_unigram(counts: dict[str, int], alphabet: set[str], size: int) -> models.Unigram:
    """Start with three times as many pieces from BPE, and prune the least useful quarter at a time."""
    from banyan.tokenizer.unigram import Unigram

    size -= len(BYTES)
    seeds, _ = _merges(counts, alphabet, 3 * size)
    model = Unigram(seeds, counts)
    while len(model.pieces) > size:
        model.prune(max(size, len(model.pieces) * 3 // 4))
    model.fit(2)
    scores = [round(score, 6) for score in model.scores]
    ranked = sorted(zip(model.pieces, scores, strict=True), key=lambda pair: (-pair[1], pair[0]))
    lowest = min(scores)
    return models.Unigram([(byte, lowest) for byte in BYTES] + ranked, unk_id=0, byte_fallback=True)


