"""A collection as a map: similar texts are close together, and clusters have names."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from banyan.errors import BanyanError
from banyan.explorer import map_page
from banyan.search.clusters import divided, phrases_of, suitable, vectors_of
from banyan.search.layout import NEIGHBOURS, nearest_among, placed
from banyan.search.rows import Rows
from banyan.support.drawing import shorten, visible
from banyan.support.rows import slices

MOST = 20_000  # points of a page, which has their texts, too
LONGEST_TEXT = 300  # characters of a text on the map
LONGEST_VALUE = 60  # characters of a column's value
METHODS = ("umap", "pca")
PRINCIPAL = 50  # principal components given to UMAP
LAID_OUT = 20_000  # points that UMAP places; others are placed between those that they are nearest to
INSIDE, NEARER = 0.9, 0.3  # points farther out than this share of them are drawn nearer: a logarithm, times this
EDGE = 65_535  # the size of the map, in integer units
CELLS = 24  # of the map, along an edge, to find where a cluster is densest
_AT_ONCE = 4096


@dataclass(frozen=True)
class Map:
    """Rows in the plane."""

    ids: np.ndarray  # uint64 [n]: row ids, rising
    places: np.ndarray  # int [n, 2], from 0 to EDGE
    labels: np.ndarray  # the cluster of each, from 1
    clusters: list[dict[str, Any]]  # number, name, size, and x and y of where it is densest
    rows: int  # in the collection; a map may be of a sample

    def to_json(self) -> dict[str, Any]:
        x, y = self.places.T.tolist()
        return {"x": x, "y": y, "cluster": self.labels.tolist(), "clusters": self.clusters, "rows": self.rows}


def drawn_map(
    rows: Rows,
    clusters: int | None = None,
    where: str | None = None,
    method: str = "umap",
    most: int = MOST,
    seed: int = 0,
) -> Map:
    """Lay out a collection. If there are more than `most` rows, a random sample of that size is drawn."""
    if method not in METHODS:
        raise BanyanError(f"there is no method {method!r}: choose one of {', '.join(METHODS)}")
    with vectors_of(rows, where) as (ids, vectors):
        total, chosen = len(ids), np.argsort(ids, kind="stable")
        if total > most:
            chosen = chosen[np.sort(np.random.default_rng(seed).choice(total, most, replace=False))]
        ids, sample = ids[chosen], np.array(vectors[chosen])
    labels, _ = divided(sample, clusters or suitable(len(sample)), seed)
    places = laid_out(sample, method, seed)
    names = phrases_of(rows, ids, labels, seed, most=3)
    return Map(ids, places, labels, [_cluster(n, names[n], places[labels == n]) for n in names], total)


def _cluster(number: int, phrases: list[str], places: np.ndarray) -> dict[str, Any]:
    x, y = _densest(places).tolist()
    name = ", ".join(map(visible, phrases)) or f"cluster {number}"
    return {"number": number, "name": name, "size": len(places), "x": x, "y": y}


def _densest(places: np.ndarray) -> np.ndarray:
    """Return the middle of the densest part of a cluster. Its own middle may lie between its parts, among others."""
    cells = places * CELLS // (EDGE + 1)
    counts = np.zeros((CELLS + 2, CELLS + 2), int)
    np.add.at(counts, tuple(cells.T + 1), 1)
    around = sum(counts[x : x + CELLS, y : y + CELLS] for x in range(3) for y in range(3))
    best = np.array(np.unravel_index(np.argmax(around), (CELLS, CELLS)))
    return np.median(places[(np.abs(cells - best) <= 1).all(1)], axis=0).astype(int)


def texts_of(rows: Rows, ids: np.ndarray) -> list[dict[str, str]]:
    """Return text and place of rows, for people."""
    found = rows.take(ids, ["text", "source", "row"])
    return [
        {"text": shorten(visible(row["text"]), LONGEST_TEXT), "place": f"{Path(row['source']).name}:{row['row']}"}
        for row in found
    ]


def values_of(rows: Rows, ids: np.ndarray, column: str) -> list[Any]:
    """Return the values of a column: numbers, strings and None."""
    if column not in (*rows.columns, "source"):
        raise BanyanError(f"there is no column {column!r}; there are {', '.join((*rows.columns, 'source'))}")
    return [_value(row[column]) for block in slices(len(ids), _AT_ONCE) for row in rows.take(ids[block], [column])]


def _value(value: Any) -> Any:
    return value if value is None or isinstance(value, int | float) else shorten(visible(str(value)), LONGEST_VALUE)


def map_of(rows: Rows, title: str, *given: Any, **options: Any) -> str:
    """Return a self-contained HTML page. given, options: as those of `drawn_map`."""
    found = drawn_map(rows, *given, **options)
    columns = [*rows.columns, "source"]
    texts = [row for block in slices(len(found.ids), _AT_ONCE) for row in texts_of(rows, found.ids[block])]
    data = found.to_json() | {name: [row[name] for row in texts] for name in ("text", "place")}
    data["columns"] = {name: values_of(rows, found.ids, name) for name in columns}
    return map_page(title, data)


def laid_out(vectors: np.ndarray, method: str, seed: int = 0) -> np.ndarray:
    """Return positions in the plane, integers [n, 2] from 0 to 65535."""
    reduced = _principal(vectors, PRINCIPAL if method == "umap" else 2)
    if method == "umap" and len(vectors) > NEIGHBOURS and reduced.shape[1] > 1:
        reduced = _gathered(_placed(reduced.astype(np.float32), seed))
    plane = np.zeros((len(vectors), 2))
    plane[:, : min(2, reduced.shape[1])] = reduced[:, :2]
    low, high = plane.min(0), plane.max(0)
    return np.round((plane - low) / max(float((high - low).max()), 1e-9) * EDGE).astype(int)


def _gathered(plane: np.ndarray) -> np.ndarray:
    """Draw islands that lie far outside nearer to the middle, so that they do not take the room of all others."""
    outward = plane - np.median(plane, axis=0)
    far = np.linalg.norm(outward, axis=1, keepdims=True)
    edge = max(float(np.quantile(far, INSIDE)), 1e-9)
    beyond = np.maximum(far / edge, 1)
    return outward * (1 + NEARER * np.log(beyond)) / beyond


def _placed(points: np.ndarray, seed: int) -> np.ndarray:
    """Place points with UMAP; of many, a sample, and each other one near the sample's points that are nearest to it."""
    if len(points) <= LAID_OUT:
        return placed(points, points[:, :2], seed)
    rng = np.random.default_rng(seed)
    chosen = np.sort(rng.choice(len(points), LAID_OUT, replace=False))
    some = placed(points[chosen], points[chosen, :2], seed)
    plane = np.empty((len(points), 2), np.float32)
    plane[chosen] = some
    others = np.setdiff1d(np.arange(len(points)), chosen)
    near, far = nearest_among(points[others], points[chosen], 3)
    weights = (1 / np.maximum(far, 1e-6)) ** 2
    weights /= weights.sum(1, keepdims=True)
    first = some[near[:, 0]]  # not a mean of all: it would lie between two groups
    close = np.linalg.norm(some[near] - first[:, None], axis=2) < 1.0
    weights *= close
    plane[others] = (weights[..., None] * some[near]).sum(1) / weights.sum(1, keepdims=True)
    plane[others] += rng.normal(scale=0.05, size=(len(others), 2))
    return plane


def _principal(vectors: np.ndarray, most: int) -> np.ndarray:
    """Return the first principal components of the vectors [n, at most `most`]."""
    centred = vectors - vectors.mean(0, dtype=np.float64)
    _, axes = np.linalg.eigh(centred.T @ centred)
    axes = axes[:, ::-1][:, :most]  # largest first
    largest = np.abs(axes).argmax(0)
    return centred @ (axes * np.sign(axes[largest, np.arange(axes.shape[1])]))
