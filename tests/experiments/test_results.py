"""The experiments: the paper's tables as read, the runs, and the page that is made of them."""

from __future__ import annotations

import json
import lzma
import multiprocessing
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from banyan.config import Config
from banyan.corpus.store import Store
from banyan.evaluate.retrieval import Beir, retrieval
from banyan.evaluate.suites import LANGUAGES
from banyan.support.display import Display
from experiments.data import ENGLISH, paper_source
from experiments.pages import claims as page_claims
from experiments.pages import ideas as page_ideas
from experiments.pages import results as page
from experiments.pages import small as page_small
from experiments.places import DOCS, RESULTS
from experiments.records import paper_tables, sets, store
from experiments.records.estimates import Estimate, clearly
from experiments.records.material import Material
from experiments.training import evaluation, no_tree, plan, prepared, reproduce, runs
from experiments.training.ideas import IDEAS
from experiments.training.spacing import spaced


def record(name: str, seed: int, shift: float = 0.0) -> dict[str, Any]:
    """What a finished run leaves, with made-up figures."""
    experiment = runs.EXPERIMENTS[name]
    chosen_on = (*page_ideas.SENTENCES.values(), page_ideas.WORDS)
    tasks = [(task, "spearman") for task in (*sets.STS.values(), *sets.WORDS.values(), *chosen_on)]
    tasks += [(task, cut) for task in ("arguana", "quora_small_retrieval") for cut in sets.CUTS.values()]
    tasks += [("sst2", "accuracy"), ("mrpc", "f1")]
    if experiment.language not in ENGLISH:
        tasks = [(experiment.language, "spearman")]
    figure = {"n": 100, "value": 50.0 + shift, "low": 40.0, "high": 60.0, "note": ""}
    score = {"value": 50.0 + shift, "low": 45.0 + shift, "high": 55.0 + shift}
    counts = {"steps": 100, "tokens": 15_000, "sentences": 500, "nodes": 60, "plain_nodes": 100}
    training = {"seconds": 20.0, **counts, "train_loss": 5.0}
    return {
        **experiment.recorded(seed),
        "vocabulary": 1000,
        "parameters": {"functions": 14, "embedding": 256_000, "output": 257_000},
        "training": {**training, "peak_memory_bytes": 10**9} if experiment.trained else None,
        "energy": None,
        "sharing": 1,
        "machine": {"name": "a card", "versions": {"torch": "2"}},
        "command": "banyan train",
        "commit": "abc",
        "figures": [{"group": "", "task": task, "metric": metric, **figure} for task, metric in tasks],
        "scores": {"sts": score, "words": score} if experiment.language in ENGLISH else {},
    }


def page_of(folder: Path, found: list[dict[str, Any]]) -> str:
    (folder / "runs").mkdir()
    (folder / "paper.json").write_text((RESULTS / "paper.json").read_text(encoding="utf-8"), encoding="utf-8")
    for one in found:
        (folder / "runs" / f"{one['name']}-{one['seed']}.json").write_text(json.dumps(one))
    return page.render(folder)


# --- The page --------------------------------------------------------------------------------------------------------


def test_page_without_any_run_says_so_in_its_cells(tmp_path):
    text = page_of(tmp_path, [])
    assert "| STS-12 | 31.98 ± 0.58 | not run yet |  |" in text
    assert "## 8. Figures\n\nNot run yet." in text


def test_page_gives_the_interval_of_one_seed_and_the_deviation_of_several(tmp_path):
    one = [record("self-strae", 0)]
    several = [record("banyan", seed, shift) for seed, shift in enumerate((-1.0, 0.0, 1.0))]
    text = page_of(tmp_path, one + several)
    row = next(line for line in text.splitlines() if line.startswith("| STS-12 | 31.98"))
    assert "50.00 [40.0, 60.0] (1)" in row
    assert "50.00 ± 1.00 (3)" in row
    assert "-1.38" in row  # 50 - 51.38


def test_page_with_every_run_has_no_empty_cell(tmp_path):
    text = page_of(tmp_path, [record(name, 0) for name in runs.EXPERIMENTS])
    left = [line for line in text.splitlines() if "not run yet" in line]
    assert [line for line in left if "experiments/" not in line] == []


