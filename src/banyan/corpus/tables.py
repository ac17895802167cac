"""The text column of JSON lines, CSV, TSV and Parquet files."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from banyan.corpus.report import SURROGATES, Report
from banyan.corpus.textfile import Moved, damaged, decoded, file_kind, long_lines
from banyan.errors import BanyanError, first_line
from banyan.support.needs import needs

_SURROGATE = re.compile("[\ud800-\udfff]")
_ARROW_ERRORS = (OSError, ValueError, NotImplementedError)  # the base classes of pyarrow's errors
_LONGEST_FIELD = (1 << 31) - 1  # characters; Python's own limit is 131,072
USUAL = "text"  # the name of the text column in most data sets


def json_rows(path: Path, report: Report, moved: Moved) -> Iterator[dict[str, object] | None]:
    """Yield the object on each line, or None for an empty line."""
    for number, line in enumerate(long_lines(path, report, moved), 1):
        try:
            row = json.loads(line) if line.strip() else None
        except (ValueError, RecursionError) as error:
            raise BanyanError(f"{path}:{number}: not valid JSON ({error}); each line must be one object") from None
        if row is not None and not isinstance(row, dict):
            raise BanyanError(f"{path}:{number}: expected a JSON object with a column of text, found {line[:40]!r}")
        yield row


def json_kinds(path: Path) -> dict[str, str]:
    """Return column name -> type of its value in the first object."""
    row = next(filter(None, json_rows(path, Report(), _nowhere)), None) or {}
    return {name: "string" if isinstance(value, str) else "other values" for name, value in row.items()}


def _json_column(path: Path, column: str | None) -> str:
    kinds = json_kinds(path)
    if not kinds:
        return column or ""
    if column in kinds:
        return column  # whatever the type of its first value
    return choose_column(column, kinds, str(path))


def _json_values(path: Path, column: str, report: Report, moved: Moved) -> Iterator[object]:
    for row in json_rows(path, report, moved):
        yield "" if row is None else without_surrogates(row.get(column), report)


def without_surrogates(value: object, report: Report) -> object:
    if isinstance(value, str) and not value.isascii():
        value, count = _SURROGATE.subn("\ufffd", value)
        report.repair(SURROGATES, count)
    return value


def csv_rows(path: Path, report: Report, moved: Moved) -> Iterator[list[str]]:
    lines = (line + "\n" for line in long_lines(path, report, moved))
    if file_kind(path) == "tsv":
        rows = csv.reader(lines, delimiter="\t", quoting=csv.QUOTE_NONE)
    else:
        rows = csv.reader(lines, strict=True)
    csv.field_size_limit(_LONGEST_FIELD)
    width, before = None, 0
    try:
        for row in rows:
            width = width or len(row)
            if len(row) > width and any(row[width:]):
                raise BanyanError(f"{path}:{rows.line_num}: {len(row)} fields, but the first line has {width}")
            before = rows.line_num
            yield row
    except csv.Error as error:
        if "unexpected end" in str(error):
            raise BanyanError(f"{path}:{before + 1}: a quote (\") is opened in this row and never closed") from None
        raise BanyanError(f"{path}:{rows.line_num}: {error}") from None


def _csv_column(path: Path, column: str | None) -> str:
    names = next(csv_rows(path, Report(), _nowhere), None)
    if names is None:
        return column or ""
    return choose_column(column, dict.fromkeys(names, "string"), str(path))


def _csv_values(path: Path, column: str, report: Report, moved: Moved) -> Iterator[object]:
    rows = csv_rows(path, report, moved)
    names = next(rows, [column])
    place = names.index(column)
    for row in rows:
        yield "" if not row else row[place] if place < len(row) else None


def open_parquet(path: Path) -> Any:
    with needs(f"Reading {path}", "data"):
        from pyarrow import parquet
    try:
        return parquet.ParquetFile(path)
    except _ARROW_ERRORS as error:
        raise BanyanError(f"cannot read {path} as Parquet: {first_line(error)}") from None


def parquet_kinds(path: Path) -> dict[str, str]:
    """Return column name -> type of its values."""
    with open_parquet(path) as table:
        kinds = {column.name: str(column.type) for column in table.schema_arrow}
    for name, holds in kinds.items():
        if holds.startswith("dictionary<values=string"):  # a pandas category
            kinds[name] = "string"
    return kinds


def _parquet_column(path: Path, column: str | None) -> str:
    return choose_column(column, parquet_kinds(path), str(path))


def _parquet_values(path: Path, column: str, report: Report, moved: Moved) -> Iterator[object]:
    return (value for (value,) in parquet_rows(path, [column], report, moved))


def parquet_rows(path: Path, columns: Sequence[str], report: Report, moved: Moved) -> Iterator[tuple[object, ...]]:
    """Yield the values of these columns, row by row."""
    done = 0
    with open_parquet(path) as table:
        size = path.stat().st_size
        try:
            for rows in table.iter_batches(batch_size=4096, columns=list(columns)):
                yield from zip(*(strings(rows.column(name), report) for name in columns), strict=True)
                done += len(rows)
                moved(size * done // table.metadata.num_rows)
        except _ARROW_ERRORS as error:
            raise damaged(path, error) from None


def strings(values: Any, report: Report) -> list[object]:
    try:
        return values.to_pylist()
    except UnicodeDecodeError:
        raw = values.cast("large_binary").to_pylist()
        return [None if value is None else decoded(value, True, report)[0] for value in raw]


def choose_column(column: str | None, kinds: dict[str, str], where: str) -> str:
    """Return the column to read: the one that was named, the only one with text, or `text`.

    kinds: column name -> type of its values."""
    names = ", ".join(kinds)
    texts = text_columns(kinds)
    if column is None:
        if len(texts) == 1 or USUAL in texts:
            return USUAL if USUAL in texts else texts[0]
        raise BanyanError(f"{where} has {'several columns' if texts else 'no column'} of text: choose one with "
                          f"--column (in Python, column=); its columns are {names}")  # fmt: skip
    if column not in kinds:
        raise BanyanError(f"{where} has no column {column!r}; its columns are {names}")
    if column not in texts:
        raise BanyanError(f"column {column!r} of {where} holds {kinds[column]}, not text; its columns are {names}")
    return column


def text_columns(kinds: dict[str, str]) -> list[str]:
    return [name for name, kind in kinds.items() if kind in ("string", "large_string", "string_view")]


def _nowhere(position: int) -> None:
    pass


COLUMNS = {"json": _json_column, "csv": _csv_column, "tsv": _csv_column, "parquet": _parquet_column}
VALUES = {"json": _json_values, "csv": _csv_values, "tsv": _csv_values, "parquet": _parquet_values}
