"""The rows of a corpus with all their columns, for a search index."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from banyan.corpus.reading import Corpus, no_column
from banyan.corpus.report import NOT_TEXT, Report
from banyan.corpus.sources import File
from banyan.corpus.tables import csv_rows, json_rows, open_parquet
from banyan.corpus.textfile import Moved, clean


class SourceRow(NamedTuple):
    number: int  # within its source, from 1, blank rows included
    text: str
    columns: dict[str, Any]  # the other columns of its table


class RowSource:
    """A file or a Hugging Face data set. Every run reads the same rows in the same order."""

    copy: Path | None = None  # of a stream that can be read only once; may be deleted when all rows are indexed

    def __init__(self, name: str, corpus: Corpus, column: str | None) -> None:
        self.name, self._corpus = name, corpus
        self.marks = corpus.fingerprints()  # the later ones are of earlier versions
        self.report = Report()
        path = corpus.paths[0] if corpus.paths else None
        self._file = File(path, column) if path else None
        self.kind = self._file.kind if self._file else "hub"

    @property
    def bytes_total(self) -> int:
        return self._corpus.bytes_total

    @property
    def bytes_read(self) -> int:
        return self._corpus.bytes_read

    def rows(self) -> Iterator[SourceRow]:
        if self._file is None or self.kind == "text" or not self._file.size:
            for number, text in enumerate(self._corpus.rows(self.report), 1):
                yield SourceRow(number, text, {})
            return
        column = self._file.column
        for number, values in enumerate(_TABLES[self.kind](self._file.path, self.report, self._moved), 1):
            text = values.pop(column, None)
            if not isinstance(text, str):
                self.report.drop(NOT_TEXT)
                text = ""
            yield SourceRow(number, clean(text, self.report), values)

    def _moved(self, position: int) -> None:
        self._corpus.bytes_read = position


def row_sources(names: Sequence[str], column: str | None, spool: Path) -> list[RowSource]:
    """Return one source for each file or data set that the names stand for. The column is that of the tables."""
    found: list[RowSource] = []
    for name in names:
        corpus = Corpus(name, column=column, layout="lines", spool=spool, beside_tables=True)
        if not corpus.paths:
            found.append(RowSource(name, corpus, column))
        for path in corpus.paths:
            copied = path.parent == spool
            known_as = path.name if copied else str(path.resolve())
            alone = Corpus(path, column=column, layout="lines", beside_tables=True)
            found.append(RowSource(known_as, alone, column))
            if copied:  # a copy is named after its content, so the name identifies it
                found[-1].copy, found[-1].marks = path, [path.name]
    if column is not None and all(source.kind == "text" for source in found):
        raise no_column(Path(found[0].name), column)
    return found


def _json(path: Path, report: Report, moved: Moved) -> Iterator[dict[str, Any]]:
    return (row or {} for row in json_rows(path, report, moved))


def _csv(path: Path, report: Report, moved: Moved) -> Iterator[dict[str, Any]]:
    rows = csv_rows(path, report, moved)
    names = next(rows, [])
    return (dict(zip(names, row, strict=False)) for row in rows)


def _parquet(path: Path, report: Report, moved: Moved) -> Iterator[dict[str, Any]]:
    size, done = path.stat().st_size, 0
    with open_parquet(path) as table:
        for batch in table.iter_batches(batch_size=4096):
            yield from batch.to_pylist()
            done += len(batch)
            moved(size * done // table.metadata.num_rows)


_TABLES: dict[str, Callable[[Path, Report, Moved], Iterator[dict[str, Any]]]] = {
    "json": _json,
    "csv": _csv,
    "tsv": _csv,
    "parquet": _parquet,
}
