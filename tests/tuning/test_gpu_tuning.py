"""Tuning on a GPU as a user does it; skipped where there is none."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import banyan
from banyan import Banyan
from banyan.training import Interrupted
from banyan.training import run as training
from banyan.tuning.examples import Examples, paired_by_label
from tests.helpers.training import metrics

pytestmark = pytest.mark.gpu
HOW = {"quiet": True, "batch_size": 16, "lr": 0.01, "epochs": 4}
MORE = {"hard_negatives": 1, "stay_weight": 0.1, "objective": "cross-entropy"}


@pytest.fixture(scope="module")
def words() -> list[str]:
    rng = np.random.default_rng(0)
    return ["".join(rng.choice(list("abcdefghij"), rng.integers(2, 7))) for _ in range(300)]


@pytest.fixture(scope="module")
def base(tmp_path_factory, words) -> Path:
    """A model with lexical dimensions of whole words, trained on the CPU."""
    rng, folder = np.random.default_rng(1), tmp_path_factory.mktemp("base")
    lines = [" ".join(rng.choice(words, rng.integers(4, 15))) for _ in range(600)]
    (folder / "corpus.txt").write_text("\n".join(lines))
    settings = {"dim": 32, "channels": 16, "lexical_dim": 32, "vocab_size": 400, "epochs": 1, "quiet": True}
    banyan.train(folder / "corpus.txt", folder / "model", device="cpu", **settings)
    return folder / "model"


@pytest.fixture(scope="module")
def examples(words) -> Examples:
    """Texts belong together if they are about the same words, in another order and with other words between them."""
    rng = np.random.default_rng(2)
    label = rng.integers(0, 20, 400)
    texts = [" ".join(rng.permutation([*words[3 * i : 3 * i + 3][: rng.integers(1, 4)], *rng.choice(words[60:], 4)]))
             for i in label]  # fmt: skip
    return paired_by_label(texts, label)[0]


def losses(folder: Path) -> list[float]:
    return [row["loss"] for row in metrics(folder) if "loss" in row]


def assert_same(one: Path, other: Path) -> None:
    a, b = (Banyan.from_pretrained(folder).weights for folder in (one, other))
    for name, value in a.items():
        np.testing.assert_array_equal(value, b[name], err_msg=name)


@pytest.mark.parametrize("settings", [{}, MORE, {"final_lr_frac": 1.0}], ids=["preset", "more", "constant rate"])
def test_the_gpu_learns_what_the_cpu_learns(base, examples, tmp_path, settings):
    for device in ("cpu", "cuda"):
        banyan.tune(base, examples, tmp_path / device, device=device, **{**HOW, **settings})
    on_cpu, on_gpu = losses(tmp_path / "cpu"), losses(tmp_path / "cuda")
    np.testing.assert_allclose(on_gpu[0], on_cpu[0], rtol=1e-3)  # an output layer has products in bf16
    np.testing.assert_allclose(on_gpu[:20], on_cpu[:20], rtol=2e-2)  # rounding decides the sign of Adam's first steps
    assert on_gpu[-1] < on_gpu[0]
    figures = [row["held_out_ndcg"] for row in metrics(tmp_path / "cuda") if "held_out_ndcg" in row]
    assert max(figures) > figures[0] or len(figures) < 3


@pytest.mark.parametrize("kind", ["scores", "triples"])
def test_scores_and_negatives(base, examples, tmp_path, kind):
    n = len(examples)
    third = {"score": np.arange(n) % 3} if kind == "scores" else {"negative": ["", examples.second[0]] * (n // 2)}
    banyan.tune(base, Examples.of(examples.first, examples.second, **third), tmp_path / "m", device="cuda", **HOW)
    assert np.isfinite(losses(tmp_path / "m")).all()


def test_the_same_seed_gives_the_same_bits(base, examples, tmp_path):
    for name in "ab":
        banyan.tune(base, examples, tmp_path / name, device="cuda", deterministic=True, **{**HOW, **MORE})
    assert_same(tmp_path / "a", tmp_path / "b")


def test_an_interrupted_run_goes_on_to_the_same_bits(base, examples, tmp_path, monkeypatch):
    how = {"device": "cuda", "deterministic": True, **HOW, "hard_negatives": 1}
    monkeypatch.setattr(training.devices, "WINDOW", 4)
    banyan.tune(base, examples, tmp_path / "whole", **how)
    honest, seen = training.Run._window, []

    def window(self, chosen, following, asked):
        seen.append(None)
        rows, stop = honest(self, chosen, following, asked)
        return rows, stop or len(seen) == 8  # the user presses Ctrl-C

    with monkeypatch.context() as patched:
        patched.setattr(training.Run, "_window", window)
        with pytest.raises(Interrupted):
            banyan.tune(base, examples, tmp_path / "cut", **how)
    banyan.tune(base, examples, tmp_path / "cut", resume=True, **how)
    assert_same(tmp_path / "whole", tmp_path / "cut")
    assert losses(tmp_path / "whole") == losses(tmp_path / "cut")
