"""Checksums of the blocks of a large file. CRC-32 takes a tenth of the time of SHA-256, and blocks say where damage is.

A CRC-32 finds every flipped bit and every run of up to 32 wrong bits. Of other damage to a block, it misses one case in
four billion. It is no protection against forgery.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from banyan.errors import BanyanError
from banyan.native import kernels
from banyan.support import checksums, files

BLOCK = 1 << 23  # bytes
FORM = "CRC-32 of every 8 MiB"  # recorded with the checksums


def crc32(data: memoryview, before: int = 0) -> int:
    """zlib.crc32, but faster where the native kernels can."""
    fold = getattr(kernels(), "fold", None)
    most = len(data) // 64 * 64
    if fold is None or not most:
        return zlib.crc32(data, before)
    return zlib.crc32(fold(data[:most], before) + data[most:], 0xFFFFFFFF)


class BlockSums:
    """The checksums of bytes that arrive in parts of any size."""

    def __init__(self) -> None:
        self.size = 0
        self._sums: list[int] = []

    def add(self, data: bytes | memoryview) -> None:
        rest = memoryview(data)
        while len(rest):
            if self.size % BLOCK == 0:
                self._sums.append(0)
            room = BLOCK - self.size % BLOCK
            self._sums[-1] = crc32(rest[:room], self._sums[-1])
            self.size += len(rest[:room])
            rest = rest[room:]

    def read_first(self, path: Path) -> None:
        """Read the first block of a file again, which has changed."""
        with open(path, "rb") as file:
            if data := file.read(BLOCK):
                self._sums[0] = crc32(memoryview(data))

    def values(self) -> dict[str, Any]:
        return {"form": FORM, "bytes": self.size, "blocks": [f"{crc:08x}" for crc in self._sums]}


def of_file(path: Path) -> BlockSums:
    sums = BlockSums()
    with open(path, "rb") as file:
        while data := file.read(1 << 20):
            sums.add(data)
    return sums


def beside(path: Path) -> Path:
    """Return where the checksums of a file are."""
    return Path(f"{path}.crc32")


def record(path: Path, sums: BlockSums) -> None:
    """Write the checksums of a file beside it."""
    files.write_text(beside(path), json.dumps(checksums.sealed(sums.values()), indent=1) + "\n")


def damaged(path: Path) -> Iterator[str]:
    """Yield what is wrong with a file, or with the checksums beside it."""
    try:
        known = checksums.read_sealed(beside(path), "without it, nothing can be verified")
        if not isinstance(known, dict) or known.get("form") != FORM:
            raise BanyanError(f"{beside(path)} is of another version of banyan: verify it with that one")
    except BanyanError as error:
        yield str(error)
        return
    found = of_file(path).values()
    if found["bytes"] != known.get("bytes"):
        yield f"{path} is not as it was written: it has {found['bytes']:,} bytes now"
    elif found["blocks"] != known.get("blocks"):
        yield f"{path} is not as it was written{_where(found['blocks'], known.get('blocks'))}"


def _where(found: list[str], known: object) -> str:
    then = known if isinstance(known, list) else []
    wrong = [i for i, (a, b) in enumerate(zip(found, then, strict=False)) if a != b]
    return f": something between bytes {wrong[0] * BLOCK:,} and {(wrong[-1] + 1) * BLOCK:,} changed" if wrong else ""
