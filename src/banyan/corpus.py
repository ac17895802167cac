"""Corpora: files, folders, globs, standard input and Hugging Face data sets, read as sentences.

Reading holds a bounded amount of text. Whatever is dropped or repaired on the way is counted in a Report; what
cannot be repaired is an error that names the file and, where there is one, the line.
"""

from __future__ import annotations

import codecs
import csv
import dataclasses
import glob
import gzip
import hashlib
import importlib
import json
import lzma
import os
import re
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from banyan import files
from banyan.errors import BanyanError
from banyan.sentences import Running, assume_layout

LAYOUTS = ("auto", "lines", "running")
LONGEST_LINE = 1 << 20  # characters; a longer line is endless, and split as running text is
LONGEST_RECORD = 1 << 28  # characters of one line of JSON or CSV, which must be held whole
_BLOCK = 1 << 18  # bytes read at a time
_READER = 1  # raised when the same files would give other sentences
_SAMPLED_FILES, _SAMPLED_LINES = 5, 1000  # what layout="auto" looks at

_KINDS = {
    ".txt": "text", ".text": "text", ".md": "text",
    ".jsonl": "json", ".ndjson": "json", ".json": "json",
    ".parquet": "parquet", ".csv": "csv", ".tsv": "tsv",
}  # fmt: skip
_PACKED = {".gz": b"\x1f\x8b", ".xz": b"\xfd7zXZ\x00", ".zst": b"\x28\xb5\x2f\xfd"}  # and how their files begin

Moved = Callable[[int], None]  # told how many bytes of a source have been read
_SURROGATE = re.compile("[\ud800-\udfff]")

EMPTY = "empty"
NOT_TEXT = "that are not text"
BAD_BYTES = "invalid UTF-8 sequences replaced by U+FFFD"
NULS = "NUL characters replaced by spaces"
MARKS = "byte order marks removed"
UTF16 = "files decoded from UTF-16"
SURROGATES = "lone surrogates replaced by U+FFFD"
ENDLESS = f"endless lines (over {LONGEST_LINE:,} characters) split into sentences"
CUTS = "sentences without an end cut at white space"


@dataclass
class Report:
    """What was read, and what became of it. A row of a table counts as the lines of its text."""

    files: int = 0
    empty_files: int = 0
    skipped_files: int = 0  # in folders: those without a known suffix
    lines: int = 0
    kept: int = 0  # sentences
    dropped: dict[str, int] = field(default_factory=dict)  # reason -> lines or sentences
    repaired: dict[str, int] = field(default_factory=dict)  # kind -> times

    def drop(self, reason: str, count: int = 1) -> None:
        if count:
            self.dropped[reason] = self.dropped.get(reason, 0) + count

    def repair(self, kind: str, count: int = 1) -> None:
        if count:
            self.repaired[kind] = self.repaired.get(kind, 0) + count

    def summary(self) -> str:
        """A sentence or two for people."""
        parts = [f"{_many(self.lines, 'line')} read from {_many(self.files, 'file')}"]
        parts.append(f"{_many(self.kept, 'sentence')} kept")
        if self.dropped:
            parts.append(f"{sum(self.dropped.values()):,} dropped ({_list(self.dropped)})")
        text = ", ".join(parts) + "."
        if self.repaired:
            text += f" Repaired: {_list(self.repaired)}."
        aside = {"empty": self.empty_files, "skipped because their suffix is not known": self.skipped_files}
        if any(aside.values()):
            text += f" Files: {_list({what: count for what, count in aside.items() if count})}."
        return text

    def to_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Report:
        return cls(**values)


def _many(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'s' * (count != 1)}"


def _list(counts: dict[str, int]) -> str:
    return ", ".join(f"{count:,} {what}" for what, count in counts.items())


