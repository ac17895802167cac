"""ParallelText: pairs of translations from TSV, CSV, JSON lines and Parquet files.

Reading holds a bounded amount of text in memory. A Report counts the pairs that are dropped.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from banyan.corpus.columns import TableFile
from banyan.corpus.report import NOT_TEXT, Report
from banyan.corpus.sources import content_of, stamp_of
from banyan.corpus.tables import text_columns
from banyan.corpus.textfile import clean
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

    def __init__(self, path: str | Path, columns: Sequence[str] | None = None) -> None:
        self.columns = _checked(columns)
        self._file = TableFile(path, "pairs of translations")
        self.path = self._file.path
        self.report = Report()
        self._header = False  # the first line of a TSV or CSV file names the columns
        self._places = 0, 1  # of the two columns
        self.note = self._choose_places() if self._file.by_position else self._choose_names()

    @property
    def bytes_total(self) -> int:
        """Return the size on disk, before decompression."""
        return self._file.bytes_total

    @property
    def bytes_read(self) -> int:
        """Return the bytes read by the current iteration; it ends at bytes_total."""
        return self._file.bytes_read

    def __iter__(self) -> Iterator[tuple[str, str]]:
        report = Report(files=1)
        for _, values in self._file.rows(self._places, report, header=self._header):
            report.lines += 1
            pair = _pair(values, report)
            if pair:
                report.kept += 1
                yield pair
        if not report.kept:
            raise BanyanError(f"{self.path} has no pair of translations to keep: {report.summary('pair')}")
        self._file.bytes_read = self.bytes_total
        self.report = report

    def fingerprint(self) -> str:
        """Return a hash of the file's content and of the columns."""
        return self.fingerprints()[0]

    def fingerprints(self) -> list[str]:
        """Return the fingerprint, and the one that earlier versions recorded for the same file and columns."""
        options = {"reader": _READER, "columns": self.columns, "longest": LONGEST_SIDE}
        marks = [self._file.kind, content_of(self.path)], stamp_of(self.path)
        return [hashlib.sha256(json.dumps([options, mark]).encode()).hexdigest() for mark in marks]

    def _choose_places(self) -> str:
        first = self._file.names
        if self.columns:
            self._header, self._places = True, self._named(*self.columns)
            return f"Reading the columns {self.columns[0]} and {self.columns[1]} of {self.path}."
        self._header = names_columns(first)
        read = f"the columns {first[0]} and {first[1]}" if self._header else "the first two columns"
        ignored = {0: "", 1: "; column 3 is ignored"}.get(len(first[2:]), f"; columns 3 to {len(first)} are ignored")
        return f"Reading {read} of {self.path}{ignored}."

    def _choose_names(self) -> str:
        kinds = self._file.kinds
        texts = text_columns(kinds)
        if not self.columns:
            if len(texts) != 2:
                names = ", ".join(kinds)
                raise BanyanError(
                    f"{self.path} has {len(texts)} columns of text: name the two to read; its columns are {names}"
                )
            self.columns = texts[0], texts[1]
        self._places = self._named(*self.columns)
        for name in self.columns:
            if name not in texts and self._file.kind == "parquet":
                raise BanyanError(f"column {name!r} of {self.path} holds {kinds[name]}, not text")
        return f"Reading the columns {self.columns[0]} and {self.columns[1]} of {self.path}."

    def _named(self, first: str, second: str) -> tuple[int, int]:
        return self._file.place(first), self._file.place(second)


def names_columns(first: Sequence[str]) -> bool:
    """Whether the first line of a file only names its columns, to judge by the first two."""
    return len(first) > 1 and all(_HEADER.fullmatch(cell.strip()) for cell in first[:2])


def _checked(columns: Sequence[str] | None) -> tuple[str, str] | None:
    if columns is None:
        return None
    names = [columns] if isinstance(columns, str) else list(columns)
    if len(names) != 2 or names[0] == names[1]:
        raise BanyanError(f"pairs of translations need the names of two columns, not {', '.join(names) or 'none'}")
    return names[0], names[1]


def _pair(values: tuple[object, ...], report: Report) -> tuple[str, str] | None:
    """Return the two sides, or None for a pair that is dropped and counted."""
    sides = two_texts(values, report)
    if sides is None:
        return None
    if sides[0] == sides[1]:
        report.drop(IDENTICAL)
    elif max(map(len, sides)) > LONGEST_SIDE:
        report.drop(TOO_LONG)
    else:
        return sides
    return None


def two_texts(values: Sequence[object], report: Report) -> tuple[str, str] | None:
    """Return the first two values, repaired and on one line, or None if one is empty or not text, which is counted."""
    first, second = values[:2]
    if not (isinstance(first, str) and isinstance(second, str)):
        report.drop(NOT_TEXT)
        return None
    first, second = on_one_line(first, report), on_one_line(second, report)
    if first and second:
        return first, second
    report.drop(EMPTY_SIDE)
    return None


def on_one_line(text: str, report: Report) -> str:
    return " ".join(clean(text, report).splitlines()).strip()
