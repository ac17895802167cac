"""`banyan cluster`."""

from __future__ import annotations

import argparse

from banyan.commands._parser import Parser
from banyan.commands._shared import cluster_arguments

GROUP, ORDER = "search", 3
PURPOSE = "tell what is in an index: clusters with typical phrases, near-duplicates"
MORE = ""
EXAMPLES = (
    "banyan cluster index/",
    "banyan cluster index/ --clusters 20 --alike 0.9 -o rows.csv",
)


def arguments(parser: Parser) -> None:
    cluster_arguments(parser)
    alike = "rows of at least this cosine are near-duplicates (default: 0.97)"
    parser.add_argument("--alike", type=float, default=0.97, metavar="X", help=alike)
    parser.add_argument("--json", action="store_true", help="the same for programs")
    out = "also write every row with its cluster and its group of near-duplicates to FILE.csv or FILE.jsonl"
    parser.add_argument("-o", "--out", metavar="FILE", help=out)


def run(options: argparse.Namespace) -> None:
    from banyan.display import Display
    from banyan.search import clusters, listing
    from banyan.search.index import Index

    if options.out:
        listing.check(options.out)
    rows = Index.open(options.index).rows
    with Display().patience("still busy: finding clusters and comparing pairs"):
        found = clusters.overview(rows, options.clusters, options.where, options.alike)
    print(listing.to_json(found, rows) if options.json else listing.to_text(found, rows))
    if options.out:
        listing.write(found, rows, options.out)
