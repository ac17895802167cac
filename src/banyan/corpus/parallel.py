"""ParallelText: pairs of translations from TSV, CSV, JSON lines and Parquet files.

Reading holds a bounded amount of text in memory. A Report counts the pairs that are dropped.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from banyan.corpus.report import NOT_TEXT, Report
from banyan.corpus.sources import mark_of, size_of
from banyan.corpus.tables import csv_rows, json_kinds, json_rows, parquet_kinds, parquet_rows, text_columns
from banyan.corpus.tables import without_surrogates as repaired
from banyan.corpus.textfile import clean, file_kind
from banyan.errors import BanyanError

LONGEST_SIDE = 10_000  # characters; a longer text is a document, not a translation of a sentence
EMPTY_SIDE = "with an empty side"
IDENTICAL = "with identical sides"
TOO_LONG = f"with a side of over {LONGEST_SIDE:,} characters"

_READER = 1  # increased when the same file would give different pairs
_HEADER = re.compile(  # names that the first two columns of a file with a header commonly have
    r"[a-z]{2,3}([_-][a-z0-9]{2,4})*|english|source|target|translation|src|tgt|trg"
    r"|(sentence|text|sent)_?[12ab]|query|document|anchor|positive",
    re.IGNORECASE,
)


class ParallelText:
    """The pairs (source, target) of a file: a text and its translation. It can be iterated any number of times.

    columns: the names of the two columns. Without them, TSV and CSV files are read by position: the first column is
    the source, the second the target, and a first line that only names columns is skipped. JSON lines and Parquet files
    need `columns` unless exactly two columns hold text. Compressed files are recognised by their content.
    """

    report: Report  # of the latest complete iteration; lines are rows, and `kept` counts pairs
    note: str  # a sentence to show the user: which columns are read
    bytes_total: int  # on disk, before decompression
    bytes_read: int  # by the current iteration; ends at bytes_total

    def __init__(self, path: str | Path, columns: Sequence[str] | None = None) -> None:
        self.path = Path(path)
        self.columns = _checked(columns)
        self._kind = file_kind(self.path)
        if self._kind in (None, "text"):
            raise BanyanError(
                f"{path} cannot be read as pairs of translations: its name must end in .tsv, .csv, .jsonl or .parquet "
                "(for two files of lines: paste en.txt ha.txt > pairs.tsv)"
            )
        if self.path.exists() and not self.path.is_file():
            raise BanyanError(f"{path} is not a file: pairs of translations are read from one file, several times")
        self.bytes_total = size_of(self.path)
        if not self.bytes_total:
            raise BanyanError(f"{path} is empty")
        self.bytes_read = 0
        self.report = Report()
        self._header = False  # the first line of a TSV or CSV file names the columns
        self._places = 0, 1  # of the two columns in a TSV or CSV file
        self.note = self._choose_places() if self._kind in ("tsv", "csv") else self._choose_names()

    def __iter__(self) -> Iterator[tuple[str, str]]:
        report = Report(files=1)
        for values in self._rows(report):
            report.lines += 1
            pair = _pair(values, report)
            if pair:
                report.kept += 1
                yield pair
        if not report.kept:
            raise BanyanError(f"{self.path} has no pair of translations to keep: {report.summary('pair')}")
        self.bytes_read = self.bytes_total
        self.report = report

    def fingerprint(self) -> str:
        """Return a hash of the file's path, size and modification time, and of the columns."""
        options = {"reader": _READER, "columns": self.columns, "longest": LONGEST_SIDE}
        return hashlib.sha256(json.dumps([options, mark_of(self.path)]).encode()).hexdigest()

    def _choose_places(self) -> str:
        first = next(csv_rows(self.path, Report(), self._moved), [])
        if self.columns:
            named = ", ".join(cell[:30] for cell in first)
            for name in self.columns:
                if name not in first:
                    raise BanyanError(f"{self.path}:1: there is no column {name!r}; the first line reads {named}")
            self._header, self._places = True, (first.index(self.columns[0]), first.index(self.columns[1]))
            return f"Reading the columns {self.columns[0]} and {self.columns[1]} of {self.path}."
        self._header = len(first) > 1 and all(_HEADER.fullmatch(cell.strip()) for cell in first[:2])
        read = f"the columns {first[0]} and {first[1]}" if self._header else "the first two columns"
        ignored = {0: "", 1: "; column 3 is ignored"}.get(len(first[2:]), f"; columns 3 to {len(first)} are ignored")
        return f"Reading {read} of {self.path}{ignored}."

    def _choose_names(self) -> str:
        kinds = json_kinds(self.path) if self._kind == "json" else parquet_kinds(self.path)
        texts = text_columns(kinds)
        for name in self.columns or ():
            if name not in kinds:
                raise BanyanError(f"{self.path} has no column {name!r}; its columns are {', '.join(kinds)}")
            if name not in texts and self._kind == "parquet":
                raise BanyanError(f"column {name!r} of {self.path} holds {kinds[name]}, not text")
        if not self.columns and len(texts) != 2:
            names = ", ".join(kinds)
            raise BanyanError(
                f"{self.path} has {len(texts)} columns of text: name the two to read; its columns are {names}"
            )
        self.columns = self.columns or (texts[0], texts[1])
        return f"Reading the columns {self.columns[0]} and {self.columns[1]} of {self.path}."

    def _rows(self, report: Report) -> Iterator[tuple[object, ...]]:
        """Yield the two values of each row."""
        if self._kind in ("tsv", "csv"):
            return self._csv_rows(report)
        assert self.columns
        if self._kind == "parquet":
            return parquet_rows(self.path, self.columns, report, self._moved)
        first, second = self.columns
        rows = json_rows(self.path, report, self._moved)
        return (
            (repaired(row.get(first), report), repaired(row.get(second), report)) if row else ("", "") for row in rows
        )

    def _csv_rows(self, report: Report) -> Iterator[tuple[object, ...]]:
        line, (first, second) = 1, self._places
        for number, row in enumerate(csv_rows(self.path, report, self._moved)):
            if row and len(row) <= max(first, second):
                separator = "tab" if self._kind == "tsv" else "comma"
                raise BanyanError(
                    f"{self.path}:{line}: expected two texts separated by a {separator}, found {len(row)} "
                    f"column{'s' * (len(row) > 1)}: {row[0][:40]!r}"
                )
            if number or not self._header:
                yield (row[first], row[second]) if row else ("", "")
            line += 1 + sum(cell.count("\n") for cell in row)

    def _moved(self, position: int) -> None:
        self.bytes_read = position


def _checked(columns: Sequence[str] | None) -> tuple[str, str] | None:
    if columns is None:
        return None
    names = [columns] if isinstance(columns, str) else list(columns)
    if len(names) != 2 or names[0] == names[1]:
        raise BanyanError(f"pairs of translations need the names of two columns, not {', '.join(names) or 'none'}")
    return names[0], names[1]


def _pair(values: tuple[object, ...], report: Report) -> tuple[str, str] | None:
    """Return the two sides, or None for a pair that is dropped and counted."""
    source, target = values
    if not (isinstance(source, str) and isinstance(target, str)):
        report.drop(NOT_TEXT)
        return None
    source, target = _one_line(source, report), _one_line(target, report)
    if not (source and target):
        report.drop(EMPTY_SIDE)
    elif source == target:
        report.drop(IDENTICAL)
    elif max(len(source), len(target)) > LONGEST_SIDE:
        report.drop(TOO_LONG)
    else:
        return source, target
    return None


def _one_line(text: str, report: Report) -> str:
    return " ".join(clean(text, report).splitlines()).strip()
