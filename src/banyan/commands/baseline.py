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
PURPOSE = "train or load what Banyan is compared with: GloVe, Sent2Vec, transformers, TF-IDF, ..."
MORE = "Without a name: which there are, and when each wins. More: docs/baselines/."
EXAMPLES = (
    "banyan baseline glove corpus.txt --out glove/",
    "banyan baseline sent2vec corpus.txt --out sent2vec/ --set epochs=5 dim=100",
    "banyan baseline pretrained sentence-transformers/all-MiniLM-L6-v2 --out minilm/",
    "banyan baseline dice --out dice/",
)
_KINDS = {
    "trains": "trained on your own text",
    "loads": "trained by others, and loaded",
    "counts": "nothing is learnt",
}


def arguments(parser: Parser) -> None:
    parser.usage = "banyan baseline [NAME [SOURCE ...] --out DIR] [--set NAME=VALUE ...]"
    parser.add_argument("name", nargs="?", metavar="NAME", help="which; without it, all are told, and when each wins")
    source = "text, as for banyan train; for what is loaded, a folder or a name on the Hugging Face Hub"
    parser.add_argument("source", nargs="*", metavar="SOURCE", help=f"{source}; without it, the settings are told")
    parser.add_argument("--out", metavar="DIR", help="a new folder, for banyan eval")
    given = "settings of this baseline; may be given more than once"
    parser.add_argument("--set", nargs="+", action="append", default=[], metavar="NAME=VALUE", help=given)
    parser.add_argument("--device", default="auto", help="cpu, cuda, cuda:1 or auto, for transformers (default: auto)")
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
            options.parser.error("--out DIR is missing: the folder to write")
        print(_told(options.name, listed, module, making))
        return
    if listed.kind == "loads":
        _load(options, module, settings)
    else:
        given, started = for_device(module.train, options.device), time.monotonic()
        module.train(options.source, options.out, quiet=options.quiet, **given, **settings)
        add_cost(options.out, time.monotonic() - started)
    if not options.quiet:
        print(f"wrote {options.out}: measure it with `banyan eval {options.out} ...`", file=sys.stderr)


def _module(name: str) -> Any:
    from banyan.baselines import module_of

    with needs(f"The baseline {name}", "baselines"):
        return module_of(name)


def _load(options: argparse.Namespace, module: Any, settings: Mapping[str, Any]) -> None:
    """Loads it once, to see that it can be, and remembers its name; what is made on loading is kept."""
    from banyan.baselines import for_device
    from banyan.baselines.folder import Manifest, add_cost, check_new, made

    if len(options.source) != 1:
        options.parser.error(f"one folder or name is loaded, not {len(options.source)}")
    source = options.source[0]
    if Path(source).is_dir():
        source = str(Path(source).absolute())  # to be found from wherever it is measured
    check_new(options.out)
    started = time.monotonic()
    model = module.load(source, **for_device(module.load, options.device), **settings)
    keep = getattr(model, "keep", None)  # of what was made of the source: too long a work to be done each time
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
            options.parser.refuse(f"{options.name} has no setting {name} among {', '.join(defaults)}", name, defaults)
        try:
            settings[name] = _value(value, defaults[name])
        except ValueError:
            kind = {bool: "yes or no", int: "a whole number", float: "a number"}[type(defaults[name])]
            options.parser.error(f"--set {name} takes {kind}, not {value!r}")
    return settings


def _value(text: str, default: object) -> object:
    """Of the type that the default has; of a setting that has none (None), the text."""
    if isinstance(default, bool):
        if text.lower() not in ("yes", "no", "true", "false"):
            raise ValueError
        return text.lower() in ("yes", "true")
    return type(default)(text) if isinstance(default, int | float) else text


def _overview() -> str:
    """Which baselines there are."""
    from banyan.baselines import BASELINES

    lines = ["What Banyan is compared with. Each is made into a folder, which `banyan eval` measures like a model."]
    width = max(map(len, BASELINES))
    for kind, told in _KINDS.items():
        lines += ["", f"{told}:"]
        for name, listed in BASELINES.items():
            if listed.kind == kind:
                lines += [f"  {name:{width}}  {listed.about}", f"  {'':{width}}  wins: {listed.wins}"]
    more = ["", "`banyan baseline NAME` tells the settings of one. More: docs/baselines/."]
    return "\n".join([*lines, *more])


def _told(name: str, listed: Baseline, module: Any, making: Any) -> str:
    """What one is, and its settings."""
    from banyan.baselines import settings_of

    shown = [f"  {setting} = {value}" for setting, value in settings_of(making).items()]
    source = getattr(module, "SOURCE", "NAME-OR-FOLDER " if listed.kind == "loads" else "corpus.txt ")
    return "\n".join(
        [
            f"{listed.about}.",
            f"Wins: {listed.wins}.",
            "",
            f"  banyan baseline {name} {source}--out {name}/",
            "",
            "settings, for --set NAME=VALUE:" if shown else "It has no settings.",
            *shown,
            "",
            inspect.getdoc(making) or "",
        ]
    ).rstrip()