class Corpus:
    """The sentences of one or several sources; may be iterated any number of times.

    A source is a file, a folder (all its files of known suffixes, in the order of their names), a glob, "-" for
    standard input, or hf:name[:config]. Compressed files are recognised by their content. JSON lines, Parquet, CSV and
    TSV need the name of a column, unless only one holds text. Standard input is JSON lines when a column is named.
    What cannot be read twice (standard input, pipes) is copied into the folder `spool` first.
    """

    report: Report  # of the latest complete iteration
    layout: str  # "lines": one sentence per line, or "running": text to be split into sentences
    layout_reason: str  # a sentence for people
    paths: list[Path]  # the files read; as sources they give the same corpus again
    bytes_total: int  # what bytes_read comes to; on disk, so before decompression. A row of hf: counts as one byte
    bytes_read: int  # by the iteration under way

    def __init__(
        self,
        sources: str | Path | Sequence[str | Path],
        *,
        column: str | None = None,
        layout: str = "auto",
        spool: Path | None = None,
    ) -> None:
        if layout not in LAYOUTS:
            raise BanyanError(f"layout must be one of {', '.join(LAYOUTS)}, not {layout!r}")
        names = [sources] if isinstance(sources, str | Path) else list(sources)
        if not names:
            raise BanyanError("no corpus was given: name a file, a folder, a glob, hf:name or - for standard input")
        if [str(name) for name in names].count("-") > 1:
            raise BanyanError("standard input (-) can be read only once")
        self._skipped = 0
        self._column = column
        self._sources = [source for name in names for source in self._resolve(str(name), spool)]
        self.paths = [source.path for source in self._sources if isinstance(source, _File)]
        self.bytes_total = sum(source.size for source in self._sources)
        self.bytes_read = 0
        self.report = Report()
        self._check(column)
        self.layout, self.layout_reason = self._settle(layout)

    def __iter__(self) -> Iterator[str]:
        report = Report(skipped_files=self._skipped)
        reading = _Reading(self.layout, report)
        before = 0
        for source in self._sources:
            lines = report.lines
            for chunk in source.chunks(report, self._mover(before)):
                yield from reading.take(chunk)
            yield from reading.end()
            report.files += 1
            report.empty_files += report.lines == lines
            before += source.size
        self.bytes_read = self.bytes_total
        self.report = report

    def rows(self, report: Report) -> Iterator[str]:
        """The lines of texts and the values of columns as they stand, none dropped and none split; a value that is not
        text is an empty row. What was repaired is counted in `report`."""
        before = 0
        for source in self._sources:
            yield from source.rows(report, self._mover(before))
            before += source.size

    def fingerprint(self) -> str:
        """Changes when the corpus does, judged by names, sizes, times of change and options."""
        options = {"reader": _READER, "layout": self.layout, "column": self._column}
        marks = [source.mark() for source in self._sources]
        return hashlib.sha256(json.dumps([options, marks]).encode()).hexdigest()

    def _mover(self, before: int) -> Moved:
        def moved(position: int) -> None:
            self.bytes_read = before + position

        return moved

    def _resolve(self, name: str, spool: Path | None) -> list[_File | _HubSet]:
        if name.startswith("hf:"):
            return [_HubSet(name, self._column)]
        if name == "-":
            paths = [_spooled(sys.stdin.buffer, "stdin", ".jsonl" if self._column else ".txt", spool)]
        elif not os.path.lexists(name) and glob.has_magic(name):
            paths = self._glob(name)
        elif os.path.isdir(name):
            paths = self._folder(name)
        else:
            paths = [Path(name)]
        return [_File(_readable_twice(path, self._column, spool), self._column) for path in paths]

    def _glob(self, pattern: str) -> list[Path]:
        matches = sorted(glob.glob(pattern, recursive=True))
        paths = [Path(match) for match in matches if not os.path.isdir(match)]
        if not paths:
            raise BanyanError(f"no file matches {pattern}")
        return paths

    def _folder(self, folder: str) -> list[Path]:
        def refuse(error: OSError) -> None:
            raise BanyanError(f"cannot read the folder {error.filename}: {error.strerror}")

        found: list[Path] = []
        for parent, folders, names in os.walk(folder, onerror=refuse):
            folders[:] = [name for name in folders if not name.startswith(".")]
            shown = [Path(parent, name) for name in names if not name.startswith(".")]
            known = [path for path in shown if _kind(path)]
            self._skipped += len(shown) - len(known)
            found += known
        if not found:
            suffixes = f"{', '.join(_KINDS)}, alone or followed by {', '.join(_PACKED)}"
            raise BanyanError(f"there is no text in the folder {folder}: no file in it ends in {suffixes}")
        return sorted(found)

    def _check(self, column: str | None) -> None:
        if not any(source.size for source in self._sources):
            count = len(self._sources)
            empty = f"{self._sources[0].name} is" if count == 1 else f"all {count} files are"
            raise BanyanError(f"there is no text to read: {empty} empty")
        if column is not None and all(source.kind == "text" for source in self._sources):
            raise BanyanError(f"{self.paths[0]} is a text file and has no column {column!r}: leave the column out")

    def _settle(self, layout: str) -> tuple[str, str]:
        words = {"lines": "one sentence per line", "running": "running text that is to be split into sentences"}
        if layout != "auto":
            return layout, f"Reading {words[layout]}, as asked."
        layout, why = assume_layout(self._sample())
        other = "running" if layout == "lines" else "lines"
        told = f'--{other} (in Python, layout="{other}")'
        return layout, f"Assuming {words[layout]}, because {why}; if that is wrong, say {told}."

    def _sample(self) -> list[str]:
        """Some lines of some files, set apart by blank lines."""
        step = -(-len(self._sources) // _SAMPLED_FILES)
        sample: list[str] = []
        for source in self._sources[::step]:
            lines: list[str] = []
            for chunk in source.chunks(Report(), self._mover(0)):
                lines += [*chunk.text.split("\n"), *[""] * (chunk.ends == "text")]
                if len(lines) >= _SAMPLED_LINES or chunk.ends == "nothing":
                    break
            sample += [*lines[:_SAMPLED_LINES], ""]
        self.bytes_read = 0
        return sample


class _Chunk(NamedTuple):
    """Text whose lines are set apart by "\\n", and what ends after it."""

    text: str
    ends: str  # a "line", a whole "text", or "nothing": an endless line goes on in the next chunk


class _Reading:
    """One pass over a corpus: chunks in, sentences out, all of them counted."""

    def __init__(self, layout: str, report: Report) -> None:
        self._report = report
        self._split = layout == "running"
        self._running = Running()
        self._endless = False  # inside an endless line
        self._blank = True  # of which nothing but white space has been seen

    def take(self, chunk: _Chunk) -> list[str]:
        if self._endless or chunk.ends == "nothing":
            return self._take_endless(chunk)
        sentences = self._take_lines(chunk.text.split("\n"))
        return sentences + self.end() if chunk.ends == "text" else sentences

    def end(self) -> list[str]:
        """A paragraph certainly ends here."""
        self._report.lines += self._endless
        self._report.drop(EMPTY, self._endless and self._blank)
        self._endless, self._blank = False, True
        return self._count(self._running.end())

    def _take_lines(self, lines: list[str]) -> list[str]:
        if max(map(len, lines)) > LONGEST_LINE:
            return [sentence for line in lines for sentence in self._take_line(line)]
        full = [line for line in map(str.strip, lines) if line]
        self._report.lines += len(lines)
        self._report.drop(EMPTY, len(lines) - len(full))
        if self._split:
            full = [sentence for line in lines for sentence in self._running.line(line)]
        return self._count(full)

    def _take_line(self, line: str) -> list[str]:
        return self._take_endless(_Chunk(line, "line")) if len(line) > LONGEST_LINE else self._take_lines([line])

    def _take_endless(self, chunk: _Chunk) -> list[str]:
        sentences = [] if self._endless else self.end()
        self._report.repair(ENDLESS, not (self._endless or self._split))
        self._endless = True
        text, *rest = [chunk.text] if chunk.ends == "nothing" else chunk.text.split("\n")
        self._blank = self._blank and not text.strip()
        sentences += self._count(self._running.part(text))
        if chunk.ends != "nothing":
            sentences += self.end()
        return sentences + self._take_lines(rest) if rest else sentences

    def _count(self, sentences: list[str]) -> list[str]:
        self._report.kept += len(sentences)
        self._report.repair(CUTS, self._running.cuts)
        self._running.cuts = 0
        return sentences


class _File:
    """One file on disk."""

    def __init__(self, path: Path, column: str | None) -> None:
        self.path = path
        self.name = str(path)
        self.kind = _kind(path) or "text"
        try:
            self.size = path.stat().st_size
            if self.kind != "parquet":
                with open(path, "rb") as raw:
                    _packing(path, raw)
        except FileNotFoundError:
            raise BanyanError(f"there is no file or folder {path}") from None
        except OSError as error:
            raise BanyanError(f"cannot read {path}: {error.strerror}") from None
        self.column = "" if self.kind == "text" or not self.size else _COLUMNS[self.kind](path, column)

    def mark(self) -> list[Any]:
        """What the file is known by; its text is not read."""
        try:
            state = self.path.stat()
        except OSError as error:
            raise BanyanError(f"cannot read {self.path}: {error.strerror}") from None
        return [str(self.path.absolute()), state.st_size, state.st_mtime_ns]

    def chunks(self, report: Report, moved: Moved) -> Iterator[_Chunk]:
        if self.kind == "text":
            return _text(self.path, report, moved)
        values = _VALUES[self.kind](self.path, self.column, report, moved) if self.size else iter(())
        return _texts(values, report)


    def rows(self, report: Report, moved: Moved) -> Iterator[str]:
        if self.kind == "text":
            return _long_lines(self.path, report, moved)
        return _as_rows(_VALUES[self.kind](self.path, self.column, report, moved) if self.size else iter(()), report)


class _HubSet:
    """The training split of a Hugging Face data set, downloaded and kept by the `datasets` package."""

    kind = "hub"

    def __init__(self, name: str, column: str | None) -> None:
        datasets = _optional("datasets", name, "hub")
        repository, _, config = name.removeprefix("hf:").partition(":")
        if not repository:
            raise BanyanError(f"{name} names no data set: write hf:name or hf:name:config")
        try:
            self._rows = datasets.load_dataset(repository, config or None, split="train")
        except Exception as error:  # whatever a data set's own files, the network or the package may raise
            raise BanyanError(f"cannot load {name}: {_first_line(error)}") from None
        kinds = {column: str(getattr(kind, "dtype", "lists")) for column, kind in self._rows.features.items()}
        self.name = name
        self._column = _choose(column, kinds, name)
        self.size = len(self._rows)

    def mark(self) -> list[Any]:
        return [self.name, str(self._rows.info.version), str(self._rows._fingerprint), self.size]

    def chunks(self, report: Report, moved: Moved) -> Iterator[_Chunk]:
        return _texts(self._values(moved), report)

    def rows(self, report: Report, moved: Moved) -> Iterator[str]:
        return _as_rows(self._values(moved), report)

    def _values(self, moved: Moved) -> Iterator[object]:
        done = 0
        for rows in self._rows.select_columns([self._column]).iter(batch_size=1000):
            yield from rows[self._column]
            done += len(rows[self._column])
            moved(done)


def _kind(path: Path) -> str | None:
    """By the suffix, the one before .gz and the like; None if it is not known."""
    name = path.name.lower()
    for suffix in _PACKED:
        name = name.removesuffix(suffix)
    return _KINDS.get(Path(name).suffix)


def _readable_twice(path: Path, column: str | None, spool: Path | None) -> Path:
    """The path itself, or that of a copy when it is a pipe or a device."""
    if not path.exists() or path.is_file():
        return path
    suffix = path.suffix if _kind(path) else ".jsonl" if column else ".txt"
    try:
        with open(path, "rb") as stream:
            return _spooled(stream, path.name, suffix, spool)
    except OSError as error:
        raise BanyanError(f"cannot read {path}: {error.strerror}") from None


def _spooled(stream: BinaryIO, name: str, suffix: str, folder: Path | None) -> Path:
    """A copy of the stream, named after its content: the same text piped in again is the same, unchanged file."""
    if folder is None:
        raise BanyanError(f"{name} can be read only once: say where a copy may be kept (spool=folder)")
    digest = hashlib.sha256()
    part = folder / f".{name}.part"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with open(part, "wb") as copy:
            while block := stream.read(_BLOCK):
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


def _packing(path: Path, raw: BinaryIO) -> str | None:
    """How a file is compressed, judged by its first bytes."""
    start = raw.read(6)
    raw.seek(0)
    for suffix, magic in _PACKED.items():
        if start.startswith(magic):
            return suffix
    if start and path.suffix.lower() in _PACKED:
        raise BanyanError(f"{path} is not the compressed file its name says: it does not begin like one")
    return None


def _blocks(path: Path, moved: Moved) -> Iterator[bytes]:
    """The decompressed bytes of a file."""
    try:
        with open(path, "rb") as raw:
            for block in _unpacked(path, raw):
                moved(raw.tell())
                yield block
    except (EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile) as error:
        raise _damaged(path, error) from None
    except OSError as error:
        raise BanyanError(f"cannot read {path}: {error.strerror}") from None


def _unpacked(path: Path, raw: BinaryIO) -> Iterator[bytes]:
    packing = _packing(path, raw)
    if packing == ".zst":
        yield from _unpacked_zst(path, raw)
        return
    opened: Any = {".gz": gzip.open, ".xz": lzma.open, None: nullcontext}[packing]
    with opened(raw) as stream:
        while block := stream.read(_BLOCK):
            yield block


def _unpacked_zst(path: Path, raw: BinaryIO) -> Iterator[bytes]:
    """Frame by frame, because zstandard's own stream reader takes a cut file for a whole one."""
    zstandard = _optional("zstandard", str(path), "data")
    frame = None
    try:
        while packed := raw.read(1 << 13):  # little at a time: it may grow ten-thousandfold
            while packed:
                frame = frame or zstandard.ZstdDecompressor(max_window_size=1 << 31).decompressobj()
                yield frame.decompress(packed)
                packed = frame.unused_data
                frame = None if frame.eof else frame
    except zstandard.ZstdError as error:
        raise _damaged(path, error) from None
    if frame is not None:
        raise _damaged(path, EOFError("the last frame has no end"))


def _damaged(path: Path, error: Exception) -> BanyanError:
    return BanyanError(f"{path} is damaged or was cut short ({_first_line(error)}): fetch or compress it again")


def _utf8(path: Path, report: Report, moved: Moved) -> Iterator[bytes]:
    """The text of a file in UTF-8, also if it was in UTF-16 with a byte order mark."""
    blocks = (block for block in _blocks(path, moved) if block)
    first = next(blocks, b"")
    # A NUL too, since some bad UTF-8 begins like a mark; UTF-16 has one in every space and line end.
    if not first.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) or b"\0" not in first:
        return chain([first], blocks)
    report.repair(UTF16)
    return _from_utf16(path, chain([first], blocks))


