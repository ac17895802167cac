"""The texts that a teacher encodes."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path

from banyan.errors import BanyanError


class TextFile:
    """A UTF-8 file with one text per line. It is read line by line, as often as needed, and never held in memory."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._count: int | None = None

    def __len__(self) -> int:
        if self._count is None:
            self._count = sum(1 for _ in self._lines())
        return self._count

    def __iter__(self) -> Iterator[str]:
        for number, line in enumerate(self._lines(), 1):
            try:
                yield line.rstrip(b"\r\n").decode()
            except UnicodeDecodeError as error:
                raise BanyanError(f"{self.path}:{number}: not UTF-8 ({error.reason})") from None

    def _lines(self) -> Iterator[bytes]:
        try:
            with open(self.path, "rb") as file:
                yield from file
        except OSError as error:
            raise BanyanError(f"cannot read {self.path}: {error.strerror}") from None


def fingerprint(texts: Iterable[str], name: str) -> str:
    """A digest of a name and texts. A list and a TextFile of the same texts have the same digest."""
    digest = hashlib.sha256()
    for text in chain([name], texts):
        data = text.encode("utf-8", "surrogatepass")
        digest.update(b"%d\n" % len(data))  # so that no two lists of texts give the same bytes
        digest.update(data)
    return digest.hexdigest()
