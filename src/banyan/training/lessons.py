"""Lessons: texts and the vectors that a teacher gives them. A taught model trains on them.

With a teacher at hand, the lessons are lines of the corpus and spans of two to ten words of them. With vectors that
exist already, they are the lines. With translations, they are both sides of each pair: the teacher reads the first
side, and its vector is the target of both.

A folder of lessons holds texts.txt, the tokenised texts (store/), the teacher's vectors (vectors/, pieces/) and
targets.f16: those vectors, projected on their principal components and scaled to norm 1. Every step is done once, so
an interrupted run continues where it was. teacher.json describes the teacher (banyan.training.teaching).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from banyan.corpus import Corpus
from banyan.corpus.parallel import ParallelText
from banyan.corpus.report import Report
from banyan.corpus.sources import as_recorded, content_of
from banyan.corpus.store import Store, shuffled
from banyan.errors import BanyanError
from banyan.support import checksums, files
from banyan.support.display import Display
from banyan.support.rows import normalize_rows, slices
from banyan.teachers import Encoder, TextFile, make_vectors, read_vectors
from banyan.tokenizer import Tokenizer
from banyan.tokenizer.rules import BYTES

SPAN_WORDS = 2, 10  # the shortest and the longest span
FEWEST_WORDS = 4  # shorter lines have no spans
SAMPLE = 1 << 17  # vectors from which the principal components are computed
_BLOCK = 8192  # texts tokenised, or vectors projected, at a time
_TEXTS, _ROWS, _RECIPE, _SUMMARY, _TARGETS = "texts.txt", "rows.npy", "texts.json", "summary.txt", "targets.f16"
_MARK = "targets.json"  # what the targets were made from
_BYTES = frozenset(BYTES)


class Lessons(NamedTuple):
    """What a taught model trains on."""

    store: Store  # the tokenised texts
    vectors: np.ndarray  # float16 [n, T]: the target of each text, of norm 1 or zero
    pieces: np.ndarray | None  # float32 [V, T]: the teacher's vectors of the vocabulary, of norm 1 or zero
    fingerprint: str  # of the texts and of who made the vectors
    encoded: int  # texts that have a vector: with translations, their first sides
    summary: str  # what was read, kept and dropped


class Asked(NamedTuple):
    """How lessons are made."""

    folder: Path
    tokenizer: Tokenizer
    max_pieces: int
    width: int  # T
    option: str  # that sets the width
    display: Display


def from_corpus(asked: Asked, corpus: Corpus, teacher: Encoder, lines: int | None) -> Lessons:
    """Lines of a corpus and spans of them, with the vectors of a teacher. lines: how many to sample (None: all).

    Which lines and spans does not depend on the seed of the run: their vectors serve runs with any seed."""
    recipe = {"kind": "lines and spans", "corpus": _recorded(asked, corpus), "lines": lines}
    texts = _texts(
        asked,
        recipe,
        lambda: enumerate(with_spans(_sampled(corpus, lines))),
        lambda kept: f"{corpus.report.summary()} The teacher encoded {kept:,} lines and spans of them.",
    )
    vectors = make_vectors(asked.folder / "vectors", texts, teacher, asked.display, "lines and spans")
    return _finished(asked, vectors, None, _pieces(asked, teacher), teacher.name)


def from_vectors(asked: Asked, corpus: Corpus, path: str) -> Lessons:
    """The lines of a corpus, with vectors from a file, one for each line (or row of a table)."""
    recipe = {"kind": "lines", "corpus": _recorded(asked, corpus)}
    n = sum(1 for _ in corpus.rows(Report()))
    texts = _texts(
        asked,
        recipe,
        lambda: enumerate(corpus.rows(Report())),
        lambda kept: f"{n:,} lines with a vector for each, {kept:,} kept.",
    )
    vectors = read_vectors(Path(path), n)
    file, _, column = path.partition("#")
    stat = Path(file).stat()
    before = f"{path} {stat.st_size} {stat.st_mtime_ns}"  # as earlier versions knew the file
    rows = _rows(asked, len(texts))
    return _finished(asked, vectors, rows, None, f"{content_of(Path(file))} {column}", before)


def from_pairs(asked: Asked, pairs: ParallelText, teacher: Encoder, both: bool) -> Lessons:
    """Both sides of translations (or only the second), each with the teacher's vector of the first side."""
    recipe = {"kind": "translations", "pairs": _recorded(asked, pairs, "pairs"), "both": both}
    sides = _sides_of(asked.folder, pairs)
    texts = _texts(asked, recipe, lambda: _both_sides(pairs, both), lambda kept: pairs.report.summary("pair"))
    vectors = make_vectors(asked.folder / "vectors", sides, teacher, asked.display, "first sides of the translations")
    return _finished(asked, vectors, _rows(asked, len(texts)), None, teacher.name)


