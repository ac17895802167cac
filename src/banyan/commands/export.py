"""`banyan export`."""

from __future__ import annotations

import argparse
import sys

from banyan.commands._parser import Parser
from banyan.commands._shared import check_parent, model_argument
from banyan.errors import BanyanError

GROUP, ORDER = "publish", 2
PURPOSE = "export a model to ONNX, to static token vectors or to word2vec's format"
DESCRIPTION = "docs/integrations.md says what each format loses."
EXAMPLES = (
    "banyan export model/ --format onnx -o onnx/",
    "banyan export model/ --format static -o static/",
    "banyan export model/ --format word2vec -o vectors.txt",
    "banyan export model/ --format word2vec --words words.txt -o vectors.bin",
)
FORMATS = ("onnx", "static", "word2vec")


def arguments(parser: Parser) -> None:
    model_argument(parser)
    out = "new folder to write to; for word2vec a file, binary if its name ends in .bin"
    parser.add_argument("-o", "--out", required=True, metavar="PATH", help=out)
    formats = (
        "onnx: the whole model, with trees; static: one vector per token, for model2vec and sentence-transformers; "
        "word2vec: one vector per word, for gensim and others"
    )
    parser.add_argument("--format", required=True, choices=FORMATS, help=formats)
    lexical = "leave the lexical dimensions out; ONNX cannot compute those of --lexical-ngrams words"
    parser.add_argument("--no-lexical", action="store_true", help=lexical)
    words = "words for word2vec, one per line (default: those that are a piece of the vocabulary)"
    parser.add_argument("--words", metavar="FILE", help=words)


def run(options: argparse.Namespace) -> None:
    from banyan.encoder import Banyan

    if options.words and options.format != "word2vec":
        raise BanyanError("--words is for --format word2vec: leave it out")
    if options.format == "word2vec":
        _word2vec(options)
        return
    from banyan.integrations import export as exporting

    write = {"onnx": exporting.onnx, "static": exporting.static}[options.format]
    model = Banyan.from_pretrained(options.model)
    write(model, options.out, lexical=not options.no_lexical)
    if options.no_lexical and model.config.lexical_dim:
        kept, left_out = model.config.dim, model.config.lexical_dim
        print(f"exported the first {kept} dimensions, without the {left_out} lexical ones", file=sys.stderr)


def _word2vec(options: argparse.Namespace) -> None:
    from banyan.corpus.reading import Corpus
    from banyan.corpus.report import Report
    from banyan.encoder import Banyan
    from banyan.integrations.word2vec import word2vec

    if options.no_lexical:
        raise BanyanError("--no-lexical is not for --format word2vec: leave it out")
    check_parent(options.out)
    words = None
    if options.words:
        rows = Corpus([options.words], layout="lines").rows(Report())
        words = [word for row in rows if (word := row.strip())]
    n = word2vec(Banyan.from_pretrained(options.model), options.out, words)
    print(f"wrote {options.out}: {n:,} words", file=sys.stderr)
