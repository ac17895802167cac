"""`banyan export`."""

from __future__ import annotations

import argparse
import sys

from banyan.commands._parser import Parser
from banyan.commands._shared import model_argument

GROUP, ORDER = "publish", 2
PURPOSE = "export a model to ONNX or to static token vectors"
DESCRIPTION = "docs/integrations.md says what each format loses."
EXAMPLES = (
    "banyan export model/ --format onnx -o onnx/",
    "banyan export model/ --format static -o static/",
)


def arguments(parser: Parser) -> None:
    model_argument(parser)
    parser.add_argument("-o", "--out", required=True, metavar="DIR", help="new folder to write to")
    formats = "onnx: the whole model, with trees; static: one vector per token, for model2vec and sentence-transformers"
    parser.add_argument("--format", required=True, choices=("onnx", "static"), help=formats)
    lexical = "leave the lexical dimensions out; ONNX cannot compute those of --lexical-ngrams words"
    parser.add_argument("--no-lexical", action="store_true", help=lexical)


def run(options: argparse.Namespace) -> None:
    from banyan.encoder import Banyan
    from banyan.integrations import export as exporting

    write = {"onnx": exporting.onnx, "static": exporting.static}[options.format]
    model = Banyan.from_pretrained(options.model)
    write(model, options.out, lexical=not options.no_lexical)
    if options.no_lexical and model.config.lexical_dim:
        kept, left_out = model.config.dim, model.config.lexical_dim
        print(f"exported the first {kept} dimensions, without the {left_out} lexical ones", file=sys.stderr)
