"""`banyan index`."""

from __future__ import annotations

import argparse

from banyan.commands._parser import Parser
from banyan.commands._shared import MODEL, QUIET, SOURCES, column_argument, load

GROUP, ORDER = "search", 1
PURPOSE = "build or extend a search index over a collection of texts"
DESCRIPTION = "Adds files that are not in the index yet. After an interruption, run the same command again to continue."
EXAMPLES = (
    "banyan index model/ texts/ -o index/",
    "banyan index model/ books.csv --column title --keep year:int author -o index/",
    "banyan index model/ notes/ books.csv --column title -o index/ --update",
    'banyan index -o index/ --delete "year = 1900"',
)


def arguments(parser: Parser) -> None:
    deleting = "banyan index -o DIR --delete CONDITION"
    parser.usage = f"banyan index MODEL CORPUS [CORPUS ...] -o DIR [options]\n       {deleting}"
    parser.add_argument("model", nargs="?", metavar="MODEL", help=MODEL)
    parser.add_argument("corpus", nargs="*", metavar="CORPUS", help=SOURCES)
    out = "index folder, which is created if it does not exist"
    parser.add_argument("-o", "--out", required=True, metavar="DIR", help=out)
    column_argument(parser)
    keep = "other columns to store for filters and results; TYPE: string, int, float or bool (default: all, detected)"
    parser.add_argument("--keep", nargs="*", metavar="NAME[:TYPE]", help=keep)
    language = "language for stemming and stop words, such as English (default: neither)"
    parser.add_argument("--language", metavar="NAME", help=language)
    parser.add_argument("--update", action="store_true", help="replace the rows of files that have changed")
    delete = "delete the rows that match: \"source LIKE '%%/old.txt'\""
    parser.add_argument("--delete", metavar="CONDITION", help=delete)
    parser.add_argument("--quiet", action="store_true", help=QUIET)


def run(options: argparse.Namespace) -> None:
    from banyan.search.index import Index, Maker
    from banyan.support.display import Display

    display = Display(options.quiet)
    if options.delete is not None:
        if options.model or options.corpus:
            options.parser.error("--delete takes no MODEL and no CORPUS")
        with Index.writing(options.out) as store:
            display.note(f"{options.out}: rows removed: {store.delete(options.delete):,}; left: {len(store.rows):,}")
        return
    if not options.model or not options.corpus:
        options.parser.error("MODEL and CORPUS are required")
    model = load(options.model)
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
