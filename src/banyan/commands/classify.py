"""`banyan classify`."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

from banyan.commands._parser import Parser
from banyan.commands._shared import MODEL, QUIET, column_argument, kept_arguments, lines_of_stdin, output
from banyan.errors import BanyanError

if TYPE_CHECKING:
    from banyan.classify import Classifier

GROUP, ORDER = "train", 3
PURPOSE = "train a classifier on labelled texts, and predict labels"
DESCRIPTION = """\
train    learns from a file with a text and its label in each row, and writes a folder: the model and the classifier.
         Some texts are held out: training stops when it no longer improves on them, probabilities are calibrated on
         them, and the precision, recall and F1 of each class are measured on them. --resume continues a run that was
         stopped or killed.
predict  prints the label and the probability of each line of a file or of standard input.
`banyan serve` serves a classifier as POST /predict."""
EXAMPLES = (
    "banyan classify train model/ tickets.tsv --out classifier/",
    "banyan classify predict classifier/ texts.txt",
    "banyan classify train model/ news.jsonl --columns body topics --out classifier/",
    "banyan classify train model/ tickets.csv --columns text tags --separator ';' --out classifier/",
    "banyan classify train model/ paraphrases.csv --pair --out classifier/",
    "banyan classify predict classifier/ texts.txt --explain --format json",
)
TRAIN, PREDICT = "train", "predict"
_BLOCK = 4096  # lines that are classified at a time


def arguments(parser: Parser) -> None:
    parser.usage = (
        "banyan classify train MODEL LABELLED --out DIR [options]\n"
        "       banyan classify predict CLASSIFIER [TEXTS] [options]"
    )
    parser.add_argument("job", choices=[TRAIN, PREDICT], metavar="train|predict", help="what to do")
    parser.add_argument("model", metavar="MODEL", help=f"{MODEL}; to predict, a folder written by classify train")
    texts = (
        "a TSV, CSV, JSON lines or Parquet file with labels (also .gz, .xz or .zst); to predict, a text file or such a "
        "table (default: standard input)"
    )
    parser.add_argument("texts", metavar="TEXTS", nargs="?", default="-", help=texts)
    _train_arguments(parser.add_argument_group("train"))
    _predict_arguments(parser.add_argument_group("predict"))
    parser.add_argument("--quiet", action="store_true", help=QUIET)


def _train_arguments(group: Any) -> None:
    from banyan.classify.settings import Settings

    group.add_argument("--out", metavar="DIR", help="folder to write the model and the classifier to")
    columns = "names of the columns: the text (with --pair, two texts) and the label"
    group.add_argument("--columns", nargs="+", metavar="NAME", help=columns)
    pair = "classify pairs of texts, such as a sentence and its possible paraphrase"
    group.add_argument("--pair", action="store_true", help=pair)
    separator = "a text may have several labels, with this between them; lists in JSON lines and Parquet need none"
    group.add_argument("--separator", metavar="TEXT", help=separator)
    suppressed: Any = {"default": argparse.SUPPRESS}
    frozen = "keep the model as it is, and train only the classifier on top"
    group.add_argument("--frozen", action="store_true", help=frozen, **suppressed)
    balanced = "give rare classes as much weight as frequent ones"
    group.add_argument("--balanced", action="store_true", help=balanced, **suppressed)
    chosen = "(default: chosen from the number of texts)"
    group.add_argument("--epochs", type=int, metavar="N", help=f"most passes over the texts {chosen}", **suppressed)
    group.add_argument("--batch-size", type=int, metavar="N", help=f"texts per step {chosen}", **suppressed)
    lr = f"learning rate of the token vectors (default: {Settings.lr})"
    group.add_argument("--lr", type=float, metavar="X", help=lr, **suppressed)
    group.add_argument("--seed", type=int, metavar="N", help="random seed (default: 0)", **suppressed)
    kept_arguments(group)


def _predict_arguments(group: Any) -> None:
    column_argument(group)
    formats = "tsv: label, probability and text (several labels: a,b 0.9,0.7); json: one object per line (default: tsv)"
    group.add_argument("--format", choices=["tsv", "json"], default="tsv", metavar="tsv|json", help=formats)
    group.add_argument("--top", type=int, default=1, metavar="N", help="print the N most probable labels (default: 1)")
    explain = "also print what each word adds to the score of the label"
    group.add_argument("--explain", action="store_true", help=explain)
    group.add_argument("-o", dest="to", metavar="FILE", help="write predictions to FILE (default: standard output)")


_SETTINGS = ("frozen", "balanced", "epochs", "batch_size", "lr", "seed")
_OF_TRAIN = ("pair", "separator", "resume", "overwrite", "checkpoint_seconds")
_OF_PREDICT = ("column", "format", "top", "explain", "to")


def run(options: argparse.Namespace) -> None:
    if options.job == TRAIN:
        options.parser.refuse_given(options, _OF_PREDICT, "`banyan classify predict`")
        _train(options)
    else:
        options.parser.refuse_given(options, (*_OF_TRAIN, *_SETTINGS, "out"), "`banyan classify train`")
        _predict(options)


def _train(options: argparse.Namespace) -> None:
    if options.out is None:
        options.parser.error("--out DIR is missing")
    if options.texts == "-":
        options.parser.error("LABELLED is missing: a file with a text and its label in each row")
    from banyan.classify import train_classifier

    names = ("columns", "quiet", *_OF_TRAIN, *_SETTINGS)
    given = {name: getattr(options, name) for name in names if hasattr(options, name)}
    train_classifier(options.model, options.texts, options.out, **given)


def _predict(options: argparse.Namespace) -> None:
    from banyan.classify import Classifier

    if options.top < 1:
        options.parser.error(f"--top must be at least 1, not {options.top}")
    classifier = Classifier.from_pretrained(options.model)
    if classifier.pair:
        options.parser.refuse_given(options, ["column"], "classifiers of single texts: --columns names both texts")
    else:
        options.parser.refuse_given(options, ["columns"], "classifiers of pairs: --column names the text")
    inputs = _inputs(options, classifier)
    with output(options.to) as write:
        while block := list(islice(inputs, _BLOCK)):
            for line in _predicted(classifier, block, options):
                write(line)


def _inputs(options: argparse.Namespace, classifier: Classifier) -> Iterator[Any]:
    """The texts to classify, or pairs of texts: two columns."""
    if classifier.pair:
        yield from _pairs(options)
    elif options.texts == "-":
        yield from lines_of_stdin()
    else:
        from banyan.corpus.reading import Corpus
        from banyan.corpus.report import Report

        report = Report()
        yield from Corpus([options.texts], column=options.column, layout="lines").rows(report)
        if told := report.repairs():
            from banyan.support.display import Display

            Display().note(told)


def _pairs(options: argparse.Namespace) -> Iterator[tuple[str, str]]:
    if options.texts == "-":
        for number, line in enumerate(lines_of_stdin(), 1):
            pair = line.split("\t")
            if len(pair) < 2:
                raise BanyanError(f"line {number} of standard input is not a pair: put a tab between the two texts")
            yield pair[0], pair[1]
        return
    from banyan.classify.labelled import read_pairs

    yield from read_pairs(options.texts, options.columns)


def _predicted(classifier: Classifier, block: list[Any], options: argparse.Namespace) -> Iterator[str]:
    import numpy as np

    p = classifier.predict_proba(block)
    for given, label, row in zip(block, classifier.labels(p), p, strict=True):
        ranked = [(classifier.classes[c], float(row[c])) for c in np.argsort(-row, kind="stable")]
        best = ranked[: options.top]
        why = classifier.explain(given, best[0][0]) if options.explain else None
        if options.format == "json":
            named = {"texts": list(given)} if classifier.pair else {"text": given}
            shown = ranked[: max(options.top, len(label))] if classifier.several else best  # all that are predicted
            found = {**named, "label": label, "probabilities": {name: round(value, 6) for name, value in shown}}
            yield json.dumps({**found, **({"why": why.to_dict()} if why else {})}, ensure_ascii=False)
        else:
            cells = [cell for name, value in best for cell in (name, f"{value:.4f}")]
            if classifier.several and options.top == 1:
                of = dict(ranked)
                cells = [",".join(label), ",".join(f"{of[name]:.4f}" for name in label)]
            texts = given if classifier.pair else (given,)
            yield "\t".join([*cells, *(" ".join(text.split()) for text in texts)])
            if why:
                yield why.to_text()
