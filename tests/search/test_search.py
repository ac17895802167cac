"""Collections on disk: indexed, killed, added to, deleted from, and searched."""

from __future__ import annotations

import copy
import io
import json
import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.helpers.corpora import lines, write_lines
from tests.helpers.places import HELPERS

pytest.importorskip("lancedb")

from lancedb.index import FTS

from banyan import Banyan, BanyanError
from banyan.commands import main
from banyan.explanation import Explanation
from banyan.integrations import hub
from banyan.search import rows as search_rows
from banyan.search.compounds import with_parts
from banyan.search.highlight import highlights, marked
from banyan.search.index import Index, Maker
from banyan.search.searching import Searcher, fused, searcher_of
from banyan.search.word_spans import word_spans
from banyan.support import checksums


@pytest.fixture
def corpus(tmp_path) -> Path:
    return write_lines(tmp_path / "corpus.txt", 300, seed=1)


BOOKS = """title,year,author,code
The cat sees the dog on the hill.,1990,Jones,007
The king likes the queen near the river.,2001,"Smith, A.",012
The wolf follows the bear at the market.,1890,O'Neil,001
,1900,Nobody,002
The baker paints the child in the garden.,,Smith,003
"""


@pytest.fixture
def books(tmp_path) -> Path:
    path = tmp_path / "books.csv"
    path.write_text(BOOKS, encoding="utf-8")
    return path


class Collection:
    def __init__(self, folder: Path, model: Banyan, model_folder: Path) -> None:
        self.folder, self.model, self.maker = folder, model, Maker.of(model, model_folder)

    def add(self, *names: Path, language: str | None = None, **options):
        with Index.writing(self.folder, self.maker, language) as index:
            return index.add(self.model.encode, [str(name) for name in names], **options)

    def delete(self, where: str) -> int:
        with Index.writing(self.folder) as index:
            return index.delete(where)

    def rows(self) -> list[dict]:
        return Index.open(self.folder).rows.scan(["text", "source", "row"]).to_pylist()

    def search(self, query: str, k: int = 10, **options):
        return Searcher(Index.open(self.folder), self.model.encode, self.model.explain).search(query, k, **options)


@pytest.fixture
def collection(tmp_path, trained_model, trained_folder) -> Collection:
    return Collection(tmp_path / "index", trained_model, trained_folder)


# --- Search ----------------------------------------------------------------------------------------------------------


def test_vectors_find_what_all_cosines_say(collection, corpus, trained_model):
    collection.add(corpus)
    texts, query = corpus.read_text().splitlines(), "the queen hears the wolf near the river"
    cosines = np.sort(trained_model.similarity([query], texts)[0])[::-1]
    hits = collection.search(query, 7, mode="vectors")
    np.testing.assert_allclose([hit.cosine for hit in hits], cosines[:7], atol=1e-5)
    assert all(texts[hit.row - 1] == hit.text for hit in hits)
    assert [hit.source for hit in hits] == [str(corpus)] * 7


def test_words_find_the_rare_word(collection, corpus, tmp_path):
    (tmp_path / "one.txt").write_text("The cat sees a Xylophone, at last.\n")
    collection.add(corpus, tmp_path / "one.txt")
    (hit,) = collection.search("xylophone", mode="words")
    assert hit.text == "The cat sees a Xylophone, at last."
    assert hit.words > 0
    assert "xylophone" in collection.search("where is the xylophone", 3)[0].text.lower()


@pytest.mark.parametrize("text", ["विद्यालय में बच्चे पढ़ते हैं", "我喜歡讀書", "ትምህርት ቤት፡ልጆች"])
def test_words_of_other_scripts_are_whole(collection, tmp_path, text):
    (tmp_path / "one.txt").write_text(text + "\nक्या हिन्दी\n", encoding="utf-8")
    collection.add(tmp_path / "one.txt")
    word = {"व": "विद्यालय", "我": "讀書", "ት": "ልጆች"}[text[0]]
    assert [hit.text for hit in collection.search(word, mode="words")] == [text]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("call learn_on_batch() now.", "call learn_on_batch learn on batch() now."),
        ("see numpy.linalg.", "see numpy.linalg. numpy linalg"),
        ("an HTTPServer, a SampleBatch", "an HTTPServer HTTP Server, a SampleBatch Sample Batch"),
        ("the U.S. has 3.14 or __x__; it isn't हिन्दी.", "the U.S. has 3.14 or __x__; it isn't हिन्दी."),
    ],
)
def test_compound_names_get_their_parts(text, expected):
    assert with_parts(text) == expected


