"""`banyan push`."""

from __future__ import annotations

import argparse

from banyan.commands._parser import Parser
from banyan.commands._shared import model_argument

GROUP, ORDER = "publish", 3
PURPOSE = "upload a model and its card to the Hugging Face Hub"
MORE = "Log in first, with `hf auth login`. Every command takes the name of such a model where it takes a folder."
EXAMPLES = ("banyan push model/ you/your-model --language la --license cc-by-4.0",)


def arguments(parser: Parser) -> None:
    model_argument(parser)
    parser.add_argument("name", metavar="OWNER/NAME", help="its name on the Hub")
    parser.add_argument("--private", action="store_true", help="for you and your organisation only")
    parser.add_argument("--language", nargs="+", metavar="LANG", help="of its text, for the model card: en, ha, la")
    parser.add_argument("--license", metavar="NAME", help="of the weights, for the model card: apache-2.0, cc-by-4.0")


def run(options: argparse.Namespace) -> None:
    from banyan.encoder import Banyan

    how = {name: getattr(options, name) for name in ("language", "license")}
    print(Banyan.from_pretrained(options.model).push_to_hub(options.name, private=options.private or None, **how))
