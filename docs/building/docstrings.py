"""Our docstrings as the API reference shows them: lines that begin with a parameter's name become a list, a
session becomes a block of code, and a field's comment is what the field is."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import griffe

_PARAMETERS = re.compile(r"^((?:\w+, )*\w+): (?=\S)", re.MULTILINE)

_SESSION = re.compile(r"^>>> .*(?:\n.*\S.*)*", re.MULTILINE)  # up to a blank line


class OurDocstrings(griffe.Extension):
    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.is_attribute and not obj.docstring and obj.lineno:
            assert isinstance(obj.filepath, Path)
            line = obj.lines_collection[obj.filepath][obj.lineno - 1]
            if comment := line.partition("  # ")[2]:
                obj.docstring = griffe.Docstring(comment, parent=obj)
        if obj.docstring:
            obj.docstring.value = _SESSION.sub(r"```pycon\n\g<0>\n```", obj.docstring.value)
            obj.docstring.value = _PARAMETERS.sub(r"\n- `\1`: ", obj.docstring.value)