def test_compound_names_are_found_by_their_parts_and_older_indexes_still_work(collection, corpus, tmp_path):
    (tmp_path / "one.txt").write_text("The policy calls learn_on_batch.\nThe cat sleeps.\n")
    collection.add(tmp_path / "one.txt")
    for query in ("batch", "learn_on_batch"):
        assert [hit.row for hit in collection.search(query, mode="words")] == [1]
    assert collection.search("batch")[0].columns == {}
    table = search_rows._database(collection.folder).open_table("rows")
    table.drop_columns(["_words"])  # as in format 1
    table.create_index("text", config=FTS(base_tokenizer="icu", stem=False, remove_stop_words=False))
    assert [hit.row for hit in collection.search("batch", mode="words")] == [1]
    collection.add(corpus)
    assert collection.search("learn_on_batch", mode="words")[0].text == "The policy calls learn_on_batch."


def test_fusion_is_the_weighted_mean_of_the_cosine_and_of_what_part_of_the_best_by_words_a_row_has():
    assert fused({1: 0.9, 2: 0.5, 3: -0.1}, {2: 8.0, 3: 2.0}, 0.5) == {1: 0.45, 2: 0.75, 3: (-0.1 + 0.25) / 2}
    assert fused({1: 0.5, 2: 0.5}, {2: 8.0}, 0.75) == {1: 0.375, 2: 0.625}
    assert fused({1: 0.5}, {}, 0.5) == {1: 0.25}


def test_the_model_says_how_much_vectors_and_words_count(collection, corpus, trained_model, trained_folder):
    collection.add(corpus)
    model = copy.copy(trained_model)
    for share in (0.5, 0.9):
        model.config = replace(model.config, vectors_share=share)
        searcher = searcher_of(str(collection.folder), model, str(trained_folder))
        hits = searcher.rank("the cat sat", 5)
        best = max(hit.words for hit in searcher.rank("the cat sat", 5, by="words"))
        for hit in hits:
            assert hit.score == pytest.approx(share * hit.cosine + (1 - share) * (hit.words or 0) / best)


def test_a_query_without_words_is_answered(collection, corpus):
    collection.add(corpus)
    for by in ("both", "vectors", "words"):
        assert len(collection.search("!!!", 3, by=by)) == (0 if by == "words" else 3)
        assert collection.search("the cat", 3, mode=by) == collection.search("the cat", 3, by=by)


def test_two_ways_to_rank_are_refused(collection, corpus):
    collection.add(corpus)
    with pytest.raises(BanyanError, match="by='vectors' and mode='words' differ"):
        collection.search("the cat", by="vectors", mode="words")
    assert collection.search("the cat", by="words", mode="words") == collection.search("the cat", by="words")


@pytest.mark.parametrize("query", ["", " ", "\n\t"])
def test_an_empty_query_is_an_error(collection, corpus, query):
    collection.add(corpus)
    with pytest.raises(BanyanError, match="the query is empty"):
        collection.search(query)


def test_approximate_search_finds_nearly_all(collection, corpus, monkeypatch, trained_model):
    monkeypatch.setattr(search_rows, "APPROXIMATE_FROM", 1000)
    corpus.write_text("\n".join(lines(3000, seed=2)))
    collection.add(corpus)
    assert Index.open(collection.folder).rows.approximate
    shared = 0
    for query in lines(10, seed=3):
        exact = {hit.cosine for hit in collection.search(query, 10, mode="vectors", exact=True)}
        shared += sum(hit.cosine in exact for hit in collection.search(query, 10, mode="vectors"))
    assert shared >= 90
    more = corpus.with_name("more.txt")
    more.write_text("The baker remembers the king under the old tree and the mouse.")
    collection.add(more)
    assert collection.search(more.read_text(), 1, mode="vectors")[0].source == str(more)


# --- Columns and filters ---------------------------------------------------------------------------------------------


def test_columns_of_a_table_are_kept_with_their_types(collection, books):
    collection.add(books, column="title")
    hits = {hit.row: hit.columns for hit in collection.search("the cat", 10)}
    assert hits[1] == {"year": 1990, "author": "Jones", "code": "007"}
    assert hits[5] == {"author": "Smith", "code": "003"}
    assert 4 not in hits  # no text


