"""Arguments, input and output that several commands share."""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from banyan.errors import BanyanError

if TYPE_CHECKING:
    from banyan.config import Config, Setting
    from banyan.encoder import Banyan

SOURCES = (
    "a text file or table (also .gz, .xz or .zst), a folder, a glob pattern, hf:NAME[:CONFIG] for a Hugging Face "
    "dataset, or - for standard input"
)
MODEL = "a model folder written by banyan train, or a model name on the Hugging Face Hub"
INDEX = "an index folder written by banyan index"
DEVICE = "cpu, cuda, cuda:1 or auto (default: cpu)"
QUIET = "print errors only"

# --- Arguments -------------------------------------------------------------------------------------------------------


def model_argument(parser: Any) -> None:
    parser.add_argument("model", metavar="MODEL", help=MODEL)


def column_argument(parser: Any) -> None:
    column = "name of the text column in JSON lines, Parquet, CSV or TSV input (default: the only one, or text)"
    parser.add_argument("--column", metavar="NAME", help=column)


def flag(name: str) -> str:
    """The option for a setting."""
    return f"--{name.replace('_', '-')}"


def setting_argument(parser: Any, setting: Setting, help: str | None = None) -> None:
    """Add an option for a setting of Config. Only if it is on the command line, it is among the parsed options."""
    kind = setting.type.split(" ")[0]
    option: dict[str, Any] = {"default": argparse.SUPPRESS, "help": help or setting.help}
    if kind == "bool":
        option["action"] = argparse.BooleanOptionalAction
    else:
        option["type"] = {"int": int, "float": float, "str": str}[kind]
        option["metavar"] = "|".join(setting.choices or ["N" if kind == "int" else "X"])
    parser.add_argument(flag(setting.name), **option)


def kept_arguments(group: Any) -> None:
    """Add the options of a run that can be resumed: what happens to the folder, and when it is saved."""
    group.add_argument("--resume", action="store_true", help="continue an interrupted run")
    group.add_argument("--overwrite", action="store_true", help="replace the model or the run in DIR")
    checkpoint = "time between checkpoints (default: 60)"
    group.add_argument(
        "--checkpoint-every", type=float, default=60.0, dest="checkpoint_seconds", metavar="SECONDS", help=checkpoint
    )


def run_arguments(group: Any) -> None:
    """Add the options of a training run: where it runs, and what it keeps."""
    kept_arguments(group)
    device = "auto, cpu, cuda, cuda:1, mps or xpu (default: auto, a GPU if there is one)"
    group.add_argument("--device", default="auto", metavar="NAME", help=device)
    deterministic = "bit-identical results on a GPU, at some cost in speed (always the case on a CPU)"
    group.add_argument("--deterministic", action="store_true", help=deterministic)
    group.add_argument("--tensorboard", action="store_true", help="also log to TensorBoard, in DIR/tensorboard")
    group.add_argument("--quiet", action="store_true", help=QUIET)


def value_in_words(config: Config, setting: Setting) -> str:
    """The value of a setting, for the help."""
    value = getattr(config, setting.name)
    if value is None:
        return setting.when_none
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)


def compact_arguments(parser: Any) -> None:
    precision = (
        "int8: 1 byte per dimension, compare by cosine; binary: 1 bit per dimension (its sign), packed 8 to a byte, "
        "compare by Hamming distance (default: float32)"
    )
    parser.add_argument("--precision", default="float32", metavar="float32|int8|binary", help=precision)
    truncate = "keep only the first N dimensions (default: all)"
    parser.add_argument("--truncate-dim", type=int, metavar="N", help=truncate)


def format_arguments(parser: Any, formats: list[str]) -> None:
    default = "default: svg or json if FILE has that extension, otherwise text"
    parser.add_argument("--format", choices=formats, metavar="FORMAT", help=f"{', '.join(formats)} ({default})")
    parser.add_argument("-o", "--out", metavar="FILE", help="write to FILE (default: standard output)")


def where_argument(parser: Any) -> None:
    where = 'use only rows that match this SQL condition on source, row or a stored column: "year >= 1900"'
    parser.add_argument("--where", metavar="CONDITION", help=where)


def cluster_arguments(parser: Any) -> None:
    parser.add_argument("index", metavar="INDEX", help=INDEX)
    clusters = "number of clusters (default: grows with the number of rows, up to a few dozen)"
    parser.add_argument("--clusters", type=int, metavar="N", help=clusters)
    where_argument(parser)


def text(argument: str) -> str:
    """Replace bytes that are not UTF-8, which arrive in arguments as lone surrogates."""
    return argument.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def written_text(argument: str) -> str:
    """A text with words. One without has the zero vector and no tree."""
    if not argument.strip():
        raise argparse.ArgumentTypeError("the text is empty: write at least one word")
    return text(argument)


# --- Input and output ------------------------------------------------------------------------------------------------


def load(folder: str, device: str = "cpu") -> Banyan:
    """Load a model and compile its kernels."""
    from banyan.encoder import Banyan

    model = Banyan.from_pretrained(folder, device)
    model.encode("The first call compiles the kernels.")
    return model


def format_of(options: argparse.Namespace) -> str:
    """--format, or the format that the extension of the output file implies."""
    return options.format or {".svg": "svg", ".json": "json"}.get(Path(options.out or "").suffix, "text")


def lines_of_stdin(whole: bool = False) -> Iterator[str]:
    """The lines of standard input, or the whole of it as one text."""
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(encoding="utf-8-sig", errors="replace")
    if whole:
        yield sys.stdin.read()
    else:
        yield from (line.removesuffix("\n") for line in sys.stdin)


def colours() -> bool:
    """Whether to print in colour."""
    return sys.stdout.isatty() and "NO_COLOR" not in os.environ


@contextmanager
def output(path: str | None) -> Iterator[Callable[[str], None]]:
    """Yield a function that prints; with a path, one that writes to a file, which replaces `path` at the end."""
    if path is None:
        yield lambda text: print(text.removesuffix("\n"), flush=True)
        return
    check_plain(path)
    from banyan.support import files

    with files.atomic(path) as temporary:
        file = open(temporary, "w", encoding="utf-8", newline="\n")  # noqa: SIM115  # closed below, where it may fail

        def write(text: str) -> None:
            with files.reported(path):
                print(text.removesuffix("\n"), file=file)

        try:
            yield write
        finally:
            with files.reported(path):
                file.close()


def check_plain(path: str) -> None:
    """Raise an error if no text can be written here, or if the name says that it is compressed."""
    from banyan.corpus.textfile import PACKED

    check_parent(path)
    suffix = Path(path).suffix
    if suffix.lower() in PACKED:
        raise BanyanError(f"{path} would not be compressed: leave {suffix} out of its name")


def check_parent(path: str | Path) -> None:
    if not Path(path).parent.is_dir():
        raise BanyanError(f"cannot write {path}: there is no folder {Path(path).parent}")
