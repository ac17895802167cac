"""`banyan baseline`."""

from __future__ import annotations

import argparse
import inspect
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from banyan.commands._parser import Parser
from banyan.commands._shared import QUIET
from banyan.support.needs import needs

if TYPE_CHECKING:
    from banyan.baselines import Baseline

GROUP, ORDER = "train", 4
PURPOSE = "train or load a baseline: GloVe, Sent2Vec, TF-IDF, transformers and others"
DESCRIPTION = "Without NAME, lists the baselines and what each is best for. See docs/baselines/."
EXAMPLES = (
    "banyan baseline glove corpus.txt --out glove/",
    "banyan baseline sent2vec corpus.txt --out sent2vec/ --set epochs=5 dim=100",
    "banyan baseline pretrained sentence-transformers/all-MiniLM-L6-v2 --out minilm/",
    "banyan baseline dice --out dice/",
)
_KINDS = {
    "trains": "trained on your own text",
    "loads": "pretrained by others",
    "counts": "without training",
}


def arguments(parser: Parser) -> None:
    parser.usage = "banyan baseline [NAME [SOURCE ...] --out DIR] [--set NAME=VALUE ...]"
    parser.add_argument("name", nargs="?", metavar="NAME", help="a baseline (default: list them all)")
    source = "training text, as for banyan train; for a pretrained baseline, a folder or a name on the Hugging Face Hub"
    parser.add_argument("source", nargs="*", metavar="SOURCE", help=f"{source} (default: show the settings of NAME)")
    parser.add_argument("--out", metavar="DIR", help="new folder to write, for banyan eval")
    given = "settings of the baseline; repeatable"
    parser.add_argument("--set", nargs="+", action="append", default=[], metavar="NAME=VALUE", help=given)
    device = "device for transformers: cpu, cuda, cuda:1 or auto (default: auto)"
    parser.add_argument("--device", default="auto", help=device)
    parser.add_argument("--quiet", action="store_true", help=QUIET)


def run(options: argparse.Namespace) -> None:
    from banyan.baselines import BASELINES, for_device, settings_of
    from banyan.baselines.folder import add_cost

    if options.name is None:
        print(_overview())
        return
    if options.name not in BASELINES:
        options.parser.refuse(f"there is no baseline {options.name}", options.name, BASELINES)
    listed, module = BASELINES[options.name], _module(options.name)
    making = module.load if listed.kind == "loads" else module.train
    settings = _given(options, settings_of(making))
    if options.out is None:
        if options.source:
            options.parser.error("--out DIR is missing")
        print(_described(options.name, listed, module, making))
        return
    if listed.kind == "loads":
        _load(options, module, settings)
    else:
        given, started = for_device(module.train, options.device), time.monotonic()
        module.train(options.source, options.out, quiet=options.quiet, **given, **settings)
        add_cost(options.out, time.monotonic() - started)
    if not options.quiet:
        print(f"wrote {options.out}: evaluate it with `banyan eval {options.out} ...`", file=sys.stderr)


def _module(name: str) -> Any:
    from banyan.baselines import module_of

    with needs(f"The baseline {name}", "baselines"):
        return module_of(name)


def _load(options: argparse.Namespace, module: Any, settings: Mapping[str, Any]) -> None:
    """Load the source once to check it, and record its name; keep what was derived from it, if anything."""
    from banyan.baselines import for_device
    from banyan.baselines.folder import Manifest, add_cost, check_new, made

    if len(options.source) != 1:
        options.parser.error(f"{options.name} takes one folder or name, not {len(options.source)}")
    source = options.source[0]
    if Path(source).is_dir():
        source = str(Path(source).absolute())  # so that banyan eval finds it from any folder
    check_new(options.out)
    started = time.monotonic()
    model = module.load(source, **for_device(module.load, options.device), **settings)
    keep = getattr(model, "keep", None)  # saves what took long to derive from the source
    about = {"dim": int(model.dim), **({"of": source} if keep else {})}
    manifest = Manifest(options.name, dict(settings), None if keep else source, about)
    with made(options.out, manifest) as building:
        if keep:
            keep(building)
    if keep:
        add_cost(options.out, time.monotonic() - started)


def _given(options: argparse.Namespace, defaults: Mapping[str, Any]) -> dict[str, Any]:
    settings: dict[str, Any] = {}
    for text in (text for group in options.set for text in group):
        name, equals, value = text.partition("=")
        if not equals:
            options.parser.error(f"--set takes NAME=VALUE, not {text!r}")
        if name not in defaults:
            known = ", ".join(defaults)
            options.parser.refuse(f"{options.name} has no setting {name} (choose from {known})", name, defaults)
        try:
            settings[name] = _value(value, defaults[name])
        except ValueError:
            kind = {bool: "yes or no", int: "a whole number", float: "a number"}[type(defaults[name])]
            options.parser.error(f"--set {name} takes {kind}, not {value!r}")
    return settings


def _value(text: str, default: object) -> object:
    """Convert to the type of the default; keep the text where the default is None."""
    if isinstance(default, bool):
        if text.lower() not in ("yes", "no", "true", "false"):
            raise ValueError
        return text.lower() in ("yes", "true")
    return type(default)(text) if isinstance(default, int | float) else text


def _overview() -> str:
    """The list of baselines."""
    from banyan.baselines import BASELINES

    lines = ["Baselines to compare Banyan with. `banyan eval` evaluates their folders like models."]
    width = max(map(len, BASELINES))
    for kind, title in _KINDS.items():
        lines += ["", f"{title}:"]
        for name, listed in BASELINES.items():
            if listed.kind == kind:
                lines += [f"  {name:{width}}  {listed.about}", f"  {'':{width}}  best for: {listed.best_for}"]
    more = ["", "`banyan baseline NAME` shows the settings of one. See docs/baselines/."]
    return "\n".join([*lines, *more])


def _described(name: str, listed: Baseline, module: Any, making: Any) -> str:
    """The description and settings of one baseline."""
    from banyan.baselines import settings_of

    shown = [f"  {setting} = {value}" for setting, value in settings_of(making).items()]
    source = getattr(module, "SOURCE", "NAME-OR-FOLDER " if listed.kind == "loads" else "corpus.txt ")
    return "\n".join(
        [
            f"{listed.about}.",
            f"Best for: {listed.best_for}.",
            "",
            f"  banyan baseline {name} {source}--out {name}/",
            "",
            "settings, for --set NAME=VALUE:" if shown else "It has no settings.",
            *shown,
            "",
            inspect.getdoc(making) or "",
        ]
    ).rstrip()
