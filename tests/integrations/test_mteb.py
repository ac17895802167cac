"""mteb runs a task of its own kind from a local file: the same figure as ours, under a description of the model."""

from __future__ import annotations

import json
import warnings

import numpy as np
import pytest

from banyan import Banyan, BanyanError
from tests.helpers.models import pairs

mteb = pytest.importorskip("mteb", reason="mteb is not installed")
datasets = pytest.importorskip("datasets", reason="datasets is not installed")

from mteb.abstasks import AbsTaskSTS  # noqa: E402
from mteb.abstasks.task_metadata import TaskMetadata  # noqa: E402

from banyan.integrations.mteb import BanyanEncoder  # noqa: E402


def sts_task(rows: dict[str, list], high: float = 1) -> AbsTaskSTS:
    class LocalSTS(AbsTaskSTS):
        metadata = TaskMetadata(
            name="LocalSTS",
            dataset={"path": "local", "revision": "1"},
            description="pairs of a local file",
            type="STS",
            category="t2t",
            eval_splits=["test"],
            eval_langs=["eng-Latn"],
            main_score="cosine_spearman",
        )
        min_score, max_score = 0, high

        def load_data(self, **kwargs) -> None:
            self.dataset = {"test": datasets.Dataset.from_dict(rows)}
            self.data_loaded = True

    return LocalSTS()


def evaluate(encoder, task, folder):
    from mteb.cache import ResultCache

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of mteb's own dependencies
        return mteb.evaluate(
            encoder, task, cache=ResultCache(folder), overwrite_strategy="always", show_progress_bar=False
        )


def test_a_task_runs_from_local_files_and_its_figure_is_ours(model, tmp_path, monkeypatch):
    from scipy.stats import spearmanr

    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    rows = pairs(150)
    rows["sentence1"][0] = ""  # no text stops a task
    encoder = BanyanEncoder(model, name="tests/small", languages=["eng-Latn"])
    result = evaluate(encoder, sts_task(rows), tmp_path)
    cosines = [model.similarity(a, b) for a, b in zip(rows["sentence1"], rows["sentence2"], strict=True)]
    expected = spearmanr(cosines, rows["score"]).statistic
    assert result.task_results[0].get_score() == pytest.approx(expected, abs=1e-4)
    kept = [path for path in tmp_path.rglob("LocalSTS.json") if "tests__small" in str(path)]
    assert len(kept) == 1
    assert model.fingerprint() in str(kept[0])  # results of other weights lie elsewhere
    described = json.loads((kept[0].parent / "model_meta.json").read_text())
    assert described["name"] == "tests/small"


def test_the_description_is_complete(model, lexical_folder):
    meta = BanyanEncoder(
        model, name="tests/small", languages=["lat-Latn"], license="apache-2.0", release_date="2026-11-15"
    ).mteb_model_meta
    about = meta.to_dict()
    unknown = {"public_training_data", "reference", "adapted_from", "superseded_by", "contacts", "output_dtypes",
               "n_active_parameters_override", "extra_requirements_groups"}  # fmt: skip
    assert {name for name, value in about.items() if value is None} == unknown
    assert about["embed_dim"] == 16
    assert about["n_embedding_parameters"] == 400 * 16
    assert about["n_parameters"] == 400 * 16 + 6
    assert about["open_weights"]
    assert not BanyanEncoder(model, name="tests/small").mteb_model_meta.open_weights
    with_lexical = Banyan.from_pretrained(lexical_folder)
    assert BanyanEncoder(with_lexical, name="tests/b").mteb_model_meta.n_embedding_parameters == 400 * 24


def test_a_fingerprint_tells_weights_apart(model, lexical_folder):
    assert model.fingerprint() == model.fingerprint()
    changed = {**model.weights, "embedding": model.embedding + np.float32(1e-6)}
    other = Banyan(model.config, model.tokenizer, changed)
    assert len({m.fingerprint() for m in (model, other, Banyan.from_pretrained(lexical_folder))}) == 3


def test_what_mteb_would_refuse_is_a_sentence(model):
    with pytest.raises(BanyanError, match="give name='you/your-model'"):
        BanyanEncoder(model)
    with pytest.raises(BanyanError, match="mteb does not accept this metadata"):
        BanyanEncoder(model, name="tests/small", languages=["English"])


@pytest.mark.data
def test_stsb_by_mteb_is_stsb_by_banyan_eval(model, data_folder, tmp_path):
    from banyan.evaluate.similarity import read_pairs, spearman

    given = read_pairs(data_folder / "eval" / "stsb_test.csv")
    rows = {"sentence1": list(given.first), "sentence2": list(given.second), "score": list(given.score)}
    result = evaluate(BanyanEncoder(model, name="tests/small"), sts_task(rows, high=5), tmp_path)
    assert result.task_results[0].get_score() == pytest.approx(spearman(model.encode, given) / 100, abs=1e-4)
