"""`banyan check`: whether a model, a training run, an index or encoded output is as it was written."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

from banyan import block_sums
from banyan.classify.classifier import ABOUT, HEAD, Classifier, has_classifier
from banyan.encoder import SETTINGS, TAUGHT_BY, TOKENIZER, WEIGHTS, Banyan
from banyan.errors import BanyanError
from banyan.folders import unfinished_of
from banyan.integrations import export
from banyan.support import checksums, files

if TYPE_CHECKING:
    from banyan.search.index import Index
    from banyan.training.checkpoint import Progress

METRICS, RUN = "metrics.jsonl", Path("training", "run.json")
CHECKPOINT = Path("training", "checkpoint.safetensors")
INDEX, ROWS = "index.json", "rows.lance"
PARTS = "_banyan.json"  # written by `banyan encode --engine ray` when all parts are there


@dataclass
class Findings:
    """What `check` found. kinds: what the path holds."""

    path: Path
    kinds: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    without: list[str] = field(default_factory=list)  # parts of an earlier version, written without checksums

    def __str__(self) -> str:
        lines = [f"{self.path}: {problem}" if str(self.path) not in problem else problem for problem in self.problems]
        lines += [f"{self.path}: {part} has no checksums; it can be read" for part in self.without]
        return "\n".join(lines or [f"{self.path}: {' and '.join(self.kinds)}, as written"])


def check(path: str | Path, repair: bool = False) -> Findings:
    """Verify the checksums of everything in a folder (or of a file that `banyan encode` wrote) and read all of it.

    repair: restore a lost or damaged index.json of an index from its rows, and remove damaged copies of the rows, which
    search makes."""
    path = Path(path)
    found = Findings(path)
    model, static = (path / WEIGHTS).exists() or (path / SETTINGS).exists(), export.is_static(path)
    parts = {
        "a model": (model and not static, _model),
        "a static export": (static, _static),
        "a training run": ((path / "training").is_dir(), _run),
        "an index": ((path / INDEX).exists() or (path / ROWS).exists(), lambda path: _index(path, repair)),
        "encoded output": (path.is_file(), _encoded),
        "encoded Parquet files": ((path / PARTS).exists(), _encoded_folder),
    }
    for kind, (here, examine) in parts.items():
        if here:
            found.kinds.append(_unfinished(path) if kind == "a model" else kind)
            for problem in examine(path):
                (found.problems if problem else found.without).append(problem or kind)
    if not found.kinds:
        raise BanyanError(f"{path} is no model, training run, index or encoded output" if path.exists() else
                          f"there is no file or folder {path}")  # fmt: skip
    return found


def _unfinished(folder: Path) -> str:
    """A model, or one whose training goes on."""
    try:
        return "an unfinished model" if unfinished_of(folder) else "a model"
    except BanyanError:  # reported with the other problems
        return "a model"


def _model(folder: Path) -> Iterator[str | None]:
    """Yield problems, and None if there are no checksums."""
    if not (folder / checksums.SUMS).exists():
        yield None
    problems = list(checksums.damaged(folder / checksums.SUMS))
    known = checksums.read(folder / checksums.SUMS)
    for name in (SETTINGS, WEIGHTS, TOKENIZER, TAUGHT_BY, ABOUT, HEAD):
        if known and name not in known and (folder / name).exists():
            problems.append(f"{folder / checksums.SUMS} has no checksum of {name}")
    yield from problems
    if not problems:
        yield from _raised(lambda: _used(folder))


def _static(folder: Path) -> Iterator[str | None]:
    if not (folder / checksums.SUMS).exists():
        yield None
    problems = list(checksums.damaged(folder / checksums.SUMS))
    yield from problems or _raised(lambda: export.check_static(folder))


def _used(folder: Path) -> None:
    model = Banyan.from_pretrained(folder)
    model.encode("All kernels run once.")
    if has_classifier(folder):
        Classifier.of(model)


def _run(folder: Path) -> Iterator[str | None]:
    for sums in sorted((folder / "training").rglob(checksums.SUMS)):
        yield from checksums.damaged(sums)
    if (folder / RUN).exists():
        yield from _raised(lambda: checksums.read_sealed(folder / RUN, "--overwrite starts over"))
    if (folder / CHECKPOINT).exists():
        yield from _raised(lambda: _checkpoint(folder))


def _checkpoint(folder: Path) -> None:
    from banyan.classify.learning import read_checkpoint
    from banyan.training import checkpoint

    if "classifier" in files.read_json(folder / RUN):
        read_checkpoint(folder / CHECKPOINT)
    else:
        _metrics(folder / METRICS, checkpoint.verify(folder / CHECKPOINT))


def _metrics(path: Path, progress: Progress) -> None:
    """Raise an error if the metrics are not as they were at the checkpoint. A run may have added to them since."""
    with open(path, "rb") if path.exists() else BytesIO() as file:
        known = hashlib.sha256(file.read(progress.metrics_bytes)).hexdigest()
    if progress.metrics_sha256 not in ("", known):
        raise BanyanError(f"{path} is not as it was written")


def _encoded(path: Path) -> Iterator[str | None]:
    before = Path(f"{path}{checksums.BESIDE}")  # what earlier versions wrote
    if block_sums.beside(path).exists():
        yield from block_sums.damaged(path)
    elif before.exists():
        yield from checksums.damaged(before)
    else:
        yield None


def _encoded_folder(folder: Path) -> Iterator[str | None]:
    from banyan.scale.folder import damaged

    yield from damaged(folder)


def _index(folder: Path, repair: bool) -> Iterator[str | None]:
    from banyan.search import memory
    from banyan.search.index import Index

    if repair and Index.is_lost(folder):
        yield from _raised(lambda: Index.restore(folder))
    if not (folder / checksums.SUMS).exists():
        yield None
    yield from checksums.damaged(folder / checksums.SUMS)
    copies = list(checksums.damaged(folder / memory.FOLDER / checksums.SUMS))
    if copies and repair:
        memory.remove(folder)
    else:
        yield from (f"{problem}; `--repair` makes it anew" for problem in copies)
    yield from _raised(lambda: _read_all(Index.open(folder)))


def _read_all(index: Index) -> None:
    rows = 0
    for ids, vectors in index.rows.vectors():
        rows += len(ids)
        if len(ids) and not abs(vectors).max() <= 1.001:
            raise BanyanError(f"{index.folder}: a vector is not of length 1")
    read = len(index.rows.scan([*index.rows.columns, "text", "source", "row"]))
    if not rows == read == len(index.rows):
        raise BanyanError(f"{index.folder}: {len(index.rows):,} rows are recorded, and {min(rows, read):,} can be read")


def _raised(work: Callable[[], object]) -> Iterator[str]:
    """Do something, and yield the message of the BanyanError that it raises."""
    try:
        work()
    except BanyanError as error:
        yield str(error)