def _from_utf16(path: Path, blocks: Iterator[bytes]) -> Iterator[bytes]:
    decoder = codecs.getincrementaldecoder("utf-16")()
    try:
        for block in blocks:
            yield decoder.decode(block).encode()
        decoder.decode(b"", final=True)
    except UnicodeDecodeError as error:
        raise BanyanError(f"{path} begins like UTF-16 but is not ({error.reason}): convert it to UTF-8") from None


def _text(path: Path, report: Report, moved: Moved) -> Iterator[_Chunk]:
    """A text file in chunks of whole lines; only an endless line comes in parts."""
    held, first = b"", True
    for block in chain(filter(None, _utf8(path, report, moved)), [b""]):
        held += block
        end = _last_line_end(held) if block else len(held)
        if end:
            text, used = _decoded(held[:end], True, report)
        elif len(held) > 4 * LONGEST_LINE:  # in bytes, of which a character has at most four
            text, used = _decoded(held.removesuffix(b"\r"), False, report)
        else:
            continue
        held = held[used:]
        if first:
            _refuse_binary(path, text)
        first = False
        yield _Chunk(_clean(_lines_apart(text), report), "line") if end else _Chunk(_clean(text, report), "nothing")


def _last_line_end(held: bytes) -> int:
    """The length up to the last line end; a "\r" as the last byte of all may be half of "\r\n"."""
    return max(held.rfind(b"\n"), held.rfind(b"\r", 0, len(held) - 1)) + 1


