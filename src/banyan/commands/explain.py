"""`banyan explain`."""

from __future__ import annotations

import argparse

from banyan.commands._parser import Parser
from banyan.commands._shared import colours, format_arguments, format_of, load, model_argument, output, written_text

GROUP, ORDER = "encode", 4
PURPOSE = "show which words make two texts similar"
DESCRIPTION = """\
Each cell of the table is what one pair of pieces (subwords) contributes to the cosine of A and B. With the trees and
the vector lengths held fixed, the cells sum to the cosine exactly."""
EXAMPLES = (
    'banyan explain model/ "the cat sat" "a dog slept"',
    'banyan explain model/ "the cat sat" "a dog slept" -o why.svg',
)


def arguments(parser: Parser) -> None:
    model_argument(parser)
    parser.add_argument("a", type=written_text, metavar="A", help="first text")
    parser.add_argument("b", type=written_text, metavar="B", help="second text")
    format_arguments(parser, ["text", "json", "svg"])


def run(options: argparse.Namespace) -> None:
    form = format_of(options)
    explanation = load(options.model).explain(options.a, options.b)
    with output(options.out) as write:
        if form == "text":
            write(explanation.to_text(color=options.out is None and colours()))
        else:
            write(explanation.to_svg() if form == "svg" else explanation.to_json())
