"""What Banyan is compared with: records of scores and costs, and the table and the picture made of them."""

from __future__ import annotations

import importlib
import json
import lzma
import re
import sys
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from banyan import cli
from banyan.baselines import dice, folder, tfidf
from banyan.encoder import Banyan

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "experiments"))
compared, page, page_compared, page_tables = map(
    importlib.import_module, ("compared", "page", "page_compared", "page_tables")
)
WORDS = "die hond kat huis boom loop sit eet groot klein man vrou kind water son".split()


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Held-out text and a test set of Afrikaans, and the folders of two baselines."""
    made = tmp_path_factory.mktemp("data")
    rng = np.random.default_rng(0)
    lines = [" ".join(rng.choice(WORDS, 8)) for _ in range(40)]
    (made / "corpora" / "af").mkdir(parents=True)
    (made / "corpora" / "af" / "dev.txt.xz").write_bytes(lzma.compress("\n".join(lines).encode()))
    (made / "eval").mkdir()
    same = [(line, line, 5) for line in lines[:5]] + [(a, b, 1) for a, b in zip(lines[:9], lines[20:], strict=False)]
    (made / "eval" / "af_test.csv").write_text("".join(f"{a},{b},{score}\n" for a, b, score in same))
    (made / "corpus.txt").write_text("\n".join(lines) + "\n")
    dice.train([], made / "dice")
    tfidf.train([made / "corpus.txt"], made / "tfidf", quiet=True)
    return made


def run(data: Path, out: Path, name: str, *more: str) -> dict[str, Any]:
    place = [name, str(data / name), "--data", str(data), "--language", "af", "--out", str(out), *more]
    compared.main(place)
    return json.loads((out / f"{name}-af.json").read_text())


def test_a_record_has_scores_costs_and_what_the_folder_says(data, tmp_path):
    record = run(data, tmp_path, "tfidf", "--trained", "3.5")
    (figure,) = record["figures"]
    assert (figure["task"], figure["metric"], figure["n"]) == ("af", "spearman", 14)
    assert figure["low"] <= figure["value"] <= figure["high"]
    assert record["bytes"] == sum(path.stat().st_size for path in (data / "tfidf").iterdir())
    assert record["made"]["settings"] == {"lines": 30_000}
    assert (record["training_seconds"], record["dimensions"]) == (3.5, None)
    assert record["speed"]["sentences"] == 40
    assert record["speed"]["sentences_per_second"] > 0
    assert record["peak_memory_bytes"] > 10_000_000


def test_what_is_there_is_not_measured_again(data, tmp_path, capsys):
    (tmp_path / "dice-af.json").write_text('{"mine": 1}')
    assert run(data, tmp_path, "dice") == {"mine": 1}
    assert "there already" in capsys.readouterr().out


def test_cost_alone_leaves_the_scores_out(data, tmp_path, monkeypatch):
    monkeypatch.setattr(compared, "peak_memory", lambda *_: 1)
    assert run(data, tmp_path, "dice", "--cost")["figures"] == []


def test_the_folder_s_own_time_goes_before_what_is_told(data, tmp_path, monkeypatch):
    monkeypatch.setattr(compared, "peak_memory", lambda *_: 1)
    manifest = folder.Manifest("dice", {"of": "words"}, about={"seconds": 7.0, "losses": [1.0]})
    (data / "timed").mkdir()
    folder.write(data / "timed", manifest)
    record = run(data, tmp_path, "timed", "--trained", "9", "--cost")
    assert record["training_seconds"] == 7.0
    assert record["made"]["about"] == {"seconds": 7.0}


def test_the_ratio_is_the_median_of_turns_beside_the_model(monkeypatch):
    clock = iter([1.0, 2.0] * 2 + [4.0, 2.0] + [1.0, 2.0] * 4)  # seconds of ours and of theirs, a turn each
    monkeypatch.setattr(compared, "_seconds", lambda *_: next(clock))
    peer = type("Peer", (), {"encode": staticmethod(len)})
    monkeypatch.setattr(Banyan, "from_pretrained", lambda _: peer)
    found = compared.speed(len, ["a"] * 10, Path("models/default-0"))
    assert (found["ratio"], found["sentences_per_second"], found["beside_sentences_per_second"]) == (2.0, 10.0, 5.0)
    assert (found["turns"], found["beside"]) == (compared.TURNS, "default-0")


# --- The section -----------------------------------------------------------------------------------------------------


def record(name: str, sts: float, dimensions: int | None = 256, ratio: float = 2.0, language: str = "en") -> Any:
    """What experiments/compared.py leaves, with made-up figures."""
    tasks = {("sts", "mean of 8 sets", "spearman"): sts, ("words", "mean of 3 sets", "spearman"): sts - 10}
    tasks |= {("retrieval", "arguana", "nDCG@10"): sts - 20}
    tasks |= {("sts", one, "spearman"): sts for one in page_tables.STS.values()}
    if language != "en":
        tasks = {("languages", language, "spearman"): sts}
    return {
        "name": name,
        "language": language,
        "made": {"name": name, "settings": {}, "about": {"tokens": 9_900_000}},
        "training_seconds": 113.0,
        "dimensions": dimensions,
        "bytes": 64_000_000,
        "peak_memory_bytes": 300_000_000,
        "speed": {"ratio": ratio, "sentences_per_second": 1000 * ratio},
        "figures": [
            {"group": group, "task": task, "metric": metric, "value": value, "low": value - 1, "high": value + 1}
            for (group, task, metric), value in tasks.items()
        ],
    }


def section_of(folder: Path, *found: dict[str, Any]) -> str:
    for one in found:
        (folder / f"{one['name']}-{one['language']}.json").write_text(json.dumps(one))
    return page_compared.compared(material(), folder)


def material() -> Any:
    """The paper's figures, and none of ours."""
    return page._material(page.RESULTS)._replace(records=page.Records([]), baselines={})


