"""`banyan export`."""

from __future__ import annotations

import argparse

from banyan.commands._parser import Parser
from banyan.commands._shared import MODEL

GROUP, ORDER = "publish", 2
PURPOSE = "write a model for programs that know nothing of Banyan"
MORE = "What each form loses, measured: docs/integrations.md."
EXAMPLES = (
    "banyan export model/ --format onnx -o onnx/",
    "banyan export model/ --format static -o static/",
)


def arguments(parser: Parser) -> None:
    parser.add_argument("model", metavar="MODEL", help=f"{MODEL}, or a name on the Hugging Face Hub")
    parser.add_argument("-o", "--out", required=True, metavar="DIR", help="a new folder")
    forms = "onnx: the whole model, trees too; static: a bag of tokens, for model2vec and sentence-transformers"
    parser.add_argument("--format", required=True, choices=("onnx", "static"), help=forms)


def run(options: argparse.Namespace) -> None:
    from banyan.encoder import Banyan
    from banyan.integrations import export as exporting

    write = {"onnx": exporting.onnx, "static": exporting.static}[options.format]
    write(Banyan.from_pretrained(options.model), options.out)
