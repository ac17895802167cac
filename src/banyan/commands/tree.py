"""`banyan tree`."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from banyan.commands._parser import Parser
from banyan.commands._shared import (
    format_arguments,
    format_of,
    lines_of_stdin,
    load,
    model_argument,
    output,
    written_text,
)
from banyan.errors import BanyanError

if TYPE_CHECKING:
    from banyan.encoder import Banyan
    from banyan.tree import Tree

GROUP, ORDER = "encode", 3
PURPOSE = "show the tree that a model builds for a sentence"
DESCRIPTION = "Each merge shows the cosine of its two children."
EXAMPLES = (
    'banyan tree model/ "the cat sat on the mat"',
    'banyan tree model/ "the cat sat on the mat" -o tree.svg',
    'banyan tree model/ "the cat sat on the mat" --no-whole-words',
    'banyan tree model/ --brackets "(S (NP the cat) (VP sat))"',
    "banyan tree model/ - --format json < sentences.txt > trees.jsonl",
)
_FORMATS: dict[str, Callable[[Tree], str]] = {
    "text": str,
    "brackets": lambda tree: tree.to_brackets(),
    "json": lambda tree: tree.to_json(),
    "svg": lambda tree: tree.to_svg(),
}


def arguments(parser: Parser) -> None:
    model_argument(parser)
    texts = "a sentence, or - for one sentence per line of standard input"
    parser.add_argument("text", nargs="+", type=written_text, metavar="TEXT", help=texts)
    brackets = "TEXT is a bracketed tree, such as (S (NP the cat) (VP sat)): compose along that tree"
    parser.add_argument("--brackets", action="store_true", help=brackets)
    bare = "TEXT is a bracketed tree without labels, such as ((the cat) sat)"
    parser.add_argument("--bare", action="store_true", help=bare)
    words = "merge the pieces of a word first, so that no phrase cuts through a word (default: as the model encodes)"
    parser.add_argument("--whole-words", action=argparse.BooleanOptionalAction, default=None, help=words)
    format_arguments(parser, list(_FORMATS))


def run(options: argparse.Namespace) -> None:
    model, form = load(options.model), format_of(options)
    trees = _trees(model, options)
    if form == "svg":
        trees = _only(list(trees))
    with output(options.out) as write:
        for number, tree in enumerate(trees):
            write("\n" * (form == "text" and number > 0) + _FORMATS[form](tree))


def _trees(model: Banyan, options: argparse.Namespace) -> Iterator[Tree]:
    for sentence in _texts(options):
        if options.brackets or options.bare:
            yield from model.parse_brackets(sentence, labels=not options.bare)
        else:
            yield model.parse(sentence, options.whole_words)


def _texts(options: argparse.Namespace) -> Iterator[str]:
    """The texts given as arguments, with "-" replaced by standard input."""
    for argument in options.text:
        if argument == "-":
            yield from lines_of_stdin(whole=options.brackets)  # a tree may span several lines
        else:
            yield argument


def _only(trees: list[Tree]) -> Iterator[Tree]:
    if len(trees) != 1:
        raise BanyanError(f"an SVG file holds one tree, not {len(trees)}: pass one sentence")
    return iter(trees)
