"""Decompress, decode and repair text files, and read them in chunks of lines with bounded memory."""

from __future__ import annotations

import codecs
import gzip
import lzma
import zlib
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from banyan.corpus.report import BAD_BYTES, LONGEST_LINE, MARKS, NULS, UTF16, Report
from banyan.errors import BanyanError, first_line
from banyan.support.needs import needs

LONGEST_RECORD = 1 << 28  # characters in one line of JSON or CSV, which must be held whole
BLOCK = 1 << 18  # bytes read at a time

KINDS = {
    ".txt": "text", ".text": "text", ".md": "text",
    ".jsonl": "json", ".ndjson": "json", ".json": "json",
    ".parquet": "parquet", ".csv": "csv", ".tsv": "tsv",
}  # fmt: skip
PACKED = {".gz": b"\x1f\x8b", ".xz": b"\xfd7zXZ\x00", ".zst": b"\x28\xb5\x2f\xfd"}  # suffix -> magic bytes

Moved = Callable[[int], None]  # called with the number of bytes read from a source


class Chunk(NamedTuple):
    """Text whose lines are separated by "\\n", and what ends with it."""

    text: str
    ends: str  # a "line", a whole "text", or "nothing" if the line continues in the next chunk


def file_kind(path: Path) -> str | None:
    """Return the kind of a file by its suffix, ignoring .gz and the like; None if the suffix is unknown."""
    name = path.name.lower()
    for suffix in PACKED:
        name = name.removesuffix(suffix)
    return KINDS.get(Path(name).suffix)


def read_chunks(path: Path, report: Report, moved: Moved) -> Iterator[Chunk]:
    """Read a text file in chunks of whole lines. Only a very long line is divided."""
    held, first = b"", True
    for block in chain(filter(None, _utf8(path, report, moved)), [b""]):
        held += block
        end = _last_line_end(held) if block else len(held)
        if end:
            text, used = decoded(held[:end], True, report)
        elif len(held) > 4 * LONGEST_LINE:  # bytes; a character has at most four
            text, used = decoded(held.removesuffix(b"\r"), False, report)
        else:
            continue
        nul, held = held.find(b"\0", 0, used) >= 0, held[used:]
        if first:
            _refuse_binary(path, text)
        first = False
        text = clean(lines_apart(text) if end else text, report, nul)
        yield Chunk(text, "line" if end else "nothing")


def long_lines(path: Path, report: Report, moved: Moved) -> Iterator[str]:
    """Yield the lines of a file whole, even those of many millions of characters."""
    return chain.from_iterable(_lists_of_lines(path, report, moved))


def _lists_of_lines(path: Path, report: Report, moved: Moved) -> Iterator[list[str]]:
    parts: list[str] = []
    for chunk in read_chunks(path, report, moved):
        if chunk.ends == "nothing":
            parts.append(chunk.text)
            if sum(map(len, parts)) > LONGEST_RECORD:
                raise BanyanError(f"{path} has a line of more than {LONGEST_RECORD:,} characters: is it damaged?")
            continue
        lines = chunk.text.split("\n")
        lines[0] = "".join([*parts, lines[0]])
        yield lines
        parts = []
    if parts:
        yield ["".join(parts)]


def _last_line_end(held: bytes) -> int:
    """Return the length up to the last line end. A final "\r" may be half of "\r\n", so it does not count."""
    return max(held.rfind(b"\n"), held.rfind(b"\r", 0, len(held) - 1)) + 1


def decoded(data: bytes, final: bool, report: Report) -> tuple[str, int]:
    """Return the text and the number of bytes decoded. Without `final`, an incomplete last character is left over."""
    try:
        return codecs.utf_8_decode(data, "strict", final)
    except UnicodeDecodeError:
        text, used = codecs.utf_8_decode(data, "replace", final)
        report.repair(BAD_BYTES, text.count("\ufffd") - data[:used].count("\ufffd".encode()))
        return text, used


