"""Read examples from files, data frames and lists."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from banyan.corpus.columns import TableFile
from banyan.corpus.parallel import EMPTY_SIDE, IDENTICAL, on_one_line, two_texts
from banyan.corpus.report import NOT_TEXT, Report
from banyan.errors import BanyanError
from banyan.tuning.examples import Examples, paired_by_label
from banyan.tuning.layout import (
    LABELLED,
    PAIR,
    SCORED,
    TRIPLE,
    Layout,
    Table,
    as_number,
    is_missing,
    recognise,
    with_class_names,
)

NO_SCORE = "without a score"
NO_LABEL = "without a label"
ALONE = "that are repeated or the only text of their label"
_NONE: Mapping[str, Sequence[str]] = {}
_LIKE_LABELS = 5  # a second text that occurs so often on average may be a label


class Read(NamedTuple):
    examples: Examples
    report: Report  # lines are rows, and `kept` counts examples
    note: str  # what to show the user: which columns are read as what


def read_examples(source: Any, columns: Sequence[str] | None = None, labels: bool = False) -> Read:
    """Read pairs, scored pairs, triples with a negative, or texts with labels.

    source: a TSV, CSV, JSON lines or Parquet file, compressed or not; a pandas or polars data frame;
    a datasets.Dataset; a dict of columns; a list of rows [(text, other), ...]; or a tuple of columns (texts, others).
    columns: the names of two texts, and of a score or a negative if there is one; or of a text and a label. Without
    them, columns are recognised by their names (see banyan.tuning.layout) or by what they hold.
    labels: the second column has labels, whatever its name. A text may have a list of them."""
    table = opened(source)
    layout = recognise(table, columns, labels)
    report = Report(files=int(isinstance(table, TableFile)))
    rows = table.rows(layout.places, report, header=layout.header)
    if layout.kind == LABELLED:
        rows = with_class_names(rows, table, layout.places[-1])
    reader = {PAIR: _pairs, SCORED: _scored, TRIPLE: _triples, LABELLED: _labelled}[layout.kind]
    examples = reader(_counted(rows, report), table, report)
    report.kept = len(examples)
    if not report.kept:
        told = f"{report.summary('example')} {layout.note(table)}"
        raise BanyanError(f"there is nothing to tune on in {table.name}: {told}")
    return Read(examples, report, layout.note(table) + _doubt(examples, layout))


Rows = Iterator[tuple[int, tuple[object, ...]]]


def _counted(rows: Rows, report: Report) -> Rows:
    for row in rows:
        report.lines += 1
        yield row


# --- Kinds of examples -----------------------------------------------------------------------------------------------


def _pairs(rows: Rows, table: Table, report: Report) -> Examples:
    first, second, _ = _with_third(rows, report)
    return Examples.of(first, second)


def _triples(rows: Rows, table: Table, report: Report) -> Examples:
    first, second, third = _with_third(_with_one_negative(rows, table), report)
    negative = [on_one_line(value, report) if isinstance(value, str) else "" for value in third]
    return Examples.of(first, second, negative)


def _with_one_negative(rows: Rows, table: Table) -> Rows:
    """The rows, if their negatives are texts or missing."""
    for number, values in rows:
        if not isinstance(values[2], str) and not is_missing(values[2]):
            raise BanyanError(
                f"{table.where(number)}: expected a text as the negative, found {str(values[2])[:40]!r}: write a row "
                "for each of several negatives, or leave them out with --columns (in Python, columns=)"
            )
        yield number, values


def _with_third(rows: Rows, report: Report) -> tuple[list[str], list[str], list[object]]:
    """Return the two texts of each row that are different, and what is in the third column."""
    first, second, third = [], [], []
    for _, values in rows:
        pair = two_texts(values, report)
        if pair and pair[0] == pair[1]:
            report.drop(IDENTICAL)
        elif pair:
            first.append(pair[0])
            second.append(pair[1])
            third.append(values[-1])
    return first, second, third


def _scored(rows: Rows, table: Table, report: Report) -> Examples:
    first, second, score = [], [], []
    for number, values in rows:
        pair = two_texts(values, report)
        if pair and (is_missing(values[2]) or str(values[2]).strip().lower() == "nan"):
            report.drop(NO_SCORE)
        elif pair:
            found = as_number(values[2])
            if found is None:
                raise BanyanError(
                    f"{table.where(number)}: expected a number as the score, found {str(values[2])[:40]!r}; name the "
                    "columns to read with --columns (in Python, columns=)"
                )
            first.append(pair[0])
            second.append(pair[1])
            score.append(found)
    if score and min(score) == max(score):
        raise BanyanError(
            f"every score in {table.name} is {score[0]:g}, so there is nothing to rank: name only the columns of the "
            "two texts with --columns (in Python, columns=)"
        )
    return Examples.of(first, second, score=np.array(score))


def _labelled(rows: Rows, table: Table, report: Report) -> Examples:
    texts, labels, numbers = [], [], {}  # type: ignore[var-annotated]
    for _, (value, label) in rows:
        text = on_one_line(value, report) if isinstance(value, str) else None
        if not text:
            report.drop(NOT_TEXT if text is None else EMPTY_SIDE)
        else:
            several = label if isinstance(label, list | tuple | np.ndarray) else [label]
            own = [str(each) for each in several if not is_missing(each)]
            report.drop(NO_LABEL, not own)
            texts += [text] * len(own)
            labels += [numbers.setdefault(each, len(numbers)) for each in own]
    examples, alone = paired_by_label(texts, np.array(labels, np.int64))
    report.drop(ALONE, alone)
    return examples


def _doubt(examples: Examples, layout: Layout) -> str:
    """Return a sentence if the second column of pairs looks like labels."""
    different = len(set(examples.second))
    if layout.kind != PAIR or len(examples) < _LIKE_LABELS * different:
        return ""
    return (
        f" The second column has only {different:,} different texts in {len(examples):,} rows: if they are labels, "
        "add --labels (in Python, labels=True)."
    )


# --- Sources ---------------------------------------------------------------------------------------------------------


def opened(source: Any, what: str = "pairs of texts") -> Table:
    """A file or columns in memory. what: what the file holds, for error messages."""
    if isinstance(source, str | os.PathLike):
        return TableFile(Path(source), what)
    if hasattr(source, "collect"):
        source = source.collect()  # a lazy frame of polars
    if isinstance(source, Mapping):
        if hasattr(source, "column_names"):
            raise BanyanError(f"the data set has several splits: choose one of {', '.join(map(repr, source))}")
        return _Columns("the columns", source)
    for names, what in ("column_names", "the data set"), ("columns", "the data frame"):
        if hasattr(source, names) and hasattr(source, "__getitem__"):
            columns = {name: source[name] for name in getattr(source, names)}
            return _Columns(what, columns, _class_names(getattr(source, "features", None)))
    return _from_lists(source)


def _class_names(features: Any) -> dict[str, Sequence[str]]:
    """The names of the classes of each column, by the features of a datasets.Dataset: a ClassLabel or a list of it."""
    kinds = {name: getattr(kind, "feature", kind) for name, kind in (features or {}).items()}
    return {name: kind.names for name, kind in kinds.items() if hasattr(kind, "names")}


def _from_lists(source: Any) -> _Columns:
    columns = columns_of(source, (2, 3))
    some = [value for value in columns[-1] if value is not None]
    last = next((value for value in some if not is_missing(value)), some[0] if some else "")
    if isinstance(last, str):
        names = ["first", "second", "negative"][: len(columns)]
    else:
        names = ["text", "label"] if len(columns) == 2 else ["first", "second", "score"]
    return _Columns("the columns" if isinstance(source, tuple) else "the rows", dict(zip(names, columns, strict=True)))


def columns_of(source: Any, widths: Sequence[int]) -> list[list[Any]]:
    """The columns of a list of rows, or of a tuple of columns. widths: how many columns there may be."""
    parts = source if isinstance(source, list | tuple) else ()
    plain = all(hasattr(part, "__len__") and not isinstance(part, str | bytes | Mapping) for part in parts)
    if not parts or not plain:
        raise BanyanError(
            "expected a file, a data frame, a data set, a dict of columns, a list of rows like [(text, other), ...], "
            "or a tuple of columns like (texts, others)"
        )
    sizes = [len(part) for part in parts]
    both = len(parts) in widths and sizes[0] in widths and len(set(sizes)) == 1
    if both and all(type(part) is type(source) for part in parts):
        raise BanyanError(
            f"{len(parts)} {type(source).__name__}s of {sizes[0]} may be rows or columns: write rows as a list of "
            "tuples, and columns as a tuple of lists"
        )
    if isinstance(source, tuple):
        if len(parts) not in widths:
            raise BanyanError(f"a tuple holds columns, {_or(widths)} here, not {len(parts):,}: put rows into a list")
        return [list(part) for part in parts]
    for row, size in enumerate(sizes, 1):
        if size not in widths or size != sizes[0]:
            expected = _or(widths) if size not in widths else f"{sizes[0]}, as in row 1"
            told = f"row {row} of the list has {size:,} values, and expected are {expected}"
            raise BanyanError(f"{told}: put columns into a tuple, such as (texts, others)")
    return [list(column) for column in zip(*parts, strict=True)]


def _or(widths: Sequence[int]) -> str:
    return " or ".join(map(str, widths))


class _Columns:
    """Columns in memory."""

    by_position = False

    def __init__(self, name: str, columns: Mapping[Any, Any], class_names: Mapping[str, Sequence[str]] = _NONE) -> None:
        self.name, self.class_names = name, class_names
        self._columns = {str(key): _listed(values) for key, values in columns.items()}
        self.names = list(self._columns)
        lengths = {key: len(values) for key, values in self._columns.items()}
        if len(set(lengths.values())) > 1:
            listed = ", ".join(f"{key} ({length:,})" for key, length in lengths.items())
            raise BanyanError(f"{name} must be equally long: {listed}")

    def place(self, name: str) -> int:
        if name not in self.names:
            raise BanyanError(f"{self.name}: there is no column {name!r}; the columns are {', '.join(self.names)}")
        return self.names.index(name)

    def rows(self, places: Sequence[int], report: Report, *, header: bool, needed: int = 2) -> Rows:
        return enumerate(zip(*(self._columns[self.names[place]] for place in places), strict=True), 1)

    def where(self, number: int) -> str:
        return f"{self.name}, row {number}"


def _listed(values: Any) -> list[Any]:
    return values.to_pylist() if hasattr(values, "to_pylist") else list(values)  # pyarrow's values are not Python's
