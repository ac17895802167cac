"""Smaller and larger amounts of text, to see what each is worth (`reproduce amounts`)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path

from experiments.data import PARAGRAPHS
from experiments.training.spacing import spaced
from experiments.translations.split import corpus_text

THIRD = "third"
MILLIONS = {"0.3M": 0.3, "1M": 1.0, "3M": 3.0}  # words from the start of the English corpus, which is shuffled
BOTH = "20M"  # both English corpora, without duplicates, as single sentences
THOUSANDS = {"20k": 20_000, "40k": 40_000, "160k": 160_000}  # sentences from its start
WHOLE = "whole"  # all sentences: for the name of their spaced form
SPACED = "-spaced"  # ends the name of an amount whose punctuation is set apart from words


def lines(data: Path, language: str, amount: str) -> Iterator[str]:
    """The sentences of an amount of text."""
    if amount.endswith(SPACED):
        yield from map(spaced, lines(data, language, amount.removesuffix(SPACED)))
        return
    whole = corpus_text(data, language)
    if amount == WHOLE:
        yield from whole
        return
    if amount in THOUSANDS:
        yield from islice(whole, THOUSANDS[amount])
        return
    if amount == BOTH:
        paragraphs = corpus_text(data, PARAGRAPHS)
        sentences = (sentence for paragraph in paragraphs for sentence in paragraph.split("\t"))
        yield from dict.fromkeys(chain(whole, sentences))
        return
    if amount == THIRD:
        yield from (line for number, line in enumerate(whole) if number % 3 == 0)
        return
    left = MILLIONS[amount] * 1e6
    for line in whole:
        if left <= 0:
            return
        left -= len(line.split())
        yield line
