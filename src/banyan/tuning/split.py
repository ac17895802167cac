"""Hold out examples by group, so that no text is on both sides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from banyan.tuning.examples import Examples, linked, numbered, paired_by_label

FEWEST = 30  # with fewer examples, all are needed to train on
ENOUGH = 400  # held-out examples to choose the epoch on one half and measure on the other
HELD_OUT = 10  # examples to hold out, at least; with fewer than half of that, figures would say nothing


def split(examples: Examples, seed: int, share: float = 0.1, most: int = 2000) -> tuple[Examples, Examples]:
    """Return the examples to train on and the examples held out. No text is first or second text on both sides.

    Nothing is held out of fewer than FEWEST examples.

    share, most: hold out this share of the examples, and at most this many. Whole groups are held out, so it may be a
    few less. If groups are too large for that, because a frequent text links most examples, frequent texts do not
    count as links: examples with such a text are never held out, and those that share their other text with a
    held-out example are left out of both sides. Nothing is held out if every example has a frequent text.

    Examples that were paired by label are held out by text, and both sides are paired again.

    A negative is removed from an example if the other side has its text."""
    if len(examples) < FEWEST:
        return examples, examples[:0]
    target = int(min(max(share * len(examples), HELD_OUT), most))
    if examples.label is not None:
        return _by_text(examples, target, seed)
    first, second = numbered(examples.first, examples.second)
    held = _by_group(first, second, target, np.random.default_rng(seed))
    if len(held) < HELD_OUT / 2:
        return examples, examples[:0]
    texts = np.unique([first[held], second[held]])
    apart = ~(np.isin(first, texts) | np.isin(second, texts))
    return _negatives_apart(examples[apart], examples[held])


def halved(held_out: Examples, seed: int) -> tuple[Examples, Examples]:
    """Return the held-out examples that choose the epoch and the lexical weight, and those that only measure; no text
    is on both sides. With fewer than ENOUGH, all do both."""
    if len(held_out) >= ENOUGH:
        choosing, measuring = split(held_out, seed, share=0.5)
        if len(measuring) >= ENOUGH / 4:
            return choosing, measuring
    return held_out, held_out


def _by_group(first: np.ndarray, second: np.ndarray, target: int, rng: np.random.Generator) -> np.ndarray:
    """Return the positions of the examples to hold out, in order.

    Texts in more than `frequent` examples do not count as links. It is halved until at least `target` examples are in
    groups of at most that size."""
    texts = max(first.max(initial=-1), second.max(initial=-1)) + 1
    examples_of = np.bincount(first, minlength=texts) + np.bincount(second[second != first], minlength=texts)
    frequent = int(examples_of.max(initial=0))
    best = groups = np.empty(0, np.int64)
    while frequent and len(best) < target:
        links = examples_of <= frequent
        group = linked(first, second, links)
        free = links[first] & links[second]
        sizes = np.bincount(group, free)
        candidates = np.flatnonzero(free & (sizes[group] <= target))
        if len(candidates) > len(best):
            best, groups = candidates, group[candidates]
        frequent //= 2
    numbers, sizes = np.unique(groups, return_counts=True)
    taken, total = [], 0
    for place in rng.permutation(len(numbers)):
        if total + sizes[place] <= target:
            taken.append(numbers[place])
            total += sizes[place]
    return best[np.isin(groups, taken)]


def _by_text(examples: Examples, target: int, seed: int) -> tuple[Examples, Examples]:
    """Hold out texts of as many labels as possible: at least two of a label, and all if it has fewer than four."""
    assert examples.label is not None
    rng = np.random.default_rng(seed)
    order = np.argsort(examples.label, kind="stable")
    of_labels = np.split(order, np.flatnonzero(np.diff(examples.label[order])) + 1)
    (first,) = numbered(examples.first)
    rows_of = np.bincount(first)  # a text with several labels has as many rows
    held = np.zeros(len(rows_of), bool)
    left = max(target, 2)
    for place in rng.permutation(len(of_labels)):
        rows = of_labels[place]
        take = max(2, round(target * len(rows) / len(examples))) if len(rows) >= 4 else len(rows)
        texts = np.unique(first[rng.permutation(rows)[:take]])
        texts = texts[~held[texts]]
        size = rows_of[texts].sum()
        if size <= left and take < len(examples):
            held[texts] = True
            left -= size
    inside = held[first]
    train, held_out = (_again(examples, side, seed) for side in (~inside, inside))
    return train, held_out


def _again(examples: Examples, side: np.ndarray, seed: int) -> Examples:
    assert examples.label is not None
    chosen = np.flatnonzero(side)
    return paired_by_label([examples.first[i] for i in chosen], examples.label[chosen], seed)[0]


def _negatives_apart(train: Examples, held_out: Examples) -> tuple[Examples, Examples]:
    if train.negative is None or held_out.negative is None:
        return train, held_out
    train = replace(train, negative=_without(train.negative, held_out.first, held_out.second))
    assert train.negative is not None
    of_train = train.first, train.second, train.negative
    return train, replace(held_out, negative=_without(held_out.negative, *of_train))


def _without(negatives: Sequence[str], *others: Sequence[str]) -> list[str]:
    known = {text.casefold() for texts in others for text in texts}
    return ["" if text.casefold() in known else text for text in negatives]
