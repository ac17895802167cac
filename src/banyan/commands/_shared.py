"""Arguments that several commands take, texts in, results out."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from banyan.errors import BanyanError

if TYPE_CHECKING:
    import argparse

    from banyan.encoder import Banyan

SOURCES = "a file (plain, .gz, .xz, .zst), a folder, a glob, hf:name[:config], or - for standard input"
MODEL = "a folder that banyan train wrote"
DEVICE = "cpu, cuda, cuda:1 or auto (default: cpu)"
QUIET = "show errors only"

# --- Arguments -------------------------------------------------------------------------------------------------------


def model_argument(parser: Any) -> None:
    parser.add_argument("model", metavar="MODEL", help=MODEL)


def column_argument(parser: Any) -> None:
    column = "the column of JSON lines, Parquet, CSV or TSV that holds text"
    parser.add_argument("--column", metavar="NAME", help=column)


def compact_arguments(parser: Any) -> None:
    precision = (
        "int8: a byte for each dimension, to be compared by cosine; binary: a bit for each (is it above 0?), eight to "
        "a byte, to be compared by Hamming distance (default: float32, four bytes)"
    )
    parser.add_argument("--precision", default="float32", metavar="float32|int8|binary", help=precision)
    truncate = "keep the first N dimensions only (default: all)"
    parser.add_argument("--truncate-dim", type=int, metavar="N", help=truncate)


def format_arguments(parser: Any, formats: list[str]) -> None:
    default = "default: text, or svg or json if the name of FILE ends so"
    parser.add_argument("--format", choices=formats, metavar="FORMAT", help=f"{', '.join(formats)} ({default})")
    parser.add_argument("-o", "--out", metavar="FILE", help="write to FILE (default: standard output)")


def where_argument(parser: Any) -> None:
    where = 'only rows that meet this condition, SQL on source, row and the columns of tables: "year >= 1900"'
    parser.add_argument("--where", metavar="CONDITION", help=where)


def cluster_arguments(parser: Any) -> None:
    parser.add_argument("index", metavar="INDEX", help="a folder that banyan index wrote")
    clusters = "how many (default: a few dozen at most, the more rows the more)"
    parser.add_argument("--clusters", type=int, metavar="N", help=clusters)
    where_argument(parser)


def text(argument: str) -> str:
    """A text from the command line, where bytes that are not UTF-8 arrive as lone surrogates."""
    return argument.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


# --- Input and output ------------------------------------------------------------------------------------------------


def load(folder: str, device: str = "cpu") -> Banyan:
    """A model that is ready: its kernels are compiled."""
    from banyan.display import COMPILING, Display
    from banyan.encoder import Banyan

    with Display().patience(COMPILING):
        model = Banyan.from_pretrained(folder, device)
        model.encode("The first text of all may have to wait.")
    return model


def format_of(options: argparse.Namespace) -> str:
    """--format, or else the format that the name of the output file implies."""
    return options.format or {".svg": "svg", ".json": "json"}.get(Path(options.out or "").suffix, "text")


def lines_of_stdin(whole: bool = False) -> Iterator[str]:
    """The lines of standard input, or all of it as one text."""
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(encoding="utf-8-sig", errors="replace")
    if whole:
        yield sys.stdin.read()
    else:
        yield from (line.removesuffix("\n") for line in sys.stdin)


def colours() -> bool:
    """Whether results printed on standard output may be in colour."""
    return sys.stdout.isatty() and "NO_COLOR" not in os.environ


@contextmanager
def output(path: str | None) -> Iterator[Callable[[str], None]]:
    """A function that prints, or that collects text for a file, which is written whole at the end."""
    if path is None:
        yield lambda text: print(text.removesuffix("\n"), flush=True)
        return
    check_parent(path)
    from banyan.files import write_text

    written: list[str] = []
    yield written.append
    write_text(path, "".join(text.removesuffix("\n") + "\n" for text in written))


def check_parent(path: str | Path) -> None:
    if not Path(path).parent.is_dir():
        raise BanyanError(f"there is no folder {Path(path).parent} to write {Path(path).name} to")