def test_page_hands_on_what_evaluation_says_about_a_set(tmp_path):
    run = record("banyan", 0)
    next(one for one in run["figures"] if one["task"] == "semrel")["note"] = "a training split"
    assert "- SemRel: a training split." in page_of(tmp_path, [run]).splitlines()


def test_page_knows_retrieval_figures_by_the_names_that_evaluation_gives_them():
    texts = ["a b", "c d"]
    beir = Beir(["x", "y"], texts, texts, ["q", "r"], ["e", "f"], {"q": {"x": 1}, "r": {"y": 1}}, 0)
    found = retrieval(lambda texts: np.ones((len(texts), 2), np.float32), beir, "toy")
    assert {outcome.metric for outcome in found} == set(sets.CUTS.values())


def test_score_of_languages_takes_only_seeds_that_all_have():
    found = [record(name, seed, 2.0 * seed) for name in ("id", "ar") for seed in (0, 1)][:3]
    assert store.Records(found).mean_over(["id", "ar"], "spearman").values == (50.0,)


@pytest.mark.parametrize(("ours", "expected"), [((60.0, 60.2), 1), ((40.0, 40.2), -1), ((49.0, 51.5), 0)])
def test_a_difference_is_told_only_beyond_two_deviations(ours, expected):
    assert clearly(Estimate(ours), {"mean": 50.0, "sd": 1.0}) == expected


def seeds(name: str, *shifts: float) -> list[dict[str, Any]]:
    return [record(name, seed, shift) for seed, shift in enumerate(shifts)]


def test_page_says_which_widths_depend_on_the_seed(tmp_path):
    text = page_of(tmp_path, [*seeds("channels-8", 0, 8, 8), *seeds("channels-16", 9, 9.1), *seeds("banyan", 9, 9.2)])
    (line,) = [line for line in text.splitlines() if line.startswith("- Scores vary strongly between seeds")]
    assert "U = 32 (50.0, 58.0 and 58.0; paper: sd 0.11)" in line
    assert "U = 16" not in line
    material = Material.read(tmp_path)
    assert page_claims.stable(material).startswith("Small U is stable, as in the paper: with U = 2 and 16")


def test_page_says_whether_the_rate_explains_self_strae(tmp_path):
    usual, fast = record("self-strae", 0, -20), record("self-strae-fast", 0, -18)
    text = page_of(tmp_path, [usual, fast])
    assert "learning rate does not explain why Self-StrAE is below the paper: with 10 times" in text


def test_page_gives_what_the_form_of_punctuation_costs_a_small_run(tmp_path):
    for form in ("", "-spaced"):
        store.put(tmp_path / store.SMALL, small_run(f"diagonal-age-long-slow{form}", "age", f"20k{form}"))
    text = page_of(tmp_path, [record("self-strae", 0)])
    assert "a model trained on raw text has 35.6 (STS-B) and 49.9 (SemRel)" in text


def test_page_compares_only_runs_whose_halves_go_to_the_same_child(tmp_path):
    usual, fast = record("self-strae", 0, -20), record("self-strae-fast", 0, -18)
    del fast["settings"]["halves"]  # a record from before the setting was trained by side
    assert "learning rate does not explain" not in page_of(tmp_path, [usual, fast])


CONTROLS = {6: "significantly worse than", 3: "not significantly different from", -6: "significantly better than"}


@pytest.mark.parametrize(("shift", "told"), CONTROLS.items())
def test_page_says_on_which_side_of_banyan_a_control_is(tmp_path, shift, told):
    text = page_of(tmp_path, [*seeds("banyan", -0.1, 0, 0.1), record("balanced", 0, shift)])
    assert f"induced trees are {told} balanced ({shift:+.2f})" in text


@pytest.mark.parametrize(("bias", "told"), [(0.3, "is biased at every batch size"), (0.05, "not significantly biased")])
def test_a_bias_is_told_only_beyond_what_chance_allows(bias, told):
    columns = ["sentences", "bias", "chance", "loss"]
    content = {"columns": columns, "rows": [[32, bias, 0.04, None], [64, 0.0, 0.0, None]]}
    assert told in page_claims.in_short("unbiased", content, None)


# --- The tables of ideas ---------------------------------------------------------------------------------------------