def _decoded(data: bytes, final: bool, report: Report) -> tuple[str, int]:
    """The text, and how many bytes it took: without `final`, half a character at the end is left."""
    try:
        return codecs.utf_8_decode(data, "strict", final)
    except UnicodeDecodeError:
        text, used = codecs.utf_8_decode(data, "replace", final)
        report.repair(BAD_BYTES, text.count("\ufffd") - data[:used].count("\ufffd".encode()))
        return text, used


def _refuse_binary(path: Path, text: str) -> None:
    if len(text) >= 512 and text.count("\ufffd") + text.count("\0") > 0.3 * len(text):
        raise BanyanError(f"{path} is not UTF-8 text: convert it first, for example with iconv")


def _clean(text: str, report: Report) -> str:
    if "\0" in text:
        report.repair(NULS, text.count("\0"))
        text = text.replace("\0", " ")
    if "\ufeff" in text:  # also inside, where files with marks were joined
        report.repair(MARKS, text.count("\ufeff"))
        text = text.replace("\ufeff", "")
    return text


def _lines_apart(text: str) -> str:
    """With "\n" between lines and none after the last: "\n", "\r\n" and "\r" end a line, and nothing else does."""
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    return text.removesuffix("\n")


def _texts(values: Iterator[object], report: Report) -> Iterator[_Chunk]:
    """The values of a column, each a text of its own."""
    for value in values:
        if isinstance(value, str):
            yield _Chunk(_clean(_lines_apart(value), report), "text")
        else:
            report.lines += 1
            report.drop(NOT_TEXT)


