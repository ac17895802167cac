"""The Latin case: what is read, what is counted, what the page says of it."""

from __future__ import annotations

import json
import lzma
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

from banyan.errors import BanyanError
from banyan.evaluate.similarity import Pairs
from experiments.latin import echoes as latin_echoes
from experiments.latin import measure as latin
from experiments.latin import sets as latin_sets
from experiments.measuring.baselines import TfIdf
from experiments.pages import latin as latin_page
from tests.helpers.corpora import lines

LUCAN = "quis furor o cives quae tanta licentia ferri"
AENEID = "quis metus o numquam dolituri o semper inertes tyrrheni"


def write(path: Path, *rows: tuple) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join("\t".join(map(str, row)) + "\n" for row in rows), encoding="utf-8")
    return path


# --- Reading ---------------------------------------------------------------------------------------------------------


def test_a_row_without_what_is_needed_is_named(tmp_path):
    path = write(tmp_path / "set.tsv", ("word", "answer"), ("a", "b"), ("c", ""))
    with pytest.raises(BanyanError, match=r"set\.tsv, row 3: answer is empty"):
        latin_sets.read_table(path, ("word", "answer"))


def test_parallels_know_quotations_of_commentaries_by_their_numbers(tmp_path):
    header = ("ref1", "ref2", "sent1", "sent2", "grade", "commentator")
    whole = ("Luc. 1.8", "Verg. A. 11.732", LUCAN, AENEID, 5, "")
    quoted = ("Luc. 1.2", "Verg. A. 1.1", "2 canimus", "cano", 4, "V")
    first, second = latin_sets.read_parallels(write(tmp_path / "set.tsv", header, whole, quoted))
    assert first == (LUCAN, AENEID, "Luc. 1.8", "Verg. A. 11.732", 5)
    assert (first.quoted, second.quoted) == (False, True)


def test_texts_that_come_again_stand_once_with_all_their_answers(tmp_path):
    path = write(tmp_path / "set.tsv", ("la1", "la2"), ("a", "x"), ("b", "y"), ("a", "y"), ("c", '"z ""z"""'))
    there, back = latin_sets.read_links(path, "la1", "la2", quotes=True)
    assert there == (["a", "b", "c"], ["x", "y", 'z "z"'], [{0, 1}, {1}, {2}])
    assert back == (["x", "y", 'z "z"'], ["a", "b", "c"], [{0}, {0, 1}, {2}])


# --- Figures ---------------------------------------------------------------------------------------------------------


def test_places_of_the_first_right_document_and_what_is_made_of_them():
    places = latin_sets.first_right([[3, 1, 2], [0, 1], [2, 0], []], [{3}, {1, 5}, {4}, {0}])
    assert_allclose(places, [1, 2, np.inf, np.inf])
    assert latin_sets.found_within(places, "set", 1).value == 25
    assert latin_sets.found_within(places, "set", 2).value == 50
    assert latin_sets.reciprocal(places, "set").value == 37.5


def test_a_choice_among_equals_counts_by_its_share():
    by_table = {"right": 0.5, "wrong": 0.1, "as near": 0.5, "nearer": 0.9}
    others = (["wrong", "wrong", "wrong"], ["as near", "wrong", "wrong"], ["wrong", "nearer", "wrong"])
    offered = [text for three in others for text in ("right", *three)]
    choices = Pairs(["word"] * 12, offered, np.zeros(12))
    outcome = latin_sets.chosen(lambda pairs: np.array([by_table[text] for text in pairs.second]), choices, "set")
    assert_allclose(outcome.items, [1, 0.5, 0])
    assert outcome.value == 50


def test_the_right_one_is_offered_first(tmp_path):
    header = ("word", *latin_sets.CHOICES)
    choices = latin_sets.read_choices(write(tmp_path / "set.tsv", header, ("vox", "iussum", "ingens", "os", "lex")))
    assert choices.first == ["vox"] * 4
    assert choices.second == ["iussum", "ingens", "os", "lex"]
    assert choices.score.tolist() == [1, 0, 0, 0]


def test_shorter_pairs_score_higher():
    scores = latin_sets.shortness(Pairs(["arma virumque", "arma"], ["cano", "cano"], np.zeros(2)))
    assert scores.tolist() == [-3, -2]


def test_a_text_finds_itself_first_by_every_way(trained_model, tmp_path):
    pytest.importorskip("lancedb")
    texts = list(dict.fromkeys(lines(40, 3)))
    links = latin_sets.Linked.of([(text, text) for text in texts])
    found = latin_sets.rank_by_search(trained_model, links, tmp_path / "search")
    found["TF-IDF"] = latin_sets.rank_by_tfidf(TfIdf(texts), links)
    for way in ("vectors", "words", "both", "TF-IDF"):
        assert (latin_sets.first_right(found[way], links.right) == 1).all(), way


# --- Echoes ----------------------------------------------------------------------------------------------------------


def echo(grade: int = 5, lucan: str = LUCAN, aeneid: str = AENEID) -> latin_sets.Parallel:
    return latin_sets.Parallel(lucan, aeneid, "Luc. 1.8", "Verg. A. 11.732", grade)


def test_a_passage_is_known_by_six_words_in_any_spelling():
    cut = "Quis metus, o nunquam? Quis metus, o numquam dolitvri, o semper inertes"
    assert latin_echoes.place_of(echo(), ["other words", cut]) == 2
    assert latin_echoes.place_of(echo(), ["quis metus o numquam dolituri alius"]) == np.inf


