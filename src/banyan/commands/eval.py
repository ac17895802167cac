"""`banyan eval`."""

from __future__ import annotations

import argparse
import itertools
import shutil
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from banyan.commands._parser import Parser
from banyan.commands._shared import DEVICE, MODEL, compact_arguments, load
from banyan.errors import BanyanError

if TYPE_CHECKING:
    from banyan.compact import Precision

GROUP, ORDER = "train", 2
PURPOSE = "evaluate a model on the paper's test sets or your own"
DESCRIPTION = """Every score has a 95% confidence interval (bootstrap over the items of the test set).

suites:
  sts             sentence similarity: STS12-16, STS-B, SICK-R, SemRel (Spearman x 100)
  words           word similarity: SimLex, WordSim S and R (Spearman x 100)
  retrieval       ArguAna and Quora from BEIR (nDCG and recall at 1 and 10)
  classification  SST-2 and MRPC: a small network on frozen embeddings (accuracy and F1)
  paper           the four above
  languages       SemRel in nine languages; for a model of one language, add for example --languages hi
  dev             development sets for choosing settings; keep the other suites for the final model

The test sets are read from DIR. --fetch first downloads those that DIR lacks; without it, nothing is downloaded. The
word lists and the English dev sets cannot be fetched. The table says which sets are missing, and which differ in size
from the authors' files. See docs/evaluation.md."""
EXAMPLES = (
    "banyan eval model/ --suite sts --data data/eval",
    "banyan eval model/ --suite sts --data data/ --fetch",
    "banyan eval model/ --suite paper --data data/ -o results.json -o results.md",
    "banyan eval model/ --suite dev --data data/ --against other-model/",
    "banyan eval hindi/ --suite languages --languages hi --data data/eval",
    "banyan eval model/ --pairs pairs.tsv more.csv --words list.tsv --beir my-corpus/",
    "banyan eval model/ --parallel en-ha.tsv",
)


def arguments(parser: Parser) -> None:
    own = "[--pairs FILE ...] [--words FILE ...] [--beir DIR ...] [--parallel FILE ...]"
    parser.usage = f"banyan eval MODEL [--suite NAME --data DIR [--fetch]] {own} [options]"
    parser.surplus = "give files of your own with --pairs, --words, --beir or --parallel"
    parser.add_argument("model", metavar="MODEL", help=f"{MODEL}; or a folder written by banyan baseline")
    suite = parser.add_argument_group("test suites")
    suite.add_argument("--suite", metavar="NAME", help="one of the suites above")
    data = "folder with the authors' files (sts12_test.csv, simlex.tsv, ...), with beir/ in it or next to it"
    suite.add_argument("--data", metavar="DIR", help=data)
    fetched = 'first download what DIR lacks from the Hugging Face Hub (needs the extra hub)'
    suite.add_argument("--fetch", action="store_true", help=fetched)
    languages = "languages for the suites languages and dev: af, am, ... (default: all in DIR; English for dev)"
    suite.add_argument("--languages", nargs="+", default=[], metavar="LANG", help=languages)
    yours = parser.add_argument_group("your own test sets")
    pairs = "two texts and a score per line (.csv or tab-separated); line 1 may name sentence1, sentence2, score"
    yours.add_argument("--pairs", nargs="+", default=[], metavar="FILE", help=pairs)
    yours.add_argument("--words", nargs="+", default=[], metavar="FILE", help="two words and a score per line")
    beir = "a folder with corpus.jsonl, queries.jsonl and qrels/test.tsv, or a .tar, .tar.gz or .tar.xz of it"
    yours.add_argument("--beir", nargs="+", default=[], metavar="DIR", help=beir)
    parallel = "translations, two texts per line (.tsv, .csv, .jsonl or .parquet): each must find the other among all"
    yours.add_argument("--parallel", nargs="+", default=[], metavar="FILE", help=parallel)
    columns = "names of the two columns of --parallel (default: the first two)"
    yours.add_argument("--parallel-columns", nargs=2, metavar="NAME", help=columns)
    kept = "Of MODEL only: `banyan eval model/ --precision int8 --against model/ ...` measures what int8 costs."
    compact_arguments(parser.add_argument_group("smaller vectors", kept))
    result = parser.add_argument_group("results")
    against = "a second model: report both scores and the confidence interval of their difference"
    result.add_argument("--against", metavar="MODEL", help=against)
    out = "also write the table to FILE, ending in .json or .md; repeatable"
    result.add_argument("-o", "--out", action="append", default=[], metavar="FILE", help=out)
    parser.add_argument("--device", default="cpu", help=DEVICE)
    parser.add_argument("--quiet", action="store_true", help="print only the table and errors")


def run(options: argparse.Namespace) -> None:
    from banyan import compact
    from banyan.evaluate import suites, table
    from banyan.support.display import Display

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
    with display.patience("still busy: computing the confidence intervals, 1,000 bootstrap samples per set"):
        results = table.tabulate(name, rows[0], options.against, rows[-1])
    print(table.to_text(results, shutil.get_terminal_size((160, 24)).columns), end="")
    for path in options.out:
        table.write(results, path)
        display.note(f"wrote {path}")


def _measurable(
    folder: str, device: str, truncate_dim: int | None = None, precision: Precision = "float32"
) -> tuple[Any, str]:
    """A model or baseline as `suites.measure` takes it, and its name in the table."""
    from banyan import baselines, compact

    model = baselines.load(folder, device) if baselines.is_baseline(folder) else load(folder, device)
    if not hasattr(model, "encode"):
        if truncate_dim or precision != "float32":
            raise BanyanError(f"{folder} has no vectors, so --truncate-dim and --precision do not apply to it")
        return model, folder
    form = compact.Form.of(model.dim, truncate_dim, precision)
    return compact.comparable(model, form), folder if form == compact.Form(model.dim) else f"{folder} ({form})"


def _tasks(options: argparse.Namespace, tell: Callable[[str], None]) -> list[Any]:
    """The test sets, found or fetched before any model is loaded."""
    from banyan.evaluate import suites

    if options.suite is None and not (options.pairs or options.words or options.beir or options.parallel):
        own = "--pairs, --words, --beir or --parallel"
        options.parser.error(f"nothing to evaluate on: pass --suite NAME --data DIR, or {own}")
    if options.parallel_columns and not options.parallel:
        options.parser.error("--parallel-columns needs --parallel")
    found = suites.own(options.pairs, options.words, options.beir, options.parallel, options.parallel_columns)
    if options.suite is None:
        for name in ("data", "languages", "fetch"):
            if getattr(options, name):
                options.parser.error(f"--{name} needs --suite")
        return found
    if options.suite not in suites.SUITES:
        known = ", ".join(suites.SUITES)
        options.parser.refuse(f"there is no suite {options.suite} (choose from {known})", options.suite, suites.SUITES)
    if options.data is None:
        options.parser.error(f"--suite {options.suite} needs --data DIR, the folder with its files")
    if options.fetch:
        from banyan.evaluate.fetch import fetch

        fetch(options.suite, options.data, options.languages, tell)
    return suites.tasks(options.suite, options.data, options.languages) + found
