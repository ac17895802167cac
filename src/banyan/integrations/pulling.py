"""Models that we publish, by short names, and a copy of a model of the Hub in a folder."""

from __future__ import annotations

import shutil
from pathlib import Path

from banyan.errors import BanyanError
from banyan.integrations import hub
from banyan.integrations.hub import OWNER
from banyan.support import files

LANGUAGES = {"en": "English", "la": "Latin", "ar": "Arabic"}  # whose text may be passed on: experiments/texts.py


def full_name(name: str) -> str:
    """The name on the Hub of a model that may be given by its short name."""
    if name in LANGUAGES:
        return f"{OWNER}/{name}"
    if not hub.is_name(name):
        known = ", ".join(LANGUAGES)
        raise BanyanError(f"there is no model {name!r}: use OWNER/MODEL, or one of our own models: {known}")
    return name


def pull(name: str, out: str | Path | None = None, revision: str | None = None, token: str | None = None) -> Path:
    """Download a model and copy it to a new folder, which appears once all files are there."""
    meant = full_name(name)
    folder = Path(out or meant.split("/")[1])
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise BanyanError(f"{folder} exists already: name a new folder with -o")
    found = hub.fetch(meant, revision, token)
    with files.reported(folder), files.new_folder(folder) as building:
        for path in found.iterdir():
            if path.is_file():
                shutil.copyfile(path, building / path.name)
    return folder
