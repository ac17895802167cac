"""An index: a folder with rows (a Lance table) and index.json, which says which model made the vectors, and how far
each source has come.

    index/index.json    the model, the sources
    index/rows.lance/   text, vector, source, row and the columns of tables

A batch of rows is acknowledged when it is in the table and on the disk. index.json is written after it; a process that
is killed between the two leaves rows that index.json does not know of, which the next one finds in the table.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from banyan._version import __version__
from banyan.corpus.rows import RowSource, SourceRow, row_sources
from banyan.errors import BanyanError
from banyan.search.columns import Columns, with_free_names
from banyan.search.rows import Rows, quoted
from banyan.support import files

if TYPE_CHECKING:
    from banyan.encoder import Banyan
    from banyan.support.display import Display

Encode = Callable[[list[str]], np.ndarray]
FORMAT = 1
RECORD = "index.json"
BATCH_ROWS = 1 << 16  # written at a time,
BATCH_CHARACTERS = 1 << 25  # or fewer if they are long,
BATCH_SECONDS = 5.0  # or take long


@dataclass(frozen=True)
class Maker:
    """Which model made the vectors."""

    path: str
    fingerprint: str
    dim: int
    earlier: tuple[str, ...] = ()  # fingerprints that earlier versions gave the same model; not saved

    @classmethod
    def of(cls, model: Banyan, path: str | Path) -> Maker:
        """path: the model's folder, which the index remembers."""
        fingerprint, *earlier = model.fingerprints()
        return cls(str(Path(path).resolve()), fingerprint, model.dim, tuple(earlier))


@dataclass
class SourceProgress:
    """How far a source has come."""

    mark: str  # by which a changed file is known
    rows: int = 0  # read and, unless blank, written
    finished: bool = False
    replacing: bool = False  # rows of an earlier state of it may still have to go


@dataclass
class Record:
    """index.json."""

    model: Maker
    language: str | None = None
    sources: dict[str, SourceProgress] = field(default_factory=dict)


class Index:
    """Opened for search by `Index.open`, for writing by `Index.writing`, which one process at a time may do."""

    def __init__(self, folder: Path, record: Record, rows: Rows) -> None:
        self.folder, self.record, self.rows = folder, record, rows

    @classmethod
    def open(cls, folder: str | Path) -> Index:
        """For search; others may write to it meanwhile."""
        folder = Path(folder)
        return cls(folder, _read(folder), Rows.open(folder))

    @classmethod
    @contextmanager
    def writing(cls, folder: str | Path, maker: Maker | None = None, language: str | None = None) -> Iterator[Index]:
        """For adding and deleting, in a `with` block. maker: who makes the vectors that are to be added; a folder that
        has no index yet gets one. language: whose stems words are compared by, in a new index."""
        folder = Path(folder)
        if maker is not None:
            _make(folder)
        elif not (folder / RECORD).exists():
            raise BanyanError(f"there is no index in {folder}; `banyan index` makes one")
        with files.locked(folder / "lock", f"another process is writing to {folder}: wait until it has ended"):
            if (folder / RECORD).exists():
                index = cls.open(folder)
                if maker is not None:
                    index.check(maker)
                    index._check_language(language)
            else:
                assert maker is not None
                index = cls._created(folder, maker, language)
            index._take_up()
            yield index

    @classmethod
    def _created(cls, folder: Path, maker: Maker, language: str | None) -> Index:
        import shutil

        shutil.rmtree(folder / "rows.lance", ignore_errors=True)  # of a process killed before there was a record
        index = cls(folder, Record(maker, language), Rows.create(folder, maker.dim, language))
        index.save()
        return index

    def _take_up(self) -> None:
        """What a killed process had written but not yet recorded counts."""
        for name, progress in self.record.sources.items():
            if progress.replacing:
                self._remove_old(name, progress)
            elif not progress.finished:
                progress.rows = max(progress.rows, self.rows.last(name))
                self.save()

    def check(self, maker: Maker) -> None:
        """An error unless that model made this index."""
        made_by = self.record.model
        if made_by.fingerprint not in (maker.fingerprint, *maker.earlier):
            told = f"{self.folder} was made with the model {made_by.path}, and {maker.path} is another"
            raise BanyanError(f"{told}: vectors of two models cannot be compared; use that model, or index again")

    def _check_language(self, language: str | None) -> None:
        if language not in (None, self.record.language):
            made = self.record.language or "no language in particular"
            raise BanyanError(f"{self.folder} was made for {made}, not {language}: make another index")

    def save(self) -> None:
        head = {"format": FORMAT, "banyan_version": __version__}
        record = asdict(self.record)
        del record["model"]["earlier"]
        text = json.dumps(head | record, indent=2, ensure_ascii=False)
        files.write_text(self.folder / RECORD, text + "\n")

    def delete(self, where: str) -> int:
        """Remove rows; how many."""
        removed = self.rows.delete(where)
        self.rows.settle()
        return removed

    # --- Adding ------------------------------------------------------------------------------------------------------

    def add(
        self,
        encode: Encode,
        names: Sequence[str],
        *,
        column: str | None = None,
        keep: Sequence[str] | None = None,
        update: bool = False,
        display: Display | None = None,
    ) -> IndexingSummary:
        """Index files, folders, globs, "-" or hf:name. What is indexed already is not read again; a file that changed
        since is an error, unless its rows are to be replaced (update).

        column: which holds the text of a table. keep: which others are kept, all unless said, as NAME or NAME:TYPE."""
        started = time.monotonic()
        spool = self.folder / "spool"
        found = row_sources(names, column, spool)
        todo = [source for source in found if self._begin(source, update)]
        summary = IndexingSummary(self.folder)
        columns = Columns(keep, self.rows.columns)
        for source in todo:
            adding = _Adding(self, source, encode, columns)
            summary.resumed += self.record.sources[source.name].rows
            adding.run(display)
            summary.added += adding.added
            summary.blank += adding.blank
        for source in found:
            if source.copy is not None:
                source.copy.unlink(missing_ok=True)
        with _patience(display, "still busy: the indexes of words and vectors are brought up to date"):
            self.rows.settle()
        summary.rows, summary.seconds = len(self.rows), time.monotonic() - started
        return summary

    def _begin(self, source: RowSource, update: bool) -> bool:
        """Whether there is anything to do."""
        known = self.record.sources.get(source.name)
        if known is not None and known.mark == source.mark:
            return not known.finished
        if known is not None and not update:
            told = f"{source.name} changed since it was indexed"
            raise BanyanError(f"{told}: --update replaces its rows; nothing was done")
        progress = self.record.sources[source.name] = SourceProgress(source.mark, replacing=known is not None)
        self.save()
        if progress.replacing:
            self._remove_old(source.name, progress)
        return True

    def _remove_old(self, name: str, progress: SourceProgress) -> None:
        self.rows.delete(f"source = {quoted(name)}")
        progress.replacing = False
        self.save()


