"""GloVe (Pennington, Socher and Manning 2014), as in the authors' program.

Counting. The co-occurrence count X_ij is the sum of 1/distance over all places where words i and j are at most `window`
words apart in a sentence, in either order, so X is symmetric.

Training. For each X_ij > 0, with diff = w_i·c_j + b_i + d_j - log X_ij and f = min(1, (X_ij / x_max)^alpha), AdaGrad
minimises the loss ½ f diff². As in the authors' program, the gradient is first multiplied by the learning rate; the
accumulators start at 1 and sum the squares of that product; and a step is taken before its own square is added
(`update`). The vector of a word is w + c.

Order. Words are divided into GROUPS, and the pairs of two groups are one job. A round is a set of jobs in which every
group occurs once. No two jobs of a round update the same vectors, so the result is bit-identical for any number of
threads. Because X is symmetric, each pair is stored once and gives both updates, X_ij and X_ji.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from banyan.baselines import folder as folders
from banyan.baselines.text import Coded, check, check_finite, coded, sentences
from banyan.baselines.vectors import WordVectors, weights_of
from banyan.errors import BanyanError
from banyan.support import threads
from banyan.support.compiling import njit
from banyan.support.display import Display

GROUPS = 64  # must be even: a round has GROUPS / 2 jobs
KEYS = 1 << 26  # co-occurrences in memory at a time, 8 bytes each
_kernel = njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract"})
_inlined = njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract"}, inline="always")


def train(
    corpus_paths: Sequence[str | Path],
    out: str | Path,
    *,
    quiet: bool = False,
    dim: int = 256,
    window: int = 10,
    epochs: int = 15,
    learning_rate: float = 0.05,
    x_max: float = 100.0,
    alpha: float = 0.75,
    min_count: int = 5,
    lower: bool = True,
    weighting: str = "mean",
    seed: int = 0,
) -> None:
    """Train word vectors on the text.

    learning_rate: 0.05 is the default of GloVe's authors; the Banyan paper trained its GloVe with 0.001.
    window: words on either side. x_max, alpha: a pair has the weight min(1, (X / x_max)^alpha).
    min_count: skip rarer words. lower: lower-case the text.
    weighting: a text is the "mean" of its words; "content": without scikit-learn's ENGLISH_STOP_WORDS; or "sif".
    """
    check(dim=(dim, 1), window=(window, 1), epochs=(epochs, 0), min_count=(min_count, 1))
    check(learning_rate=(learning_rate, 0), x_max=(x_max, 1e-9), alpha=(alpha, 0))
    settings = {name: value for name, value in locals().items() if name not in ("corpus_paths", "out", "quiet")}
    folders.check_new(out)
    display = Display(quiet)
    text = coded(sentences(corpus_paths, display), min_count, lower)
    weights_of(text.vocabulary, weighting)  # refuse an unknown weighting before training
    counts = cooccurrences(text, window, display)
    display.note(f"{len(text.vocabulary):,} words, {len(text.tokens):,} tokens, {counts.size:,} pairs of words")
    model = Model.new(len(text.vocabulary), dim, seed)
    losses = fit(model, counts, epochs, learning_rate, x_max, alpha, seed, display)
    made = WordVectors.of(model.vectors(), text, weighting)
    about = {"words": len(text.vocabulary), "tokens": len(text.tokens), "pairs": counts.size, "losses": losses}
    with folders.made(out, folders.Manifest("glove", settings, about=about)) as building:
        made.save(building)


def load(folder: str | Path) -> WordVectors:
    return WordVectors.load(folder)


# --- Counting --------------------------------------------------------------------------------------------------------


class Pairs(NamedTuple):
    """The pairs of words of two groups. Word i has number i // GROUPS in group i % GROUPS. The first word of a pair is
    in the first group; within one group, each pair is stored once."""

    first: np.ndarray  # uint32 [n]
    second: np.ndarray  # uint32 [n]
    log_x: np.ndarray  # float32 [n]


class Counts(NamedTuple):
    blocks: dict[tuple[int, int], Pairs]  # by groups (a, b), a <= b

    @property
    def size(self) -> int:
        """The number of nonzero entries of X."""
        twice = sum(2 * len(pairs.first) for pairs in self.blocks.values())
        alone = (self.blocks[a, b] for a, b in self.blocks if a == b)
        return twice - sum(int((pairs.first == pairs.second).sum()) for pairs in alone)


@njit(cache=True, nogil=True)
def _tally(tokens, offsets, window, groups):
    """For each group, the number of its co-occurrences with words of this or a later group."""
    counts = np.zeros(groups, np.int64)
    for sentence in range(len(offsets) - 1):
        start, end = offsets[sentence], offsets[sentence + 1]
        for at in range(start, end):
            for distance in range(1, min(window, at - start) + 1):
                counts[min(tokens[at] % groups, tokens[at - distance] % groups)] += 1
    return counts


@njit(cache=True, nogil=True)
def _write_keys(tokens, offsets, window, groups, first, cursors, keys):
    """Write a key for each co-occurrence of a word of groups first, first + 1, ... at the cursor of that group. A key
    holds the group and number of the other word, the number of the word itself, and the distance."""
    for sentence in range(len(offsets) - 1):
        start, end = offsets[sentence], offsets[sentence + 1]
        for at in range(start, end):
            one = tokens[at]
            for distance in range(1, min(window, at - start) + 1):
                other = tokens[at - distance]
                own, far = (one, other) if one % groups < other % groups else (other, one)
                if own % groups == far % groups:
                    own, far = min(one, other), max(one, other)
                group = own % groups - first
                if group < 0 or group >= len(cursors):
                    continue
                key = np.uint64(far % groups) << np.uint64(56)
                key |= np.uint64(far // groups) << np.uint64(32)
                key |= np.uint64(own // groups) << np.uint64(8)
                keys[cursors[group]] = key | np.uint64(distance)
                cursors[group] += 1


@njit(cache=True, nogil=True)
def _summed(keys):
    """The distinct pairs in sorted keys, and the sum of 1/distance of each."""
    pairs, sums = np.empty(len(keys), np.uint64), np.empty(len(keys), np.float32)
    n = 0
    total = 0.0
    for i in range(len(keys)):
        pair = keys[i] >> np.uint64(8)
        total += 1.0 / (keys[i] & np.uint64(255))
        if i + 1 == len(keys) or keys[i + 1] >> np.uint64(8) != pair:
            pairs[n], sums[n] = pair, total
            n += 1
            total = 0.0
    return pairs[:n].copy(), sums[:n].copy()


def _pairs_of_group(keys: np.ndarray, group: int) -> dict[tuple[int, int], Pairs]:
    keys.sort()
    pairs, sums = _summed(keys)
    first, second = (pairs & np.uint64(0xFFFFFF)).astype(np.uint32), (pairs >> np.uint64(24)).astype(np.uint32)
    far, second = second >> np.uint32(24), second & np.uint32(0xFFFFFF)
    sums[(far == group) & (first == second)] *= 2  # a word with itself: X_ii counts both orders
    logs = np.log(sums)
    ends = np.searchsorted(far, np.arange(GROUPS + 1))
    cuts = [slice(ends[b], ends[b + 1]) for b in range(GROUPS)]
    return {(group, b): Pairs(first[s], second[s], logs[s]) for b, s in enumerate(cuts) if s.stop > s.start}


def cooccurrences(text: Coded, window: int, display: Display) -> Counts:
    """Count co-occurrences in several passes over the corpus, each for as many groups as fit in KEYS."""
    if window > 255:
        raise BanyanError(f"window must be at most 255, not {window}")
    parts = [text.offsets[some.start : some.stop + 1] for some in threads.shares(len(text))]
    tallies = np.stack(threads.run(_tally, [(text.tokens, part, window, GROUPS) for part in parts]))
    of_groups = tallies.sum(axis=0)
    blocks: dict[tuple[int, int], Pairs] = {}
    first = 0
    with display.bar("counting", GROUPS, "groups of words") as meter:
        while first < GROUPS:
            meter(first)
            end = first + max(int(np.searchsorted(np.cumsum(of_groups[first:]), KEYS, "right")), 1)
            sizes = tallies[:, first:end].T  # grouped by group, then by part of the corpus
            starts = np.concatenate([[0], np.cumsum(sizes)])
            keys = np.empty(starts[-1], np.uint64)
            cursors = starts[:-1].reshape(sizes.shape).T.copy()
            given = text.tokens, window, GROUPS, first
            threads.run(_write_keys, [(given[0], part, *given[1:], cursors[i], keys) for i, part in enumerate(parts)])
            bounds = starts[:: len(parts)]
            jobs = [(keys[bounds[i] : bounds[i + 1]], first + i) for i in range(end - first)]
            for made in threads.run(_pairs_of_group, jobs):
                blocks |= made
            first = end
    return Counts(blocks)


# --- Training --------------------------------------------------------------------------------------------------------


class Model(NamedTuple):
    """One table per group: [words, 2, 2, E + 1]. The second axis is word (w, b) or context (c, d), the third is values
    or AdaGrad accumulators, and the last is the vector followed by the bias."""

    tables: list[np.ndarray]
    size: int  # words

    @classmethod
    def new(cls, size: int, dim: int, seed: int) -> Model:
        """Initialise as the authors' program does: vectors and biases uniform in ±½/dim, accumulators 1."""
        drawn = np.random.Generator(np.random.Philox(seed)).random((size, 2, dim + 1), np.float32)
        tables = []
        for group in range(GROUPS):
            table = np.ones((len(range(group, size, GROUPS)), 2, 2, dim + 1), np.float32)
            table[:, :, 0] = (drawn[group::GROUPS] - np.float32(0.5)) / np.float32(dim)
            tables.append(table)
        return cls(tables, size)

    def vectors(self) -> np.ndarray:
        """The word vectors w + c, float32 [V, E]."""
        out = np.empty((self.size, self.tables[0].shape[-1] - 1), np.float32)
        for group, table in enumerate(self.tables):
            out[group::GROUPS] = table[:, 0, 0, :-1] + table[:, 1, 0, :-1]
        return out


