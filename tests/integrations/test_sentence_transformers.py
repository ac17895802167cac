"""A Banyan inside sentence-transformers: the same bits, the same folder, gradients, real training."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings

import numpy as np
import pytest
import torch

from banyan import Banyan, BanyanError
from banyan.checking import check
from tests.helpers.models import TEXTS, pairs

sentence_transformers = pytest.importorskip("sentence_transformers", reason="sentence-transformers is not installed")

from sentence_transformers import SentenceTransformer  # noqa: E402
from transformers import dynamic_module_utils  # noqa: E402

from banyan.integrations.sentence_transformers import BanyanModule  # noqa: E402


@pytest.fixture(autouse=True)
def _alone(monkeypatch, tmp_path_factory):
    """No network; one thread, for many wait for one another where tests share their cores."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr(dynamic_module_utils, "HF_MODULES_CACHE", str(tmp_path_factory.getbasetemp() / "modules"))
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def model_of(folder) -> SentenceTransformer:
    return SentenceTransformer(modules=[BanyanModule(folder)], device="cpu")


def test_it_encodes_to_the_same_bits(either):
    model = model_of(either)
    expected = Banyan.from_pretrained(either).encode(TEXTS)
    np.testing.assert_array_equal(model.encode(TEXTS), expected)
    np.testing.assert_array_equal(model.encode(TEXTS, batch_size=1), expected)
    np.testing.assert_array_equal(model.encode("bird"), expected[3])
    assert model.get_embedding_dimension() == expected.shape[1]
    prompted = model.encode(["sees the dog."], prompt="The cat ")
    np.testing.assert_array_equal(prompted[0], expected[0])


def test_with_gradients_it_is_the_same_embedding(either):
    module = BanyanModule(either)
    found = module(module.preprocess(TEXTS))["sentence_embedding"]
    assert found.requires_grad
    np.testing.assert_allclose(found.detach(), Banyan.from_pretrained(either).encode(TEXTS), rtol=1e-5, atol=1e-6)
    nothing = module(module.preprocess(["", " "]))["sentence_embedding"]
    assert not nothing.detach().any()


def test_gradients_are_those_of_differences(either):
    module = BanyanModule(either)
    features = module.preprocess(TEXTS)
    weight = torch.linspace(-1, 1, module.get_embedding_dimension())

    def value() -> torch.Tensor:
        return (module(dict(features))["sentence_embedding"] @ weight).sum()

    value().backward()
    token = int(features["input_ids"][0, 0])
    trees = module.trees
    for parameter, place in ((trees.embedding, (token, 3)), (trees.comp_l, (0,)), (trees.comp_b, (1,))):
        moved = []
        for step in (1e-3, -1e-3):
            before = parameter.data[place].clone()
            parameter.data[place] += step
            moved.append(value().item())
            parameter.data[place] = before
        assert parameter.grad[place].item() == pytest.approx((moved[0] - moved[1]) / 2e-3, rel=0.01, abs=5e-3)
    assert module.trees.decomp_l.grad is None


def test_a_saved_folder_is_read_by_both_libraries(either, tmp_path):
    model = model_of(either)
    model.save(str(tmp_path), create_model_card=False)
    expected = model.encode(TEXTS)
    np.testing.assert_array_equal(Banyan.from_pretrained(tmp_path).encode(TEXTS), expected)
    again = SentenceTransformer(str(tmp_path), trust_remote_code=True, device="cpu")
    np.testing.assert_array_equal(again.encode(TEXTS), expected)
    with pytest.raises(ValueError, match="trust_remote_code=True"):
        SentenceTransformer(str(tmp_path), device="cpu")
    (tmp_path / "tokenizer.json").unlink()
    with pytest.raises(BanyanError, match="is not a finished Banyan model"):
        BanyanModule.load(str(tmp_path))


def test_what_training_wrote_is_opened_with_the_flag_and_without_a_class(either, tmp_path):
    """Since version 6, sentence-transformers imports no class of another package without the flag."""
    model = SentenceTransformer(str(either), trust_remote_code=True, device="cpu")
    np.testing.assert_array_equal(model.encode(TEXTS), Banyan.from_pretrained(either).encode(TEXTS))
    with pytest.raises(ValueError, match="trust_remote_code=True"):
        SentenceTransformer(str(either), device="cpu")


WITHOUT = """
import sys
from sentence_transformers import SentenceTransformer

class Missing:
    def find_spec(name, path=None, target=None):  # of the class, without an instance
        if name == sys.argv[2]:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Missing)
SentenceTransformer(sys.argv[1], trust_remote_code=True, device="cpu")
"""


