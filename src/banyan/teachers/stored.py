"""Vectors that exist already: a .npy file, or a column of a Parquet file."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from banyan.errors import BanyanError, first_line
from banyan.support.needs import needs
from banyan.support.rows import slices

_ROWS_AT_ONCE = 4096


def holds_vectors(source: str | Path) -> bool:
    """Whether this names a file of vectors: .npy, .parquet or .parquet#column."""
    return _split(source)[0].suffix.lower() in (".npy", ".parquet")


def exists(source: str | Path) -> bool:
    """Whether the file of FILE or FILE#COLUMN exists."""
    return _split(source)[0].is_file()


def read_vectors(path: Path, rows: int) -> np.ndarray:
    """Return the vectors of a file as a read-only memory map of `rows` rows, of the file's own float type.

    path: a .npy file, or a Parquet file with a column of lists of numbers. If it has several, name one: FILE#COLUMN.
    """
    with _opened(path) as found:
        if len(found) != rows:
            raise BanyanError(
                f"{found.path} has {len(found):,} rows, but there are {rows:,} texts: it needs one vector for each, in "
                "the same order"
            )
        return found.read()


def width(path: Path) -> int:
    """The width of the vectors of a file."""
    with _opened(path) as found:
        return found.width()


def _split(source: str | Path) -> tuple[Path, str | None]:
    """FILE#COLUMN as a path and a column."""
    path, mark, column = str(source).rpartition("#")
    return (Path(path), column) if mark and not Path(source).exists() else (Path(source), None)


@contextmanager
def _opened(source: str | Path) -> Iterator[_Npy | _Parquet]:
    path, column = _split(source)
    if not path.is_file():
        raise BanyanError(f"there is no file {path}")
    if path.suffix.lower() == ".npy":
        yield _Npy(path)
    elif path.suffix.lower() == ".parquet":
        with needs(f"Reading {path}", "data"):
            from pyarrow import parquet
        try:
            with parquet.ParquetFile(path) as file:
                yield _Parquet(path, file, column)
        except BanyanError:
            raise
        except (OSError, ValueError, NotImplementedError) as error:  # the base classes of pyarrow's errors
            raise BanyanError(f"cannot read {path}: {first_line(error)}") from None
    else:
        raise BanyanError(f"{path} is neither a .npy nor a .parquet file of vectors")


class _Npy:
    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self.vectors = np.load(path, mmap_mode="r", allow_pickle=False)
        except (OSError, ValueError, EOFError) as error:
            raise BanyanError(f"cannot read {path}: {first_line(error)}") from None
        shape = self.vectors.shape
        if len(shape) != 2 or not shape[1]:
            raise BanyanError(f"{path} holds an array of shape {shape}, not a row of numbers for each text")
        if self.vectors.dtype.kind != "f":
            raise BanyanError(f"{path} holds {self.vectors.dtype} values, not floating-point numbers")

    def __len__(self) -> int:
        return len(self.vectors)

    def width(self) -> int:
        return self.vectors.shape[1]

    def read(self) -> np.ndarray:
        for part in slices(len(self), _ROWS_AT_ONCE):
            _check_finite(self.path, self.vectors[part], part.start)
        return self.vectors


class _Parquet:
    def __init__(self, path: Path, file: Any, column: str | None) -> None:
        self.path, self.file = path, file
        self.column = self._choose(column)
        if not len(self):
            raise BanyanError(f"{path} has no rows")

    def _choose(self, column: str | None) -> str:
        schema = self.file.schema_arrow
        usable = [field.name for field in schema if _is_vector(field.type)]
        if column is None and len(usable) == 1:
            return usable[0]
        if column is not None and column in usable:
            return column
        there = f"its columns are {', '.join(f'{field.name} ({field.type})' for field in schema)}"
        if column is not None:
            what = "holds no lists of floating-point numbers" if column in schema.names else "does not exist"
            raise BanyanError(f"column {column!r} of {self.path} {what}; {there}")
        if usable:
            example = f"{self.path}#{usable[0]}"
            raise BanyanError(f"{self.path} has several columns of vectors: choose one, as in {example}; {there}")
        raise BanyanError(f"{self.path} has no column of lists of floating-point numbers; {there}")

    def __len__(self) -> int:
        return self.file.metadata.num_rows

    def width(self) -> int:
        return next(self._parts()).shape[1]

    def read(self) -> np.ndarray:
        """Copy the column to a temporary file, which is removed when the map is, because Parquet cannot be mapped."""
        with tempfile.TemporaryFile() as copy:
            for part in self._parts():
                copy.write(part.tobytes())
            copy.flush()
            return np.memmap(copy, part.dtype, "r", shape=(len(self), part.shape[1]))

    def _parts(self) -> Iterator[np.ndarray]:
        start = width = 0
        for batch in self.file.iter_batches(_ROWS_AT_ONCE, columns=[self.column]):
            part = self._rows(batch.column(0), start, width)
            _check_finite(self.path, part, start)
            yield part
            start, width = start + len(part), part.shape[1]

    def _rows(self, lists: Any, start: int, width: int) -> np.ndarray:
        from pyarrow import compute

        lengths = compute.list_value_length(lists).fill_null(-1).to_numpy()
        width = width or int(lengths[0])
        wrong = np.flatnonzero((lengths != width) | (lengths <= 0))
        if len(wrong):
            row, length = start + int(wrong[0]), lengths[wrong[0]]
            found = "is empty" if length <= 0 else f"has {length} numbers instead of {width}"
            raise BanyanError(f"row {row:,} of column {self.column!r} of {self.path} {found} (the first row is 0)")
        values = lists.flatten()  # an absent number becomes NaN
        return values.to_numpy(zero_copy_only=False).reshape(len(lists), width)


def _is_vector(kind: Any) -> bool:
    from pyarrow import types

    lists = types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)
    return lists and types.is_floating(kind.value_type)


def _check_finite(path: Path, part: np.ndarray, start: int) -> None:
    with np.errstate(over="ignore", invalid="ignore"):
        single = np.asarray(part, np.float32)
        usable = np.isfinite(np.einsum("ij,ij->i", single, single))  # their norm is needed, too
    if not usable.all():
        number = int(np.argmin(usable))
        what = "numbers too large" if np.isfinite(part[number]).all() else "NaN or infinity"
        raise BanyanError(f"row {start + number:,} of {path} holds {what} (the first row is 0)")
