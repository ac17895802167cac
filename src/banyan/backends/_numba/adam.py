"""One step of Adam on some rows of a matrix, and how far they have moved."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from banyan.backends._numba.compiling import kernel, summing
from banyan.support import threads

ROWS = 512  # per job


@kernel
def _chained(n, indices):
    """The gradient rows of each of n matrix rows, as lists: the first one, and the one after each; -1 ends a list."""
    first, following = np.full(n, -1, np.int32), np.empty(len(indices), np.int32)
    for i in range(len(indices) - 1, -1, -1):
        following[i], first[indices[i]] = first[indices[i]], i
    return first, following


@summing
def _step(weights, averages, squares, rows, gradients, first, following, before, rates, start, end):
    rate, beta1, beta2, correction, epsilon, pull = rates
    columns, one = np.uint64(weights.shape[1]), weights.dtype.type(1)
    sums = np.zeros(columns, weights.dtype)
    for r in range(start, end):
        row = rows[r]
        for j in range(columns):
            sums[j] = pull * (weights[row, j] - before[row, j])
        i = first[row]
        while i >= 0:
            for j in range(columns):
                sums[j] += gradients[i, j]
            i = following[i]
        for j in range(columns):
            g = sums[j]
            averages[row, j] += (one - beta1) * (g - averages[row, j])
            squares[row, j] = beta2 * squares[row, j] + (one - beta2) * g * g
            weights[row, j] -= rate * averages[row, j] / (np.sqrt(squares[row, j]) * correction + epsilon)


class How(NamedTuple):
    number: int  # of the step, from 1
    lr: float
    beta1: float
    beta2: float
    epsilon: float


def step(
    weights: np.ndarray,
    averages: np.ndarray,
    squares: np.ndarray,
    rows: np.ndarray,
    indices: np.ndarray,
    gradients: np.ndarray,
    how: How,
    before: np.ndarray,
    pull: float,
) -> None:
    """Change these rows of the weights [V, E] and of the averages of their gradients and of the squares, in place.

    rows: int64, distinct. indices, gradients: the rows with gradients, which may repeat and must be in `rows`, and the
    gradients [n, E]. before, pull: pull · (weights - before) is added to the gradients."""
    rate = how.lr / (1 - how.beta1**how.number)
    correction = (1 - how.beta2**how.number) ** -0.5
    rates = tuple(map(weights.dtype.type, (rate, how.beta1, how.beta2, correction, how.epsilon, pull)))
    fixed = weights, averages, squares, rows, gradients, *_chained(len(weights), indices), before, rates
    threads.run(_step, [(*fixed, *job) for job in _jobs(rows)])


@summing
def _squares_apart(weights, before, rows, start, end):
    total = 0.0
    for r in range(start, end):
        row, of_row = rows[r], weights.dtype.type(0)
        for j in range(np.uint64(weights.shape[1])):
            apart = weights[row, j] - before[row, j]
            of_row += apart * apart
        total += of_row
    return total


def squared_distance(weights: np.ndarray, before: np.ndarray, rows: np.ndarray) -> float:
    """Between these rows of two matrices."""
    return sum(threads.run(_squares_apart, [(weights, before, rows, *job) for job in _jobs(rows)]))


def _jobs(rows: np.ndarray) -> list[tuple[np.uint64, np.uint64]]:
    bounds = range(0, len(rows), ROWS)
    return [(np.uint64(start), np.uint64(min(start + ROWS, len(rows)))) for start in bounds]