@dataclass
class IndexingSummary:
    """What became of the rows."""

    folder: Path
    added: int = 0
    blank: int = 0
    resumed: int = 0  # rows read by an earlier run that was stopped
    rows: int = 0  # that the index has now
    seconds: float = 0.0

    def __str__(self) -> str:
        text = f"{self.folder}: {self.added:,} rows added"
        text += f" ({self.added / max(self.seconds, 1e-9):,.0f} rows/s)" if self.added else ""
        text += f", after {self.resumed:,} of an earlier run" if self.resumed else ""
        text += f"; {self.blank:,} without text left out" if self.blank else ""
        return f"{text}; {self.rows:,} in all"


class _Adding:
    """One source on its way into the table."""

    def __init__(self, index: Index, source: RowSource, encode: Encode, columns: Columns) -> None:
        self._index, self._source, self._encode, self._columns = index, source, encode, columns
        self._progress = index.record.sources[source.name]
        self.added = self.blank = 0

    def run(self, display: Display | None) -> None:
        from banyan.support.display import Display

        display = display or Display(quiet=True)
        with display.bar("indexing", self._source.bytes_total, "bytes") as meter:
            try:
                for batch in _batches(self._source.rows(), self._progress.rows):
                    self._write(batch)
                    meter(self._source.bytes_read, figures={"rows": f"{self._progress.rows:,}"})
            except KeyboardInterrupt:
                told = f"stopped after {self._progress.rows:,} rows, which are kept: the same command goes on"
                raise KeyboardInterrupt(told) from None
        self._progress.finished = True
        self._index.save()

    def _write(self, batch: list[SourceRow]) -> None:
        rows = [with_free_names(row) for row in batch if row.text.strip()]
        if rows:
            new = self._columns.infer(rows, numbers_as_text=self._source.kind in ("csv", "tsv"))
            self._index.rows.add_columns(new)
            vectors = unit(self._encode([row.text for row in rows]))
            self._index.rows.append(self._columns.arrays(rows, self._source.name), vectors)
        self._progress.rows = batch[-1].number
        self._index.save()
        self.added += len(rows)
        self.blank += len(batch) - len(rows)


def _batches(rows: Iterator[SourceRow], skip: int) -> Iterator[list[SourceRow]]:
    batch: list[SourceRow] = []
    held, since = 0, time.monotonic()
    for row in rows:
        if row.number <= skip:
            continue
        batch.append(row)
        held += len(row.text)
        full = len(batch) == BATCH_ROWS or held >= BATCH_CHARACTERS
        if full or (row.number % 256 == 0 and time.monotonic() - since > BATCH_SECONDS):
            yield batch
            batch, held, since = [], 0, time.monotonic()
    if batch:
        yield batch


def unit(vectors: np.ndarray) -> np.ndarray:
    """Of length 1, so that a dot product is a cosine; zero stays zero."""
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    return (vectors / np.where(norms > 0, norms, 1)).astype(np.float32)


def _make(folder: Path) -> None:
    if folder.exists() and not folder.is_dir():
        raise BanyanError(f"{folder} is a file: name a folder for the index")
    if folder.is_dir() and any(folder.iterdir()) and not (folder / RECORD).exists() and not (folder / "lock").exists():
        raise BanyanError(f"{folder} holds other files and no index: name another folder")
    folder.mkdir(parents=True, exist_ok=True)


def _read(folder: Path) -> Record:
    path = folder / RECORD
    if not path.exists():
        raise BanyanError(f"there is no index in {folder}; `banyan index` makes one")
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        if values["format"] != FORMAT:
            raise BanyanError(f"{path} has format {values['format']}, and this banyan reads {FORMAT}: index again")
        done = {name: SourceProgress(**progress) for name, progress in values["sources"].items()}
        return Record(Maker(**values["model"]), values["language"], done)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        if isinstance(error, BanyanError):
            raise
        raise BanyanError(f"cannot read {path}: {error}; index again") from None


def _patience(display: Display | None, text: str) -> Any:
    from banyan.support.display import Display

    return (display or Display(quiet=True)).patience(text)
