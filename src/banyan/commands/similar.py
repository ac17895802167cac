"""`banyan similar`."""

from __future__ import annotations

import argparse

from banyan.commands._parser import Parser
from banyan.commands._shared import column_argument, load, model_argument, written_text

GROUP, ORDER = "encode", 2
PURPOSE = "compare two texts, or find the lines of a file most similar to a text"
DESCRIPTION = "Similarity is the cosine of the two embeddings."
EXAMPLES = (
    'banyan similar model/ "the cat sat" "a dog slept"',
    'banyan similar model/ "how do I reset it" --in questions.txt -k 5',
)


def arguments(parser: Parser) -> None:
    model_argument(parser)
    texts = "two texts to compare, or one to look for in FILE"
    parser.add_argument("text", nargs="+", type=written_text, metavar="TEXT", help=texts)
    inside = "print the rows of FILE most similar to TEXT as cosine, row number and text (- for standard input)"
    parser.add_argument("--in", dest="inside", metavar="FILE", help=inside)
    parser.add_argument("-k", type=int, default=10, metavar="N", help="number of rows to print (default: 10)")
    column_argument(parser)


def run(options: argparse.Namespace) -> None:
    if options.inside is None:
        if len(options.text) != 2:
            options.parser.error(f"pass two texts, or one text and --in FILE; got {len(options.text)}")
        print(f"{load(options.model).similarity(*options.text):.4f}")
        return
    if len(options.text) != 1:
        options.parser.error(f"--in takes one text; got {len(options.text)}")
    from banyan.encoding import most_similar
    from banyan.support.drawing import visible

    for hit in most_similar(load(options.model), options.text[0], options.inside, options.k, column=options.column):
        print(f"{hit.score:.4f}\t{hit.row}\t{visible(hit.text)}")
