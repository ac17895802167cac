"""Write the rows of tables that are kept, with all their columns, in the format that the tables have."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from itertools import compress
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from banyan.corpus.report import Report
from banyan.corpus.tables import csv_rows, open_parquet
from banyan.corpus.textfile import KINDS, file_kind, long_lines
from banyan.errors import BanyanError

TEXT = "text"


def kind_to_write(paths: Sequence[Path], out: str) -> str:
    """How to write rows of these files to a file of this name, or to standard output ("-"): as text or as a table."""
    wanted = file_kind(Path(out))
    kinds = sorted({file_kind(path) or TEXT for path in paths} or {TEXT})
    if kinds == [TEXT] or wanted == TEXT:
        return TEXT
    if len(kinds) > 1:
        raise BanyanError(f"the rows are of several kinds, {', '.join(kinds)}: name a .txt file for the texts alone")
    (kind,) = kinds
    if wanted not in (None, kind) or (kind == "parquet" and out == "-"):
        suffixes = " or ".join(suffix for suffix, each in KINDS.items() if each == kind)
        raise BanyanError(f"the rows are {kind}: name a file that ends in {suffixes}, or in .txt for the texts alone")
    return kind


def write_rows(paths: Sequence[Path], kind: str, keep: np.ndarray, out: Path | TextIO) -> None:
    """Write the kept rows of tables of one kind. keep: of every row of all tables, in order."""
    paths = [path for path in paths if path.stat().st_size]
    if kind == "parquet":
        _write_parquet(paths, keep, out)
        return
    lines = _json_lines(paths) if kind == "json" else _csv_lines(paths, kind)
    with ExitStack() as stack:
        file = out
        if isinstance(file, Path):
            file = stack.enter_context(open(file, "w", encoding="utf-8", newline="\n"))
        if kind != "json":
            file.write(next(lines))
        file.writelines(compress(lines, keep))


def _json_lines(paths: Sequence[Path]) -> Iterator[str]:
    return (f"{line}\n" for path in paths for line in long_lines(path, Report(), _nowhere))


class _Last:
    """A file that holds what was written last."""

    def write(self, text: str) -> None:
        self.text = text


def _csv_lines(paths: Sequence[Path], kind: str) -> Iterator[str]:
    """The line of names, once, and those of all rows."""
    last = _Last()
    writer = csv.writer(last, lineterminator="\n")
    first = None
    for path in paths:
        for number, row in enumerate(csv_rows(path, Report(), _nowhere)):
            if number == 0 and first not in (None, row):
                raise BanyanError(f"{path} has other columns than {paths[0]}: name a .txt file for the texts alone")
            if number or first is None:
                writer.writerow(row)
                yield "\t".join(row) + "\n" if kind == "tsv" else last.text
            first = first or row


def _write_parquet(paths: Sequence[Path], keep: np.ndarray, out: Any) -> None:
    from pyarrow import parquet

    with ExitStack() as stack:
        writer, done = None, 0
        for path in paths:
            table = stack.enter_context(open_parquet(path))
            writer = writer or stack.enter_context(parquet.ParquetWriter(out, table.schema_arrow))
            if not table.schema_arrow.equals(writer.schema):
                raise BanyanError(f"{path} has other columns than {paths[0]}: name a .txt file for the texts alone")
            for batch in table.iter_batches(batch_size=4096):
                writer.write_batch(batch.filter(keep[done : done + len(batch)]))
                done += len(batch)


def _nowhere(position: int) -> None:
    pass
