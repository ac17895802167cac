"""Encode whole files in constant memory, as `banyan encode` and `banyan similar --in` do.

Row i of the result is row i of the input: a line of text, even if empty, or a row of a table. Rows are appended to
OUT.partial/data, and OUT.partial/progress.json records how many are flushed to disk, so a run can be killed at any
moment and resumed. OUT itself is written atomically. One process at a time locks OUT.partial, from before it reads it
until the end.
"""

from __future__ import annotations

import errno
import json
import os
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from banyan import block_sums
from banyan._version import __version__
from banyan.block_sums import BlockSums
from banyan.compact import Form, Precision
from banyan.corpus.reading import Corpus, in_blocks
from banyan.corpus.report import Report
from banyan.corpus.sources import as_recorded
from banyan.errors import BanyanError
from banyan.formats import Writer, writer_for
from banyan.support import checksums, files, threads

if TYPE_CHECKING:
    from banyan.encoder import Banyan
    from banyan.support.display import Display, Meter

BLOCK_ROWS = 2048  # rows encoded and written at a time
BLOCK_CHARACTERS = 1 << 23  # or fewer rows, if they are long
SECONDS_BETWEEN_RECORDS = 2.0
BYTES_BETWEEN_FLUSHES = 1 << 24
SECONDS_WITHOUT_BAR = 1.0


@dataclass(frozen=True)
class EncodingSummary:
    """Counts of the rows that encode_file wrote."""

    out: Path
    rows: int
    dim: int
    precision: Precision
    blank: int  # rows without text; their embedding is zero
    resumed: int  # rows encoded by an earlier run
    seconds: float
    report: Report  # repairs, and values that are not text
    finished_before: bool = False  # there was nothing to resume

    def __str__(self) -> str:
        if self.finished_before:
            return f"{self.out} is finished already"
        new = self.rows - self.resumed
        text = f"wrote {self.out}: {self.rows:,} rows of {Form(self.dim, self.precision)}"
        text += f", {self.resumed:,} of them in an earlier run" if self.resumed else ""
        text += f" ({new / max(self.seconds, 1e-9):,.0f} rows/s)" if new else ""
        if self.blank:
            text += f"; {self.blank:,} without text are zero"
        for what, counts in (("not text", self.report.dropped), ("repaired", self.report.repaired)):
            if counts:
                text += f"; {what}: " + ", ".join(f"{count:,} {kind}" for kind, count in counts.items())
        return text


def encode_file(
    model: Banyan,
    inputs: str | Path | Sequence[str | Path],
    out: str | Path,
    *,
    normalize: bool = False,
    truncate_dim: int | None = None,
    precision: Precision = "float32",
    column: str | None = None,
    resume: bool = False,
    overwrite: bool = False,
    display: Display | None = None,
) -> EncodingSummary:
    """Encode every row of the inputs into `out`: .npy ([n, E]), .parquet (text, embedding) or .jsonl.

    inputs: files, folders, globs, "-" or hf:name, as for Corpus.
    normalize, truncate_dim, precision: as in Banyan.encode.
    column: the text column of a table.
    resume: continue an interrupted run from OUT.partial, if there is one.
    overwrite: replace `out`, and discard any interrupted run.
    """
    started = time.monotonic()
    out = Path(out)
    form = Form.of(model.dim, truncate_dim, precision, normalize)
    writer = writer_for(out, form)
    work = Path(f"{out}.partial")
    _refuse_no_file(out)
    with files.held(work, f"another process is writing {out}: wait for it, or stop it"):
        files.remove_orphans(out.parent.resolve(), block_sums.beside(out).name)
        verifiable = block_sums.beside(out).exists() or _earlier_sums(out).exists()
        finished = out.exists() and verifiable and not (work / _RECORD).exists()
        if resume and finished and not overwrite:
            files.clear(work)  # a process may have been killed while it did this
            return EncodingSummary(out, 0, form.dim, form.precision, 0, 0, 0.0, Report(), finished_before=True)
        _refuse_to_lose(out, work, resume, overwrite)
        corpus = Corpus(inputs, column=column, layout="lines", spool=work)
        _refuse_own_input(out, corpus)
        how = {"normalize": normalize, "truncate_dim": truncate_dim, "precision": precision}
        partial = _Partial(work, model, corpus, how, writer, out)
        rows = _Rows(corpus)
        resumed = partial.rows
        with _writing(work), partial, _LateBar(display, corpus) as bar:
            _write(model, rows.blocks(skip=resumed), how, partial, bar)
            partial.finish()
    seconds = time.monotonic() - started
    return EncodingSummary(out, partial.rows, form.dim, form.precision, rows.blank, resumed, seconds, rows.report)


