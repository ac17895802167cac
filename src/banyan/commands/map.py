"""`banyan map`."""

from __future__ import annotations

import argparse
from pathlib import Path

from banyan.commands._parser import Parser
from banyan.commands._shared import check_parent, cluster_arguments, text

GROUP, ORDER = "search", 4
PURPOSE = "draw an index as a map, in one HTML file"
DESCRIPTION = "Similar texts lie close together. Colours show clusters."
EXAMPLES = (
    "banyan map index/ -o map.html",
    'banyan map index/ -o map.html --where "year >= 1900" --method pca',
)


def arguments(parser: Parser) -> None:
    cluster_arguments(parser)
    parser.add_argument("-o", "--out", required=True, metavar="FILE", help="output file, ending in .html")
    method = "umap preserves neighbourhoods; pca is faster and preserves distances (default: umap)"
    parser.add_argument("--method", default="umap", choices=("umap", "pca"), help=method)
    most = "draw at most N rows, sampled at random (default: 20000)"
    parser.add_argument("--most", type=int, default=20_000, metavar="N", help=most)
    parser.add_argument("--title", type=text, help="page title (default: the name of the index)")


def run(options: argparse.Namespace) -> None:
    from banyan.search.index import Index
    from banyan.search.maps import map_of
    from banyan.support.display import Display
    from banyan.support.files import write_text

    out = Path(options.out)
    if out.suffix not in (".html", ".htm"):
        options.parser.error(f"-o takes a file that ends in .html, not {out.name}")
    check_parent(out)
    if options.most < 2:
        options.parser.error(f"--most must be at least 2, not {options.most}")
    rows = Index.open(options.index).rows
    title = options.title or Path(options.index).resolve().name
    display = Display()
    with display.patience("still busy: placing the texts; 20,000 take up to a minute"):
        page = map_of(rows, title, options.clusters, options.where, options.method, options.most)
    write_text(out, page)
    display.note(f"wrote {out}: open it in a browser")
