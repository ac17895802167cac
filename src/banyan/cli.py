"""The command `banyan`: arguments in, one call, result out.

Results go to standard output, everything else to standard error. What a command needs is imported when it runs, so
that help is instant.
"""

from __future__ import annotations

import argparse
import dataclasses
import difflib
import io
import itertools
import json
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from banyan._version import __version__
from banyan.baselines.command import baseline, baseline_arguments
from banyan.config import CHOICES, DEFAULT_PRESET, PRESETS, Config
from banyan.errors import BanyanError
from banyan.files import write_text
from banyan.integrations import command as integrating
from banyan.scale import command as scaling
from banyan.search import command as searching
from banyan.serve.command import serve, serve_arguments

if TYPE_CHECKING:
    from banyan.encoder import Banyan
    from banyan.tree import Tree

USAGE_ERROR, INTERRUPTED, BROKEN_PIPE = 2, 130, 141  # exit codes; 1 for every other error


_OF_TRAINING = ("torch", "matplotlib")  # the packages of the extra


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; its exit code. BANYAN_DEBUG=1 shows the traceback of an error."""
    if sys.stdout is None:  # closed by whoever started us
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a terminal that has no └ still shows the words
    try:
        try:
            options = _options(list(sys.argv[1:] if argv is None else argv))
            options.command(options)
        finally:
            sys.stdout.flush()
    except BrokenPipeError:  # whoever read our output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    except KeyboardInterrupt as error:
        return _failed(error, str(error) or "interrupted", INTERRUPTED)
    except SystemError as error:
        if not isinstance(error.__cause__, KeyboardInterrupt):
            raise
        return _failed(error, "interrupted", INTERRUPTED)  # inside a compiled function, which cannot say so itself
    except BanyanError as error:
        return _failed(error, str(error), 1)
    except ModuleNotFoundError as error:
        if error.name not in _OF_TRAINING:
            raise
        return _failed(error, f'training needs {error.name}: pip install "banyan-embed[train]"', 1)
    except OSError as error:
        return _failed(error, f"{error.filename}: {error.strerror}" if error.filename else str(error), 1)
    return 0


def _failed(error: BaseException, told: str, code: int) -> int:
    if os.environ.get("BANYAN_DEBUG") == "1":
        raise error
    print(f"banyan: {told}", file=sys.stderr)
    return code


# --- Commands --------------------------------------------------------------------------------------------------------


def _train(options: argparse.Namespace) -> None:
    from banyan.training import train

    values = {name: value for name, value in vars(options).items() if name not in ("command", "parser")}
    train(values.pop("corpus"), values.pop("out"), **values)


def _encode(options: argparse.Namespace) -> None:
    from banyan import compact
    from banyan.display import Display
    from banyan.encoding import encode_file

    compact.check(options.truncate_dim, options.precision, options.normalize)
    names = ("normalize", "truncate_dim", "precision", "column", "resume", "overwrite")
    given = {name: getattr(options, name) for name in names}
    display = Display(options.quiet)
    if options.engine == "ray":
        display.note(scaling.encode(options, display=display, **given))
    else:
        display.note(str(encode_file(_model(options), options.input, options.out, display=display, **given)))


def _tree(options: argparse.Namespace) -> None:
    model, form = _model(options), _form(options)
    trees = _trees(model, options)
    if form == "svg":
        trees = _only(list(trees))
    with _output(options.out) as write:
        for number, tree in enumerate(trees):
            write("\n" * (form == "text" and number > 0) + _TREE_FORMS[form](tree))


def _trees(model: Banyan, options: argparse.Namespace) -> Iterator[Tree]:
    for text in _texts(options):
        if options.brackets or options.bare:
            yield from model.parse_brackets(text, labels=not options.bare)
        else:
            yield model.parse(text)


def _only(trees: list[Tree]) -> Iterator[Tree]:
    if len(trees) != 1:
        raise BanyanError(f"an SVG shows one tree, not {len(trees)}: give one text")
    return iter(trees)


_TREE_FORMS: dict[str, Callable[[Tree], str]] = {
    "text": str,
    "brackets": lambda tree: tree.to_brackets(),
    "json": lambda tree: tree.to_json(),
    "svg": lambda tree: tree.to_svg(),
}


def _similar(options: argparse.Namespace) -> None:
    if options.inside is None:
        if len(options.text) != 2:
            options.parser.error(f"two texts are compared, or one is looked for --in FILE; found {len(options.text)}")
        print(f"{_model(options).similarity(*options.text):.4f}")
        return
    if len(options.text) != 1:
        options.parser.error(f"one text is looked for in {options.inside}; found {len(options.text)}")
    from banyan.encoding import most_similar
    from banyan.svg import visible

    for hit in most_similar(_model(options), options.text[0], options.inside, options.k, column=options.column):
        print(f"{hit.score:.4f}\t{hit.row}\t{visible(hit.text)}")


def _explain(options: argparse.Namespace) -> None:
    form = _form(options)
    explanation = _model(options).explain(options.a, options.b)
    with _output(options.out) as write:
        if form == "text":
            colours = options.out is None and sys.stdout.isatty() and "NO_COLOR" not in os.environ
            write(explanation.to_text(color=colours))
        else:
            write(explanation.to_svg() if form == "svg" else explanation.to_json())


def _eval(options: argparse.Namespace) -> None:
    from banyan import compact
    from banyan.display import Display
    from banyan.evaluate import suites, table

    table.check_names(options.out)
    compact.check(options.truncate_dim, options.precision)
    display = Display(options.quiet)
    tasks = _eval_tasks(options, display.note)
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

    model = baselines.load(folder, device) if baselines.is_baseline(folder) else _load(folder, device)
    if not hasattr(model, "encode"):
        if truncate_dim or precision != "float32":
            raise BanyanError(f"{folder} compares texts without vectors: there is nothing to truncate or round")
        return model, folder
    form = compact.Form.of(model.dim, truncate_dim, precision)
    return compact.comparable(model, form), folder if form == compact.Form(model.dim) else f"{folder} ({form})"


def _eval_tasks(options: argparse.Namespace, tell: Callable[[str], None]) -> list[Any]:
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


def _info(options: argparse.Namespace) -> None:
    model = _model(options)
    about = _about(model, model.folder or Path(options.model))
    if options.json:
        print(json.dumps(about, indent=2, ensure_ascii=False))
        return
    for title, value in about.items():
        if not isinstance(value, dict):
            print(f"{title}: {_shown(value)}")
            continue
        width = max(map(len, value), default=0)
        print("\n".join([f"\n{title}", *(f"  {name:{width}}  {_shown(part)}" for name, part in value.items())]))


def _demo(options: argparse.Namespace) -> None:
    from banyan.demo import run_demo

    run_demo(options.out)


def _model(options: argparse.Namespace) -> Banyan:
    return _load(options.model, getattr(options, "device", "cpu"))


def _load(folder: str, device: str) -> Banyan:
    from banyan.display import COMPILING, Display
    from banyan.encoder import Banyan

    with Display().patience(COMPILING):
        model = Banyan.from_pretrained(folder, device)
        model.encode("The first text of all may have to wait.")
    return model


# --- What `banyan info` tells ----------------------------------------------------------------------------------------


def _about(model: Banyan, folder: Path) -> dict[str, Any]:
    config = model.config
    output_layer = [weights.size for name, weights in model.weights.items() if name.startswith("out_")]
    beside = f" and {config.lexical} lexical ones" if config.lexical else ""
    about: dict[str, Any] = {
        "model": str(folder),
        "written by": f"banyan {json.loads((folder / 'config.json').read_text('utf-8')).get('banyan_version')}",
        "dimensions": f"{config.dim} ({config.channels} channels of width {config.width})" + beside,
        "vocabulary": len(model.embedding),
        **_training_text(folder / "README.md"),
        "parameters": {
            "composition and decomposition": sum(vector.size for vector in model.functions),
            "embedding": model.embedding.size,
            "output layer (training only)": sum(output_layer),
        },
        "settings": config.to_dict(),
        "last epoch": _last_epoch(folder / "metrics.jsonl"),
        "files (bytes)": {path.name: path.stat().st_size for path in sorted(folder.iterdir()) if path.is_file()},
    }
    return {title: value for title, value in about.items() if value != {}}


def _training_text(card: Path) -> dict[str, str]:
    """The figures of the corpus that the model card gives, if there is one."""
    text = card.read_text(encoding="utf-8") if card.exists() else ""
    _, found, rest = text.partition("## Training text\n")
    return {"training text": " ".join(rest.partition("\n## ")[0].split())} if found else {}


def _last_epoch(metrics: Path) -> dict[str, Any]:
    lines = metrics.read_text(encoding="utf-8").splitlines() if metrics.exists() else []
    return next((json.loads(line) for line in reversed(lines) if "finished_epoch" in line and line[-1] == "}"), {})


def _shown(value: object) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


# --- Texts in, results out -------------------------------------------------------------------------------------------


def _texts(options: argparse.Namespace) -> Iterator[str]:
    """The texts given as arguments; "-" stands for the lines of standard input."""
    for text in options.text:
        if text != "-":
            yield text
            continue
        if isinstance(sys.stdin, io.TextIOWrapper):
            sys.stdin.reconfigure(encoding="utf-8-sig", errors="replace")
        if options.brackets:  # a tree may go over several lines
            yield sys.stdin.read()
        else:
            yield from (line.removesuffix("\n") for line in sys.stdin)


def _text(argument: str) -> str:
    """A text from the command line, where bytes that are not UTF-8 arrive as lone surrogates."""
    return argument.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _form(options: argparse.Namespace) -> str:
    """The form asked for, or the one that the name of the output file says."""
    return options.format or {".svg": "svg", ".json": "json"}.get(Path(options.out or "").suffix, "text")


@contextmanager
def _output(path: str | None) -> Iterator[Callable[[str], None]]:
    """Prints, or collects for a file that appears whole."""
    if path is None:
        yield lambda text: print(text.removesuffix("\n"), flush=True)
        return
    if not Path(path).parent.is_dir():
        raise BanyanError(f"there is no folder {Path(path).parent} to write {Path(path).name} to")
    written: list[str] = []
    yield written.append
    write_text(path, "".join(text.removesuffix("\n") + "\n" for text in written))


# --- Arguments -------------------------------------------------------------------------------------------------------


def _options(argv: list[str]) -> argparse.Namespace:
    parser, commands = _parsers()
    if not argv:
        parser.print_help(sys.stderr)
        raise SystemExit(USAGE_ERROR)
    if not argv[0].startswith("-") and argv[0] not in commands:
        parser.refuse(f"there is no command {argv[0]}", argv[0], commands)
    chosen = commands.get(argv[0], parser)
    for argument in itertools.takewhile(lambda argument: argument != "--", argv):
        name = argument.partition("=")[0]
        if name.startswith("--") and " " not in name and name not in chosen.names:
            chosen.refuse(f"there is no option {name}", name, chosen.names)
    return parser.parse_args(argv)


class _Parser(argparse.ArgumentParser):
    def __init__(self, **options: Any) -> None:
        super().__init__(allow_abbrev=False, formatter_class=_Help, **options)

    @property
    def names(self) -> list[str]:
        return [name for action in self._actions for name in action.option_strings]

    def error(self, message: str) -> NoReturn:
        self.exit(USAGE_ERROR, f"{self.prog}: {message} (see {self.prog} --help)\n")

    def refuse(self, problem: str, name: str, known: Iterable[str]) -> NoReturn:
        near = difflib.get_close_matches(name, known, n=1)
        self.error(f"{problem}; did you mean {near[0]}?" if near else problem)


class _Help(argparse.RawDescriptionHelpFormatter):
    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=30)


def _parsers() -> tuple[_Parser, dict[str, _Parser]]:
    """The whole parser, and those of its commands."""
    parser = _Parser(
        prog="banyan",
        description="Sentence embeddings from your own text: train a model, encode, look into its trees.",
        epilog=_examples([command.examples[0] for command in _COMMANDS.values()]),
    )
    parser.add_argument("--version", action="version", version=f"banyan {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    made = {}
    for name, command in _COMMANDS.items():
        about = f"{command.purpose[0].upper()}{command.purpose[1:]}.\n{command.more}"
        sub = commands.add_parser(name, help=command.purpose, description=about, epilog=_examples(command.examples))
        sub.set_defaults(command=command.run, parser=sub)
        command.arguments(sub)
        made[name] = sub
    return parser, made


def _examples(lines: Iterable[str]) -> str:
    return "\n".join(["examples:", *(f"  {line}" for line in lines)])


def _train_arguments(parser: _Parser) -> None:
    parser.usage = "banyan train CORPUS [CORPUS ...] --out DIR [options]"
    parser.add_argument("corpus", nargs="+", metavar="CORPUS", help=_SOURCES)
    parser.add_argument("--out", required=True, metavar="DIR", help="the model's folder")
    presets = (
        f"where the settings start from: {', '.join(PRESETS)} (default: {DEFAULT_PRESET}); self-strae is the paper's "
        "predecessor: linear functions, plain trees, contrastive"
    )
    parser.add_argument("--preset", help=presets)
    groups = {name: parser.add_argument_group(name) for name in ("text", "model", "training", "run")}
    _text_arguments(groups["text"])
    parser.set_defaults(layout="auto")
    _settings(groups)
    _run_arguments(groups["run"])


def _text_arguments(group: argparse._ArgumentGroup) -> None:
    _column(group)
    layout = group.add_mutually_exclusive_group()
    running = "running text, to be split into sentences (default: judged by the text)"
    for name, told in (("lines", "one sentence per line"), ("running", running)):
        layout.add_argument(f"--{name}", action="store_const", const=name, dest="layout", help=told)
    group.add_argument("--dev", metavar="FILE", help="held-out text (default: 1%% of the corpus)")
    tokenizer = "a tokenizer.json or SentencePiece .model to use (default: one is made of the corpus)"
    group.add_argument("--tokenizer", metavar="FILE", help=tokenizer)


def _run_arguments(group: argparse._ArgumentGroup) -> None:
    pairs = "two texts and a score a line, to be scored after each epoch"
    group.add_argument("--eval", dest="pairs", metavar="PAIRS", help=pairs)
    group.add_argument("--init", metavar="MODEL", help="start from the weights and the tokenizer of a finished model")
    group.add_argument("--resume", action="store_true", help="go on with an interrupted run")
    group.add_argument("--overwrite", action="store_true", help="start again where DIR holds a model or a run")
    group.add_argument(
        "--checkpoint-every",
        type=float,
        default=60.0,
        dest="checkpoint_seconds",
        metavar="SECONDS",
        help="so much work is lost at most (default: 60)",
    )
    device = "auto, cpu, cuda, cuda:1, mps, xpu (default: auto, the accelerator that torch finds, else the CPU)"
    group.add_argument("--device", default="auto", help=device)
    precision = "of the output layer (default: auto, the fastest that the device has)"
    group.add_argument("--precision", default="auto", metavar="auto|float32|tf32|bf16", help=precision)
    same_bits = "the same seed gives the same bits on a device too (slower; the CPU always does)"
    group.add_argument("--deterministic", action="store_true", help=same_bits)
    group.add_argument("--tensorboard", action="store_true", help="also write TensorBoard's files to DIR/tensorboard")
    group.add_argument("--quiet", action="store_true", help="show errors only")


def _settings(groups: dict[str, argparse._ArgumentGroup]) -> None:
    """An option for each setting of Config that has none of its own; only those given reach `train`."""
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


def _encode_arguments(parser: _Parser) -> None:
    _model_argument(parser)
    parser.add_argument("input", nargs="+", metavar="INPUT", help=_SOURCES)
    parser.add_argument("-o", "--out", required=True, help="a file whose name ends in .npy, .parquet or .jsonl")
    parser.add_argument("--normalize", action="store_true", help="give every embedding length 1")
    _compact_arguments(parser)
    _column(parser)
    parser.add_argument("--device", default="cpu", help="cpu, cuda, cuda:1 or auto (default: cpu)")
    parser.add_argument("--resume", action="store_true", help="go on with a killed run; pipe the same text again for -")
    parser.add_argument("--overwrite", action="store_true", help="replace OUT, and what a killed run left of it")
    scaling.engine_argument(parser)
    parser.add_argument("--quiet", action="store_true", help="show errors only")


def _tree_arguments(parser: _Parser) -> None:
    _model_argument(parser)
    text = "a sentence; - for the lines of standard input"
    parser.add_argument("text", nargs="+", type=_text, metavar="TEXT", help=text)
    brackets = "TEXT is a tree already, as (S (NP the cat) (VP sat)): compose it as given"
    parser.add_argument("--brackets", action="store_true", help=brackets)
    parser.add_argument("--bare", action="store_true", help="with --brackets: they have no labels, as ((the cat) sat)")
    _form_arguments(parser, list(_TREE_FORMS))


def _similar_arguments(parser: _Parser) -> None:
    _model_argument(parser)
    parser.add_argument("text", nargs="+", type=_text, metavar="TEXT", help="two texts; or one, to look for in FILE")
    inside = "print the rows of FILE most similar to TEXT: cosine, row number, text (- for standard input)"
    parser.add_argument("--in", dest="inside", metavar="FILE", help=inside)
    parser.add_argument("-k", type=int, default=10, metavar="N", help="how many of them (default: 10)")
    _column(parser)


def _explain_arguments(parser: _Parser) -> None:
    _model_argument(parser)
    parser.add_argument("a", type=_text, metavar="A", help="a text")
    parser.add_argument("b", type=_text, metavar="B", help="another")
    _form_arguments(parser, ["text", "json", "svg"])


def _eval_arguments(parser: _Parser) -> None:
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
    _compact_arguments(parser.add_argument_group("smaller vectors", kept))
    result = parser.add_argument_group("result")
    against = "a second model: each figure of both, and their difference with its own interval"
    result.add_argument("--against", metavar="MODEL", help=against)
    out = "also write the table to FILE.json or FILE.md; may be given more than once"
    result.add_argument("-o", "--out", action="append", default=[], metavar="FILE", help=out)
    parser.add_argument("--device", default="cpu", help="cpu, cuda, cuda:1 or auto (default: cpu)")
    parser.add_argument("--quiet", action="store_true", help="show the table and errors only")


_EVAL_MORE = """Every figure comes with its 95% interval (bootstrap over the items of the set).

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


