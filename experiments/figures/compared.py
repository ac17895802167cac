"""Draw quality against cost: English above, nine languages below, over the time to encode a sentence.

    python -m experiments.figures.compared

Writes docs/images/compared.svg.
"""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from banyan.support.files import atomic
from experiments.places import IMAGES, RESULTS
from experiments.records.material import Material
from experiments.records.systems import SYSTEMS, Compared, System

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.text import Annotation, Text
    from matplotlib.transforms import Bbox

PICTURE = IMAGES / "compared.svg"
PANELS = {"sts": "English sentences, mean of 8 sets (ρ × 100)", "languages": "nine languages, mean (ρ × 100)"}
NEAR = 2.0  # lines of the paper's figures that are closer than this share a label
ALONG = (1.0, 0.85, 0.7, 0.55, 0.4)  # where the label of such a line may end
DOT = 6.0  # pixels between the centre of a point and a label
WIDE = 50.0  # if the times span a larger factor, only powers of ten are marked


class Point(NamedTuple):
    of: str  # the panel
    told: str
    time: float | None  # per sentence, relative to preset default; None if it was not measured
    score: float
    kind: str


def points(every: Compared) -> list[Point]:
    found = []
    for of in PANELS:
        for system in SYSTEMS:
            figure, ratio = every.figure(system, of), every.of(system).speed
            if figure and (ratio or figure.papers):
                kind = "paper" if figure.papers else _kind(every, system)
                time = round(1 / ratio, 3) if ratio and not figure.papers else None
                found.append(Point(of, system.told.replace("`", ""), time, round(figure.value, 2), kind))
    return found


def _kind(every: Compared, system: System) -> str:
    if system.run:
        return "banyan"
    if not every.has_vectors(system):
        return "none"
    return "pretrained" if system.pretrained else "vectors"


def described(drawn: Sequence[Point]) -> str:
    """The points as JSON, to be kept inside the picture."""
    return json.dumps([list(point) for point in drawn], ensure_ascii=False)


