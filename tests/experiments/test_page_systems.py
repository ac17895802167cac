"""The pages of what Banyan is compared with: what was measured, between their marks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from banyan.baselines import BASELINES
from experiments.pages import __main__ as pages
from experiments.pages import markdown as page_markdown
from experiments.pages import numbers
from experiments.pages import systems as page_systems
from experiments.places import DOCS, RESULTS, ROOT
from experiments.records import systems as compared_systems
from experiments.records.material import Material
from experiments.records.paired import Paired
from experiments.records.systems import Compared, Figure


class Made:
    """Figures by system and what they are of, as Compared has them; two points to either side are level."""

    def __init__(self, figures: Mapping[str, Mapping[str, float]], papers: tuple[str, ...] = (), **cost: Any) -> None:
        self.figures, self.papers, self.cost = figures, papers, cost

    def figure(self, system: Any, of: str) -> Any:
        value = self.figures.get(system.name, {}).get(of)
        return None if value is None else Figure(value, value - 2, value + 2, papers=system.name in self.papers)

    def level(self, one: Any, other: Any, of: str) -> bool:
        return self.figure(one, of).level(self.figure(other, of))

    def of(self, system: Any) -> Any:
        return compared_systems.Measured([{"made": {"settings": {}}, **self.cost}] if system.name == "glove" else [])

    def trainings(self, system: Any) -> Any:
        yield self.of(system).training()


@pytest.mark.parametrize(("interval", "level"), [("-2.2 to -0.7", False), ("-2.2 to 0.1", True), ("0.1 to 2.2", False)])
def test_paired_differences_decide_between_default_and_tfidf(monkeypatch, interval, level):
    row = ["STS-12", 61.0, 62.0, -1.4, interval]
    paired = Paired({"sts": {"columns": ["", "default", "TF-IDF", "minus TF-IDF", "95%"], "rows": [row]}})
    monkeypatch.setattr(Compared, "figure", lambda *_: Figure(61.0, 0.0, 100.0))  # all level by themselves
    named = {system.name: system for system in compared_systems.SYSTEMS}
    every = Compared(None, {}, paired)  # type: ignore[arg-type]
    assert every.level(named["default"], named["tfidf"], "STS-12") == level
    assert every.level(named["tfidf"], named["default"], "STS-12") == level
    assert every.level(named["default"], named["glove"], "STS-12")
    assert every.level(named["default"], named["tfidf"], "STS-13")  # has no paired difference


def test_a_mean_over_languages_has_an_interval_with_one_seed_too():
    """Without one, any other figure would differ significantly."""
    every = Compared.read(Material.read(RESULTS), RESULTS / "compared")
    for system in compared_systems.SYSTEMS:
        if (figure := every.ours(system, "languages")) and figure.seeds == 1:
            assert figure.low < figure.value < figure.high, system.name


def test_every_page_matches_the_json():
    found = pages.pages()
    assert set(found) == {ROOT / "RESULTS.md", DOCS / "experiments.md", *numbers.pages()}
    for path, text in found.items():
        assert path.read_text(encoding="utf-8") == text, f"{path.name}: run python -m experiments.pages"


def test_a_page_that_does_not_match_is_noticed_and_written_anew(monkeypatch, tmp_path, capsys):
    stale = tmp_path / "glove.md"
    stale.write_text("old")
    monkeypatch.setattr(pages, "pages", lambda: {stale: "new"})
    assert pages.main(["--check"]) == 1
    assert "glove.md is out of date" in capsys.readouterr().err
    assert stale.read_text() == "old"
    assert pages.main([]) == 0
    assert stale.read_text() == "new"


def test_only_what_is_between_the_marks_is_written():
    marks = ("<!-- a -->\n", "<!-- b -->\n")
    assert page_markdown.between("one\n<!-- a -->\ntwo\n<!-- b -->\nthree", marks, "2\n") == (
        "one\n<!-- a -->\n2\n<!-- b -->\nthree"
    )


def test_a_page_shows_its_systems_beside_default_and_tfidf():
    text = page_systems.measured(Made({"glove": {"sts": 28, "words": 30}, "default": {"sts": 68}}), "glove")
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")][2:]
    assert [row[0] for row in rows] == [
        "GloVe", "GloVe without stop words", "GloVe at the paper's 0.001", "Banyan, `default`", "TF-IDF of characters",
    ]  # fmt: skip
    assert rows[0][1:] == ["28.00", "30.00", *["not measured"] * 3]
    assert rows[3][-1] == "1"


def test_a_page_is_not_compared_with_itself():
    text = page_systems.measured(Made({"tfidf": {"sick": 60}, "default": {"sick": 50}}), "tfidf")
    told = "compared with Banyan `default`, **significantly better on SICK-R** (of 1 set)."
    assert f"- **TF-IDF of characters**: {told}" in text
    assert "compared with TF-IDF" not in text


def test_a_page_says_where_a_system_is_significantly_better():
    ours = {"sick": 60, "simlex": 20, "sts12": 40, "arguana": 51, "hi": 70, "ha": 50}
    theirs = {"sick": 50, "simlex": 30, "sts12": 50, "arguana": 50, "hi": 60, "am": 1}
    text = page_systems.measured(Made({"glove": ours, "default": theirs, "tfidf": {"ha": 60}}), "glove")
    told = "compared with Banyan `default`, **significantly better on SICK-R and in Hindi**, 1 without a significant "
    told += "difference, 2 significantly worse (of 4 sets and 1 language)"
    assert f"- **GloVe**: {told}; compared with TF-IDF, nowhere significantly better, 1" in text


@pytest.mark.parametrize(
    ("papers", "told"), [(("glove",), "(of 2 sets, with the paper's figures)"), ((), "(of 2 sets)")]
)
def test_a_page_says_which_figures_are_the_paper_s(papers, told):
    figures = {"sick": 60.0, "simlex": 20.0, "sts": 50.0}
    text = page_systems.measured(Made({"glove": figures, "default": figures}, papers), "glove")
    assert told in text
    assert ("50.00 (paper)" in text) == ("without an interval" in text) == bool(papers)


def test_a_page_says_what_a_system_costs():
    cost: dict[str, Any] = {"training_seconds": 113.0, "peak_memory_bytes": 254e6, "bytes": 64e6}
    text = page_systems.measured(Made({}, **cost, speed={"ratio": 0.5}), "glove")
    assert "- **GloVe**: Cost: 1m 53s to train, 254 MB of memory to encode and 64 MB of disk." in text
    assert next(line for line in text.splitlines() if line.startswith("| GloVe |")).endswith("| 2 |")


def test_every_system_that_is_compared_has_a_page():
    text = "\n".join(page_systems.measured(Made({}), name) for name in BASELINES)
    assert all(f"| {system.told} |" in text for system in compared_systems.SYSTEMS if not system.run)


def test_the_list_of_pages_tells_what_the_command_tells():
    for name, one in BASELINES.items():
        assert f"| [`{name}`]({name}.md) | {one.about} | {one.best_for} |" in page_systems.overview()