@pytest.mark.parametrize(
    ("where", "rows"),
    [
        ("year > 1950", {1, 2}),
        ("author = 'O''Neil'", {3}),
        ("year IS NULL", {5}),
        ("row <= 2 AND code LIKE '0%'", {1, 2}),
    ],
)
@pytest.mark.parametrize("mode", ["both", "vectors", "words"])
def test_filters_come_before_ranking(collection, books, where, rows, mode):
    collection.add(books, column="title")
    assert {hit.row for hit in collection.search("the", 10, where=where, mode=mode)} == rows


def test_a_condition_that_makes_no_sense_is_one_sentence(collection, books):
    collection.add(books, column="title")
    for where in ("yeer > 3", "year >", "year = 'x' OR"):
        with pytest.raises(BanyanError, match="is not a valid condition"):
            collection.search("the", where=where)
    with pytest.raises(BanyanError, match="Valid fields are `text`, `source`, `row`, `year`, `author`") as caught:
        collection.search("the", where="yeer > 3")
    assert "vector" not in str(caught.value)  # nor the words of the full-text index
    with pytest.raises(BanyanError, match=r"No field named _word\. \(cond"):
        collection.search("the", where="lower(_word) = 'x'")
    with pytest.raises(BanyanError, match=r"literal of type 'Int64' \(conditions are SQL"):  # not where in Lance's code
        collection.search("the", where="year = ''")
    with pytest.raises(BanyanError, match=r"cannot read the rows of the index where .N'a' = title"):  # Lance panics
        collection.search("the", where="N'a' = title")


def test_lance_keeps_its_warnings_to_itself_unless_asked():
    told = "import os, banyan.search; print(os.environ['LANCEDB_LOG'])"
    environment = {name: value for name, value in os.environ.items() if name != "LANCEDB_LOG"}
    for given, expected in (({}, "error"), ({"LANCEDB_LOG": "debug"}, "debug")):
        command = [sys.executable, "-c", told]
        done = subprocess.run(command, env={**environment, **given}, capture_output=True, text=True, check=True)
        assert done.stdout.strip() == expected


def test_text_and_tables_go_into_one_index(collection, books, corpus):
    assert collection.add(corpus, books, column="title").added == len(corpus.read_text().splitlines()) + 4
    sources = {row["source"] for row in collection.rows()}
    assert sources == {str(corpus.resolve()), str(books.resolve())}
    assert {hit.columns["year"] for hit in collection.search("the", where="year > 1900")} == {1990, 2001}
    with pytest.raises(BanyanError, match="is a text file and has no column 'title'"):
        collection.add(corpus, column="title")


def test_chosen_columns_only_and_types_as_said(collection, books):
    collection.add(books, column="title", keep=["year:string"])
    assert collection.search("the cat", 1, where="year = '1990'")[0].columns == {"year": "1990"}


def test_a_value_of_another_type_is_an_error_that_names_the_row(collection, books, tmp_path):
    collection.add(books, column="title")
    (tmp_path / "more.csv").write_text("title,year\nThe cat.,1990\nThe dog.,ca. 1900\n")
    with pytest.raises(BanyanError, match=r"more.csv, row 2: column 'year' holds 'ca. 1900'.*--keep year:string"):
        collection.add(tmp_path / "more.csv", column="title")


def test_json_lines_add_columns_that_earlier_rows_lack(collection, corpus, tmp_path):
    collection.add(corpus)
    rows = [{"text": "A cat sleeps.", "tags": ["a", "b"], "stars": 4.5, "row": 7}, {"text": "The dog.", "stars": None}]
    (tmp_path / "more.jsonl").write_text("\n".join(map(json.dumps, rows)))
    collection.add(tmp_path / "more.jsonl", column="text")
    (hit,) = collection.search("cat", where="stars > 4")
    assert hit.columns == {"tags": '["a", "b"]', "stars": 4.5, "row_": 7}
    assert len(collection.rows()) == 302


def test_parquet_keeps_dates(collection, tmp_path):
    import datetime

    import pyarrow as pa
    from pyarrow import parquet

    when = [datetime.date(1999, 1, 1), datetime.date(2001, 1, 1)]
    parquet.write_table(pa.table({"text": ["The cat.", "The dog."], "day": when}), tmp_path / "rows.parquet")
    collection.add(tmp_path / "rows.parquet", column="text")
    assert [hit.text for hit in collection.search("the", where="day > DATE '2000-01-01'")] == ["The dog."]


# --- Adding, deleting, resuming --------------------------------------------------------------------------------------


