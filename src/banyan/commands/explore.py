"""`banyan explore`."""

from __future__ import annotations

import argparse
import sys

from banyan.commands._parser import Parser
from banyan.commands._shared import INDEX, model_argument
from banyan.support.needs import needs

GROUP, ORDER = "search", 5
PURPOSE = "look at a model and a collection in the browser: search, compare, trees, graphs, maps"
DESCRIPTION = """\
Serves one page on this machine, which loads nothing from elsewhere. Without INDEX, it has trees, graphs and
comparisons only. banyan serve MODEL --index INDEX serves the same page at /, with more options.
See docs/explorer.md."""
EXAMPLES = (
    "banyan explore model/ index/",
    "banyan explore model/",
    "banyan explore model/ index/ --beside tuned/",
    "banyan explore model/ index/ --port 8090 --open",
)


def arguments(parser: Parser) -> None:
    model_argument(parser)
    parser.add_argument("index", nargs="?", metavar="INDEX", help=f"{INDEX} with this model")
    beside = "another model to search the same rows with, side by side; it encodes them when the page starts"
    parser.add_argument("--beside", metavar="MODEL", help=beside)
    parser.add_argument("--port", type=int, default=8090, help="port to listen on; 0 picks a free one (default: 8090)")
    parser.add_argument("--open", action="store_true", help="open the page in the browser")


def run(options: argparse.Namespace) -> None:
    if options.beside and not options.index:
        options.parser.error("--beside needs an INDEX, which both models search")
    with needs("Serving", "serve"):
        from banyan.serve import server

    def ready(address: str) -> None:
        print(f"{address}/ shows the page; Ctrl-C ends it", file=sys.stderr, flush=True)
        if options.open:
            import webbrowser

            webbrowser.open(f"{address}/")

    settings = server.Settings(
        options.model,
        port=options.port,
        index=options.index,
        beside=options.beside,
        only_local=True,
        log_requests=False,
    )
    server.serve(settings, ready)
