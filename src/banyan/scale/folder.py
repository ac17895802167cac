"""Encodes a folder of Parquet files into another one: `banyan encode --engine ray`.

1. Plan: read the footer of every input file and divide its row groups into shards.
2. Resume: keep parts that an earlier run made from the same shard with the same model and settings.
3. Encode the other shards, on any machine, in any order.
4. Check that the output has exactly the parts of the plan, each with the rows of its shard; then write _banyan.json.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from banyan._version import __version__
from banyan.compact import Form, Precision
from banyan.corpus.report import Report
from banyan.encoder import SETTINGS, TOKENIZER, WEIGHTS, Banyan
from banyan.errors import BanyanError
from banyan.scale import engine
from banyan.scale.shards import GROUP_ROWS, EncodingSettings, ParquetShard, ShardResult, shards
from banyan.scale.stores import FINISHED, UNFINISHED, Folder
from banyan.support import checksums

if TYPE_CHECKING:
    from banyan.support.display import Display

FOOTERS_AT_ONCE = 16  # read in parallel
NAMED = 3  # errors that a message lists
Engine = Callable[[engine.EncodingJob, Sequence[ParquetShard], dict[str, bytes]], Iterator[ShardResult]]
ShardPlan = dict[str, ParquetShard]  # part -> shard, in the order of the files and rows
Label = tuple[dict[str, Any], int]  # what a part was made from, and its number of rows


@dataclass
class FolderSummary:
    out: str
    form: Form
    parts: int
    rows: int
    resumed: int  # rows that an earlier run wrote
    blank: int = 0  # rows of this run without text, whose embedding is zero
    seconds: float = 0.0
    report: Report = field(default_factory=Report)  # of this run

    def __str__(self) -> str:
        new = self.rows - self.resumed
        text = f"wrote {self.out}: {self.rows:,} rows of {self.form} in {self.parts:,} parts"
        text += f", {self.resumed:,} rows from an earlier run" if self.resumed else ""
        text += f" ({new / max(self.seconds, 1e-9):,.0f} rows/s)" if new else ""
        text += f"; {self.blank:,} rows without text have zero embeddings" if self.blank else ""
        for what, counts in (("not text", self.report.dropped), ("repaired", self.report.repaired)):
            text += f"; {what}: " + ", ".join(f"{n:,} {kind}" for kind, n in counts.items()) if counts else ""
        return text


def encode_folder(
    model: str | Path,
    folder: str,
    out: str,
    *,
    normalize: bool = False,
    truncate_dim: int | None = None,
    precision: Precision = "float32",
    column: str | None = None,
    resume: bool = False,
    overwrite: bool = False,
    display: Display | None = None,
    work: Engine = engine.encode_shards,
) -> FolderSummary:
    """Encode every row of every *.parquet file under `folder`, and write parts (text, embedding) under `out`.

    folder, out: paths or fsspec URLs that all machines can reach.
    normalize, truncate_dim, precision: as in Banyan.encode.
    column: the column that holds the text.
    resume: encode only what an earlier run left out.
    overwrite: remove the parts of an earlier run first.
    work: encodes the shards; with Ray unless given.

    If a file cannot be read, the others are encoded first and the error is raised at the end.
    """
    loaded = Banyan.from_pretrained(model)
    form = Form.of(loaded.dim, truncate_dim, precision, normalize)
    content = _content(loaded)
    source, target = Folder(str(folder)), Folder(str(out))
    _refuse_nested(source, target)
    settings = EncodingSettings(_hash(content), __version__, normalize, truncate_dim, precision)
    plan, errors = _plan(source, column)
    done = _finished_parts(target, plan, settings, resume, overwrite)
    left = [shard for shard in plan.values() if shard.part not in done]
    summary = FolderSummary(target.url, form, len(plan), _rows(plan.values()), _rows(plan[part] for part in done))
    if left:
        target.remove(FINISHED)
    job = engine.EncodingJob(source.address, target.address, settings)
    started = time.monotonic()
    for result in _shown(work(job, left, content) if left else iter(()), summary, display):
        if result.error:
            errors.append(result.error)
        summary.blank += result.blank
        _add(summary.report, result.report)
    summary.seconds = time.monotonic() - started
    if errors:
        raise BanyanError(f"{_joined(errors)}; all other files are encoded: repair or remove these, then use --resume")
    _check(target, plan, settings)
    _finish(target, plan, settings)
    return summary


def _content(model: Banyan) -> dict[str, bytes]:
    """The files of a model, name -> content. They are sent to the workers, which may not see its folder."""
    assert model.folder is not None
    return {name: (model.folder / name).read_bytes() for name in (SETTINGS, TOKENIZER, WEIGHTS)}


def _hash(content: dict[str, bytes]) -> str:
    digest = hashlib.sha256()
    for name in sorted(content):
        digest.update(hashlib.sha256(content[name]).digest())
    return digest.hexdigest()


def _refuse_nested(source: Folder, target: Folder) -> None:
    if source.holds(target) or target.holds(source):
        raise BanyanError(f"one of {target.url} and {source.url} contains the other: write to a separate folder")


def _plan(source: Folder, column: str | None) -> tuple[ShardPlan, list[str]]:
    """The plan, and an error for each file that cannot be read."""
    found = source.parquet_files()
    if not found:
        raise BanyanError(f"there is no .parquet file in the folder {source.url}: --engine ray reads only Parquet")

    def of(name: str) -> list[ParquetShard] | str:
        try:
            return shards(source, name, column)
        except BanyanError as error:
            return str(error)

    with ThreadPoolExecutor(FOOTERS_AT_ONCE) as pool:
        planned = list(pool.map(of, found))
    errors = [each for each in planned if isinstance(each, str)]
    if len(errors) == len(planned):
        raise BanyanError(_joined(errors))
    return {shard.part: shard for each in planned if not isinstance(each, str) for shard in each}, errors


def _finished_parts(
    target: Folder, plan: ShardPlan, settings: EncodingSettings, resume: bool, overwrite: bool
) -> list[str]:
    """The parts that need not be encoded again. With `overwrite`, remove all parts."""
    existing = _labels(target)
    if existing and not resume and not overwrite:
        state = "a finished run" if target.exists(FINISHED) else "an unfinished run"
        raise BanyanError(f"{target.url} holds {state}: --resume completes it, --overwrite starts again")
    foreign = next((name for name, label in existing.items() if label is None and name not in plan), None)
    if foreign is not None:
        raise BanyanError(f"{target.name(foreign)} was not written by banyan: write to an empty folder")
    if overwrite and not resume:
        target.remove(FINISHED)
        for name in existing:
            target.remove(name)
        return []
    done = {name: label for name, label in existing.items() if label is not None}  # None: truncated
    for name, label in done.items():
        _refuse_other(target, name, label, plan, settings)
    return list(done)


def _refuse_other(target: Folder, name: str, label: Label, plan: ShardPlan, settings: EncodingSettings) -> None:
    """Refuse a part that was made from something else: its rows would be duplicates or of another model."""
    if name in plan and label == (plan[name].label(settings), plan[name].rows):
        return
    wanted, was = dataclasses.asdict(settings), label[0].get("run", {})
    changed = [key for key, value in wanted.items() if was.get(key) != value]
    if changed:
        names = ", ".join(key.replace("_", " ") for key in changed)
        raise BanyanError(f"cannot resume {target.url}: it was written with a different {names}; use --overwrite")
    reason = "was made from a file or column that has changed or is gone"
    raise BanyanError(f"{target.name(name)} {reason}: delete this part and use --resume, or use --overwrite")


def _labels(target: Folder) -> dict[str, Label | None]:
    with ThreadPoolExecutor(FOOTERS_AT_ONCE) as pool:
        names = target.parquet_files()
        return dict(zip(names, pool.map(target.label, names), strict=True))


def _shown(
    results: Iterator[ShardResult], summary: FolderSummary, display: Display | None
) -> Iterator[ShardResult]:
    """Show a progress bar. On Ctrl-C, say what is kept."""
    done = summary.resumed
    try:
        if display is None:
            yield from results
            return
        with display.bar("encoding", summary.rows, "rows") as meter:
            meter(done)
            for result in results:
                done += result.rows
                meter(done, figures={"rows": f"{done:,}"})
                yield result
    except KeyboardInterrupt:
        raise KeyboardInterrupt("stopped; finished parts are kept: continue with --resume") from None


def _joined(errors: list[str]) -> str:
    different = list(dict.fromkeys(errors))
    more = f" (and {len(different) - NAMED:,} more)" if len(different) > NAMED else ""
    return "; ".join(different[:NAMED]) + more


def _check(target: Folder, plan: ShardPlan, settings: EncodingSettings) -> None:
    """Check that each row was written once: the parts are those of the plan, and each has the rows of its shard."""
    existing = _labels(target)
    for name in [*plan, *existing]:
        if name not in plan or existing.get(name) != (plan[name].label(settings), plan[name].rows):
            raise BanyanError(f"{target.name(name)} is not what was written: did another program write to the folder?")


def _finish(target: Folder, plan: ShardPlan, settings: EncodingSettings) -> None:
    with ThreadPoolExecutor(FOOTERS_AT_ONCE) as pool:
        footers = list(pool.map(target.footer, plan))
    parts = [
        {"part": part, "source": shard.source, "first_row": shard.first_row, "rows": shard.rows, "footer": footer}
        for (part, shard), footer in zip(plan.items(), footers, strict=True)
    ]
    about = {"run": dataclasses.asdict(settings), "rows": _rows(plan.values()), "parts": parts}
    with target.written(FINISHED) as file:
        file.write((json.dumps(checksums.sealed(about), indent=1) + "\n").encode())
    target.remove(UNFINISHED)


def damaged(folder: Path) -> Iterator[str]:
    """Yield what is wrong with the output of a finished run. Reads every row; the pages of each part have checksums."""
    target = Folder(str(folder))
    try:
        parts = checksums.read_sealed(folder / FINISHED, "encode again with --resume")["parts"]
    except (BanyanError, KeyError, TypeError) as error:
        yield str(error) if isinstance(error, BanyanError) else f"{folder / FINISHED} does not name its parts"
        return
    for part in parts:
        name = target.name(part["part"])
        if not target.exists(part["part"]):
            yield f"{name} is missing"
        elif not _as_written(target, part):
            yield f"{name} is not as it was written"


def _as_written(target: Folder, part: dict[str, Any]) -> bool:
    rows = 0
    try:
        if target.footer(part["part"]) != part.get("footer", target.footer(part["part"])):
            return False
        with target.parquet(part["part"], verified=True) as table:
            for batch in table.iter_batches(GROUP_ROWS):
                rows += len(batch)
    except (BanyanError, OSError, ValueError):
        return False
    return rows == part["rows"]


def _rows(shards: Iterable[ParquetShard]) -> int:
    return sum(shard.rows for shard in shards)


def _add(report: Report, more: Report) -> None:
    for reason, count in more.dropped.items():
        report.drop(reason, count)
    for kind, count in more.repaired.items():
        report.repair(kind, count)
