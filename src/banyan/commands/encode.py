"""`banyan encode`."""

from __future__ import annotations

import argparse
from typing import Any

from banyan.commands._parser import Parser
from banyan.commands._shared import DEVICE, QUIET, SOURCES, column_argument, compact_arguments, load, model_argument
from banyan.errors import BanyanError
from banyan.support.needs import needs

GROUP, ORDER = "encode", 1
PURPOSE = "turn every line of a file into an embedding"
MORE = "Row i of OUT is line i of INPUT (or row i of a table); an empty line gives zeros."
EXAMPLES = (
    "banyan encode model/ sentences.txt -o vectors.npy",
    "banyan encode model/ rows.parquet --column title -o out.parquet --normalize",
    "banyan encode model/ sentences.txt -o small.npy --precision int8 --truncate-dim 128",
    "zcat big.txt.gz | banyan encode model/ - -o vectors.jsonl",
)


def arguments(parser: Parser) -> None:
    model_argument(parser)
    parser.add_argument("input", nargs="+", metavar="INPUT", help=SOURCES)
    parser.add_argument("-o", "--out", required=True, help="a file whose name ends in .npy, .parquet or .jsonl")
    parser.add_argument("--normalize", action="store_true", help="give every embedding length 1")
    compact_arguments(parser)
    column_argument(parser)
    parser.add_argument("--device", default="cpu", help=DEVICE)
    parser.add_argument("--resume", action="store_true", help="go on with a killed run; pipe the same text again for -")
    parser.add_argument("--overwrite", action="store_true", help="replace OUT, and what a killed run left of it")
    engine = (
        "ray: INPUT and OUT are folders of Parquet files, or URLs of such; the Ray cluster at RAY_ADDRESS does the "
        "work, or this machine if none is named: docs/scaling.md (default: local)"
    )
    parser.add_argument("--engine", choices=["local", "ray"], default="local", help=engine)
    parser.add_argument("--quiet", action="store_true", help=QUIET)


def run(options: argparse.Namespace) -> None:
    from banyan import compact
    from banyan.display import Display
    from banyan.encoding import encode_file

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
        raise BanyanError(f"--engine ray encodes on CPUs, not on {options.device}: leave --device out")
    with needs("--engine ray", "scale"):
        import ray  # noqa: F401  # before anything is planned

        from banyan.scale.folder import encode_folder
    return str(encode_folder(options.model, options.input[0], options.out, **given))
