"""Encode texts with a teacher, once. A run that is killed continues where it stopped.

The folder holds vectors.f16 (float16 rows) and progress.json, which says how many rows are valid. The file may hold
more: the rows of an unfinished block, which are made again.
"""

from __future__ import annotations

import dataclasses
import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import BinaryIO

import numpy as np

from banyan.errors import BanyanError
from banyan.support import checksums, files
from banyan.support.display import Display, Meter, duration
from banyan.teachers.teacher import Encoder
from banyan.teachers.texts import TextFile, fingerprint

VECTORS, PROGRESS = "vectors.f16", "progress.json"
FIRST_BLOCK, LAST_BLOCK = 128, 8192  # texts between two writes of progress.json: twice as many until that takes ...
BLOCK_SECONDS = 2.0  # ... this long
BLOCK_CHARACTERS = 1 << 22  # or fewer texts, if they are long
BATCH = 1024  # texts given to the teacher at once
BATCH_CHARACTERS = 1 << 16  # or fewer, if they are long; each counts as much as the longest
_ROW = np.dtype(np.float16)
ESTIMATE_SECONDS = 3.0  # of measurement before the estimate is shown


@dataclass
class _Progress:
    fingerprint: str  # of the teacher's name and the texts
    teacher: str
    total: int
    count: int = 0  # texts whose vectors are on disk
    width: int = 0  # 0 while every text was blank

    @property
    def bytes(self) -> int:
        return self.count * self.width * _ROW.itemsize


def make_vectors(
    folder: Path, texts: Sequence[str] | TextFile, teacher: Encoder, display: Display, what: str
) -> np.ndarray:
    """Encode the texts and return a read-only float16 memory map with one row per text.

    If the folder holds vectors of the same texts by the same teacher, they are kept and only the rest is made. The
    vector of a blank text is zeros; the teacher never sees it.

    folder: of these vectors alone; it is created if necessary, and locked while vectors are made.
    what: the texts in a word, such as "lines", for messages.
    """
    folder = Path(folder)
    new = _Progress(fingerprint(texts, teacher.name), teacher.name, len(texts))
    done = _kept(folder, new)
    if done.count < done.total:
        with files.held(folder, f"another process is making vectors in {folder}: wait for it, or stop it"):
            done = _kept(folder, new)  # again: another process may have written before we got the lock
            _Making(folder, done, teacher, display, what).run(texts)
            checksums.write(folder, (VECTORS, PROGRESS))
    if not done.width:
        raise BanyanError(f"there is nothing to encode: all {done.total:,} {what} are blank")
    return np.memmap(folder / VECTORS, _ROW, "r", shape=(done.total, done.width))


def _kept(folder: Path, new: _Progress) -> _Progress:
    """Return how much of these vectors is on disk already."""
    path = folder / PROGRESS
    try:
        found = _Progress(**json.loads(path.read_text(encoding="utf-8")))
        if found.fingerprint != new.fingerprint:
            return dataclasses.replace(new)
        size = (folder / VECTORS).stat().st_size
    except FileNotFoundError:
        return dataclasses.replace(new)
    except (OSError, ValueError, TypeError) as error:
        raise BanyanError(f"cannot read {path}: {error}; delete it to encode again") from None
    if size < found.bytes:  # somebody else truncated it
        found.count = size // (found.width * _ROW.itemsize)
    return found


