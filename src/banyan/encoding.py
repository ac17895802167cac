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
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from banyan._version import __version__
from banyan.compact import Form, Precision
from banyan.corpus.reading import Corpus, in_blocks
from banyan.corpus.report import Report
from banyan.corpus.sources import as_recorded
from banyan.errors import BanyanError
from banyan.support import checksums, files
from banyan.support.needs import needs

if TYPE_CHECKING:
    from banyan.encoder import Banyan
    from banyan.support.display import Display, Meter

BLOCK_ROWS = 8192  # rows encoded and written at a time
BLOCK_CHARACTERS = 1 << 23  # or fewer rows, if they are long
SECONDS_BETWEEN_RECORDS = 2.0
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
    writer = _writer(out, form)
    work = Path(f"{out}.partial")
    _refuse_no_file(out)
    with files.held(work, f"another process is writing {out}: wait for it, or stop it"):
        sums = Path(f"{out}{checksums.BESIDE}")
        files.remove_orphans(out.parent.resolve(), sums.name)
        finished = out.exists() and sums.exists() and not (work / _RECORD).exists()
        if resume and finished and not overwrite:
            files.clear(work)  # a process may have been killed while it did this
            return EncodingSummary(out, 0, form.dim, form.precision, 0, 0, 0.0, Report(), finished_before=True)
        _refuse_to_lose(out, work, resume, overwrite)
        corpus = Corpus(inputs, column=column, layout="lines", spool=work)
        _refuse_own_input(out, corpus)
        run = {"model": model.fingerprint(), "input": corpus.fingerprint(), "normalisation": normalize}
        run |= {"truncation": truncate_dim, "precision": precision, "version of banyan": __version__}
        partial = _Partial(work, run, writer, out, corpus.fingerprints())
        rows = _Rows(corpus)
        resumed = partial.rows
        with _writing(work), partial, _LateBar(display, corpus) as bar:
            with ThreadPoolExecutor(1) as beside:  # a block is written while the next one is encoded
                written: Future[None] | None = None
                for block in rows.blocks(skip=resumed):
                    vectors = model.encode(
                        block, normalize, show_progress_bar=False, truncate_dim=truncate_dim, precision=precision
                    )
                    if written:
                        written.result()
                        bar.show(partial.rows)
                    written = beside.submit(partial.append, block, vectors)
                if written:
                    written.result()
                    bar.show(partial.rows)
            partial.finish()
    seconds = time.monotonic() - started
    return EncodingSummary(out, partial.rows, form.dim, form.precision, rows.blank, resumed, seconds, rows.report)


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
    with TemporaryDirectory(prefix="banyan-") as spool:
        for block in _Rows(Corpus(inputs, column=column, layout="lines", spool=Path(spool))).blocks():
            vectors = model.encode(block, normalize=True, show_progress_bar=False)
            scores = np.einsum("ij,j->i", vectors, query)  # unlike @, gives the same bits for equal rows in any block
            top = np.argsort(-scores, kind="stable")[:k].tolist()
            best += [Match(float(scores[i]), seen + i + 1, block[i]) for i in top]
            best = sorted(best, key=lambda match: (-match.score, match.row))[:k]
            seen += len(block)
    return best


# --- Rows in ---------------------------------------------------------------------------------------------------------


class _Rows:
    """The rows of a corpus. Unlike its sentences, none are dropped or split."""

    def __init__(self, corpus: Corpus) -> None:
        self.corpus = corpus
        self.report = Report()
        self.blank = 0

    def blocks(self, skip: int = 0) -> Iterator[list[str]]:
        """Yield blocks of rows, the same in every run, without the blocks that lie within the first `skip` rows."""
        seen = 0
        for block in in_blocks(self.corpus.rows(self.report), BLOCK_ROWS, BLOCK_CHARACTERS):
            self.blank += sum(not row or row.isspace() for row in block)
            seen += len(block)
            if seen > skip:
                yield block


# --- Rows out --------------------------------------------------------------------------------------------------------


class _Writer(Protocol):
    """An output format whose bytes can be appended block by block."""

    def head(self) -> bytes: ...
    def block(self, texts: list[str], vectors: np.ndarray) -> bytes | memoryview: ...
    def finish(self, data: Path, rows: int) -> Path:
        """Turn the bytes into the result, and return its path."""
        ...


class _Npy:
    def __init__(self, width: int, dtype: Any = np.float32) -> None:
        self.width = width
        self.dtype = np.dtype(dtype).newbyteorder("<")

    def head(self, rows: int = 0) -> bytes:
        """Return a header of format 1.0, always 128 bytes long: the number of rows is known only at the end."""
        shape = f"{{'descr': '{self.dtype.str}', 'fortran_order': False, 'shape': ({rows}, {self.width}), }}"
        return b"\x93NUMPY\x01\x00" + (118).to_bytes(2, "little") + shape.ljust(117).encode() + b"\n"

    def block(self, texts: list[str], vectors: np.ndarray) -> memoryview:
        return np.ascontiguousarray(vectors, self.dtype).data.cast("B")

    def finish(self, data: Path, rows: int) -> Path:
        with data.open("r+b") as file:
            file.write(self.head(rows))
        return data


