"""The commands `banyan export` and `banyan push`. Nothing heavy is imported before one of them runs."""

from __future__ import annotations

import argparse
from typing import Any

_MODEL = "a folder that banyan train wrote, or a name on the Hugging Face Hub"


def export_arguments(parser: Any) -> None:
    parser.add_argument("model", metavar="MODEL", help=_MODEL)
    parser.add_argument("-o", "--out", required=True, metavar="DIR", help="a new folder")
    forms = "onnx: the whole model, trees too; static: a bag of tokens, for model2vec and sentence-transformers"
    parser.add_argument("--format", required=True, choices=("onnx", "static"), help=forms)


def export(options: argparse.Namespace) -> None:
    from banyan.encoder import Banyan
    from banyan.integrations import export as exporting

    write = {"onnx": exporting.onnx, "static": exporting.static}[options.format]
    write(Banyan.from_pretrained(options.model), options.out)


def push_arguments(parser: Any) -> None:
    parser.add_argument("model", metavar="MODEL", help="a folder that banyan train wrote")
    parser.add_argument("name", metavar="OWNER/NAME", help="its name on the Hub")
    parser.add_argument("--private", action="store_true", help="for you and your organisation only")
    parser.add_argument("--language", nargs="+", metavar="LANG", help="of its text, for the model card: en, ha, la")
    parser.add_argument("--license", metavar="NAME", help="of the weights, for the model card: apache-2.0, cc-by-4.0")


def push(options: argparse.Namespace) -> None:
    from banyan.encoder import Banyan

    how = {name: getattr(options, name) for name in ("language", "license")}
    print(Banyan.from_pretrained(options.model).push_to_hub(options.name, private=options.private or None, **how))
