"""`banyan tune`."""

from __future__ import annotations

import argparse

from banyan.commands._parser import Parser
from banyan.commands._shared import MODEL, run_arguments, setting_argument, value_in_words
from banyan.support.needs import needs

GROUP, ORDER = "train", 2
PURPOSE = "tune a model on texts that belong together"
DESCRIPTION = """\
Questions and answers, titles and bodies, tickets and their duplicates: the tuned model gives texts that belong
together similar embeddings. Each row of the file is one of
  two texts
  two texts and a score     a higher score means more similar
  two texts and a third one that does not belong to the first
  a text and its label      texts with the same label belong together
Columns are recognised by their names or by what they hold; --columns names them. All other texts of a batch serve as
negatives, except those that belong together by another row.

Some rows are held out. Tuning stops when the tuned model no longer gets better at finding the second texts of the
held-out rows. It keeps the latest epoch that is not clearly worse than the best. --resume continues a run that was
stopped or killed."""
EXAMPLES = (
    "banyan tune model/ pairs.tsv --out tuned/",
    "banyan tune model/ tickets.jsonl --columns title body --out tuned/",
    "banyan tune model/ news.csv --columns headline desk --labels --out tuned/",
    "banyan tune model/ pairs.tsv --out tuned/ --hard 2",
    "banyan tune model/ pairs.tsv --out tuned/ --resume",
)
_COMMON = ("epochs", "batch_size", "lr", "pairs_temperature", "stay_weight", "dropout", "seed")


def arguments(parser: Parser) -> None:
    from banyan.config import SETTINGS, TUNED, Config

    parser.usage = "banyan tune MODEL EXAMPLES --out DIR [options]"
    parser.add_argument("model", metavar="MODEL", help=MODEL)
    examples = "a TSV, CSV, JSON lines or Parquet file (also .gz, .xz or .zst)"
    parser.add_argument("examples", metavar="EXAMPLES", help=examples)
    parser.add_argument("--out", required=True, metavar="DIR", help="folder to write the tuned model to")
    columns = "names of two or three columns to read, in the order above"
    parser.add_argument("--columns", nargs="+", metavar="NAME", help=columns)
    labels = "the second column has labels, whatever its name: texts with the same label belong together"
    parser.add_argument("--labels", action="store_true", help=labels)
    config, group = Config.from_preset(TUNED), parser.add_argument_group("tuning")
    hard = "hard negatives of each pair, mined with the model itself before every epoch (default: 0)"
    group.add_argument("--hard", type=int, dest="hard_negatives", default=argparse.SUPPRESS, metavar="N", help=hard)
    for name in _COMMON:
        setting = SETTINGS[name]
        words = "most passes over the examples" if name == "epochs" else setting.help
        words = words.replace("sentences or passages", "examples")
        default = value_in_words(config, setting).replace("the corpus", "the file")
        setting_argument(group, setting, f"{words} (default: {default})")
    run_arguments(parser.add_argument_group("run"))


def run(options: argparse.Namespace) -> None:
    with needs("Tuning", "train"):
        from banyan.tuning import tune

    values = {name: value for name, value in vars(options).items() if name not in ("command", "parser")}
    tune(values.pop("model"), values.pop("examples"), values.pop("out"), **values)