def idea(name: str, group: str = "second", language: str = "en", *, trained: bool = True, **settings: Any) -> Any:
    """What a run on the development sets leaves, with made-up figures."""
    tasks = dict.fromkeys(page_ideas.SENTENCES.values(), 60.0) | {page_ideas.WORDS: 40.0, page_ideas.RETRIEVAL: 80.0}
    tasks = tasks if language == "en" else {f"semrel_dev/{language}": 70.04}
    metrics = {page_ideas.RETRIEVAL: "nDCG@10"}
    figures = [
        {"task": task, "metric": metrics.get(task, "spearman"), "value": value, "low": 0.0, "high": 100.0}
        for task, value in tasks.items()
    ]
    settings = page_ideas.PAPER | {"epochs": 5} | settings | ({} if trained else {"epochs": 0})
    made = {"name": name, "seed": 0, "language": language, "list": group, "settings": settings}
    return {**made, "training": {"seconds": 1.0} if trained else None, "figures": figures}


def ideas_of(folder: Path, **found: list[dict[str, Any]]) -> list[str]:
    for kind, some in found.items():
        for one in some:
            store.put(folder / (store.IDEAS if kind == "ideas" else kind), one)
    return page_ideas.render(folder).splitlines()


PARTS = {"infonce_weight": 1.0, "infonce_min_part": 0.3}
PARTS["crop_kind"] = "parts"
PARTS |= {"init_sketch": 1.0, "init_ppmi": 1.0, "init_gate": 0.95}


def test_every_idea_that_was_run_has_its_row():
    found = store.read(RESULTS / store.IDEAS)
    lines = (DOCS / "experiments.md").read_text(encoding="utf-8").splitlines()
    rows = [line for line in lines if line.startswith("| ")]
    for run in found:
        (row,) = [row for row in rows if row.startswith(f"| {page_ideas._name(run)} |")]
        for one in run["figures"]:
            if one["metric"] in ("spearman", "nDCG@10"):
                assert f"| {one['value']:.1f} |" in row


def test_a_row_tells_only_what_differs_from_what_its_list_shares(tmp_path):
    some = [
        idea("start-0", **PARTS),
        idea("start-cold", **{**PARTS, "infonce_temperature": 0.03}),
        idea("start-no-crops", **{**PARTS, "infonce_weight": 0.0}),
        idea("start-unigram", **PARTS, subword_model="unigram"),
        idea("start-digits"),
        idea("start-untrained", **{**PARTS, "infonce_weight": 3.0}, trained=False),
    ]
    lines = ideas_of(tmp_path, ideas=some)
    assert any("5 epochs, sketch 1, PPMI 1, gate 0.95, InfoNCE 1 (parts, ≥ 0.3, τ 0.05)." in line for line in lines)
    told = [line.split(" | ")[1] for line in lines if line.startswith("| start")]
    assert told == ["nothing", "τ 0.03", "preset `paper`", "unigram", "no InfoNCE", "not trained"]


def test_an_idea_that_was_taken_out_stays_in_its_list_with_its_setting(tmp_path):
    some = [idea("start-0"), idea("third-0", "third"), idea("start-output-5", output=5.0)]
    lines = [line for line in ideas_of(tmp_path, ideas=some) if line.startswith(("| start", "| third", "###"))]
    assert [line.split(" | ")[0].strip("| ") for line in lines] == [
        "### The second list",
        "start-0",
        "start-output-5",
        "### The third list",
        "third-0",
    ]
    assert "output layer initialised as 5 × leaves" in lines[2]


def test_other_languages_stand_beside_preset_paper(tmp_path):
    before = idea("hi", language="hi")
    before["figures"][0]["value"] = 65.0
    tried = [idea(f"fifth-{code}", "fifth-list", code) for code in ("hi", "af")]
    lines = ideas_of(tmp_path, ideas=tried, runs=[before])
    assert "| fifth-hi | hi | nothing | 70.0 | 65.0 |" in lines
    assert "| fifth-af | af | nothing | 70.0 | not run yet |" in lines


# --- Records ---------------------------------------------------------------------------------------------------------


def test_records_of_ideas_are_one_sorted_line_each(tmp_path):
    place = tmp_path / store.IDEAS
    for name, seed, value in (("b", 0, 1), ("a", 10, 2), ("a", 9, 3), ("b", 0, 4)):
        store.put(place, {"name": name, "seed": seed, "value": value})
    lines = [json.loads(line) for line in place.read_text().splitlines()]
    assert [(one["name"], one["seed"], one["value"]) for one in lines] == [("a", 9, 3), ("a", 10, 2), ("b", 0, 4)]
    assert store.find(place, "a", 10) == lines[1]
    assert store.find(place, "c", 0) is None


