"""What Banyan is compared with: records of scores and costs, and the table and the picture made of them."""

from __future__ import annotations

import json
import lzma
import re
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from banyan.baselines import dice, folder, tfidf
from banyan.commands._parser import parse
from banyan.encoder import Banyan
from experiments.figures import compared as picture
from experiments.measuring import compared
from experiments.pages import compared as page_compared
from experiments.places import RESULTS
from experiments.records import sets, systems
from experiments.records.material import Material
from experiments.records.store import Records

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
    """The one record that is written, or was there."""
    compared.main([name, str(data / name), "--data", str(data), "--language", "af", "--out", str(out), *more])
    (path,) = out.iterdir()
    return json.loads(path.read_text())


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
    assert "exists already" in capsys.readouterr().out


def test_halves_have_each_their_own_file_and_together_all(data, tmp_path, monkeypatch):
    monkeypatch.setattr(compared, "peak_memory", lambda *_: 1)
    halves = [run(data, tmp_path / half, "tfidf", "--only", half) for half in ("scores", "cost")]
    assert [path.name for half in ("scores", "cost") for path in (tmp_path / half).iterdir()] == [
        "tfidf-af.json",
        "tfidf-af-cost.json",
    ]
    whole = run(data, tmp_path / "whole", "tfidf")
    assert halves[0].keys() & halves[1].keys() == {"name", "language", "folder", "made", "training_seconds"}
    assert halves[0].keys() | halves[1].keys() == whole.keys()
    assert halves[0]["figures"] == whole["figures"]


@pytest.mark.parametrize(("seed", "only", "name"), [(0, "scores", ""), (3, None, "-s3"), (3, "cost", "-s3-cost")])
def test_another_seed_has_a_file_of_its_own(seed, only, name):
    assert compared.suffix({"settings": {"seed": seed}}, only) == name


def test_the_folder_s_own_time_goes_before_what_is_told(data, tmp_path, monkeypatch):
    monkeypatch.setattr(compared, "peak_memory", lambda *_: 1)
    about = {"seconds": 7.0, "peak_memory_bytes": 5, "losses": [1.0]}
    (data / "timed").mkdir()
    folder.write(data / "timed", folder.Manifest("dice", {"of": "words"}, about=about))
    record = run(data, tmp_path, "timed", "--trained", "9", "--only", "cost")
    assert record["training_seconds"] == 7.0
    assert record["made"]["about"] == {"seconds": 7.0, "peak_memory_bytes": 5}


def test_the_ratio_is_the_median_of_turns_beside_the_model(monkeypatch):
    clock = iter([1.0, 2.0] * 2 + [4.0, 2.0] + [1.0, 2.0] * 4)  # seconds of ours and of theirs, a turn each
    monkeypatch.setattr(compared, "_seconds", lambda *_: next(clock))
    peer = type("Peer", (), {"encode": staticmethod(len)})
    monkeypatch.setattr(Banyan, "from_pretrained", lambda _: peer)
    found = compared.speed(len, ["a"] * 10, Path("models/default-0"))
    assert (found["ratio"], found["sentences_per_second"], found["beside_sentences_per_second"]) == (2.0, 10.0, 5.0)
    assert (found["turns"], found["beside"]) == (compared.TURNS, "default-0")


# --- The section -----------------------------------------------------------------------------------------------------

COST = ("bytes", "peak_memory_bytes", "speed", "machine")
SCORES = ("figures", "dimensions")


def record(
    name: str, sts: float, dimensions: int | None = 256, ratio: float = 2.0, language: str = "en", **made: Any
) -> dict[str, Any]:
    """What experiments/measuring/compared.py leaves, with made-up figures."""
    tasks = {("sts", "mean of 8 sets", "spearman"): sts, ("words", "mean of 3 sets", "spearman"): sts - 10}
    tasks |= {("retrieval", "arguana", "nDCG@10"): sts - 20, ("classification", "sst2", "accuracy"): sts + 20}
    tasks |= {("classification", "mrpc", "accuracy"): sts + 21, ("classification", "mrpc", "f1"): sts + 22}
    tasks |= {("sts", one, "spearman"): sts for one in sets.STS.values()}
    if language != "en":
        tasks = {("languages", language, "spearman"): sts}
    about = {"tokens": 9_900_000, "peak_memory_bytes": 700_000_000}
    return {
        "name": name,
        "language": language,
        "folder": name,
        "made": {"name": name, "settings": {}, "about": about, **made},
        "training_seconds": 113.0,
        "dimensions": dimensions,
        "bytes": 64_000_000,
        "peak_memory_bytes": 300_000_000,
        "speed": {"ratio": ratio, "sentences_per_second": 1000 * ratio, "sentences": 4096, "threads": 1},
        "machine": "2 × a processor",
        "figures": [
            {"group": group, "task": task, "metric": metric, "value": value, "low": value - 1, "high": value + 1}
            for (group, task, metric), value in tasks.items()
        ],
    }


