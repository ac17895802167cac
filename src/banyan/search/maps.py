"""A collection as a map: similar texts are close together, and colours show clusters."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from banyan.errors import BanyanError
from banyan.search.clusters import divided, suitable, typical_phrases, vectors_of
from banyan.search.layout import NEIGHBOURS, placed
from banyan.search.map_page import map_page
from banyan.search.rows import Rows
from banyan.support.drawing import shorten, visible

MOST = 20_000  # points: as many as a browser draws smoothly
LONGEST_TEXT = 300  # characters in the tooltip of a point
METHODS = ("umap", "pca")
PRINCIPAL = 50  # principal components given to UMAP
EDGE = 65_535  # the size of the map, in integer units


def map_of(
    rows: Rows,
    title: str,
    clusters: int | None = None,
    where: str | None = None,
    method: str = "umap",
    most: int = MOST,
    seed: int = 0,
) -> str:
    """Return a self-contained HTML page. If there are more than `most` rows, a random sample of that size is drawn."""
    if method not in METHODS:
        raise BanyanError(f"there is no method {method!r}: choose one of {', '.join(METHODS)}")
    with vectors_of(rows, where) as (ids, vectors):
        chosen = np.arange(len(ids))
        if len(ids) > most:
            chosen = np.sort(np.random.default_rng(seed).choice(len(ids), most, replace=False))
        ids, sample = ids[chosen], np.array(vectors[chosen])
    labels, _ = divided(sample, clusters or suitable(len(sample)), seed)
    found = rows.take(ids, ["text", "source", "row"])
    texts: dict[int, list[str]] = {number: [] for number in range(1, labels.max() + 1)}
    for label, row in zip(labels.tolist(), found, strict=True):
        texts[label].append(row["text"])
    phrases = typical_phrases(texts, 3)
    names = {number: ", ".join(said) or f"cluster {number}" for number, said in phrases.items()}
    places = laid_out(sample, method, seed)
    data = {
        "x": places[:, 0].tolist(),
        "y": places[:, 1].tolist(),
        "cluster": labels.tolist(),
        "text": [shorten(visible(row["text"]), LONGEST_TEXT) for row in found],
        "place": [f"{Path(row['source']).name}:{row['row']}" for row in found],
        "clusters": [{"number": n, "name": name, "size": len(texts[n])} for n, name in names.items()],
    }
    return map_page(title, data)


def laid_out(vectors: np.ndarray, method: str, seed: int = 0) -> np.ndarray:
    """Return positions in the plane, integers [n, 2] from 0 to 65535."""
    reduced = _principal(vectors, PRINCIPAL if method == "umap" else 2)
    if method == "umap" and len(vectors) > NEIGHBOURS and reduced.shape[1] > 1:
        reduced = placed(reduced, reduced[:, :2], seed)
    plane = np.zeros((len(vectors), 2))
    plane[:, : min(2, reduced.shape[1])] = reduced[:, :2]
    low, high = plane.min(0), plane.max(0)
    return np.round((plane - low) / max(float((high - low).max()), 1e-9) * EDGE).astype(int)


def _principal(vectors: np.ndarray, most: int) -> np.ndarray:
    """Return the first principal components of the vectors [n, at most `most`]."""
    centred = vectors - vectors.mean(0, dtype=np.float64)
    _, axes = np.linalg.eigh(centred.T @ centred)
    axes = axes[:, ::-1][:, :most]  # largest first
    largest = np.abs(axes).argmax(0)
    return centred @ (axes * np.sign(axes[largest, np.arange(axes.shape[1])]))