def test_what_is_indexed_is_not_read_again_and_never_touched(collection, corpus):
    before = corpus.read_bytes()
    assert collection.add(corpus).added == 300
    assert collection.add(corpus).added == 0
    assert len(collection.rows()) == 300
    assert corpus.read_bytes() == before


def test_a_changed_file_is_replaced_only_when_asked(collection, corpus, books):
    collection.add(corpus)
    collection.add(books, column="title")
    corpus.write_text("The old rows are gone.\n")
    with pytest.raises(BanyanError, match="changed since it was indexed: use --update"):
        collection.add(corpus)
    collection.add(corpus, update=True)
    rows = collection.rows()
    assert [row["text"] for row in rows if row["source"] == str(corpus)] == ["The old rows are gone."]
    assert len(rows) == 5


def test_deleted_rows_are_found_by_nobody(collection, corpus):
    collection.add(corpus)
    assert collection.delete("row > 100") == 200
    assert len(collection.rows()) == 100
    for mode in ("both", "vectors", "words"):
        assert all(hit.row <= 100 for hit in collection.search("the cat", 300, mode=mode))
    assert collection.add(corpus).added == 0


def test_a_killed_process_loses_nothing_acknowledged_and_the_next_goes_on(collection, corpus, trained_folder):
    program = HELPERS / "killed_indexing.py"
    rng = random.Random(0)
    acknowledged = kills = 0
    while kills < 3:
        child = subprocess.Popen([sys.executable, program, trained_folder, corpus, collection.folder])
        target = acknowledged + rng.randrange(20, 80)
        deadline = time.monotonic() + 60
        while _acknowledged(collection.folder) < target and child.poll() is None and time.monotonic() < deadline:
            time.sleep(0.002)
        time.sleep(rng.random() * 0.05)
        child.send_signal(signal.SIGKILL)
        assert child.wait() == -signal.SIGKILL
        kills += 1
        acknowledged = _acknowledged(collection.folder)
        written = [row["row"] for row in collection.rows()]
        assert sorted(written) == list(range(1, len(written) + 1))
        assert len(written) >= acknowledged
    assert acknowledged >= 20
    collection.add(corpus)
    rows = sorted(collection.rows(), key=lambda row: row["row"])
    assert [row["text"] for row in rows] == corpus.read_text().splitlines()
    assert [row["row"] for row in rows] == list(range(1, 301))


def _acknowledged(folder: Path) -> int:
    record = folder / "index.json"
    sources = json.loads(record.read_text())["sources"] if record.exists() else {}
    return sum(progress["rows"] for progress in sources.values())


def test_rows_written_but_not_recorded_are_not_written_twice(collection, corpus):
    """The moment between the table and index.json."""
    collection.add(corpus)
    record = collection.folder / "index.json"
    values = json.loads(record.read_text())
    (progress,) = values["sources"].values()
    progress |= {"rows": 120, "finished": False}
    record.write_text(json.dumps(checksums.sealed(values)))
    collection.add(corpus)
    assert sorted(row["row"] for row in collection.rows()) == list(range(1, 301))


def test_a_process_killed_while_replacing_leaves_no_old_rows(collection, corpus):
    collection.add(corpus)
    record = collection.folder / "index.json"
    values = json.loads(record.read_text())
    (progress,) = values["sources"].values()
    progress |= {"rows": 0, "finished": False, "replacing": True}
    record.write_text(json.dumps(checksums.sealed(values)))
    collection.add(corpus)
    assert sorted(row["row"] for row in collection.rows()) == list(range(1, 301))


def test_an_index_that_fails_before_its_first_rows_leaves_no_folder(banyan, trained_folder, corpus, tmp_path):
    folder = tmp_path / "index"
    assert banyan("index", trained_folder, tmp_path / "nowhere.txt", "-o", folder)[0] == 1
    assert not folder.exists()
    assert banyan("index", trained_folder, corpus, "-o", folder, "--quiet")[0] == 0
    assert banyan("index", trained_folder, tmp_path / "nowhere.txt", "-o", folder)[0] == 1
    assert len(Index.open(folder).rows) == 300


def test_rows_that_are_in_a_new_index_stay_when_it_fails(collection, corpus, tmp_path):
    def failing(texts: list[str]) -> np.ndarray:
        return collection.model.encode(texts) if len(texts) > 1 else np.zeros(texts)

    (tmp_path / "one.txt").write_text("the cat")
    with pytest.raises(TypeError), Index.writing(collection.folder, collection.maker) as index:
        index.add(failing, [str(corpus), str(tmp_path / "one.txt")])
    assert len(collection.rows()) == 300


