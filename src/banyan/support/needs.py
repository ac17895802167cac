"""One sentence for an optional package that is not installed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from banyan.errors import BanyanError, first_line


@contextmanager
def needs(purpose: str, *, extra: str | None = None, package: str | None = None) -> Iterator[None]:
    """Turn an import that fails inside the block into a BanyanError that names the package and the pip command.

    purpose: the subject of the sentence, such as "Reading data.parquet".
    extra: the extra of banyan-embed that installs what is imported. Without it, `package` is installed by name.

        with needs("Reading data.parquet", extra="data"):
            import pyarrow.parquet

    raises: Reading data.parquet needs pyarrow: pip install "banyan-embed[data]"
    """
    try:
        yield
    except ImportError as error:
        missing = (error.name or "").partition(".")[0]
        if missing == "banyan":
            raise  # our own mistake, which no package mends
        named = package or missing or "another package"
        install = f'"banyan-embed[{extra}]"' if extra else named
        raise BanyanError(f"{purpose} needs {named}{_reason(error, named)}: pip install {install}") from None


def _reason(error: ImportError, package: str) -> str:
    """What else is wrong: a dependency of the package is missing, or the package is too old."""
    if isinstance(error, ModuleNotFoundError) and error.name == package.replace("-", "_"):
        return ""
    return f" ({first_line(error).split('. ')[0]})"  # the first sentence: the next often has its own advice
