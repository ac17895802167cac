"""The columns of an index: which ones are kept, and with which types."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from banyan.corpus.rows import SourceRow
from banyan.errors import BanyanError, first_line
from banyan.search.rows import OWN
from banyan.support.needs import needs

if TYPE_CHECKING:
    import pyarrow

TYPES = ("string", "int", "float", "bool")
_WHOLE = re.compile(r"-?(0|[1-9]\d{0,17})")  # 007 is not a number
_NUMBER = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?([eE][-+]?\d+)?")


def free_name(name: str) -> str:
    """Append an underscore to a name that the index uses for its own columns."""
    return f"{name}_" if name in OWN or name.startswith("_") else name


def with_free_names(row: SourceRow) -> SourceRow:
    return row._replace(columns={free_name(name): value for name, value in row.columns.items()})


class Columns:
    """The columns to keep and their types. A type that the user does not name is inferred from the first rows."""

    def __init__(self, keep: Sequence[str] | None, known: dict[str, pyarrow.DataType]) -> None:
        with needs("An index", "search"):
            import pyarrow
        self._arrow = pyarrow
        self._named = None if keep is None else dict(self._parse(wish) for wish in keep)
        self.kinds = dict(known)

    def _parse(self, wish: str) -> tuple[str, Any]:
        name, colon, kind = wish.partition(":")
        if colon and kind not in TYPES:
            raise BanyanError(f"column {wish}: type {kind!r} is unknown; the types are {', '.join(TYPES)}")
        return free_name(name), self._types()[kind] if colon else None

    def _types(self) -> dict[str, Any]:
        pa = self._arrow
        return {"string": pa.string(), "int": pa.int64(), "float": pa.float64(), "bool": pa.bool_()}

    def infer(self, rows: list[SourceRow], numbers_as_text: bool) -> dict[str, pyarrow.DataType]:
        """Return the columns that first appear in these rows. numbers_as_text: numbers are strings, as in CSV."""
        names = dict.fromkeys(name for row in rows for name in row.columns)
        new = {}
        for name in names:
            if name in self.kinds or (self._named is not None and name not in self._named):
                continue
            values = [value for row in rows if (value := row.columns.get(name)) not in (None, "")]
            named = self._named.get(name) if self._named else None
            if named is not None or values:
                new[name] = named if named is not None else self._inferred(values, numbers_as_text)
        self.kinds |= new
        return new

    def _inferred(self, values: list[Any], numbers_as_text: bool) -> pyarrow.DataType:
        pa, types = self._arrow, self._types()
        if numbers_as_text and all(isinstance(value, str) for value in values):
            for kind, form in (("int", _WHOLE), ("float", _NUMBER)):
                if all(form.fullmatch(value) for value in values):
                    return types[kind]
            return types["string"]
        if all(isinstance(value, int | float) and not isinstance(value, bool) for value in values):
            return types["float" if any(isinstance(value, float) for value in values) else "int"]
        try:
            kind = pa.array(values).type
        except pa.ArrowException:
            return types["string"]
        plain = pa.types.is_boolean(kind) or pa.types.is_temporal(kind)
        return kind if plain else types["string"]

    def arrays(self, rows: list[SourceRow], source: str) -> dict[str, Any]:
        """Return the rows as Arrow arrays, one per column."""
        pa = self._arrow
        own = {
            "text": pa.array([row.text for row in rows], pa.string()),
            "source": pa.array([source] * len(rows), pa.string()),
            "row": pa.array([row.number for row in rows], pa.int64()),
        }
        return own | {name: self._array(name, rows, source) for name in self.kinds}

    def _array(self, name: str, rows: list[SourceRow], source: str) -> Any:
        kind = self.kinds[name]
        values = [self._cast(row.columns.get(name), kind) for row in rows]
        try:
            return self._arrow.array(values, kind)
        except (self._arrow.ArrowException, TypeError, ValueError, OverflowError):
            row, reason = self._misfit(values, kind, rows)
            found = f"holds {row.columns[name]!r}, but earlier rows hold {kind} ({reason})"
            advice = f"index the file again with --keep {name}:string"
            raise BanyanError(f"{source}, row {row.number}: column {name!r} {found}: {advice}") from None

    def _misfit(self, values: list[Any], kind: Any, rows: list[SourceRow]) -> tuple[SourceRow, str]:
        for value, row in zip(values, rows, strict=True):
            try:
                self._arrow.array([value], kind)
            except (self._arrow.ArrowException, TypeError, ValueError, OverflowError) as error:
                return row, first_line(error)
        raise AssertionError("no value is at fault")

    def _cast(self, value: Any, kind: Any) -> Any:
        types = self._arrow.types
        if value is None or (value == "" and not types.is_string(kind)):
            return None
        if types.is_string(kind):
            return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
        if isinstance(value, str):
            if types.is_integer(kind) and _WHOLE.fullmatch(value):
                return int(value)
            if types.is_floating(kind) and _NUMBER.fullmatch(value):
                return float(value)
        return value
