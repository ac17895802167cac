"""Seconds for a map of 5,000 rows, compared with a Python that imports NumPy and Numba and nothing else.

    python -m benchmarks.map [--rows 5000]

The layout is checked first: the same twice, and much closer to the neighbourhoods of the vectors than two principal
components are. Each map is drawn by `banyan map` in a new process.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np

from banyan.search.layout import nearest_points
from banyan.search.maps import laid_out
from benchmarks.common import best, report, sentences
from benchmarks.search import made, run
from experiments.data import add_data_option


def kept(vectors: np.ndarray, places: np.ndarray) -> float:
    """The share of the nearest neighbours of each vector that are among the nearest in the plane."""
    (true, _), (found, _) = nearest_points(vectors), nearest_points(places.astype(np.float32))
    return float(np.mean([len(set(a) & set(b)) / len(a) for a, b in zip(true.tolist(), found.tolist(), strict=True)]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=5000)
    add_data_option(parser)
    options = parser.parse_args()
    text, source = sentences(options.rows, options.data)
    with tempfile.TemporaryDirectory() as folder:
        _, index = made(text, Path(folder))
        vectors = np.concatenate([some for _, some in index.rows.vectors()])
        places = laid_out(vectors, "umap")
        assert np.array_equal(places, laid_out(vectors, "umap"))
        shares = kept(vectors, places), kept(vectors, laid_out(vectors, "pca"))
        assert shares[0] > 2 * shares[1]
        command = ["-m", "banyan", "map", str(index.folder), "-o", f"{folder}/map.html"]
        took = best(lambda: run(*command), 2)
        imports = best(lambda: run("-c", "import numpy, numba"), 3)
    rows = [{"rows": options.rows, "banyan map, s": took, "imports of NumPy and Numba, s": imports}]
    report({"a map": rows}, text=source, ratio=took / imports, neighbours_kept=shares[0], kept_by_pca=shares[1])


if __name__ == "__main__":
    main()
