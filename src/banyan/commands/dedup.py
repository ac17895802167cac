"""`banyan dedup`."""

from __future__ import annotations

import argparse
import sys
from contextlib import ExitStack

from banyan.commands._parser import Parser
from banyan.commands._shared import QUIET, SOURCES, check_plain, column_argument, model_argument

GROUP, ORDER = "encode", 4
PURPOSE = "list or remove near-duplicates in files of texts"
DESCRIPTION = """Rows are lines of text files or rows of tables. Prints a line per near-duplicate, with tabs: its row,
the row it repeats, their cosine, both texts. With --remove, writes what is left instead: lines of text,
or the rows of tables with all their columns. If FILE ends in .txt, only their texts are written.
Needs little memory, and disk space for a byte per row and dimension."""
EXAMPLES = (
    "banyan dedup model/ corpus.txt",
    "banyan dedup model/ tickets.csv --column text --threshold 0.95 -o duplicates.tsv",
    "banyan dedup model/ corpus.txt.gz --remove -o clean.txt",
    "banyan dedup model/ tickets.csv --column text --remove -o clean.csv",
)


def arguments(parser: Parser) -> None:
    model_argument(parser)
    parser.add_argument("inputs", nargs="+", metavar="FILE", help=SOURCES)
    threshold = "cosine from which two texts are near-duplicates, 0.7 to 1 (default: 0.9)"
    parser.add_argument("--threshold", type=float, default=0.9, metavar="X", help=threshold)
    parser.add_argument("--remove", action="store_true", help="write what is left without near-duplicates")
    column_argument(parser)
    parser.add_argument("-o", "--out", metavar="FILE", help="write to FILE (default: standard output)")
    parser.add_argument("--quiet", action="store_true", help=QUIET)


def run(options: argparse.Namespace) -> None:
    from banyan.dedup import Deduplication, on_one_line
    from banyan.encoder import Banyan
    from banyan.support.display import Display
    from banyan.support.files import atomic, reported

    if options.out:
        check_plain(options.out)
    model, display = Banyan.from_pretrained(options.model), Display(options.quiet)
    given = options.inputs, options.threshold, options.column
    kept_in = (options.out or "-") if options.remove else None
    with Deduplication(model, *given, display, kept_in) as found, ExitStack() as stack:
        path = None
        if options.out:
            stack.enter_context(reported(options.out))
            path = stack.enter_context(atomic(options.out))
        if options.remove:
            found.write_kept(path or sys.stdout)
        else:
            file = stack.enter_context(open(path, "w", encoding="utf-8", newline="\n")) if path else sys.stdout
            for row, of, cosine, text, first in found.duplicates():
                file.write(f"{row}\t{of}\t{cosine:.3f}\t{on_one_line(text)}\t{on_one_line(first)}\n")
        display.note(str(found.summary))