def without(record: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in record.items() if name not in names}


def seeded(name: str, seed: int, sts: float, language: str = "en") -> dict[str, Any]:
    """Scores alone, of a seed."""
    return without(record(name, sts, language=language, settings={"seed": seed}), *COST)


def in_folder(folder: Path, *found: dict[str, Any]) -> Path:
    for one in found:
        seed = one["made"]["settings"].get("seed", 0)
        behind = f"{f'-s{seed}' * bool(seed)}{'' if 'figures' in one else '-cost'}"
        (folder / f"{one['name']}-{one['language']}{behind}.json").write_text(json.dumps(one))
    return folder


def section_of(folder: Path, *found: dict[str, Any]) -> str:
    return page_compared.compared(material(), in_folder(folder, *found))


def material() -> Any:
    """The paper's figures, and none of ours."""
    return Material.read(RESULTS)._replace(records=Records([]), baselines={})


def row(text: str, told: str, of: str = "Quality") -> list[str]:
    part = text.split(f"### {of}\n")[1].split("###")[0]
    return next(line for line in part.splitlines() if line.startswith(f"| {told} |")).strip("| ").split(" | ")


def test_a_row_has_what_was_measured_and_its_cost(tmp_path):
    text = section_of(tmp_path, record("glove", 50.0))
    figures = ["50.00 (paper 33.75 ± 0.04)", "40.00 (paper 47.00 ± 0.38)", "30.00 (paper 12.77 ± 0.24)", "not measured"]
    assert row(text, "GloVe") == ["GloVe", *figures, "256", "9.9M words", systems.WIKI_103]
    assert row(text, "GloVe", "Cost") == ["GloVe", "1m 53s", "700", "300", "2", "64"]
    classes = ["70.00 (paper 75.83 ± 0.62)", "71.00", "72.00 (paper 81.00 ± 0)"]
    assert row(text, "GloVe", "Classification") == ["GloVe", *classes]
    assert row(text, "GloVe", "Each set")[1] == "50.00 (paper 31.61 ± 0.31)"


def test_halves_make_the_same_section_as_the_whole(tmp_path):
    for name in ("whole", "halves"):
        (tmp_path / name).mkdir()
    whole = record("glove", 50.0)
    halves = [without(whole, *COST), without(whole, *SCORES)]
    assert section_of(tmp_path / "halves", *halves) == section_of(tmp_path / "whole", whole)


def test_costs_that_were_measured_apart_go_before_those_of_the_whole(tmp_path):
    old = {**record("glove", 50.0, ratio=9.0), "training_seconds": 60.0}
    new = {**without(record("glove", 50.0, ratio=3.0), *SCORES), "training_seconds": None}
    text = section_of(tmp_path, old, new)
    assert row(text, "GloVe", "Cost")[1:5] == ["1m 00s", "700", "300", "3"]
    assert row(text, "GloVe")[1].startswith("50.00 ")


def test_a_figure_of_several_seeds_is_their_mean_and_two_deviations(tmp_path):
    found = [seeded("glove", 0, 49.0), seeded("glove", 1, 50.0), seeded("glove", 2, 51.0), seeded("sent2vec", 0, 30.0)]
    text = section_of(tmp_path, *found)
    assert row(text, "GloVe")[1].startswith("50.00 ")
    assert "means over seeds in English for GloVe (3); all others are from one seed." in text
    figure = systems.Compared.read(material(), tmp_path).ours(system("glove"), "sts")
    assert (figure.value, figure.low, figure.high, figure.seeds) == (50.0, 48.0, 52.0, 3)


def test_the_mean_of_nine_languages_is_over_the_seeds_that_all_have(tmp_path):
    found = [seeded("glove", seed, 60.0 + 2 * seed, code) for code in systems.LANGUAGES for seed in (0, 1)]
    figure = systems.Compared.read(material(), in_folder(tmp_path, *found)).ours(system("glove"), "languages")
    assert (figure.value, figure.seeds) == (61.0, 2)
    (tmp_path / "glove-hi-s1.json").unlink()
    figure = systems.Compared.read(material(), tmp_path).ours(system("glove"), "languages")
    assert (figure.value, figure.seeds) == (60.0, 1)
    assert figure.low == pytest.approx(60 - 1 / 3)  # of nine independent sets, each with ± 1


def system(name: str) -> Any:
    return next(one for one in systems.SYSTEMS if one.name == name)


