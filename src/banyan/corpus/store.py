"""Store: the tokenised corpus on disk, built once and memory-mapped by training. An interrupted build is resumed.

A store is a folder with tokens.bin (token ids), offsets.bin (int64, one more than there are sentences) and meta.json,
which is written last and makes the store valid. Until then progress.json records how much of the other files is valid.
A store of text in paragraphs also has paragraphs.bin (int64, the first sentence of each paragraph).
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, Protocol

import numpy as np

from banyan._version import __version__
from banyan.corpus.reading import in_blocks
from banyan.corpus.report import Report
from banyan.corpus.sentences import Sentence
from banyan.corpus.sources import as_recorded
from banyan.errors import BanyanError
from banyan.model.graph import runs_of_tokens
from banyan.support import checksums, files

FORMAT = 1  # increased when older versions cannot read the store
BLOCK = 20_000  # sentences tokenised between two writes of progress.json
_BLOCK_CHARACTERS = 1 << 22  # or fewer sentences, if they are long

_TOKENS, _OFFSETS, _PARAGRAPHS = "tokens.bin", "offsets.bin", "paragraphs.bin"
_META, _PROGRESS = "meta.json", "progress.json"


class Text(Protocol):
    """The input of a store: banyan.corpus.Corpus, or a Shard of one."""

    report: Report

    @property
    def paragraphs(self) -> bool: ...
    @property
    def bytes_read(self) -> int: ...
    @property
    def bytes_total(self) -> int: ...
    def in_paragraphs(self) -> Iterator[Sentence]: ...
    def fingerprints(self) -> list[str]: ...


class Pieces(Protocol):
    """The tokenizer of a store: banyan.tokenizer.Tokenizer."""

    @property
    def vocab_size(self) -> int: ...
    def encode(self, texts: list[str]) -> tuple[np.ndarray, np.ndarray]: ...
    def to_json(self) -> str: ...


class Store:
    """Sentence i is tokens[offsets[i]:offsets[i + 1]]. Paragraphs are runs of sentences; without them (None), the
    sentences are unrelated."""

    def __init__(
        self,
        tokens: np.ndarray,
        offsets: np.ndarray,
        report: Report,
        fingerprint: str,
        paragraphs: np.ndarray | None = None,
    ) -> None:
        self.tokens = tokens
        self.offsets = offsets
        self.paragraphs = paragraphs  # the first sentence of each
        self.report = report
        self.fingerprint = fingerprint  # of the corpus, the tokenizer and the length limits

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def n_tokens(self) -> int:
        return len(self.tokens)

    def batch(self, indices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return these sentences as ragged int32 tokens and int64 offsets."""
        all_tokens, all_offsets = np.asarray(self.tokens), np.asarray(self.offsets)  # indexing an np.memmap is slow
        starts = all_offsets[indices]
        return runs_of_tokens(all_tokens, starts, all_offsets[indices + 1] - starts)

    @classmethod
    def build(
        cls,
        folder: str | Path,
        corpus: Text,
        tokenizer: Pieces,
        *,
        min_pieces: int,
        max_pieces: int,
        progress: Callable[[float, float], object] | None = None,
    ) -> Store:
        """Build the store in `folder`, or open the existing one if corpus, tokenizer and limits are the same.

        progress: called with the number of sentences read and an estimate of their total.
        """
        folder = Path(folder)
        meta = _read_json(folder / _META)
        recorded = (meta or _read_json(folder / _PROGRESS)).get("recipe", {}).get("corpus")
        recipe = {
            "format": FORMAT,
            "corpus": as_recorded(recorded, corpus.fingerprints()),
            "tokenizer": hashlib.sha256(tokenizer.to_json().encode()).hexdigest(),
            "min_pieces": min_pieces,
            "max_pieces": max_pieces,
            **({"paragraphs": True} if corpus.paragraphs else {}),
        }
        if meta.get("recipe") == recipe and _complete(folder, meta):
            return cls.open(folder)
        try:
            _build(folder, corpus, tokenizer, recipe, progress)
        except OSError as error:
            raise BanyanError(
                f"cannot write the tokenised corpus to {folder}: {error.strerror or error}; "
                "the sentences tokenised so far are kept, and the next run continues from there"
            ) from None
        return cls.open(folder)

    @classmethod
    def open(cls, folder: str | Path) -> Store:
        folder = Path(folder)
        meta = _read_json(folder / _META)
        if "format" not in meta:
            raise BanyanError(f"there is no finished store in {folder}")
        if meta["format"] > FORMAT:
            raise BanyanError(
                f"the store in {folder} was written by banyan {meta['banyan_version']} in format {meta['format']}; "
                f"this is banyan {__version__}, which reads up to format {FORMAT}: upgrade banyan-embed"
            )
        if not _complete(folder, meta):
            raise BanyanError(f"the store in {folder} is damaged: its files are not as long as {_META} says; delete it")
        tokens = np.memmap(folder / _TOKENS, meta["dtype"], "r")
        offsets = np.memmap(folder / _OFFSETS, np.int64, "r")
        paragraphs = np.memmap(folder / _PARAGRAPHS, np.int64, "r") if "paragraphs" in meta else None
        fingerprint = hashlib.sha256(json.dumps(meta["recipe"], sort_keys=True).encode()).hexdigest()
        return cls(tokens, offsets, Report.from_dict(meta["report"]), fingerprint, paragraphs)