def _put_many(place: Path, name: str) -> None:
    for seed in range(20):
        store.put(place, {"name": name, "seed": seed})


def test_processes_that_add_ideas_at_the_same_time_lose_none(tmp_path):
    place = tmp_path / store.IDEAS
    context = multiprocessing.get_context("fork")
    writers = [context.Process(target=_put_many, args=(place, name)) for name in ("a", "b")]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert len(store.read(place)) == 40


def test_recorded_ideas_are_sorted():
    text = (RESULTS / store.IDEAS).read_text(encoding="utf-8")
    keys = [(one["name"], one["seed"]) for one in map(json.loads, text.splitlines())]
    assert keys == sorted(set(keys))


# --- The paper's tables ----------------------------------------------------------------------------------------------


def test_paper_json_is_what_the_tex_says():
    if not paper_source().exists():
        pytest.skip("the paper is not here")
    expected = paper_tables.to_json(paper_tables.read(paper_source()))
    assert (RESULTS / "paper.json").read_text(encoding="utf-8") == expected


def test_a_table_is_read_with_macros_bold_figures_and_deviations_in_a_line_of_their_own():
    body = r"""
    \toprule
    & \multicolumn{2}{c}{Quora} & MRPC \\
    \cmidrule(lr){2-3}
    Model & R@1 & R@10 & F1 \\
    \midrule
    \sstrae & \textbf{50.63 $\pm$ 1.4}5 & 09.5 & $\approx$10M \\
    + more & \textbf{1} & 2 & 3 \\
           & \textbf{$\pm$ 0.1} & $\pm$ 0.2 & $\pm$ 0.3 \\
    \bottomrule
    """
    table = paper_tables._table(body, {"sstrae": "Self-StrAE"})
    assert table["Self-StrAE"] == {
        "Quora R@1": {"mean": 50.63, "sd": 1.45},
        "Quora R@10": {"mean": 9.5, "sd": None},
        "MRPC F1": {"mean": 1e7, "sd": None, "about": True},
    }
    assert table["Self-StrAE + more"]["Quora R@10"] == {"mean": 2.0, "sd": 0.2}


def test_a_score_that_is_not_the_mean_of_its_columns_is_found():
    def row(score: float) -> dict[str, Any]:
        return {"a": {"mean": 1.0}, "b": {"mean": 2.0}, "Score": {"mean": score}}

    assert [check["agrees"] for check in paper_tables.scores({"right": row(1.51), "wrong": row(1.53)})] == [True, False]


# --- The runs --------------------------------------------------------------------------------------------------------


def test_one_seed_of_everything_comes_first():
    todo = plan.plan(plan.chosen(["all"]), [0, 1])
    first = todo[: len(runs.EXPERIMENTS)]
    assert {one.name for one, _ in first} == set(runs.EXPERIMENTS)
    assert {seed for _, seed in first} == {0}
    importance = [one.importance for one, _ in todo[len(first) :]]
    assert importance == sorted(importance)


def test_ablations_differ_from_banyan_only_where_their_names_say():
    banyan, strae = runs.EXPERIMENTS["banyan"].config(0), runs.EXPERIMENTS["self-strae"].config(0)
    mixed = runs.EXPERIMENTS["entangled-diagonal-contrastive"].config(0)
    assert (mixed.trees, mixed.functions, mixed.channels) == (banyan.trees, banyan.functions, banyan.channels)
    assert (mixed.objective, mixed.lr, mixed.clip_grad_norm, mixed.leaf_dropout) == (
        strae.objective,
        strae.lr,
        strae.clip_grad_norm,
        strae.leaf_dropout,
    )
    assert (banyan.epochs, runs.EXPERIMENTS["af"].config(0).epochs) == (15, 8)
    of_ablations = [one.config(0) for one in runs.EXPERIMENTS.values() if "ablations" in one.groups]
    assert {(one.trees, one.halves) for one in of_ablations} == {("plain", "age"), ("entangled", "side")}


