"""The look of the pictures in docs/images/results, and how they are saved."""

from __future__ import annotations

from typing import TYPE_CHECKING

from banyan.support.files import atomic
from experiments.places import IMAGES, ROOT

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PICTURES = IMAGES / "results"

# The palette of Okabe and Ito, which colour-blind readers can distinguish.
BLACK, ORANGE, SKY, GREEN, BLUE, VERMILION, PURPLE = (
    "#000000", "#E69F00", "#56B4E9", "#009E73", "#0072B2", "#D55E00", "#CC79A7"
)  # fmt: skip
MARKERS = ((BLUE, "o"), (ORANGE, "s"), (GREEN, "^"), (VERMILION, "D"), (PURPLE, "v"), (SKY, "P"), (BLACK, "X"))


def picture(figure: Figure, name: str) -> str:
    """Save a picture and return its path from the root of the repository."""
    PICTURES.mkdir(parents=True, exist_ok=True)
    with atomic(PICTURES / name) as temporary:
        figure.savefig(temporary, format="png", dpi=150, metadata={"Software": None})
    return (PICTURES / name).relative_to(ROOT).as_posix()


def plain_axes(axes: Axes) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.25)
