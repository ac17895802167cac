"""The command `banyan baseline`. Nothing heavy is imported before it runs."""

from __future__ import annotations

import argparse
import inspect
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from banyan.baselines import BASELINES, Baseline, for_device, module_of, settings_of
from banyan.baselines.folder import Manifest, add_cost, check_new, made
from banyan.errors import BanyanError

_KINDS = {
    "trains": "trained on your own text",
    "loads": "trained by others, and loaded",
    "counts": "nothing is learnt",
}


def baseline_arguments(parser: Any) -> None:
    parser.usage = "banyan baseline [NAME [SOURCE ...] --out DIR] [--set NAME=VALUE ...]"
    parser.add_argument("name", nargs="?", metavar="NAME", help="which; without it, all are told, and when each wins")
    source = "text, as for banyan train; for what is loaded, a folder or a name on the Hugging Face Hub"
    parser.add_argument("source", nargs="*", metavar="SOURCE", help=f"{source}; without it, the settings are told")
    parser.add_argument("--out", metavar="DIR", help="a new folder, for banyan eval")
    given = "settings of this baseline; may be given more than once"
    parser.add_argument("--set", nargs="+", action="append", default=[], metavar="NAME=VALUE", help=given)
    parser.add_argument("--device", default="auto", help="cpu, cuda, cuda:1 or auto, for transformers (default: auto)")
    parser.add_argument("--quiet", action="store_true", help="show errors only")


def baseline(options: argparse.Namespace) -> None:
    if options.name is None:
        print(overview())
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
    try:
        return module_of(name)
    except ModuleNotFoundError as error:
        raise BanyanError(f"the baseline {name} needs the Python package {error.name}: pip install it") from None


def _load(options: argparse.Namespace, module: Any, settings: Mapping[str, Any]) -> None:
    """Loads it once, to see that it can be, and remembers its name; what is made on loading is kept."""
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


def overview() -> str:
    """Which baselines there are."""
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
