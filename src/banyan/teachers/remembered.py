"""A teacher whose description is kept beside its vectors, so that finished vectors need no teacher."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from banyan.support import files
from banyan.teachers.teacher import Teacher, about


class Remembered:
    """A teacher that is opened at once, or, if the record says that it encoded texts before, when it is needed.

    record: a file. It is written before the first vectors can be, so it exists wherever there are vectors.
    source: identifies the teacher. A record of another one is ignored.
    """

    def __init__(self, record: Path, source: str, open_it: Callable[[], Teacher]) -> None:
        self._record, self._source, self._open = record, source, open_it
        self._teacher: Teacher | None = None
        self._told = recorded(record, source)
        self._written = False
        self.name: str = self._told["name"] if self._told else self._opened().name

    def encode(self, texts: list[str]) -> np.ndarray:
        vectors = self._opened().encode(texts)
        if not self._written:  # an endpoint's width is known only now
            self._told = {"source": self._source, "name": self.name, "about": about(self._opened())}
            self._record.parent.mkdir(parents=True, exist_ok=True)
            files.write_text(self._record, json.dumps(self._told, indent=2, ensure_ascii=False) + "\n")
            self._written = True
        return vectors

    def about(self) -> dict[str, Any]:
        """What about(teacher) says."""
        return self._told["about"] if self._told else about(self._opened())

    def _opened(self) -> Teacher:
        self._teacher = self._teacher or self._open()
        return self._teacher


def recorded(record: Path, source: str) -> dict[str, Any] | None:
    """What the record says about this teacher: its name, and what about() says. None if there is no such record."""
    try:
        found = json.loads(record.read_text(encoding="utf-8"))
        return found if found["source"] == source and {"name", "about"} <= found.keys() else None
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None
