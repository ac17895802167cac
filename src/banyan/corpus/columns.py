"""TableFile: several columns of a TSV, CSV, JSON lines or Parquet file, row by row."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path

from banyan.corpus.report import Report
from banyan.corpus.sources import size_of
from banyan.corpus.tables import csv_rows, json_kinds, json_rows, parquet_kinds, parquet_rows
from banyan.corpus.tables import without_surrogates as repaired
from banyan.corpus.textfile import file_kind
from banyan.errors import BanyanError

_SAMPLE = 50  # JSON objects that show which columns there are
_OF_FIRST_LINE = ": its first line is empty, but it must name the columns or be the first row"
_WHY_NONE = {"tsv": _OF_FIRST_LINE, "csv": _OF_FIRST_LINE, "json": ": no line has an object with keys", "parquet": ""}


class TableFile:
    """A file with columns. Compressed files are recognised by their content.

    TSV and CSV files may or may not begin with a line that names the columns; `rows` is told."""

    kind: str  # tsv, csv, json or parquet
    kinds: dict[str, str]  # column -> type of its values, for JSON lines (by the first object) and Parquet
    names: list[str]  # of the columns, or the first line of a TSV or CSV file
    class_names: Mapping[str, Sequence[str]] = {}  # files have labels as they are
    bytes_total: int  # on disk, before decompression
    bytes_read: int  # by the current iteration

    def __init__(self, path: str | Path, what: str) -> None:
        """what: what the file holds, in the plural, for error messages."""
        self.path, self.name = Path(path), str(path)
        kind = file_kind(self.path)
        if kind in (None, "text"):
            raise BanyanError(
                f"{path} cannot be read as {what}: its name must end in .tsv, .csv, .jsonl or .parquet "
                "(for two files of lines: paste first.txt second.txt > pairs.tsv)"
            )
        if self.path.exists() and not self.path.is_file():
            raise BanyanError(f"{path} is not a file: {what} are read from one file, several times")
        self.bytes_total = size_of(self.path)
        if not self.bytes_total:
            raise BanyanError(f"{path} is empty")
        self.bytes_read = 0
        assert kind
        self.kind, self.kinds = kind, {}
        if self.by_position:
            self.names = next(csv_rows(self.path, Report(), self._moved), [])
        else:
            self.kinds = json_kinds(self.path) if kind == "json" else parquet_kinds(self.path)
            self.names = list(self.kinds)
        if kind == "json":  # the first object may lack a column
            rows = islice(filter(None, json_rows(self.path, Report(), self._moved)), _SAMPLE)
            self.names = list(dict.fromkeys(name for row in rows for name in row))
        if not self.names:
            raise BanyanError(f"{path} has no columns{_WHY_NONE[kind]}")

    @property
    def by_position(self) -> bool:
        """Whether columns need no names."""
        return self.kind in ("tsv", "csv")

    def place(self, name: str) -> int:
        """Return the position of the column with this name."""
        if name in self.names:
            return self.names.index(name)
        if self.by_position:
            line = ", ".join(cell[:30] for cell in self.names)
            raise BanyanError(f"{self.path}:1: there is no column {name!r}; the first line reads {line}")
        raise BanyanError(f"{self.path} has no column {name!r}; its columns are {', '.join(self.names)}")

    def rows(
        self, places: Sequence[int], report: Report, *, header: bool, needed: int = 2
    ) -> Iterator[tuple[int, tuple[object, ...]]]:
        """Yield the number of each row, which is the number of its line except in Parquet, and its values.

        places: positions of columns. A row of a TSV or CSV file must have the first `needed` of them; the others are
        None where they are missing. A blank line has only empty values.
        header: whether the first line of a TSV or CSV file names the columns, and so is no row."""
        if self.by_position:
            return self._csv_rows(places, report, header, needed)
        names = [self.names[place] for place in places]
        if self.kind == "parquet":
            return enumerate(parquet_rows(self.path, names, report, self._moved), 1)
        return (
            (line, tuple(repaired(row.get(name), report) for name in names) if row else ("",) * len(names))
            for line, row in enumerate(json_rows(self.path, report, self._moved), 1)
        )

    def where(self, number: int) -> str:
        """Return the location of a row for an error message."""
        return f"{self.path}, row {number}" if self.kind == "parquet" else f"{self.path}:{number}"

    def _csv_rows(
        self, places: Sequence[int], report: Report, header: bool, needed: int
    ) -> Iterator[tuple[int, tuple[object, ...]]]:
        line, width = 1, max(places[:needed], default=-1) + 1
        for number, row in enumerate(csv_rows(self.path, report, self._moved)):
            if row and len(row) < width:
                separator = "tab" if self.kind == "tsv" else "comma"
                raise BanyanError(
                    f"{self.path}:{line}: expected at least {width} columns separated by a {separator}, found "
                    f"{len(row)}: {row[0][:40]!r}"
                )
            if number or not header:
                yield line, tuple(row[place] if place < len(row) else None if row else "" for place in places)
            line += 1 + sum(cell.count("\n") for cell in row)

    def _moved(self, position: int) -> None:
        self.bytes_read = position
