"""Every measured number in README.md and docs/ has a source and is what its source says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from experiments.pages import numbers, sources
from experiments.pages.numbers import Page
from experiments.places import DOCS, ROOT

PAGES = numbers.pages()
NAMES = {"figure": lambda name: {"speed": 9.93, "share": 0.42, "many": 67_468, "below": 0.6, "loss": -1.02}[name]}


@pytest.fixture(scope="module")
def names() -> dict[str, Any]:
    return sources.names()


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_measured_number_of_the_page_is_what_its_source_says(path: Path, names):
    found = numbers.problems(Page(path.read_text(encoding="utf-8")), names)
    assert not found, "\n".join(f"{path.relative_to(ROOT)}:{line}" for line in found)


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_changed_digit_is_noticed_wherever_it_is(path: Path, names):
    page = Page(path.read_text(encoding="utf-8"))
    for number in page.numbers:
        changed = re.sub(r"\d(?=\D*$)", lambda digit: str((int(digit[0]) + 1) % 10), number.text)
        known = page.given | {claim.number for claim in page.claims[number.block]}
        if changed not in known and not re.fullmatch("19..|20[0-3].", changed):
            wrong = f"{page.text[: number.start]}{changed}{page.text[number.start + len(number.text) :]}"
            told = f"{number.text} could be {changed} at line {page.line(number.start)}"
            assert any(changed in one for one in numbers.problems(Page(wrong), names)), told


def test_only_the_experiments_are_lab_notes():
    assert {DOCS / "experiments.md"} == {ROOT / "README.md", *DOCS.rglob("*.md")} - set(numbers.pages())


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("It is 9.9 times as fast.", "1: 9.9 has no source"),
        ("It is 9.8 times as fast.\n<!-- sources: 9.8 = figure('speed') -->", "is not so, it is 9.93"),
        ("It is 9.8 times as fast.\n<!-- sources: 9.9 = figure('speed') -->", "9.8 has no source"),
        ("It is fast.\n<!-- sources: 9.9 = figure('speed') -->", "does not stand in this paragraph"),
        ("It is 9.9 times.\n\nNo.\n<!-- sources: 9.9 = figure('speed') -->", "9.9 has no source"),
        ("It takes 3 MB.\n<!-- sources: 3 = figure('nothing') -->", "cannot be evaluated"),
        ("It takes less than 1 MB.\n<!-- sources: 1 < figure('below') -->", "is not so"),
        ("A batch of 512.\n\n<!-- given: 1,024 -->", "512 has no source"),
        ("A batch.\n\n<!-- given: 512 -->", "512 is given but stands nowhere"),
        ("| a | 7 MB |\n|---|---|\n| b | 8 |", "7 has no source"),
    ],
)
def test_a_number_is_refused(text, told):
    assert told in "\n".join(numbers.problems(Page(text), NAMES))


@pytest.mark.parametrize(
    "text",
    [
        "It is 9.9 times as fast.\n<!-- sources: 9.9 = figure('speed') at least -->",
        "It saves 42%, and loses −1.0.\n<!-- sources: 42% = figure('share'); −1.0 = figure('loss') -->",
        "It reads 67,500 sentences.\n<!-- sources: 67,500 = figure('many') -->",
        "It takes less than 1 MB.\n<!-- sources: 1 > figure('below') -->",
        "A step has 512 sentences.\n\n<!-- given: 512 sentences -->",
        "Licences 4.0 and 1.0, and 1,024 rows.\n\n<!-- given: 4.0 and 1.0, versions; 1,024 -->",
        "On STS-12, nDCG@10 with MiniLM-L6 on an H200, × 100 with 95% intervals, Python 3.11, section 14, in 2025.",
        "`--batch-size 512`, [here](docs/page-99.md) or <https://example.org/42>: 3 of them.\n```sh\nsleep 77\n```",
        "## 10. Steps\n\n1. First\n2. Second",
    ],
)
def test_a_number_is_accepted(text):
    assert numbers.problems(Page(text), NAMES) == []


def test_numbers_are_written_anew_where_their_source_has_changed():
    written = "It is 9.1 times as fast, 9.1 in all; 41% less."
    text = f"{written}\n<!-- sources: 9.1 = figure('speed'); 41% = figure('share') -->\n"
    now = numbers.filled(text, NAMES)
    assert now == text.replace("9.1", "9.9").replace("41%", "42%")
    assert numbers.problems(Page(now), NAMES) == []


def test_one_number_may_have_two_sources():
    text = "From 1.0 to 1.0.\n<!-- sources: 1.0 = figure('speed'); 1.0 = figure('below') -->\n"
    assert numbers.filled(text, NAMES).startswith("From 9.9 to 0.6.\n")


def test_a_table_is_written_from_its_source():
    text = "<!-- table: rows() -->\nold\n<!-- end of table -->\n"
    assert numbers.filled(text, {"rows": lambda: "| a |"}) == text.replace("old", "| a |")