def _refuse_binary(path: Path, text: str) -> None:
    if len(text) >= 512 and text.count("\ufffd") + text.count("\0") > 0.3 * len(text):
        raise BanyanError(f"{path} is not UTF-8 text: convert it first, for example with iconv")


def clean(text: str, report: Report, nul: bool = True) -> str:
    """Replace NUL characters and remove byte order marks.

    nul: False if there is no NUL. To find that out takes long where a character has two bytes."""
    if nul and "\0" in text:
        report.repair(NULS, text.count("\0"))
        text = text.replace("\0", " ")
    if "\ufeff" in text:  # also inside the text, if files with marks were concatenated
        report.repair(MARKS, text.count("\ufeff"))
        text = text.replace("\ufeff", "")
    return text


def lines_apart(text: str) -> str:
    """Put "\n" between lines and none after the last. Only "\n", "\r\n" and "\r" end a line."""
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    return text.removesuffix("\n")


def _utf8(path: Path, report: Report, moved: Moved) -> Iterator[bytes]:
    """Yield the text of a file in UTF-8, converting it from UTF-16 if it has that byte order mark."""
    blocks = (block for block in _blocks(path, moved) if block)
    first = next(blocks, b"")
    # Requires a NUL too: some invalid UTF-8 begins like a mark, and UTF-16 has a NUL in every space and line end.
    if not first.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) or b"\0" not in first:
        return chain([first], blocks)
    report.repair(UTF16)
    return _from_utf16(path, chain([first], blocks))


def _from_utf16(path: Path, blocks: Iterator[bytes]) -> Iterator[bytes]:
    decoder = codecs.getincrementaldecoder("utf-16")()
    try:
        for block in blocks:
            yield decoder.decode(block).encode()
        decoder.decode(b"", final=True)
    except UnicodeDecodeError as error:
        raise BanyanError(f"{path} begins like UTF-16 but is not ({error.reason}): convert it to UTF-8") from None


def _blocks(path: Path, moved: Moved) -> Iterator[bytes]:
    """Yield the decompressed bytes of a file."""
    try:
        with open(path, "rb") as raw:
            for block in _unpacked(path, raw):
                moved(raw.tell())
                yield block
    except (EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile) as error:
        raise damaged(path, error) from None
    except OSError as error:
        raise BanyanError(f"cannot read {path}: {error.strerror}") from None


def packing(path: Path, raw: BinaryIO) -> str | None:
    """Return how a file is compressed, judging by its first bytes."""
    start = raw.read(6)
    raw.seek(0)
    for suffix, magic in PACKED.items():
        if start.startswith(magic):
            return suffix
    if start and path.suffix.lower() in PACKED:
        raise BanyanError(f"{path} is not a {path.suffix.lower()} file, although its name says so")
    return None


def _unpacked(path: Path, raw: BinaryIO) -> Iterator[bytes]:
    suffix = packing(path, raw)
    if suffix == ".zst":
        yield from _unpacked_zst(path, raw)
        return
    opened: Any = {".gz": gzip.open, ".xz": lzma.open, None: nullcontext}[suffix]
    with opened(raw) as stream:
        while block := stream.read(BLOCK):
            yield block


def _unpacked_zst(path: Path, raw: BinaryIO) -> Iterator[bytes]:
    """Decompress frame by frame, because zstandard's stream reader accepts a truncated file without an error."""
    with needs(f"Reading {path}", "data"):
        import zstandard
    frame = None
    try:
        while packed := raw.read(1 << 13):  # little at a time: it may expand ten-thousandfold
            while packed:
                frame = frame or zstandard.ZstdDecompressor(max_window_size=1 << 31).decompressobj()
                yield frame.decompress(packed)
                packed = frame.unused_data
                frame = None if frame.eof else frame
    except zstandard.ZstdError as error:
        raise damaged(path, error) from None
    if frame is not None:
        raise damaged(path, EOFError("the last frame is incomplete"))


def damaged(path: Path, error: Exception) -> BanyanError:
    return BanyanError(f"{path} is damaged or truncated ({first_line(error)}): download or compress it again")