@_inlined
def _step(one, other, log_x, weight, rate):
    """Update a word and a context, each [2, E + 1] (values, accumulators), for one entry of X; return its loss."""
    e = one.shape[1] - 1
    w, g, c, h = one[0], one[1], other[0], other[1]
    diff = np.float32(0)
    for j in range(e):
        diff += w[j] * c[j]
    diff += w[e] + c[e] - log_x
    scaled = weight * diff * rate
    for j in range(e):
        of_w, of_c = scaled * c[j], scaled * w[j]
        w[j] -= of_w / np.sqrt(g[j])
        c[j] -= of_c / np.sqrt(h[j])
        g[j] += of_w * of_w
        h[j] += of_c * of_c
    w[e] -= scaled / np.sqrt(g[e])
    c[e] -= scaled / np.sqrt(h[e])
    g[e] += scaled * scaled
    h[e] += scaled * scaled
    return np.float32(0.5) * weight * diff * diff


@_kernel
def update(table_a, table_b, same, first, second, log_x, rate, log_x_max, alpha):
    """Train on every pair of two groups, in both directions; return the sum of the losses before each step."""
    loss = 0.0
    for k in range(len(first)):
        i, j = first[k], second[k]
        weight = min(np.float32(1), np.exp(alpha * (log_x[k] - log_x_max)))
        loss += _step(table_a[i, 0], table_b[j, 1], log_x[k], weight, rate)
        if not (same and i == j):
            loss += _step(table_b[j, 0], table_a[i, 1], log_x[k], weight, rate)
    return loss


