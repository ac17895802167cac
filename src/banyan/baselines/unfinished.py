"""Training runs that can be interrupted and resumed. Their state is in out/training until the model is finished."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from banyan.baselines.folder import MANIFEST, Manifest, check_new, write
from banyan.errors import BanyanError
from banyan.support import files
from banyan.training import checkpoint
from banyan.training.checkpoint import Progress

STOPPED = "stopped; the same command resumes from the last checkpoint, if there is one"
CHECKPOINT = "checkpoint.safetensors"
RECORD = "run.json"  # in out/training, once training has begun
_TRAINING, _SETTINGS = "training", "settings.json"
_MAY_CHANGE = ("device", "compile", "half")  # when a run is resumed


@contextmanager
def run_in(out: str | Path, settings: dict[str, Any]) -> Iterator[Path]:
    """Lock and return out/training. `out` must be new, or hold an unfinished run with the same settings to resume."""
    out = Path(out)
    work, created = out / _TRAINING, not out.exists()
    _refuse_to_lose(out)
    try:
        with files.held(work, f"another process is training in {out}: wait for it, or stop it"):
            _refuse_to_lose(out)  # again: another process may have finished before we got the lock
            _check_same(work / _SETTINGS, {name: settings[name] for name in settings if name not in _MAY_CHANGE})
            try:
                yield work
            except BanyanError:
                if not (work / RECORD).exists():  # there is nothing to resume
                    files.clear(work)
                raise
    finally:
        if created:
            with suppress(OSError):  # it is not empty
                out.rmdir()


def _refuse_to_lose(out: Path) -> None:
    """Raise an error unless `out` is new, or holds an unfinished run."""
    work = out / _TRAINING
    begun = (work / _SETTINGS).exists() or (work / RECORD).exists()
    if begun and not (out / MANIFEST).exists():
        return
    check_new(out, besides=_TRAINING)
    if work.is_dir():
        check_new(work, besides=files.LOCK)  # left by a run that was killed before it began


def resumed(checkpoint_path: Path, model: Any, optimiser: Any, progress: Progress) -> Progress:
    """Load the checkpoint, if there is one, into model and optimiser, and return its progress; otherwise `progress`.
    Refuse a checkpoint of another text."""
    if not checkpoint_path.exists():
        return progress
    again = f"remove {checkpoint_path.parent.parent} to start again"
    found = checkpoint.load(checkpoint_path, model, optimiser, again)
    if found.data != progress.data:
        raise BanyanError(f"the text of the run in {checkpoint_path.parent.parent} has changed: {again}")
    return found


def _check_same(record: Path, settings: dict[str, Any]) -> None:
    if not record.exists():
        files.write_text(record, json.dumps(settings))
    for name, begun in json.loads(record.read_text(encoding="utf-8")).items():
        if (now := settings.get(name)) != begun:
            raise BanyanError(
                f"the unfinished run in {record.parent.parent} began with {name}={begun}, not {now}: use the same "
                "value to resume it, or remove the folder to start again"
            )


def finish(out: str | Path, save: Callable[[Path], object], manifest: Manifest) -> None:
    """Move what `save` writes into `out`, write the manifest last, and remove the state of the run."""
    out = Path(out)
    building = out / _TRAINING / "finished"
    shutil.rmtree(building, ignore_errors=True)
    building.mkdir()
    save(building)
    for path in building.iterdir():
        if path.is_file():
            files.sync(path)
        elif (out / path.name).is_dir():  # left by a run that was killed at this point
            shutil.rmtree(out / path.name)
        os.replace(path, out / path.name)
    write(out, manifest)
    files.clear(out / _TRAINING)  # the end of run_in removes the folder


def save_transformer(out: str | Path, model: Any, tokenizer: Any, manifest: Manifest, half: bool) -> None:
    def save(folder: Path) -> None:
        (model.half() if half else model).save_pretrained(folder)
        tokenizer.save_pretrained(folder)

    finish(out, save, manifest)
