"""Builds the native kernels, if there is a C compiler, and writes the description for PyPI. The rest is in
pyproject.toml."""

import re
import tomllib
from pathlib import Path

from setuptools import Extension, setup

HERE = Path(__file__).parent
FLAGS = ["-std=gnu11", "-O3", "-ffp-contract=off", "-fno-math-errno", "-fwrapv", "-fvisibility=hidden"]
FLAGS += ["-Wall", "-Wextra"]
FILES = ("crc", "module", "objects", "pieces", "trees", "vectors", "words")
HEADERS = ("native", "objects", "vectors")
RELATIVE = re.compile(r"(!?)\[([^\]]*)\]\((?![a-z]+:|#)([^)]+)\)")  # a link or a picture, to a file of this folder


def description() -> str:
    """README.md as PyPI can show it. There, a path leads nowhere: a link needs the repository's address, and stays as
    words without it."""
    source = tomllib.loads((HERE / "pyproject.toml").read_text())["project"]["urls"].get("Source", "").rstrip("/")

    def elsewhere(found: re.Match[str]) -> str:
        picture, words, path = found.groups()
        if not source:
            return "" if picture else words
        return f"{picture}[{words}]({source}/{'raw' if picture else 'blob'}/main/{path})"

    return RELATIVE.sub(elsewhere, (HERE / "README.md").read_text(encoding="utf-8"))


setup(
    long_description=description(),
    long_description_content_type="text/markdown",
    ext_modules=[
        Extension(
            "banyan.native._kernels",
            [f"src/banyan/native/{name}.c" for name in FILES],
            depends=[f"src/banyan/native/{name}.h" for name in HEADERS],
            extra_compile_args=FLAGS,
            optional=True,  # without a compiler, Banyan compiles its kernels with Numba when it first needs them
        )
    ],
)
