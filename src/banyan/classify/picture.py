"""The confusion matrix as a picture."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from banyan.support import files
from banyan.support.drawing import shorten, visible
from banyan.support.needs import needs

MOST = 40  # classes in the picture: those with most texts
_NUMBERS = 20  # classes up to which cells show numbers


def draw(confusion: np.ndarray, classes: list[str], out: Path) -> int:
    """Write a PNG: a row per true class, a column per predicted class, coloured by the share of the row. Return how
    many classes have no name in it, but their row in the table of figures, because no font has their letters."""
    with needs("Drawing it"):
        from matplotlib.figure import Figure

    shown = np.sort(np.argsort(-confusion.sum(1), kind="stable")[:MOST])
    counts = confusion[np.ix_(shown, shown)]
    names = [shorten(visible(classes[c]), 24) for c in shown]
    fonts, missing = _fonts({ord(letter) for name in names for letter in name})
    untold = [not missing.isdisjoint(map(ord, name)) for name in names]
    names = [f"row {row}" if untold[row - 1] else name.replace("$", r"\$") for row, name in enumerate(names, 1)]
    share = counts / np.maximum(confusion.sum(1)[shown, None], 1)
    n = len(shown)
    side = 2.6 + max(0.34 * n, 1.4) + 0.07 * max(map(len, names))
    figure = Figure(figsize=(side, side - 0.4), layout="constrained")
    axes = figure.subplots()
    axes.imshow(share, cmap="Greens", vmin=0, vmax=1)
    axes.set_xticks(range(n), names, rotation=45 if n > 2 or max(map(len, names)) > 10 else 0,
                    ha="right" if n > 2 or max(map(len, names)) > 10 else "center", rotation_mode="anchor",
                    fontfamily=fonts)  # fmt: skip
    axes.set_yticks(range(n), names, fontfamily=fonts)
    if n <= _NUMBERS:
        for row, column in np.ndindex(n, n):
            if counts[row, column]:
                ink = "white" if share[row, column] > 0.6 else "#20262b"
                axes.text(column, row, f"{counts[row, column]:,}", ha="center", va="center", color=ink, fontsize=9)
    axes.set_xlabel("predicted")
    axes.set_ylabel("true")
    shown_of = f"{counts.sum():,} of " if n < len(classes) else ""
    more = f", the {n} most frequent of {len(classes)} classes" if n < len(classes) else ""
    axes.set_title(f"{shown_of}{confusion.sum():,} held-out texts{more}", fontsize=10, color="#555555")
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    with files.atomic(out) as temporary:
        figure.savefig(temporary, format="png", dpi=130)
    return sum(untold)


def _fonts(letters: set[int]) -> tuple[list[str], set[int]]:
    """The default font and, if it lacks letters, installed ones that have them; and the letters that none has."""
    from matplotlib.font_manager import FontProperties, findfont, fontManager, get_font

    default = findfont(FontProperties())
    families, missing = [get_font(default).family_name], letters - get_font(default).get_charmap().keys()
    for entry in fontManager.ttflist if missing else []:
        if entry.name.startswith("Last Resort"):  # it has a box for every letter
            continue
        try:
            font = get_font(entry.fname)
            found = missing & font.get_charmap().keys() if font.scalable else set()
        except (OSError, RuntimeError):  # a font that is gone or broken
            continue
        if found:
            families.append(entry.name)
            missing -= found
    return families, missing
