"""The rows of a small index as arrays in memory, for exact search without LanceDB.

    index/memory/rows.arrow    the rows of the table
    index/memory/words.arrow   the BM25 weight of every word in every row; not if the index has a language
    index/memory/SHA256SUMS    for `banyan check`

Importing LanceDB takes two seconds, and a query tens of milliseconds. These files are mapped, so that only what a query
reads is loaded. They carry a stamp of the table's version: files with another stamp are never used.
"""

from __future__ import annotations

import copy
import hashlib
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from banyan.search import rows as search_rows
from banyan.search.bm25 import Words, word_index
from banyan.support import checksums, files
from banyan.support.needs import needs

if TYPE_CHECKING:
    import pyarrow

    from banyan.search.rows import Rows

MOST_BYTES = 1 << 29  # of vectors, and of texts
FOLDER, ROWS, WORDS = "memory", "rows.arrow", "words.arrow"
ROUNDING = 1e-5  # more than a cosine in float32 is off


class Memory:
    def __init__(self, rows: pyarrow.RecordBatch, words: Words | None) -> None:
        self.version = int(rows.schema.metadata[b"version"])  # of the table
        self.words = words
        self.ids = _numbers(rows.column("_rowid"), np.uint64)
        vectors, dim = rows.column("vector"), rows.column("vector").type.list_size
        numbers = vectors.values.slice(vectors.offset * dim, len(vectors) * dim)  # `flatten` would import much
        self._vectors = _numbers(numbers, np.float32).reshape(-1, dim)
        self._rows = rows.drop_columns(["_rowid", "vector"])

    def __len__(self) -> int:
        return len(self.ids)

    def texts(self) -> list[str]:
        return self._rows.column("text").to_pylist()

    def with_vectors(self, vectors: np.ndarray) -> Memory:
        """Return the same rows with the vectors of another model."""
        other = copy.copy(self)
        other._vectors = vectors
        return other

    def nearest(self, vector: np.ndarray, k: int, among: np.ndarray | None = None) -> np.ndarray:
        """Return the positions of the k rows with the largest dot product, and of rows that may tie with the last.

        among: whether to consider each row; None for all."""
        return _best(self._vectors @ vector, k, among, ROUNDING)

    def matching(self, query: str, k: int, among: np.ndarray | None = None) -> dict[int, float]:
        """Return positions and BM25 of the k best rows."""
        assert self.words is not None
        scores = self.words.scores(query, len(self))
        found = scores > 0
        places = _best(scores, k, found if among is None else found & among)
        best = places[np.lexsort((places, -scores[places]))][:k]
        return {int(place): float(scores[place]) for place in best}

    def cosines(self, places: np.ndarray, vector: np.ndarray) -> np.ndarray:
        """Return dot products in float64. Equal rows get equal bits."""
        exact = vector.astype(np.float64)
        return np.array([np.dot(row, exact) for row in self._vectors[places].astype(np.float64)])

    def take(self, places: list[int]) -> list[dict[str, Any]]:
        """Return rows without their vectors."""
        return [self._rows.slice(place, 1).to_pylist()[0] for place in places]  # `take` would import pandas


def _best(scores: np.ndarray, k: int, among: np.ndarray | None, margin: float = 0.0) -> np.ndarray:
    """Return the positions of the k best scores, and of scores less than `margin` below the last of them."""
    places = np.arange(len(scores)) if among is None else np.flatnonzero(among)
    if len(places) <= k:
        return places
    considered = scores[places]
    return places[considered >= np.partition(considered, -k)[-k] - margin]


# --- Files -----------------------------------------------------------------------------------------------------------


def table_stamp(folder: Path) -> str:
    """Return a hash of the table's versions and of the manifest of the latest one; "" if there is no table."""
    try:
        manifests = sorted((folder / "rows.lance" / "_versions").iterdir())
        digest = hashlib.sha256("\n".join(path.name for path in manifests).encode())
        digest.update(manifests[0].read_bytes())  # Lance counts file names downwards
        return digest.hexdigest()
    except (OSError, IndexError):
        return ""


def fits(rows: Rows) -> bool:
    n = len(rows)
    return n < search_rows.APPROXIMATE_FROM and 4 * n * rows.dim <= MOST_BYTES


def read(folder: Path, private: bool = False) -> Memory | None:
    """Return the arrays of an index, or None if they are missing, stale or damaged. private: copied, not mapped."""
    stamp = table_stamp(folder)
    rows = _opened(folder / FOLDER / ROWS, stamp, private)
    if rows is None:
        return None
    words = None
    if rows.schema.metadata[b"words"] == b"True":
        found = _opened(folder / FOLDER / WORDS, stamp, private)
        if found is None:
            return None
        kinds = {"begins": np.int64, "row": np.int32, "weight": np.float32}
        arrays = (_numbers(found.column(name).values, kind) for name, kind in kinds.items())
        words = Words(found.column("word").values, *arrays)
    return Memory(rows, words)


def write(folder: Path, rows: Rows, language: str | None) -> None:
    """Write the arrays of an index that no other process writes to; remove them if it has become too large."""
    with needs("An index", "search"):
        import pyarrow as pa
    target = folder / FOLDER
    if not fits(rows):
        shutil.rmtree(target, ignore_errors=True)
        return
    stamp = table_stamp(folder)
    if read(folder) is not None:
        return
    table = rows.whole().combine_chunks()
    texts = table.column("text")
    words = language is None and texts.nbytes <= MOST_BYTES
    marks = {"stamp": stamp, "version": str(rows.version), "words": str(words)}
    target.mkdir(exist_ok=True)
    (target / checksums.SUMS).unlink(missing_ok=True)
    if words:
        columns = {name: pa.array([values]) for name, values in word_index(texts.to_pylist()).items()}
        _write(target / WORDS, pa.table(columns), marks)
    else:
        (target / WORDS).unlink(missing_ok=True)
    _write(target / ROWS, table, marks)
    checksums.write(target, (ROWS, WORDS))


def remove(folder: Path) -> None:
    """Remove the arrays of an index. The next search writes them anew."""
    with files.locked(folder / files.LOCK, f"another process is writing to {folder}: wait until it has ended"):
        files.remove(folder / FOLDER)


def _write(path: Path, table: pyarrow.Table, marks: dict[str, str]) -> None:
    import pyarrow as pa

    table = table.replace_schema_metadata(marks)
    with files.atomic(path) as temporary, pa.ipc.new_file(str(temporary), table.schema) as out:
        out.write_table(table, max_chunksize=max(len(table), 1))


def _opened(path: Path, stamp: str, private: bool) -> pyarrow.RecordBatch | None:
    if not stamp or not path.is_file():
        return None
    with needs("An index", "search"):
        import pyarrow as pa
    try:
        file = pa.ipc.open_file(pa.py_buffer(path.read_bytes()) if private else pa.memory_map(str(path)))
        if (file.schema.metadata or {}).get(b"stamp") != stamp.encode() or file.num_record_batches != 1:
            return None
        return file.get_batch(0)
    except (OSError, pa.ArrowException):
        return None


def _numbers(values: pyarrow.Array, kind: type) -> np.ndarray:
    """Return an Arrow array as a NumPy array. `to_numpy` would import pandas."""
    return np.frombuffer(values.buffers()[1], kind, len(values), values.offset * np.dtype(kind).itemsize)
