"""Draw quality against the amount of text.

    python -m experiments.figures.amounts

Writes docs/images/amounts.svg.
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from banyan.evaluate.suites import LANGUAGES
from banyan.support.files import atomic
from experiments.figures.style import BLUE, ORANGE, plain_axes
from experiments.places import IMAGES, RESULTS
from experiments.records.estimates import Estimate
from experiments.records.material import Material
from experiments.records.sets import NAMES, SPEARMAN
from experiments.training.amounts import BOTH, MILLIONS, THIRD

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PICTURE = IMAGES / "amounts.svg"
WHOLE = 10.0  # million words of the English corpus
ENGLISH = {words: f"default-en-{amount}" for amount, words in MILLIONS.items()}
ENGLISH |= {WHOLE: "default", 2 * WHOLE: f"default-en-{BOTH}"}


class Point(NamedTuple):
    """English models trained on so many million words."""

    words: float
    sentences: Estimate
    single_words: Estimate
    steps: int  # of training


def english(material: Material) -> list[Point]:
    records, found = material.records, []
    for words, run in ENGLISH.items():
        if records[run]:
            steps = records[run][0]["training"]["steps"]
            found.append(Point(words, records.score(run, "sts"), records.score(run, "words"), steps))
    return found


def languages(material: Material) -> dict[str, tuple[Estimate, Estimate]]:
    """The figures of each language with a third of its corpus, and with all of it."""
    of = material.records.figure
    pairs = {name: (of(f"default-{name}-{THIRD}", name, SPEARMAN), of(f"default-{name}", name, SPEARMAN))
             for name in LANGUAGES}  # fmt: skip
    return {name: pair for name, pair in pairs.items() if pair[0].values}


def draw(material: Material, path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "banyan"
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(9.6, 4.2), layout="constrained", width_ratios=(1.4, 1))
    _english(left, material)
    _languages(right, material)
    kept = io.BytesIO()
    figure.savefig(kept, format="svg", metadata={"Date": None})
    pyplot.close(figure)
    with atomic(path) as temporary:
        temporary.write_bytes(kept.getvalue())


def _english(axes: Axes, material: Material) -> None:
    points = english(material)
    words = [point.words for point in points]
    axes.plot(words, [point.sentences.mean for point in points], "o-", color=BLUE, label="sentences, mean of 8 sets")
    axes.plot(words, [point.single_words.mean for point in points], "s-", color=ORANGE, label="words, mean of 3 sets")
    tf_idf = material.baseline("sts", ["mean"], "TF-IDF")
    if tf_idf is not None:
        axes.axhline(tf_idf, color=BLUE, linestyle=":", linewidth=1, label="sentences, character TF-IDF")
    axes.set_xscale("log")
    axes.set_xticks(words, [f"{n:g}" for n in words])
    axes.minorticks_off()
    axes.set(title="English", xlabel="million words of text", ylabel="Spearman's ρ × 100")
    axes.legend(fontsize=8, frameon=False, loc="lower right")
    plain_axes(axes)


def _languages(axes: Axes, material: Material) -> None:
    found = languages(material)
    for third, whole in found.values():
        axes.plot([0, 1], [third.mean, whole.mean], "o-", color=BLUE, linewidth=1, markersize=4)
    heights = _apart({name: whole.mean for name, (_, whole) in found.items()}, 1.6)
    for name, height in heights.items():
        axes.annotate(NAMES[name], (1, height), (6, 0), textcoords="offset points", va="center", fontsize=8)
    axes.set_xticks([0, 1], ["a third", "all of the corpus"])
    axes.set_xlim(-0.15, 1.55)
    axes.set(title="Other languages (3 to 6 million words)")
    plain_axes(axes)


def _apart(heights: dict[str, float], least: float) -> dict[str, float]:
    """The heights of labels, moved up until they are far enough apart."""
    moved: dict[str, float] = {}
    last = float("-inf")
    for name, height in sorted(heights.items(), key=lambda item: item[1]):
        last = moved[name] = max(height, last + least)
    return moved


def main() -> None:
    draw(Material.read(RESULTS), PICTURE)


if __name__ == "__main__":
    main()
