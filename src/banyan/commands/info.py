"""`banyan info`."""

from __future__ import annotations

import argparse
import json
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

from banyan.commands._parser import Parser
from banyan.commands._shared import model_argument

if TYPE_CHECKING:
    from banyan.config import Config

GROUP, ORDER = "train", 3
PURPOSE = "show a model's size, settings and training results"
DESCRIPTION = "Also shows the teacher, the training text, the metrics of the last epoch and the files of the folder."
EXAMPLES = ("banyan info model/", "banyan info model/ --json")
_OUTPUT_LAYER = "output layer (training only)"


def arguments(parser: Parser) -> None:
    model_argument(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(options: argparse.Namespace) -> None:
    from banyan.config import Config
    from banyan.folders import SETTINGS, model_folder, teacher_of

    folder = model_folder(options.model)
    config, taught_by = Config.from_file(folder / SETTINGS), teacher_of(folder)
    about = _about(folder, config, taught_by)
    if options.json:
        print(json.dumps(about, indent=2, ensure_ascii=False))
        return
    for title, value in _in_words(about, config, taught_by).items():
        if not isinstance(value, dict):
            print(f"{title}: {_shown(value)}")
            continue
        width = max(map(len, value), default=0)
        print("\n".join([f"\n{title}", *(f"  {name:{width}}  {_shown(part)}" for name, part in value.items())]))


def _about(folder: Path, config: Config, taught_by: dict[str, Any] | None) -> dict[str, Any]:
    from banyan.folders import WEIGHTS, unfinished_in_words, unfinished_of
    from banyan.model.shapes import BIASES, GATES, shapes_of
    from banyan.training import card

    text, shapes = card.training_text(folder), shapes_of(folder / WEIGHTS, config)
    sizes = {name: prod(shape) for name, shape in shapes.items()}
    beside = f" and {config.lexical_dim} lexical ones" if config.lexical_dim else ""
    mark = unfinished_of(folder)
    about: dict[str, Any] = {
        "model": str(folder),
        "state": unfinished_in_words(mark) if mark else {},
        "written by": f"banyan {json.loads((folder / 'config.json').read_text('utf-8')).get('banyan_version')}",
        "dimensions": f"{config.dim} ({config.channels} channels of width {config.width})" + beside,
        "vocabulary": shapes["embedding"][0],
        "training text": text or {},
        "taught by": taught_by or {},
        "classifier": _read_classifier(folder),
        "parameters": {
            "composition and decomposition": sum(sizes[name] for name in (*GATES, *BIASES)),
            "embedding": sizes["embedding"],
            _OUTPUT_LAYER: sum(size for name, size in sizes.items() if name.startswith("out_")),
        },
        "settings": config.to_dict(),
        "last epoch": card.last_epoch(folder / "metrics.jsonl"),
        "files (bytes)": {path.name: path.stat().st_size for path in sorted(folder.iterdir()) if path.is_file()},
    }
    return {title: value for title, value in about.items() if value != {}}


def _read_classifier(folder: Path) -> dict[str, Any]:
    if not (folder / "classifier.json").exists():  # then what reads it need not be imported
        return {}
    from banyan.classify.classifier import about_classifier

    return about_classifier(folder)


def _in_words(about: dict[str, Any], config: Config, told: dict[str, Any] | None) -> dict[str, Any]:
    """The same, with words for what the JSON leaves as null or as a number."""
    from banyan.training import card, taught_by

    in_words = card.settings_in_words(config, about["vocabulary"], about.get("last epoch", {}))
    about = {**about, "settings": in_words}
    if told:
        about["taught by"] = taught_by.described(told, config)
    if "classifier" in about:
        about["classifier"] = _classifier(about["classifier"])
    if not about["parameters"][_OUTPUT_LAYER]:
        about["parameters"] = {**about["parameters"], _OUTPUT_LAYER: f"0 ({card.NO_OUTPUT_LAYER})"}
    return about


def _classifier(about: dict[str, Any]) -> dict[str, Any]:
    inputs = "pairs of texts" if about["pair"] else "texts"
    found: dict[str, Any] = {
        "inputs": f"{inputs}, {'several labels each' if about['several'] else 'one label each'}",
        "classes": ", ".join(about["classes"]),
        "trained on": about.get("texts") or "unknown texts",
    }
    held_out = {name: value for name, value in (about.get("figures") or {}).items() if not isinstance(value, dict)}
    return found | {f"held-out {name.replace('_', ' ')}": value for name, value in held_out.items()}


def _shown(value: object) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
