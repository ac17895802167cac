"""The Hugging Face Hub: models by name, fetched once and kept in its cache; models pushed, with their card."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from banyan.encoder import SETTINGS, TOKENIZER, WEIGHTS
from banyan.errors import BanyanError, first_line
from banyan.support import files
from banyan.support.needs import needs
from banyan.training.card import model_card
from banyan.training.folder import CARD

if TYPE_CHECKING:
    from banyan.encoder import Banyan

_NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
_MODULES = [  # so that sentence-transformers opens the folder too
    {"idx": 0, "name": "0", "path": "", "type": "banyan.integrations.sentence_transformers.BanyanModule"}
]


def is_name(path: str | Path) -> bool:
    """Whether it can be a name on the Hub: owner/model."""
    return isinstance(path, str) and _NAME.fullmatch(path) is not None


def fetch(name: str, revision: str | None = None, token: str | None = None) -> Path:
    """The folder with a model of the Hub. What the cache has is not fetched again, and serves without a network."""
    with needs(f"Loading {name} from the Hugging Face Hub", "hub"):
        from huggingface_hub import snapshot_download
    with _in_a_sentence(f"there is no model folder {name!r}, and the Hub gives none of that name"):
        wanted = [SETTINGS, WEIGHTS, TOKENIZER, CARD]
        return Path(snapshot_download(name, revision=revision, token=token, allow_patterns=wanted))


def push(
    model: Banyan,
    name: str,
    *,
    private: bool | None = None,
    language: str | list[str] | None = None,
    license: str | None = None,
    token: str | None = None,
    message: str = "A Banyan model",
) -> str:
    """Upload a model and its card as one commit, and make the repository if there is none: the commit's address."""
    if not is_name(name):
        raise BanyanError(f"{name!r} cannot be a name on the Hub: it must be owner/model")
    with needs("Pushing to the Hugging Face Hub", "hub"):
        from huggingface_hub import HfApi
    api = HfApi(token=token, library_name="banyan-embed")
    with tempfile.TemporaryDirectory() as folder, _in_a_sentence(f"cannot push to {name!r} on the Hub"):
        model.save_pretrained(folder)
        files.write_text(Path(folder) / CARD, hub_card(model, name, language, license))
        files.write_text(Path(folder) / "modules.json", json.dumps(_MODULES, indent=2) + "\n")
        api.create_repo(name, private=private, exist_ok=True)
        return api.upload_folder(repo_id=name, folder_path=folder, commit_message=message).commit_url


def hub_card(model: Banyan, name: str, language: str | list[str] | None = None, license: str | None = None) -> str:
    """The card that training wrote (or, where there is none, what is known), with the metadata that the Hub reads."""
    from huggingface_hub import ModelCard

    written = model.folder / CARD if model.folder else None
    text = written.read_text(encoding="utf-8") if written and written.exists() else model_card(model)
    card = ModelCard(text.replace("path/to/this/folder", name), ignore_metadata_errors=True)
    about: dict[str, Any] = {"model_name": name.split("/")[1], "language": language, "license": license}
    for key, value in about.items():
        if value is not None:
            setattr(card.data, key, value)
    body = card.text.replace("# A Banyan model", f"# {name}", 1)
    return f"---\n{card.data.to_yaml()}\n---\n{body}"


@contextmanager
def _in_a_sentence(what: str) -> Iterator[None]:
    """What the Hub or the network says, in one sentence of ours."""
    from huggingface_hub import errors

    try:
        yield
    except BanyanError:
        raise
    except (OSError, ValueError, errors.HTTPError) as error:
        status = getattr(getattr(error, "response", None), "status_code", None)
        hint = "; to use a token: `hf auth login`, or HF_TOKEN" if status in (401, 403, 404) else ""
        raise BanyanError(f"{what} ({first_line(error)}){hint}") from None
