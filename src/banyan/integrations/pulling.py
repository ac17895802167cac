"""Models that we publish, by short names, and a copy of a model of the Hub in a folder."""

from __future__ import annotations

import shutil
from pathlib import Path

from banyan.errors import BanyanError
from banyan.folders import SETTINGS
from banyan.integrations import hub

OWNER = "banyan-embed"
LANGUAGES = {"en": "English", "la": "Latin"}  # whose text may be passed on: experiments/publish.py


def full_name(name: str) -> str:
    """The name on the Hub of a model that may be given by its short name."""
    if name in LANGUAGES:
        return f"{OWNER}/{name}"
    if not hub.is_name(name):
        known = ", ".join(LANGUAGES)
        raise BanyanError(f"there is no model {name!r}: use OWNER/MODEL, or one of our own models: {known}")
    return name


def pull(name: str, out: str | Path | None = None, revision: str | None = None, token: str | None = None) -> Path:
    """Download a model and copy it to a new folder. It is a model only once all its files are there."""
    meant = full_name(name)
    folder = Path(out or meant.split("/")[1])
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise BanyanError(f"{folder} exists already: name a new folder with -o")
    found = hub.fetch(meant, revision, token)
    folder.mkdir(parents=True, exist_ok=True)
    files = sorted(path for path in found.iterdir() if path.is_file())
    for path in sorted(files, key=lambda path: path.name == SETTINGS):  # the settings last
        shutil.copyfile(path, folder / path.name)
    return folder
