"""Sets from the hub: what lies in the folder afterwards is what the suites read; the hub here is a fake."""

from __future__ import annotations

import json
import sys
import types
from pathlib import Path

import numpy as np
import pytest

from banyan.errors import BanyanError
from banyan.evaluate import fetch as module
from banyan.evaluate import suites
from banyan.evaluate.fetch import SOURCES, fetch
from banyan.evaluate.retrieval import read_beir
from banyan.evaluate.similarity import read_pairs
from banyan.support.needs import pip_install

ON_HUB = (suites._ON_HUB, suites._QUORA)
TEXTS = ['He said "no", then left.', "two\nlines", "carriage\rreturn", "a\ttab", "ሰላም नमस्ते", " spaces ", "x"]


def pairs(split: str, score: str) -> list[dict]:
    """Which split they are of can be seen in the second text."""
    return [
        {"extra": 1, "sentence1": text, "sentence2": f"{split} {i}", score: i / 2, "sentence": text}
        for i, text in enumerate(TEXTS)
    ]


def labelled(split: str) -> list[dict]:
    return [{**row, "label": i % 2} for i, row in enumerate(pairs(split, "unused"))]


BEIR = {
    ("corpus", "corpus"): [
        {"_id": "d1", "title": "Trees", "text": "a banyan\ngrows"}, {"_id": "d2", "title": None, "text": "«rivers»"},
        {"_id": "d3", "text": "no title"},
    ],
    ("queries", "queries"): [{"_id": "q1", "text": "which?"}, {"_id": "q2", "text": "what?"}],
    ("default", "test"): [
        {"query-id": "q1", "corpus-id": "d2", "score": 1.0}, {"query-id": "q2", "corpus-id": "gone", "score": 2.0},
    ],
}  # fmt: skip


