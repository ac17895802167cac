"""The error message for an optional package that is not installed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from banyan.errors import BanyanError, first_line

NAME = "banyan-embed"  # on PyPI
# Packages whose name in pip differs from their name in Python.
_PIP_NAMES = {"google": "protobuf", "llama_index": "llama-index-core", "sklearn": "scikit-learn"}


@contextmanager
def needs(purpose: str, extra: str | None = None) -> Iterator[None]:
    """Turn an import that fails inside the block into a BanyanError that names the package and the pip command.

    purpose: the subject of the sentence, such as "Reading data.parquet".
    extra: the extra of banyan-embed that installs the package. Without it, the message names the package itself.

        with needs("Reading data.parquet", "data"):
            import pyarrow.parquet

    raises: Reading data.parquet needs pyarrow: pip install "banyan-embed[data]"
    (or the path of the source tree that Banyan was installed from, in place of its name)
    """
    try:
        yield
    except ImportError as error:
        module = (error.name or "").partition(".")[0]
        if module == "banyan":
            raise  # a bug of ours, not a missing package
        package = _PIP_NAMES.get(module, module.replace("_", "-")) or "another package"
        command = pip_install(extra) if extra else f"pip install {package}"
        raise BanyanError(f"{purpose} needs {package}{_detail(error, module)}: {command}") from None


def pip_install(extra: str) -> str:
    """Return the command that installs an extra from where Banyan itself came from."""
    about = _noted()
    editable = "-e " if about.get("dir_info", {}).get("editable") else ""
    return f'pip install {editable}"{_source(about, f"[{extra}]")}"'


def pip_install_elsewhere() -> str | None:
    """Return the command that installs Banyan on another machine; None if it came from a folder of this one."""
    about = _noted()
    if about.get("url", "").startswith("file:"):
        return None
    source = _source(about)
    return f'pip install "{source}"' if " " in source else f"pip install {source}"


def _noted() -> dict:
    """What pip noted when Banyan was installed (direct_url.json); nothing if it came from an index."""
    from importlib import metadata  # imported here, as below: every command would wait for it

    try:
        return json.loads(metadata.distribution(NAME).read_text("direct_url.json") or "{}")
    except metadata.PackageNotFoundError:  # it runs in its source tree, and is not installed
        tree = Path(__file__).parents[3]
        return {"url": tree.as_uri(), "dir_info": {"editable": True}} if (tree / "pyproject.toml").exists() else {}


def _source(about: dict, extra: str = "") -> str:
    """What pip is given. extra: in brackets."""
    from urllib.parse import urlsplit
    from urllib.request import url2pathname

    url, system = about.get("url", ""), about.get("vcs_info", {}).get("vcs")
    if url.startswith("file:") and not system:
        path = url2pathname(urlsplit(url).path)
        return f"{path}{extra}" if Path(path).exists() else f"{NAME}{extra}"
    where = f" @ {system}+{url}" if system else f" @ {url}" if url else ""
    return f"{NAME}{extra}{where}"


def _detail(error: ImportError, module: str) -> str:
    """Return what the error says beyond that the package is missing: the package may be too old."""
    if isinstance(error, ModuleNotFoundError) and error.name == module:
        return ""
    return f" ({first_line(error).split('. ')[0]})"  # the first sentence only: the second is often advice of its own
