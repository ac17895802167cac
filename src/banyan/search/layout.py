"""UMAP (McInnes, Healy and Melville, 2018) in NumPy: places in the plane that keep neighbours together.

umap-learn needs a minute to compile before it places the first text. For the tens of thousands of points of a map,
array operations are fast enough. Instead of one edge after another, each step moves all points of a share of the edges.
"""

from __future__ import annotations

import numpy as np

from banyan.support.rows import slices

NEIGHBOURS = 15
A, B = 1.7502, 0.8421  # the curve 1 / (1 + A d^2B) that fits min_dist 0.05 and spread 1
EPOCHS = 200
NEGATIVES = 5  # repelling points per edge
SHARES = 10  # steps per epoch
CLIP = 4.0  # the longest pull or push in a dimension
_BLOCK = 1024


def placed(points: np.ndarray, start: np.ndarray, seed: int = 0) -> np.ndarray:
    """Return places in the plane [n, 2]. start: initial places."""
    rng = np.random.default_rng(seed)
    heads, tails, weights = _graph(*nearest_points(points.astype(np.float32)), len(points))
    plane = (10 * start / max(np.abs(start).max(), 1e-9)).astype(np.float32)
    plane += rng.normal(scale=1e-4, size=plane.shape).astype(np.float32)  # equal points come apart
    for epoch in range(EPOCHS):
        rate = np.float32(1 - epoch / EPOCHS)
        chosen = rng.permutation(np.flatnonzero(rng.random(len(weights)) < weights))
        for share in np.array_split(chosen, SHARES):
            _step(plane, heads[share], tails[share], rate, rng)
    return plane


def _step(plane: np.ndarray, heads: np.ndarray, tails: np.ndarray, rate: np.float32, rng: np.random.Generator) -> None:
    """Pull the ends of some edges together, and push each head away from random points, in place."""
    n = len(plane)
    apart = plane[heads] - plane[tails]
    square = np.maximum((apart * apart).sum(1), 1e-12)
    power = square**B
    pull = np.clip((-2 * A * B * power / square / (1 + A * power))[:, None] * apart, -CLIP, CLIP)
    pushed = np.repeat(heads, NEGATIVES)
    away = plane[pushed] - plane[rng.integers(0, n, len(pushed))]
    square = (away * away).sum(1)
    push = np.clip((2 * B / ((0.001 + square) * (1 + A * square**B)))[:, None] * away, -CLIP, CLIP)
    ends = np.concatenate([heads, tails, pushed])
    for axis in (0, 1):
        moves = np.concatenate([pull[:, axis], -pull[:, axis], push[:, axis]])
        plane[:, axis] += rate * np.bincount(ends, moves, n)


def nearest_points(points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the nearest points of each point and their Euclidean distances [n, NEIGHBOURS - 1], nearest first."""
    n, k = len(points), min(NEIGHBOURS - 1, len(points) - 1)  # UMAP counts the point itself
    norms = (points * points).sum(1)
    nearest, distances = np.empty((n, k), np.int64), np.empty((n, k), np.float32)
    for rows in slices(n, _BLOCK):
        squares = norms[rows, None] - 2 * points[rows] @ points.T + norms
        squares[np.arange(len(squares)), np.arange(rows.start, rows.stop)] = np.inf
        some = np.argpartition(squares, k - 1, axis=1)[:, :k]
        found = np.take_along_axis(squares, some, 1)
        order = np.argsort(found, axis=1, kind="stable")
        nearest[rows] = np.take_along_axis(some, order, 1)
        distances[rows] = np.sqrt(np.maximum(np.take_along_axis(found, order, 1), 0))
    return nearest, distances


def nearest_among(points: np.ndarray, others: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the k nearest of the others for each point, and their distances [n, k], nearest first."""
    norms = (others * others).sum(1)
    nearest, distances = np.empty((len(points), k), np.int64), np.empty((len(points), k), np.float32)
    for rows in slices(len(points), _BLOCK):
        squares = (points[rows] ** 2).sum(1)[:, None] - 2 * points[rows] @ others.T + norms
        some = np.argpartition(squares, k - 1, axis=1)[:, :k]
        found = np.take_along_axis(squares, some, 1)
        order = np.argsort(found, axis=1, kind="stable")
        nearest[rows] = np.take_along_axis(some, order, 1)
        distances[rows] = np.sqrt(np.maximum(np.take_along_axis(found, order, 1), 0))
    return nearest, distances


def _graph(nearest: np.ndarray, distances: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return edges in both directions and their weights: how likely each is to pull in an epoch."""
    excess = np.maximum(distances - distances[:, :1], 0)
    low, high = np.zeros(n), np.full(n, 1e3)
    for _ in range(64):  # find the width at which the weights of a point sum to log2(NEIGHBOURS)
        width = (low + high) / 2
        wide = np.exp(-excess / width[:, None]).sum(1) > np.log2(NEIGHBOURS)
        low, high = np.where(wide, low, width), np.where(wide, width, high)
    weights = np.exp(-excess / np.maximum((low + high) / 2, 1e-3 * distances.mean() + 1e-12)[:, None])
    own = np.repeat(np.arange(n), nearest.shape[1])
    forward, backward = own * n + nearest.ravel(), nearest.ravel() * n + own
    edges, place = np.unique(np.concatenate([forward, backward]), return_inverse=True)
    there, back = np.zeros(len(edges)), np.zeros(len(edges))
    there[place[: len(own)]], back[place[len(own) :]] = weights.ravel(), weights.ravel()
    union = there + back - there * back
    return edges // n, edges % n, union / union.max()