class Hub:
    """Stands for the package `datasets`."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str | None, str]] = []
        self.fail_at: str | None = None
        self.changed: dict[str, list[dict]] = {}  # data set: rows

    def load_dataset(self, name: str, config: str | None, split: str, revision: str | None) -> list[dict]:
        self.asked.append((name, config, split))
        if name == self.fail_at:
            raise ConnectionError(f"Couldn't reach {name!r} on the Hub\nTraceback ...")
        if name in self.changed:
            return self.changed[name]
        if name in ("mteb/arguana", "mteb/quora"):
            return BEIR[config, split]  # type: ignore[index]
        if name == "nyu-mll/glue":
            return labelled(split)
        return pairs(split, "label" if name.startswith("SemRel") else "score")


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Hub:
    hub = Hub()
    monkeypatch.setitem(sys.modules, "datasets", types.SimpleNamespace(load_dataset=hub.load_dataset))
    return hub


def everything(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


# --- What is asked for -----------------------------------------------------------------------------------------------


def test_a_set_that_is_said_to_be_on_the_hub_has_a_source_and_no_other_has():
    tasks = {task for of_suite in suites._SUITES.values() for task in of_suite} | set(
        suites._dev_sets(suites._DEV_LANGUAGES)
    )
    for task in tasks:
        assert all(name in SOURCES for name in task.files) == (task.origin in ON_HUB), task.name
    assert set(SOURCES) <= {name for task in tasks for name in task.files}


def test_the_splits_are_those_that_the_authors_published(hub, tmp_path):
    fetch("sts", tmp_path)
    fetch("languages", tmp_path)
    fetch("classification", tmp_path)
    assert ("SemRel/SemRel2024", "eng", "train") in hub.asked
    assert ("SemRel/SemRel2024", "esp", "dev") in hub.asked
    assert ("SemRel/SemRel2024", "arb", "test") in hub.asked
    assert ("nyu-mll/glue", "mrpc", "train+validation") in hub.asked
    assert ("nyu-mll/glue", "sst2", "validation") in hub.asked
    assert ("mteb/stsbenchmark-sts", None, "test") in hub.asked
    assert read_pairs(tmp_path / "es_test.csv").second[0] == "dev 0"
    assert len(hub.asked) == len(set(hub.asked)) == 8 + 9 + 4


# --- Layouts ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("suite", "name"), [("sts", "sts12_test.csv"), ("languages", "hi_test.csv")])
def test_pairs_are_read_as_the_hub_had_them(hub, tmp_path, suite, name):
    fetch(suite, tmp_path)
    found = read_pairs(tmp_path / name)
    assert found.first == TEXTS
    assert found.second == [f"test {i}" for i in range(len(TEXTS))]
    assert found.score.tolist() == [i / 2 for i in range(len(TEXTS))]
    assert (tmp_path / name).read_text(encoding="utf-8").startswith('"sent1","sent2","score"\n')


def test_labelled_texts_are_read_as_the_hub_had_them(hub, tmp_path):
    pytest.importorskip("torch")
    from banyan.evaluate.classification import read_labelled

    fetch("classification", tmp_path)
    single, paired = read_labelled(tmp_path / "sst_dev.tsv"), read_labelled(tmp_path / "mrpc_test.csv")
    assert single.first == [text.translate({9: " ", 10: " ", 13: " "}) for text in TEXTS]  # no room for them there
    assert single.second is None
    assert paired.first == TEXTS
    assert paired.second == [f"test {i}" for i in range(len(TEXTS))]
    assert single.label.tolist() == paired.label.tolist() == [i % 2 for i in range(len(TEXTS))]


def test_a_beir_folder_is_read_as_the_hub_had_it(hub, tmp_path):
    fetch("retrieval", tmp_path)
    for name in ("arguana", "quora"):
        data = read_beir(tmp_path / name)
        assert data.document_ids == ["d1", "d2", "d3"]
        assert data.documents == ["Trees a banyan\ngrows", "«rivers»", "no title"]
        assert data.queries == ["which?", "what?"]
        assert data.judgements == {"q1": {"d2": 1}, "q2": {}}
        assert data.missing == 1


def test_a_fetched_suite_is_measured(hub, tmp_path):
    fetch("retrieval", tmp_path)
    rows = suites.run(lambda texts: np.ones((len(texts), 2)), "retrieval", tmp_path)
    assert [row.task for row in rows if row.outcome] == ["arguana"] * 4 + ["quora"] * 4
    assert "does not exist: 1" in rows[0].note


def test_sets_go_where_the_authors_have_them_if_there_is_such_a_place(hub, tmp_path):
    (tmp_path / "eval").mkdir()
    (tmp_path / "beir").mkdir()
    fetch("retrieval", tmp_path)
    fetch("dev", tmp_path, ["hi"])
    assert everything(tmp_path / "eval") == ["semrel_dev/hi.csv"]
    assert (tmp_path / "beir/arguana/qrels/test.tsv").exists()
    assert suites.lacking("retrieval", tmp_path) == suites.lacking("dev", tmp_path, ["hi"]) == []


# --- Once, whole, or not at all --------------------------------------------------------------------------------------


def test_what_is_there_is_neither_fetched_nor_touched(hub, tmp_path):
    (tmp_path / "eval").mkdir()
    (tmp_path / "eval/hi_test.csv").write_text("mine")
    (tmp_path / "arguana.tar.xz").write_text("mine")
    fetch("languages", tmp_path, ["hi", "te"])
    fetch("retrieval", tmp_path)
    assert [ask[:2] for ask in hub.asked] == [("SemRel/SemRel2024", "tel")] + [
        ("mteb/quora", config) for config in ("corpus", "queries", "default")
    ]
    assert (tmp_path / "eval/hi_test.csv").read_text() == "mine"
    hub.asked.clear()
    fetch("languages", tmp_path, ["hi", "te"])
    fetch("retrieval", tmp_path)
    assert hub.asked == []


def test_no_package_is_needed_for_what_is_there(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    (tmp_path / "hi_test.csv").write_text("mine")
    fetch("languages", tmp_path, ["hi"])
    fetch("words", tmp_path)  # on no hub
    with pytest.raises(BanyanError) as raised:
        fetch("languages", tmp_path, ["te"])
    assert str(raised.value) == f"Downloading evaluation sets needs datasets: {pip_install('hub')}"


def test_without_a_network_one_sentence_says_what_to_do_and_what_was_written_stays(hub, tmp_path):
    hub.fail_at = "mteb/sts14-sts"
    with pytest.raises(BanyanError) as raised:
        fetch("sts", tmp_path / "new")
    told = str(raised.value)
    assert told.startswith("cannot download mteb/sts14-sts (Couldn't reach 'mteb/sts14-sts' on the Hub): check the net")
    assert f"put sts14_test.csv into {tmp_path}/new yourself, or leave out --fetch" in told
    assert "\n" not in told
    assert everything(tmp_path) == ["new/sts12_test.csv", "new/sts13_test.csv"]


def test_a_first_download_that_fails_leaves_not_even_the_folder(hub, tmp_path):
    hub.fail_at = "mteb/arguana"
    with pytest.raises(BanyanError, match="cannot download mteb/arguana"):
        fetch("retrieval", tmp_path / "new")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("suite", "dataset", "row", "told"),
    [
        ("sts", "mteb/sts12-sts", {"sentence1": "a", "sentence2": "b", "score": -1}, "row 1 of test, .*score: '-1'"),
        ("sts", "mteb/sts12-sts", {"sentence1": "a", "sentence2": "b", "score": float("nan")}, "score: 'nan'"),
        ("sts", "mteb/sts12-sts", {"text1": "a", "text2": "b", "score": 1}, "expected sentence1, .* found text1: 'a'"),
        ("sts", "mteb/sts12-sts", {"sentence1": None, "sentence2": "b", "score": 1}, "sentence1: 'None'"),
        ("retrieval", "mteb/arguana", {"id": "a", "text": "b"}, "expected _id, text in row 1 of corpus"),
    ],
)
def test_rows_that_are_not_as_expected_are_named_and_leave_nothing_behind(hub, tmp_path, suite, dataset, row, told):
    good = {"sentence1": "a", "sentence2": "b", "score": 1, "_id": "d1", "text": "c"}
    hub.changed[dataset] = [good, row]
    with pytest.raises(BanyanError, match=rf"{dataset} cannot be used: .*{told}"):
        fetch(suite, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_appears_only_when_its_last_file_is_written(hub, tmp_path, monkeypatch):
    def broken(rows, source):
        assert [path.name for path in tmp_path.iterdir()] != ["arguana"]
        yield "q1", "d1", 1
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "_judged", broken)
    with pytest.raises(KeyboardInterrupt):
        fetch("retrieval", tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("grade", [0.5, float("nan"), "1", None])
def test_a_grade_is_a_whole_number(hub, tmp_path, monkeypatch, grade):
    monkeypatch.setitem(BEIR, ("default", "test"), [{"query-id": "q1", "corpus-id": "d1", "score": grade}])
    with pytest.raises(BanyanError, match="expected query-id, corpus-id, score in row 0 of the judgements"):
        fetch("retrieval", tmp_path)
    assert list(tmp_path.iterdir()) == []


# --- The command -----------------------------------------------------------------------------------------------------


def test_eval_fetches_tells_and_measures_and_the_second_time_has_nothing_to_fetch(hub, banyan, model_folder, tmp_path):
    data, out = tmp_path / "data", tmp_path / "r.json"
    arguments = ["eval", model_folder, "--suite", "sts", "--data", data, "-o", out]
    code, _, err = banyan(*arguments)
    assert (code, err) == (1, f"banyan: the folder {data} of evaluation sets does not exist\n")
    code, text, err = banyan(*arguments, "--fetch")
    assert code == 0, err
    lines = [line for line in err.splitlines() if line.startswith(("fetching", "wrote"))]  # a slow machine says more
    assert lines[0] == "fetching sts12_test.csv from mteb/sts12-sts"
    assert lines[1] == f"wrote {data}/sts12_test.csv: 7 lines"
    assert len(lines) == 2 * 8 + 1
    assert "mean of 8 sets" in text
    assert f"sick: {len(TEXTS)} items, where the authors' file has 4,927" in text
    assert {row["n"] for row in json.loads(out.read_text())["results"][:8]} == {len(TEXTS)}
    code, again, err = banyan(*arguments, "--fetch")
    assert (code, again, err.splitlines()[-1]) == (0, text, f"wrote {out}")
    assert "fetching" not in err


def test_a_failure_to_fetch_is_one_line(hub, banyan, model_folder, tmp_path):
    hub.fail_at = "mteb/sts12-sts"
    code, out, err = banyan("eval", model_folder, "--suite", "sts", "--data", tmp_path, "--fetch", "--quiet")
    assert (code, out) == (1, "")
    assert err.startswith("banyan: cannot download mteb/sts12-sts (")
    assert err.count("\n") == 1