def _write(model: Banyan, blocks: Iterator[list[str]], how: dict[str, Any], to: _Partial, bar: _LateBar) -> None:
    """Read, encode and write blocks, all at once. A block is written only after the one before it."""
    with ThreadPoolExecutor(1) as beside, _encoded(model, blocks, how) as encoded:
        written: Future[None] | None = None
        for texts, vectors in encoded:
            if written:
                written.result()
                bar.show(to.rows)
            written = beside.submit(to.append, texts, vectors)
        if written:
            written.result()
            bar.show(to.rows)


def _encoded(model: Banyan, blocks: Iterator[list[str]], how: dict[str, Any]) -> AbstractContextManager[_Encoded]:
    """Encode a block on each core, so that no core waits for the end of a block."""
    cores = threads.available() if model.device == "cpu" else 1
    return threads.ahead(lambda texts: model.encode(texts, show_progress_bar=False, **how), blocks, cores)


class Match(NamedTuple):
    """A row found by most_similar."""

    score: float  # cosine
    row: int  # from 1, across all inputs
    text: str


def most_similar(
    model: Banyan, text: str, inputs: str | Path | Sequence[str | Path], k: int = 10, *, column: str | None = None
) -> list[Match]:
    """Return the k rows of the inputs with the highest cosine, best first. Of equal rows, the earlier comes first."""
    if k < 1:
        raise BanyanError(f"k must be at least 1, not {k}")
    if not text.strip():
        raise BanyanError("the query is empty: write what to look for")
    query = model.encode(text, normalize=True)
    best: list[Match] = []
    seen = 0
    with TemporaryDirectory(prefix="banyan-") as spool, ExitStack() as stack:
        rows = _Rows(Corpus(inputs, column=column, layout="lines", spool=Path(spool)))
        for block, vectors in stack.enter_context(_encoded(model, rows.blocks(), {"normalize": True})):
            scores = np.einsum("ij,j->i", vectors, query)  # unlike @, gives the same bits for equal rows in any block
            top = np.argsort(-scores, kind="stable")[:k].tolist()
            best += [Match(float(scores[i]), seen + i + 1, block[i]) for i in top]
            best = sorted(best, key=lambda match: (-match.score, match.row))[:k]
            seen += len(block)
    return best


_Encoded = Iterator[tuple[list[str], np.ndarray]]


# --- Rows in ---------------------------------------------------------------------------------------------------------


class _Rows:
    """The rows of a corpus. Unlike its sentences, none are dropped or split."""

    def __init__(self, corpus: Corpus) -> None:
        self.corpus = corpus
        self.report = Report()
        self.blank = 0

    def blocks(self, skip: int = 0) -> Iterator[list[str]]:
        """Yield blocks of rows, the same in every run, without the first `skip` rows."""
        seen = 0
        for block in in_blocks(self.corpus.rows(self.report), BLOCK_ROWS, BLOCK_CHARACTERS):
            self.blank += block.count("") + sum(map(str.isspace, block))
            before, seen = seen, seen + len(block)
            if seen > skip:
                yield block[max(skip - before, 0) :]


# --- Rows out --------------------------------------------------------------------------------------------------------


