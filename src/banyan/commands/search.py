"""`banyan search`."""

from __future__ import annotations

import argparse
import json
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from banyan.commands._parser import Parser
from banyan.commands._shared import INDEX, colours, load, text, where_argument
from banyan.errors import BanyanError

if TYPE_CHECKING:
    from banyan.search.index import Index
    from banyan.search.searching import Hit, Searcher

GROUP, ORDER = "search", 2
PURPOSE = "search an index by meaning, by words or by both"
DESCRIPTION = "Asterisks (on a terminal, colour) mark the words that make a result similar to the query."
EXAMPLES = (
    'banyan search index/ "how the railway came to Wales"',
    "banyan search index/",
    'banyan search index/ "rail" --where "year >= 1900" --by words --json',
)


def arguments(parser: Parser) -> None:
    parser.add_argument("index", metavar="INDEX", help=INDEX)
    query = "text to search for (default: prompt for queries)"
    parser.add_argument("query", nargs="?", type=text, metavar="QUERY", help=query)
    parser.add_argument("-k", type=int, default=10, metavar="N", help="number of results (default: 10)")
    where_argument(parser)
    by = "rank by cosine (vectors), by BM25 (words) or by the mean of both scores (default: both)"
    parser.add_argument("--by", default="both", choices=("both", "vectors", "words"), help=by)
    exact = "compare the query with every vector, even in a large index"
    parser.add_argument("--exact", action="store_true", help=exact)
    model = "model folder or Hub name, if it has moved since the index was built"
    parser.add_argument("--model", metavar="MODEL", help=model)
    parser.add_argument("--json", action="store_true", help="print one JSON object per result")


def run(options: argparse.Namespace) -> None:
    from banyan.search.index import Index

    store = Index.open(options.index)
    searcher = _searcher(store, options.model)
    if options.query is None:
        _prompt(searcher, options)
    else:
        _show(searcher, options.query, options)


def _searcher(store: Index, moved: str | None) -> Searcher:
    from banyan.integrations import hub
    from banyan.search.searching import searcher_of

    path = moved or store.record.model.path
    if not (Path(path).is_dir() or hub.is_name(path)):
        raise BanyanError(f"the model of {store.folder} is not in {path}: pass its folder or Hub name with --model")
    return searcher_of(store, load(path), path)


def _show(searcher: Searcher, query: str, options: argparse.Namespace) -> None:
    hits = searcher.search(query, options.k, where=options.where, by=options.by, exact=options.exact)
    for number, hit in enumerate(hits, 1):
        print(_as_json(hit) if options.json else _as_text(number, hit))
    if not hits and not options.json:
        print("no results", file=sys.stderr)


def _as_json(hit: Hit) -> str:
    values: dict[str, Any] = {"score": hit.score, "cosine": hit.cosine, "bm25": hit.words}
    found = [[highlight.start, highlight.end, round(highlight.weight, 4)] for highlight in hit.highlights]
    values |= {"source": hit.source, "row": hit.row, "text": hit.text, "columns": hit.columns, "highlights": found}
    return json.dumps(values, ensure_ascii=False, default=str)


def _as_text(number: int, hit: Hit) -> str:
    from banyan.search.highlight import marked
    from banyan.support.drawing import shorten, visible

    before, after, grey, plain = ("\x1b[1;33m", "\x1b[0m", "\x1b[2m", "\x1b[0m") if colours() else ("*", "*", "", "")
    one_line = "".join(" " if character.isspace() else character for character in hit.text)
    shown = visible(marked(one_line, hit.highlights, "\ue000", "\ue001"))  # private use, so in no text
    shown = shown.replace("\ue000", before).replace("\ue001", after)
    columns = "".join(f"  {name}={shorten(visible(str(value)), 40)}" for name, value in hit.columns.items())
    words = "" if hit.words is None else f"  words {hit.words:.1f}"
    where = visible(f"{Path(hit.source).name}:{hit.row}")
    return f"{number:3}. {shown}\n     {grey}{where}  cosine {hit.cosine:.3f}{words}{columns}{plain}"


_HELP = """Type a query, or:
  :where CONDITION         search only rows that match; :where alone removes the condition
  :k N                     set the number of results
  :by both|vectors|words   set the ranking
  :q                       quit (or Ctrl-D)"""


def _prompt(searcher: Searcher, options: argparse.Namespace) -> None:
    with suppress(ImportError):
        import readline  # noqa: F401  line editing and history, where available
    asking = sys.stdin.isatty()
    if asking:
        print(f"{len(searcher.index.rows):,} rows. {_HELP}", file=sys.stderr)
    while True:
        try:
            line = input("banyan> " if asking else "").strip()
        except EOFError:
            return
        if line in (":q", ":quit"):
            return
        try:
            if line.startswith(":"):
                _setting(line[1:], options)
            elif line:
                _show(searcher, text(line), options)
                print(flush=True)
        except BanyanError as error:
            print(f"banyan: {error}", file=sys.stderr)


def _setting(line: str, options: argparse.Namespace) -> None:
    name, _, value = line.partition(" ")
    if name == "where":
        options.where = value.strip() or None
    elif name == "k" and value.strip().isdecimal():
        options.k = int(value)
    elif name == "by" and value.strip() in ("both", "vectors", "words"):
        options.by = value.strip()
    else:
        print(_HELP, file=sys.stderr)
