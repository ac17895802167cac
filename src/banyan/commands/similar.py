"""`banyan similar`."""

from __future__ import annotations

import argparse

from banyan.commands._parser import Parser
from banyan.commands._shared import column_argument, load, model_argument, text

GROUP, ORDER = "encode", 2
PURPOSE = "compare two texts, or search a file for the most similar lines"
MORE = "Similarity is the cosine of the embeddings."
EXAMPLES = (
    'banyan similar model/ "the cat sat" "a dog slept"',
    'banyan similar model/ "how do I reset it" --in questions.txt -k 5',
)


def arguments(parser: Parser) -> None:
    model_argument(parser)
    parser.add_argument("text", nargs="+", type=text, metavar="TEXT", help="two texts; or one, to look for in FILE")
    inside = "print the rows of FILE most similar to TEXT: cosine, row number, text (- for standard input)"
    parser.add_argument("--in", dest="inside", metavar="FILE", help=inside)
    parser.add_argument("-k", type=int, default=10, metavar="N", help="how many of them (default: 10)")
    column_argument(parser)


def run(options: argparse.Namespace) -> None:
    if options.inside is None:
        if len(options.text) != 2:
            options.parser.error(f"two texts are compared, or one is looked for --in FILE; found {len(options.text)}")
        print(f"{load(options.model).similarity(*options.text):.4f}")
        return
    if len(options.text) != 1:
        options.parser.error(f"one text is looked for in {options.inside}; found {len(options.text)}")
    from banyan.encoding import most_similar
    from banyan.svg import visible

    for hit in most_similar(load(options.model), options.text[0], options.inside, options.k, column=options.column):
        print(f"{hit.score:.4f}\t{hit.row}\t{visible(hit.text)}")
