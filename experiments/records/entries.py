"""Tables as JSON: one file for each script, one entry for each table that it measured."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from banyan.support.files import write_text


def read(path: Path) -> dict[str, Any]:
    """The entries by name; none if there is no such file."""
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}


def keep(path: Path, key: str, entry: dict[str, Any]) -> None:
    """Add or replace one entry and print it. The other entries stay."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, json.dumps({**read(path), key: entry}, indent=1, ensure_ascii=False) + "\n")
    print(f"{key}: {entry['title']}")
    for row in [entry["columns"], *entry["rows"]]:
        print("  " + " | ".join("" if value is None else str(value) for value in row))
