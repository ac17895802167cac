"""`banyan info`."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from banyan.commands._parser import Parser
from banyan.commands._shared import load, model_argument

if TYPE_CHECKING:
    from banyan.encoder import Banyan

GROUP, ORDER = "train", 3
PURPOSE = "show a model's size, settings and training results"
DESCRIPTION = "Also shows the training text, the metrics of the last epoch and the files of the model folder."
EXAMPLES = ("banyan info model/", "banyan info model/ --json")


def arguments(parser: Parser) -> None:
    model_argument(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(options: argparse.Namespace) -> None:
    model = load(options.model)
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


def _about(model: Banyan, folder: Path) -> dict[str, Any]:
    config = model.config
    output_layer = [weights.size for name, weights in model.weights.items() if name.startswith("out_")]
    beside = f" and {config.lexical_dim} lexical ones" if config.lexical_dim else ""
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
    """What the model card says about the corpus, if there is a model card."""
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
