"""`banyan train`."""

from __future__ import annotations

import argparse
from typing import Any

from banyan.commands._parser import Parser
from banyan.commands._shared import SOURCES, column_argument, flag, run_arguments, setting_argument, value_in_words
from banyan.support.needs import needs

GROUP, ORDER = "train", 1
PURPOSE = "train a model on your own text"
DESCRIPTION = """Writes a model folder. --resume continues a run that was stopped or killed.
After Ctrl-C and after each epoch (at most every 5 s), the folder holds a usable model, marked as unfinished."""
EXAMPLES = (
    "banyan train corpus.txt --out model/",
    "banyan train texts/ more.jsonl.gz --column text --out model/ --epochs 5 --candidates batch",
    "banyan train corpus.txt --out model/ --resume",
    "banyan train new.txt --init model/ --out better/ --eval pairs.tsv",
    "banyan train corpus.txt --teacher sentence-transformers/all-MiniLM-L6-v2 --out model/",
    "banyan train hausa.txt --parallel english-hausa.tsv --teacher sentence-transformers/all-MiniLM-L6-v2 --out model/",
    "torchrun --nproc-per-node 8 -m banyan train corpus.txt --out model/",
)
_COMMON = (
    "help", "help_all", "corpus", "out", "preset", "column", "teacher", "teacher_lines", "parallel", "pairs", "resume",
    "overwrite", "device",
)  # fmt: skip


def arguments(parser: Parser) -> None:
    from banyan.config import DEFAULT_PRESET, DROPPED, PRESETS, RENAMED, SMALL_PRESET, TUNED

    parser.usage = "banyan train CORPUS [CORPUS ...] --out DIR [options]"
    parser.renamed = {flag(old): flag(new) for old, new in RENAMED.items()}
    parser.renamed |= {"--repeats": "--no-sublinear-tf", "--no-repeats": "--sublinear-tf"}
    parser.dropped = {flag(old): why for old, why in DROPPED.items()}
    for names, help in ((("-h", "--help"), "show the options most people use"), (("--help-all",), "show every option")):
        parser.add_argument(*names, action=_Help, nargs=0, default=argparse.SUPPRESS, help=help)
    parser.add_argument("corpus", nargs="+", metavar="CORPUS", help=SOURCES)
    parser.add_argument("--out", required=True, metavar="DIR", help="folder to write the model to")
    parser.offered["--preset"] = [name for name in PRESETS if name != TUNED]
    listed = ", ".join(parser.offered["--preset"])
    presets = f"settings to start from: {listed} (default: {DEFAULT_PRESET} with a GPU, {SMALL_PRESET} without)"
    parser.add_argument("--preset", metavar="NAME", help=presets)
    groups = {name: parser.add_argument_group(name) for name in ("text", "teacher", "model", "training", "run")}
    _text_arguments(groups["text"])
    _teaching_arguments(groups["teacher"])
    parser.set_defaults(layout="auto")
    _setting_arguments(groups)
    _run_arguments(groups["run"])
    _card_arguments(groups["run"])


def _text_arguments(group: argparse._ArgumentGroup) -> None:
    from banyan.corpus.reading import LAYOUTS

    column_argument(group)
    layout = group.add_mutually_exclusive_group()
    for name, words in LAYOUTS.items():
        default = " (default: decided by looking at the text)" if name == "running" else ""
        layout.add_argument(
            f"--{name}", action="store_const", const=name, dest="layout", help=f"read {words}{default}"
        )
    group.add_argument("--dev", metavar="FILE", help="held-out text (default: 1%% of the corpus)")
    tokenizer = "tokenizer.json or SentencePiece .model to use (default: train one on the corpus)"
    group.add_argument("--tokenizer", metavar="FILE", help=tokenizer)


def _card_arguments(group: argparse._ArgumentGroup) -> None:
    language = "languages of the corpus, for the model card: la, or la,grc"
    group.add_argument("--language", metavar="LANG[,LANG]", help=language)
    group.add_argument("--license", metavar="NAME", help="licence of the model, for its card: cc-by-4.0")


def _teaching_arguments(group: argparse._ArgumentGroup) -> None:
    teacher = (
        "learn from a model: a sentence-transformers folder or hub name, the address of an OpenAI-compatible "
        "/v1/embeddings (key in BANYAN_TEACHER_KEY), or vectors of the corpus's lines (.npy, .parquet)"
    )
    group.add_argument("--teacher", metavar="NAME", help=teacher)
    lines = "let the teacher encode a sample of N lines (default: all)"
    group.add_argument("--teacher-lines", type=int, metavar="N", help=lines)
    parallel = "learn from translations too: a file of pairs; the teacher reads the first side, the model both"
    group.add_argument("--parallel", metavar="FILE", help=parallel)
    languages = "sides of the translations that the model reads (default: both)"
    group.add_argument("--languages", default="both", metavar="both|second", help=languages)


def _setting_arguments(groups: dict[str, argparse._ArgumentGroup]) -> None:
    """Add an option for each setting of Config but those of tuning."""
    from banyan.config import SETTINGS

    for setting in SETTINGS.values():
        if setting.group in groups:
            setting_argument(groups[setting.group], setting)


def _run_arguments(group: argparse._ArgumentGroup) -> None:
    pairs = "measure each epoch on this file (lines of two texts and a score), keep the best, and compare with TF-IDF"
    group.add_argument("--eval", dest="pairs", metavar="FILE", help=pairs)
    group.add_argument("--init", metavar="MODEL", help="start from the weights and the tokenizer of a finished model")
    precision = "precision of the output layer (default: auto, the fastest the device supports)"
    group.add_argument("--precision", default="auto", metavar="auto|float32|tf32|bf16", help=precision)
    run_arguments(group)


class _Help(argparse.Action):
    """Shows the common options, or all of them, with the values of the preset that is named, or of the default."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> None:
        from banyan.config import SETTINGS, Config

        config = Config.from_preset(_preset(parser.given))
        for action in parser._actions:
            setting = SETTINGS.get(action.dest)
            if setting:
                action.help = f"{setting.help} (default: {value_in_words(config, setting)})"
            if self.dest == "help" and not (setting.common if setting else action.dest in _COMMON):
                action.help = argparse.SUPPRESS
        parser.description += f"\nThe defaults below are those of preset {config.preset}."
        parser.print_help()
        parser.exit()


def _preset(given: list[str]) -> str | None:
    for at, argument in enumerate(given):
        if argument.startswith("--preset="):
            return argument.partition("=")[2]
        if argument == "--preset" and at + 1 < len(given):
            return given[at + 1]
    return None


def run(options: argparse.Namespace) -> None:
    with needs("Training", "train"):
        from banyan.training import train

    values = {name: value for name, value in vars(options).items() if name not in ("command", "parser")}
    train(values.pop("corpus"), values.pop("out"), **values)