def _as_rows(values: Iterable[object], report: Report) -> Iterator[str]:
    for value in values:
        if not isinstance(value, str):
            report.drop(NOT_TEXT)
        yield _clean(value, report) if isinstance(value, str) else ""


def _long_lines(path: Path, report: Report, moved: Moved) -> Iterator[str]:
    """The lines of a file, also those of many millions of characters."""
    parts: list[str] = []
    for chunk in _text(path, report, moved):
        if chunk.ends == "nothing":
            parts.append(chunk.text)
            if sum(map(len, parts)) > LONGEST_RECORD:
                raise BanyanError(f"{path} has a line of more than {LONGEST_RECORD:,} characters: is it damaged?")
            continue
        first, *rest = chunk.text.split("\n")
        yield "".join(parts) + first
        yield from rest
        parts = []
    if parts:
        yield "".join(parts)


def _json_rows(path: Path, report: Report, moved: Moved) -> Iterator[dict[str, object] | None]:
    """The objects of JSON lines, None for an empty line."""
    for number, line in enumerate(_long_lines(path, report, moved), 1):
        try:
            row = json.loads(line) if line.strip() else None
        except (ValueError, RecursionError) as error:
            raise BanyanError(f"{path}:{number}: not valid JSON ({error}); each line must hold one object") from None
        if row is not None and not isinstance(row, dict):
            raise BanyanError(f"{path}:{number}: expected a JSON object with a column of text, found {line[:40]!r}")
        yield row


