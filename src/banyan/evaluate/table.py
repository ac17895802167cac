"""Results as a table: plain text for the terminal, Markdown, and JSON."""

from __future__ import annotations

import io
import itertools
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from banyan._version import __version__
from banyan.errors import BanyanError
from banyan.evaluate.outcome import Interval, mean
from banyan.evaluate.suites import Result
from banyan.support.files import write_text

ENDINGS = (".json", ".md")


class Figure(NamedTuple):
    value: float
    low: float  # of the 95% interval
    high: float


class Line(NamedTuple):
    group: str
    task: str
    metric: str
    n: int
    figure: Figure | None  # None: not measured; the note gives the reason
    note: str
    against: Figure | None = None
    difference: Figure | None = None  # the first model minus the second, with a paired interval


class ResultTable(NamedTuple):
    model: str
    against: str | None
    lines: list[Line]

    @property
    def notes(self) -> list[str]:
        return [f"{line.task}: {line.note}" for line in _first_of_each_task(self.lines) if line.note]


def tabulate(
    model: str, rows: Sequence[Result], against: str | None = None, others: Sequence[Result] = ()
) -> ResultTable:
    """Make a table. others: the results of a second model, `against`, for the same tasks in the same order."""
    lines: list[Line] = []
    both = list(zip(rows, others if against is not None else [None] * len(rows), strict=True))
    for _, group in itertools.groupby(both, key=lambda pair: pair[0].group):
        of_group = list(group)
        lines += [_line(row, other) for row, other in of_group]
        lines += _mean_line(of_group)
    return ResultTable(model, against, lines)


def _line(row: Result, other: Result | None) -> Line:
    ours, theirs = row.outcome, other and other.outcome
    if ours is None:
        return Line(row.group, row.task, "", 0, None, row.note)
    line = Line(row.group, row.task, ours.metric, ours.n, _figure(ours.value, ours.interval()), row.note)
    if theirs is None:
        return line
    return line._replace(
        against=_figure(theirs.value, theirs.interval()), difference=_figure(*ours.difference(theirs))
    )


def _mean_line(rows: Sequence[tuple[Result, Result | None]]) -> list[Line]:
    """Return the mean over a group, if it has several sets and all have the same metric."""
    ours = [row.outcome for row, _ in rows if row.outcome]
    theirs = [other.outcome for _, other in rows if other and other.outcome]
    if len(ours) < 2 or len({outcome.metric for outcome in ours}) > 1:
        return []
    sets = f"{len(ours)} sets" if len(ours) == len(rows) else f"{len(ours)} of {len(rows)} sets"
    n = sum(outcome.n for outcome in ours)
    line = Line(rows[0][0].group, f"mean of {sets}", ours[0].metric, n, _figure(*mean(ours)), "")
    if not theirs:
        return [line]
    differences = [a.minus(b) for a, b in zip(ours, theirs, strict=True)]
    return [line._replace(against=_figure(*mean(theirs)), difference=_figure(*mean(differences)))]


def _figure(value: float, interval: Interval) -> Figure:
    return Figure(value, interval.low, interval.high)


def _first_of_each_task(lines: Sequence[Line]) -> Iterator[Line]:
    return (next(same) for _, same in itertools.groupby(lines, key=lambda line: (line.group, line.task)))


# --- Formats ---------------------------------------------------------------------------------------------------------


def to_text(table: ResultTable, width: int = 120) -> str:
    header, *cells = _cells(table)
    sections = [list(rows) for _, rows in itertools.groupby(cells, key=lambda row: row[0])]
    return drawn(header, sections, _RIGHT, width, table.notes)


def drawn(
    header: Sequence[str], sections: Sequence[Sequence[Sequence[str]]], right: Sequence[bool], width: int,
    notes: Sequence[str] = (),
) -> str:  # fmt: skip
    """Draw sections of rows for a terminal. right: the columns that are right-aligned. notes: lines below."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    grid = Table(box=box.SIMPLE_HEAD)
    for name, at_right in zip(header, right, strict=False):
        grid.add_column(name, justify="right" if at_right else "left", overflow="fold")
    for rows in sections:
        for row in rows:
            grid.add_row(*row)
        grid.add_section()
    console = Console(file=io.StringIO(), width=width, color_system=None, markup=False, highlight=False, emoji=False)
    console.print(grid)
    for note in notes:
        console.print(note, soft_wrap=True)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def to_markdown(table: ResultTable) -> str:
    header, *cells = _cells(table)
    notes = [f"- {_escaped(note)}" for note in table.notes]
    footer = f"95% intervals by bootstrap over the items of each set; measured by banyan {__version__}."
    return "\n".join([*in_markdown(header, cells, _RIGHT), "", *notes, *([""] if notes else []), footer, ""])


def in_markdown(header: Sequence[str], cells: Sequence[Sequence[str]], right: Sequence[bool]) -> list[str]:
    """Return the lines of a Markdown table."""
    rule = [" ---: " if at_right else " --- " for at_right in right[: len(header)]]
    rows = [f"| {' | '.join(map(_escaped, row))} |" for row in [header, *cells]]
    return [rows[0], f"|{'|'.join(rule)}|", *rows[1:]]


def to_json(table: ResultTable) -> str:
    results = [_as_dict(line) for line in table.lines]
    content = {"banyan_version": __version__, "model": table.model, "against": table.against, "results": results}
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


def check_names(paths: Sequence[str | Path]) -> None:
    """Check, before any work is done, that results can be written to these files."""
    for path in map(Path, paths):
        if path.suffix not in ENDINGS:
            raise BanyanError(f"cannot write results to {path}: its name must end in {' or '.join(ENDINGS)}")
        if not path.parent.is_dir():
            raise BanyanError(f"there is no folder {path.parent} to write {path.name} to")


def write(table: ResultTable, path: str | Path) -> None:
    """Write JSON or Markdown, depending on the suffix."""
    check_names([path])
    write_text(path, to_json(table) if Path(path).suffix == ".json" else to_markdown(table))


_RIGHT = (False, False, False, True, True, True, True, True, True, True)  # columns of numbers are right-aligned


def _cells(table: ResultTable) -> list[list[str]]:
    header = ["group", "task", "metric", "n", table.model, "95% interval"]
    if table.against is not None:
        header += [table.against, "95% interval", "difference", "95% interval"]
    return [header, *(_row(line, table.against is not None) for line in table.lines)]


def _row(line: Line, two: bool) -> list[str]:
    n = f"{line.n:,}" if line.figure else ""
    value = _shown(line.figure) if line.figure else ["not measured", ""]
    others = [*_shown(line.against), *_shown(line.difference, sign="+")] if two else []
    return [line.group, line.task, line.metric, n, *value, *others]


def _shown(figure: Figure | None, sign: str = "") -> list[str]:
    if figure is None:
        return ["", ""]
    return [f"{figure.value:{sign}.1f}", f"{figure.low:{sign}.1f} to {figure.high:{sign}.1f}"]


def _escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _as_dict(line: Line) -> dict[str, Any]:
    """Return group, task, metric, n, value, low and high; for two models also against and difference; and any note."""
    if line.figure is None:
        return {"group": line.group, "task": line.task, "value": None, "note": line.note}
    found = {"group": line.group, "task": line.task, "metric": line.metric, "n": line.n, **line.figure._asdict()}
    for name in ("against", "difference"):
        if figure := getattr(line, name):
            found[name] = figure._asdict()
    return {**found, "note": line.note} if line.note else found
