"""The rows of an index: one Lance table on disk, with a full-text index and, once it is large, a vector index.

Lance is columnar and reads from disk, so a collection can be larger than memory. A write is atomic: it becomes visible
when one small file, the manifest of a version, appears. A process killed before that has written nothing.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from banyan.errors import BanyanError, first_line
from banyan.search.compounds import with_parts
from banyan.support import checksums, files
from banyan.support.needs import needs

if TYPE_CHECKING:
    import pyarrow

APPROXIMATE_FROM = 100_000  # rows; below that, every vector is compared, which takes at most about 100 ms
PROBES = 50  # partitions to search, at least
REFINED = 3000  # candidates to compare exactly, or five times k if that is more: docs/search.md
NAME = "rows"
TABLE = f"{NAME}.lance"
OWN = ("text", "source", "row", "vector")  # columns that every row has
WORDS = "_words"  # the text with the parts of compound names, for the full-text index; indexes of format 1 lack it
_ABOUT = "banyan"  # a key of the table's metadata
_LAST_BYTES = {".lance": b"LANC", ".manifest": b"LANC", ".arrow": b"ARROW1"}  # of every file of these kinds
_ADVICE = "the rows indexed so far are kept, and the same command continues"
_SOURCE = re.compile(r",? \S+\.rs:\d+:\d+")  # the line of Lance where an error arose
_OURS = re.compile(rf", `(vector|{WORDS})`|\.? Did you mean '(vector|{WORDS})'\?")  # columns that no condition is about
OLD_VERSIONS = timedelta(hours=1)  # no search takes longer than this


class Rows:
    """A table of rows: text, vector, source, row number and the columns of the source."""

    def __init__(self, folder: Path, table: Any) -> None:
        self._folder, self._table = folder, table
        self._synced = set(_files(folder))
        self._sums = checksums.read(folder / checksums.SUMS)  # none in an index of an earlier version

    @classmethod
    def create(cls, folder: Path, dim: int, language: str | None, about: dict[str, Any]) -> Rows:
        """about: what `about` returns."""
        with needs("An index", "search"):
            import pyarrow as pa
        kinds = (pa.string(), pa.string(), pa.int64(), pa.list_(pa.float32(), dim), pa.string())
        schema = pa.schema(list(zip((*OWN, WORDS), kinds, strict=True)))
        schema = schema.with_metadata({_ABOUT: json.dumps(about)})
        with _writing(folder):
            rows = cls(folder, _database(folder).create_table(NAME, schema=schema))
            rows._synced, rows._sums = set(), {"": ""}
            rows._index_words(language)
            rows._sync()
        return rows

    @property
    def about(self) -> dict[str, Any] | None:
        """What the creator of the table wrote about it; None for a table of an earlier version."""
        found = (self._table.schema.metadata or {}).get(_ABOUT.encode())
        return found and json.loads(found)

    def sources(self) -> dict[str, int]:
        """The sources, and the number of the last row of each."""
        found: dict[str, int] = {}
        with _condition(None):
            for batch in self._table.search().select(["source", "row"]).to_batches():
                for source, row in zip(*(batch.column(name).to_pylist() for name in ("source", "row")), strict=True):
                    found[source] = max(found.get(source, 0), row)
        return found

    @classmethod
    def open(cls, folder: Path) -> Rows:
        try:
            return cls(folder, _database(folder).open_table(NAME))
        except (ValueError, RuntimeError, OSError) as error:
            raise BanyanError(f"cannot read the rows of {folder}: {_told(error)}") from None

    @classmethod
    def remove_empty(cls, folder: Path) -> None:
        """Remove the table that a process killed while creating an index left: a table without rows."""
        table = folder / TABLE
        if any(table.glob("data/*")) and any(table.glob("_versions/*.manifest")) and len(cls.open(folder)):
            told = f"{folder} has rows but no index.json, which names their model and their sources"
            raise BanyanError(f"{told}: `banyan check --repair` restores it; or choose another folder")
        shutil.rmtree(table, ignore_errors=True)

    @classmethod
    def recover(cls, folder: Path) -> None:
        """Undo a write that a power cut or a full disk left incomplete, if its process ended before it noticed."""
        known = checksums.read(folder / checksums.SUMS)
        new = [path for path in _files(folder / TABLE) if str(path.relative_to(folder)) not in known]
        if known and any(map(_cut_short, new)):
            _go_back(new)

    # --- Rows in and out ---------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return self._table.count_rows()

    @property
    def version(self) -> int:
        return self._table.version

    def count(self, where: str | None = None) -> int:
        with _condition(where):
            return self._table.count_rows(where)

    @property
    def columns(self) -> dict[str, pyarrow.DataType]:
        """Name and type of the columns that come from sources."""
        return {field.name: field.type for field in self._table.schema if field.name not in (*OWN, WORDS)}

    @property
    def dim(self) -> int:
        return self._table.schema.field("vector").type.list_size

    def add_columns(self, kinds: dict[str, pyarrow.DataType]) -> None:
        """Add columns. They are null in existing rows."""
        with needs("An index", "search"):
            import pyarrow as pa
        if kinds:
            with _writing(self._folder):
                self._table.add_columns([pa.field(name, kind) for name, kind in kinds.items()])

    def append(self, columns: dict[str, Any], vectors: np.ndarray) -> None:
        """Add rows atomically. When this returns they are flushed to disk."""
        with needs("An index", "search"):
            import pyarrow as pa
        flat = pa.array(np.ascontiguousarray(vectors, np.float32).reshape(-1))
        words = pa.array([with_parts(text) for text in columns["text"].to_pylist()], pa.string())
        values = columns | {"vector": pa.FixedSizeListArray.from_arrays(flat, self.dim), WORDS: words}
        schema = self._table.schema
        missing = {field.name: pa.nulls(len(vectors), field.type) for field in schema if field.name not in values}
        with _writing(self._folder):
            self._table.add(pa.table([(values | missing)[field.name] for field in schema], schema=schema))
            self._sync()

    def delete(self, where: str) -> int:
        """Delete rows. Return how many."""
        before = len(self)
        with _condition(where):
            self._table.delete(where)
        self._sync()
        return before - len(self)

    def last(self, source: str) -> int:
        """Return the number of the last row of a source in the table, or 0."""
        found = self._table.search().where(f"source = {quoted(source)}").select(["row"])
        with _condition(None):
            return max((max(batch.column("row").to_pylist()) for batch in found.to_batches() if len(batch)), default=0)

    def scan(self, columns: Sequence[str], where: str | None = None, most: int | None = None) -> pyarrow.Table:
        """Return at most `most` rows, in the order of the table."""
        query = self._table.search().select(list(columns))
        if most is not None:
            query = query.limit(most)
        with _condition(where):
            return (query.where(where) if where else query).to_arrow()

    def whole(self) -> pyarrow.Table:
        """Return all rows of the latest version, with their ids, vectors and columns."""
        with _condition(None):
            self._table.checkout_latest()
            names = [name for name in self._table.schema.names if name != WORDS]
            return self._table.search().select(names).with_row_id(True).to_arrow()

    def ids(self, where: str) -> np.ndarray:
        """Return the ids of the rows that meet a condition."""
        with _condition(where):
            found = self._table.search().select(["row"]).where(where).with_row_id(True).to_arrow()
        return found.column("_rowid").to_numpy()

    def vectors(self, where: str | None = None) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield batches of ids [n] and vectors [n, E]."""
        query = self._table.search().select(["vector"]).with_row_id(True)
        with _condition(where):
            for batch in (query.where(where) if where else query).to_batches():
                flat = batch.column("vector").flatten().to_numpy()
                yield batch.column("_rowid").to_numpy(), flat.reshape(-1, self.dim)

    def take(self, ids: np.ndarray, columns: Sequence[str]) -> list[dict]:
        """Return the rows with these ids, in this order."""
        if not len(ids):
            return []
        query = self._table.take_row_ids([int(row) for row in ids]).select(list(columns)).with_row_id()
        with _condition(None):
            found = {row["_rowid"]: row for row in query.to_arrow().to_pylist()}
        return [found[int(row)] for row in ids]

    def texts(self, ids: np.ndarray) -> list[str]:
        return [row["text"] for row in self.take(ids, ["text"])]

    # --- Search ------------------------------------------------------------------------------------------------------

    def nearest(self, vector: np.ndarray, k: int, where: str | None = None, exact: bool = False) -> list[dict]:
        """Return the k rows with the largest dot product with `vector`."""
        query = self._table.search(vector, vector_column_name="vector", query_type="vector").distance_type("dot")
        query = query.minimum_nprobes(PROBES).maximum_nprobes(0)  # 0: as many as it takes if few rows meet `where`
        query = query.refine_factor(max(REFINED // k, 5))
        return self._found(query.bypass_vector_index() if exact else query, k, where)

    def matching(self, text: str, k: int, where: str | None = None) -> list[dict]:
        """Return the k best rows by BM25."""
        if not text.strip():
            return []
        with needs("An index", "search"):
            from lancedb.query import MatchQuery
        match: Any = MatchQuery  # its type hints require all arguments
        asked = match(with_parts(text), WORDS) if WORDS in self._table.schema.names else match(text, "text")
        return self._found(self._table.search(asked, query_type="fts"), k, where)

    def _found(self, query: Any, k: int, where: str | None) -> list[dict]:
        with _condition(where):
            query = query.where(where, prefilter=True) if where else query
            return query.limit(k).with_row_id(True).to_arrow().to_pylist()

    # --- Indexes -----------------------------------------------------------------------------------------------------

    @property
    def approximate(self) -> bool:
        return any(index.columns == ["vector"] for index in self._table.list_indices())

    def settle(self) -> None:
        """Update the indexes, merge small files and delete old versions.

        Search is correct without it, only slower: rows that are not in an index yet are compared one by one."""
        with _condition(None):
            if len(self) >= APPROXIMATE_FROM and self._outgrown():
                self._index_vectors()
            self._table.optimize(cleanup_older_than=OLD_VERSIONS)
        self._sync()

    def _outgrown(self) -> bool:
        """Whether more rows were added since the vector index was built than it was built from."""
        names = [index.name for index in self._table.list_indices() if index.columns == ["vector"]]
        if not names:
            return True
        state = self._table.index_stats(names[0])
        return state is None or state.num_unindexed_rows > state.num_indexed_rows

    def _index_vectors(self) -> None:
        from lancedb.index import IvfRq

        self._table.create_index("vector", config=IvfRq(distance_type="dot"), replace=True)

    def _index_words(self, language: str | None) -> None:
        """Create the full-text index. ICU handles scripts without spaces and keeps words of Indian scripts whole."""
        from lancedb.index import FTS

        known = language is not None
        words = FTS(base_tokenizer="icu", stem=known, remove_stop_words=known, language=language or "English")
        try:
            self._table.create_index(WORDS, config=words)
        except (ValueError, RuntimeError) as error:
            raise BanyanError(f"cannot build a full-text index for language {language}: {_told(error)}") from None

    def _sync(self) -> None:
        """Flush new files to disk, so that they survive a power cut. Undo the write if one of them is incomplete: Lance
        does not notice if the last write to a file fails."""
        new = [path for path in _files(self._folder) if path not in self._synced]
        if any(map(_cut_short, new)):
            _go_back(new)
            raise BanyanError(f"cannot write to {self._folder}: the disk is full, or failed; {_ADVICE}")
        for path in new:
            files.sync(path)
        for folder in {path.parent for path in new}:
            files.sync(folder)
        self._synced.update(new)
        if self._sums:
            self._record_sums()

    def _record_sums(self) -> None:
        """Record the checksums of new files. Lance never changes a file, except for a hint."""
        names = {str(path.relative_to(self._folder)): path for path in _files(self._folder / TABLE)}
        lasting = {name: path for name, path in names.items() if "hint" not in name}
        kept = {name: self._sums.get(name) or checksums.digest(path) for name, path in lasting.items()}
        if kept != self._sums:
            self._sums = kept
            checksums.record(self._folder / checksums.SUMS, kept)


def _cut_short(path: Path) -> bool:
    """Whether a file of Lance is incomplete."""
    last = _LAST_BYTES.get(path.suffix)
    if last is None:
        return False
    with open(path, "rb") as file:
        file.seek(max(path.stat().st_size - len(last), 0))
        return file.read() != last


def _go_back(new: list[Path]) -> None:
    """Remove the versions of a table that are among its new files."""
    for path in new:
        if path.parent.name == "_versions":  # manifests, and the hint at the latest one
            path.unlink(missing_ok=True)
    for folder in {path.parent for path in new if path.parent.is_dir()}:
        files.sync(folder)


def quoted(text: str) -> str:
    """Return the text as an SQL string literal."""
    return "'" + text.replace("'", "''") + "'"


def _told(error: BaseException) -> str:
    return _OURS.sub("", _SOURCE.sub("", first_line(error)))[:300]


@contextmanager
def _writing(folder: Path) -> Iterator[None]:
    """Turn Lance's error about a write into a BanyanError."""
    try:
        yield
    except (RuntimeError, OSError) as error:
        reason = "the disk is full" if "No space left" in str(error) else _told(error)
        raise BanyanError(f"cannot write to {folder}: {reason}; {_ADVICE}") from None


@contextmanager
def _condition(where: str | None) -> Iterator[None]:
    """Turn Lance's error about a condition, or without one about a damaged file, into a BanyanError."""
    try:
        yield
    except BaseException as error:
        panicked = type(error).__name__ in ("PanicException", "RustPanic")  # the first one is not an Exception
        if isinstance(error, BanyanError) or not (isinstance(error, ValueError | RuntimeError | OSError) or panicked):
            raise
        if where is None or panicked or "corrupt" in str(error).lower():
            these = "the rows of the index" if where is None else f"the rows of the index where {where!r}"
            told = f"cannot read {these}: {_told(error)}"
            raise BanyanError(f"{told}; `banyan check` names the damaged file") from None
        reason = f"{where!r} is not a valid condition: {_told(error)}"
        raise BanyanError(f"{reason} (conditions are SQL, for example: year >= 1900 AND author = 'Livy')") from None


def _database(folder: Path) -> Any:
    with needs("An index", "search"):
        import lancedb
    return lancedb.connect(folder)


def _files(folder: Path) -> Iterator[Path]:
    return (Path(parent, name) for parent, _, names in os.walk(folder) for name in names)
