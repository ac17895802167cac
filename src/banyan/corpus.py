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
import json
import lzma
import os
import re
import sys
import zlib
from collections.abc import Callable, Iterator, Sequence
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
        self.paths = [source.path for source in self._sources if source.path]
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
            report.files += 1
            empty = True
            for chunk in self._chunks(source, report, before):
                empty = False
                yield from reading.take(chunk)
            yield from reading.end()
            report.empty_files += empty
            before += source.size
        self.bytes_read = self.bytes_total
        self.report = report

    def fingerprint(self) -> str:
        """Changes when the corpus does, judged by names, sizes, times of change and options."""
        marks = [source.mark() for source in self._sources]
        options = {"reader": _READER, "layout": self.layout, "column": self._column}
        return hashlib.sha256(json.dumps([options, marks]).encode()).hexdigest()

    def _resolve(self, name: str, spool: Path | None) -> list[_Source]:
        if name.startswith("hf:"):
            return [_load_hf(name, self._column)]
        if name == "-":
            return [_file(_spool(sys.stdin.buffer, "standard input", self._column, spool), self._column)]
        path = Path(name)
        if not path.exists() and glob.has_magic(name):
            matches = [Path(match) for match in sorted(glob.glob(name, recursive=True))]
            paths = [path for match in matches for path in (self._folder(match) if match.is_dir() else [match])]
            if not paths:
                raise BanyanError(f"no file matches {name}")
        elif path.is_dir():
            paths = self._folder(path)
            if not paths:
                raise BanyanError(f"there is no text in the folder {path}: no file ends in {', '.join(_KINDS)}, "
                                  f"alone or with {', '.join(_PACKED)} after it")  # fmt: skip
        else:
            paths = [path]
        return [_file(_twice(path, self._column, spool), self._column) for path in paths]

    def _folder(self, folder: Path) -> list[Path]:
        found = []
        for parent, folders, names in os.walk(folder):
            folders[:] = sorted(name for name in folders if not name.startswith("."))
            shown = [Path(parent, name) for name in sorted(names) if not name.startswith(".")]
            known = [path for path in shown if _kind(path) is not None]
            self._skipped += len(shown) - len(known)
            found += known
        return sorted(found)

    def _check(self, column: str | None) -> None:
        if self.paths and not any(source.size for source in self._sources):
            empty = f"{self.paths[0]} is" if len(self.paths) == 1 else f"all {len(self.paths)} files are"
            raise BanyanError(f"there is no text to read: {empty} empty")
        if column is not None and all(source.kind == "text" for source in self._sources):
            raise BanyanError(f"column {column!r} was asked for, but a text file like {self.paths[0]} has no columns")

    def _settle(self, layout: str) -> tuple[str, str]:
        words = {"lines": "one sentence per line", "running": "running text, to be split into sentences,"}
        if layout != "auto":
            return layout, f"Reading {words[layout].rstrip(',')}, as asked."
        layout, why = assume_layout(self._sample())
        other = "running" if layout == "lines" else "lines"
        return layout, f'Assuming {words[layout]} because {why}; if that is wrong, ask for layout "{other}".'

    def _sample(self) -> list[str]:
        """Some lines of some files. Texts are set apart by blank lines."""
        step = -(-len(self._sources) // _SAMPLED_FILES)
        sample: list[str] = []
        for source in self._sources[::step]:
            lines: list[str] = []
            for chunk in self._chunks(source, Report(), 0):
                lines += chunk.text.split("\n")[:_SAMPLED_LINES]
                if chunk.ends == "text":
                    lines.append("")
                if len(lines) >= _SAMPLED_LINES or chunk.ends == "nothing":
                    break
            sample += [*lines[:_SAMPLED_LINES], ""]
        self.bytes_read = 0
        return sample

    def _chunks(self, source: _Source, report: Report, before: int) -> Iterator[_Chunk]:
        def moved(position: int) -> None:
            self.bytes_read = before + position

        if source.kind == "text":
            assert source.path is not None
            yield from _text_chunks(source.path, report, moved)
            return
        for value in source.values(report, moved):
            if isinstance(value, str):
                yield _Chunk(_lines_apart(_clean(value, report)), "text")
            else:
                report.lines += 1
                report.drop(NOT_TEXT)
                yield _Chunk("", "nothing")


class _Chunk(NamedTuple):
    """Text whose lines are set apart by "\\n", and what ends after it."""

    text: str
    ends: str  # a "line", a whole "text", or "nothing": the line goes on in the next chunk


class _Reading:
    """One pass over a corpus: chunks in, sentences out, all of them counted."""

    def __init__(self, layout: str, report: Report) -> None:
        self._report = report
        self._split = layout == "running"
        self._running = Running()
        self._in_line = False  # the beginning of an endless line has been seen

    def take(self, chunk: _Chunk) -> list[str]:
        if self._in_line or chunk.ends == "nothing":
            return self._take_endless(chunk)
        sentences = self._take_lines(chunk.text.split("\n"))
        return sentences + self.end() if chunk.ends == "text" else sentences

    def end(self) -> list[str]:
        """A file or a text ends here."""
        if self._in_line:
            self._in_line = False
            self._report.lines += 1
        return self._count(self._running.end())

    def _take_lines(self, lines: list[str]) -> list[str]:
        full = [line for line in map(str.strip, lines) if line]
        self._report.lines += len(lines)
        self._report.drop(EMPTY, len(lines) - len(full))
        if self._split:
            return self._count([sentence for line in lines for sentence in self._running.line(line)])
        if full and max(map(len, full)) > LONGEST_LINE:
            full = [sentence for line in full for sentence in self._line(line)]
        return self._count(full)

    def _line(self, line: str) -> list[str]:
        if len(line) <= LONGEST_LINE:
            return [line]
        self._report.repair(ENDLESS)
        return self._running.part(line) + self._running.end()

    def _take_endless(self, chunk: _Chunk) -> list[str]:
        sentences = []
        if not self._in_line:
            sentences = self.end()
            self._in_line = True
            if not self._split:
                self._report.repair(ENDLESS)
        text, ended, rest = (chunk.text, "", "") if chunk.ends == "nothing" else (chunk.text + "\n").partition("\n")
        sentences += self._count(self._running.part(text))
        if ended:
            sentences += self.end()
        return sentences + (self.take(_Chunk(rest[:-1], chunk.ends)) if rest else [])

    def _count(self, sentences: list[str]) -> list[str]:
        self._report.kept += len(sentences)
        self._report.repair(CUTS, self._running.cuts)
        self._running.cuts = 0
        return sentences
