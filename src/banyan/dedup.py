"""Near-duplicates among the rows of files, in memory that hardly grows: about 40 bytes a row. `banyan dedup`.

Rows are encoded in blocks; their vectors (int8) and their hashes go to a temporary folder. A hash is the signs of 16
random projections. Two rows at an angle θ agree in it with probability (1 - θ/π)^16, so enough hashes find 99% of the
pairs at the threshold, and nearly all that are more similar. Only rows that agree in a hash are compared, by cosine.

A row is a duplicate of the first row that is kept and similar enough. Blank rows are never duplicates.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, NamedTuple, TextIO

import numpy as np

from banyan.corpus.keeping import TEXT, kind_to_write, write_rows
from banyan.corpus.reading import Corpus, in_blocks
from banyan.corpus.report import Report
from banyan.encoding import BLOCK_CHARACTERS, BLOCK_ROWS
from banyan.errors import BanyanError
from banyan.support.rows import normalize_rows, slices

if TYPE_CHECKING:
    from banyan.encoder import Banyan
    from banyan.support.display import Display

THRESHOLD, LOWEST = 0.9, 0.7
BITS, MISSED = 16, 0.01  # of a hash; of the pairs at the threshold
SEED, ROUNDING = 0, 1e-5
NONE = -1
_COMPARED = 2048  # rows with the same hash that are compared at a time


class Duplicate(NamedTuple):
    """A row that is similar to an earlier one. Rows count from 1, across all inputs."""

    row: int
    of: int
    cosine: float
    text: str
    of_text: str


@dataclass(frozen=True)
class Summary:
    rows: int
    blank: int
    duplicates: int

    def __str__(self) -> str:
        share = self.duplicates / max(self.rows, 1)
        blank = f", {self.blank:,} of them blank" if self.blank else ""
        return f"{self.rows:,} rows{blank}: {self.duplicates:,} near-duplicates ({share:.1%})"


def hashes_for(threshold: float) -> int:
    """How many hashes miss only a share of MISSED of the pairs at a threshold."""
    if not LOWEST <= threshold <= 1:
        raise BanyanError(f"threshold must be between {LOWEST:g} and 1, not {threshold:g}")
    agree = (1 - math.acos(min(threshold, 0.9999)) / math.pi) ** BITS
    return math.ceil(math.log(MISSED) / math.log(1 - agree))


class Deduplication:
    """The near-duplicates of files. Use it in a `with` block: it has a temporary folder."""

    def __init__(
        self,
        model: Banyan,
        inputs: str | Path | Sequence[str | Path],
        threshold: float = THRESHOLD,
        column: str | None = None,
        display: Display | None = None,
        kept_in: str | None = None,
    ) -> None:
        """kept_in: the file that `write_kept` will write, or "-" for standard output. Its suffix decides whether rows
        of tables keep all their columns; without a name, their texts are written."""
        self.model, self.threshold, self.n_hashes = model, threshold, hashes_for(threshold)
        self._stack, self.display = ExitStack(), display
        self._work = Path(self._stack.enter_context(TemporaryDirectory(prefix="banyan-dedup-")))
        try:
            self.corpus = Corpus(inputs, column=column, layout="lines", spool=self._work)
            self.kind = kind_to_write(self.corpus.paths, kept_in) if kept_in else TEXT
            self._read()
            self.of = self._find()
        except BaseException:
            self._stack.close()
            raise

    def __enter__(self) -> Deduplication:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    # --- Rows --------------------------------------------------------------------------------------------------------

    def _rows(self) -> Iterator[list[str]]:
        return in_blocks(self.corpus.rows(Report()), BLOCK_ROWS, BLOCK_CHARACTERS)

    def _read(self) -> None:
        """Encode all rows, and write their vectors and hashes to files."""
        planes = np.random.default_rng(SEED).standard_normal((self.model.dim, self.n_hashes * BITS)).astype(np.float32)
        powers = (1 << np.arange(BITS)).astype(np.float32)
        empty: list[np.ndarray] = []
        with ExitStack() as stack:
            files = [stack.enter_context(open(self._work / name, "wb")) for name in ("vectors", "hashes")]
            bar = self.display.bar("encoding", self.corpus.bytes_total, "bytes") if self.display else None
            meter = stack.enter_context(bar) if bar else None
            for block in self._rows():
                vectors = self.model.encode(block, normalize=True, show_progress_bar=False)
                empty.append(np.logical_not(vectors.any(1)))
                signs = (vectors @ planes > 0).reshape(len(block), self.n_hashes, BITS)
                scale = 127 / np.maximum(np.abs(vectors).max(1, keepdims=True), 1e-12)
                files[0].write(np.rint(vectors * scale).astype(np.int8).data)
                files[1].write((signs @ powers).astype(np.uint16).data)
                if meter:
                    meter(self.corpus.bytes_read)
        self.blank = np.concatenate(empty) if empty else np.empty(0, np.bool_)
        n = len(self.blank)
        shape = (n, self.model.dim), (n, self.n_hashes)
        kinds = zip(("vectors", "hashes"), (np.int8, np.uint16), shape, strict=True)
        self.vectors, self.hashes = (_mapped(self._work / name, kind, size) for name, kind, size in kinds)

    # --- Pairs -------------------------------------------------------------------------------------------------------

    def _find(self) -> np.ndarray:
        """The row that each row is a duplicate of, or NONE."""
        found = np.full(len(self.blank), NONE, np.int64)
        with ExitStack() as stack:
            bar = self.display.bar("comparing", self.n_hashes, "hashes") if self.display else None
            meter = stack.enter_context(bar) if bar else None
            for number in range(self.n_hashes):
                for rows in self._alike(number, found):
                    self._compare(rows, found)
                if meter:
                    meter(number + 1)
        return self._settled(found)

    def _alike(self, number: int, found: np.ndarray) -> Iterator[np.ndarray]:
        """The rows that agree in a hash, in order, of those that are not duplicates already."""
        left = np.flatnonzero((found == NONE) & ~self.blank)
        keys = self.hashes[left, number]
        order = np.argsort(keys, kind="stable")
        bounds = np.flatnonzero(np.diff(keys[order])) + 1
        sizes = np.diff(np.concatenate([[0], bounds, [len(order)]]))
        starts = np.cumsum(sizes) - sizes
        for start, size in zip(starts[sizes > 1].tolist(), sizes[sizes > 1].tolist(), strict=True):
            yield left[order[start : start + size]]

    def _compare(self, rows: np.ndarray, found: np.ndarray) -> None:
        """Find duplicates among rows, block by block against those before that are still kept."""
        for own in slices(len(rows), _COMPARED):
            mine = rows[own]
            for before in slices(own.start + len(mine), _COMPARED):
                others = rows[before]
                alike = self.cosines(mine, others) >= self.threshold - ROUNDING
                alike &= (others[None, :] < mine[:, None]) & (found[others] == NONE)[None, :]
                for i in np.flatnonzero(alike.any(1) & (found[mine] == NONE)).tolist():
                    kept = others[alike[i] & (found[others] == NONE)]
                    if len(kept):
                        found[mine[i]] = kept[0]

    def cosines(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """The cosines of rows with rows [len(a), len(b)]."""
        first, second = (normalize_rows(self.vectors[rows].astype(np.float32)) for rows in (a, b))
        return first @ second.T

    def _settled(self, found: np.ndarray) -> np.ndarray:
        """The same, where no row is a duplicate of a row that is not kept."""
        for row in np.flatnonzero(found != NONE).tolist():
            first = found[row]
            if found[first] != NONE:
                root = found[first]
                alike = self.cosines(np.array([row]), np.array([root]))[0, 0] >= self.threshold - ROUNDING
                found[row] = root if alike else NONE
        return found

    # --- Results -----------------------------------------------------------------------------------------------------

    @property
    def summary(self) -> Summary:
        return Summary(len(self.of), int(self.blank.sum()), int((self.of != NONE).sum()))

    def kept(self) -> Iterator[str]:
        """The rows that are no duplicates, in order."""
        row = 0
        for block in self._rows():
            for text in block:
                if self.of[row] == NONE:
                    yield text
                row += 1

    def write_kept(self, out: Path | TextIO) -> None:
        """Write the rows that are no duplicates: those of a table with all their columns, in its format."""
        if self.kind != TEXT:
            write_rows(self.corpus.paths, self.kind, self.of == NONE, out)
            return
        with open(out, "w", encoding="utf-8", newline="\n") if isinstance(out, Path) else nullcontext(out) as file:
            file.writelines(f"{on_one_line(text)}\n" for text in self.kept())

    def duplicates(self) -> Iterator[Duplicate]:
        """The duplicates, in order. The text of a row is held until its last duplicate."""
        rows = np.flatnonzero(self.of != NONE)
        last, texts, row = dict(zip(self.of[rows].tolist(), rows.tolist(), strict=True)), dict[int, str](), 0
        for block in self._rows():
            for text in block:
                if row in last:
                    texts[row] = text
                first = int(self.of[row])
                if first != NONE:
                    cosine = float(self.cosines(np.array([row]), np.array([first]))[0, 0])
                    of_text = texts.pop(first) if last[first] == row else texts[first]
                    yield Duplicate(row + 1, first + 1, min(cosine, 1.0), text, of_text)
                row += 1


def on_one_line(text: str) -> str:
    """A text without line ends and tabs."""
    return " ".join(text.splitlines()).replace("\t", " ")


def _mapped(path: Path, kind: type, shape: tuple[int, ...]) -> np.ndarray:
    return np.memmap(path, kind, "r", shape=shape) if shape[0] else np.empty(shape, kind)
