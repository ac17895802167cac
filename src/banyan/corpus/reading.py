"""Corpus: the sentences of files, folders, globs, standard input and Hugging Face data sets.

Reading holds a bounded amount of text in memory. A Report counts everything that is dropped or repaired. What cannot be
repaired raises an error that names the file and, if possible, the line.
"""

from __future__ import annotations

import dataclasses
import glob
import hashlib
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import TypeVar

from banyan.corpus.report import CUTS, EMPTY, ENDLESS, LONGEST_LINE, Report
from banyan.corpus.sentences import Running, Sentence, assume_layout
from banyan.corpus.sources import File, HubSet, readable_twice, spooled
from banyan.corpus.textfile import KINDS, PACKED, Chunk, Moved, file_kind
from banyan.errors import BanyanError

LAYOUTS = {
    "lines": "one sentence per line",
    "blocks": "one sentence per line and blank lines between paragraphs",
    "tabs": "one paragraph per line, its sentences separated by tabs",
    "running": "running text, to be split into sentences",
}
_INSTEAD = {"lines": "running", "blocks": "lines", "tabs": "running", "running": "lines"}  # the likeliest other layout
_READER = 1  # increased when the same files would give different sentences
_SAMPLED_FILES, _SAMPLED_LINES = 5, 1000  # the sample that layout="auto" examines
_FEWEST_LINES = 20  # of a file, to say what layout it has


T = TypeVar("T")


def no_column(path: Path, column: str) -> BanyanError:
    return BanyanError(f"{path} is a text file and has no column {column!r}: leave the column out")


