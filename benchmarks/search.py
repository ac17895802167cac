"""Milliseconds per query of an index of 20,000 rows, compared with NumPy's own search over the same vectors.

    python -m benchmarks.search [--rows 20000] [--queries 50]

The model has random weights. The hits are checked first: those by vectors against all cosines, and those by words
against LanceDB. The last figure is one `banyan search` in a new process, compared with a Python that imports NumPy and
Numba and nothing else.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from banyan.encoder import Banyan
from banyan.search.index import Index, Maker
from banyan.search.searching import Searcher
from banyan.support.rows import unit_rows
from banyan.tokenizer import Tokenizer
from benchmarks.common import best, report, sentences
from benchmarks.encode import untrained
from experiments.data import add_data_option


def made(text: list[str], folder: Path) -> tuple[Banyan, Index]:
    untrained(Tokenizer.train(text, kind="bpe", vocab_size=25_000)).save_pretrained(folder / "model")
    model = Banyan.from_pretrained(folder / "model")
    (folder / "text.txt").write_text("\n".join(text), encoding="utf-8")
    with Index.writing(folder / "index", Maker.of(model, folder / "model")) as index:
        index.add(model.encode, [str(folder / "text.txt")])
    return model, Index.open(folder / "index")


def check(searcher: Searcher, model: Banyan, vectors: np.ndarray, queries: list[str]) -> None:
    assert searcher.index.memory is not None
    on_disk = Index.open(searcher.index.folder)
    on_disk.memory = None
    for query in queries[:20]:
        cosines = np.sort(vectors @ unit_rows(model.encode([query]))[0])[::-1]
        hits = searcher.rank(query, mode="vectors")
        np.testing.assert_allclose([hit.cosine for hit in hits], cosines[: len(hits)], atol=1e-5)
        theirs = Searcher(on_disk, model.encode).rank(query, mode="words")
        ours = searcher.rank(query, mode="words")
        np.testing.assert_allclose([hit.score for hit in ours], [hit.score for hit in theirs], rtol=1e-5)


def p50(function: Callable[[str], Any], queries: list[str]) -> float:
    """The median time of a query, in milliseconds."""
    times = []
    for query in queries:
        start = time.perf_counter()
        function(query)
        times.append(time.perf_counter() - start)
    return 1e3 * statistics.median(times)


def run(*arguments: str) -> None:
    subprocess.run([sys.executable, *arguments], check=True, capture_output=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--queries", type=int, default=50)
    add_data_option(parser)
    options = parser.parse_args()
    text, source = sentences(options.rows, options.data)
    queries = [" ".join(line.split()[2:7]) for line in text[:: max(len(text) // options.queries, 1)]]
    with tempfile.TemporaryDirectory() as folder:
        model, index = made(text, Path(folder))
        searcher = Searcher(index, model.encode, model.explain)
        vectors = unit_rows(model.encode(text))
        check(searcher, model, vectors, queries)

        def numpy_search(query: str) -> np.ndarray:
            return np.argsort(-(vectors @ unit_rows(model.encode([query]))[0]))[:10]

        ways: dict[str, Callable[[str], Any]] = {
            "NumPy": numpy_search,
            "vectors": lambda query: searcher.rank(query, mode="vectors"),
            "words": lambda query: searcher.rank(query, mode="words"),
            "both": searcher.rank,
            "both, with highlights": searcher.search,
        }
        times = {name: p50(way, queries) for name, way in ways.items()}
        shell = ["-m", "banyan", "search", str(index.folder), queries[0]]
        one = best(lambda: run(*shell), 3)
        imports = best(lambda: run("-c", "import numpy, numba"), 3)
    rows = [{"10 best by": name, "p50 ms": took, "times NumPy": took / times["NumPy"]} for name, took in times.items()]
    report(
        {f"{options.rows:,} rows, {model.dim} dimensions": rows},
        text=source,
        banyan_search_s=one,
        imports_of_numpy_and_numba_s=imports,
        banyan_search_to_imports=one / imports,
    )


if __name__ == "__main__":
    main()