def _info_arguments(parser: _Parser) -> None:
    _model_argument(parser)
    parser.add_argument("--json", action="store_true", help="the same for programs")


def _demo_arguments(parser: _Parser) -> None:
    parser.add_argument("--out", default="demo-model", metavar="DIR", help="the model's folder (default: demo-model)")


def _model_argument(parser: _Parser) -> None:
    parser.add_argument("model", metavar="MODEL", help="a folder that banyan train wrote")


def _column(group: Any) -> None:
    group.add_argument("--column", metavar="NAME", help="the column of JSON lines, Parquet, CSV or TSV that holds text")


def _compact_arguments(group: Any) -> None:
    precision = (
        "int8: a byte for each dimension, to be compared by cosine; binary: a bit for each (is it above 0?), eight to "
        "a byte, to be compared by Hamming distance (default: float32, four bytes)"
    )
    group.add_argument("--precision", default="float32", metavar="float32|int8|binary", help=precision)
    truncate = "keep the first N dimensions only (default: all)"
    group.add_argument("--truncate-dim", type=int, metavar="N", help=truncate)


def _form_arguments(parser: _Parser, forms: list[str]) -> None:
    default = "default: text, or svg or json if the name of FILE ends so"
    parser.add_argument("--format", choices=forms, metavar="FORMAT", help=f"{', '.join(forms)} ({default})")
    parser.add_argument("-o", "--out", metavar="FILE", help="write to FILE (default: standard output)")