class Corpus:
    """The sentences of one or more sources. A corpus can be iterated any number of times.

    A source is a file, a folder (all files with known suffixes, sorted by name), a glob, "-" for standard input, or
    hf:name[:config]. Compressed files are recognised by their content. JSON lines, Parquet, CSV and TSV need `column`,
    unless only one column holds text. With a `column`, standard input is read as JSON lines. Standard input and pipes,
    which cannot be read twice, are first copied into the folder `spool`.

    layout: one of LAYOUTS, or "auto" to decide by looking at the text.
    paragraphs: keep paragraphs, unless the layout is "lines". Otherwise sentences count as unrelated.
    beside_tables: the column may be that of another corpus, so text files alone are no error.
    """

    report: Report  # of the latest complete iteration
    layout: str  # of LAYOUTS
    layout_reason: str  # a sentence to show the user
    paragraphs: bool  # whether in_paragraphs() knows which sentences stood together
    bytes_total: int  # on disk, before decompression; a row of an hf: data set counts as one byte
    bytes_read: int  # by the current iteration; ends at bytes_total

    def __init__(
        self,
        sources: str | Path | Sequence[str | Path],
        *,
        column: str | None = None,
        layout: str = "auto",
        spool: Path | None = None,
        paragraphs: bool = False,
        beside_tables: bool = False,
    ) -> None:
        if layout not in ("auto", *LAYOUTS):
            raise BanyanError(f"layout must be one of auto, {', '.join(LAYOUTS)}, not {layout!r}")
        names = [sources] if isinstance(sources, str | Path) else list(sources)
        if not names:
            raise BanyanError("no corpus given: name a file, a folder, a glob, hf:name, or - for standard input")
        if [str(name) for name in names].count("-") > 1:
            raise BanyanError("standard input (-) can be read only once")
        self._skipped = 0
        self._column, self._spool = column, spool
        self._sources = [source for name in names for source in self._resolve(str(name), spool)]
        self.bytes_total = sum(source.size for source in self._sources)
        self.bytes_read = 0
        self.report = Report()
        self._check(None if beside_tables else column)
        self.layout, self.layout_reason = self._settle(layout)
        self.paragraphs = paragraphs and self.layout != "lines"

    @property
    def paths(self) -> list[Path]:
        """The files that are read. As sources they give the same corpus again."""
        return [source.path for source in self._sources if isinstance(source, File)]

    def move_copies(self, folder: Path) -> None:
        """Move the copies in `spool` to a folder. Copies are named after their content, so an existing one is kept."""
        for source in self._sources:
            if isinstance(source, File) and source.path.parent == self._spool:
                source.move(folder)

    def __iter__(self) -> Iterator[str]:
        return (sentence.text for sentence in self._sentences())

    def in_paragraphs(self) -> Iterator[Sentence]:
        """Yield the sentences with the beginnings of paragraphs. Without paragraphs, each sentence is one."""
        if self.paragraphs:
            return self._sentences()
        return (Sentence(text, True) for text, _ in self._sentences())

    def _sentences(self) -> Iterator[Sentence]:
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
        """Yield every line of text files and every value of columns, none dropped or split.

        A value that is not text is an empty row. Repairs are counted in `report`.
        """
        return chain.from_iterable(self._rows_of_sources(report))

    def _rows_of_sources(self, report: Report) -> Iterator[Iterator[str]]:
        before = 0
        for source in self._sources:
            yield source.rows(report, self._mover(before))
            before += source.size

    def fingerprint(self) -> str:
        """Return a hash of the content of the sources and of the options."""
        return self.fingerprints()[0]

    def fingerprints(self) -> list[str]:
        """Return the fingerprint, and the one that earlier versions recorded for the same files and options."""
        layout = "lines" if self.layout == "blocks" else self.layout  # they give the same sentences
        options = {"reader": _READER, "layout": layout, "column": self._column}
        marks = [source.mark() for source in self._sources], [source.mark_before() for source in self._sources]
        return [hashlib.sha256(json.dumps([options, each]).encode()).hexdigest() for each in marks]

    def _mover(self, before: int) -> Moved:
        def moved(position: int) -> None:
            self.bytes_read = before + position

        return moved

    def _resolve(self, name: str, spool: Path | None) -> list[File | HubSet]:
        if name.startswith("hf:"):
            return [HubSet(name, self._column)]
        if name == "-":
            paths = [spooled(sys.stdin.buffer, "stdin", ".jsonl" if self._column else ".txt", spool)]
        elif not os.path.lexists(name) and glob.has_magic(name):
            paths = self._glob(name)
        elif os.path.isdir(name):
            paths = self._folder(name)
        else:
            paths = [Path(name)]
        return [File(readable_twice(path, self._column, spool), self._column) for path in paths]

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
            known = [path for path in shown if file_kind(path)]
            self._skipped += len(shown) - len(known)
            found += known
        if not found:
            suffixes = f"{', '.join(KINDS)}, alone or followed by {', '.join(PACKED)}"
            raise BanyanError(f"the folder {folder} has no text files: no file name in it ends in {suffixes}")
        return sorted(found)

    def _check(self, column: str | None) -> None:
        if not any(source.size for source in self._sources):
            count = len(self._sources)
            empty = f"{self._sources[0].name} is" if count == 1 else f"all {count} files are"
            raise BanyanError(f"there is no text to read: {empty} empty")
        if column is not None and all(source.kind == "text" for source in self._sources):
            raise no_column(self.paths[0], column)

    def _settle(self, layout: str) -> tuple[str, str]:
        if layout != "auto":
            return layout, f"Reading {LAYOUTS[layout]}, as requested."
        samples = self._samples()
        layout, why = assume_layout([line for _, lines in samples for line in lines])
        option = f'--{_INSTEAD[layout]} (in Python, layout="{_INSTEAD[layout]}")'
        told = f"Assuming {LAYOUTS[layout]}, because {why}; if that is wrong, use {option}."
        return layout, told + _looking_otherwise(samples, layout)

    def _samples(self) -> list[tuple[str, list[str]]]:
        """Return the names of some files and some lines of each, the last one blank."""
        step = -(-len(self._sources) // _SAMPLED_FILES)
        samples = []
        for source in self._sources[::step]:
            lines: list[str] = []
            for chunk in source.chunks(Report(), self._mover(0)):
                lines += [*chunk.text.split("\n"), *[""] * (chunk.ends == "text")]
                if len(lines) >= _SAMPLED_LINES or chunk.ends == "nothing":
                    break
            samples.append((str(source.name), [*lines[:_SAMPLED_LINES], ""]))
        self.bytes_read = 0
        return samples


def _looking_otherwise(samples: Sequence[tuple[str, list[str]]], layout: str) -> str:
    """A sentence that names a file with another layout than all files together seem to have."""
    for name, lines in samples:
        if sum(map(bool, map(str.strip, lines))) >= _FEWEST_LINES and (own := assume_layout(lines)[0]) != layout:
            return f" But {name} looks like {LAYOUTS[own]}, and all files are read alike."
    return ""


class Shard:
    """Every world-th paragraph of a corpus, starting at the rank-th: the part that one of several processes trains on.
    Without paragraphs, every world-th sentence.

    The reports of all shards add up to the report of the corpus: only the first shard counts what was read, dropped
    and repaired.
    """

    report: Report  # of the latest complete iteration

    def __init__(self, corpus: Corpus, rank: int, world: int) -> None:
        self._corpus, self._rank, self._world = corpus, rank, world
        self.report = Report()

    @property
    def paragraphs(self) -> bool:
        return self._corpus.paragraphs

    @property
    def bytes_total(self) -> int:
        return self._corpus.bytes_total

    @property
    def bytes_read(self) -> int:
        return self._corpus.bytes_read

    def in_paragraphs(self) -> Iterator[Sentence]:
        kept, paragraph = 0, -1
        for sentence in self._corpus.in_paragraphs():
            paragraph += sentence.begins
            if paragraph % self._world == self._rank:
                kept += 1
                yield sentence
        if kept == 0:
            what = "paragraphs" if self.paragraphs else "sentences"
            raise BanyanError(f"the corpus has fewer {what} than there are processes ({self._world}): use fewer")
        self.report = dataclasses.replace(self._corpus.report if self._rank == 0 else Report(), kept=kept)

    def fingerprints(self) -> list[str]:
        whole = self._corpus.fingerprints()
        return [hashlib.sha256(f"{each} {self._rank} of {self._world}".encode()).hexdigest() for each in whole]


class _Reading:
    """One pass over a corpus: turns chunks into sentences and counts them."""

    def __init__(self, layout: str, report: Report) -> None:
        self._layout, self._report = layout, report
        self._running = Running()
        self._begins = True  # the next line of a block begins a paragraph
        self._endless = False  # inside a line longer than LONGEST_LINE
        self._blank = True  # that line is only white space so far

    def take(self, chunk: Chunk) -> list[Sentence]:
        if self._endless or chunk.ends == "nothing":
            return self._take_endless(chunk)
        sentences = self._take_lines(chunk.text.split("\n"))
        return sentences + self.end() if chunk.ends == "text" else sentences

    def end(self) -> list[Sentence]:
        """End the current paragraph."""
        self._report.lines += self._endless
        self._report.drop(EMPTY, self._endless and self._blank)
        self._begins, self._endless, self._blank = True, False, True
        return self._count(self._running.end())

    def _take_lines(self, lines: list[str]) -> list[Sentence]:
        if max(map(len, lines)) > LONGEST_LINE:
            return [sentence for line in lines for sentence in self._take_line(line)]
        full = [line for line in map(str.strip, lines) if line]
        self._report.lines += len(lines)
        self._report.drop(EMPTY, len(lines) - len(full))
        if self._layout == "running":
            return self._count([sentence for line in lines for sentence in self._running.line(line)])
        if self._layout == "tabs":
            return self._count([sentence for line in full for sentence in _fields(line)])
        if self._layout == "blocks":
            return self._count([sentence for line in lines for sentence in self._block_line(line.strip())])
        return self._count([Sentence(line, True) for line in full])

    def _block_line(self, line: str) -> list[Sentence]:
        begins, self._begins = self._begins, not line
        return [Sentence(line, begins)] if line else []

    def _take_line(self, line: str) -> list[Sentence]:
        return self._take_endless(Chunk(line, "line")) if len(line) > LONGEST_LINE else self._take_lines([line])

    def _take_endless(self, chunk: Chunk) -> list[Sentence]:
        sentences = [] if self._endless else self.end()
        self._report.repair(ENDLESS, not (self._endless or self._layout == "running"))
        self._endless = True
        text, *rest = [chunk.text] if chunk.ends == "nothing" else chunk.text.split("\n")
        self._blank = self._blank and not text.strip()
        sentences += self._count(self._running.part(text))
        if chunk.ends != "nothing":
            sentences += self.end()
        return sentences + self._take_lines(rest) if rest else sentences

    def _count(self, sentences: list[Sentence]) -> list[Sentence]:
        self._report.kept += len(sentences)
        self._report.repair(CUTS, self._running.cuts)
        self._running.cuts = 0
        return sentences


def _fields(line: str) -> list[Sentence]:
    """The sentences of a paragraph on one line, separated by tabs."""
    fields = [field for field in map(str.strip, line.split("\t")) if field]
    return [Sentence(field, i == 0) for i, field in enumerate(fields)]


def in_blocks(
    texts: Iterable[T], most: int, characters: int, length: Callable[[T], int] = len  # type: ignore[assignment]
) -> Iterator[list[T]]:
    """Group texts into blocks of at most `most` texts, or fewer if they reach this many characters. Deterministic."""
    block: list[T] = []
    held = 0
    for text in texts:
        block.append(text)
        held += length(text)
        if len(block) == most or held >= characters:
            yield block
            block, held = [], 0
    if block:
        yield block
