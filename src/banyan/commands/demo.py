"""`banyan demo`."""

from __future__ import annotations

import argparse

from banyan.commands._parser import Parser

GROUP, ORDER = "train", 5
PURPOSE = "train on the documentation that comes with Python and search it by meaning"
DESCRIPTION = "Downloads nothing and takes about a minute on two cores."
EXAMPLES = ("banyan demo", "banyan demo --out /tmp/demo-model")


def arguments(parser: Parser) -> None:
    out = "folder to write the model to (default: demo-model)"
    parser.add_argument("--out", default="demo-model", metavar="DIR", help=out)


def run(options: argparse.Namespace) -> None:
    from banyan.demo import run_demo

    run_demo(options.out)
