"""`banyan train`."""

from __future__ import annotations

import argparse
import dataclasses
from typing import Any

from banyan.commands._parser import Parser
from banyan.commands._shared import QUIET, SOURCES, column_argument
from banyan.support.needs import needs

GROUP, ORDER = "train", 1
PURPOSE = "train a model on your own text"
DESCRIPTION = "Writes a model folder. --resume continues a run that was stopped or killed."
EXAMPLES = (
    "banyan train corpus.txt --out model/",
    "banyan train texts/ more.jsonl.gz --column text --out model/ --epochs 5 --candidates batch",
    "banyan train corpus.txt --out model/ --resume",
    "banyan train new.txt --init model/ --out better/ --eval pairs.tsv",
    "torchrun --nproc-per-node 8 -m banyan train corpus.txt --out model/",
)


def arguments(parser: Parser) -> None:
    from banyan.config import DEFAULT_PRESET, PRESETS

    parser.usage = "banyan train CORPUS [CORPUS ...] --out DIR [options]"
    parser.add_argument("corpus", nargs="+", metavar="CORPUS", help=SOURCES)
    parser.add_argument("--out", required=True, metavar="DIR", help="folder to write the model to")
    presets = (
        f"settings to start from: {', '.join(PRESETS)} (default: {DEFAULT_PRESET}); self-strae is the model that the "
        "paper improves on: linear composition, plain trees, contrastive loss"
    )
    parser.add_argument("--preset", help=presets)
    groups = {name: parser.add_argument_group(name) for name in ("text", "model", "training", "run")}
    _text_arguments(groups["text"])
    parser.set_defaults(layout="auto")
    _settings(groups)
    _run_arguments(groups["run"])


def _text_arguments(group: argparse._ArgumentGroup) -> None:
    column_argument(group)
    layout = group.add_mutually_exclusive_group()
    running = "the corpus is running text, to be split into sentences (default: detected)"
    for name, told in (("lines", "the corpus has one sentence per line"), ("running", running)):
        layout.add_argument(f"--{name}", action="store_const", const=name, dest="layout", help=told)
    group.add_argument("--dev", metavar="FILE", help="held-out text (default: 1%% of the corpus)")
    tokenizer = "a tokenizer.json or SentencePiece .model to use (default: train one on the corpus)"
    group.add_argument("--tokenizer", metavar="FILE", help=tokenizer)


def _run_arguments(group: argparse._ArgumentGroup) -> None:
    pairs = "scored pairs to evaluate on after each epoch: two texts and a score per line"
    group.add_argument("--eval", dest="pairs", metavar="PAIRS", help=pairs)
    group.add_argument("--init", metavar="MODEL", help="start from the weights and tokenizer of this model")
    group.add_argument("--resume", action="store_true", help="continue an interrupted run")
    group.add_argument("--overwrite", action="store_true", help="start over, replacing the model or run in DIR")
    group.add_argument(
        "--checkpoint-every",
        type=float,
        default=60.0,
        dest="checkpoint_seconds",
        metavar="SECONDS",
        help="time between checkpoints (default: 60)",
    )
    device = "cpu, cuda, cuda:1, mps, xpu or auto (default: auto, an accelerator if torch finds one, otherwise the CPU)"
    group.add_argument("--device", default="auto", help=device)
    precision = "precision of the output layer (default: auto, the fastest that the device supports)"
    group.add_argument("--precision", default="auto", metavar="auto|float32|tf32|bf16", help=precision)
    same_bits = "make runs with the same seed bit-identical on accelerators too (slower; CPU runs always are)"
    group.add_argument("--deterministic", action="store_true", help=same_bits)
    group.add_argument("--tensorboard", action="store_true", help="also write TensorBoard logs to DIR/tensorboard")
    group.add_argument("--quiet", action="store_true", help=QUIET)


