"""Write the translations of each language, divided into training, development and test pairs, and its cleaned corpus.

    python -m experiments.translations.prepare --work DIR [LANGUAGE ...]

Writes DIR/LANGUAGE/train.tsv.xz, dev.tsv.xz, verses.tsv.xz, source.tsv.xz (English, the other language, source) and
corpus.txt.xz; for `en`, only the corpus, without the English side of what any language holds out. Adds the counts to
experiments/results/translations.json. experiments/translations/split.py says what is held out.
"""

from __future__ import annotations

import argparse
import itertools
import lzma
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from banyan.errors import BanyanError
from banyan.support.files import atomic
from experiments.data import add_data_option
from experiments.places import RESULTS
from experiments.records import entries
from experiments.translations.split import LANGUAGES, SOURCES, Split, corpus_text, read_split

OUT = RESULTS / "translations.json"
COMMAND = "python -m experiments.translations.prepare --work DIR"
COLUMNS = ["language", "train", "dev", "verses", "held-out source", "source", "unused", "corpus lines", "removed"]
SETS = ("train", "dev", "verses", "source")
_NOTES = [
    "Numbers of pairs. verses: test pairs from all sources but the held-out one. source: test pairs of that one",
    "unused: pairs of the held-out source beyond the test pairs, and pairs that share a text with a held-out one",
]


def write(path: Path, lines: Iterable[str]) -> int:
    """Write lines to an .xz file and return their number."""
    count = 0
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic(path) as temporary, lzma.open(temporary, "wt", encoding="utf-8", newline="\n") as file:
        for line in lines:
            file.write(line + "\n")
            count += 1
    return count


def prepare(split: Split, data: Path, language: str, folder: Path) -> list[Any]:
    """Write the files of one language and return its row of the table."""
    row: list[Any] = [language]
    if language != "en":
        parts = split.parts[language]
        for name in SETS:
            write(folder / f"{name}.tsv.xz", ("\t".join(pair) for pair in getattr(parts, name)))
        row += [len(parts.train), len(parts.dev), len(parts.verses), SOURCES[language]]
        row += [len(parts.source), len(parts.unused)]
    else:
        row += [None] * 6
    before = itertools.count()
    lines = (line for line, _ in zip(corpus_text(data, language), before, strict=False))
    kept = write(folder / "corpus.txt.xz", split.kept(language, lines))
    total = next(before)
    return [*row, total, total - kept]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    every = (*LANGUAGES, "en")
    parser.add_argument("languages", nargs="*", choices=[[], *every], metavar="LANGUAGE", help="default: all, and en")
    parser.add_argument("--work", type=Path, required=True, metavar="DIR", help="folder to write to")
    add_data_option(parser)
    parser.add_argument("--out", type=Path, default=OUT, help="file for the counts (default: %(default)s)")
    options = parser.parse_args()
    try:
        split = read_split(options.data)
        rows = {row[0]: row for row in entries.read(options.out).get("held out", {}).get("rows", [])}
        for language in options.languages or every:
            rows[language] = prepare(split, options.data, language, options.work / language)
            print(*rows[language], flush=True)
    except BanyanError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    table = {"columns": COLUMNS, "rows": [rows[language] for language in every if language in rows]}
    about = {"title": "Held-out translations", **table, "notes": _NOTES, "command": COMMAND}
    entries.keep(options.out, "held out", about)
    return 0


if __name__ == "__main__":
    sys.exit(main())
