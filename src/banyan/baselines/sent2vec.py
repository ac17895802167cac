"""Sent2Vec (Pagliardini, Gupta and Jaggi 2018), as in the paper and the authors' program.

A sentence is the mean of the vectors of its words and bigrams. For a target word t of a sentence S, the mean h of its
context (S with t replaced by a mask, words and bigrams, without `dropout` random bigrams) is trained to distinguish t
from `negatives` other words, drawn in proportion to the square root of their counts:

    loss = l(o_t·h) + Σ l(-o_n·h),   l(x) = log(1 + e^-x)

where each word has an output vector o. The mask has a vector of its own, as in the authors' program; it learns what all
contexts have in common and is used only in training. A word of relative frequency f is a target with the probability
min(1, √(sample/f) + sample/f), and never if it occurs fewer than `min_target` times. The learning rate decays linearly
to 0.

The authors' threads overwrite each other's updates. Here the updates of up to BATCH sentences are computed from the
same vectors in parallel and then added in order, each thread for some of the dimensions. The result is bit-identical
for any number of threads. Bigrams are hashed into `buckets` vectors.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from banyan.baselines import folder as folders
from banyan.baselines.text import Coded, Vocabulary, check, check_finite, coded, sentences
from banyan.baselines.vectors import WordVectors
from banyan.baselines.vectors import load as load_arrays
from banyan.corpus.store import shuffled_batches
from banyan.support import threads
from banyan.support.compiling import njit
from banyan.support.display import Display

BATCH = 32  # most sentences whose updates are computed from the same vectors
MOST = 2.0  # bound on the expected number of simultaneous updates of a vector, times the learning rate
CHUNK = 2048  # sentences whose targets are drawn together
_JOB = 4  # sentences per job of the thread pool
_LANES = 16  # each thread's dimensions are a multiple of this
_SHARED = 24  # fewest targets for which several threads pay off
_NEGATIVES = 1 << 22  # size of the table that negatives are drawn from
_kernel = njit(cache=True, nogil=True, error_model="numpy")
_summing = njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract"})


def train(
    corpus_paths: Sequence[str | Path],
    out: str | Path,
    *,
    quiet: bool = False,
    dim: int = 256,
    epochs: int = 9,
    learning_rate: float = 0.5,
    negatives: int = 10,
    buckets: int = 500_000,
    dropout: int = 4,
    sample: float = 2e-5,
    min_count: int = 8,
    min_target: int = 20,
    lower: bool = True,
    seed: int = 0,
) -> None:
    """Train word and bigram vectors on the text.

    The defaults are what the authors recommend for all of Wikipedia, except dim, buckets, learning_rate and sample,
    which were chosen on the dev sets for 10 million words. (The authors: 4,000,000 buckets, 0.2 and 5e-6.)
    buckets: vectors for hashed bigrams (0: words only); each takes 4 * dim bytes.
    dropout: bigrams of a sentence to drop at random. negatives: negative samples per target.
    sample: subsample frequent words: a word is a target with probability min(1, √(sample/f) + sample/f).
    min_count: skip rarer words. min_target: rarer words are never targets. lower: lower-case the text.
    """
    check(dim=(dim, 1), epochs=(epochs, 0), learning_rate=(learning_rate, 0), negatives=(negatives, 1))
    check(buckets=(buckets, 0), dropout=(dropout, 0), sample=(sample, 1e-12), min_count=(min_count, 1))
    settings = {name: value for name, value in locals().items() if name not in ("corpus_paths", "out", "quiet")}
    folders.check_new(out)
    display = Display(quiet)
    text = coded(sentences(corpus_paths, display), min_count, lower)
    display.note(f"{len(text.vocabulary):,} words, {len(text.tokens):,} tokens, {len(text):,} sentences")
    model = Model.new(len(text.vocabulary), dim, buckets, seed)
    drawing = Drawing.of(text.vocabulary, negatives, buckets, dropout, sample, min_target)
    losses = fit(model, text, drawing, epochs, learning_rate, seed, display)
    about = {"words": len(text.vocabulary), "tokens": len(text.tokens), "losses": losses}
    with folders.made(out, folders.Manifest("sent2vec", settings, about=about)) as building:
        Sent2Vec.of_table(text.vocabulary, model.table[:-1]).save(building)


class Sent2Vec(WordVectors):
    """An Encoder: the mean of words and bigrams. In the table, the rows of the buckets follow those of the words."""

    @classmethod
    def of_table(cls, vocabulary: Vocabulary, table: np.ndarray) -> Sent2Vec:
        return cls(vocabulary, table, np.ones(len(table), np.float32))

    def _looked_up(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        ids, offsets, _ = super()._looked_up(texts)
        return *_with_bigrams(ids, offsets, len(self.vocabulary), len(self.table) - len(self.vocabulary)), None


def load(folder: str | Path) -> Sent2Vec:
    vocabulary, arrays = load_arrays(folder)
    return Sent2Vec.of_table(vocabulary, arrays["vectors"])


@_kernel
def _mixed(x):
    """Hash 64 bits (splitmix64)."""
    x = np.uint64(x) + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@_kernel
def bigram_row(one, two, words, buckets):
    """The table row of a bigram."""
    pair = (np.uint64(one) << np.uint64(32)) | np.uint64(two)
    return words + np.int64(_mixed(pair) % np.uint64(buckets))


@_kernel
def _with_bigrams(ids, offsets, words, buckets):
    """The rows of each text: its words, then its bigrams."""
    n = len(offsets) - 1
    ends = np.zeros(n + 1, np.int64)
    for text in range(n):
        length = offsets[text + 1] - offsets[text]
        ends[text + 1] = ends[text] + length + (max(length - 1, 0) if buckets else 0)
    rows = np.empty(ends[n], np.int64)
    for text in range(n):
        start, length = offsets[text], offsets[text + 1] - offsets[text]
        for i in range(length):
            rows[ends[text] + i] = ids[start + i]
        if buckets:
            for i in range(length - 1):
                rows[ends[text] + length + i] = bigram_row(ids[start + i], ids[start + i + 1], words, buckets)
    return rows, ends


# --- Targets and their contexts --------------------------------------------------------------------------------------


class Drawing(NamedTuple):
    """How targets and negatives are drawn."""

    asked: np.ndarray  # float64 [V]: the probability that a word is a target
    table: np.ndarray  # int32: negatives are drawn uniformly from this table
    negatives: int
    buckets: int
    dropout: int

    @classmethod
    def of(
        cls, vocabulary: Vocabulary, negatives: int, buckets: int, dropout: int, sample: float, min_target: int
    ) -> Drawing:
        share = vocabulary.counts / vocabulary.counts.sum()
        asked = np.minimum(np.sqrt(sample / share) + sample / share, 1.0)
        asked[vocabulary.counts < min_target] = 0
        roots = np.cumsum(np.sqrt(vocabulary.counts))
        places = (np.arange(_NEGATIVES) + 0.5) * (roots[-1] / _NEGATIVES)
        return cls(asked, np.searchsorted(roots, places).astype(np.int32), negatives, buckets, dropout)

    def batch(self, text: Coded, rate: float) -> int:
        """The number of sentences whose updates are computed together. It is lower for a small vocabulary or a high
        learning rate, so that no vector moves far by updates computed independently."""
        targets = self.asked * text.vocabulary.counts
        negatives = self.negatives * np.bincount(self.table, minlength=len(targets)) / len(self.table)
        output = (targets / max(targets.sum(), 1) + negatives).max()  # updates of the most frequent output, per target
        row = len(text) / len(text.tokens)  # for an input that occurs in every sentence
        steps = targets.sum() / len(text) * max(output, row)
        return int(np.clip(MOST / max(steps * rate, 1e-9), 1, BATCH))


class Targets(NamedTuple):
    """Sentence s has the rows (words, then bigrams) rows[bounds[s] : bounds[s + 1]] and the targets first[s] to
    first[s + 1] - 1. The context of target k is these rows without without[ends[k] : ends[k + 1]], plus those rows of
    instead[k] that are not -1. outputs[k, 0] is the target word; its negatives follow."""

    rows: np.ndarray  # int32
    bounds: np.ndarray  # int64 [S + 1]
    first: np.ndarray  # int64 [S + 1]
    without: np.ndarray  # int32
    ends: np.ndarray  # int64 [n + 1]
    instead: np.ndarray  # int32 [n, 3]: the mask, and its bigrams with the words before and after it
    outputs: np.ndarray  # int32 [n, 1 + negatives]

    def some(self, start: int, end: int) -> Targets:
        """The targets of these sentences, numbered from 0. Indices into `rows` and `without` do not change."""
        at, to = self.first[start], self.first[end]
        bounds, first, ends = self.bounds[start : end + 1], self.first[start : end + 1] - at, self.ends[at : to + 1]
        return Targets(self.rows, bounds, first, self.without, ends, self.instead[at:to], self.outputs[at:to])


@_kernel
def _uniform(key, a, b):
    """A random number in [0, 1) that is a function of (key, a, b)."""
    bits = _mixed(_mixed(key ^ _mixed(np.uint64(a))) ^ np.uint64(b))
    return np.float64(bits >> np.uint64(11)) * (1.0 / (1 << 53))


@_kernel
def _asked(tokens, start, end, key, asked):
    """How many words of a sentence are targets: none in a sentence of one word, which has no context."""
    n = 0
    for at in range(start, end):
        n += end - start > 1 and _uniform(key, at, 0) < asked[tokens[at]]
    return n


@_kernel
def _draw(tokens, offsets, chosen, key, asked, table, negatives, buckets, dropout):
    """Draw the targets of these sentences; leave out sentences without targets."""
    counts = np.array([_asked(tokens, offsets[s], offsets[s + 1], key, asked) for s in chosen])
    lengths = np.array([offsets[s + 1] - offsets[s] for s in chosen])
    n, used = counts.sum(), (counts > 0).sum()
    rows, bounds = np.empty((2 * lengths * (counts > 0)).sum(), np.int32), np.zeros(used + 1, np.int64)
    first, ends = np.zeros(used + 1, np.int64), np.zeros(n + 1, np.int64)
    without, instead = np.empty(n * (3 + dropout), np.int32), np.empty((n, 3), np.int32)
    outputs = np.empty((n, 1 + negatives), np.int32)
    s = k = 0
    for i in range(len(chosen)):
        if counts[i] == 0:
            continue
        start, end = offsets[chosen[i]], offsets[chosen[i] + 1]
        bounds[s + 1] = _fill(tokens, start, end, len(asked), buckets, rows, bounds[s])
        for at in range(start, end):
            if _uniform(key, at, 0) < asked[tokens[at]]:
                own, length = rows[bounds[s] :], end - start
                place = key, at, len(asked), buckets, dropout
                ends[k + 1] = _mask(own, length, at - start, *place, without, ends[k], instead[k])
                _draw_outputs(tokens[at], at, key, table, outputs[k])
                k += 1
        s += 1
        first[s] = k
    return rows, bounds, first, without, ends, instead, outputs


@_kernel
def _fill(tokens, start, end, words, buckets, rows, filled):
    """Write the rows of a sentence; return where they end."""
    for i in range(start, end):
        rows[filled] = tokens[i]
        filled += 1
    if buckets:
        for i in range(start, end - 1):
            rows[filled] = bigram_row(tokens[i], tokens[i + 1], words, buckets)
            filled += 1
    return filled


@_kernel
def _mask(rows, length, i, key, at, words, buckets, dropout, without, filled, instead):
    """Mask word i: write to `without` the rows that are not in its context (the word, its bigrams and up to `dropout`
    random bigrams), and to `instead` the rows of the mask. Return where `without` ends."""
    masked = words  # the index of the mask as a word: after all others
    without[filled] = rows[i]
    filled += 1
    instead[0], instead[1], instead[2] = words + buckets, -1, -1
    if not buckets:
        return filled
    left = length - 1
    drop = min(dropout, left)
    for j in range(length - 1):
        dropped = _uniform(key, at, j + 1) * left < drop  # drops exactly that many
        drop -= dropped
        left -= 1
        if dropped or j == i or j + 1 == i:
            without[filled] = rows[length + j]
            filled += 1
        if not dropped and j + 1 == i:
            instead[1] = bigram_row(rows[j], masked, words, buckets)
        if not dropped and j == i:
            instead[2] = bigram_row(masked, rows[j + 1], words, buckets)
    return filled


@_kernel
def _draw_outputs(target, at, key, table, outputs):
    outputs[0] = target
    turn = 0
    for n in range(1, len(outputs)):
        word = target
        while word == target:
            turn += 1
            word = table[np.int64(_uniform(~key, at, turn) * len(table))]
        outputs[n] = word


# --- Training --------------------------------------------------------------------------------------------------------


class Model(NamedTuple):
    table: np.ndarray  # float32 [V + buckets + 1, E], the last for the mask
    outputs: np.ndarray  # float32 [V, E]

    @classmethod
    def new(cls, words: int, dim: int, buckets: int, seed: int) -> Model:
        """Initialise the inputs uniformly in ±1/dim and the outputs with 0."""
        table = np.random.Generator(np.random.Philox(seed)).random((words + buckets + 1, dim), np.float32)
        table *= np.float32(2 / dim)
        table -= np.float32(1 / dim)
        return cls(table, np.zeros((words, dim), np.float32))


@_summing
def _compute_updates(
    table, vectors, rows, bounds, first, without, ends, instead, outputs, rate, hidden, steps, factors, losses
):
    """Compute for the targets of some sentences: h, the update of each row of the context, and the factor of h in the
    update of each output. The rows of a sentence are summed once; each target subtracts what its context lacks."""
    e = table.shape[1]
    whole = np.empty(e, np.float32)
    for s in range(len(first) - 1):
        whole[:] = 0
        for at in range(bounds[s], bounds[s + 1]):
            row = table[rows[at]]
            for j in range(e):
                whole[j] += row[j]
        for k in range(first[s], first[s + 1]):
            h, step = hidden[k], steps[k]
            h[:] = whole
            step[:] = 0
            for at in range(ends[k], ends[k + 1]):
                row = table[without[at]]
                for j in range(e):
                    h[j] -= row[j]
            size = bounds[s + 1] - bounds[s] - ends[k + 1] + ends[k]
            for at in instead[k]:
                if at >= 0:
                    size += 1
                    for j in range(e):
                        h[j] += table[at, j]
            share = np.float32(1) / np.float32(size)
            for j in range(e):
                h[j] *= share
            losses[k] = _target_loss(vectors, outputs[k], rate, h, step, factors[k])
            for j in range(e):
                step[j] *= share


@_summing
def _target_loss(vectors, outputs, rate, h, step, factors):
    """Return the loss of a target; add up the update of h in `step`."""
    loss = np.float32(0)
    for n in range(len(outputs)):
        o = vectors[outputs[n]]
        dot = np.float32(0)
        for j in range(len(h)):
            dot += o[j] * h[j]
        wrong = -dot if n == 0 else dot
        loss += max(wrong, np.float32(0)) + np.log1p(np.exp(-abs(wrong)))
        factors[n] = rate * (np.float32(n == 0) - np.float32(1) / (np.float32(1) + np.exp(-dot)))
        for j in range(len(h)):
            step[j] += factors[n] * o[j]
    return loss


@_kernel
def _apply_updates(
    table, vectors, rows, bounds, first, without, ends, instead, outputs, hidden, steps, factors, begin, end
):
    """Add the updates of all targets, in order, to the dimensions begin to end - 1."""
    total = np.empty(end - begin, np.float32)
    for s in range(len(first) - 1):
        total[:] = 0
        for k in range(first[s], first[s + 1]):
            for j in range(begin, end):
                total[j - begin] += steps[k, j]
        for at in range(bounds[s], bounds[s + 1]):
            row = table[rows[at]]
            for j in range(begin, end):
                row[j] += total[j - begin]
        for k in range(first[s], first[s + 1]):
            for at in range(ends[k], ends[k + 1]):
                row = table[without[at]]
                for j in range(begin, end):
                    row[j] -= steps[k, j]
            for at in instead[k]:
                if at >= 0:
                    for j in range(begin, end):
                        table[at, j] += steps[k, j]
            for n in range(outputs.shape[1]):
                o = vectors[outputs[k, n]]
                for j in range(begin, end):
                    o[j] += factors[k, n] * hidden[k, j]


def step(model: Model, targets: Targets, rate: float) -> float:
    """Update the model with these targets together; return the sum of their losses before the update."""
    n, e = len(targets.outputs), model.table.shape[1]
    hidden, steps = np.empty((n, e), np.float32), np.empty((n, e), np.float32)
    factors, losses = np.empty(targets.outputs.shape, np.float32), np.empty(n)
    jobs: list[Any] = []
    for start in range(0, len(targets.first) - 1, _JOB):
        end = min(start + _JOB, len(targets.first) - 1)
        some = slice(targets.first[start], targets.first[end])
        scratch = (array[some] for array in (hidden, steps, factors, losses))
        jobs.append((*model, *targets.some(start, end), np.float32(rate), *scratch))
    threads.run(_compute_updates, jobs)
    width = -(-e // threads.available()) if n >= _SHARED else e
    width += -width % _LANES
    found = hidden, steps, factors
    threads.run(_apply_updates, [(*model, *targets, *found, at, min(at + width, e)) for at in range(0, e, width)])
    return float(losses.sum())


def fit(
    model: Model, text: Coded, drawing: Drawing, epochs: int, rate: float, seed: int, display: Display
) -> list[float]:
    """Train the model in place; return the mean loss per target of each epoch."""
    losses: list[float] = []
    size = drawing.batch(text, rate)
    with display.bar("training", epochs * len(text), "sentences") as meter:
        for epoch in range(epochs):
            total, asked, done = 0.0, 0, epoch * len(text)
            key = np.random.SeedSequence([seed, epoch]).generate_state(1, np.uint64)[0]
            for chosen in shuffled_batches(len(text), CHUNK, seed, epoch):
                targets = Targets(*_draw(text.tokens, text.offsets, chosen, key, *drawing))
                here = rate * (1 - done / (epochs * len(text)))
                for start in range(0, len(targets.first) - 1, size):
                    total += step(model, targets.some(start, min(start + size, len(targets.first) - 1)), here)
                asked, done = asked + len(targets.outputs), done + len(chosen)
                meter(done, figures={"epoch": f"{epoch + 1}", "loss": f"{total / max(asked, 1):.4f}"})
            losses.append(total / max(asked, 1))
            check_finite(losses[-1])
    return losses