class _Partial:
    """OUT.partial and its progress."""

    def __init__(
        self, folder: Path, model: Banyan, corpus: Corpus, how: dict[str, Any], writer: Writer, out: Path
    ) -> None:
        self.folder, self.data, self.record = folder, folder / "data", folder / _RECORD
        self.model, self.corpus, self.how, self.writer, self.out = model, corpus, how, writer, out
        self.rows = self.bytes = self.flushed = 0
        self.sums: BlockSums | None = None  # of all bytes so far, if they are OUT's and of this run
        self.finished = False  # all rows are written
        if self.record.exists():
            self._take_up()

    @cached_property
    def run(self) -> dict[str, Any]:
        """What must be the same when the run is resumed. It takes a while, so a run without a record does not ask."""
        run = {"model": self.model.quick_fingerprint(), "input": self.corpus.fingerprint()}
        run |= {"normalisation": self.how["normalize"], "truncation": self.how["truncate_dim"]}
        return run | {"precision": self.how["precision"], "version of banyan": __version__}

    def _take_up(self) -> None:
        """Continue where the interrupted run stopped, if it had the same model, input and options."""
        again, run = "--overwrite starts again", self.run
        try:
            record = json.loads(self.record.read_text(encoding="utf-8"))
            self.rows, self.bytes = int(record["rows"]), int(record["bytes"])
            run["input"] = as_recorded(record["run"].get("input"), self.corpus.fingerprints())
            changed = [name for name, value in run.items() if record["run"].get(name) != value]
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            raise BanyanError(f"cannot read {self.record}: {again}") from None
        if changed:
            changes = " and the ".join(changed)
            raise BanyanError(f"{self.folder} cannot be resumed, because the {changes} changed: {again}")
        # If the data file is gone, it was already renamed to OUT, and only the folder is left to remove.
        self.finished = bool(record["finished"]) and not self.data.exists()
        if not self.finished and (not self.data.exists() or self.data.stat().st_size < self.bytes):
            raise BanyanError(f"{self.data} is shorter than {self.record} says: {again}")

    def __enter__(self) -> None:
        if self.finished:
            return
        self.bytes = self.bytes if self.rows else 0
        self.file = self.data.open("ab")
        self.file.truncate(self.bytes)
        if not self.rows:
            self._begin()
        self.beside = ThreadPoolExecutor(1)
        self.flushing: Future[None] | None = None
        self.saved = time.monotonic()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self.finished:
            return
        with self.file, self.beside:
            if kind is KeyboardInterrupt:
                self._save()
                raise KeyboardInterrupt(f"stopped after {self.rows:,} rows, which are kept: --resume continues")

    def _begin(self) -> None:
        head = self.writer.head(0)
        self.bytes = self.file.write(head)
        if self.writer.is_result:
            self.sums = BlockSums()
            self.sums.add(head)

    def append(self, texts: list[str], vectors: np.ndarray) -> None:
        block = self.writer.block(texts, vectors)
        self.file.write(block)
        if self.sums:
            self.sums.add(block)
        self.rows, self.bytes = self.rows + len(texts), self.bytes + len(block)  # one statement, against Ctrl-C
        if time.monotonic() - self.saved > SECONDS_BETWEEN_RECORDS:
            self._save()
        elif self.bytes - self.flushed > BYTES_BETWEEN_FLUSHES:
            self._flush()

    def _flush(self) -> None:
        """Let the disk write beside everything else, so that little is left to wait for, unless it is busy already."""
        if self.flushing and not self.flushing.done():
            return
        if self.flushing:
            self.flushing.result()  # the system tells an error only once
        self.flushing = self.beside.submit(os.fsync, self.file.fileno())
        self.flushed = self.bytes

    def _save(self, finished: bool = False) -> None:
        """Flush the rows to disk and record them."""
        self.file.flush()
        if self.flushing:
            self.flushing.result()
        os.fsync(self.file.fileno())
        record = {"run": self.run, "rows": self.rows, "bytes": self.bytes, "finished": finished}
        files.write_text(self.record, json.dumps(record) + "\n")
        self.saved, self.flushed = time.monotonic(), self.bytes

    def finish(self) -> None:
        """Write the checksums, rename the result to OUT and empty the folder.

        A run that has no record and replaces nothing gets none for this: if it is killed here, it starts again."""
        sums: BlockSums | None = None
        if not self.finished:
            self.file.flush()
            result = self.writer.finish(self.data, self.rows)
            replaces = self.out.exists()
            if self.record.exists() or replaces:
                self._save(finished=True)
            last = self.beside.submit(files.sync, result)
            sums = self._sums(result)
            if replaces:  # a file never has the checksums of another
                block_sums.beside(self.out).unlink(missing_ok=True)
            else:
                block_sums.record(self.out, sums)
            last.result()
            if self.flushing:
                self.flushing.result()
            self.file.close()
            self.finished = True
            _earlier_sums(self.out).unlink(missing_ok=True)
            os.replace(result, self.out)
            files.sync(self.out.parent)
        if not block_sums.beside(self.out).exists():
            block_sums.record(self.out, sums or block_sums.of_file(self.out))
        files.clear(self.folder)

    def _sums(self, result: Path) -> BlockSums:
        """The checksums of the result. Only its first block is read again, if it has the bytes that were appended."""
        if not self.sums:
            return block_sums.of_file(result)
        self.sums.read_first(result)  # the head has changed
        return self.sums


