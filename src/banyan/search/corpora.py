"""The rows of a corpus with all they have: a line of text, or a row of a table with its other columns."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from banyan.corpus import Corpus
from banyan.corpus.report import NOT_TEXT, Report
from banyan.corpus.sources import File
from banyan.corpus.tables import csv_rows, json_rows, open_parquet
from banyan.corpus.textfile import clean
from banyan.errors import BanyanError, first_line
from banyan.search.table import OWN
from banyan.support.needs import needs

if TYPE_CHECKING:
    import pyarrow

Moved = Callable[[int], None]


class Row(NamedTuple):
    number: int  # counted from 1 in its source, blank rows too
    text: str
    columns: dict[str, Any]  # the others of its table


class Source:
    """A file, or a data set of the hub, whose rows are read in order, the same ones in every run."""

    copy: Path | None = None  # of what can be read only once; may go when all rows are indexed

    def __init__(self, name: str, corpus: Corpus, column: str | None) -> None:
        self.name, self._corpus = name, corpus
        self.mark = corpus.fingerprint()
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

    def rows(self) -> Iterator[Row]:
        if self._file is None or self.kind == "text" or not self._file.size:
            for number, text in enumerate(self._corpus.rows(self.report), 1):
                yield Row(number, text, {})
            return
        column = self._file.column
        for number, values in enumerate(_TABLES[self.kind](self._file.path, self.report, self._moved), 1):
            text = values.pop(column, None)
            if not isinstance(text, str):
                self.report.drop(NOT_TEXT)
                text = ""
            yield Row(number, clean(text, self.report), {_own_name(name): value for name, value in values.items()})

    def _moved(self, position: int) -> None:
        self._corpus.bytes_read = position


def sources(names: Sequence[str], column: str | None, spool: Path) -> list[Source]:
    """One for each file that the names come to."""
    found = []
    for name in names:
        corpus = Corpus(name, column=column, layout="lines", spool=spool)
        if not corpus.paths:
            found.append(Source(name, corpus, column))
        for path in corpus.paths:
            copied = path.parent == spool
            called = path.name if copied else str(path.resolve())
            found.append(Source(called, Corpus(path, column=column, layout="lines"), column))
            if copied:  # and named after its content
                found[-1].copy, found[-1].mark = path, path.name
    return found


def _own_name(name: str) -> str:
    return f"{name}_" if name in OWN or name.startswith("_") else name


def _json(path: Path, report: Report, moved: Moved) -> Iterator[dict[str, Any]]:
    return (row or {} for row in json_rows(path, report, moved))


def _csv(path: Path, report: Report, moved: Moved) -> Iterator[dict[str, Any]]:
    rows = csv_rows(path, report, moved)
    names = next(rows, [])
    return (dict(zip(names, row, strict=False)) for row in rows)


def _parquet_rows(path: Path, report: Report, moved: Moved) -> Iterator[dict[str, Any]]:
    size, done = path.stat().st_size, 0
    with open_parquet(path) as table:
        for batch in table.iter_batches(batch_size=4096):
            yield from batch.to_pylist()
            done += len(batch)
            moved(size * done // table.metadata.num_rows)


_TABLES = {"json": _json, "csv": _csv, "tsv": _csv, "parquet": _parquet_rows}


# --- Types of columns ------------------------------------------------------------------------------------------------

TYPES = ("string", "int", "float", "bool")
_WHOLE = re.compile(r"-?(0|[1-9]\d{0,17})")  # 007 is no number
_NUMBER = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?([eE][-+]?\d+)?")


class Columns:
    """Which columns are kept, and as what; types that were not said are judged by the first rows."""

    def __init__(self, keep: Sequence[str] | None, known: dict[str, pyarrow.DataType]) -> None:
        with needs("An index", "search"):
            import pyarrow
        self._arrow = pyarrow
        self._said = None if keep is None else dict(self._wish(wish) for wish in keep)
        self.kinds = dict(known)

    def _wish(self, wish: str) -> tuple[str, Any]:
        name, said, kind = wish.partition(":")
        if said and kind not in TYPES:
            raise BanyanError(f"column {wish}: there is no type {kind!r} among {', '.join(TYPES)}")
        return _own_name(name), self._types()[kind] if said else None

    def _types(self) -> dict[str, Any]:
        pa = self._arrow
        return {"string": pa.string(), "int": pa.int64(), "float": pa.float64(), "bool": pa.bool_()}

    def judge(self, rows: list[Row], in_text: bool) -> dict[str, pyarrow.DataType]:
        """Columns that are new with these rows. in_text: numbers are written in strings, as in CSV."""
        names = dict.fromkeys(name for row in rows for name in row.columns)
        new = {}
        for name in names:
            if name in self.kinds or (self._said is not None and name not in self._said):
                continue
            values = [value for row in rows if (value := row.columns.get(name)) not in (None, "")]
            said = self._said.get(name) if self._said else None
            if said is not None or values:
                new[name] = said if said is not None else self._judged(values, in_text)
        self.kinds |= new
        return new

    def _judged(self, values: list[Any], in_text: bool) -> pyarrow.DataType:
        pa, types = self._arrow, self._types()
        if in_text and all(isinstance(value, str) for value in values):
            for kind, form in (("int", _WHOLE), ("float", _NUMBER)):
                if all(form.fullmatch(value) for value in values):
                    return types[kind]
            return types["string"]
        if all(isinstance(value, int | float) and not isinstance(value, bool) for value in values):
            return types["float" if any(isinstance(value, float) for value in values) else "int"]
        try:
            kind = pa.array(values).type
        except pa.ArrowException:
            return types["string"]
        plain = pa.types.is_boolean(kind) or pa.types.is_temporal(kind)
        return kind if plain else types["string"]

    def arrays(self, rows: list[Row], source: str) -> dict[str, Any]:
        """The columns of a table of rows."""
        pa = self._arrow
        own = {
            "text": pa.array([row.text for row in rows], pa.string()),
            "source": pa.array([source] * len(rows), pa.string()),
            "row": pa.array([row.number for row in rows], pa.int64()),
        }
        return own | {name: self._array(name, rows, source) for name in self.kinds}

    def _array(self, name: str, rows: list[Row], source: str) -> Any:
        kind = self.kinds[name]
        values = [self._cast(row.columns.get(name), kind) for row in rows]
        try:
            return self._arrow.array(values, kind)
        except (self._arrow.ArrowException, TypeError, ValueError, OverflowError):
            row, told = self._misfit(values, kind, rows)
            told = f"holds {row.columns[name]!r}, but earlier rows had {kind} there ({told})"
            advice = f"index it again with --keep {name}:string"
            raise BanyanError(f"{source}, row {row.number}: column {name!r} {told}: {advice}") from None

    def _misfit(self, values: list[Any], kind: Any, rows: list[Row]) -> tuple[Row, str]:
        for value, row in zip(values, rows, strict=True):
            try:
                self._arrow.array([value], kind)
            except (self._arrow.ArrowException, TypeError, ValueError, OverflowError) as error:
                return row, first_line(error)
        raise AssertionError("some value does not fit")

    def _cast(self, value: Any, kind: Any) -> Any:
        types = self._arrow.types
        if value is None or (value == "" and not types.is_string(kind)):
            return None
        if types.is_string(kind):
            return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
        if isinstance(value, str):
            if types.is_integer(kind) and _WHOLE.fullmatch(value):
                return int(value)
            if types.is_floating(kind) and _NUMBER.fullmatch(value):
                return float(value)
        return value
