"""One step of Adam on some rows of a matrix."""

from __future__ import annotations

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
def _step(weights, averages, squares, rows, gradients, first, following, rates, start, end):
    rate, beta1, beta2, correction, epsilon = rates
    columns, one = np.uint64(weights.shape[1]), weights.dtype.type(1)
    sums = np.empty(columns, weights.dtype)
    for r in range(start, end):
        row = rows[r]
        for j in range(columns):
            sums[j] = 0
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


def step(
    weights: np.ndarray,
    averages: np.ndarray,
    squares: np.ndarray,
    rows: np.ndarray,
    indices: np.ndarray,
    gradients: np.ndarray,
    number: int,
    lr: float,
    betas: tuple[float, float],
    epsilon: float,
) -> None:
    """Change these rows of the weights [V, E] and of the averages of their gradients and of the squares, in place.

    rows: int64, distinct. indices, gradients: the rows with gradients, which may repeat and must be in `rows`, and the
    gradients [n, E]. number: of the step, from 1."""
    rate = lr / (1 - betas[0] ** number)
    correction = (1 - betas[1] ** number) ** -0.5
    rates = tuple(weights.dtype.type(value) for value in (rate, *betas, correction, epsilon))
    fixed = weights, averages, squares, rows, gradients, *_chained(len(weights), indices), rates
    bounds = range(0, len(rows), ROWS)
    threads.run(_step, [(*fixed, np.uint64(start), np.uint64(min(start + ROWS, len(rows)))) for start in bounds])
