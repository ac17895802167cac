"""Explanation, returned by `Banyan.explain`: the cosine of two sentences as a sum over pairs of pieces."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from banyan.support import drawing as svg


class Pair(NamedTuple):
    """A cell of the matrix: the contribution of piece `row` of a and piece `column` of b to the cosine."""

    row: int
    column: int
    a: str
    b: str
    value: float


@dataclass(frozen=True, eq=False, repr=False)
class Explanation:
    """The cosine of two sentences, split exactly into the contribution of each pair of pieces."""

    rows: list[str]  # the pieces of sentence a as written in the text, then "bias"
    columns: list[str]  # the same for sentence b
    matrix: np.ndarray  # float64 [n+1, m+1]; its sum is the cosine
    similarity: float

    def top(self, k: int = 10) -> list[Pair]:
        """Return the k cells of the largest absolute value, largest first, including those of the bias."""
        strongest = np.argsort(-np.abs(self.matrix), axis=None, kind="stable")[: max(k, 0)]
        cells = zip(*np.unravel_index(strongest, self.matrix.shape), strict=True)
        return [Pair(int(i), int(j), self.rows[i], self.columns[j], float(self.matrix[i, j])) for i, j in cells]

    def __repr__(self) -> str:
        rows, columns = self.matrix.shape
        return f"<Explanation of cosine {self.similarity:.3f}: {rows - 1} × {columns - 1} pieces>"

    def __str__(self) -> str:
        return self.to_text()

    def to_text(self, width: int | None = None, color: bool = False) -> str:
        """Return the matrix as a table if it fits the width (by default the terminal's), else its largest cells."""
        width = width or shutil.get_terminal_size().columns
        rows = [svg.shorten(svg.visible(label), 20) for label in self.rows]
        columns = [svg.shorten(svg.visible(label), 12) for label in self.columns]
        sizes = [max(svg.terminal_width(label), 5) for label in columns]
        indent = max(map(svg.terminal_width, rows))
        if indent + sum(sizes) + 2 * len(sizes) > width:
            return "\n".join(self._strongest_cells(width, color))
        lines = [f"cosine {self.similarity:.3f} is the sum of these cells (×100)", ""]
        lines.append(" " * indent + "".join(f" {_right(*label)} " for label in zip(columns, sizes, strict=True)))
        for label, values in zip(rows, self.matrix.tolist(), strict=True):
            cells = (self._painted(value, size, color) for value, size in zip(values, sizes, strict=True))
            lines.append(_right(label, indent) + "".join(cells))
        return "\n".join(line.rstrip() for line in lines)

    def _strongest_cells(self, width: int, color: bool) -> list[str]:
        pairs = self.top(20)
        others = self.matrix.size - len(pairs)
        rest = float(self.matrix.sum()) - sum(pair.value for pair in pairs)
        lines = [f"cosine {self.similarity:.3f}; the {len(pairs)} largest of {self.matrix.size} cells (×100)", ""]
        for pair in pairs:
            bar = ("█" if pair.value >= 0 else "░") * round(8 * abs(pair.value) / self._largest)
            words = svg.shorten(svg.visible(f"{pair.a} × {pair.b}"), max(width - 18, 12))
            lines.append(f"{self._painted(pair.value, 5, color)} {bar:8}  {words}")
        if others:
            lines.append(f" {_hundredths(rest):>5} {'':8}   the other {others} together")
        return lines

    def _painted(self, value: float, size: int, color: bool) -> str:
        written = f" {_hundredths(value):>{size}} "
        return _paint(written, self._colour(value)) if color else written

    def to_json(self) -> str:
        """Return similarity, rows, columns and matrix as JSON."""
        values = {"similarity": float(self.similarity), "rows": self.rows, "columns": self.columns}
        return json.dumps({**values, "matrix": self.matrix.tolist()}, ensure_ascii=False)

    def to_svg(self) -> str:
        """Draw a heat map. Blue adds to the cosine, orange subtracts from it. Few cells also show numbers (×100)."""
        return _Drawing(self).to_svg()

    def _repr_svg_(self) -> str | None:
        return self.to_svg() if self.matrix.size <= 20_000 else None  # two long documents would freeze a notebook

    def _repr_html_(self) -> str | None:
        drawing = self._repr_svg_()
        return drawing and svg.in_notebook(drawing)

    @cached_property
    def _largest(self) -> float:
        return float(np.abs(self.matrix).max(initial=0)) or 1.0

    def _colour(self, value: float) -> svg.Colour:
        return svg.mix(svg.WHITE, _ADDS if value >= 0 else _TAKES, abs(value) / self._largest)


_ADDS, _TAKES = (18, 92, 160), (205, 92, 20)  # blue and orange, which most colour-blind people can tell apart


def _hundredths(value: float) -> str:
    return f"{round(100 * value, 1) + 0.0:.1f}"


def _right(text: str, columns: int) -> str:
    return " " * (columns - svg.terminal_width(text)) + text


def _paint(text: str, background: svg.Colour) -> str:
    """Put text on the nearest colour of the 6 × 6 × 6 cube that nearly every terminal supports."""
    red, green, blue = (max(round((part - 55) / 40), 0) for part in background)
    black_or_white = 16 if svg.ink(background) == svg.DARK else 231
    return f"\x1b[48;5;{16 + 36 * red + 6 * green + blue};38;5;{black_or_white}m{text}\x1b[0m"


class _Drawing:
    """The layout of the heat map. Sizes are in pixels."""

    MARGIN = 18
    TITLE = 30  # height of the line above everything
    GAP = 6  # in front of the bias row and column
    SLOPE = 0.71  # sine and cosine of 45 degrees

    def __init__(self, explanation: Explanation) -> None:
        self.explanation = explanation
        self.numbers = explanation.matrix.size <= 500
        self.size = 13 if self.numbers else 11
        self.row_widths = [svg.text_width(svg.visible(label), self.size) for label in explanation.rows]
        self.column_widths = [svg.text_width(svg.visible(label), self.size) for label in explanation.columns]
        level = max(self.column_widths) + 10  # the width of a cell if the labels above are horizontal
        self.sloping = not self.numbers or level > 72 or level * len(self.column_widths) > 900
        self.cell = (46 if self.sloping else max(level, 46), 28) if self.numbers else (18, 18)
        self.left = self.MARGIN + max(self.row_widths) + 8
        head = max(self.column_widths) * self.SLOPE + 8 if self.sloping else self.size
        self.top = self.MARGIN + self.TITLE + head + 8
        self.right = self.x(len(explanation.columns) - 1) + self.cell[0]
        self.bottom = self.y(len(explanation.rows) - 1) + self.cell[1]

    def x(self, column: int) -> float:
        return self.left + column * self.cell[0] + self.GAP * (column == len(self.explanation.columns) - 1)

    def y(self, row: int) -> float:
        return self.top + row * self.cell[1] + self.GAP * (row == len(self.explanation.rows) - 1)

    def to_svg(self) -> str:
        title = f"cosine {self.explanation.similarity:.3f}"
        parts = [svg.text(self.MARGIN, self.MARGIN + 13, title, font_size=15, font_weight=600)]
        parts += [self._labels(), self._cells(), self._scale()]
        return svg.card(self._width(), self.bottom + 34 + self.MARGIN, title, parts)

    def _width(self) -> float:
        """Return a width that fits the cells, the sloping labels, the title and the scale."""
        ends = [self.right, self.MARGIN + 240]
        if self.sloping:
            middles = (self.x(column) + self.cell[0] / 2 for column in range(len(self.column_widths)))
            ends += [x + width * self.SLOPE + 4 for x, width in zip(middles, self.column_widths, strict=True)]
        return max(ends) + self.MARGIN

    def _labels(self) -> str:
        beside = [self._row_label(row, label) for row, label in enumerate(self.explanation.rows)]
        above = [self._column_label(column, label) for column, label in enumerate(self.explanation.columns)]
        groups = (beside, "end"), (above, "start" if self.sloping else "middle")
        return "\n".join(svg.group(labels, font_size=self.size, text_anchor=anchor) for labels, anchor in groups)

    def _row_label(self, row: int, label: str) -> str:
        fill = _label_colour(row, self.explanation.rows)
        return svg.text(self.left - 8, self.y(row) + self.cell[1] / 2 + self.size * 0.35, label, fill=fill)

    def _column_label(self, column: int, label: str) -> str:
        fill = _label_colour(column, self.explanation.columns)
        x, y = self.x(column) + self.cell[0] / 2, self.top - 8
        if not self.sloping:
            return svg.text(x, y, label, fill=fill)
        x += self.size * 0.25  # centres the sloping letters, not their baseline, over the cell
        return svg.text(x, y, label, fill=fill, transform=f"rotate(-45 {svg.number(x)} {svg.number(y)})")

    def _cells(self) -> str:
        matrix = self.explanation.matrix
        cells = [self._cell(i, j) for i in range(matrix.shape[0]) for j in range(matrix.shape[1])]
        return svg.group(cells, font_size=11.5, text_anchor="middle")

    def _cell(self, row: int, column: int) -> str:
        value = float(self.explanation.matrix[row, column])
        fill = self.explanation._colour(value)
        (width, height), x, y = self.cell, self.x(column), self.y(row)
        parts = [svg.rect(x + 0.5, y + 0.5, width - 1, height - 1, fill, rx=3 if self.numbers else 1, stroke=_LINE)]
        if self.numbers:
            parts.append(svg.text(x + width / 2, y + height / 2 + 4, _hundredths(value), fill=svg.ink(fill)))
        pair = f"{self.explanation.rows[row]} × {self.explanation.columns[column]}"
        return svg.group(parts, title=f"{svg.shorten(pair, 100)}: {100 * value:.2f}")

    def _scale(self) -> str:
        """Draw the colour scale with its smallest and largest value."""
        largest, steps, width = self.explanation._largest, 20, 5
        y, end = self.bottom + 22, svg.text_width(_hundredths(-self.explanation._largest), 11) + 6
        x = self.MARGIN + end
        parts = [
            svg.rect(x + width * step, y, width, 10, self.explanation._colour(largest * (2 * step / (steps - 1) - 1)))
            for step in range(steps)
        ]
        parts.append(svg.text(x - 6, y + 9, _hundredths(-largest), text_anchor="end"))
        parts.append(svg.text(x + width * steps + 6, y + 9, f"{_hundredths(largest)}  (×100)"))
        return svg.group(parts, font_size=11, fill=svg.GREY)


_LINE = (232, 235, 233)


def _label_colour(index: int, labels: list[str]) -> svg.Colour:
    """Return grey for the bias, which is not a word of the sentence."""
    return svg.GREY if index == len(labels) - 1 else svg.DARK