@pytest.fixture
def tiny(tmp_path, monkeypatch) -> Path:
    """A corpus of a few sentences, two test sets, and two small runs on them."""
    rng = np.random.default_rng(0)
    words = "die hond kat huis boom loop sit eet groot klein man vrou kind water son".split()
    lines = [" ".join(rng.choice(words, 8)) for _ in range(80)]
    corpus = tmp_path / "corpora" / "af"
    corpus.mkdir(parents=True)
    for name, part in (("train", lines[:60]), ("dev", lines[60:])):
        (corpus / f"{name}.txt.xz").write_bytes(lzma.compress("\n".join(part).encode()))
    pairs = "".join(f"{a},{b},{i}\n" for i, (a, b) in enumerate(pairwise(lines[:20])))
    (tmp_path / "eval" / "semrel_dev").mkdir(parents=True)
    (tmp_path / "eval" / "af_test.csv").write_text(pairs)
    (tmp_path / "eval" / "semrel_dev" / "af.csv").write_text(pairs)
    small = {"dim": 16, "channels": 8, "epochs": 1, "batch_size": 16}
    made = [
        runs.Experiment("tree", ("languages",), 1, "af", settings=small),
        runs.Experiment("no-tree", ("controls",), 1, "af", settings=small, model="no-tree"),
        runs.Experiment("tree-untrained", ("controls",), 1, "af", settings=small, trained=False),
        runs.Experiment("idea", ("first", "ideas"), 1, "af", settings=small, trained=False, choosing=True),
    ]
    monkeypatch.setattr(reproduce, "chosen", lambda names: [one for one in made if one.name in names])
    return tmp_path


def reproduced(tiny: Path, *names: str) -> int:
    places = ["--data", str(tiny), "--work", str(tiny / "work"), "--results", str(tiny / "out")]
    kept = ["--keep-weights", "--out-weights", str(tiny / "weights")]
    return reproduce.main([*names, *places, *kept, "--device", "cpu"])


def test_a_run_leaves_its_record_and_is_skipped_the_second_time(tiny, capsys):
    assert reproduced(tiny, "tree", "no-tree", "tree-untrained") == 0
    found = {name: store.find(tiny / "out" / "runs", name, 0) for name in ("tree", "no-tree")}
    for one in found.values():
        (test,) = [figure for figure in one["figures"] if figure["group"] == "languages"]
        assert test["low"] <= test["value"] <= test["high"]
        assert one["training"]["steps"] == 4
        assert one["training"]["dev_loss"] > 0
    assert found["tree"]["parameters"]["functions"] == 7 * 2
    assert found["no-tree"]["parameters"]["functions"] == 2 * 2
    untrained = store.find(tiny / "out" / "runs", "tree-untrained", 0)
    assert (untrained["training"], untrained["settings"]["epochs"]) == (None, 0)
    with np.load(tiny / "weights" / "tree-0.npz") as weights:
        assert weights["embedding"].dtype == np.float16
        assert weights["comp_l"].shape == (2,)

    capsys.readouterr()
    assert reproduced(tiny, "tree") == 0
    assert "already recorded" in capsys.readouterr().out


def test_an_idea_is_evaluated_on_development_sets_and_recorded_in_one_line(tiny, capsys):
    assert reproduced(tiny, "idea") == 0
    (record,) = store.read(tiny / "out" / store.IDEAS)
    assert (record["name"], record["list"], record["suites"]) == ("idea", "first", ["dev"])
    assert {figure["group"] for figure in record["figures"]} == {"dev"}
    assert not (tiny / "out" / store.RUNS).exists()
    capsys.readouterr()
    assert reproduced(tiny, "idea") == 0
    assert "already recorded" in capsys.readouterr().out


def test_prepared_folders_are_enough_where_the_corpus_is_not(tiny):
    assert reproduced(tiny, "tree", "--prepare") == 0
    (tiny / "corpora").rename(tiny / "elsewhere")
    assert reproduced(tiny, "tree-untrained") == 0


