"""The error message for an optional package that is not installed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from banyan.errors import BanyanError, first_line

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
    """
    try:
        yield
    except ImportError as error:
        module = (error.name or "").partition(".")[0]
        if module == "banyan":
            raise  # a bug of ours, not a missing package
        package = _PIP_NAMES.get(module, module.replace("_", "-")) or "another package"
        install = f'"banyan-embed[{extra}]"' if extra else package
        raise BanyanError(f"{purpose} needs {package}{_detail(error, module)}: pip install {install}") from None


def _detail(error: ImportError, module: str) -> str:
    """Return what the error says beyond that the package is missing: the package may be too old."""
    if isinstance(error, ModuleNotFoundError) and error.name == module:
        return ""
    return f" ({first_line(error).split('. ')[0]})"  # the first sentence only: the second is often advice of its own
