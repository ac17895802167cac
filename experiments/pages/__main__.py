"""Write every page that shows results, from the JSON in experiments/results.

    python -m experiments.pages [--check]

RESULTS.md is written as a whole. In README.md and docs/ only the parts between marks are written, and the numbers that
have a source (numbers.py).
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from banyan.support.files import write_text
from experiments.pages import amounts, ideas, latin, numbers, presets, results, small, sources, systems, taught
from experiments.pages.markdown import GENERATED, between
from experiments.places import DOCS, RESULTS, ROOT
from experiments.records import entries
from experiments.records.material import Material
from experiments.records.paired import Paired


def pages() -> dict[Path, str]:
    """The text of each page, as it should be."""
    material, paired = Material.read(RESULTS), Paired.read(RESULTS / "paired.json")
    parts = {
        ROOT / "README.md": results.summary(material, paired),
        DOCS / "experiments.md": ideas.render(RESULTS),
        DOCS / "which.md": taught.which(material),
        DOCS / "default.md": presets.good(material, paired),
        DOCS / "how-much-text.md": amounts.page(material),
    }
    found = {ROOT / "RESULTS.md": results.render(RESULTS)}
    found |= {path: between(_text(path), GENERATED, f"{part}\n") for path, part in parts.items()}
    with_small = between(found[DOCS / "experiments.md"], small.MARKS, f"{small.render(RESULTS)}\n")
    found[DOCS / "experiments.md"] = with_small
    found[latin.PAGE] = latin.filled(_text(latin.PAGE), entries.read(RESULTS / "latin.json"))
    found |= systems.pages(material, RESULTS / "compared")
    names = sources.names()
    return found | {path: numbers.filled(found.get(path) or _text(path), names) for path in numbers.pages()}


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="report pages that are out of date, and write nothing")
    options = parser.parse_args(arguments)
    stale = {path: text for path, text in pages().items() if not path.exists() or _text(path) != text}
    for path, text in stale.items():
        if options.check:
            print(f"{path.name} is out of date: run python -m experiments.pages", file=sys.stderr)
        else:
            write_text(path, text)
    return 1 if options.check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