def draw(drawn: Sequence[Point], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "banyan"
    from matplotlib import pyplot

    panels = {of: [point for point in drawn if point.of == of] for of in PANELS}
    figure, all_axes = pyplot.subplots(len(panels), figsize=(8.6, 9.6), layout="constrained", sharex=True)
    labels = [(axes, _scatter(axes, panels[of], PANELS[of])) for axes, of in zip(all_axes, panels, strict=True)]
    _legend(all_axes[0], drawn)
    _ticks(all_axes[-1], [point.time for point in drawn if point.time])
    all_axes[-1].set_xlabel("time per sentence on a CPU, from string to vector (preset default = 1, lower is better)")
    figure.canvas.draw()
    for axes, of_points in labels:
        _spread(axes, of_points)
    kept = io.BytesIO()
    figure.savefig(kept, format="svg", metadata={"Date": None, "Description": described(drawn)})
    pyplot.close(figure)
    with atomic(path) as temporary:
        temporary.write_bytes(kept.getvalue())


def _styles() -> dict[str, tuple[str, str, str]]:
    from experiments.figures.style import BLUE, GREEN, ORANGE, PURPLE

    return {"banyan": (BLUE, "o", "Banyan"), "vectors": (ORANGE, "s", "other vectors, same training text"),
            "pretrained": (PURPLE, "D", "pretrained by others"),
            "none": (GREEN, "^", "similarity only, no vectors")}  # fmt: skip


def _legend(axes: Axes, drawn: Sequence[Point]) -> None:
    """A legend above the panels."""
    from matplotlib.lines import Line2D

    kinds = {point.kind for point in drawn}
    handles = [Line2D([], [], linestyle="", color=colour, marker=marker, markersize=7, label=told)
               for kind, (colour, marker, told) in _styles().items() if kind in kinds]  # fmt: skip
    if handles:
        axes.legend(handles=handles, loc="lower left", bbox_to_anchor=(0, 1), ncols=4, fontsize=8, frameon=False)


def _ticks(axes: Axes, times: Sequence[float]) -> None:
    """Ticks of the common x axis."""
    from matplotlib.ticker import LogLocator, NullLocator

    wide = bool(times) and max(times) > WIDE * min(times)
    axes.xaxis.set_major_locator(LogLocator(subs=(1,) if wide else (1, 2, 5)))
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_locator(NullLocator())


def _scatter(axes: Axes, drawn: Sequence[Point], told: str) -> list[Annotation]:
    from experiments.figures.style import plain_axes

    measured = [point for point in drawn if point.time]
    for kind, (colour, marker, _) in _styles().items():
        places = [(point.time or 0, point.score) for point in measured if point.kind == kind]
        if places:
            axes.plot(*zip(*places, strict=True), linestyle="", color=colour, marker=marker, markersize=7)
    axes.set_xscale("log")
    plain_axes(axes)
    axes.set_ylabel(told)
    _lines(axes, [point for point in drawn if not point.time])
    axes.margins(0.12, 0.1)
    return [axes.annotate(p.told, (p.time or 0, p.score), (7, 0), textcoords="offset points", fontsize=8.5)
            for p in measured]  # fmt: skip


def _lines(axes: Axes, drawn: Sequence[Point]) -> None:
    """Draw the paper's figures of systems that were not run here as horizontal lines."""
    near: list[list[Point]] = []
    for point in sorted(drawn, key=lambda one: -one.score):
        axes.axhline(point.score, color="#999999", linestyle=":", linewidth=1)
        if near and near[-1][0].score - point.score < NEAR:
            near[-1].append(point)
        else:
            near.append([point])
    for some in near:
        told = ", ".join(point.told for point in some)
        axes.text(1, some[0].score, f"{told} (paper)", transform=axes.get_yaxis_transform(),
                  ha="right", va="bottom", fontsize=8, color="#666666")  # fmt: skip


PLACES: tuple[tuple[int, int, str, str], ...] = (
    (7, 0, "left", "center"), (-7, 0, "right", "center"), (0, 8, "center", "bottom"), (0, -8, "center", "top"),
    (7, 9, "left", "center"), (7, -9, "left", "center"), (-7, 9, "right", "center"), (-7, -9, "right", "center"),
    (7, 18, "left", "center"), (7, -18, "left", "center"), (-7, 18, "right", "center"), (-7, -18, "right", "center"),
)  # fmt: skip


def _along(label: Text, dots: Sequence[Any]) -> Bbox:
    """Move the label of a line along it until it hides no point; return its box."""
    for x in ALONG:
        label.set_x(x)
        box = label.get_window_extent()
        if not _hides(box, dots):
            break
    return box


def _hides(box: Bbox, dots: Sequence[Any]) -> bool:
    return any(box.padded(DOT).contains(*dot) for dot in dots)


def _spread(axes: Axes, annotations: Sequence[Annotation]) -> None:
    """Move each label to the first position where it hides nothing."""
    dots = [axes.transData.transform(annotation.xy) for annotation in annotations]
    of_lines = [text for text in axes.texts if text not in annotations]
    taken = [_along(text, dots) for text in of_lines]

    def free(place: tuple[int, int, str, str], annotation: Annotation) -> bool:
        x, y, across, upright = place
        annotation.set_position((x, y))
        annotation.set_horizontalalignment(across)  # type: ignore[arg-type]
        annotation.set_verticalalignment(upright)  # type: ignore[arg-type]
        box = annotation.get_window_extent()
        inside = axes.bbox.x0 <= box.x0 and box.x1 <= axes.bbox.x1
        return inside and not any(box.overlaps(one) for one in taken) and not _hides(box, dots)

    for annotation in annotations:
        if not any(free(place, annotation) for place in PLACES):
            free(PLACES[0], annotation)
        taken.append(annotation.get_window_extent())


def main() -> None:
    draw(points(Compared.read(Material.read(RESULTS), RESULTS / "compared")), PICTURE)


if __name__ == "__main__":
    main()