def _recorded(asked: Asked, source: Corpus | ParallelText, name: str = "corpus") -> str:
    """The fingerprint of a source, as the recipe of a run that is resumed has it under this name."""
    return as_recorded((_read(asked.folder / _RECIPE) or {}).get(name), source.fingerprints())


# --- Texts -----------------------------------------------------------------------------------------------------------


def _texts(
    asked: Asked,
    recipe: dict[str, Any],
    numbered: Callable[[], Iterable[tuple[int, str]]],
    summary: Callable[[int], str],
) -> TextFile:
    """The texts of the lessons in a file, and the number of the vector that belongs to each in another. Texts without
    tokens or with too many are left out. summary: what to say about them, given how many are kept."""
    folder, path = asked.folder, asked.folder / _TEXTS
    pieces = hashlib.sha256(asked.tokenizer.to_json().encode()).hexdigest()
    recipe = {**recipe, "tokenizer": pieces, "max_pieces": asked.max_pieces}
    if not (path.exists() and _read(folder / _RECIPE) == recipe):
        folder.mkdir(parents=True, exist_ok=True)
        for stale in (checksums.SUMS, _RECIPE):
            (folder / stale).unlink(missing_ok=True)
        numbers: list[np.ndarray] = []
        with files.atomic(path) as temporary, open(temporary, "w", encoding="utf-8", newline="\n") as file:
            for block in _blocks(numbered()):
                kept = _fitting([text for _, text in block], asked)
                numbers.append(np.array([number for number, _ in block], np.int64)[kept])
                file.writelines(f"{block[i][1]}\n" for i in np.flatnonzero(kept))
        if not sum(map(len, numbers)):
            raise BanyanError("there is no text to teach with: every line is empty or too long")
        with files.atomic(folder / _ROWS) as temporary, open(temporary, "wb") as binary:
            np.save(binary, np.concatenate(numbers))
        files.write_text(folder / _SUMMARY, summary(sum(map(len, numbers))))
        files.write_text(folder / _RECIPE, json.dumps(recipe))
    return TextFile(path)


def _fitting(texts: list[str], asked: Asked) -> np.ndarray:
    lengths = np.diff(asked.tokenizer.encode(texts)[1])
    return (lengths >= 1) & (lengths <= asked.max_pieces)


def _rows(asked: Asked, n: int) -> np.ndarray:
    rows = np.load(asked.folder / _ROWS)
    if len(rows) != n:
        raise BanyanError(f"{asked.folder} is damaged: delete it, and run the command again")
    return rows


def _blocks(numbered: Iterable[tuple[int, str]]) -> Iterator[list[tuple[int, str]]]:
    texts = ((number, " ".join(text.split())) for number, text in numbered)
    while block := list(islice(texts, _BLOCK)):
        yield block


def _sampled(corpus: Iterable[str], lines: int | None) -> Iterator[str]:
    """All lines, or a random sample of them in their order."""
    if lines is None:
        yield from corpus
        return
    n = sum(1 for _ in corpus)
    chosen = np.zeros(n, bool)
    chosen[shuffled(n, 0, epoch=2**32 + 1)[:lines]] = True  # a stream that nothing else uses
    yield from (line for line, take in zip(corpus, chosen, strict=True) if take)


def with_spans(lines: Iterable[str]) -> Iterator[str]:
    """Each line, followed by a random span of its words if it is long enough."""
    shortest, longest = SPAN_WORDS
    random = np.random.Generator(np.random.Philox(np.random.SeedSequence([2**32 + 2])))
    for line in lines:
        yield line
        size, place = int(random.integers(shortest, longest + 1)), random.random()
        words = line.split()
        if len(words) >= FEWEST_WORDS:
            size = min(size, len(words) - 1)
            start = int(place * (len(words) - size + 1))
            yield " ".join(words[start : start + size])


def _sides_of(folder: Path, pairs: ParallelText) -> TextFile:
    """The first sides of all pairs in a file, for the teacher."""
    path, mark = folder / "sides.txt", folder / "sides.json"
    if not (path.exists() and (_read(mark) or {}).get("pairs") in pairs.fingerprints()):
        folder.mkdir(parents=True, exist_ok=True)
        with files.atomic(path) as temporary, open(temporary, "w", encoding="utf-8", newline="\n") as file:
            file.writelines(f"{' '.join(first.split())}\n" for first, _ in pairs)
        files.write_text(mark, json.dumps({"pairs": pairs.fingerprint()}))
    return TextFile(path)


