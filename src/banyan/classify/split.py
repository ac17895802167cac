"""Hold out texts that no text to learn from repeats or contains.

Labelled texts are often parts of each other: phrases of a sentence, a title and its longer form, a quoted mail. With a
random split, the held-out texts would be known in part, and training would stop too late. So only texts that are not
part of a longer text are held out, and training leaves out the texts that are part of a held-out one.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from banyan.tuning.examples import numbered

U = np.uint64
SHARE, MOST = 0.1, 1000  # held out of all texts; training also loses what is part of them
FEWEST = 30  # with fewer texts, all are needed to learn from
ENOUGH = 400  # held-out texts to choose on one half and measure on the other
_POOL = 20_000  # texts to choose from, at most
_SHORTEST = 3  # words; training keeps shorter texts, although a held-out text contains them
_LONGEST = 64  # words of a text that are compared
_BASE = U(0x9E3779B97F4A7C15)
_INVERSE = U(pow(int(_BASE), -1, 1 << 64))


def split(
    columns: Sequence[Sequence[str]], target: np.ndarray, seed: int, share: float = SHARE
) -> tuple[np.ndarray, np.ndarray]:
    """Return the positions of the texts to learn from and of those held out, in order.

    columns: the texts; or first and second texts of pairs. target: 0 or 1 [n, C]. Classes are held out in proportion,
    with at least one text of each class that has several, if the others do not repeat it. Nothing is held out of fewer
    than FEWEST texts."""
    n = len(target)
    if n < FEWEST:
        return np.arange(n), np.empty(0, np.int64)
    rng = np.random.default_rng(seed)
    wanted = int(min(max(share * n, 1), MOST))
    pool = np.sort(rng.permutation(n)[:_POOL])
    texts = _Words(columns[0]) if len(columns) == 1 else None
    good = pool[~texts.part_of_longer(pool)] if texts else _rarely_repeated(columns, pool, 2 * wanted)
    held = _in_proportion(target, good, wanted, rng)
    while True:
        train = np.setdiff1d(np.arange(n), held)
        known = texts.parts_of(held, train) if texts else _same(columns, held, train)
        lost = target[train].any(0) & ~target[train[~known]].any(0)
        if not lost.any():
            return train[~known], held
        needed = train[known & target[train][:, lost].any(1)]  # to keep them, hold out nothing that has them
        held = held[~(texts.holders(held, needed) if texts else _same(columns, needed, held))]


def halved(
    columns: Sequence[Sequence[str]], target: np.ndarray, held: np.ndarray, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return those of the held-out texts that choose the epoch and calibrate, and those that only measure. With fewer
    than ENOUGH, all do both."""
    if len(held) < ENOUGH:
        return held, held
    choosing, measuring = split([[column[i] for i in held] for column in columns], target[held], seed, share=0.5)
    return (held[choosing], held[measuring]) if len(measuring) >= ENOUGH / 4 else (held, held)


def _in_proportion(target: np.ndarray, good: np.ndarray, wanted: int, rng: np.random.Generator) -> np.ndarray:
    """Choose positions among the good ones: as many of each class as its share, and never all texts of a class."""
    counts = target.sum(0)
    rarest = np.where(target > 0, counts, np.inf).argmin(1)  # each text counts as one of its rarest class
    rarest[~target.any(1)] = -1
    held: list[np.ndarray] = []
    for c in np.unique(rarest):
        members = np.flatnonzero(rarest == c)
        if c >= 0 and counts[c] < 2:
            continue
        take = min(max(round(wanted * len(members) / len(target)), 1), len(members) - 1)
        among = np.intersect1d(good, members)
        among = among if len(among) >= take else members
        held.append(rng.permutation(among)[:take])
    return np.sort(np.concatenate(held)) if held else np.empty(0, np.int64)


def _rarely_repeated(columns: Sequence[Sequence[str]], pool: np.ndarray, wanted: int) -> np.ndarray:
    """Pairs whose texts are in few other pairs."""
    numbers = numbered(*columns)
    times = np.bincount(np.concatenate(numbers))
    most = np.maximum(*(times[column] for column in numbers))[pool]
    limit = 1
    while (most <= limit).sum() < min(wanted, len(pool)):
        limit *= 2
    return pool[most <= limit]


def _same(columns: Sequence[Sequence[str]], others: np.ndarray, some: np.ndarray) -> np.ndarray:
    """Which of some pairs have a text of the others."""
    numbers = numbered(*columns)
    texts = np.concatenate([column[others] for column in numbers])
    return np.isin(numbers[0][some], texts) | np.isin(numbers[1][some], texts)


class _Words:
    """The words of texts, and a hash of every run of words."""

    def __init__(self, texts: Sequence[str]) -> None:
        number: dict[str, int] = {}
        words, sizes = [], []
        for text in texts:
            own = text.casefold().split()[:_LONGEST]
            words += [number.setdefault(word, len(number) + 1) for word in own]
            sizes.append(len(own))
        self.sizes = np.array(sizes, np.int64)
        self.starts = np.cumsum(self.sizes) - self.sizes
        powers, inverses = (np.cumprod(np.full(len(words) + 1, base, U)) for base in (_BASE, _INVERSE))
        self.sums = np.concatenate([[U(0)], np.cumsum(np.array(words, U) * powers[: len(words)])])
        self.inverses = inverses

    def _hash(self, first: np.ndarray, length: int) -> np.ndarray:
        return (self.sums[first + length] - self.sums[first]) * self.inverses[first]

    def _windows(self, length: int, texts: np.ndarray) -> np.ndarray:
        """The hashes of all runs of so many words in texts that are at least as long."""
        texts = texts[self.sizes[texts] >= length]
        counts = self.sizes[texts] - length + 1
        within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        return self._hash(np.repeat(self.starts[texts], counts) + within, length)

    def part_of_longer(self, some: np.ndarray) -> np.ndarray:
        """Which of some texts are a run of words in a longer text, bool."""
        found = np.zeros(len(some), bool)
        for length in np.unique(self.sizes[some]).tolist():
            inner = self.sizes[some] == length
            own, place = np.unique(self._hash(self.starts[some[inner]], length), return_inverse=True)
            windows = self._windows(length, np.flatnonzero(self.sizes > length))
            at = np.minimum(np.searchsorted(own, windows), len(own) - 1)
            hit = np.zeros(len(own), bool)
            hit[at[own[at] == windows]] = True
            found[inner] = hit[place]
        return found

    def parts_of(self, outer: np.ndarray, some: np.ndarray) -> np.ndarray:
        """Which of some texts are equal to one of the outer texts or, if they are not very short, part of one."""
        found = np.zeros(len(some), bool)
        for length in np.unique(self.sizes[some]).tolist():
            inner = self.sizes[some] == length
            among = outer if length >= _SHORTEST else outer[self.sizes[outer] == length]
            found[inner] = np.isin(self._hash(self.starts[some[inner]], length), self._windows(length, among))
        return found

    def holders(self, outer: np.ndarray, some: np.ndarray) -> np.ndarray:
        """Which of the outer texts have one of some texts, as `parts_of` finds it."""
        found = np.zeros(len(self.sizes), bool)
        for length in np.unique(self.sizes[some]).tolist():
            own = self._hash(self.starts[some[self.sizes[some] == length]], length)
            among = outer[self.sizes[outer] >= length] if length >= _SHORTEST else outer[self.sizes[outer] == length]
            hit = np.isin(self._windows(length, among), own)
            found[np.repeat(among, self.sizes[among] - length + 1)[hit]] = True
        return found[outer]
