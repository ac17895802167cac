"""One source of a corpus: a file, a copy of a stream, or a Hugging Face data set."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO

from banyan.corpus.report import NOT_TEXT, Report
from banyan.corpus.tables import COLUMNS, VALUES, choose_column
from banyan.corpus.textfile import (
    BLOCK,
    Chunk,
    Moved,
    clean,
    file_kind,
    lines_apart,
    long_lines,
    packing,
    read_chunks,
)
from banyan.errors import BanyanError, first_line
from banyan.support import files
from banyan.support.needs import needs


class File:
    """One file on disk."""

    def __init__(self, path: Path, column: str | None) -> None:
        self.path = path
        self.name = str(path)
        self.kind = file_kind(path) or "text"
        self.size = size_of(path)
        self.column = "" if self.kind == "text" or not self.size else COLUMNS[self.kind](path, column)

    def mark(self) -> list[Any]:
        return [self.kind, content_of(self.path)]

    def mark_before(self) -> list[Any]:
        return stamp_of(self.path)

    def move(self, folder: Path) -> None:
        """Move the file to a folder. If a file of this name is already there, keep that one and delete this one."""
        kept = folder / self.path.name
        if kept.exists():
            self.path.unlink(missing_ok=True)
        else:
            self.path.replace(kept)
        self.path, self.name = kept, str(kept)

    def chunks(self, report: Report, moved: Moved) -> Iterator[Chunk]:
        if self.kind == "text":
            return read_chunks(self.path, report, moved)
        values = VALUES[self.kind](self.path, self.column, report, moved) if self.size else iter(())
        return _texts(values, report)

    def rows(self, report: Report, moved: Moved) -> Iterator[str]:
        if self.kind == "text":
            return long_lines(self.path, report, moved)
        return as_rows(VALUES[self.kind](self.path, self.column, report, moved) if self.size else iter(()), report)


def size_of(path: Path) -> int:
    """Return the size of a file, after checking that it can be read and is compressed as its name says."""
    try:
        if file_kind(path) != "parquet":
            with open(path, "rb") as raw:
                packing(path, raw)
        return path.stat().st_size
    except FileNotFoundError:
        raise BanyanError(f"there is no file or folder {path}") from None
    except OSError as error:
        raise BanyanError(f"cannot read {path}: {error.strerror}") from None


def content_of(path: Path) -> str:
    """Return the SHA-256 of a file. It is read again only if it has been written to since."""
    state = _state(path)
    return _read_through(path, (state.st_ino, state.st_size, state.st_mtime_ns, state.st_ctime_ns))


@cache
def _read_through(path: Path, _state: tuple[int, ...]) -> str:
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise BanyanError(f"cannot read {path}: {error.strerror}") from None


def stamp_of(path: Path) -> list[Any]:
    """What earlier versions knew a file by: path, size and modification time."""
    state = _state(path)
    return [str(path.absolute()), state.st_size, state.st_mtime_ns]


def _state(path: Path) -> os.stat_result:
    try:
        return path.stat()
    except OSError as error:
        raise BanyanError(f"cannot read {path}: {error.strerror}") from None


def as_recorded(recorded: object, fingerprints: Sequence[str]) -> str:
    """Return the recorded fingerprint if it is one of these, of which the later are of earlier versions; otherwise
    the first."""
    return next((each for each in fingerprints if each == recorded), fingerprints[0])


class HubSet:
    """The training split of a Hugging Face data set, downloaded and cached by the `datasets` package."""

    kind = "hub"

    def __init__(self, name: str, column: str | None) -> None:
        with needs(f"Loading {name}", "hub"):
            import datasets
        repository, _, config = name.removeprefix("hf:").partition(":")
        if not repository:
            raise BanyanError(f"{name} does not name a data set: write hf:name or hf:name:config")
        try:
            self._rows = datasets.load_dataset(repository, config or None, split="train")
        except Exception as error:  # anything that the data set's files, the network or the package may raise
            raise BanyanError(f"cannot load {name}: {first_line(error)}") from None
        kinds = {column: str(getattr(kind, "dtype", "lists")) for column, kind in self._rows.features.items()}
        self.name = name
        self._column = choose_column(column, kinds, name)
        self.size = len(self._rows)

    def mark(self) -> list[Any]:
        return self.mark_before()

    def mark_before(self) -> list[Any]:
        return [self.name, str(self._rows.info.version), str(self._rows._fingerprint), self.size]

    def chunks(self, report: Report, moved: Moved) -> Iterator[Chunk]:
        return _texts(self._values(moved), report)

    def rows(self, report: Report, moved: Moved) -> Iterator[str]:
        return as_rows(self._values(moved), report)

    def _values(self, moved: Moved) -> Iterator[object]:
        done = 0
        for rows in self._rows.select_columns([self._column]).iter(batch_size=1000):
            yield from rows[self._column]
            done += len(rows[self._column])
            moved(done)


def _texts(values: Iterator[object], report: Report) -> Iterator[Chunk]:
    """Yield each value of a column as a separate text."""
    for value in values:
        if isinstance(value, str):
            yield Chunk(clean(lines_apart(value), report), "text")
        else:
            report.lines += 1
            report.drop(NOT_TEXT)


def as_rows(values: Iterable[object], report: Report) -> Iterator[str]:
    for value in values:
        if not isinstance(value, str):
            report.drop(NOT_TEXT)
        yield clean(value, report) if isinstance(value, str) else ""


def readable_twice(path: Path, column: str | None, spool: Path | None) -> Path:
    """Return the path itself or, for a pipe or a device, the path of a copy."""
    if not path.exists() or path.is_file():
        return path
    suffix = path.suffix if file_kind(path) else ".jsonl" if column else ".txt"
    try:
        with open(path, "rb") as stream:
            return spooled(stream, path.name, suffix, spool)
    except OSError as error:
        raise BanyanError(f"cannot read {path}: {error.strerror}") from None


def spooled(stream: BinaryIO, name: str, suffix: str, folder: Path | None) -> Path:
    """Copy a stream to a file named after its content, so that the same text gives the same file."""
    if folder is None:
        raise BanyanError(f"{name} can be read only once: name a folder for a copy (spool=folder)")
    digest = hashlib.sha256()
    part = folder / f".{name}.part"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with open(part, "wb") as copy:
            while block := stream.read(BLOCK):
                digest.update(block)
                copy.write(block)
        if not part.stat().st_size:
            raise BanyanError(f"there is no text to read: {name} is empty")
        path = folder / f"{name}-{digest.hexdigest()[:16]}{suffix}"
        if not path.exists():
            files.sync(part)
            part.replace(path)
    except OSError as error:
        raise BanyanError(f"cannot copy {name} to {folder}: {error.strerror}") from None
    finally:
        part.unlink(missing_ok=True)
    return path
