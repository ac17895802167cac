"""Tables and sentences in Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any


def table(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    lines = [_line(columns), _line(["---"] * len(columns)), *(_line([cell(value) for value in row]) for row in rows)]
    return "\n".join(lines)


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4g}" if abs(value) < 100 else f"{value:,.1f}"
    if isinstance(value, int):
        return f"{value:,}"
    return str(value).replace("|", "\\|").replace("\n", " ")


def section(title: str, *parts: str) -> str:
    return "\n\n".join([f"## {title}", *(part for part in parts if part)])


def given(content: dict[str, Any], in_short: str = "") -> str:
    """A table that another script wrote: title, columns, rows, notes; perhaps a picture and its command."""
    parts = [f"### {content['title']}", *([in_short] if in_short else [])]
    if content.get("picture"):
        parts.append(f"![{content['title']}]({content['picture']})")
    rows = [[_picture(value, of=row[0]) for value in row] for row in content["rows"]]
    parts.append(table(content["columns"], rows))
    if content.get("notes"):
        parts.append("\n".join(f"- {note}" for note in content["notes"]))
    if content.get("command"):
        parts.append(f"`{content['command']}`")
    return "\n\n".join(parts)


def _picture(value: Any, of: str) -> Any:
    is_picture = isinstance(value, str) and value.endswith((".png", ".svg"))
    return f"![{of}]({value})" if is_picture else value


def between(text: str, marks: tuple[str, str], written: str) -> str:
    """The text with what is between its two marks written anew."""
    begin, end = marks
    before, rest = text.split(begin)
    return f"{before}{begin}{written}{end}{rest.split(end)[1]}"


def listed(names: Sequence[str]) -> str:
    if len(names) < 2:
        return "".join(names)
    return f"{', '.join(names[:-1])} and {names[-1]}"