def test_a_full_disk_is_one_sentence(collection, corpus, monkeypatch):
    def full(self: search_rows.Rows) -> None:
        raise OSError("LanceError(IO): No space left on device (os error 28)")

    collection.add(corpus)
    monkeypatch.setattr(search_rows.Rows, "_sync", full)
    corpus.with_name("more.txt").write_text("The cat.\n")
    with pytest.raises(BanyanError, match="the disk is full; the rows indexed so far are kept"):
        collection.add(corpus.with_name("more.txt"))


def test_a_disk_that_fails_while_an_index_is_created_is_one_sentence(collection, corpus, monkeypatch):
    def failing(*_: object, **__: object) -> None:
        raise RuntimeError("lance error: LanceError(IO): Input/output error (os error 5), src/object_store.rs")

    with monkeypatch.context() as patched:
        patched.setattr("lancedb.db.LanceDBConnection.create_table", failing)
        with pytest.raises(BanyanError, match=r"^cannot write to .*index: lance error: .* \(os error 5\)"):
            collection.add(corpus)
    assert collection.add(corpus).added == 300


@pytest.mark.parametrize("killed", [False, True])
@pytest.mark.parametrize("file", ["data", "_versions"])
def test_a_last_write_that_lance_lost_is_undone_and_the_rows_are_read_again(
    collection, corpus, monkeypatch, file, killed
):
    """Lance commits a file although its last write failed. Killed: before it is noticed."""
    collection.add(corpus)
    sync = search_rows.Rows._sync

    def lost(self: search_rows.Rows) -> None:
        known = [path for path in self._synced if path.parent.name == file]
        for path in set((collection.folder / "rows.lance" / file).iterdir()) - set(known):
            path.write_bytes(path.read_bytes()[:-20])
        if killed:
            raise SystemExit
        sync(self)

    monkeypatch.setattr(search_rows.Rows, "_sync", lost)
    more = corpus.with_name("more.txt")
    more.write_text("The cat.\n")
    with pytest.raises(SystemExit if killed else BanyanError, match=None if killed else "the disk is full, or"):
        collection.add(more)
    monkeypatch.undo()
    assert collection.add(more).added == 1
    assert len(collection.rows()) == 301
    assert collection.search("cat", mode="words")


def test_two_writers_cannot_work_at_once(collection, corpus):
    collection.add(corpus)
    with Index.writing(collection.folder), pytest.raises(BanyanError, match="another process is writing"):
        collection.add(corpus)


def test_another_model_is_refused(collection, corpus, trained_model, tmp_path):
    collection.add(corpus)
    other = dict(trained_model.weights)
    other["embedding"] = other["embedding"].copy()
    other["embedding"][5, 3] += 1e-3
    changed = Banyan(trained_model.config, trained_model.tokenizer, other)
    changed.save_pretrained(tmp_path / "other")
    with (
        pytest.raises(BanyanError, match="was made with the model"),
        Index.writing(collection.folder, Maker.of(changed, tmp_path / "other")),
    ):
        pass
    assert main(["search", str(collection.folder), "cat", "--model", str(tmp_path / "other")]) == 1


def test_a_copy_of_the_model_is_the_same_model(collection, corpus, trained_model, tmp_path):
    collection.add(corpus)
    trained_model.save_pretrained(tmp_path / "copy")
    again = Banyan.from_pretrained(tmp_path / "copy")
    Index.open(collection.folder).check(Maker.of(again, tmp_path / "copy"))


def test_a_language_gives_stems_and_an_unknown_one_is_refused(collection, tmp_path):
    (tmp_path / "one.txt").write_text("The bakers were painting.\n")
    with pytest.raises(BanyanError, match="for language Klingon"):
        collection.add(tmp_path / "one.txt", language="Klingon")
    collection.add(tmp_path / "one.txt", language="English")
    assert collection.search("baker paints", mode="words")
    with pytest.raises(BanyanError, match="was made for English, not German"):
        collection.add(tmp_path / "one.txt", language="German")


def test_a_folder_with_other_files_is_not_written_to(collection, corpus):
    collection.folder.mkdir()
    (collection.folder / "thesis.txt").write_text("mine")
    with pytest.raises(BanyanError, match="has other files and no index"):
        collection.add(corpus)


# --- Highlights ------------------------------------------------------------------------------------------------------


