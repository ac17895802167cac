"""`banyan push`."""

from __future__ import annotations

import argparse

from banyan.commands._parser import Parser
from banyan.commands._shared import model_argument

GROUP, ORDER = "publish", 3
PURPOSE = "upload a model and its model card to the Hugging Face Hub"
DESCRIPTION = "Log in first with `hf auth login`. Other commands then accept OWNER/NAME in place of a model folder."
EXAMPLES = ("banyan push model/ you/your-model --language la --license cc-by-4.0",)


def arguments(parser: Parser) -> None:
    model_argument(parser)
    parser.add_argument("name", metavar="OWNER/NAME", help="repository on the Hub")
    parser.add_argument("--private", action="store_true", help="make the repository private")
    language = "languages of the training text, for the model card: en, ha, la"
    parser.add_argument("--language", nargs="+", metavar="LANG", help=language)
    license = "licence of the weights, for the model card: apache-2.0, cc-by-4.0"
    parser.add_argument("--license", metavar="NAME", help=license)


def run(options: argparse.Namespace) -> None:
    from banyan.encoder import Banyan

    how = {name: getattr(options, name) for name in ("language", "license")}
    print(Banyan.from_pretrained(options.model).push_to_hub(options.name, private=options.private or None, **how))
