"""Checksums of files, in the format of sha256sum: `sha256sum -c SHA256SUMS` verifies them too."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from banyan.errors import BanyanError
from banyan.support import files

SUMS = "SHA256SUMS"  # the checksums of the files in a folder
_DIGEST = re.compile(r"[0-9a-f]{64}")
BESIDE = ".sha256"  # what the name of a single file gets for its checksum


def digest(path: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def of_text(text: str) -> str:
    """Return the SHA-256 of a text that will be written in UTF-8, in hexadecimal."""
    return hashlib.sha256(text.encode()).hexdigest()


def sealed(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of a JSON file with their checksum among them."""
    return {**values, "checksum": _of_values(values)}


def is_whole(values: Any) -> bool:
    """Return whether values are as they were sealed. (Files of earlier versions have no checksum.)"""
    if not isinstance(values, dict) or not values:
        return True
    *_, last = values.values()
    if "checksum" not in values and isinstance(last, str) and _DIGEST.fullmatch(last):
        return False  # the name of the checksum is damaged itself
    return values.get("checksum", "") in ("", _of_values(values))


def read_sealed(path: Path, advice: str) -> Any:
    """Return the content of a JSON file, or raise a BanyanError if it is not as it was sealed."""
    values = files.read_json(path, advice)
    if not is_whole(values):
        raise BanyanError(f"{path} is not as it was written; {advice}")
    return values


def _of_values(values: Mapping[str, Any]) -> str:
    kept = {name: value for name, value in values.items() if name != "checksum"}
    return of_text(json.dumps(kept, sort_keys=True))


def write(folder: Path, names: Iterable[str], later: Mapping[str, str] | None = None) -> None:
    """Write the checksums of these files of a folder; those that do not exist are left out.

    later: the texts of files that will be written."""
    found = {name: digest(folder / name) for name in names if (folder / name).is_file()}
    found |= {name: of_text(text) for name, text in (later or {}).items()}
    record(folder / SUMS, found)


def record(path: Path, digests: dict[str, str]) -> None:
    files.write_text(path, "".join(f"{found}  {name}\n" for name, found in sorted(digests.items())))


def read(path: Path) -> dict[str, str]:
    """Return the checksums in a file by the name of what they are of; none if it does not exist."""
    if not path.is_file() or path.stat().st_size > files.LARGEST_JSON:
        return {}
    lines = path.read_text(encoding="utf-8", errors="replace").removesuffix("\n").split("\n")
    return {name: found for found, _, name in (line.partition("  ") for line in lines if line)}


def verify(folder: Path, names: Iterable[str]) -> None:
    """Raise an error if one of these small files is not as it was written. A file without a checksum passes.

    Another process may be saving: it removes the checksums first, and writes them last."""
    known = read(folder / SUMS)
    for name in set(names) & set(known):
        path = folder / name
        small = path.is_file() and path.stat().st_size <= files.LARGEST_JSON  # larger ones are refused by their reader
        if small and digest(path) != known[name] and read(folder / SUMS) == known:
            remedy = f"copy it again, or delete {folder / SUMS} if you changed it yourself"
            raise BanyanError(f"{path} is not as it was written: {remedy}")


def damaged(path: Path) -> Iterator[str]:
    """Yield what is wrong with the files whose checksums are in a file."""
    known = read(path)
    if path.exists() and not known:
        yield f"{path} is empty"
    for name, expected in known.items():
        file = path.parent / name
        if not file.is_file():
            yield f"{file} is missing"
        elif digest(file) != expected:
            yield f"{file} is not as it was written"
