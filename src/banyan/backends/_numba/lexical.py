"""The lexical dimensions of embeddings: sums of the tokens' sketches (banyan.model.lexical)."""

from __future__ import annotations

import math

import numpy as np

from banyan.backends._numba.compiling import kernel, summing
from banyan.model.graph import runs_of_sentences
from banyan.support import threads

TINY = 1e-60  # the square of a norm that float32 cannot divide by


@kernel
def _add(tokens, offsets, table, weight, first, end, out):
    """Write the sums of sentences first..end to the last columns of their rows, and scale both parts to their norms."""
    size = np.uint64(table.shape[1])
    beside = np.uint64(out.shape[1]) - size
    sums = np.zeros(table.shape[1], np.int32)
    for sentence in range(first, end):
        sums[:] = 0
        for at in range(offsets[sentence], offsets[sentence + 1]):
            token = tokens[at]
            for column in range(size):
                sums[column] += table[token, column]
        for column in range(size):
            out[sentence, beside + column] = sums[column]
        scale(out[sentence, :beside], 1.0)
        scale(out[sentence, beside:], weight)


@summing
def scale(part, length):
    """Scale a vector to the norm `length`; a vector that is zero, or nearly so, becomes zero."""
    square = 0.0
    for column in range(len(part)):
        square += np.float64(part[column]) * part[column]
    factor = np.float32(length / math.sqrt(square)) if square > TINY else np.float32(0)
    for column in range(len(part)):
        part[column] *= factor


@kernel
def scale_rows(out, size, weight):
    """Scale both parts of every row to their norms; the second part has `size` columns."""
    for row in range(len(out)):
        scale(out[row, :-size], 1.0)
        scale(out[row, -size:], weight)


class LexicalSums:
    """Adds the lexical dimensions to embeddings whose first columns are roots."""

    def __init__(self, table: np.ndarray, weight: float) -> None:
        self.table, self.weight = table, weight

    def put(self, tokens: np.ndarray, offsets: np.ndarray, out: np.ndarray, n_threads: int | None = None) -> None:
        fixed = tokens, offsets, self.table, self.weight
        threads.run(_add, [(*fixed, *run, out) for run in runs_of_sentences(offsets, 8192)], n_threads)