def test_the_words_that_add_most_are_highlighted():
    matrix = np.array([[0.1, 0.5, 0.1, 0.0], [0.0, 0.1, 0.2, 0.0]])
    explanation = Explanation(["query", "bias"], ["The", "rail", "way,", "bias"], matrix, float(matrix.sum()))
    found = highlights(explanation, "The railway, here")
    assert [("The railway, here"[one.start : one.end], round(one.weight, 6)) for one in found] == [("railway", 0.9)]
    assert marked("The railway, here", found, "<", ">") == "The <railway>, here"


def test_a_long_text_shows_the_window_with_its_highlights():
    text = "filler " * 200 + "needle " + "filler " * 200
    matrix = np.array([[1.0, 0.0]])
    found = highlights(Explanation(["needle"], ["needle", "bias"], matrix, 1.0), text)
    shown = marked(text, found, "<", ">", most=100)
    assert "<needle>" in shown
    assert shown.startswith("… ")
    assert len(shown) < 120


def test_marks_belong_to_their_words():
    text = "«विद्या» — don't, (co-op)!"
    assert [text[start:end] for start, end in word_spans(text)] == ["विद्या", "don't", "co-op"]


def test_highlights_are_words_of_the_text(collection, corpus):
    collection.add(corpus)
    for hit in collection.search("the sailor near the river", 5):
        assert hit.highlights
        for one in hit.highlights:
            assert hit.text[one.start : one.end].strip(" .,") == hit.text[one.start : one.end] != ""


# --- The command -----------------------------------------------------------------------------------------------------


def test_index_and_search_from_the_command_line(tmp_path, trained_folder, books, capsys, monkeypatch):
    index = str(tmp_path / "index")
    assert main(["index", str(trained_folder), str(books), "--column", "title", "-o", index]) == 0
    assert "4 rows added" in capsys.readouterr().err
    assert main(["search", index, "king and queen", "-k", "2", "--where", "year > 1950", "--json"]) == 0
    hits = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {hit["row"] for hit in hits} == {1, 2}
    assert main(["index", "-o", index, "--delete", "row = 1"]) == 0
    monkeypatch.setattr("sys.stdin", io.StringIO("the cat\n:where year < 1900\nthe cat\n:where yeer\nthe cat\n:q\n"))
    assert main(["search", index]) == 0
    told = capsys.readouterr()
    first, second = told.out.strip().split("\n\n")
    assert first.count("cosine") == 3
    assert second.count("cosine") == 1
    assert "author=O'Neil" in second
    assert "is not a valid condition" in told.err


def test_an_index_made_with_a_model_of_the_hub_records_its_name(banyan, books, trained_folder, tmp_path, monkeypatch):
    asked: list[str] = []
    monkeypatch.setattr(hub, "fetch", lambda name, *_: asked.append(name) or trained_folder)
    monkeypatch.chdir(tmp_path)
    assert banyan("index", "tests/small", books, "--column", "title", "-o", "index")[0] == 0
    record = json.loads(Path("index/index.json").read_text())
    assert record["model"]["path"] == "tests/small"
    for model in ([], ["--model", "tests/small"], ["--model", trained_folder]):
        assert "*king*" in banyan("search", "index", "king and queen", *model)[1]
    assert set(asked) == {"tests/small"}
    record["model"]["path"] = str(tmp_path / "tests/small")
    Path("index/index.json").write_text(json.dumps(checksums.sealed(record)))
    code, _, told = banyan("search", "index", "king")
    assert (code, "tests/small: pass its folder or Hub name with --model" in told) == (1, True)
    assert banyan("search", "index", "king", "--model", "tests/small")[0] == 0


def test_text_can_be_piped_into_an_index(banyan, monkeypatch, tmp_path, trained_folder):
    command, text = ["index", trained_folder, "-", "-o", tmp_path / "index"], b"The cat.\nThe dog.\n"
    done = subprocess.run([sys.executable, "-m", "banyan", *command], input=text, capture_output=True, check=True)
    assert "2 rows added" in done.stderr.decode()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))
    code, _, err = banyan(*command)
    assert (code, "0 rows added" in err) == (0, True)
    assert not list((tmp_path / "index" / "spool").iterdir())


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["search", "nowhere", "cat"], "there is no index in nowhere"),
        (["index", "-o", "nowhere", "--delete", "row = 1"], "there is no index in nowhere"),
    ],
)
def test_errors_are_one_sentence(arguments, told, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 1
    assert told in capsys.readouterr().err
    assert not Path("nowhere").exists()
