"""The commands `banyan index`, `search`, `cluster` and `map`. Nothing heavy is imported before one of them runs."""

from __future__ import annotations

import argparse
import json
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from banyan.errors import BanyanError

if TYPE_CHECKING:
    from banyan.encoder import Banyan
    from banyan.search.index import Index
    from banyan.search.searching import Hit, Searcher

_SOURCES = "a file (plain, .gz, .xz, .zst), a folder, a glob, hf:name[:config], or - for standard input"
_WHERE = "only rows that meet this condition, SQL on source, row and the columns of tables: \"year >= 1900\""


# --- banyan index ----------------------------------------------------------------------------------------------------


def index_arguments(parser: Any) -> None:
    deleting = "banyan index -o DIR --delete CONDITION"
    parser.usage = f"banyan index MODEL CORPUS [CORPUS ...] -o DIR [options]\n       {deleting}"
    parser.add_argument("model", nargs="?", metavar="MODEL", help="a folder that banyan train wrote")
    parser.add_argument("corpus", nargs="*", metavar="CORPUS", help=_SOURCES)
    parser.add_argument("-o", "--out", required=True, metavar="DIR", help="the index, made or added to")
    column = "the column of JSON lines, Parquet, CSV or TSV that holds text"
    parser.add_argument("--column", metavar="NAME", help=column)
    keep = "the other columns to keep, for filters and results, with string, int, float or bool (default: all, judged)"
    parser.add_argument("--keep", nargs="*", metavar="NAME[:TYPE]", help=keep)
    language = "of the words, as English: stems and stop words (default: none, words as they are)"
    parser.add_argument("--language", metavar="NAME", help=language)
    parser.add_argument("--update", action="store_true", help="replace the rows of files that changed since")
    parser.add_argument("--delete", metavar="CONDITION", help="remove rows: \"source LIKE '%%/old.txt'\"")
    parser.add_argument("--quiet", action="store_true", help="show errors only")


def index(options: argparse.Namespace) -> None:
    from banyan.display import Display
    from banyan.search.index import Index, Maker

    display = Display(options.quiet)
    if options.delete is not None:
        if options.model or options.corpus:
            options.parser.error("--delete removes rows and takes no MODEL or CORPUS")
        with Index.writing(options.out) as store:
            display.note(f"{options.out}: rows removed: {store.delete(options.delete):,}; left: {len(store.rows):,}")
        return
    if not options.model or not options.corpus:
        options.parser.error("a MODEL and a CORPUS are needed")
    model = _load(options.model)
    with Index.writing(options.out, Maker.of(model, options.model), options.language) as store:
        summary = store.add(
            lambda texts: model.encode(texts, show_progress_bar=False),
            options.corpus,
            column=options.column,
            keep=options.keep,
            update=options.update,
            display=display,
        )
    display.note(str(summary))


# --- banyan search ---------------------------------------------------------------------------------------------------


def search_arguments(parser: Any) -> None:
    parser.add_argument("index", metavar="INDEX", help="a folder that banyan index wrote")
    query = "a text (default: asked for, again and again)"
    parser.add_argument("query", nargs="?", type=_text, metavar="QUERY", help=query)
    parser.add_argument("-k", type=int, default=10, metavar="N", help="how many results (default: 10)")
    parser.add_argument("--where", metavar="CONDITION", help=_WHERE)
    by = "rank by the cosine of vectors, by words (BM25), or fuse both rankings (default: both)"
    parser.add_argument("--by", default="both", choices=("both", "vectors", "words"), help=by)
    parser.add_argument("--exact", action="store_true", help="look at every vector, in a large index too")
    model = "where the model is now, if not where it was"
    parser.add_argument("--model", metavar="DIR", help=model)
    parser.add_argument("--json", action="store_true", help="results for programs, one object a line")


def search(options: argparse.Namespace) -> None:
    from banyan.search.index import Index

    store = Index.open(options.index)
    searcher = _searcher(store, options.model)
    if options.query is None:
        _prompt(searcher, options)
    else:
        _show(searcher, options.query, options)


def _searcher(store: Index, moved: str | None) -> Searcher:
    from banyan.search.index import Maker
    from banyan.search.searching import Searcher

    path = moved or store.record.model.path
    if not Path(path).is_dir():
        raise BanyanError(f"the model that made {store.folder} is not in {path} any more: say where it is, --model DIR")
    model = _load(path)
    store.check(Maker.of(model, path))
    return Searcher(store, lambda texts: model.encode(texts, show_progress_bar=False), model.explain)


def _show(searcher: Searcher, query: str, options: argparse.Namespace) -> None:
    hits = searcher.search(query, options.k, where=options.where, mode=options.by, exact=options.exact)
    for number, hit in enumerate(hits, 1):
        print(_as_json(hit) if options.json else _as_text(number, hit))
    if not hits and not options.json:
        print("nothing was found", file=sys.stderr)


