"""Names such as learn_on_batch, numpy.linalg and SampleBatch, which are searched by their parts, too."""

from __future__ import annotations

import re

_JOINED = re.compile(r"[^\W_][._]+[^\W_]|[a-z][A-Z]")
_NAME = re.compile(r"[\w.]+")
_BREAK = re.compile(r"_+|\.+(?!\d)|(?<!\d)\.+|(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")  # 3.14 is whole


def with_parts(text: str) -> str:
    """Return the text with the parts of each compound name after it. Abbreviations such as U.S. have no parts."""
    return _NAME.sub(_expanded, text) if _JOINED.search(text) else text


def _expanded(found: re.Match[str]) -> str:
    name = found[0]
    parts = [part for part in _BREAK.split(name) if part]
    return f"{name} {' '.join(parts)}" if len(parts) > 1 and max(map(len, parts)) > 1 else name