_RECORD = "progress.json"


def _earlier_sums(out: Path) -> Path:
    """Where the checksum of OUT is if an earlier version wrote it."""
    return Path(f"{out}{checksums.BESIDE}")


def _refuse_no_file(out: Path) -> None:
    if not out.parent.is_dir():
        raise BanyanError(f"there is no folder {out.parent} to write {out.name} to")
    if out.is_dir():
        raise BanyanError(f"{out} is a folder: name a file")


def _refuse_to_lose(out: Path, work: Path, resume: bool, overwrite: bool) -> None:
    """Raise an error rather than lose a result or an unfinished run. With `overwrite`, delete the unfinished run."""
    unfinished = (work / _RECORD).exists()
    if resume and unfinished:
        return
    if unfinished and not overwrite:
        raise BanyanError(f"{work} holds an unfinished run: --resume continues it, --overwrite starts again")
    if out.exists() and not overwrite:
        raise BanyanError(f"{out} exists already: --overwrite replaces it")
    files.clear(work)


def _refuse_own_input(out: Path, corpus: Corpus) -> None:
    if out.exists() and any(out.samefile(path) for path in corpus.paths):
        raise BanyanError(f"{out} is also an input: write to another file")


@contextmanager
def _writing(work: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        reason = "the disk is full" if error.errno in (errno.ENOSPC, errno.EDQUOT) else error.strerror or str(error)
        kept = "; the rows encoded so far are kept, and --resume continues" if (work / _RECORD).exists() else ""
        raise BanyanError(f"cannot write to {work}: {reason}{kept}") from None


class _LateBar:
    """A progress bar that appears only if encoding takes a while."""

    def __init__(self, display: Display | None, corpus: Corpus) -> None:
        self.display, self.corpus = display, corpus
        self.started = time.monotonic()
        self.stack = ExitStack()
        self.meter: Meter | None = None

    def __enter__(self) -> _LateBar:
        return self

    def __exit__(self, *_: object) -> None:
        self.stack.close()

    def show(self, rows: int) -> None:
        seconds = time.monotonic() - self.started
        if self.meter is None and self.display is not None and seconds > SECONDS_WITHOUT_BAR:
            self.meter = self.stack.enter_context(self.display.bar("encoding", self.corpus.bytes_total, "bytes"))
        if self.meter is not None:
            self.meter(self.corpus.bytes_read, figures={"rows": f"{rows:,}"})
