"""The folder of a model: its files, and what they say beside its weights and settings."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from banyan.errors import BanyanError
from banyan.support.files import read_json

WEIGHTS = "model.safetensors"
SETTINGS = "config.json"
TOKENIZER = "tokenizer.json"
TAUGHT_BY = "taught_by.json"  # only in the folder of a model that had a teacher
METRICS, CARD, LOSS = "metrics.jsonl", "README.md", "loss.png"
UNFINISHED = "unfinished"  # in config.json while the training of the model goes on


def model_folder(path: str | Path, revision: str | None = None, token: str | None = None) -> Path:
    """The folder of a finished model. If there is none, that of the model of this name on the Hub."""
    folder = Path(path)
    if not folder.is_dir():
        from banyan.integrations import hub

        folder = hub.fetch(str(path), revision, token) if hub.is_name(path) else folder
    if not folder.is_dir():
        raise BanyanError(f"there is no model folder {str(path)!r}; train a model with `banyan train`")
    for name in (SETTINGS, WEIGHTS, TOKENIZER):
        if not (folder / name).is_file():
            raise BanyanError(f"{folder} is not a finished model: it has no {name}")
    return folder


def verify(folder: Path) -> None:
    """Raise an error if the settings or the tokenizer are not as they were written. This takes a hundredth of the time
    to load a model; hashing the weights would take a third, so only `banyan check` does."""
    from banyan.support import checksums

    checksums.verify(folder, (SETTINGS, TOKENIZER, TAUGHT_BY))


def teacher_of(folder: Path) -> dict[str, Any] | None:
    """The content of taught_by.json, if the folder has one."""
    path = folder / TAUGHT_BY
    if not path.exists():
        return None
    found = read_json(path)
    if not isinstance(found, dict):
        raise BanyanError(f"cannot read {path}: it is not a JSON object")
    return found


def write_teacher(folder: Path, taught_by: dict[str, Any] | None) -> None:
    """Write taught_by.json, or remove that of another model if there was no teacher."""
    from banyan.support import files

    if taught_by:
        files.write_text(folder / TAUGHT_BY, json.dumps(taught_by, indent=2, ensure_ascii=False) + "\n")
    else:
        (folder / TAUGHT_BY).unlink(missing_ok=True)


def unfinished_of(folder: Path) -> dict[str, int] | None:
    """How far the training of the model in a folder has come; None if it is finished."""
    found = read_json(folder / SETTINGS)
    mark = found.get(UNFINISHED) if isinstance(found, dict) else None
    return {str(name): n for name, n in mark.items() if isinstance(n, int)} if isinstance(mark, dict) else None


def unfinished_in_words(mark: dict[str, int]) -> str:
    step, steps, kept = (mark.get(name, 0) for name in ("step", "steps", "kept_epoch"))
    best = f" and holds epoch {kept}, the best so far" if kept else ""
    return f"an unfinished model: it has had {step:,} of {steps:,} steps{best}; the same command with --resume goes on"


def is_finished(folder: Path) -> bool:
    """Whether a folder holds a model whose training is finished."""
    return (folder / WEIGHTS).is_file() and (folder / SETTINGS).is_file() and unfinished_of(folder) is None
