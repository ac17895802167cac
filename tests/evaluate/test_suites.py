"""Suites of sets, the table of their figures, and `banyan eval`."""

from __future__ import annotations

import json
import shlex
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from banyan.commands import _parser, eval
from banyan.encoder import Banyan
from banyan.errors import BanyanError
from banyan.evaluate import suites, table
from banyan.evaluate.outcome import Outcome
from banyan.evaluate.similarity import read_pairs
from tests.helpers.models import tiny_model
from tests.helpers.sets import WORDS, write_beir, write_pairs, write_sets


def letters(texts) -> np.ndarray:
    """A cheap model: how often each pair of letters comes, hashed."""
    vectors = np.zeros((len(texts), 256))
    for row, text in zip(vectors, texts, strict=True):
        padded = f" {text.lower()} "
        for i in range(len(padded) - 1):
            row[zlib.crc32(padded[i : i + 2].encode()) % 256] += 1
    return vectors


def lengths(texts) -> np.ndarray:
    """A worse one."""
    return np.array([[len(text), 5.0] for text in texts])


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return write_sets(tmp_path)


# --- Suites ----------------------------------------------------------------------------------------------------------


def by_task(rows: list[suites.Result]) -> dict[str, suites.Result]:
    return {row.task: row for row in rows}


def test_every_set_of_a_suite_has_a_row_that_has_a_figure_or_says_why_not(data):
    rows = suites.run(letters, "sts", data / "eval")
    assert [row.task for row in rows] == ["sts12", "sts13", "sts14", "sts15", "sts16", "stsb", "sick", "semrel"]
    measured = [row.task for row in rows if row.outcome]
    assert measured == ["sts12", "sts13", "stsb", "semrel"]
    absent = f"no sick_test.csv in {data}/eval"
    assert by_task(rows)["sick"].note == f"not measured; {absent}; banyan eval --fetch downloads it"
    assert "training split" in by_task(rows)["semrel"].note
    pairs = read_pairs(data / "eval" / "stsb_test.csv")
    a, b = letters(pairs.first), letters(pairs.second)
    cosines = (a * b).sum(1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)
    stsb = by_task(rows)["stsb"].outcome
    assert stsb
    assert stsb.value == pytest.approx(100 * stats.spearmanr(pairs.score, cosines).statistic)


def test_the_folder_may_be_that_of_the_sets_or_the_one_above(data):
    for suite in ("sts", "words", "retrieval"):
        above, inside = (suites.run(letters, suite, place) for place in (data, data / "eval"))
        assert [row.outcome and row.outcome.value for row in above] == [
            row.outcome and row.outcome.value for row in inside
        ]


def test_quora_is_measured_only_where_it_is(data):
    quora = by_task(suites.run(letters, "retrieval", data))["quora"]
    assert quora.outcome is None
    assert "put it there as quora/" in quora.note
    assert "quora" not in by_task(suites.run(letters, "dev", data))
    stand_in = by_task(suites.run(letters, "dev", data))["quora_small_retrieval"]
    assert stand_in.outcome
    assert "not BEIR's Quora" in stand_in.note
    write_beir(data / "beir" / "quora")
    rows = suites.run(letters, "retrieval", data)
    assert [row.task for row in rows if row.outcome] == ["arguana"] * 4 + ["quora"] * 4
    assert {row.outcome.metric for row in rows if row.outcome} == {"nDCG@1", "nDCG@10", "R@1", "R@10"}


def test_a_word_list_that_is_not_there_says_where_it_comes_from(data, tmp_path):
    note = by_task(suites.run(letters, "words", data))["wordsim-s"].note
    assert note.startswith(f"not measured; no wordsim_similarity_goldstandard.txt in {data}; --fetch cannot download")
    assert "the authors' repository" in note
    (tmp_path / "empty").mkdir()
    with pytest.raises(BanyanError, match=r"its files are simlex\.tsv, .*; --fetch cannot download it"):
        suites.tasks("words", tmp_path / "empty")


def test_a_set_of_another_size_than_the_authors_says_so_and_one_of_the_users_own_does_not(data):
    rows = by_task(suites.run(letters, "sts", data))
    assert rows["sts12"].note == "12 items, where the authors' file has 3,108"
    assert rows["semrel"].note.endswith("under this name; 15 items, where the authors' file has 5,500")
    own = write_pairs(data / "sts12")
    assert [row.note for task in suites.own(pairs=[own]) for row in suites.measure(letters, task)] == [""]


def test_judgements_of_what_is_not_there_are_in_the_note_of_every_row(data):
    assert by_task(suites.run(letters, "retrieval", data))["arguana"].note == ""
    path = data / "beir/arguana/qrels/test.tsv"
    judged = path.read_text()
    for lost, told in (1, "1"), (5, "5, as in the official file"):
        path.write_text(judged + "".join(f"q{i}\tgone\t1\n" for i in range(lost)))
        notes = {row.note for row in suites.run(letters, "retrieval", data) if row.task == "arguana"}
        assert notes == {f"judgements of a document or query that does not exist: {told}"}


