"""`banyan encode`."""

from __future__ import annotations

import argparse
from typing import Any

from banyan.commands._parser import Parser
from banyan.commands._shared import DEVICE, QUIET, SOURCES, column_argument, compact_arguments, load, model_argument
from banyan.errors import BanyanError
from banyan.support.needs import needs

GROUP, ORDER = "encode", 1
PURPOSE = "encode each line of a file as a vector"
DESCRIPTION = "Row i of OUT is line i of INPUT (or row i of a table). An empty line gives a zero vector."
EXAMPLES = (
    "banyan encode model/ sentences.txt -o vectors.npy",
    "banyan encode model/ rows.parquet --column title -o out.parquet --normalize",
    "banyan encode model/ sentences.txt -o small.npy --precision int8 --truncate-dim 128",
    "zcat big.txt.gz | banyan encode model/ - -o vectors.jsonl",
)


def arguments(parser: Parser) -> None:
    model_argument(parser)
    parser.add_argument("input", nargs="+", metavar="INPUT", help=SOURCES)
    parser.add_argument("-o", "--out", required=True, help="output file, ending in .npy, .parquet or .jsonl")
    parser.add_argument("--normalize", action="store_true", help="scale each vector to length 1")
    compact_arguments(parser)
    column_argument(parser)
    parser.add_argument("--device", default="cpu", help=DEVICE)
    resume = "continue an interrupted run; pipe the same text again for -"
    parser.add_argument("--resume", action="store_true", help=resume)
    overwrite = "replace OUT and the partial output of an interrupted run"
    parser.add_argument("--overwrite", action="store_true", help=overwrite)
    engine = (
        "ray: read a folder (or URL) of Parquet files and write OUT as another, on the Ray cluster at RAY_ADDRESS or, "
        "if that is not set, on this machine; see docs/scaling.md (default: local)"
    )
    parser.add_argument("--engine", choices=["local", "ray"], default="local", help=engine)
    parser.add_argument("--quiet", action="store_true", help=QUIET)


def run(options: argparse.Namespace) -> None:
    from banyan import compact
    from banyan.encoding import encode_file
    from banyan.support.display import Display

    compact.check(options.truncate_dim, options.precision, options.normalize)
    names = ("normalize", "truncate_dim", "precision", "column", "resume", "overwrite")
    given = {name: getattr(options, name) for name in names}
    display = Display(options.quiet)
    if options.engine == "ray":
        display.note(_with_ray(options, display=display, **given))
    else:
        model = load(options.model, options.device)
        display.note(str(encode_file(model, options.input, options.out, display=display, **given)))


def _with_ray(options: argparse.Namespace, **given: Any) -> str:
    if len(options.input) != 1:
        raise BanyanError(f"--engine ray takes one folder of Parquet files, not {len(options.input)} inputs")
    if options.device != "cpu":
        raise BanyanError(f"--engine ray runs on CPUs only: remove --device {options.device}")
    with needs("--engine ray", "scale"):
        import ray  # noqa: F401  # fail before any planning

        from banyan.scale.folder import encode_folder
    return str(encode_folder(options.model, options.input[0], options.out, **given))