def test_a_system_that_was_not_run_shows_the_paper_s_figure_and_the_commands(tmp_path):
    text = section_of(tmp_path)
    assert row(text, "RoBERTa + SimCSE")[:2] == ["RoBERTa + SimCSE", "59.02 ± 1.45 (paper)"]
    assert row(text, "Llama 3.1 8B")[1:5] == ["not measured", "not measured", "not measured", "53.06 (paper)"]
    assert row(text, "GloVe", "Classification")[1:] == ["75.83 ± 0.62 (paper)", "not measured", "81.00 ± 0 (paper)"]
    assert "`banyan baseline pretrained meta-llama/Llama-3.1-8B --out llama/`" in text
    assert "`python -m experiments.measuring.compared llama llama/ --beside MODEL`" in text
    assert "not run yet" not in text


def test_nine_languages_have_a_mean_only_where_all_are_measured(tmp_path):
    every = [record("llama", 60.0 + i, language=code) for i, code in enumerate(systems.LANGUAGES)]
    assert row(section_of(tmp_path, *every), "Llama 3.1 8B")[4] == "64.00 (paper 53.06)"
    (tmp_path / "llama-hi.json").unlink()
    assert row(section_of(tmp_path), "Llama 3.1 8B")[4] == "53.06 (paper)"


def test_a_transformer_tells_its_steps_and_those_of_what_it_started_from(tmp_path):
    about = {"sentences": 465_221, "tokens": 9, "seconds": 900.0, "device": "NVIDIA H200 (bf16)"}
    roberta = record("roberta", 50.0, about={**about, "steps": 60_000})
    hausa = record("roberta", 50.0, language="ha", about={**about, "steps": 7_000})
    simcse = record("simcse", 55.0, settings={"init": "models/roberta"}, about={**about, "steps": 909})
    text = section_of(tmp_path, roberta, hausa, simcse)
    assert row(text, "RoBERTa medium")[-2] == "465,221 sentences, 60,000 of the paper's 200,000 steps"
    assert row(text, "RoBERTa + SimCSE")[-2] == "465,221 sentences, 909 steps after RoBERTa's 60,000"
    assert row(text, "RoBERTa medium", "Cost")[1] == "1m 53s (NVIDIA H200 (bf16))"
    assert "- Training steps in the nine languages: RoBERTa medium 7,000 of the paper's 200,000 steps." in text
    hindi = record("roberta", 50.0, language="hi", about={**about, "steps": 5_000})
    assert "RoBERTa medium 5,000 to 7,000 of the paper's 200,000 steps." in section_of(tmp_path, hindi)
    (tmp_path / "roberta-en.json").unlink()
    assert row(section_of(tmp_path), "RoBERTa + SimCSE")[-2] == "465,221 sentences, 909 steps"


def test_the_answer_names_the_best_and_what_cannot_be_told_from_it(tmp_path):
    found = [record("glove", 50.0, ratio=3.0), record("sent2vec", 50.5), record("bm25", 40.0, None, 0.5)]
    text = section_of(tmp_path, *found)
    assert "- **English sentences**: Sent2Vec (50.5); not significantly lower: GloVe (50.0); then BM25 (40.0)." in text
    (tmp_path / "bm25-en.json").write_text(json.dumps(record("bm25", 70.0, None, 0.5)))
    answer = "BM25 (70.0); then Sent2Vec (50.5). With vectors: Sent2Vec (50.5); not significantly lower: GloVe (50.0)."
    assert f"- **English sentences**: {answer}" in section_of(tmp_path)
    assert "GloVe (3 times the speed of `default`) is the fastest, BM25 (0.5 times the speed" in text


def test_where_a_pretrained_model_is_the_best_the_answer_names_what_one_s_own_text_gives(tmp_path):
    minilm, glove = record("minilm-l6", 80.0, about={}), record("glove", 50.0)
    answer = "MiniLM-L6 (80.0); then BM25 (60.0). Trained on your own text: BM25 (60.0); then GloVe (50.0)."
    text = section_of(tmp_path, minilm, glove, record("bm25", 60.0, None))
    assert f"- **English sentences**: {answer} With vectors: GloVe (50.0); no other was measured." in text
    assert row(text, "MiniLM-L6")[-1] == "pretrained by others"


def test_times_of_a_cpu_and_of_a_gpu_are_not_compared(tmp_path):
    on_gpu = record("roberta", 50.0, about={"steps": 9, "sentences": 9, "device": "NVIDIA H200 (bf16)"})
    on_cpu = record("sent2vec", 50.0, about={"device": "2 threads"})
    slow = {**record("fasttext", 50.0), "training_seconds": 300.0}
    asked_for = record("simcse", 50.0, about={"steps": 9, "sentences": 9}, settings={"device": "cuda"})
    text = section_of(tmp_path, on_gpu, on_cpu, slow, asked_for)
    assert "on a CPU Sent2Vec is the fastest (1m 53s), fastText, SIF the slowest (5m 00s); on a GPU RoBERTa" in text
    assert row(text, "RoBERTa + SimCSE", "Cost")[1] == "1m 53s (a GPU)"