def test_classification_of_both_sets(data):
    pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    for name in ("sst_train", "sst_dev"):
        lines = [f"{' '.join(rng.choice(WORDS, 4))}\t{i % 2}" for i in range(40)]
        (data / "eval" / f"{name}.tsv").write_text("sentence\tlabel\n" + "\n".join(lines) + "\n")
    rows = by_task(suites.run(letters, "classification", data))
    assert rows["sst2"].outcome
    assert rows["sst2"].outcome.metric == "accuracy"
    absent = f"no mrpc_train.csv and no mrpc_test.csv in {data}"
    assert rows["mrpc"].note == f"not measured; {absent}; banyan eval --fetch downloads it"


def test_what_a_set_needs_and_is_not_installed_is_said_and_breaks_no_other(data, monkeypatch):
    monkeypatch.setitem(sys.modules, "banyan.evaluate.retrieval", None)
    rows = by_task(suites.run(letters, "paper", data))
    assert rows["arguana"].outcome is None
    assert "not measured; needs the Python package" in rows["arguana"].note
    assert rows["stsb"].outcome


def test_the_paper_is_the_four_english_suites(data):
    names = [task.name for task in suites.tasks("paper", data)]
    parts = ("sts", "words", "retrieval", "classification")
    assert names == [task.name for part in parts for task in suites._SUITES[part]]
    assert len(names) == 8 + 3 + 2 + 2


def test_languages_are_those_asked_for(data):
    assert len(suites.tasks("languages", data)) == 9
    rows = suites.run(letters, "languages", data, ["hi", "es", "am"])
    assert [(row.task, row.outcome is None) for row in rows] == [("hi", False), ("es", False), ("am", True)]
    assert "development split" in rows[1].note
    assert [row.task for row in suites.run(letters, "dev", data, ["hi"])] == ["semrel_dev/hi"]
    for suite, language, message in [
        ("languages", "xx", "the suite languages has no language xx"),
        ("dev", "es", "the suite dev has no language es"),
        ("sts", "hi", "the suite sts is English"),
    ]:
        with pytest.raises(BanyanError, match=message):
            suites.tasks(suite, data, [language])


def test_a_folder_without_any_set_is_an_error_that_names_the_files(tmp_path):
    with pytest.raises(BanyanError, match=r"has no set of the suite words; its files are simlex\.tsv, wordsim_"):
        suites.tasks("words", tmp_path)
    with pytest.raises(BanyanError, match=r"the folder .*none of evaluation sets does not exist"):
        suites.tasks("words", tmp_path / "none")
    with pytest.raises(BanyanError, match="there is no suite stss: choose one of paper"):
        suites.tasks("stss", tmp_path)


@pytest.mark.data
def test_all_sentence_and_word_sets_of_the_data_folder_are_read(data_folder):
    rows = [row for suite in ("sts", "words", "languages") for row in suites.run(letters, suite, data_folder / "eval")]
    assert len(rows) == 8 + 3 + 9
    counts = {row.task: row.outcome.n for row in rows if row.outcome}
    assert counts["semrel"] == 5500
    assert counts["sick"] == 4927
    assert counts["simlex"] == 995
    assert counts["am"] == 171
    assert len(counts) == len(rows)
    stsb = by_task(rows)["stsb"].outcome
    assert stsb
    assert 50 < stsb.value < 75  # pairs of letters go a long way; a column or sign mixed up would show
    pairs = [task for task in suites.tasks("dev", data_folder) if task.group == "dev"]
    sizes = [row.outcome.n for task in pairs for row in suites.measure(letters, task) if row.outcome]
    assert sizes == [351, 238, 9917]
    assert not any("items, where the authors' file has" in row.note for row in rows)
    assert all(task.paths for task in suites.tasks("dev", data_folder))
    assert [task.name for task in suites.tasks("paper", data_folder) if not task.paths] == ["quora"]


# --- Tables ----------------------------------------------------------------------------------------------------------


def of(task: str, values, note: str = "", group: str = "g") -> suites.Result:
    outcome = Outcome(task, "mean", np.asarray(values, float), lambda items: float(items.mean()))
    return suites.Result(group, task, outcome, note)


MISSING = suites.Result("g", "away", None, "not measured; no away.csv")