def test_lucans_own_lines_do_not_count():
    own = "QUIS FUROR, O CIVES, quae tanta licentia ferri!"
    assert latin_echoes.place_of(echo(), [own, "other words", own, AENEID]) == 2


def test_what_comes_after_the_deepest_place_is_not_found(monkeypatch):
    monkeypatch.setattr(latin_echoes, "DEEPEST", 2)
    assert latin_echoes.place_of(echo(), ["one", AENEID]) == 2
    assert latin_echoes.place_of(echo(), ["one", "two", AENEID]) == np.inf


def test_the_best_graded_whole_sentences_are_looked_for():
    short, quoted = echo(lucan="quis furor"), echo(lucan=f"8 {LUCAN}")
    assert latin_echoes.wanted([echo(3), echo(4), short, quoted, echo(5)]) == [echo(5), echo(4)]


# --- All of it -------------------------------------------------------------------------------------------------------


@pytest.fixture
def data(tmp_path) -> Path:
    """Small stand-ins of the Latin files, in the language of the small model."""
    texts = list(dict.fromkeys(lines(60, 5)))
    here = tmp_path / "data"
    header = ("ref1", "ref2", "sent1", "sent2", "grade")
    parallels = [(f"Luc. 1.{i}", "Verg. A. 1.1", f"{a} by day", f"so {a} by day", 1 + i % 5)
                 for i, a in enumerate(texts[:10])]  # fmt: skip
    parallels += [("Luc. 2.1", "Verg. A. 2.1", "1 the cat", "the dog", 3), ("Luc. 2.2", "-", "2 the king", "queen", 4)]
    write(here / "latin" / latin.TESSERAE, header, *parallels)
    psalms = [(text, f"and {text}") for text in texts[10:20]]
    write(here / "latin/psalms_gallican_vs_hebraicum.tsv", ("la_gallican", "la_iuxta_hebraeos"), *psalms)
    write(here / "latin/related_verses.tsv", ("la1", "la2"), *psalms)
    choices = ("cat", "cats", "river", "queen", "old")
    write(here / "latin/latin_synonyms_4choice.tsv", ("word", *latin_sets.CHOICES), choices, choices)
    (here / "corpora/la").mkdir(parents=True)
    with lzma.open(here / "corpora/la/train.txt.xz", "wt", encoding="utf-8") as file:
        file.writelines(f"{text}\n" for text in texts[20:50])
    return here


def test_the_command_scores_indexes_finds_and_the_page_shows_it(trained_folder, data, tmp_path, monkeypatch):
    pytest.importorskip("lancedb")
    out, picture = tmp_path / "latin.json", tmp_path / "echo.svg"
    given = {"model": trained_folder, "data": data, "work": tmp_path / "work", "out": out, "picture": picture}
    monkeypatch.setattr(sys, "argv", ["latin.py", *(f"--{name}={value}" for name, value in given.items())])
    assert latin.main() == 0
    results = json.loads(out.read_text(encoding="utf-8"))
    assert len(results["scores"]) == 3 + 2 * 4 + 1
    psalms = next(row for row in results["scores"] if row["set"].startswith("Psalms"))
    assert psalms["n"] == 10
    assert psalms["ways"]["TF-IDF"] == [100, 100, 100]
    assert [one["grade"] for one in results["echoes"]["pairs"]] == [5, 5, 4, 4]
    assert results["echoes"]["pairs"][0]["places"]["TF-IDF"] == 1
    written = latin_page.filled(latin_page.PAGE.read_text(encoding="utf-8"), results)
    assert written == latin_page.filled(written, results)
    assert re.search(r"^\| Psalms.*\| 10 \|", written, re.MULTILINE)
    assert sum(one["size"] for one in results["echoes"]["overview"]["clusters"]) == 30
    assert picture.read_text(encoding="utf-8").startswith("<svg")


def test_a_missing_file_is_named(trained_folder, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["latin.py", f"--model={trained_folder}", f"--data={tmp_path}"])
    assert latin.main() == 1
    assert "train.txt.xz" in capsys.readouterr().err


def test_only_significant_differences_are_named():
    figure = [50.0, 40.0, 60.0]
    rows = [
        {"set": name, "measure": "MRR", "n": 2, "ways": {"Banyan": figure}, "minus TF-IDF": {"Banyan": minus}}
        for name, minus in {"a": [2.0, 1.0, 3.0], "b": [1.0, -1.0, 3.0], "c": [-2.0, -3.0, -1.0]}.items()
    ]
    told = latin_page.said({"scores": rows, "echoes": {"rows": []}})
    assert "TF-IDF. Significantly better on a (MRR). Significantly worse on c (MRR). Other" in told


def test_the_sets_are_read_whole(data_folder):
    here = data_folder / "latin"
    parallels = latin_sets.read_parallels(here / latin.TESSERAE)
    assert len(parallels) == 3410
    assert {one.grade for one in parallels} == {1, 2, 3, 4, 5}
    psalms, _ = latin_sets.read_links(here / "psalms_gallican_vs_hebraicum.tsv", "la_gallican", "la_iuxta_hebraeos")
    verses, _ = latin_sets.read_links(here / "related_verses.tsv", "la1", "la2", quotes=True)
    assert (len(psalms.queries), len(psalms.documents)) == (2485, 2487)
    assert (len(verses.queries), len(verses.documents)) == (275, 372)
    assert len(latin_sets.read_choices(here / "latin_synonyms_4choice.tsv").first) == 4 * 1910
