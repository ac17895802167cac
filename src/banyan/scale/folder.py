"""A folder of Parquet in, a folder of Parquet out: what `banyan encode --engine ray` does.

1. Plan: every input file's footer says its row groups, and these make shards.
2. Take up: a part that is there and says that it was made of this shard, by this model, so set, is done.
3. Encode the others, anywhere, in any order.
4. Check: the parts that are there are those of the plan, each with the rows of its shard. Then _banyan.json is written.
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
from banyan.compact import Form
from banyan.encoder import SETTINGS, TOKENIZER, WEIGHTS, Banyan
from banyan.errors import BanyanError
from banyan.report import Report
from banyan.scale import engine
from banyan.scale.shards import Outcome, Run, Shard, shards
from banyan.scale.stores import FINISHED, UNFINISHED, Folder

if TYPE_CHECKING:
    from banyan.display import Display

FOOTERS_AT_ONCE = 16
NAMED = 3  # bad files that an error names
Engine = Callable[[engine.Job, Sequence[Shard], dict[str, bytes]], Iterator[Outcome]]


@dataclass
class Summary:
    out: str
    form: Form
    parts: int
    rows: int
    resumed: int  # rows that an earlier run had done
    blank: int = 0  # of this run: rows without any text, whose embedding is zero
    seconds: float = 0.0
    report: Report = field(default_factory=Report)  # of this run

    def __str__(self) -> str:
        new = self.rows - self.resumed
        text = f"wrote {self.out}: {self.rows:,} rows of {self.form} in {self.parts:,} parts"
        text += f", {self.resumed:,} rows in an earlier run" if self.resumed else ""
        text += f" ({new / max(self.seconds, 1e-9):,.0f} rows/s)" if new else ""
        text += f"; {self.blank:,} without text are zero" if self.blank else ""
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
    precision: str = "float32",
    column: str | None = None,
    resume: bool = False,
    overwrite: bool = False,
    display: Display | None = None,
    work: Engine = engine.outcomes,
) -> Summary:
    """Encode every row of every *.parquet under `folder` into parts under `out` (text, embedding), each row once.

    folder, out: paths, or URLs of fsspec, that all machines can reach.
    normalize, truncate_dim, precision: as in Banyan.encode. column: that holds the text.
    resume: do what an earlier run left undone. overwrite: remove its parts first.
    A file that cannot be read is an error, raised when all others are done.
    """
    whole = Banyan.from_pretrained(model)
    form = Form.of(whole.dim, truncate_dim, precision, normalize)
    content = _content(whole)
    source, target = Folder(str(folder)), Folder(str(out))
    _refuse_each_other(source, target)
    run = Run(_hash(content), __version__, normalize, truncate_dim, precision)
    plan, errors = _plan(source, column)
    done = _take_up(target, plan, run, resume, overwrite)
    left = [shard for shard in plan.values() if shard.part not in done]
    summary = Summary(target.url, form, len(plan), _rows(plan.values()), _rows(plan[part] for part in done))
    if left:
        target.remove(FINISHED)
    job = engine.Job(source.address, target.address, run)
    started = time.monotonic()
    for outcome in _shown(work(job, left, content) if left else iter(()), summary, display):
        if outcome.error:
            errors.append(outcome.error)
        summary.blank += outcome.blank
        _add(summary.report, outcome.report)
    summary.seconds = time.monotonic() - started
    if errors:
        raise BanyanError(f"{_told(errors)}; the rest is done: mend or remove what is named, then --resume")
    _check(target, plan, run)
    _finish(target, plan, run)
    return summary


def _content(model: Banyan) -> dict[str, bytes]:
    """The files of a model, to be sent to workers: their machines may not have its folder."""
    assert model.folder is not None
    return {name: (model.folder / name).read_bytes() for name in (SETTINGS, TOKENIZER, WEIGHTS)}


def _hash(content: dict[str, bytes]) -> str:
    digest = hashlib.sha256()
    for name in sorted(content):
        digest.update(hashlib.sha256(content[name]).digest())
    return digest.hexdigest()


def _refuse_each_other(source: Folder, target: Folder) -> None:
    if source.holds(target) or target.holds(source):
        raise BanyanError(f"{target.url} and {source.url} are one inside the other: write to a folder apart")


def _plan(source: Folder, column: str | None) -> tuple[dict[str, Shard], list[str]]:
    """Part -> shard, in the order of the files and rows; and what is wrong with the files that have none."""
    found = source.parquet_files()
    if not found:
        raise BanyanError(f"there is no .parquet file in the folder {source.url}: --engine ray reads Parquet")

    def of(name: str) -> list[Shard] | str:
        try:
            return shards(source, name, column)
        except BanyanError as error:
            return str(error)

    with ThreadPoolExecutor(FOOTERS_AT_ONCE) as pool:
        planned = list(pool.map(of, found))
    errors = [each for each in planned if isinstance(each, str)]
    if len(errors) == len(planned):
        raise BanyanError(_told(errors))
    return {shard.part: shard for each in planned if not isinstance(each, str) for shard in each}, errors


def _take_up(target: Folder, plan: dict[str, Shard], run: Run, resume: bool, overwrite: bool) -> list[str]:
    """The parts that are done. What is there and does not belong is an error, or with `overwrite` goes."""
    there = _labels(target)
    if there and not resume and not overwrite:
        state = "a finished run" if target.exists(FINISHED) else "an unfinished run"
        raise BanyanError(f"{target.url} holds {state}: --resume does what it lacks, --overwrite starts again")
    foreign = next((name for name, label in there.items() if label is None and name not in plan), None)
    if foreign is not None:
        raise BanyanError(f"{target.name(foreign)} is no part that banyan wrote: write to a folder of its own")
    if overwrite and not resume:
        target.remove(FINISHED)
        for name in there:
            target.remove(name)
        return []
    done = {name: label for name, label in there.items() if label is not None}  # the others were cut short
    for name, label in done.items():
        _refuse_other(target, name, label, plan, run)
    return list(done)


def _refuse_other(
    target: Folder, name: str, label: tuple[dict[str, Any], int], plan: dict[str, Shard], run: Run
) -> None:
    """A part that was made of something else would give rows twice, or rows of two kinds."""
    if name in plan and label == (plan[name].label(run), plan[name].rows):
        return
    wanted, was = dataclasses.asdict(run), label[0].get("run", {})
    changed = [key for key, value in wanted.items() if was.get(key) != value]
    if changed:
        told = ", ".join(key.replace("_", " ") for key in changed)
        raise BanyanError(f"{target.url} cannot be resumed, because of another {told}: --overwrite starts again")
    told = "was made of a file or column that has changed or gone"
    raise BanyanError(f"{target.name(name)} {told}: delete that part and --resume, or --overwrite to start again")


def _labels(target: Folder) -> dict[str, tuple[dict[str, Any], int] | None]:
    with ThreadPoolExecutor(FOOTERS_AT_ONCE) as pool:
        names = target.parquet_files()
        return dict(zip(names, pool.map(target.label, names), strict=True))


def _shown(outcomes: Iterator[Outcome], summary: Summary, display: Display | None) -> Iterator[Outcome]:
    """Behind a bar. Ctrl-C says what is kept."""
    done = summary.resumed
    try:
        if display is None:
            yield from outcomes
            return
        with display.bar("encoding", summary.rows, "rows") as meter:
            meter(done)
            for outcome in outcomes:
                done += outcome.rows
                meter(done, figures={"rows": f"{done:,}"})
                yield outcome
    except KeyboardInterrupt:
        raise KeyboardInterrupt("stopped; the parts that were written are kept: --resume goes on") from None


def _told(errors: list[str]) -> str:
    different = list(dict.fromkeys(errors))
    more = f" (and {len(different) - NAMED:,} more)" if len(different) > NAMED else ""
    return "; ".join(different[:NAMED]) + more


def _check(target: Folder, plan: dict[str, Shard], run: Run) -> None:
    """Each row once: the parts are those of the plan, and each has the rows of its shard."""
    there = _labels(target)
    for name in [*plan, *there]:
        if name not in plan or there.get(name) != (plan[name].label(run), plan[name].rows):
            raise BanyanError(f"{target.name(name)} is not what was written there: did something else write to it?")


def _finish(target: Folder, plan: dict[str, Shard], run: Run) -> None:
    parts = [
        {"part": part, "source": shard.source, "first_row": shard.first_row, "rows": shard.rows}
        for part, shard in plan.items()
    ]
    about = {"run": dataclasses.asdict(run), "rows": _rows(plan.values()), "parts": parts}
    with target.written(FINISHED) as file:
        file.write((json.dumps(about, indent=1) + "\n").encode())
    target.remove(UNFINISHED)


def _rows(shards: Iterable[Shard]) -> int:
    return sum(shard.rows for shard in shards)


def _add(report: Report, more: Report) -> None:
    for reason, count in more.dropped.items():
        report.drop(reason, count)
    for kind, count in more.repaired.items():
        report.repair(kind, count)