def test_a_group_of_one_measure_has_its_mean_and_says_of_how_many():
    rng = np.random.default_rng(0)
    rows = [of("a", rng.normal(50, 5, 80)), of("b", rng.normal(60, 5, 40)), MISSING, of("c", [1, 2], group="h")]
    report = table.tabulate("m", rows)
    assert [line.task for line in report.lines] == ["a", "b", "away", "mean of 2 of 3 sets", "c"]
    a, b, _, mean, _ = (line.figure for line in report.lines)
    assert a
    assert b
    assert mean
    assert mean.value == pytest.approx((a.value + b.value) / 2)
    assert mean.low < mean.value < mean.high
    assert mean.high - mean.low < b.high - b.low


def test_different_measures_have_no_mean():
    row = of("a", [1, 2, 3])
    assert row.outcome
    other = row._replace(outcome=Outcome("a", "other", row.outcome.items, row.outcome.statistic))
    assert [line.task for line in table.tabulate("m", [row, other]).lines] == ["a", "a"]


def test_two_models_are_compared_pair_by_pair_and_on_the_mean():
    rng = np.random.default_rng(0)
    hard = [rng.normal(50, 20, 100) for _ in range(3)]
    ours = [of(f"t{i}", x + rng.normal(2, 1, 100)) for i, x in enumerate(hard)]
    theirs = [of(f"t{i}", x) for i, x in enumerate(hard)]
    report = table.tabulate("m", [*ours, MISSING], "other", [*theirs, MISSING])
    for line in report.lines:
        if line.task == "away":
            assert (line.figure, line.against, line.difference) == (None, None, None)
            continue
        assert line.figure
        assert line.against
        assert line.difference
        assert line.difference.value == pytest.approx(line.figure.value - line.against.value)
        assert 1.5 < line.difference.low < line.difference.high < 2.5  # alone: about ±4
    assert report.lines[-1].task == "mean of 3 of 4 sets"


@pytest.fixture
def two_rows() -> table.ResultTable:
    return table.tabulate("m|1", [of("a", [1, 2, 3, 4], "a note"), MISSING])


def test_json_has_every_figure_in_full(two_rows, tmp_path):
    table.write(two_rows, tmp_path / "r.json")
    content = json.loads((tmp_path / "r.json").read_text(encoding="utf-8"))
    first, second = content["results"]
    assert (content["model"], content["against"]) == ("m|1", None)
    assert {name: first[name] for name in ("group", "task", "metric", "n", "value", "note")} == {
        "group": "g", "task": "a", "metric": "mean", "n": 4, "value": 2.5, "note": "a note"}  # fmt: skip
    assert first["low"] < 2.5 < first["high"]
    assert second == {"group": "g", "task": "away", "value": None, "note": "not measured; no away.csv"}


def test_markdown_is_a_table_with_its_notes_below(two_rows, tmp_path):
    table.write(two_rows, tmp_path / "r.md")
    lines = (tmp_path / "r.md").read_text(encoding="utf-8").splitlines()
    assert lines[0] == "| group | task | metric | n | m\\|1 | 95% interval |"
    assert lines[1] == "| --- | --- | --- | ---: | ---: | ---: |"
    figure = two_rows.lines[0].figure
    assert figure
    assert lines[2] == f"| g | a | mean | 4 | 2.5 | {figure.low:.1f} to {figure.high:.1f} |"
    assert lines[3] == "| g | away |  |  | not measured |  |"
    assert lines[5:7] == ["- a: a note", "- away: not measured; no away.csv"]


def test_the_terminal_shows_the_same(two_rows):
    text = table.to_text(two_rows)
    assert " 2.5 " in text
    assert "not measured" in text
    assert text.endswith("a: a note\naway: not measured; no away.csv\n")


# --- The command -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def other_folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("models") / "other"
    tiny_model(8).save_pretrained(path)
    return str(path)


def test_help_names_every_suite_and_its_examples_parse(banyan):
    code, out, _ = banyan("eval", "--help")
    assert code == 0
    for suite in suites.SUITES:
        assert f"\n  {suite} " in out
    examples = out.partition("examples:\n")[2].splitlines()
    assert len(examples) == 7
    for example in examples:
        assert _parser.parse(shlex.split(example)[1:]).command is eval.run


def test_eval_of_a_suite_end_to_end(banyan, model_folder, data, tmp_path):
    out_json, out_md = tmp_path / "r.json", tmp_path / "r.md"
    code, out, err = banyan("eval", model_folder, "--suite", "sts", "--data", data, "-o", out_json, "-o", out_md)
    assert code == 0
    assert err == f"wrote {out_json}\nwrote {out_md}\n"
    assert "mean of 4 of 8 sets" in out
    assert "sick: not measured; no sick_test.csv" in out
    assert "semrel: SemRel's English training split" in out
    results = {row["task"]: row for row in json.loads(out_json.read_text())["results"]}
    expected = suites.run(Banyan.from_pretrained(model_folder).encode, "sts", data)
    for row in expected:
        assert results[row.task]["value"] == (row.outcome and row.outcome.value)
    assert out_md.read_text().startswith("| group | task |")


