"""`banyan cluster`."""

from __future__ import annotations

import argparse

from banyan.commands._parser import Parser
from banyan.commands._shared import cluster_arguments

GROUP, ORDER = "search", 3
PURPOSE = "list the clusters and near-duplicates in an index"
DESCRIPTION = "Each cluster is listed with its size, its typical phrases and its most typical texts."
EXAMPLES = (
    "banyan cluster index/",
    "banyan cluster index/ --clusters 20 --alike 0.9 -o rows.csv",
)


def arguments(parser: Parser) -> None:
    cluster_arguments(parser)
    alike = "cosine from which two rows are near-duplicates (default: 0.97)"
    parser.add_argument("--alike", type=float, default=0.97, metavar="X", help=alike)
    parser.add_argument("--json", action="store_true", help="print JSON")
    out = "also write each row with its cluster and near-duplicate group to FILE, ending in .csv or .jsonl"
    parser.add_argument("-o", "--out", metavar="FILE", help=out)


def run(options: argparse.Namespace) -> None:
    from banyan.search import clusters, listing
    from banyan.search.index import Index
    from banyan.support.display import Display

    if options.out:
        listing.check(options.out)
    rows = Index.open(options.index).rows
    with Display().patience("still busy: finding clusters and comparing pairs"):
        found = clusters.overview(rows, options.clusters, options.where, options.alike)
    print(listing.to_json(found, rows) if options.json else listing.to_text(found, rows))
    if options.out:
        listing.write(found, rows, options.out)
