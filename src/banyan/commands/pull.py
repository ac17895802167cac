"""`banyan pull`."""

from __future__ import annotations

import argparse
import sys

from banyan.commands._parser import Parser

GROUP, ORDER = "publish", 4
PURPOSE = "download a model from the Hugging Face Hub into a folder"
DESCRIPTION = """NAME is OWNER/MODEL, or the short name of one of our own models, such as en or ar; these are not
uploaded yet (docs/pretrained.md). Other commands take OWNER/MODEL in place of a folder; this one makes a folder to
keep, copy or change."""
EXAMPLES = ("banyan pull you/your-model", "banyan pull en -o english/")


def arguments(parser: Parser) -> None:
    parser.add_argument("name", metavar="NAME", help="a short name, or OWNER/MODEL on the Hub")
    parser.add_argument("-o", "--out", metavar="DIR", help="new folder (default: the name, without its owner)")
    parser.add_argument("--revision", metavar="REV", help="commit, branch or tag (default: main)")


def run(options: argparse.Namespace) -> None:
    from banyan.integrations.pulling import pull

    print(f"wrote {pull(options.name, options.out, options.revision)}", file=sys.stderr)