def _json_column(path: Path, column: str | None) -> str:
    row = next(filter(None, _json_rows(path, Report(), _nowhere)), None)
    if row is None:
        return column or ""
    kinds = {name: "string" if isinstance(value, str) else "other values" for name, value in row.items()}
    if column in kinds:
        return column  # whatever its first value is
    return _choose(column, kinds, str(path))


def _json_values(path: Path, column: str, report: Report, moved: Moved) -> Iterator[object]:
    for row in _json_rows(path, report, moved):
        value = "" if row is None else row.get(column)
        if isinstance(value, str) and not value.isascii():
            value, count = _SURROGATE.subn("\ufffd", value)
            report.repair(SURROGATES, count)
        yield value


def _csv_rows(path: Path, report: Report, moved: Moved) -> Iterator[list[str]]:
    lines = (line + "\n" for line in _long_lines(path, report, moved))
    if _kind(path) == "tsv":
        rows = csv.reader(lines, delimiter="\t", quoting=csv.QUOTE_NONE)
    else:
        rows = csv.reader(lines, strict=True)
    width = None
    try:
        for row in rows:
            width = width or len(row)
            if len(row) > width and any(row[width:]):
                raise BanyanError(f"{path}:{rows.line_num}: {len(row)} fields, but the first line names {width}")
            yield row
    except csv.Error as error:
        raise BanyanError(f"{path}:{rows.line_num}: {error}") from None


