"""Report: counts of what was read, kept, dropped and repaired. Nothing is dropped silently."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any

LONGEST_LINE = 1 << 20  # characters; a longer line is split like running text

EMPTY = "empty"
NOT_TEXT = "that are not text"
BAD_BYTES = "invalid UTF-8 sequences replaced by U+FFFD"
NULS = "NUL characters replaced by spaces"
MARKS = "byte order marks removed"
UTF16 = "files decoded from UTF-16"
SURROGATES = "lone surrogates replaced by U+FFFD"
ENDLESS = f"lines of over {LONGEST_LINE:,} characters split into sentences"
CUTS = "overlong sentences cut at white space"


@dataclass
class Report:
    """What was read, kept, dropped and repaired. A row of a table counts as the lines of its text."""

    files: int = 0
    empty_files: int = 0
    skipped_files: int = 0  # files in folders whose suffix is unknown
    lines: int = 0
    kept: int = 0  # sentences
    dropped: dict[str, int] = field(default_factory=dict)  # reason -> lines or sentences
    repaired: dict[str, int] = field(default_factory=dict)  # kind -> times

    def drop(self, reason: str, count: int = 1) -> None:
        if count:
            self.dropped[reason] = self.dropped.get(reason, 0) + count

    def repair(self, kind: str, count: int = 1) -> None:
        if count:
            self.repaired[kind] = self.repaired.get(kind, 0) + count

    def summary(self, what: str = "sentence") -> str:
        """Return a sentence or two to show the user. what: what was kept, in the singular."""
        source = f" from {_many(self.files, 'file')}" if self.files else ""
        parts = [f"{_many(self.lines, 'line')} read{source}"]
        parts.append(f"{_many(self.kept, what)} kept")
        if self.dropped:
            parts.append(f"{sum(self.dropped.values()):,} dropped ({_list(self.dropped)})")
        text = ", ".join(parts) + "."
        if self.repaired:
            text += f" {self.repairs()}"
        aside = {"empty": self.empty_files, "skipped because their suffix is unknown": self.skipped_files}
        if any(aside.values()):
            text += f" Files: {_list({what: count for what, count in aside.items() if count})}."
        return text

    def repairs(self) -> str:
        """Return a sentence or two to show the user; nothing if nothing was repaired."""
        text = f"Repaired: {_list(self.repaired)}." if self.repaired else ""
        if BAD_BYTES in self.repaired:
            text += " If the text has another encoding, convert it first: iconv -f latin1 -t utf-8."
        return text

    def to_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Report:
        return cls(**values)


def _many(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'s' * (count != 1)}"


def _list(counts: dict[str, int]) -> str:
    return ", ".join(f"{count:,} {what}" for what, count in counts.items())