def test_a_corpus_without_held_out_text_holds_out_its_first_lines(tmp_path, monkeypatch):
    monkeypatch.setattr(prepared, "HELD_OUT", 5)
    rng = np.random.default_rng(0)
    said = [["the dog and the cat sat on it." for _ in range(rng.integers(1, 5))] for _ in range(40)]
    corpus = tmp_path / "corpora" / "en_paragraphs" / "train.txt.xz"
    corpus.parent.mkdir(parents=True)
    corpus.write_bytes(lzma.compress("\n".join("\t".join(one) for one in said).encode()))
    config = Config(vocab_size=300)
    for _ in range(2):
        text = prepared.prepared("en_paragraphs", tmp_path, tmp_path / "work", Display(quiet=True), config)
        assert np.diff([*text.dev.paragraphs, len(text.dev)]).tolist() == list(map(len, said[:5]))
        assert np.diff([*text.store.paragraphs, len(text.store)]).tolist() == list(map(len, said[5:]))
        if corpus.exists():
            corpus.unlink()  # the second time, the folder is enough


def test_a_run_that_fails_does_not_stop_the_others(tiny, capsys, monkeypatch):
    def broken(*_: Any) -> None:
        raise RuntimeError("out of memory")

    monkeypatch.setattr(no_tree, "train", broken)
    assert reproduced(tiny, "no-tree", "tree", "tree-untrained") == 1
    assert "no-tree-0 failed: RuntimeError: out of memory" in capsys.readouterr().err
    assert {path.name for path in (tiny / "out" / "runs").iterdir()} == {"tree-0.json", "tree-untrained-0.json"}


# --- The control without trees ---------------------------------------------------------------------------------------


def test_no_tree_is_the_mean_of_leaves_and_back():
    rng = np.random.default_rng(0)
    sentences = [rng.integers(0, 30, n) for n in rng.integers(1, 9, 12)]
    offsets = np.concatenate([[0], np.cumsum([len(one) for one in sentences])])
    store = Store(np.concatenate(sentences).astype(np.uint16), offsets, None, "")  # type: ignore[arg-type]
    model = no_tree.NoTree(Config(dim=8, channels=4), 30)
    chosen = [np.array([3, 1, 7, 2]), np.array([5, 9])]
    batches = list(no_tree.OnDevice(store, torch.device("cpu")).batches(chosen))
    for indices, batch in zip(chosen, batches, strict=True):
        torch.testing.assert_close(model(batch), plainly(model, [sentences[i] for i in indices]))


def plainly(model: Any, sentences: list[np.ndarray]) -> torch.Tensor:
    """The loss of a batch, word for word as described."""
    means = [model.embedding[torch.from_numpy(one)].mean(0) for one in sentences]
    down = [mean * torch.sigmoid(model.gate).repeat(4) + model.bias.repeat(4) for mean in means]
    tokens = sorted({int(token) for one in sentences for token in one})
    held_by = [[d for d, one in zip(down, sentences, strict=True) if token in one] for token in tokens]
    rebuilt = torch.stack([torch.stack(holders).mean(0) for holders in held_by])
    logits = rebuilt @ model.out_weight.T + model.out_bias
    return torch.nn.functional.cross_entropy(logits, torch.tensor(tokens))


def test_no_tree_encodes_the_mean_and_nothing_as_zero():
    class Letters:
        def encode(self, texts: list[str]) -> tuple[np.ndarray, np.ndarray]:
            tokens = [ord(letter) - ord("a") for text in texts for letter in text]
            return np.array(tokens), np.concatenate([[0], np.cumsum([len(text) for text in texts])])

    embedding = np.arange(8, dtype=np.float32).reshape(4, 2)
    encoded = no_tree.Encoder(Letters(), embedding).encode(["ab", "", "d", "aaa", ""])
    np.testing.assert_array_equal(encoded, [[1, 2], [0, 0], [6, 7], [0, 1], [0, 0]])


def test_no_group_has_the_name_of_a_run():
    """Whoever asks for the run would get the whole group."""
    everything = [*runs.EXPERIMENTS.values(), *IDEAS]
    assert not {one.name for one in everything} & {group for one in everything for group in one.groups}


# --- Small runs, and what is left to run -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("It's a brilliant, compelling story.", "It 's a brilliant , compelling story ."),
        ('He said "no" (twice)... for 1,000 dollars?', 'He said " no " ( twice ) ... for 1,000 dollars ?'),
        ("in the U.S. of old", "in the U.S. of old"),
        ("", ""),
    ],
)
def test_spaced_text_has_its_punctuation_apart_and_stays_so(text, expected):
    assert spaced(text) == expected
    assert spaced(expected) == expected


