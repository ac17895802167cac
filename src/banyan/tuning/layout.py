"""Layout: which columns of a table hold the texts that belong together, their score, negative or label."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import NamedTuple, Protocol

import numpy as np

from banyan.corpus.parallel import names_columns
from banyan.corpus.report import Report
from banyan.errors import BanyanError

# Names of columns, in lower case without spaces, hyphens and underscores. The first that are found are used.
PAIRS = (
    ("anchor", "positive"), ("query", "document"), ("query", "passage"), ("query", "positive"), ("query", "answer"),
    ("question", "answer"), ("question1", "question2"), ("sentence1", "sentence2"), ("sent1", "sent2"),
    ("text1", "text2"), ("sentencea", "sentenceb"), ("texta", "textb"), ("first", "second"), ("prompt", "response"),
    ("title", "body"), ("title", "abstract"), ("title", "description"), ("title", "text"), ("ticket", "duplicate"),
    ("source", "target"), ("src", "tgt"),
)  # fmt: skip
NEGATIVES = ("negative", "neg", "hardnegative")
SCORES = ("score", "similarity", "similarityscore", "relevance", "isduplicate", "label")
TEXTS = ("text", "sentence", "content", "document", "review", "utterance")
LABELS = ("label", "labels", "class", "category", "topic", "intent", "target")

_KNOWN = frozenset({*(name for pair in PAIRS for name in pair), *NEGATIVES, *SCORES, *TEXTS, *LABELS})

PAIR, SCORED, TRIPLE, LABELLED = "pair", "scored pair", "triple", "text with a label"
_SAMPLE = 50  # rows that show which columns hold numbers


class Table(Protocol):
    """What TableFile has, and columns in memory."""

    name: str
    names: list[str]
    class_names: Mapping[str, Sequence[str]]  # of columns whose numbers stand for classes

    @property
    def by_position(self) -> bool: ...

    def place(self, name: str) -> int: ...

    def rows(
        self, places: Sequence[int], report: Report, *, header: bool, needed: int = 2
    ) -> Iterator[tuple[int, tuple[object, ...]]]: ...

    def where(self, number: int) -> str: ...


class Layout(NamedTuple):
    kind: str  # PAIR, SCORED, TRIPLE or LABELLED
    places: tuple[int, ...]  # of the two texts and the score or the negative; or of the text and the label
    header: bool  # whether the first line names the columns

    def note(self, table: Table) -> str:
        """Return a sentence to show the user: which columns are read as what."""
        first, second, *third = (self._name(table, place) for place in self.places)
        if self.kind == LABELLED:
            read = f"{first} as the text and {second} as its label: texts with the same label belong together"
        else:
            read = f"{first} and {second} as texts that belong together"
        if self.kind == SCORED:
            read = f"{first} and {second} as texts and {third[0]} as the score of how well they match"
        elif self.kind == TRIPLE:
            read += f", and {third[0]} as a text that does not belong to the first"
        others = [self._name(table, place) for place in range(len(table.names)) if place not in self.places]
        ignored = f"; ignored: {', '.join(others)}" if others else ""
        row = "" if self.header or not table.by_position else ", whose first line is read as an example"
        return f"Reading from {table.name}{row}: {read}{ignored}."

    def _name(self, table: Table, place: int) -> str:
        return name_of(table, place, self.header)


def name_of(table: Table, place: int, header: bool) -> str:
    """The name of a column, or its number if it has none. header: whether the first line names the columns."""
    named = header or not table.by_position
    return (named and table.names[place]) or f"column {place + 1}"


def recognise(table: Table, columns: Sequence[str] | None = None, labels: bool = False) -> Layout:
    """Return the layout by the names that the user gives, by the names of the columns, or by what they hold.

    labels: the second column has labels, whatever its name."""
    places = range(len(table.names))
    rows = [row for _, row in islice(table.rows(places, Report(), header=False, needed=0), _SAMPLE + 1)]
    if columns is not None:
        return _as_asked(table, columns, rows[table.by_position :], labels)
    found = _by_name(table)
    if found and (found.kind == LABELLED or not labels):
        return found
    header = table.by_position and has_header(table, rows)
    if labels:
        if len(table.names) != 2:
            raise BanyanError(
                f"{table.name} has {len(table.names)} columns: name the text and its label with --columns (in Python, "
                "columns=)"
            )
        return Layout(LABELLED, (0, 1), header)
    return _by_content(table, rows, header)


def has_header(table: Table, rows: Sequence[Sequence[object]]) -> bool:
    """Whether the first line of a TSV or CSV file names its columns: a cell is a known name, or a word over numbers.

    rows: the first ones, with the first line."""
    if names_columns(table.names) or not _KNOWN.isdisjoint(map(_plain, table.names)):
        return True
    places = range(len(table.names))
    return any(_are_numbers(rows[1:], place) and not _are_numbers(rows[:1], place) for place in places)


def _as_asked(table: Table, columns: Sequence[str], rows: Sequence[Sequence[object]], labels: bool) -> Layout:
    names = [columns] if isinstance(columns, str) else list(columns)
    if labels and len(set(names)) != 2:
        raise BanyanError(f"expected the names of a text and its label, not {', '.join(names) or 'none'}")
    if len(names) not in (2, 3) or len(set(names)) < len(names):
        raise BanyanError(
            f"expected the names of two or three different columns, not {', '.join(names) or 'none'}: two texts, with "
            "a score or a negative if there is one, or a text and a label"
        )
    places = tuple(table.place(name) for name in names)
    numbers = _are_numbers(rows, places[-1])
    if len(names) == 3:
        return Layout(SCORED if numbers else TRIPLE, places, table.by_position)
    labels = labels or numbers or _plain(names[1]) in LABELS
    return Layout(LABELLED if labels else PAIR, places, table.by_position)


def _by_name(table: Table) -> Layout | None:
    places = {_plain(name): place for place, name in reversed(list(enumerate(table.names)))}

    def among(known: Sequence[str]) -> int | None:
        return next((places[name] for name in known if name in places), None)

    text, label = among(TEXTS), among(LABELS)
    for first, second in PAIRS:
        if first not in places or second not in places:
            continue
        pair = places[first], places[second]
        if first == "title" and label is not None:
            raise BanyanError(
                f"{table.name} has columns that belong together and a label ({', '.join(table.names)}): choose two "
                "with --columns (in Python, columns=)"
            )
        negative, score = among(NEGATIVES), among(SCORES)
        if negative is not None:
            return Layout(TRIPLE, (*pair, negative), True)
        return Layout(PAIR, pair, True) if score is None else Layout(SCORED, (*pair, score), True)
    return None if text is None or label is None else Layout(LABELLED, (text, label), True)


def _by_content(table: Table, rows: Sequence[Sequence[object]], header: bool) -> Layout:
    rows = rows[header:]
    width = len(table.names)
    texts = [place for place in range(width) if _are_texts(rows, place)]
    if width == 2 and texts == [0] and _are_numbers(rows, 1):
        return Layout(LABELLED, (0, 1), header)
    if width == 3 and texts == [0, 1] and _are_numbers(rows, 2):
        return Layout(SCORED, (0, 1, 2), header)
    if len(texts) == 2 or (table.by_position and not header and len(texts) > 2):
        return Layout(PAIR, (texts[0], texts[1]), header)
    if table.by_position and width == 1:
        raise BanyanError(
            f"{table.name} has one column: columns are separated by commas in a .csv file and by tabs in a .tsv file"
        )
    columns = ", ".join(name[:30] for name in table.names)
    held = "the first line reads" if table.by_position and not header else "its columns are"
    raise BanyanError(
        f"{table.name} has {len(texts)} column{'s' * (len(texts) != 1)} of text: choose two texts that belong together "
        f"with --columns (in Python, columns=), or a text and a label; {held} {columns}"
    )


def _plain(name: str) -> str:
    return "".join(character for character in name.lower() if character not in " -_")


def _are_numbers(rows: Sequence[Sequence[object]], place: int) -> bool:
    values = [row[place] for row in rows if not is_missing(row[place])]
    return bool(values) and all(as_number(value) is not None for value in values)


def _are_texts(rows: Sequence[Sequence[object]], place: int) -> bool:
    values = [row[place] for row in rows if not is_missing(row[place])]
    return all(isinstance(value, str) for value in values) and bool(values) and not _are_numbers(rows, place)


def with_class_names(
    rows: Iterable[tuple[int, tuple[object, ...]]], table: Table, place: int
) -> Iterator[tuple[int, tuple[object, ...]]]:
    """The rows, whose last value is a label: the name of a class if the column at this place has numbers of them."""
    names = table.class_names.get(table.names[place])
    for number, (*others, label) in rows:
        yield number, (*others, label if names is None else _class_name(label, names))


def _class_name(label: object, names: Sequence[str]) -> object:
    if isinstance(label, list | tuple | np.ndarray):
        return [_class_name(each, names) for each in label]
    if isinstance(label, int | np.integer):
        return names[int(label)] if label >= 0 else None  # -1 in test sets without labels
    return label


def is_missing(value: object) -> bool:
    """Whether a value is None, blank, or one of the missing values of pandas, NaN and NA."""
    if isinstance(value, str):
        return not value.strip()
    if isinstance(value, float | np.floating):
        return bool(np.isnan(value))
    return value is None or type(value).__name__ == "NAType"


def as_number(value: object) -> float | None:
    """Return a finite number, or None."""
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) else None