def test_eval_against_another_model(banyan, model_folder, other_folder, data, tmp_path):
    code, out, _ = banyan("eval", model_folder, "--suite", "words", "--data", data, "--against", other_folder,
                          "-o", tmp_path / "r.json", "--quiet")  # fmt: skip
    assert code == 0
    assert "difference" in out
    content = json.loads((tmp_path / "r.json").read_text())
    assert (content["model"], content["against"]) == (str(model_folder), other_folder)
    simlex = content["results"][0]
    ours, theirs = (
        suites.run(Banyan.from_pretrained(path).encode, "words", data)[0].outcome
        for path in (model_folder, other_folder)
    )
    assert ours
    assert theirs
    assert (simlex["value"], simlex["against"]["value"]) == (ours.value, theirs.value)
    assert simlex["difference"]["value"] == ours.value - theirs.value
    assert simlex["difference"]["low"] <= simlex["difference"]["value"] <= simlex["difference"]["high"]


def test_eval_of_files_of_the_users_own(banyan, model_folder, tmp_path):
    pairs = [write_pairs(tmp_path / "a.csv"), write_pairs(tmp_path / "b.tsv", seed=1)]
    words, beir = write_pairs(tmp_path / "w.txt"), write_beir(tmp_path / "beir")
    code, _, err = banyan("eval", model_folder, "--pairs", *pairs, "--words", words, "--beir", beir,
                          "-o", tmp_path / "r.json", "--quiet")  # fmt: skip
    assert (code, err) == (0, "")
    results = json.loads((tmp_path / "r.json").read_text())["results"]
    assert [row["task"] for row in results] == [
        *map(str, pairs), "mean of 2 sets", str(words), *[str(beir)] * 4]  # fmt: skip


def test_eval_of_translations_reports_recall_both_ways_and_what_was_left_out(banyan, model_folder, tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("id,en,ha\n0,same,same\n" + "".join(f"{i},a {word},{word} b\n" for i, word in enumerate(WORDS)))
    code, _, err = banyan("eval", model_folder, "--parallel", path, "--parallel-columns", "en", "ha",
                          "--truncate-dim", "8", "-o", tmp_path / "r.json", "--quiet")  # fmt: skip
    assert (code, err) == (0, "")
    results = json.loads((tmp_path / "r.json").read_text())["results"]
    ways = ("source to target", "target to source")
    assert [row["metric"] for row in results] == [f"R@{cut} {way}" for way in ways for cut in (1, 10)]
    assert {(row["group"], row["task"], row["n"]) for row in results} == {("own translations", str(path), len(WORDS))}
    assert results[0]["note"] == "left out 1 with identical sides"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "nothing to evaluate on: pass --suite NAME --data DIR, or --pairs, --words, --beir or --parallel"),
        (["--suite", "stts", "--data", "."], "there is no suite stts (choose from paper, sts,"),
        (["--suite", "stts", "--data", "."], "; did you mean sts?"),
        (["--suite", "sts"], "--suite sts needs --data DIR"),
        (["pairs.csv"], "unrecognized arguments: pairs.csv; give files of your own with --pairs, --words, --beir or"),
        (["--pairs", __file__, "--data", "."], "--data needs --suite"),
        (["--pairs", __file__, "--languages", "hi"], "--languages needs --suite"),
        (["--pairs", __file__, "--fetch"], "--fetch needs --suite"),
        (["--pairs", __file__, "--parallel-columns", "a", "b"], "--parallel-columns needs --parallel"),
    ],
)
def test_usage_errors_of_eval(banyan, arguments, message):
    code, out, err = banyan("eval", "m", *arguments)
    assert (code, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1


def test_other_errors_of_eval_come_before_the_work_and_in_one_line(banyan, model_folder, data, tmp_path):
    suite = ["--suite", "sts", "--data", data]
    (tmp_path / "bad.tsv").write_bytes(b"\xff\xfe\tb\t1\n")
    for arguments, message in [
        ([model_folder, "--suite", "words", "--data", tmp_path / "beir"], "has no set of the suite words"),
        ([model_folder, "--pairs", tmp_path / "none.tsv"], f"cannot evaluate on {tmp_path}/none.tsv: it"),
        ([model_folder, "--pairs", tmp_path / "bad.tsv"], f"cannot read pairs from {tmp_path}/bad.tsv"),
        ([model_folder, *suite, "-o", "r.html"], "cannot write results to r.html: its name must end in .json or .md"),
        ([model_folder, *suite, "-o", tmp_path / "no" / "r.md"], f"there is no folder {tmp_path}/no to write r.md to"),
        ([model_folder, *suite, "--against", tmp_path / "none"], "there is no model folder"),
    ]:
        code, out, err = banyan("eval", *arguments)
        assert (code, out) == (1, ""), err
        assert message in err
        assert err.count("\n") == 1
