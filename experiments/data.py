"""Where the corpora and the evaluation sets lie. They are not part of the repository; README.md here has the layout.

A script takes the folder from its option --data, else from the environment variable BANYAN_DATA, else from
../shared/data beside the repository.
"""

from __future__ import annotations

import argparse
import lzma
import os
from itertools import islice
from pathlib import Path

from banyan.errors import BanyanError
from experiments.places import ROOT

VARIABLE = "BANYAN_DATA"
SHOWN = Path(f"${VARIABLE}")  # the folder as recorded commands write it
PARAGRAPHS = "en_paragraphs"  # English in paragraphs; the other corpora are shuffled sentences
ENGLISH = ("en", PARAGRAPHS)


def data_folder() -> Path:
    """The data folder of a script that is run without --data."""
    return Path(os.environ.get(VARIABLE) or ROOT.parent / "shared" / "data")


def paper_source() -> Path:
    """The LaTeX source of the paper, in a folder beside the data."""
    return data_folder().parent / "paper" / "banyan.tex"


def add_data_option(parser: argparse.ArgumentParser) -> None:
    """Add --data."""
    told = f"the data folder (default: {SHOWN}, or ../shared/data)"
    parser.add_argument("--data", type=Path, default=data_folder(), metavar="DIR", help=told)


def corpus(data: Path, language: str, split: str) -> Path:
    """The file of a corpus. Split: "train" or "dev", which is held out."""
    return data / "corpora" / language / f"{split}.txt.xz"


def corpus_lines(data: Path, language: str, split: str, n: int) -> list[str]:
    """The first n lines of a corpus. The corpora are already shuffled."""
    path = corpus(data, language, split)
    if not path.is_file():
        raise BanyanError(f"there is no corpus {path}: pass --data, or set {VARIABLE}")
    with lzma.open(path, "rt", encoding="utf-8") as file:
        return [line.rstrip("\n") for line in islice(file, n)]