def rounds() -> list[list[tuple[int, int]]]:
    """A round-robin schedule of the groups: each group is in one pair of a round, and every two groups meet once.
    The first round pairs each group with itself."""
    made = [[(a, a) for a in range(GROUPS)]]
    turning = GROUPS - 1
    for r in range(turning):
        pairs = [(turning, r), *(((r + k) % turning, (r - k) % turning) for k in range(1, GROUPS // 2))]
        made.append([(min(pair), max(pair)) for pair in pairs])
    return made


def fit(
    model: Model,
    counts: Counts,
    epochs: int,
    rate: float,
    x_max: float,
    alpha: float,
    seed: int,
    display: Display,
) -> list[float]:
    """Train the model in place; return the mean loss per entry of each epoch."""
    fixed = np.float32(rate), np.float32(np.log(x_max)), np.float32(alpha)
    order, every = np.random.Generator(np.random.Philox([seed, 1])), rounds()
    losses: list[float] = []
    with display.bar("training", epochs * len(every), "rounds") as meter:
        for epoch in range(epochs):
            total = 0.0
            for number, chosen in enumerate(order.permutation(len(every))):
                there = [pair for pair in every[chosen] if pair in counts.blocks]
                jobs = [(model.tables[a], model.tables[b], a == b, *counts.blocks[a, b], *fixed) for a, b in there]
                total += sum(threads.run(update, jobs))
                figures = {"epoch": f"{epoch + 1}"} | ({"loss": f"{losses[-1]:.4f}"} if losses else {})
                meter(epoch * len(every) + number, figures=figures)
            losses.append(total / max(counts.size, 1))
            check_finite(losses[-1])
    return losses
