"""`banyan demo`."""

from __future__ import annotations

import argparse

from banyan.commands._parser import Parser

GROUP, ORDER = "train", 5
PURPOSE = "train on the text that comes with Python, then search it by meaning"
MORE = "Nothing is downloaded; it takes two or three minutes."
EXAMPLES = ("banyan demo", "banyan demo --out /tmp/demo-model")


def arguments(parser: Parser) -> None:
    parser.add_argument("--out", default="demo-model", metavar="DIR", help="the model's folder (default: demo-model)")


def run(options: argparse.Namespace) -> None:
    from banyan.demo import run_demo

    run_demo(options.out)