def _both_sides(pairs: Iterable[tuple[str, str]], both: bool) -> Iterator[tuple[int, str]]:
    for number, (first, second) in enumerate(pairs):
        if both:
            yield number, first
        yield number, second


def _pieces(asked: Asked, teacher: Encoder) -> np.ndarray:
    """The teacher's vectors of the vocabulary. Tokens that stand for bytes have none."""
    texts = ["" if piece in _BYTES else piece.replace("▁", " ").strip() for piece in asked.tokenizer.pieces]
    return make_vectors(asked.folder / "pieces", texts, teacher, asked.display, "subwords")


# --- Targets ---------------------------------------------------------------------------------------------------------


def _finished(
    asked: Asked, vectors: np.ndarray, rows: np.ndarray | None, pieces: np.ndarray | None, *names: str
) -> Lessons:
    """Tokenise the texts and project the vectors. rows: the number of each text's vector (None: its own number).
    names: of who made the vectors; an earlier version may have recorded one of the later."""
    check_width(vectors.shape[1], asked.width, asked.option)
    corpus = Corpus([asked.folder / _TEXTS], layout="lines")
    with asked.display.bar("tokenising", None, "texts") as meter:
        store = Store.build(
            asked.folder / "store", corpus, asked.tokenizer, min_pieces=1, max_pieces=asked.max_pieces, progress=meter
        )
    rows = np.arange(len(store)) if rows is None else rows
    if len(rows) != len(store):
        raise BanyanError(f"{asked.folder} is damaged: delete it, and run the command again")
    digests = [hashlib.sha256(f"{store.fingerprint} {name} {asked.width}".encode()).hexdigest() for name in names]
    digest = as_recorded((_read(asked.folder / _MARK) or {}).get("fingerprint"), digests)
    basis = principal_components(vectors, asked.width)
    targets = _targets(asked, vectors, rows, basis, digest)
    told = asked.folder / _SUMMARY
    summary = told.read_text(encoding="utf-8") if told.exists() else store.report.summary()
    leaves = None if pieces is None else projected(pieces, basis)
    return Lessons(store, targets, leaves, digest, len(vectors), summary)


def check_width(found: int, wanted: int, option: str) -> None:
    """Refuse vectors that are narrower than what is to be taught."""
    if found < wanted:
        told = f"the teacher's vectors have {found} dimensions, but {wanted} are to be taught"
        raise BanyanError(f"{told}: use --{option} {found}")


def principal_components(vectors: np.ndarray, width: int) -> np.ndarray:
    """The directions [W, width] that keep most of the vectors' squared length, from a sample of the rows. Cosines are
    what the student learns, so the mean stays."""
    if width == vectors.shape[1]:
        return np.eye(width, dtype=np.float32)
    chosen = np.unique(np.linspace(0, len(vectors) - 1, min(SAMPLE, len(vectors))).astype(np.int64))
    product = np.zeros((vectors.shape[1],) * 2)
    for part in slices(len(chosen), _BLOCK):
        rows = normalize_rows(np.asarray(vectors[chosen[part]], np.float32))
        product += rows.T @ rows
    return np.linalg.eigh(product)[1][:, ::-1][:, :width].astype(np.float32)


def projected(vectors: np.ndarray, basis: np.ndarray) -> np.ndarray:
    """The vectors in a basis, of norm 1; a zero vector stays zero."""
    return normalize_rows(np.asarray(vectors, np.float32) @ basis)


def _targets(asked: Asked, vectors: np.ndarray, rows: np.ndarray, basis: np.ndarray, digest: str) -> np.ndarray:
    path, mark = asked.folder / _TARGETS, asked.folder / _MARK
    shape = len(rows), basis.shape[1]
    if not (path.exists() and _read(mark) == {"fingerprint": digest}):
        (asked.folder / checksums.SUMS).unlink(missing_ok=True)
        taught = 0
        with files.atomic(path) as temporary, open(temporary, "wb") as file:
            for part in slices(len(rows), _BLOCK):
                targets = projected(np.asarray(vectors)[rows[part]], basis)
                taught += int(targets.any(1).sum())
                file.write(targets.astype(np.float16).tobytes())
            if not taught:
                raise BanyanError("there is nothing to learn: every vector of the teacher is zero")
        if taught < len(rows):
            zeros = f"{len(rows) - taught:,} of {len(rows):,} texts have a vector of zeros"
            asked.display.note(f"{zeros} and teach nothing")
        files.write_text(mark, json.dumps({"fingerprint": digest}))
        checksums.write(asked.folder, (_TEXTS, _ROWS, _RECIPE, _SUMMARY, _TARGETS, _MARK))
    return np.memmap(path, np.float16, "r", shape=shape)


def _read(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
