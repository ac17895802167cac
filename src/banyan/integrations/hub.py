"""The Hugging Face Hub: download a model by its name, upload a model with its card."""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from banyan.encoder import SETTINGS, TAUGHT_BY, TOKENIZER, WEIGHTS
from banyan.errors import BanyanError, first_line
from banyan.integrations import opening
from banyan.support import files
from banyan.support.checksums import SUMS
from banyan.support.needs import needs

if TYPE_CHECKING:
    from banyan.encoder import Banyan

OWNER = "banyan-embed"  # of our own models
_NOT_YET = "our own models were not uploaded yet when this version was made: docs/pretrained.md says how to make one"
_NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")


def is_name(path: str | Path) -> bool:
    """Whether this has the form of a name on the Hub: owner/model."""
    return isinstance(path, str) and _NAME.fullmatch(path) is not None


def fetch(name: str, revision: str | None = None, token: str | None = None) -> Path:
    """Download a model and return its folder. A model in the cache is not downloaded again and needs no network."""
    from banyan.training.folder import CARD, CLASSIFIER

    with needs(f"Loading {name} from the Hugging Face Hub", "hub"):
        from huggingface_hub import snapshot_download
    ours = name.startswith(f"{OWNER}/")
    missing = f"our model {name!r}" if ours else f"there is no model folder {name!r}, and it"
    with in_a_sentence(f"{missing} cannot be downloaded from the Hub", _NOT_YET if ours else ""):
        wanted = [SETTINGS, WEIGHTS, TOKENIZER, TAUGHT_BY, SUMS, CARD, *opening.FILES, *CLASSIFIER]
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
    """Upload a model and its card in one commit, and create the repository if needed. Return the URL of the commit."""
    from banyan.training.folder import CARD, CLASSIFIER

    if not is_name(name):
        raise BanyanError(f"{name!r} is not a name on the Hub: use owner/model")
    with needs("Pushing to the Hugging Face Hub", "hub"):
        from huggingface_hub import HfApi
    api = HfApi(token=token, library_name="banyan-embed")
    with tempfile.TemporaryDirectory() as folder, in_a_sentence(f"cannot push to {name!r} on the Hub"):
        model.save_pretrained(folder)
        for path in [model.folder / name for name in CLASSIFIER] if model.folder else []:
            if path.exists():
                shutil.copy(path, folder)
        files.write_text(Path(folder) / CARD, hub_card(model, name, language, license))
        api.create_repo(name, private=private, exist_ok=True)
        return api.upload_folder(repo_id=name, folder_path=folder, commit_message=message).commit_url


def hub_card(model: Banyan, name: str, language: str | list[str] | None = None, license: str | None = None) -> str:
    """The model card that training wrote, or a new one, with the metadata that the Hub reads."""
    from huggingface_hub import ModelCard

    from banyan.training.card import model_card, stated
    from banyan.training.folder import CARD

    written = model.folder / CARD if model.folder else None
    text = written.read_text(encoding="utf-8") if written and written.exists() else model_card(model)
    card = ModelCard(text.replace("path/to/this/folder", name), ignore_metadata_errors=True)
    about: dict[str, Any] = {"model_name": name.split("/")[1], "language": language, "license": license}
    for key, value in about.items():
        if value is not None:
            setattr(card.data, key, value)
    body = stated(card.text.replace("# A Banyan model", f"# {name}", 1), language, license)
    return f"---\n{card.data.to_yaml()}\n---\n{body}"


@contextmanager
def in_a_sentence(what: str, hint: str = "") -> Iterator[None]:
    """Turn an error of the Hub or the network into a BanyanError. hint: what to do (default: log in, if that helps)."""
    from huggingface_hub import errors

    try:
        yield
    except BanyanError:
        raise
    except (OSError, ValueError, errors.HTTPError) as error:
        status = getattr(getattr(error, "response", None), "status_code", None)
        hint = hint or ("log in with `hf auth login` or set HF_TOKEN" if status in (401, 403, 404) else "")
        raise BanyanError("; ".join(filter(None, [f"{what} ({first_line(error)})", hint]))) from None
