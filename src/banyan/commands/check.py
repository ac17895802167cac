"""`banyan check`."""

from __future__ import annotations

import argparse

from banyan.commands._parser import Parser

GROUP, ORDER = "publish", 4
PURPOSE = "verify that a model, training run, index or encoded output is as it was written"
DESCRIPTION = "Verifies checksums and reads everything. Names each damaged file, and exits with code 1 if there is one."
EXAMPLES = ("banyan check model/", "banyan check index/ --repair", "banyan check vectors.npy")


def arguments(parser: Parser) -> None:
    parser.add_argument("path", metavar="PATH", nargs="+", help="folder or file written by banyan")
    repair = "restore a lost or damaged index.json or damaged arrays (memory/) of an index from its rows"
    parser.add_argument("--repair", action="store_true", help=repair)


def run(options: argparse.Namespace) -> None:
    from banyan.checking import check
    from banyan.errors import BanyanError

    found = [check(path, options.repair) for path in options.path]
    print("\n".join(map(str, found)))
    problems = sum(len(each.problems) for each in found)
    if problems:
        raise BanyanError(f"damaged: {problems}")