def shuffled(n: int, seed: int, epoch: int, rank: int = 0) -> np.ndarray:
    """Return all indices below n in an order that depends only on (seed, epoch, rank)."""
    # Sorts raw random words, because Generator.permutation may change between versions of NumPy.
    # Each rank has its own order; otherwise neighbouring sentences of the corpus would share every step.
    words = np.random.Philox(np.random.SeedSequence([seed, epoch, *([rank] if rank else [])])).random_raw(n)
    return np.argsort(words, kind="stable")


def shuffled_batches(n: int, batch_size: int, seed: int, epoch: int, rank: int = 0) -> list[np.ndarray]:
    """Return shuffled indices in batches of this size. The last batch may be smaller."""
    order = shuffled(n, seed, epoch, rank)
    return [order[start : start + batch_size] for start in range(0, n, batch_size)]


def even_batches(n: int, batches: int, seed: int, epoch: int, rank: int = 0) -> list[np.ndarray]:
    """Return shuffled indices in this many batches. Sizes differ by at most one; the larger batches come first."""
    return np.array_split(shuffled(n, seed, epoch, rank), batches)


def of_all_shards(folder: Path, world: int) -> Report:
    """Return the combined report of all processes, once they have built their stores."""
    reports = [Store.open(shard(folder, rank, world)).report for rank in range(world)]
    whole = dataclasses.replace(reports[0], kept=sum(report.kept for report in reports), dropped={})
    for report in reports:
        for reason, count in report.dropped.items():
            whole.drop(reason, count)
    return whole


def shard(folder: Path, rank: int, world: int) -> Path:
    """Return the folder of one process's part of the store."""
    return folder / f"shard-{rank}-of-{world}" if world > 1 else folder


@dataclass
class _Progress:
    """How much is done. The files may hold more: an unfinished block, which is written again."""

    recipe: dict[str, Any]
    read: int = 0  # sentences of the corpus
    kept: int = 0
    tokens: int = 0
    too_short: int = 0
    too_long: int = 0
    paragraphs: int = 0
    begun: bool = False  # the paragraph of the last sentence has been counted: one of its sentences was kept

    @property
    def whole(self) -> bool:
        """Whether paragraphs are recorded."""
        return "paragraphs" in self.recipe