_SOURCES = "a file (plain, .gz, .xz, .zst), a folder, a glob, hf:name[:config], or - for standard input"


class _Command(NamedTuple):
    run: Callable[[argparse.Namespace], None]
    arguments: Callable[[_Parser], None]
    purpose: str
    more: str
    examples: tuple[str, ...]


_COMMANDS = {
    "train": _Command(
        _train,
        _train_arguments,
        "train a model on your own text",
        "The result is a folder; a run that was stopped or killed goes on with --resume.",
        (
            "banyan train corpus.txt --out model/",
            "banyan train texts/ more.jsonl.gz --column text --out model/ --epochs 5 --candidates batch",
            "banyan train corpus.txt --out model/ --resume",
            "banyan train new.txt --init model/ --out better/ --eval pairs.tsv",
            "torchrun --nproc-per-node 8 -m banyan train corpus.txt --out model/",
        ),
    ),
    "encode": _Command(
        _encode,
        _encode_arguments,
        "turn every line of a file into an embedding",
        "Row i of OUT is line i of INPUT (or row i of a table); an empty line gives zeros.",
        (
            "banyan encode model/ sentences.txt -o vectors.npy",
            "banyan encode model/ rows.parquet --column title -o out.parquet --normalize",
            "banyan encode model/ sentences.txt -o small.npy --precision int8 --truncate-dim 128",
            "zcat big.txt.gz | banyan encode model/ - -o vectors.jsonl",
        ),
    ),
    "tree": _Command(
        _tree,
        _tree_arguments,
        "show the tree that a model makes of a sentence",
        "Each merge shows the cosine of its two parts.",
        (
            'banyan tree model/ "the cat sat on the mat"',
            'banyan tree model/ "the cat sat on the mat" -o tree.svg',
            'banyan tree model/ --brackets "(S (NP the cat) (VP sat))"',
            "banyan tree model/ - --format json < sentences.txt > trees.jsonl",
        ),
    ),
    "similar": _Command(
        _similar,
        _similar_arguments,
        "compare two texts, or search a file for the most similar lines",
        "Similarity is the cosine of the embeddings.",
        (
            'banyan similar model/ "the cat sat" "a dog slept"',
            'banyan similar model/ "how do I reset it" --in questions.txt -k 5',
        ),
    ),
    "explain": _Command(
        _explain,
        _explain_arguments,
        "show which words make two texts similar",
        "With trees and lengths held fixed, the cosine is exactly the sum of the cells.",
        (
            'banyan explain model/ "the cat sat" "a dog slept"',
            'banyan explain model/ "the cat sat" "a dog slept" -o why.svg',
        ),
    ),
    "eval": _Command(
        _eval,
        _eval_arguments,
        "measure a model on test sets, the paper's or your own",
        _EVAL_MORE,
        (
            "banyan eval model/ --suite sts --data data/eval",
            "banyan eval model/ --suite sts --data data/ --fetch",
            "banyan eval model/ --suite paper --data data/ -o results.json -o results.md",
            "banyan eval model/ --suite dev --data data/ --against other-model/",
            "banyan eval hindi/ --suite languages --languages hi --data data/eval",
            "banyan eval model/ --pairs pairs.tsv more.csv --words list.tsv --beir my-corpus/",
        ),
    ),
    "info": _Command(
        _info,
        _info_arguments,
        "tell what a model is",
        "",
        ("banyan info model/", "banyan info model/ --json"),
    ),
    "demo": _Command(
        _demo,
        _demo_arguments,
        "train on the text that comes with Python, then search it by meaning",
        "Nothing is downloaded; it takes two or three minutes.",
        ("banyan demo", "banyan demo --out /tmp/demo-model"),
    ),
    "serve": _Command(
        serve,
        serve_arguments,
        "serve a model over HTTP, as OpenAI and Text Embeddings Inference do",
        "GET /docs describes the interface. More: docs/serving.md.",
        (
            "banyan serve model/ --port 8080",
            "banyan serve model/ --host 0.0.0.0 --api-key-file key.txt --workers 4",
            "banyan serve model/ --name text-embedding-3-small --quiet",
        ),
    ),
    "index": _Command(
        searching.index,
        searching.index_arguments,
        "make an index of a collection, to search it",
        "The same command goes on where a killed one was. Files are added to those that are in the index already.",
        (
            "banyan index model/ texts/ -o index/",
            "banyan index model/ books.csv --column title --keep year:int author -o index/",
            "banyan index model/ books.csv --column title -o index/ --update",
            'banyan index -o index/ --delete "year = 1900"',
        ),
    ),
    "search": _Command(
        searching.search,
        searching.search_arguments,
        "search an index by meaning, by words, or by both",
        "Words between asterisks (in colour on a terminal) are those that make a result similar to the query.",
        (
            'banyan search index/ "how the railway came to Wales"',
            "banyan search index/",
            'banyan search index/ "rail" --where "year >= 1900" --by words --json',
        ),
    ),
    "export": _Command(
        integrating.export,
        integrating.export_arguments,
        "write a model for programs that know nothing of Banyan",
        "What each form loses, measured: docs/integrations.md.",
        (
            "banyan export model/ --format onnx -o onnx/",
            "banyan export model/ --format static -o static/",
        ),
    ),
    "push": _Command(
        integrating.push,
        integrating.push_arguments,
        "upload a model and its card to the Hugging Face Hub",
        "Log in first, with `hf auth login`. Every command takes the name of such a model where it takes a folder.",
        ("banyan push model/ you/your-model --language la --license cc-by-4.0",),
    ),
    "cluster": _Command(
        searching.cluster,
        searching.cluster_arguments,
        "tell what is in an index: clusters with typical phrases, near-duplicates",
        "",
        (
            "banyan cluster index/",
            "banyan cluster index/ --clusters 20 --alike 0.9 -o rows.csv",
        ),
    ),
    "map": _Command(
        searching.map,
        searching.map_arguments,
        "draw an index as a map, one HTML file to be opened in a browser",
        "Similar texts lie close together; colours are clusters.",
        (
            "banyan map index/ -o map.html",
            "banyan map index/ -o map.html --where \"year >= 1900\" --method pca",
        ),
    ),
    "baseline": _Command(
        baseline,
        baseline_arguments,
        "train or load what Banyan is compared with: GloVe, Sent2Vec, transformers, TF-IDF, ...",
        "Without a name: which there are, and when each wins. More: docs/baselines/.",
        (
            "banyan baseline glove corpus.txt --out glove/",
            "banyan baseline sent2vec corpus.txt --out sent2vec/ --set epochs=5 dim=100",
            "banyan baseline pretrained sentence-transformers/all-MiniLM-L6-v2 --out minilm/",
            "banyan baseline dice --out dice/",
        ),
    ),
}
