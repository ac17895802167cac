"""How much text a model needs: the generated part of docs/how-much-text.md."""

from __future__ import annotations

from typing import Any

from experiments.figures.amounts import ENGLISH, english, languages
from experiments.pages.markdown import table
from experiments.pages.since import changed_since
from experiments.records.material import Material
from experiments.records.sets import NAMES

PICTURE = "![Quality against the amount of text](images/amounts.svg)"


def page(material: Material) -> str:
    points = english(material)
    rows: list[list[Any]] = [
        [f"{point.words:g}", point.sentences.told(), point.single_words.told(), point.steps]
        for point in points
    ]
    head = ["million words", "English sentences (mean of 8)", "English words (3)", "training steps"]
    changed = changed_since(material.records, ENGLISH.values())
    parts = [PICTURE, *([changed] if changed else []), table(head, rows)]
    if found := languages(material):
        head = ["language", "a third of the corpus", "all of it"]
        parts.append(table(head, [[NAMES[name], *(one.told() for one in pair)] for name, pair in found.items()]))
    return "\n\n".join(parts)