def _settings(groups: dict[str, argparse._ArgumentGroup]) -> None:
    """An option for each setting of Config that has none of its own; only those given reach `train`."""
    from banyan.config import CHOICES, Config

    group = groups["model"]
    for field in dataclasses.fields(Config):
        group = groups[_FIRST_OF[field.name]] if field.name in _FIRST_OF else group
        if field.name == "preset":
            continue
        kind = str(field.type).split(" ")[0]
        default = _UNSAID[field.name] if field.default is None else field.default
        told = f"{_SETTINGS.get(field.name, '')} (default: {_YES_NO.get(str(default), default)})"
        option: dict[str, Any] = {"default": argparse.SUPPRESS, "help": told}
        if kind == "bool":
            option["action"] = argparse.BooleanOptionalAction
        else:
            option["type"] = {"int": int, "float": float, "str": str}[kind]
            option["metavar"] = "|".join(CHOICES.get(field.name, ["N" if kind == "int" else "X"]))
        group.add_argument(f"--{field.name.replace('_', '-')}", **option)


def run(options: argparse.Namespace) -> None:
    with needs("Training", "train"):
        from banyan.training import train

    values = {name: value for name, value in vars(options).items() if name not in ("command", "parser")}
    train(values.pop("corpus"), values.pop("out"), **values)


_UNSAID = {
    "vocab_size": "chosen to suit the corpus",
    "leaf_dropout": "as --dropout",
    "clip": "any",
    "gate": "the authors', about 0.68",
}
_YES_NO = {"True": "yes", "False": "no"}
_FIRST_OF = {"dim": "model", "pieces": "text", "epochs": "training"}  # Config's settings come in this order
_SETTINGS = {
    "dim": "E, the dimensions of an embedding (that are learnt)",
    "channels": "K, the channels they are seen as; U = E / K",
    "functions": "what composes and decomposes: 7·U numbers, or the 4·U² + 3·U of Self-StrAE",
    "trees": "plain: every occurrence is a node of its own",
    "structure": "how trees are made: the closest pair merges; or controls that look at no vector",
    "ngrams": "buckets of character n-grams whose vectors are added to those of leaves (0: none)",
    "ngram_shortest": "characters of the shortest",
    "ngram_longest": "and of the longest",
    "dropout": "share of values dropped in training",
    "leaf_dropout": "the same of leaves, if it is to be another",
    "pieces": "how the vocabulary is made",
    "vocab_size": "pieces of the vocabulary",
    "vocab_factor": "times as many as suit the corpus, where --vocab-size is not said",
    "lowercase": "read all text in lower case",
    "zero_digits": "read every digit as 0",
    "repeats": "every occurrence of a token in a text is a leaf; without, of n only 1 + ln n when texts are encoded",
    "min_pieces": "shorter sentences are not trained on",
    "max_pieces": "longer sentences are not trained on",
    "epochs": "times through the corpus (where the preset does not say: up to 15, the smaller the corpus the more)",
    "batch_size": "sentences of a step",
    "lr": "learning rate of Adam",
    "clip": "the greatest norm of a step's gradient, if there is to be one",
    "objective": "rebuild the leaves, or know every node again on its way down, or half of both",
    "crops": "weight of a second objective: two crops of a sentence find each other by their roots (0: none)",
    "crop_temperature": "by which their cosines are divided",
    "crop_shortest": "share of the sentence that a crop has at least",
    "crop_kind": "free: each anywhere in its sentence; parts: the sentence is cut in two",
    "spelling": "length of the sketch of its characters that a token begins with, on average (0: none)",
    "lexical": "dimensions beside those that are learnt: the sum of such sketches of a text's tokens (0: none)",
    "lexical_weight": "length of that sum in an embedding, where what is learnt has length 1",
    "company": "length of the vector of its neighbours in the text that a token begins with (0: none)",
    "gate": "share of a child that its parent takes, to begin with",
    "lr_end": "share of the learning rate that is left at the end of all epochs; until then it falls evenly",
    "candidates": "a leaf is told apart from the whole vocabulary, or from the tokens of its batch (cheaper)",
    "mean_over": "in plain trees, every leaf counts, or every distinct token once",
    "seed": "of everything random",
}
