"""Training and encoding on a GPU as a user does it; skipped where there is none."""

from __future__ import annotations

import json

import numpy as np
import pytest

from banyan import Banyan, train
from banyan.training import Interrupted
from banyan.training import run as training

pytestmark = pytest.mark.gpu
SETTINGS = {"preset": "paper", "dim": 32, "channels": 16, "epochs": 3, "batch_size": 16, "vocab_size": 400}
SETTINGS |= {"quiet": True}
NEW = {"init_sketch": 1.0, "init_ppmi": 1.0, "lexical_dim": 8, "init_gate": 0.6, "final_lr_frac": 0.1}
NEW |= {"infonce_weight": 0.3, "sublinear_tf": True}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    rng = np.random.default_rng(0)
    words = ["".join(rng.choice(list("abcdefghij"), rng.integers(2, 7))) for _ in range(300)]
    path = tmp_path_factory.mktemp("text") / "corpus.txt"
    lines = [" ".join(rng.choice(words, rng.integers(4, 15))) for _ in range(1500)]
    path.write_text("\n".join(lines))
    return path


def weights(folder) -> dict[str, np.ndarray]:
    return Banyan.from_pretrained(folder).weights


def losses(folder) -> list[float]:
    lines = map(json.loads, (folder / "metrics.jsonl").read_text().splitlines())
    return [line["loss"] for line in lines if "loss" in line]


FALLING = {"final_lr_frac": 0.0, "init_sketch": 1.0, "sublinear_tf": True, "lexical_dim": 8}