def row(text: str, told: str) -> list[str]:
    return next(line for line in text.splitlines() if line.startswith(f"| {told} |")).strip("| ").split(" | ")


def test_a_row_has_what_was_measured_and_its_cost(tmp_path):
    text = section_of(tmp_path, record("glove", 50.0))
    assert row(text, "GloVe") == [
        "GloVe", "50.00", "40.00", "30.00", "not measured", "256", "9.9M words", "1m 53s", "300", "2", "64",
    ]  # fmt: skip


def test_a_system_that_was_not_run_shows_the_paper_s_figure_and_the_commands(tmp_path):
    text = section_of(tmp_path)
    assert row(text, "RoBERTa + SimCSE")[:2] == ["RoBERTa + SimCSE", "59.02 (paper)"]
    assert row(text, "Llama 3.1 8B")[1:5] == ["not measured", "not measured", "not measured", "53.06 (paper)"]
    assert "`banyan baseline pretrained meta-llama/Llama-3.1-8B --out llama/`" in text
    assert "`python experiments/compared.py llama llama/ --data ../shared/data --beside MODEL`" in text
    assert "not run yet" not in text


def test_nine_languages_have_a_mean_only_where_all_are_measured(tmp_path):
    every = [record("llama", 60.0 + i, language=code) for i, code in enumerate(page_compared.LANGUAGES)]
    assert row(section_of(tmp_path, *every), "Llama 3.1 8B")[4] == "64.00"
    (tmp_path / "llama-hi.json").unlink()
    assert row(section_of(tmp_path), "Llama 3.1 8B")[4] == "53.06 (paper)"


def test_the_answer_names_the_best_and_what_cannot_be_told_from_it(tmp_path):
    found = [record("glove", 50.0, ratio=3.0), record("sent2vec", 50.5), record("bm25", 40.0, None, 0.5)]
    text = section_of(tmp_path, *found)
    assert "- **English sentences**: Sent2Vec (50.5); not clearly behind it: GloVe (50.0); then BM25 (40.0)." in text
    (tmp_path / "bm25-en.json").write_text(json.dumps(record("bm25", 70.0, None, 0.5)))
    answer = "BM25 (70.0); then Sent2Vec (50.5). With vectors: Sent2Vec (50.5); not clearly behind it: GloVe (50.0)."
    assert f"- **English sentences**: {answer}" in section_of(tmp_path)
    assert "GloVe is the fastest, 3 × preset `default`, BM25 the slowest, 0.5 ×." in text


def test_presets_and_what_needs_no_learning_come_from_their_own_records():
    every = page_compared.Compared.read(page._material(page.RESULTS), Path("nowhere"))
    systems = {system.name: system for system in page_compared.SYSTEMS}
    paper = every.material.records.score("banyan", "sts")
    assert every.ours(systems["paper"], "sts").value == paper.mean
    for of, group in (("sts", "sts"), ("languages", "languages")):
        assert every.ours(systems["tfidf"], of).value == every.material.baseline(group, ["mean"], "TF-IDF")
    assert every.ours(systems["tfidf"], "ha").value == every.material.baseline("languages", ["ha"], "TF-IDF")
    assert every.ours(systems["bm25"], "sts") is None


def test_commands_that_would_fill_a_cell_are_understood():
    for system in page_compared.SYSTEMS:
        cli._options([*system.command.split()[1:], "--out", system.name])


# --- The picture -----------------------------------------------------------------------------------------------------


def shown(path: Path) -> Any:
    found = re.search(r"<dc:description>(.*?)</dc:description>", path.read_text(encoding="utf-8"), re.DOTALL)
    assert found, f"{path} was not drawn by experiments/page_compared.py"
    return json.loads(unescape(found[1]))


def test_the_picture_shows_what_the_records_say():
    every = page_compared.Compared.read(page._material(page.RESULTS), page.RESULTS / "compared")
    wanted = [list(point) for point in page_compared.points(every)]
    assert shown(page_compared.PICTURE) == wanted, "run python experiments/page_compared.py"


def test_labels_of_the_picture_do_not_hide_each_other(tmp_path):
    from matplotlib import pyplot

    crowd = [page_compared.Point(f"a system {i}", 10.0 + i / 2, 60.0 + i % 2, "vectors") for i in range(5)]
    figure, axes = pyplot.subplots(figsize=(8.6, 5.2))
    labels = page_compared._scatter(axes, crowd)
    figure.canvas.draw()
    page_compared._spread(axes, labels)
    boxes = [label.get_window_extent() for label in labels]
    pyplot.close(figure)
    assert not any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])


def test_drawn_twice_the_picture_is_the_same_bytes(tmp_path):
    some = [page_compared.Point("one & two", 10.0, 60.0, "banyan"), page_compared.Point("three", None, 50.0, "paper")]
    for name in ("a.svg", "b.svg"):
        page_compared.draw(some, tmp_path / name)
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()
    assert shown(tmp_path / "a.svg") == [list(point) for point in some]