class _Jsonl:
    def __init__(self, width: int, dtype: Any = np.float32) -> None:
        self.numbers = ",".join(["%.9g"] * width)  # nine digits represent any float32 and any int8 exactly

    def head(self) -> bytes:
        return b""

    def block(self, texts: list[str], vectors: np.ndarray) -> bytes:
        return b"".join(self._line(text, tuple(vector.tolist())) for text, vector in zip(texts, vectors, strict=True))

    def _line(self, text: str, vector: tuple[float, ...]) -> bytes:
        return f'{{"text": {json.dumps(text, ensure_ascii=False)}, "embedding": [{self.numbers % vector}]}}\n'.encode()

    def finish(self, data: Path, rows: int) -> Path:
        return data


class _Parquet:
    """Written as an Arrow stream, which can be appended to, and converted to Parquet at the end."""

    def __init__(self, width: int, dtype: Any = np.float32) -> None:
        with needs("Writing Parquet", "data"):
            import pyarrow
            import pyarrow.parquet
        self.arrow = pyarrow
        self.width = width
        embedding = pyarrow.list_(pyarrow.from_numpy_dtype(np.dtype(dtype)), width)
        columns = [("text", pyarrow.string()), ("embedding", embedding)]
        self.schema = pyarrow.schema([pyarrow.field(name, kind, nullable=False) for name, kind in columns])

    def head(self) -> bytes:
        return self.schema.serialize().to_pybytes()

    def block(self, texts: list[str], vectors: np.ndarray) -> bytes:
        embeddings = self.arrow.FixedSizeListArray.from_arrays(self.arrow.array(vectors.ravel()), self.width)
        columns = [self.arrow.array(texts, self.arrow.string()), embeddings]
        return self.arrow.record_batch(columns, schema=self.schema).serialize().to_pybytes()

    def finish(self, data: Path, rows: int) -> Path:
        result = data.with_suffix(".parquet")
        writer = self.arrow.parquet.ParquetWriter(result, self.schema, use_dictionary=False, write_statistics=False)
        with self.arrow.OSFile(str(data)) as stream, self.arrow.ipc.open_stream(stream) as batches, writer:
            for batch in batches:
                writer.write_batch(batch)
        return result


_WRITERS: dict[str, type[_Npy] | type[_Parquet] | type[_Jsonl]] = {
    ".npy": _Npy,
    ".parquet": _Parquet,
    ".jsonl": _Jsonl,
}


def _writer(out: Path, form: Form) -> _Writer:
    if out.suffix not in _WRITERS:
        raise BanyanError(f"cannot write {out}: its name must end in {', '.join(_WRITERS)}")
    return _WRITERS[out.suffix](form.width, form.dtype)


class _Partial:
    """OUT.partial and its progress."""

    def __init__(self, folder: Path, run: dict[str, Any], writer: _Writer, out: Path, inputs: list[str]) -> None:
        """inputs: the fingerprints that an earlier run may have recorded for the same input."""
        self.folder, self.data, self.record = folder, folder / "data", folder / _RECORD
        self.run, self.writer, self.out, self.inputs = run, writer, out, inputs
        self.rows = self.bytes = 0
        self.finished = False  # all rows are written
        if self.record.exists():
            self._take_up()

    def _take_up(self) -> None:
        """Continue where the interrupted run stopped, if it had the same model, input and options."""
        again = "--overwrite starts again"
        try:
            record = json.loads(self.record.read_text(encoding="utf-8"))
            self.rows, self.bytes = int(record["rows"]), int(record["bytes"])
            self.run["input"] = as_recorded(record["run"].get("input"), self.inputs)
            changed = [name for name, value in self.run.items() if record["run"].get(name) != value]
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
        self.file = self.data.open("ab")
        self.file.truncate(self.bytes)
        if not self.bytes:
            self.bytes = self.file.write(self.writer.head())
            self._save()
        self.saved = time.monotonic()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self.finished:
            return
        with self.file:
            if kind is KeyboardInterrupt:
                self._save()
                raise KeyboardInterrupt(f"stopped after {self.rows:,} rows, which are kept: --resume continues")

    def append(self, texts: list[str], vectors: np.ndarray) -> None:
        block = self.writer.block(texts, vectors)
        self.file.write(block)
        self.rows, self.bytes = self.rows + len(texts), self.bytes + len(block)  # one statement, against Ctrl-C
        if time.monotonic() - self.saved > SECONDS_BETWEEN_RECORDS:
            self._save()

    def _save(self, finished: bool = False) -> None:
        """Flush the rows to disk and record them."""
        self.file.flush()
        os.fsync(self.file.fileno())
        record = {"run": self.run, "rows": self.rows, "bytes": self.bytes, "finished": finished}
        files.write_text(self.record, json.dumps(record) + "\n")
        self.saved = time.monotonic()

    def finish(self) -> None:
        """Rename the result to OUT, write its checksum and empty the folder."""
        sums = Path(f"{self.out}{checksums.BESIDE}")
        if not self.finished:
            self._save(finished=True)
            self.file.close()
            self.finished = True
            result = self.writer.finish(self.data, self.rows)
            files.sync(result)
            sums.unlink(missing_ok=True)
            os.replace(result, self.out)
            files.sync(self.out.parent)
        if not sums.exists():
            checksums.record(sums, {self.out.name: checksums.digest(self.out)})
        files.clear(self.folder)


_RECORD = "progress.json"


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
