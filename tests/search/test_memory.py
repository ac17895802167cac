"""Small indexes are searched in arrays: the same hits as from LanceDB, never from stale or damaged files."""

from __future__ import annotations

import random
import subprocess
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest

from tests.helpers.corpora import lines

pytest.importorskip("lancedb")

import lancedb

from banyan import BanyanError
from banyan.search import memory
from banyan.search.bm25 import Splitter
from banyan.search.compounds import with_parts
from banyan.search.index import Index, Maker
from banyan.search.searching import Hit, Searcher

QUERIES = ["the queen hears the wolf", "Café on_the_hill", "the the cat", "river market 12", "nothing-of-this"]
DIM = 24


def encode(texts: list[str]) -> np.ndarray:
    """The mean of a random vector for each word."""
    words = [[np.random.default_rng(zlib.crc32(w.encode())).normal(size=DIM) for w in text.split()] for text in texts]
    return np.array([np.mean(said, 0) if said else np.zeros(DIM) for said in words])


def add(folder: Path, *names: Path, update: bool = False, language: str | None = None) -> None:
    with Index.writing(folder, Maker("none", "none", DIM), language) as index:
        index.add(encode, [str(name) for name in names], column="text", update=update)


@pytest.fixture
def table(tmp_path) -> Path:
    texts = [*lines(200, seed=1), "The café of learn_on_batch.", "Ένα δύο हिन्दी 我喜歡讀書", "The cat.", "The cat."]
    rows = [f'"{text}",{1800 + i}' for i, text in enumerate(texts)]
    (tmp_path / "table.csv").write_text("\n".join(["text,year", *rows]), encoding="utf-8")
    return tmp_path / "table.csv"


@pytest.fixture
def folder(table, tmp_path) -> Path:
    add(tmp_path / "index", table)
    return tmp_path / "index"


def opened(folder: Path, in_memory: bool) -> Searcher:
    index = Index.open(folder)
    if not in_memory:
        index.memory = None
    else:
        assert index.memory is not None
    return Searcher(index, encode)


def agree(ours: list[Hit], theirs: list[Hit]) -> None:
    """The same scores in the same order; rows with equal scores may be others at the end."""
    np.testing.assert_allclose([hit.score for hit in ours], [hit.score for hit in theirs], rtol=1e-5)
    last = ours[-1].score if ours else 0.0
    for a, b in zip(ours, theirs, strict=True):
        if a.score > last * (1 + 1e-5):
            assert (a.row, a.text, a.columns) == (b.row, b.text, b.columns)
            assert a.cosine == pytest.approx(b.cosine, abs=1e-12)


@pytest.mark.parametrize("mode", ["vectors", "words", "both"])
@pytest.mark.parametrize("where", [None, "year >= 1900", "year > 9999"])
def test_hits_are_those_of_lancedb(folder, mode, where):
    ours, theirs = opened(folder, True), opened(folder, False)
    for query in QUERIES:
        agree(ours.search(query, 7, mode=mode, where=where), theirs.search(query, 7, mode=mode, where=where))


@pytest.mark.parametrize("mode", ["words", "both"])
def test_an_index_with_a_language_has_the_stems_of_lancedb(table, tmp_path, mode):
    add(tmp_path / "index", table, language="English")
    ours, theirs = opened(tmp_path / "index", True), opened(tmp_path / "index", False)
    assert ours.search("hearing cats", mode="words")
    for query in QUERIES:
        agree(ours.search(query, 7, mode=mode), theirs.search(query, 7, mode=mode))


def test_words_are_split_as_lancedb_splits_them():
    rng = random.Random(0)
    letters = "aZ1_.,';:-\" b2$/\té’न्我"
    texts = ["".join(rng.choice(letters) for _ in range(rng.randrange(1, 14))) for _ in range(400)]
    texts = [text for text in texts if with_parts(text) == text]  # parts are tested elsewhere
    ours = list(Splitter().words(texts))
    options = {"base_tokenizer": "icu", "stem": False, "remove_stop_words": False}
    theirs = [token.text for token in lancedb.tokenize("\n".join(texts), **options)]
    assert [word for said in ours for word in said] == theirs
    long = ["a" * 38, "a" * 39, "a" * 40, "a" * 41]
    assert list(Splitter().words(long)) == [[t.text for t in lancedb.tokenize(word, **options)] for word in long]


def test_deleted_and_replaced_rows_are_gone(folder, table):
    with Index.writing(folder) as index:
        index.delete("year < 1990")
    assert {hit.columns["year"] >= 1990 for hit in opened(folder, True).search("the cat", 300)} == {True}
    table.write_text("text,year\nThe last whale.,7\n")
    add(folder, table, update=True)
    (hit,) = opened(folder, True).search("whale", 5)
    assert (hit.text, hit.columns) == ("The last whale.", {"year": 7})
    assert hit.words == pytest.approx(np.log(1 + 0.5 / 1.5) * 2.2 / 2.2)  # one row, of average length


def test_an_open_searcher_stays_consistent_while_the_index_changes(folder, table):
    searcher = opened(folder, True)
    before = searcher.search("the cat", 5)
    with Index.writing(folder) as index:
        index.delete("row <= 203")
    assert searcher.search("the cat", 5) == before
    assert [hit.row for hit in searcher.search("the cat", 5, where="year > 0")] == [204]
    assert [hit.row for hit in searcher.search("the cat", 5)] == [204]


@pytest.mark.parametrize("damage", ["missing", "cut", "stale"])
@pytest.mark.parametrize("name", ["rows.arrow", "words.arrow"])
def test_missing_damaged_and_stale_files_are_not_used(folder, table, damage, name):
    expected = opened(folder, True).search("the cat café", 5)
    path = folder / "memory" / name
    content = path.read_bytes()
    if damage == "stale":
        with Index.writing(folder) as index:
            index.delete("row = 1")
        expected = opened(folder, True).search("the cat café", 5)
        path.write_bytes(content)
    elif damage == "missing":
        path.unlink()
    else:
        path.write_bytes(content[: len(content) // 2])
    assert opened(folder, True).search("the cat café", 5) == expected  # written again


def test_a_large_index_is_searched_on_disk(folder, table, monkeypatch):
    expected = opened(folder, True).search("the cat", 5)
    monkeypatch.setattr(memory, "MOST_BYTES", 1000)
    with Index.writing(folder) as index:
        index.delete("row = 1")
    assert not (folder / "memory").exists()
    index = Index.open(folder)
    assert index.memory is None
    assert len(Searcher(index, encode).search("the cat", 5)) == len(expected)


def test_search_without_a_filter_never_imports_lancedb(folder):
    program = f"""
import sys, numpy as np
from banyan.search.index import Index
from banyan.search.searching import Searcher
hits = Searcher(Index.open({str(folder)!r}), lambda texts: np.ones((len(texts), {DIM}))).search("the cat")
assert len(hits) == 10 and hits[0].words
assert not {{"lancedb", "pandas", "pyarrow.compute", "torch"}} & sys.modules.keys()
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_a_condition_that_makes_no_sense_is_still_one_sentence(folder):
    with pytest.raises(BanyanError, match="is not a valid condition"):
        opened(folder, True).search("cat", where="yeer > 3")