def _csv_column(path: Path, column: str | None) -> str:
    names = next(_csv_rows(path, Report(), _nowhere), None)
    if names is None:
        return column or ""
    return _choose(column, dict.fromkeys(names, "string"), str(path))


def _csv_values(path: Path, column: str, report: Report, moved: Moved) -> Iterator[object]:
    rows = _csv_rows(path, report, moved)
    names = next(rows, [column])
    place = names.index(column)
    for row in rows:
        yield "" if not row else row[place] if place < len(row) else None


_ARROW_ERRORS = (OSError, ValueError, NotImplementedError)  # what pyarrow's own errors are kinds of


def _parquet(path: Path) -> Any:
    parquet = _optional("pyarrow.parquet", str(path), "data")
    try:
        return parquet.ParquetFile(path)
    except _ARROW_ERRORS as error:
        raise BanyanError(f"cannot read {path} as Parquet: {_first_line(error)}") from None


def _parquet_column(path: Path, column: str | None) -> str:
    with _parquet(path) as table:
        kinds = {column.name: str(column.type) for column in table.schema_arrow}
    for name, kind in kinds.items():
        if kind.startswith("dictionary<values=string"):  # what pandas calls a category
            kinds[name] = "string"
    return _choose(column, kinds, str(path))


def _parquet_values(path: Path, column: str, report: Report, moved: Moved) -> Iterator[object]:
    done = 0
    with _parquet(path) as table:
        size = path.stat().st_size
        try:
            for rows in table.iter_batches(batch_size=4096, columns=[column]):
                yield from _strings(rows.column(0), report)
                done += len(rows)
                moved(size * done // table.metadata.num_rows)
        except _ARROW_ERRORS as error:
            raise _damaged(path, error) from None


def _strings(values: Any, report: Report) -> list[object]:
    try:
        return values.to_pylist()
    except UnicodeDecodeError:
        raw = values.cast("large_binary").to_pylist()
        return [None if value is None else _decoded(value, True, report)[0] for value in raw]


def _choose(column: str | None, kinds: dict[str, str], where: str) -> str:
    """The column to read, out of those there are (name -> what it holds)."""
    names = ", ".join(kinds)
    texts = [name for name, kind in kinds.items() if kind in ("string", "large_string", "string_view")]
    if column is None:
        if len(texts) == 1:
            return texts[0]
        raise BanyanError(f"{where} has {'several columns' if texts else 'no column'} of text: name the one to read "
                          f"(--column, column=); its columns are {names}")  # fmt: skip
    if column not in kinds:
        raise BanyanError(f"{where} has no column {column!r}; its columns are {names}")
    if column not in texts:
        raise BanyanError(f"column {column!r} of {where} holds {kinds[column]}, not text; its columns are {names}")
    return column


def _optional(module: str, wanted_for: str, extra: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError:
        package = module.partition(".")[0]
        raise BanyanError(f'{wanted_for} needs the package {package}: pip install "banyan-embed[{extra}]"') from None


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def _nowhere(position: int) -> None:
    pass


_COLUMNS = {"json": _json_column, "csv": _csv_column, "tsv": _csv_column, "parquet": _parquet_column}
_VALUES = {"json": _json_values, "csv": _csv_values, "tsv": _csv_values, "parquet": _parquet_values}
