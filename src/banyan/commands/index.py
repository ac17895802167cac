"""`banyan index`."""

from __future__ import annotations

import argparse

from banyan.commands._parser import Parser
from banyan.commands._shared import MODEL, QUIET, SOURCES, column_argument, load

GROUP, ORDER = "search", 1
PURPOSE = "make an index of a collection, to search it"
MORE = "The same command goes on where a killed one was. Files are added to those that are in the index already."
EXAMPLES = (
    "banyan index model/ texts/ -o index/",
    "banyan index model/ books.csv --column title --keep year:int author -o index/",
    "banyan index model/ books.csv --column title -o index/ --update",
    'banyan index -o index/ --delete "year = 1900"',
)


def arguments(parser: Parser) -> None:
    deleting = "banyan index -o DIR --delete CONDITION"
    parser.usage = f"banyan index MODEL CORPUS [CORPUS ...] -o DIR [options]\n       {deleting}"
    parser.add_argument("model", nargs="?", metavar="MODEL", help=MODEL)
    parser.add_argument("corpus", nargs="*", metavar="CORPUS", help=SOURCES)
    parser.add_argument("-o", "--out", required=True, metavar="DIR", help="the index, made or added to")
    column_argument(parser)
    keep = "the other columns to keep, for filters and results, with string, int, float or bool (default: all, judged)"
    parser.add_argument("--keep", nargs="*", metavar="NAME[:TYPE]", help=keep)
    language = "of the words, as English: stems and stop words (default: none, words as they are)"
    parser.add_argument("--language", metavar="NAME", help=language)
    parser.add_argument("--update", action="store_true", help="replace the rows of files that changed since")
    parser.add_argument("--delete", metavar="CONDITION", help="remove rows: \"source LIKE '%%/old.txt'\"")
    parser.add_argument("--quiet", action="store_true", help=QUIET)


def run(options: argparse.Namespace) -> None:
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