class _Making:
    def __init__(self, folder: Path, done: _Progress, teacher: Encoder, display: Display, what: str) -> None:
        self.folder, self.done, self.teacher, self.display, self.what = folder, done, teacher, display, what

    def run(self, texts: Sequence[str] | TextFile) -> None:
        done, total = self.done, self.done.total
        kept = f", {done.count:,} of which are done already" if done.count else ""
        self.display.note(f"{self.teacher.name} encodes {total:,} {self.what}{kept}")
        try:
            with self.display.bar(f"encoding {self.what}", total, self.what) as meter, self._open() as file:
                meter(done.count)
                self._blocks(islice(texts, done.count, None), file, _Estimate(meter, self.display, total))
        except BanyanError as error:
            raise self._failed(str(error)) from None
        except OSError as error:
            raise self._failed(f"cannot write {self.folder / VECTORS}: {error.strerror or error}") from None
        if done.count != total:
            raise BanyanError(f"the {self.what} changed while they were encoded: there were {total:,}, "
                              f"and then {done.count:,}; run the command again")  # fmt: skip

    def _open(self) -> BinaryIO:
        """Open the vectors for appending, without what an unfinished block left."""
        path = self.folder / VECTORS
        (self.folder / checksums.SUMS).unlink(missing_ok=True)
        if not self.done.count:  # a progress.json of other texts must never stand beside vectors of these
            (self.folder / PROGRESS).unlink(missing_ok=True)
            files.sync(self.folder)
        path.touch()
        os.truncate(path, self.done.bytes)
        files.remove_leftovers(self.folder)
        return open(path, "ab")

    def _blocks(self, texts: Iterator[str], file: BinaryIO, moved: Callable[[float], object]) -> None:
        done, size = self.done, FIRST_BLOCK
        while block := _next_block(texts, size):
            started = time.monotonic()
            rows = self._encoded(block, moved)
            if rows.shape[1] != done.width:  # the first that are not blank
                done.width = rows.shape[1]
                os.ftruncate(file.fileno(), done.bytes)  # zeros for the blank texts before them
            file.write(rows.tobytes())
            file.flush()
            os.fsync(file.fileno())
            done.count += len(block)
            files.write_text(self.folder / PROGRESS, json.dumps(dataclasses.asdict(done)) + "\n")
            moved(done.count)
            if time.monotonic() - started < BLOCK_SECONDS:
                size = min(2 * size, LAST_BLOCK)

    def _encoded(self, block: list[str], moved: Callable[[float], object]) -> np.ndarray:
        """Encode a block in batches of like length, each text once. Return float16 rows in the order of the block."""
        row = {text: number for number, text in enumerate(_by_length(block))}
        ordered, characters = list(row), sum(map(len, row))
        rows, width, read = [], self.done.width, 0
        for batch in _batches(ordered):
            found = _checked(self.teacher.encode(batch), batch, width)
            rows.append(found)
            width = found.shape[1]
            read += sum(map(len, batch))
            moved(self.done.count + len(block) * read / characters)  # long texts come first and take longest
        made = np.zeros((len(row) + 1, width), _ROW)  # the last one is for blank texts
        if rows:
            np.concatenate(rows, out=made[:-1])
        return made[[row.get(text, -1) for text in block]]

    def _failed(self, why: str) -> BanyanError:
        if not self.done.count:
            return BanyanError(why)
        kept = f"{self.done.count:,} of {self.done.total:,} vectors are kept"
        return BanyanError(f"{why}; {kept}, and the same command with --resume continues from there")


def _next_block(texts: Iterator[str], size: int) -> list[str]:
    block: list[str] = []
    characters = 0
    for text in islice(texts, size):
        block.append(text)
        characters += len(text)
        if characters >= BLOCK_CHARACTERS:
            break
    return block


def _by_length(block: list[str]) -> list[str]:
    """The distinct texts that are not blank, the longest first: a teacher that runs out of memory does so at once."""
    return sorted({text for text in block if text.strip()}, key=lambda text: (-len(text), text))


def _batches(texts: list[str]) -> Iterator[list[str]]:
    start = 0
    while start < len(texts):
        size = max(1, min(BATCH, BATCH_CHARACTERS // len(texts[start])))
        yield texts[start : start + size]
        start += size


def _checked(vectors: np.ndarray, texts: list[str], width: int) -> np.ndarray:
    """Return the vectors as float16, or raise an error if they cannot be those of these texts."""
    if vectors.ndim != 2 or len(vectors) != len(texts) or not vectors.shape[1]:
        raise BanyanError(f"the teacher returned an array of shape {vectors.shape} for {len(texts)} texts")
    if width and vectors.shape[1] != width:
        raise BanyanError(f"the teacher's vectors had {width} dimensions and now have {vectors.shape[1]}")
    with np.errstate(over="ignore"):
        rows = vectors.astype(_ROW)
    finite = np.isfinite(rows).all(1)
    if not finite.all():
        number = int(np.argmin(finite))
        bad = "NaN or infinity" if not np.isfinite(vectors[number]).all() else "numbers too large for float16"
        raise BanyanError(f"the teacher returned {bad} for the text {_shortened(texts[number])}")
    return rows


def _shortened(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:57] + "...")


class _Estimate:
    """Passes progress on to a meter, and says once how long the rest will take."""

    def __init__(self, meter: Meter, display: Display, total: int) -> None:
        self.meter, self.display, self.total = meter, display, total
        self.first: tuple[float, float] | None = None
        self.told = False

    def __call__(self, done: float) -> None:
        self.meter(done)
        now = time.monotonic()
        if self.first is None:
            self.first = now, done  # the time until here is not measured: it includes the teacher's start
        seconds, made = now - self.first[0], done - self.first[1]
        if not self.told and seconds >= ESTIMATE_SECONDS and made > 0:
            self.told = True
            self.display.note(f"this will take about {duration(seconds * (self.total - done) / made)}")
