"""A model says who taught it: in its folder, its card and `banyan info`, and wherever it is copied to."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from banyan import Banyan
from banyan.training.card import model_card
from banyan.training.teaching import Teaching
from tests.helpers.models import tiny_model

MINILM = {"name": "all-MiniLM-L6-v2", "kind": "hub", "licence": "apache-2.0", "width": 384, "texts": 9300}
VECTORS = {"name": "vectors.npy", "kind": "vectors", "licence": None, "width": 512, "texts": 400}
BILINGUAL = {**MINILM, "name": "tests/bert", "translations": "ha.tsv", "pairs": 9300, "languages": "both"}


@pytest.fixture
def taught() -> Banyan:
    """A small model with the weights that a teacher leaves."""
    made = tiny_model()
    config = dataclasses.replace(made.config, preset="taught", objective="none", teacher_weight=1.0, epochs=None)
    weights = {name: array for name, array in made.weights.items() if not name.startswith("out_")}
    model = Banyan(config, made.tokenizer, weights)
    model.taught_by = MINILM
    return model


def test_the_card_names_the_teacher_its_licence_and_what_it_encoded(taught):
    card = model_card(taught)
    assert "\nbase_model:\n- sentence-transformers/all-MiniLM-L6-v2\n---\n" in card
    for row in ("teacher | all-MiniLM-L6-v2", "licence of the teacher | apache-2.0", "texts it encoded | 9,300"):
        assert f"| {row} |" in card
    assert "0 in the output layer (training predicts no tokens)" in card
    assert "| epochs | chosen from the size of the corpus |" in card
    assert "from scratch" not in card
    plain = model_card(tiny_model())
    assert "Teacher" not in plain
    assert "base_model" not in plain


def test_an_unknown_licence_is_a_question_to_ask(taught):
    taught.taught_by = VECTORS
    card = model_card(taught)
    assert "| teacher | vectors in vectors.npy |" in card
    assert "| licence of the teacher | unknown: ask whoever made it before you publish the model |" in card
    assert "base_model" not in card


def test_the_card_of_translations_says_where_both_languages_meet(taught):
    taught.config = dataclasses.replace(taught.config, taught_dim=6)
    taught.taught_by = {**BILINGUAL, "before": MINILM}
    card = model_card(taught)
    assert "| translations | ha.tsv, 9,300 pairs |" in card
    assert "the first 6 dimensions, shared by both languages: encode(..., truncate_dim=6, normalize=True)" in card
    assert "| earlier teacher | all-MiniLM-L6-v2 |" in card
    assert "base_model:\n- tests/bert\n- sentence-transformers/all-MiniLM-L6-v2\n" in card


def test_copies_of_a_model_keep_its_teacher(taught, tmp_path):
    taught.save_pretrained(tmp_path / "a")
    copy = Banyan.from_pretrained(tmp_path / "a")
    assert copy.taught_by == MINILM
    assert copy.fingerprint() == taught.fingerprint()
    copy.save_pretrained(tmp_path / "b")
    assert (tmp_path / "a/taught_by.json").read_bytes() == (tmp_path / "b/taught_by.json").read_bytes()
    tiny_model().save_pretrained(tmp_path / "b")  # another model in its place
    assert Banyan.from_pretrained(tmp_path / "b").taught_by is None


def test_a_model_that_starts_from_a_taught_one_keeps_its_teacher(taught, tmp_path):
    taught.save_pretrained(tmp_path)
    assert Teaching().told(None, str(tmp_path)) == MINILM
    assert Teaching().told(None, None) is None


def test_a_card_on_the_hub_keeps_the_teacher(taught):
    hub = pytest.importorskip("huggingface_hub")
    from banyan.integrations.hub import hub_card

    card = hub.ModelCard(hub_card(taught, "tests/taught", license="mit"))
    assert card.data.base_model == ["sentence-transformers/all-MiniLM-L6-v2"]
    assert card.data.license == "mit"
    assert "licence of the teacher" in card.text


def test_what_is_pushed_names_the_teacher(taught, monkeypatch):
    hub = pytest.importorskip("huggingface_hub")
    pushed: dict[str, str] = {}

    class Api:
        def __init__(self, **_): ...
        def create_repo(self, *_, **how): ...

        def upload_folder(self, repo_id, folder_path, commit_message):
            pushed.update({path.name: path.read_text() for path in Path(folder_path).glob("*.json")})
            return SimpleNamespace(commit_url="url")

    monkeypatch.setattr(hub, "HfApi", Api)
    assert taught.push_to_hub("tests/taught") == "url"
    assert json.loads(pushed["taught_by.json"]) == MINILM


def test_info_says_who_taught_the_model(banyan, taught, tmp_path):
    taught.save_pretrained(tmp_path)
    rows = [{"step": 2, "finished_epoch": 7, "train_loss": 2.5}]
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    about = json.loads(banyan("info", tmp_path, "--json")[1])
    assert about["taught by"] == MINILM
    assert about["settings"]["epochs"] is None
    text = " ".join(banyan("info", tmp_path)[1].split())
    assert "taught by teacher all-MiniLM-L6-v2 licence of the teacher apache-2.0 texts it encoded 9,300" in text
    assert "output layer (training only) 0 (training predicts no tokens)" in text
    assert "epochs 7 (chosen from the size of the corpus)" in text
