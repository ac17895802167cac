"""`banyan eval`."""

from __future__ import annotations

import argparse
import itertools
import shutil
from collections.abc import Callable
from typing import Any

from banyan.commands._parser import Parser
from banyan.commands._shared import DEVICE, compact_arguments, load
from banyan.errors import BanyanError

GROUP, ORDER = "train", 2
PURPOSE = "measure a model on test sets, the paper's or your own"
MORE = """Every figure comes with its 95% interval (bootstrap over the items of the set).

suites:
  sts             sentence similarity: STS12-16, STS-B, SICK-R, SemRel (Spearman x 100)
  words           SimLex, WordSim S and R (Spearman x 100)
  retrieval       ArguAna and Quora, as BEIR has them (nDCG and recall at 1 and 10)
  classification  SST-2 and MRPC: a small network on the embeddings as they are
  paper           the four above
  languages       SemRel in nine languages; with one model, say which: --languages hi
  dev             the sets for choosing settings; look at the others when you have chosen

Their files are read from DIR. With --fetch, those that DIR lacks are downloaded into it first, each once; without it
nothing is ever downloaded. The word lists and the English sets of dev cannot be fetched. A set that is not there has
a line that says so, and one of another size than the authors' file has a note. More: docs/evaluation.md."""
EXAMPLES = (
    "banyan eval model/ --suite sts --data data/eval",
    "banyan eval model/ --suite sts --data data/ --fetch",
    "banyan eval model/ --suite paper --data data/ -o results.json -o results.md",
    "banyan eval model/ --suite dev --data data/ --against other-model/",
    "banyan eval hindi/ --suite languages --languages hi --data data/eval",
    "banyan eval model/ --pairs pairs.tsv more.csv --words list.tsv --beir my-corpus/",
)


def arguments(parser: Parser) -> None:
    own = "[--pairs FILE ...] [--words FILE ...] [--beir DIR ...]"
    parser.usage = f"banyan eval MODEL [--suite NAME --data DIR [--fetch]] {own} [options]"
    parser.add_argument("model", metavar="MODEL", help="a folder that banyan train or banyan baseline wrote")
    suite = parser.add_argument_group("the paper's sets")
    suite.add_argument("--suite", metavar="NAME", help="one of those above")
    data = "the authors' files: a folder of sts12_test.csv, simlex.tsv, ..., with beir/ inside or beside it"
    suite.add_argument("--data", metavar="DIR", help=data)
    fetched = 'download into DIR what it lacks and the Hugging Face hub has (needs pip install "banyan-embed[hub]")'
    suite.add_argument("--fetch", action="store_true", help=fetched)
    languages = "af, am, ... of the suites languages and dev (default: all that are there; for dev, English)"
    suite.add_argument("--languages", nargs="+", default=[], metavar="LANG", help=languages)
    yours = parser.add_argument_group("your own")
    pairs = "two texts and a score a line (.csv, or separated by tabs)"
    yours.add_argument("--pairs", nargs="+", default=[], metavar="FILE", help=pairs)
    yours.add_argument("--words", nargs="+", default=[], metavar="FILE", help="two words and a score a line")
    beir = "a folder of corpus.jsonl, queries.jsonl and qrels/test.tsv, or a .tar (.gz, .xz) of one"
    yours.add_argument("--beir", nargs="+", default=[], metavar="DIR", help=beir)
    kept = "of MODEL alone: `banyan eval model/ --precision int8 --against model/ ...` tells what int8 costs"
    compact_arguments(parser.add_argument_group("smaller vectors", kept))
    result = parser.add_argument_group("result")
    against = "a second model: each figure of both, and their difference with its own interval"
    result.add_argument("--against", metavar="MODEL", help=against)
    out = "also write the table to FILE.json or FILE.md; may be given more than once"
    result.add_argument("-o", "--out", action="append", default=[], metavar="FILE", help=out)
    parser.add_argument("--device", default="cpu", help=DEVICE)
    parser.add_argument("--quiet", action="store_true", help="show the table and errors only")


def run(options: argparse.Namespace) -> None:
    from banyan import compact
    from banyan.display import Display
    from banyan.evaluate import suites, table

    table.check_names(options.out)
    compact.check(options.truncate_dim, options.precision)
    display = Display(options.quiet)
    tasks = _tasks(options, display.note)
    encode, name = _measurable(options.model, options.device, options.truncate_dim, options.precision)
    encoders = [encode]
    if options.against:
        encoders.append(_measurable(options.against, options.device)[0])
    rows: list[list[Any]] = [[] for _ in encoders]
    with display.bar("evaluating", len(encoders) * len(tasks), "sets") as meter:
        for number, (task, which) in enumerate(itertools.product(tasks, range(len(encoders)))):
            meter(number, figures={"now": task.name})
            rows[which] += suites.measure(encoders[which], task)
    with display.patience("still busy: each set is drawn again 1,000 times, for the intervals"):
        report = table.report(name, rows[0], options.against, rows[-1])
    print(table.to_text(report, shutil.get_terminal_size((160, 24)).columns), end="")
    for path in options.out:
        table.write(report, path)
        display.note(f"wrote {path}")


def _measurable(
    folder: str, device: str, truncate_dim: int | None = None, precision: str = "float32"
) -> tuple[Any, str]:
    """What `suites.measure` takes, of a model or a baseline, and the name it has in a table."""
    from banyan import baselines, compact

    model = baselines.load(folder, device) if baselines.is_baseline(folder) else load(folder, device)
    if not hasattr(model, "encode"):
        if truncate_dim or precision != "float32":
            raise BanyanError(f"{folder} compares texts without vectors: there is nothing to truncate or round")
        return model, folder
    form = compact.Form.of(model.dim, truncate_dim, precision)
    return compact.comparable(model, form), folder if form == compact.Form(model.dim) else f"{folder} ({form})"


def _tasks(options: argparse.Namespace, tell: Callable[[str], None]) -> list[Any]:
    """What to measure on; found, or fetched, before any model is loaded."""
    from banyan.evaluate import suites

    if options.suite is None and not (options.pairs or options.words or options.beir):
        options.parser.error("nothing to evaluate on: give --suite NAME --data DIR, or --pairs, --words or --beir")
    found = suites.own(options.pairs, options.words, options.beir)
    if options.suite is None:
        for name in ("data", "languages", "fetch"):
            if getattr(options, name):
                options.parser.error(f"--{name} goes with --suite")
        return found
    if options.suite not in suites.SUITES:
        known = ", ".join(suites.SUITES)
        options.parser.refuse(f"there is no suite {options.suite} among {known}", options.suite, suites.SUITES)
    if options.data is None:
        options.parser.error(f"--suite {options.suite} needs --data DIR, the folder that holds its files")
    if options.fetch:
        from banyan.evaluate.fetch import fetch

        fetch(options.suite, options.data, options.languages, tell)
    return suites.tasks(options.suite, options.data, options.languages) + found
