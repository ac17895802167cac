"""The files with which SentenceTransformer("model/", trust_remote_code=True) opens a model folder.

From version 6 on, sentence-transformers imports a class from outside its own package only with that flag, also for a
local folder. With the flag it runs modeling_banyan.py, which says what to install if Banyan is missing.
"""

from __future__ import annotations

import json
from pathlib import Path

from banyan.support import checksums
from banyan.support.needs import NAME, pip_install_elsewhere

FILES = MODULES, MODELING = "modules.json", "modeling_banyan.py"
_MODULES = [{"idx": 0, "name": "0", "path": "", "type": "modeling_banyan.BanyanModule"}]
_MODELING = '''\
"""SentenceTransformer(this_folder, trust_remote_code=True) runs this file. Banyan itself does not need it."""

try:
    from banyan.integrations.sentence_transformers import BanyanModule  # noqa: F401
except ModuleNotFoundError as error:
    if error.name not in ("banyan", "banyan.integrations"):  # the second one if another package has our name
        raise  # what is missing is not Banyan
    raise ImportError(f"this is a Banyan model, and Banyan is not installed ({error}): " + %r) from None
'''
_FROM_FOLDER = f"pip install {NAME} (while PyPI does not have it: pip install FOLDER, the folder of its source)"


def contents() -> dict[str, str]:
    """The files of a model folder, by name. The second one says where Banyan comes from, if it is not from a folder."""
    modeling = _MODELING % (pip_install_elsewhere() or _FROM_FOLDER)
    return {MODULES: json.dumps(_MODULES, indent=2) + "\n", MODELING: modeling}


def remove(folder: Path) -> None:
    """Remove the files from a folder for which sentence-transformers writes its own."""
    kept = {name: found for name, found in checksums.read(folder / checksums.SUMS).items() if name not in FILES}
    checksums.record(folder / checksums.SUMS, kept)
    for name in FILES:
        (folder / name).unlink(missing_ok=True)