def small_run(name: str, halves: str, amount: str, preset: str = "self-strae") -> dict[str, Any]:
    settings = {"preset": preset, "halves": halves, "trees": "plain" if preset == "self-strae" else "entangled"}
    settings |= {"functions": "linear", "dim": 64, "vocab_size": 8000, "batch_size": 32, "epochs": 1, "lr": 1e-3}
    training = {"steps": 1250, "sentences": 40_000, "train_loss": 7.25, "seconds": 1.0}
    figures = {"raw": {"stsb_dev_clean": 25.14, "semrel_dev/en": 35.2}}
    figures["spaced"] = {"stsb_dev_clean": 35.6, "semrel_dev/en": 49.9}
    run = {"name": name, "seed": 0, "settings": settings, "amount": amount, "training": training, "figures": figures}
    return {**run, "equal_merges": 0.0004}


def test_small_runs_have_a_table_of_halves_and_one_of_spaced_text(tmp_path):
    for run in (
        small_run("linear-side", "side", "40k"),
        small_run("linear-age", "age", "40k"),
        small_run("linear-age-spaced", "age", "40k-spaced"),
    ):
        store.put(tmp_path / store.SMALL, run)
    lines = page_small.render(tmp_path).splitlines()
    assert "| linear | age | 0 | 40,000 | 1,250 | 7.250 | 25.1 | 35.2 |" in lines
    by_side = lines.index("| linear | side | 0 | 40,000 | 1,250 | 7.250 | 25.1 | 35.2 |")
    assert by_side < lines.index("## Spaced punctuation")
    assert "| `self-strae` | linear | 0.001 | spaced | 0 | 40,000 | 1,250 | 25.1 | 35.2 | 35.6 | 49.9 |" in lines
    assert "| `self-strae` | linear | 0.001 | raw | 0 | 40,000 | 1,250 | 25.1 | 35.2 | 35.6 | 49.9 |" in lines
    assert not any(line.startswith("| `self-strae`") and "side" in line for line in lines)
    assert page_small.render(tmp_path / "nothing") == ""


@pytest.mark.parametrize("halves", [None, "side", "age"])
def test_page_says_which_plain_trees_were_trained_by_side(tmp_path, halves):
    strae = record("self-strae", 0, -20)
    strae["settings"].pop("halves", None)
    if halves:
        strae["settings"]["halves"] = halves
    text = page_of(tmp_path, [strae, record("banyan", 0)])
    assert ("**`self-strae` above gave the first half to the left child" in text) == (halves != "age")
    assert "our loss and our gradients are those of that program (tests/test_golden.py)" in text


def test_a_dry_run_trains_nothing_and_lists_what_is_left(tiny, capsys):
    assert reproduced(tiny, "tree-untrained") == 0
    capsys.readouterr()
    assert reproduced(tiny, "tree", "tree-untrained", "--dry-run") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == ["tree-0: to train and to evaluate on languages, dev", "tree-untrained-0: already recorded"]
    assert lines[-1].startswith("1 of 2 runs are left: ")
    assert store.find(tiny / "out" / "runs", "tree", 0) is None


def test_the_runs_behind_the_paper_are_one_group():
    names = {one.name for one in plan.chosen(["paper"])}
    assert {"banyan", "self-strae", "plain-diagonal-ce", "channels-4", "random", "no-tree", *LANGUAGES} <= names
    assert "default" not in names


def test_runs_on_spaced_text_are_evaluated_on_spaced_text():
    seen: list[str] = []
    encode = evaluation._in_spaced_form(lambda texts: seen.extend(texts))
    encode(["No, no."])
    assert seen == ["No , no ."]
    assert {one.name: one.amount for one in plan.chosen(["spaced"])} == {
        "banyan-spaced": "whole-spaced",
        "self-strae-spaced": "whole-spaced",
    }


@pytest.mark.parametrize(("changed", "again"), [({"lexical_weight": 0.3}, True), ({"infonce_weight": 0.1}, False)])
def test_a_change_of_encoding_alone_needs_no_training(changed, again):
    experiment = runs.EXPERIMENTS["default"]
    now = experiment.recorded(0)
    found = {**now, "settings": {**now["settings"], **changed}}
    assert reproduce.finished(found, now) is None
    alike = reproduce.trained_alike(found, now)
    assert (alike is not None) == again
    assert alike is None or alike["settings"] == now["settings"]