@pytest.mark.parametrize("settings", [{}, FALLING], ids=str)
def test_the_gpu_learns_what_the_cpu_learns_and_its_model_is_used_on_both(corpus, tmp_path, settings):
    for device in ("cpu", "cuda"):
        train(corpus, tmp_path / device, device=device, precision="float32", **{**SETTINGS, **settings})
    np.testing.assert_allclose(losses(tmp_path / "cuda")[:40], losses(tmp_path / "cpu")[:40], rtol=1e-3)
    np.testing.assert_allclose(losses(tmp_path / "cuda")[-1], losses(tmp_path / "cpu")[-1], rtol=2e-2)
    texts = ["abc def ghi", "a", "", "jihg fed cba abc"]
    on_cpu, on_gpu = (Banyan.from_pretrained(tmp_path / "cuda", device).encode(texts) for device in ("cpu", "cuda"))
    np.testing.assert_allclose(on_cpu, on_gpu, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("precision", ["bf16", "tf32", "float32"])
def test_the_same_seed_gives_the_same_bits(corpus, tmp_path, precision):
    for name in "ab":
        train(corpus, tmp_path / name, precision=precision, deterministic=True, **SETTINGS)
    a, b = weights(tmp_path / "a"), weights(tmp_path / "b")
    for name, value in a.items():
        np.testing.assert_array_equal(value, b[name], err_msg=name)


def stopped_after(windows, monkeypatch):
    """The user presses Ctrl-C in that window."""
    honest, seen = training.Run._window, []

    def window(self, chosen, following, asked):
        seen.append(None)
        rows, stop = honest(self, chosen, following, asked)
        return rows, stop or len(seen) == windows

    monkeypatch.setattr(training.Run, "_window", window)


@pytest.mark.parametrize("settings", [{}, NEW], ids=["paper", "new"])
def test_an_interrupted_run_goes_on_to_the_same_bits(corpus, tmp_path, monkeypatch, settings):
    train(corpus, tmp_path / "whole", deterministic=True, **{**SETTINGS, **settings})
    with monkeypatch.context() as patched:
        stopped_after(3, patched)
        with pytest.raises(Interrupted):
            train(corpus, tmp_path / "cut", deterministic=True, **{**SETTINGS, **settings})
    train(corpus, tmp_path / "cut", deterministic=True, resume=True, **SETTINGS)
    whole, cut = weights(tmp_path / "whole"), weights(tmp_path / "cut")
    for name, value in whole.items():
        np.testing.assert_array_equal(value, cut[name], err_msg=name)
    assert losses(tmp_path / "whole") == losses(tmp_path / "cut")


@pytest.mark.parametrize(("first", "then"), [("cuda", "cpu"), ("cpu", "cuda")])
def test_a_run_begun_on_one_device_goes_on_on_another(corpus, tmp_path, monkeypatch, first, then):
    train(corpus, tmp_path / "whole", device=then, precision="float32", **SETTINGS)
    with monkeypatch.context() as patched:
        stopped_after(2, patched)
        with pytest.raises(Interrupted):
            train(corpus, tmp_path / "cut", device=first, precision="float32", **SETTINGS)
    train(corpus, tmp_path / "cut", device=then, precision="float32", resume=True, **SETTINGS)
    assert len(losses(tmp_path / "cut")) == len(losses(tmp_path / "whole"))
    np.testing.assert_allclose(losses(tmp_path / "cut")[-1], losses(tmp_path / "whole")[-1], rtol=2e-2)


def test_the_rate_falls_in_recorded_steps_too(corpus, tmp_path, monkeypatch):
    honest, rates = training.Run._window, []

    def window(self, chosen, following, asked):
        result = honest(self, chosen, following, asked)
        rates.append((float(self.optimiser.param_groups[0]["lr"]), self._rate(len(chosen) - 1)))
        return result

    monkeypatch.setattr(training.Run, "_window", window)
    train(corpus, tmp_path / "model", lr=1e-2, final_lr_frac=0.0, **SETTINGS)
    used, expected = zip(*rates, strict=True)
    np.testing.assert_allclose(used, expected, rtol=1e-5)
    assert used[0] < 1e-2
    assert used[-1] == pytest.approx(1e-2 / len(losses(tmp_path / "model")), rel=1e-4)


@pytest.mark.parametrize(
    "settings",
    [
        {"trees": "plain"},
        {"trees": "plain", "mean_over": "tokens"},
        {"candidates": "batch"},
        {"dropout": 0.0},
        {"functions": "linear"},
        {"structure": "random"},
        {"objective": "both"},
        {"preset": "self-strae", "lr": 1e-2},
        {"infonce_weight": 0.3},
        NEW,
    ],
    ids=str,
)
def test_every_way_to_train_learns(corpus, tmp_path, settings):
    train(corpus, tmp_path / "model", **{**SETTINGS, **settings})
    first, last = (np.mean(some) for some in (losses(tmp_path / "model")[:5], losses(tmp_path / "model")[-5:]))
    assert last < first - 0.05


@pytest.mark.parametrize("settings", [{"preset": "self-strae"}, {"infonce_weight": 0.3}, NEW], ids=str)
def test_the_same_seed_gives_the_same_bits_whatever_is_trained(corpus, tmp_path, settings):
    for name in "ab":
        train(corpus, tmp_path / name, deterministic=True, **{**SETTINGS, **settings})
    a, b = weights(tmp_path / "a"), weights(tmp_path / "b")
    for name, value in a.items():
        np.testing.assert_array_equal(value, b[name], err_msg=name)


# --- Teachers and translations ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def vectors(corpus):
    """A teacher's vectors of the lines: sums of random word vectors."""
    rng, words = np.random.default_rng(1), {}
    rows = []
    for line in corpus.read_text().splitlines():
        rows.append(sum(words.setdefault(word, rng.standard_normal(48)) for word in line.split()))
    np.save(corpus.with_suffix(".npy"), np.array(rows, np.float32))
    return str(corpus.with_suffix(".npy"))


TAUGHT = {"dim": 32, "channels": 16, "batch_size": 16, "vocab_size": 400, "epochs": 3, "quiet": True}


def test_the_gpu_learns_from_a_teacher_what_the_cpu_learns(corpus, vectors, tmp_path):
    for device in ("cpu", "cuda"):
        train(corpus, tmp_path / device, teacher=vectors, device=device, teacher_infonce_weight=0.3, **TAUGHT)
    np.testing.assert_allclose(losses(tmp_path / "cuda")[:40], losses(tmp_path / "cpu")[:40], rtol=1e-3)
    np.testing.assert_allclose(losses(tmp_path / "cuda")[-1], losses(tmp_path / "cpu")[-1], rtol=2e-2)
    assert losses(tmp_path / "cuda")[-1] < 0.8 * losses(tmp_path / "cuda")[0]


def test_an_interrupted_run_with_a_teacher_goes_on_to_the_same_bits(corpus, vectors, tmp_path, monkeypatch):
    train(corpus, tmp_path / "whole", teacher=vectors, deterministic=True, **TAUGHT)
    with monkeypatch.context() as patched:
        stopped_after(3, patched)
        with pytest.raises(Interrupted):
            train(corpus, tmp_path / "cut", teacher=vectors, deterministic=True, **TAUGHT)
    train(corpus, tmp_path / "cut", teacher=vectors, deterministic=True, resume=True, **TAUGHT)
    whole, cut = weights(tmp_path / "whole"), weights(tmp_path / "cut")
    for name, value in whole.items():
        np.testing.assert_array_equal(value, cut[name], err_msg=name)


def test_translations_are_learned_on_the_gpu(corpus, tmp_path):
    lines = corpus.read_text().splitlines()
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("".join(f"{line}\t{line[::-1]}\n" for line in lines))
    settings = {"preset": "paper", "epochs": 2, "dim": 32, "channels": 16, "vocab_size": 400, "quiet": True}
    model = train(corpus, tmp_path / "m", parallel=pairs, taught_dim=32, **settings)
    first, second = (model.encode(some, truncate_dim=32) for some in (lines[:99], [line[::-1] for line in lines[:99]]))
    assert (first * second).sum(1).mean() > (first @ second.T).mean() + 0.03