@pytest.mark.parametrize(
    ("package", "told"),
    [
        ("banyan", "Banyan is not installed (No module named 'banyan'): pip install "),
        ("banyan.integrations", "Banyan is not installed (No module named 'banyan.integrations'): pip install "),
        ("banyan.encoder", "ModuleNotFoundError: No module named 'banyan.encoder'"),
    ],
)
def test_without_a_package_the_message_says_which_one(folder, tmp_path, package, told):
    environment = {**os.environ, "HF_HOME": str(tmp_path)}
    command = [sys.executable, "-c", WITHOUT, str(folder), package]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert told in done.stderr.splitlines()[-1]


def test_a_folder_of_sentence_transformers_is_whole(folder, tmp_path):
    model_of(folder).save(str(tmp_path), create_model_card=False)
    assert not check(tmp_path).problems
    assert not (tmp_path / "modeling_banyan.py").exists()  # its modules.json names our class itself


def test_the_trainer_teaches_embedding_and_head_and_the_result_is_a_banyan_again(lexical_folder, tmp_path):
    datasets = pytest.importorskip("datasets", reason="datasets is not installed")
    pytest.importorskip("accelerate", reason="accelerate is not installed")
    from sentence_transformers import SentenceTransformerTrainer, SentenceTransformerTrainingArguments
    from sentence_transformers.sentence_transformer.evaluation import EmbeddingSimilarityEvaluator
    from sentence_transformers.sentence_transformer.losses import CosineSimilarityLoss
    from sentence_transformers.sentence_transformer.modules import Dense

    module = BanyanModule(lexical_folder)
    dense = Dense(module.get_embedding_dimension(), 8, activation_function=torch.nn.Identity())
    model = SentenceTransformer(modules=[module, dense], device="cpu")
    held_out = pairs(200, seed=50)
    evaluator = EmbeddingSimilarityEvaluator(held_out["sentence1"], held_out["sentence2"], held_out["score"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the trainer's own
        before = evaluator(model)["spearman_cosine"]
        arguments = SentenceTransformerTrainingArguments(
            str(tmp_path / "run"), num_train_epochs=5, per_device_train_batch_size=32, learning_rate=2e-2,
            report_to=[], save_strategy="no", logging_strategy="no", disable_tqdm=True, use_cpu=True, seed=1,
        )  # fmt: skip
        SentenceTransformerTrainer(
            model, arguments, datasets.Dataset.from_dict(pairs(400)), loss=CosineSimilarityLoss(model)
        ).train()
        after = evaluator(model)["spearman_cosine"]
    assert after > before + 0.2
    model.save(str(tmp_path / "saved"), create_model_card=False)
    trained, was = (Banyan.from_pretrained(path) for path in (tmp_path / "saved", lexical_folder))
    assert np.abs(trained.embedding - was.embedding).max() > 0.01
    np.testing.assert_array_equal(trained.weights["lexical"], was.weights["lexical"])
    np.testing.assert_array_equal(trained.weights["decomp_l"], was.weights["decomp_l"])
    assert module.banyan.parse(TEXTS[0]).children.shape == (len(module.banyan.parse(TEXTS[0]).pieces) - 1, 2)
    again = SentenceTransformer(str(tmp_path / "saved"), trust_remote_code=True, device="cpu")
    np.testing.assert_array_equal(again.encode(TEXTS), model.encode(TEXTS))


def test_losses_that_cut_a_batch_into_parts_give_the_same_gradients(folder):
    from sentence_transformers.sentence_transformer.losses import (
        CachedMultipleNegativesRankingLoss,
        MultipleNegativesRankingLoss,
    )

    data = pairs(24)
    gradients = []
    for loss, how in ((MultipleNegativesRankingLoss, {}), (CachedMultipleNegativesRankingLoss, {"mini_batch_size": 7})):
        model = model_of(folder)
        features = [model.preprocess(data[column]) for column in ("sentence1", "sentence2")]
        loss(model, **how)(features, None).backward()
        gradients.append(model[0].trees.embedding.grad)
    assert gradients[0].abs().max() > 0
    torch.testing.assert_close(*gradients, rtol=1e-3, atol=1e-5)


def test_a_frozen_module_takes_the_fast_way(folder):
    module = BanyanModule(folder)
    module.requires_grad_(False)
    found = module(module.preprocess(TEXTS))["sentence_embedding"]
    assert not found.requires_grad
    np.testing.assert_array_equal(found, Banyan.from_pretrained(folder).encode(TEXTS))
