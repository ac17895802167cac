"""Index: a folder with a Lance table of rows, and index.json, which records the model and the progress of each source.

    index/index.json    the model, the sources
    index/rows.lance/   text, vector, source, row and the columns of tables
    index/memory/       the same as arrays, if there are few: see banyan.search.memory

A batch of rows is acknowledged once it is in the table and flushed to disk. index.json is written after that. A process
killed between the two leaves rows that index.json does not record; the next process finds them in the table.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from banyan._version import __version__
from banyan.corpus.rows import RowSource, SourceRow, row_sources
from banyan.errors import BanyanError
from banyan.search import memory
from banyan.search.columns import Columns, with_free_names
from banyan.search.memory import Memory
from banyan.search.rows import TABLE, Rows, quoted
from banyan.support import checksums, files
from banyan.support.rows import unit_rows

if TYPE_CHECKING:
    from banyan.encoder import Banyan
    from banyan.support.display import Display


class LaterFormat(BanyanError):
    """The index was written by a later version."""


Encode = Callable[[list[str]], np.ndarray]
FORMAT = 2  # 1 is read, too: its full-text index has no parts of compound names
RECORD, SPOOL = "index.json", "spool"
_REMEDY = "index again, or let `banyan check --repair` restore it from the rows"
BATCH_ROWS = 1 << 16  # rows written at a time,
BATCH_CHARACTERS = 1 << 25  # or fewer if they are long,
BATCH_SECONDS = 5.0  # or slow to encode


@dataclass(frozen=True)
class Maker:
    """The model that made the vectors of an index."""

    path: str
    fingerprint: str
    dim: int
    earlier: tuple[str, ...] = ()  # fingerprints of the same model in earlier versions; not saved

    @classmethod
    def of(cls, model: Banyan, path: str | Path) -> Maker:
        """Describe a model. path: the folder of the model or its name on the Hub, which the index records."""
        fingerprint, *earlier = model.fingerprints()
        return cls(_whereabouts(path), fingerprint, model.dim, tuple(earlier))


def _whereabouts(path: str | Path) -> str:
    from banyan.integrations import hub

    on_the_hub = hub.is_name(path) and not Path(path).is_dir()
    return str(path if on_the_hub else Path(path).resolve())


@dataclass
class SourceProgress:
    """How much of a source is indexed."""

    mark: str  # changes when the file does
    rows: int = 0  # rows read and, unless blank, written
    finished: bool = False
    replacing: bool = False  # rows of its earlier content may still have to be deleted


@dataclass
class Record:
    """The content of index.json."""

    model: Maker
    language: str | None = None
    sources: dict[str, SourceProgress] = field(default_factory=dict)


class Index:
    """Open it for search with `Index.open`, or for writing with `Index.writing`, which one process at a time can do."""

    def __init__(self, folder: Path, record: Record, private: bool = False) -> None:
        self.folder, self.record, self._private = folder, record, private

    @cached_property
    def rows(self) -> Rows:
        """The table, opened when first needed: importing LanceDB takes two seconds."""
        return Rows.open(self.folder)

    @cached_property
    def memory(self) -> Memory | None:
        """The rows as arrays, if there are few enough. They are written now if they are missing and nobody writes."""
        found = self.ready_memory()
        if found is None and memory.fits(self.rows):
            with suppress(BanyanError, OSError), files.locked(self.folder / "lock", "busy"):
                memory.write(self.folder, self.rows, self.record.language)
                found = self.ready_memory()
        return found

    def ready_memory(self) -> Memory | None:
        """The arrays that are on disk, if they are not stale."""
        return memory.read(self.folder, self._private)

    @classmethod
    def open(cls, folder: str | Path, private: bool = False) -> Index:
        """Open an index for search. Another process may write to it at the same time.

        private: copy its arrays into memory instead of mapping them: a mapped file that is cut ends the process."""
        folder = Path(folder)
        return cls(folder, _read(folder), private)

    @classmethod
    @contextmanager
    def writing(cls, folder: str | Path, maker: Maker | None = None, language: str | None = None) -> Iterator[Index]:
        """Open an index for adding and deleting, in a `with` block.

        maker: the model that makes the vectors to add. If given, an index is created in a folder that has none. It is
        removed if the block fails before the first rows are in it.
        language: for stemming and stop words in a new index."""
        folder = Path(folder)
        if maker is not None:
            _check_free(folder)
        elif not (folder / RECORD).exists():
            raise BanyanError(f"there is no index in {folder}; `banyan index` makes one")
        with files.held(folder, f"another process is writing to {folder}: wait until it has ended"):
            Rows.recover(folder)
            new = not (folder / RECORD).exists()
            if not new:
                index = cls.open(folder)
                if maker is not None:
                    index.check(maker)
                    index._check_language(language)
            else:
                assert maker is not None
                index = cls._created(folder, maker, language)
            files.remove_leftovers(folder)
            index._take_up()
            try:
                yield index
            except BaseException:
                if new and not len(index.rows):
                    for name in (RECORD, TABLE, checksums.SUMS, SPOOL, memory.FOLDER):
                        files.remove(folder / name)
                raise

    @classmethod
    def _created(cls, folder: Path, maker: Maker, language: str | None) -> Index:
        Rows.remove_empty(folder)
        index = cls(folder, Record(maker, language))
        index.rows = Rows.create(folder, maker.dim, language, _as_json(index.record))
        index.save()
        return index

    @classmethod
    def is_lost(cls, folder: Path) -> bool:
        """Whether index.json is missing or damaged. (That of a later version is neither.)"""
        try:
            _read(folder)
        except BanyanError as error:
            return not isinstance(error, LaterFormat)
        return False

    @classmethod
    def restore(cls, folder: Path) -> None:
        """Write a lost or damaged index.json again, from what the table says about itself and its rows."""
        with files.locked(folder / "lock", f"another process is writing to {folder}: wait until it has ended"):
            rows = Rows.open(folder)
            if rows.about is None:
                raise BanyanError(f"{folder} was made by an earlier version, which kept its model in index.json only")
            record = Record(Maker(**rows.about["model"]), rows.about["language"])
            for source, last in rows.sources().items():  # the mark is lost: --update is needed to read it again
                record.sources[source] = SourceProgress("restored", last, finished=True)
            cls(folder, record).save()

    def _take_up(self) -> None:
        """Record what a killed process wrote to the table but not to index.json."""
        for name, progress in self.record.sources.items():
            if progress.replacing:
                self._remove_old(name, progress)
            elif not progress.finished:
                progress.rows = max(progress.rows, self.rows.last(name))
                self.save()

    def check(self, maker: Maker) -> None:
        """Raise an error unless this model made the index."""
        made_by = self.record.model
        if made_by.fingerprint not in (maker.fingerprint, *maker.earlier):
            models = f"{self.folder} was made with the model {made_by.path}, and {maker.path} is a different one"
            raise BanyanError(f"{models}: vectors of two models cannot be compared; use that model, or index again")

    def _check_language(self, language: str | None) -> None:
        if language not in (None, self.record.language):
            made = self.record.language or "no particular language"
            raise BanyanError(f"{self.folder} was made for {made}, not {language}: create another index")

    def save(self) -> None:
        values = {"format": FORMAT, "banyan_version": __version__, **_as_json(self.record)}
        values = checksums.sealed(values)
        files.write_text(self.folder / RECORD, json.dumps(values, indent=2, ensure_ascii=False) + "\n")

    def delete(self, where: str) -> int:
        """Delete the rows that meet an SQL condition. Return how many."""
        removed = self.rows.delete(where)
        self._settle()
        return removed

    def _settle(self) -> None:
        self.rows.settle()
        with suppress(OSError):  # a full disk: search is only slower without the arrays
            memory.write(self.folder, self.rows, self.record.language)
        self.__dict__.pop("memory", None)

    def refresh(self) -> None:
        """See what other processes have written since the rows were first used."""
        for name in ("rows", "memory"):
            self.__dict__.pop(name, None)

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
        """Index files, folders, globs, "-" or hf:name. Sources that are already indexed are not read again.

        column: the column of a table that holds the text.
        keep: the other columns to keep, as NAME or NAME:TYPE; all by default.
        update: replace the rows of files that changed since they were indexed, which otherwise raise an error."""
        started = time.monotonic()
        spool = self.folder / SPOOL
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
        with _patience(display, "still busy: updating the indexes of words and vectors"):
            self._settle()
        summary.rows, summary.seconds = len(self.rows), time.monotonic() - started
        return summary

    def _begin(self, source: RowSource, update: bool) -> bool:
        """Record a source. Return whether there is anything to do."""
        known = self.record.sources.get(source.name)
        if known is not None and known.mark in source.marks:
            return not known.finished
        if known is not None and not update:
            raise BanyanError(f"{source.name} changed since it was indexed: use --update to replace its rows")
        progress = self.record.sources[source.name] = SourceProgress(source.marks[0], replacing=known is not None)
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
    """Counts of the rows added to an index."""

    folder: Path
    added: int = 0
    blank: int = 0
    resumed: int = 0  # rows read by an earlier run that was interrupted
    rows: int = 0  # in the index now
    seconds: float = 0.0

    def __str__(self) -> str:
        text = f"{self.folder}: {self.added:,} rows added"
        text += f" ({self.added / max(self.seconds, 1e-9):,.0f} rows/s)" if self.added else ""
        text += f", after {self.resumed:,} in an earlier run" if self.resumed else ""
        text += f"; {self.blank:,} without text skipped" if self.blank else ""
        return f"{text}; {self.rows:,} in all"


class _Adding:
    """Adds one source to the table."""

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
                message = f"stopped after {self._progress.rows:,} rows, which are kept: run the same command again"
                raise KeyboardInterrupt(message) from None
        self._progress.finished = True
        self._index.save()

    def _write(self, batch: list[SourceRow]) -> None:
        rows = [with_free_names(row) for row in batch if row.text.strip()]
        if rows:
            new = self._columns.infer(rows, numbers_as_text=self._source.kind in ("csv", "tsv"))
            self._index.rows.add_columns(new)
            vectors = unit_rows(self._encode([row.text for row in rows]))
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


def _as_json(record: Record) -> dict[str, Any]:
    values = asdict(record)
    del values["model"]["earlier"]
    return values


def _check_free(folder: Path) -> None:
    if folder.exists() and not folder.is_dir():
        raise BanyanError(f"{folder} is a file: name a folder for the index")
    if folder.is_dir() and any(folder.iterdir()) and not (folder / RECORD).exists() and not (folder / "lock").exists():
        raise BanyanError(f"{folder} has other files and no index: choose another folder")


def _read(folder: Path) -> Record:
    path = folder / RECORD
    if not path.exists():
        raise BanyanError(f"there is no index in {folder}; `banyan index` makes one")
    try:
        values = checksums.read_sealed(path, _REMEDY)
        if values["format"] not in (1, FORMAT):
            raise LaterFormat(f"{path} has format {values['format']}, this version reads up to {FORMAT}: index again")
        done = {name: SourceProgress(**progress) for name, progress in values["sources"].items()}
        return Record(Maker(**values["model"]), values["language"], done)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        if isinstance(error, BanyanError):
            raise
        raise BanyanError(f"cannot read {path}: {error}; index again") from None


def _patience(display: Display | None, text: str) -> Any:
    from banyan.support.display import Display

    return (display or Display(quiet=True)).patience(text)