def _build(folder: Path, corpus: Text, tokenizer: Pieces, recipe: dict[str, Any], progress: Any) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    files.remove_leftovers(folder)
    (folder / _META).unlink(missing_ok=True)
    dtype = np.dtype(np.uint16 if tokenizer.vocab_size <= 1 << 16 else np.uint32)
    done = _resumable(folder, recipe, dtype)
    if not done.whole:
        (folder / _PARAGRAPHS).unlink(missing_ok=True)  # of another store
    with ExitStack() as stack:
        out = _Files(
            stack.enter_context(_cut(folder / _TOKENS, done.tokens * dtype.itemsize)),
            stack.enter_context(_cut(folder / _OFFSETS, (done.kept + 1) * 8 if done.read else 0)),
            stack.enter_context(_cut(folder / _PARAGRAPHS, done.paragraphs * 8)) if done.whole else None,
        )
        if not done.read:
            out.offsets.write(np.zeros(1, np.int64).tobytes())
        sentences = _skip(corpus.in_paragraphs(), done.read)
        for block in in_blocks(sentences, BLOCK, _BLOCK_CHARACTERS, lambda sentence: len(sentence.text)):
            _append(block, tokenizer, out, dtype, done)
            files.write_text(folder / _PROGRESS, json.dumps(dataclasses.asdict(done)))
            if progress:
                progress(done.read, max(done.read, done.read * corpus.bytes_total // max(corpus.bytes_read, 1)))
        _flush(out)
    _finish(folder, corpus, dtype, done)


class _Files(NamedTuple):
    """The files of a store that is being built."""

    tokens: BinaryIO
    offsets: BinaryIO
    paragraphs: BinaryIO | None


def _resumable(folder: Path, recipe: dict[str, Any], dtype: np.dtype) -> _Progress:
    """Return the progress of an interrupted build of the same store, or of none."""
    record = _read_json(folder / _PROGRESS)
    if record.get("recipe") == recipe:
        done = _Progress(**record)
        sizes = {_TOKENS: done.tokens * dtype.itemsize, _OFFSETS: (done.kept + 1) * 8}
        if done.whole:
            sizes[_PARAGRAPHS] = done.paragraphs * 8
        if all(_size(folder / name) >= size for name, size in sizes.items()):
            return done
    (folder / _PROGRESS).unlink(missing_ok=True)
    return _Progress(recipe)


def _cut(path: Path, size: int) -> BinaryIO:
    """Truncate the file to `size` bytes and open it for appending."""
    path.touch()
    os.truncate(path, size)
    return open(path, "ab")


def _skip(sentences: Iterator[Sentence], count: int) -> Iterator[Sentence]:
    deque(islice(sentences, count), maxlen=0)
    return sentences


def _append(block: list[Sentence], tokenizer: Pieces, out: _Files, dtype: np.dtype, done: _Progress) -> None:
    """Tokenise a block, write the sentences within the length limits, and update `done` to match the files."""
    ids, ends = tokenizer.encode([sentence.text for sentence in block])
    lengths = np.diff(ends)
    short = lengths < done.recipe["min_pieces"]
    long = lengths > done.recipe["max_pieces"]
    keep = ~(short | long)
    kept = ids[np.repeat(keep, lengths)]
    if len(kept) and not 0 <= kept.min() <= kept.max() < tokenizer.vocab_size:
        raise BanyanError(f"the tokenizer gave a token outside its vocabulary of {tokenizer.vocab_size:,}")
    out.tokens.write(kept.astype(dtype).tobytes())
    out.offsets.write((done.tokens + np.cumsum(lengths[keep])).astype(np.int64).tobytes())
    if out.paragraphs:
        first, done.begun = _first_kept(np.array([sentence.begins for sentence in block]), keep, done.begun)
        out.paragraphs.write((done.kept + first).astype(np.int64).tobytes())
        done.paragraphs += len(first)
    _flush(out)
    done.read += len(block)
    done.kept += int(keep.sum())
    done.tokens += len(kept)
    done.too_short += int(short.sum())
    done.too_long += int(long.sum())


def _flush(out: _Files) -> None:
    for stream in filter(None, out):
        stream.flush()
        os.fsync(stream.fileno())


def _first_kept(begins: np.ndarray, keep: np.ndarray, begun: bool) -> tuple[np.ndarray, bool]:
    """Which of the kept sentences of a block are the first of their paragraphs, and whether one of the last paragraph
    was kept. A dropped sentence does not end its paragraph. begun: the same of the block before."""
    paragraph = np.cumsum(begins)  # 0: the last one of the block before
    kept = paragraph[keep]
    before = np.concatenate([[0 if begun else -1], kept])
    return np.flatnonzero(np.diff(before)), bool(before[-1] == paragraph[-1])


def _finish(folder: Path, corpus: Text, dtype: np.dtype, done: _Progress) -> None:
    report = dataclasses.replace(corpus.report, dropped=dict(corpus.report.dropped), kept=done.kept)
    report.drop(f"with fewer than {_pieces(done.recipe['min_pieces'])}", done.too_short)
    report.drop(f"with more than {_pieces(done.recipe['max_pieces'])}", done.too_long)
    if done.recipe["corpus"] not in corpus.fingerprints() or corpus.report.kept != done.read:
        (folder / _PROGRESS).unlink(missing_ok=True)
        raise BanyanError("the corpus changed while it was read: run again once it no longer changes")
    if not done.kept:
        raise BanyanError(f"the corpus has no sentence to train on: {report.summary()}")
    meta = {
        "format": FORMAT,
        "banyan_version": __version__,
        "recipe": done.recipe,
        "dtype": dtype.name,
        "sentences": done.kept,
        "tokens": done.tokens,
        **({"paragraphs": done.paragraphs} if done.whole else {}),
        "report": report.to_dict(),
    }
    text = json.dumps(meta, indent=2) + "\n"
    checksums.write(folder, (_TOKENS, _OFFSETS, _PARAGRAPHS), {_META: text})
    files.write_text(folder / _META, text)
    (folder / _PROGRESS).unlink(missing_ok=True)


def _pieces(count: int) -> str:
    return f"{count} piece{'s' * (count != 1)}"


def _complete(folder: Path, meta: dict[str, Any]) -> bool:
    sizes = {_TOKENS: meta["tokens"] * np.dtype(meta["dtype"]).itemsize, _OFFSETS: (meta["sentences"] + 1) * 8}
    if "paragraphs" in meta:
        sizes[_PARAGRAPHS] = meta["paragraphs"] * 8
    return all(_size(folder / name) == size for name, size in sizes.items())


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else -1


def _read_json(path: Path) -> dict[str, Any]:
    """Read a JSON file that was written atomically. Return {} if there is none."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise BanyanError(f"cannot read {path}: {error}; delete it to tokenise again") from None