def _as_json(hit: Hit) -> str:
    values: dict[str, Any] = {"score": hit.score, "cosine": hit.cosine, "bm25": hit.words}
    found = [[highlight.start, highlight.end, round(highlight.weight, 4)] for highlight in hit.highlights]
    values |= {"source": hit.source, "row": hit.row, "text": hit.text, "columns": hit.columns, "highlights": found}
    return json.dumps(values, ensure_ascii=False, default=str)


def _as_text(number: int, hit: Hit) -> str:
    from banyan.search.highlight import marked
    from banyan.svg import shorten, visible

    colours = sys.stdout.isatty() and "NO_COLOR" not in os.environ
    before, after, grey, plain = ("\x1b[1;33m", "\x1b[0m", "\x1b[2m", "\x1b[0m") if colours else ("*", "*", "", "")
    one_line = "".join(" " if character.isspace() else character for character in hit.text)
    shown = visible(marked(one_line, hit.highlights, "\ue000", "\ue001"))  # for private use, so in no text
    shown = shown.replace("\ue000", before).replace("\ue001", after)
    columns = "".join(f"  {name}={shorten(visible(str(value)), 40)}" for name, value in hit.columns.items())
    words = "" if hit.words is None else f"  words {hit.words:.1f}"
    where = visible(f"{Path(hit.source).name}:{hit.row}")
    return f"{number:3}. {shown}\n     {grey}{where}  cosine {hit.cosine:.3f}{words}{columns}{plain}"


_HELP = """A query, or:
  :where CONDITION   only rows that meet it; :where alone takes it back
  :k N               how many results
  :by both|vectors|words
  :q                 ends (so does Ctrl-D)"""


def _prompt(searcher: Searcher, options: argparse.Namespace) -> None:
    with suppress(ImportError):
        import readline  # noqa: F401  history and editing, where the platform has it
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
                _show(searcher, _text(line), options)
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


def _text(argument: str) -> str:
    """A text from the command line, where bytes that are not UTF-8 arrive as lone surrogates."""
    return argument.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _load(folder: str) -> Banyan:
    from banyan.display import COMPILING, Display
    from banyan.encoder import Banyan

    with Display().patience(COMPILING):
        model = Banyan.from_pretrained(folder)
        model.encode("The first text of all may have to wait.")
    return model


# --- banyan cluster, banyan map --------------------------------------------------------------------------------------


def cluster_arguments(parser: Any) -> None:
    _overview_arguments(parser)
    alike = "rows of at least this cosine are near-duplicates (default: 0.97)"
    parser.add_argument("--alike", type=float, default=0.97, metavar="X", help=alike)
    parser.add_argument("--json", action="store_true", help="the same for programs")
    out = "also write every row with its cluster and its group of near-duplicates to FILE.csv or FILE.jsonl"
    parser.add_argument("-o", "--out", metavar="FILE", help=out)


def cluster(options: argparse.Namespace) -> None:
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


def map_arguments(parser: Any) -> None:
    _overview_arguments(parser)
    parser.add_argument("-o", "--out", required=True, metavar="FILE", help="a file whose name ends in .html")
    method = "umap keeps neighbours together, pca is faster and keeps distances (default: umap)"
    parser.add_argument("--method", default="umap", choices=("umap", "pca"), help=method)
    most = "draw so many rows at most, chosen at random (default: 20000)"
    parser.add_argument("--most", type=int, default=20_000, metavar="N", help=most)
    parser.add_argument("--title", type=_text, help="of the page (default: the name of the index)")


def map(options: argparse.Namespace) -> None:
    from banyan.display import Display
    from banyan.files import write_text
    from banyan.search.index import Index
    from banyan.search.maps import map_of

    out = Path(options.out)
    if out.suffix not in (".html", ".htm"):
        options.parser.error(f"a map is a page: name a file that ends in .html, not {out.name}")
    if not out.parent.is_dir():
        raise BanyanError(f"there is no folder {out.parent} to write {out.name} to")
    if options.most < 2:
        options.parser.error(f"--most must be at least 2, not {options.most}")
    rows = Index.open(options.index).rows
    title = options.title or Path(options.index).resolve().name
    display = Display()
    with display.patience("still busy: placing the texts; tens of thousands take a minute or two"):
        page = map_of(rows, title, options.clusters, options.where, options.method, options.most)
    write_text(out, page)
    display.note(f"wrote {out}: open it in a browser")


def _overview_arguments(parser: Any) -> None:
    parser.add_argument("index", metavar="INDEX", help="a folder that banyan index wrote")
    clusters = "how many (default: a few dozen at most, the more rows the more)"
    parser.add_argument("--clusters", type=int, metavar="N", help=clusters)
    parser.add_argument("--where", metavar="CONDITION", help=_WHERE)
