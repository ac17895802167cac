from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest

from banyan.explanation import Explanation, Pair, _Drawing
from banyan.support import drawing as svg

NAME = "{http://www.w3.org/2000/svg}"
ANSI = re.compile(r"\x1b\[[0-9;]*m")

SENTENCES = {
    "English": ["The", "ba", "nyan", "<tree>", "spreads", "&", "unbelievably"],
    "Chinese": ["榕树", "的", "根", "慢慢地", "伸展", "。"],
    "Arabic": ["تنتش", "ر", "جذور", "شجرة"],
    "long": [f"word{i}" for i in range(40)],
    "one word": ["banyan"],
    "empty": [],
}


def explain(a: list[str], b: list[str], seed: int = 0) -> Explanation:
    matrix = np.random.default_rng(seed).normal(0, 0.02, (len(a) + 1, len(b) + 1))
    return Explanation([*a, "bias"], [*b, "bias"], matrix, float(matrix.sum()))


def with_pairs(test):
    test = pytest.mark.parametrize("a", SENTENCES.values(), ids=SENTENCES)(test)
    return pytest.mark.parametrize("b", SENTENCES.values(), ids=SENTENCES)(test)


@pytest.fixture
def small() -> Explanation:
    matrix = np.array([[0.25, -0.001, 0.0], [0.02, 0.5, -0.3]])
    return Explanation(["tree", "bias"], ["tree", "banyan", "bias"], matrix, float(matrix.sum()))


def test_top_gives_the_strongest_pairs_first_whatever_their_sign(small: Explanation):
    assert small.top(2) == [Pair(1, 1, "bias", "banyan", 0.5), Pair(1, 2, "bias", "bias", -0.3)]
    assert [pair.value for pair in small.top(100)] == [0.5, -0.3, 0.25, 0.02, -0.001, 0.0]
    assert small.top(0) == []


def test_table_shows_every_cell_in_hundredths(small: Explanation):
    assert small.to_text(80).splitlines() == [
        "cosine 0.469 is the sum of these cells (×100)",
        "",
        "      tree  banyan   bias",
        "tree  25.0    -0.1    0.0",
        "bias   2.0    50.0  -30.0",
    ]


def test_colour_is_only_added_on_request(small: Explanation):
    painted = small.to_text(80, color=True)
    assert "\x1b" not in small.to_text(80)
    assert "\x1b[48;5;" in painted
    assert [line.rstrip() for line in ANSI.sub("", painted).splitlines()] == small.to_text(80).splitlines()


def test_str_follows_the_width_of_the_terminal(small: Explanation, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COLUMNS", "80")
    assert str(small) == small.to_text(80)
    monkeypatch.setenv("COLUMNS", "20")
    assert str(small) == small.to_text(20) != small.to_text(80)


@with_pairs
def test_text_fits_the_width(a: list[str], b: list[str]):
    for width in (60, 100):
        lines = explain(a, b).to_text(width).splitlines()
        assert max(map(svg.terminal_width, lines)) <= width


def test_long_sentences_list_the_strongest_cells_and_account_for_the_rest():
    long = explain(SENTENCES["long"], SENTENCES["long"])
    lines = long.to_text(80).splitlines()
    assert "the 20 largest of 1681 cells" in lines[0]
    pairs = long.top(20)
    assert [line.split("  ")[-1].strip() for line in lines[2:22]] == [f"{pair.a} × {pair.b}" for pair in pairs]
    rest = 100 * (long.matrix.sum() - sum(pair.value for pair in pairs))
    assert float(lines[22].split()[0]) == pytest.approx(rest, abs=0.051)
    assert lines[22].endswith("the other 1661 together")


def test_labels_never_send_control_characters_to_the_terminal():
    text = explain(["\x1b[31mred\x07"], ["two\nlines"]).to_text(80)
    assert not re.search("[\x00-\x09\x0b-\x1f]", text)
    assert len(text.splitlines()) == 5


def test_json_keeps_the_numbers_exactly(small: Explanation):
    read = json.loads(small.to_json())
    assert read["similarity"] == small.similarity
    assert (read["rows"], read["columns"]) == (small.rows, small.columns)
    np.testing.assert_array_equal(read["matrix"], small.matrix)


@with_pairs
def test_drawing_is_well_formed_and_names_every_piece(a: list[str], b: list[str]):
    explanation = explain(a, b)
    drawing = ET.fromstring(explanation.to_svg())
    shown = [element.text for element in drawing.iter(f"{NAME}text")]
    assert {*a, *b, "bias"} <= set(shown)
    assert len(drawing.findall(f".//{NAME}title")) == explanation.matrix.size


@with_pairs
def test_nothing_in_the_drawing_overlaps_or_leaves_the_page(a: list[str], b: list[str]):
    explanation = explain(a, b)
    drawing = _Drawing(explanation)
    page = ET.fromstring(drawing.to_svg())
    width, height = float(page.get("width", 0)), float(page.get("height", 0))
    for element in page.iter(f"{NAME}rect"):
        x, y, w, h = (float(element.get(name, "nan")) for name in ("x", "y", "width", "height"))
        assert min(x, y) >= 0
        assert x + w <= width + 0.1
        assert y + h <= height + 0.1
    assert all(drawing.left - 8 - label >= 0 for label in drawing.row_widths)
    for column, label in enumerate(drawing.column_widths):
        middle = drawing.x(column) + drawing.cell[0] / 2
        if drawing.sloping:
            assert middle + label * drawing.SLOPE <= width
            assert drawing.top - 8 - label * drawing.SLOPE >= drawing.MARGIN + drawing.TITLE
        else:
            assert label <= drawing.cell[0]


def test_numbers_are_drawn_only_where_there_are_few_cells():
    few, many = explain(["a"], ["b"]), explain(SENTENCES["long"], SENTENCES["long"])
    assert few.to_svg().count("<text") == 4 + 4 + 1 + 2  # labels, numbers, title, ends of the scale
    assert many.to_svg().count("<text") == 41 + 41 + 1 + 2


def test_colours_tell_what_adds_from_what_takes(small: Explanation):
    red, _, blue = small._colour(0.4)
    assert blue > red
    red, _, blue = small._colour(-0.4)
    assert red > blue
    assert small._colour(0.0) == svg.WHITE


def test_all_zero_matrix_and_huge_matrix_can_be_shown():
    nothing = Explanation(["bias"], ["bias"], np.zeros((1, 1)), 0.0)
    assert "cosine 0.000" in nothing.to_text(80)
    ET.fromstring(nothing.to_svg())
    many = explain(["a"] * 200, ["b"] * 200)
    assert many._repr_svg_() is None
    assert nothing._repr_svg_() == nothing.to_svg()
    assert len(repr(many)) < 80
