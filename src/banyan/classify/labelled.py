"""Labelled: texts, or pairs of texts, with their labels. Reads files, data frames and lists."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from banyan.corpus.parallel import EMPTY_SIDE, names_columns, on_one_line
from banyan.corpus.report import NOT_TEXT, Report
from banyan.errors import BanyanError
from banyan.tuning.layout import (
    LABELS,
    PAIRS,
    SCORES,
    TEXTS,
    Table,
    has_header,
    is_missing,
    name_of,
    with_class_names,
)
from banyan.tuning.reading import NO_LABEL, columns_of, opened

_SAMPLE = 200  # rows that show whether the first line of a file is a header
_TWO = "for two texts and a label, add --pair; in Python, pair=True"
_MARKS = (";", "|", ",")  # that may stand between several labels
_CHOOSE = "name the columns with --columns (in Python, columns=): {wanted}"


@dataclass(frozen=True)
class Labelled:
    """Texts with their labels."""

    columns: tuple[list[str], ...]  # the texts; or the first and the second texts of pairs
    labels: list[tuple[str, ...]]
    several: bool  # a text may have several labels, or none

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def of_pairs(self) -> bool:
        return len(self.columns) == 2

    def classes(self) -> list[str]:
        """The labels in order: numbers by value, before other labels by spelling."""
        return sorted({label for labels in self.labels for label in labels}, key=_by_value)

    def target(self, classes: Sequence[str]) -> np.ndarray:
        """float32 [n, C]: 1 for the labels that a text has."""
        number = {label: c for c, label in enumerate(classes)}
        found = np.zeros((len(self), len(classes)), np.float32)
        for row, labels in enumerate(self.labels):
            for label in labels:
                found[row, number[label]] = 1
        return found


def _by_value(label: str) -> tuple[int, float, str]:
    try:
        return 0, float(label), label
    except ValueError:
        return 1, 0.0, label


def label_of(value: object) -> str:
    """A label as text. 1.0 is 1, because a column of whole numbers with a gap in it holds floats."""
    if isinstance(value, bool | np.bool_):
        return str(bool(value)).lower()
    if isinstance(value, float | np.floating) and float(value).is_integer():
        return str(int(value))
    return " ".join(str(value).split())


def read_labelled(
    source: Any, columns: Sequence[str] | None = None, *, pair: bool = False, separator: str | None = None
) -> tuple[Labelled, Report, str]:
    """Read texts with labels. Also return what was read and dropped, and which columns were read as what.

    source: a TSV, CSV, JSON lines or Parquet file, compressed or not; a pandas or polars data frame; a
    datasets.Dataset; a dict of columns; a list of rows [(text, label), ...]; or a tuple of columns (texts, labels).
        With pair, there are two texts before the label.
    columns: the names of the text (with pair, two texts) and of the label. Without them, columns are recognised by
    their names or by their order.
    separator: what stands between several labels of a text. A list of labels needs none."""
    if separator == "":
        raise BanyanError("the separator of labels is empty: name what stands between them, such as ; or |")
    table = opened(_named(source, pair) if isinstance(source, list | tuple) else source, "labelled texts")
    places, header = _layout(table, columns, pair)
    report = Report(files=int(hasattr(table, "bytes_total")))
    texts: tuple[list[str], ...] = ([], []) if pair else ([],)
    labels: list[tuple[str, ...]] = []
    lists = False
    rows = with_class_names(table.rows(places, report, header=header), table, places[-1])
    for number, values in rows:
        report.lines += 1
        *own, label = values
        lists |= isinstance(label, list | tuple | np.ndarray)
        read = _texts(own, report)
        if read is None:
            continue
        found = _labels(label, separator)
        if found is None:
            report.drop(NO_LABEL)
            continue
        if len(found) > 1 and not (lists or separator):
            raise BanyanError(f"{table.where(number)}: a text has several labels, but the texts before have one")
        for column, text in zip(texts, read, strict=True):
            column.append(text)
        labels.append(found)
    report.kept = len(labels)
    note = _note(table, places, header)
    if not labels:
        raise BanyanError(f"there is nothing to learn from in {table.name}: {report.summary('text')} {note}")
    several = lists or separator is not None
    return Labelled(texts, labels, several), report, note if several else note + _doubt(labels)


def read_pairs(path: str, columns: Sequence[str] | None = None) -> Iterator[tuple[str, str]]:
    """Pairs of texts to classify: the first two named columns, columns with known names, or the first two."""
    table = opened(path, "pairs of texts")
    if columns:
        places, header = tuple(table.place(name) for name in columns[:2]), table.by_position
    else:
        found = _pair_by_name(table)
        places, header = found or (0, 1), found is not None or names_columns(table.names)
    if len(places) < 2 or len(table.names) < 2:
        raise BanyanError(f"{path} has no pairs of texts: two columns are needed")
    report = Report()
    for _, (first, second) in table.rows(places, report, header=header):
        yield on_one_line(str(first or ""), report), on_one_line(str(second or ""), report)


def _texts(values: Sequence[object], report: Report) -> list[str] | None:
    if not all(isinstance(value, str) for value in values):
        report.drop(NOT_TEXT)
        return None
    found = [on_one_line(str(value), report) for value in values]
    if not all(found):
        report.drop(EMPTY_SIDE)
        return None
    return found


def _labels(value: object, separator: str | None) -> tuple[str, ...] | None:
    """The labels in a cell; None if they are missing."""
    if isinstance(value, list | tuple | np.ndarray):
        parts: list[object] = list(value)
    elif is_missing(value):
        return () if separator and value is not None else None
    else:
        parts = list(str(value).split(separator)) if separator else [value]
    return tuple(dict.fromkeys(label_of(part) for part in parts if not is_missing(part)))


def _doubt(labels: Sequence[tuple[str, ...]]) -> str:
    """A sentence if most labels look like several, and these are fewer than the labels that they make up."""
    for mark in _MARKS:
        marked = sum(mark in label for (label,) in labels)
        parts = {part.strip() for (label,) in labels for part in label.split(mark)}
        if 2 * marked > len(labels) and len(parts) < len(set(labels)):
            told = f"if it stands between several labels, add --separator {mark!r} (in Python, separator=)"
            return f" Most labels contain {mark!r}: {told}."
    return ""


def _named(source: Sequence[Any], pair: bool) -> dict[str, Any]:
    names = ("first", "second", "label") if pair else ("text", "label")
    return dict(zip(names, columns_of(source, (2 + pair,)), strict=True))


# --- Columns ---------------------------------------------------------------------------------------------------------


def _layout(table: Table, columns: Sequence[str] | None, pair: bool) -> tuple[tuple[int, ...], bool]:
    """The places of the texts and of the label, and whether the first line names the columns."""
    wanted = "two texts and a label" if pair else "a text and a label"
    if columns is not None:
        names = list(columns)
        if len(names) != 2 + pair or len(set(names)) < len(names):
            more = "" if pair or len(names) != 3 else f" ({_TWO})"
            raise BanyanError(f"expected the names of {wanted}, not {', '.join(names) or 'none'}{more}")
        return tuple(table.place(name) for name in names), table.by_position
    found = _by_name(table, pair)
    if found:
        return found, table.by_position
    if not table.by_position or len(table.names) != 2 + pair:
        held = ", ".join(name[:30] for name in table.names)
        two = "" if pair or not _pair_by_name(table) else f" ({_TWO})"
        raise BanyanError(f"{table.name}: {_CHOOSE.format(wanted=wanted)}{two}; they are {held}")
    places = tuple(range(2 + pair))
    rows = [values for _, values in islice(table.rows(places, Report(), header=False), _SAMPLE)]
    return places, has_header(table, rows) and rows[0][-1] not in [values[-1] for values in rows[1:]]


def _plain(table: Table) -> list[str]:
    return ["".join(character for character in name.lower() if character not in " -_") for name in table.names]


def _pair_by_name(table: Table, label: int | None = None) -> tuple[int, int] | None:
    plain = _plain(table)
    pairs = ((plain.index(first), plain.index(second)) for first, second in PAIRS if {first, second} <= set(plain))
    return next((places for places in pairs if label not in places), None)


def _by_name(table: Table, pair: bool) -> tuple[int, ...] | None:
    plain = _plain(table)

    def among(known: Sequence[str]) -> Iterator[int]:
        return (plain.index(name) for name in known if name in plain)

    label = next(among((*LABELS, *SCORES)), None)
    if label is None:
        return None
    if pair:
        found = _pair_by_name(table, label)
        return None if found is None else (*found, label)
    text = next((place for place in among(TEXTS) if place != label), None)
    return None if text is None else (text, label)


def _note(table: Table, places: Sequence[int], header: bool) -> str:
    *texts, label = (name_of(table, place, header) for place in places)
    others = [name_of(table, place, header) for place in range(len(table.names)) if place not in places]
    ignored = f"; ignored: {', '.join(others)}" if others else ""
    kind = "as the text" if len(texts) == 1 else "as the two texts"
    return f"Reading from {table.name}: {' and '.join(texts)} {kind} and {label} as the label{ignored}."