def test_presets_and_what_needs_no_learning_come_from_their_own_records():
    every = systems.Compared.read(Material.read(RESULTS), Path("nowhere"))
    paper = every.material.records.score("banyan", "sts")
    assert every.ours(system("paper"), "sts").value == paper.mean
    for of, group in (("sts", "sts"), ("languages", "languages")):
        assert every.ours(system("tfidf"), of).value == every.material.baseline(group, ["mean"], "TF-IDF")
    assert every.ours(system("tfidf"), "ha").value == every.material.baseline("languages", ["ha"], "TF-IDF")
    assert every.ours(system("tfidf"), "sst2") is None
    assert every.ours(system("bm25"), "sts") is None


def test_a_preset_without_runs_in_a_language_takes_what_was_measured_for_the_comparison(tmp_path):
    runs = Material.read(RESULTS)
    in_folder(tmp_path, record("light", 12.0), *(record("light", 60.0, language=code) for code in systems.LANGUAGES))
    every = systems.Compared.read(runs._replace(records=_without_languages(runs.records, "light")), tmp_path)
    assert every.ours(system("light"), "sts").value == runs.records.score("light", "sts").mean
    assert every.ours(system("light"), "languages").value == 60.0


def _without_languages(found: Any, preset: str) -> Any:
    named = [name for name in found.names() if not name.startswith(f"{preset}-")]
    return Records([one for name in named for one in found[name]])


def test_commands_that_would_fill_a_cell_are_understood():
    for one in systems.SYSTEMS:
        parse([*one.command.split()[1:], "--out", one.name])


# --- The picture -----------------------------------------------------------------------------------------------------


def shown(path: Path) -> Any:
    found = re.search(r"<dc:description>(.*?)</dc:description>", path.read_text(encoding="utf-8"), re.DOTALL)
    assert found, f"{path} was not drawn by experiments/figures/compared.py"
    return json.loads(unescape(found[1]))


def test_the_picture_shows_what_the_records_say():
    every = systems.Compared.read(Material.read(RESULTS), RESULTS / "compared")
    wanted = [list(point) for point in picture.points(every)]
    assert shown(picture.PICTURE) == wanted, "run python -m experiments.figures.compared"


def test_a_point_has_the_time_of_a_sentence_and_a_line_only_the_paper_s_score(tmp_path):
    found = [record("glove", 50.0, ratio=4.0), record("minilm-l6", 80.0, ratio=0.001)]
    drawn = picture.points(systems.Compared.read(material(), in_folder(tmp_path, *found)))
    assert ("sts", "GloVe", 0.25, 50.0, "vectors") in drawn
    assert ("sts", "GloVe without stop words", None, 44.96, "paper") in drawn
    assert ("sts", "MiniLM-L6", 1000.0, 80.0, "pretrained") in drawn
    assert ("languages", "Llama 3.1 8B", None, 53.06, "paper") in drawn


def test_labels_of_the_picture_do_not_hide_each_other():
    from matplotlib import pyplot

    crowd = [picture.Point("sts", f"a system {i}", 10.0 + i / 2, 60.0 + i % 2, "vectors") for i in range(5)]
    crowd += [picture.Point("sts", "at the right", 99.0, 58.05, "vectors")]
    crowd += [picture.Point("sts", f"a line {i}", None, score, "paper") for i, score in enumerate((58.0, 57.9, 50.0))]
    figure, axes = pyplot.subplots(figsize=(8.6, 5.2))
    labels = picture._scatter(axes, crowd, "score")
    figure.canvas.draw()
    picture._spread(axes, labels)
    boxes = [text.get_window_extent() for text in axes.texts]
    dots = [axes.transData.transform(label.xy) for label in labels]
    pyplot.close(figure)
    assert axes.texts[0].get_text() == "a line 0, a line 1 (paper)"
    assert not any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])
    assert not any(box.contains(*dot) for box in boxes for dot in dots)


def test_drawn_twice_the_picture_is_the_same_bytes(tmp_path):
    some = [picture.Point("sts", "one & two", 10.0, 60.0, "banyan"), picture.Point("sts", "three", None, 50.0, "paper")]
    for name in ("a.svg", "b.svg"):
        picture.draw(some, tmp_path / name)
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()
    assert shown(tmp_path / "a.svg") == [list(point) for point in some]
