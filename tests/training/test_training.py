"""From raw text to a model folder, interrupted in every way."""

from __future__ import annotations

import io
import json
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file
from torch.optim.optimizer import register_optimizer_step_pre_hook

import banyan
from banyan import Banyan, BanyanError
from banyan.config import Config
from banyan.model import BanyanModel
from banyan.support import devices
from banyan.training import checkpoint, epochs, passages, train
from banyan.training import run as training
from banyan.training.folder import Given
from banyan.training.metrics import estimate
from tests.helpers.corpora import lines, write_lines
from tests.helpers.models import SAVED
from tests.helpers.training import SMALL, digest, interrupted_at, metrics


@pytest.fixture(scope="module")
def trained(corpus, tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("trained") / "model"
    pairs = out.parent / "pairs.tsv"
    both = zip(lines(50, 1), lines(50, 2), strict=True)
    rows = [f"{a}\t{b}\t{len(set(a.split()) & set(b.split()))}" for a, b in both]
    pairs.write_text("\n".join(rows), encoding="utf-8")
    train(corpus, out, epochs=6, lr=5e-3, pairs=pairs, **SMALL)
    return out


def test_training_learns_and_writes_the_whole_folder(trained):
    names = {path.name for path in trained.iterdir()}
    assert names == {"README.md", "loss.png", "metrics.jsonl", "training", *SAVED}
    epochs = [row for row in metrics(trained) if "finished_epoch" in row]
    assert len(epochs) == 6
    assert epochs[-1]["dev_loss"] < epochs[0]["dev_loss"] - 0.5
    assert -100 <= epochs[-1]["pairs_spearman"] <= 100
    steps = [row for row in metrics(trained) if "loss" in row]
    assert [row["step"] for row in steps] == list(range(1, len(steps) + 1))
    assert all(row["nodes"] < row["plain_nodes"] for row in steps)
    card = (trained / "README.md").read_text(encoding="utf-8")
    assert "400" in card
    kept = epochs[-1]["kept_epoch"]
    assert f"{epochs[kept - 1]['dev_loss']:.4f}" in card
    assert not list(trained.rglob("*.pkl")) + list(trained.rglob("*.pt")) + list(trained.rglob("*.tmp"))


def test_a_trained_model_prefers_sentences_that_share_words(trained):
    model = Banyan.from_pretrained(trained)
    near = model.similarity("The cat sees the dog in the garden.", "The cat sees the bird in the garden.")
    far = model.similarity("The cat sees the dog in the garden.", "The king remembers the baker near the river.")
    assert near > far


def test_the_same_seed_gives_the_same_bits_and_another_seed_others(corpus, tmp_path):
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        train(corpus, tmp_path / name, epochs=1, seed=seed, **SMALL)
    assert digest(tmp_path / "a") == digest(tmp_path / "b") != digest(tmp_path / "c")
    assert (tmp_path / "a/model.safetensors").read_bytes() == (tmp_path / "b/model.safetensors").read_bytes()


def test_a_corpus_of_ten_lines_trains(tmp_path):
    (tmp_path / "ten.txt").write_text("\n".join(lines(10)), encoding="utf-8")
    model = train(tmp_path / "ten.txt", tmp_path / "out", epochs=2, **SMALL)
    assert np.isfinite(model.encode("The cat sees the dog.")).all()
    assert "dev_loss" not in metrics(tmp_path / "out")[-1]


@pytest.mark.parametrize(
    "settings",
    [
        {"candidates": "batch"},
        {"trees": "plain", "mean_over": "tokens"},
        {"subword_model": "unigram"},
        {"preset": "self-strae"},
        {"preset": "paper", "functions": "linear", "objective": "both"},
        {"preset": "light"},
        {"structure": "balanced"},
    ],
    ids=str,
)
def test_every_way_to_train_learns(corpus, tmp_path, settings):
    train(corpus, tmp_path / "out", epochs=3, lr=5e-3, **settings, **SMALL)
    epochs = [row["dev_loss"] for row in metrics(tmp_path / "out") if "dev_loss" in row]
    assert epochs[-1] < epochs[0]


def test_self_strae_resumes_to_the_same_bits_and_its_model_needs_no_output_layer(corpus, tmp_path):
    train(corpus, tmp_path / "whole", preset="self-strae", epochs=2, **SMALL)
    train(corpus, tmp_path / "again", preset="self-strae", epochs=1, **SMALL)
    train(corpus, tmp_path / "again", resume=True, epochs=2, quiet=True)
    assert digest(tmp_path / "whole") == digest(tmp_path / "again")
    model = Banyan.from_pretrained(tmp_path / "whole")
    assert "out_weight" not in model.weights
    assert np.isfinite(model.encode("The cat sees the dog.")).all()
    assert "The negatives come from the batch" in (tmp_path / "whole" / "README.md").read_text()


def test_a_run_from_before_the_setting_halves_goes_on_by_side(corpus, tmp_path):
    """Its run.json has no such setting, and the preset now asks for another."""
    train(corpus, tmp_path / "whole", preset="self-strae", halves="side", epochs=2, **SMALL)
    train(corpus, tmp_path / "again", preset="self-strae", halves="side", epochs=1, **SMALL)
    record = tmp_path / "again/training/run.json"
    began = json.loads(record.read_text())
    assert (began.pop("halves"), bool(began.pop("checksum"))) == ("side", True)  # nor a checksum
    record.write_text(json.dumps(began))
    train(corpus, tmp_path / "again", preset="self-strae", resume=True, epochs=2, quiet=True)
    assert digest(tmp_path / "whole") == digest(tmp_path / "again")
    train(corpus, tmp_path / "by-age", preset="self-strae", epochs=2, **SMALL)
    assert digest(tmp_path / "by-age") != digest(tmp_path / "whole")


@pytest.mark.parametrize("largest", [1e-9, 1e9])
def test_the_gradient_of_a_step_is_clipped(corpus, tmp_path, largest):
    for name, clip in (("free", None), ("clipped", largest)):
        train(corpus, tmp_path / name, epochs=1, clip_grad_norm=clip, **SMALL)
    free, clipped = (load_file(tmp_path / name / "training/checkpoint.safetensors") for name in ("free", "clipped"))
    sizes = [float(np.abs(state["exp_avg.embedding"]).max()) for state in (free, clipped)]
    assert sizes[1] <= 1e-9 if largest < 1 else sizes[1] == pytest.approx(sizes[0], rel=1e-4)


def test_training_goes_on_from_a_finished_model(trained, corpus, tmp_path):
    train(corpus, tmp_path / "more", init=trained, epochs=1, batch_size=32, quiet=True, device="cpu")
    first, before = (next(row["loss"] for row in metrics(out) if "loss" in row) for out in (tmp_path / "more", trained))
    assert first < before - 0.5
    assert (tmp_path / "more/tokenizer.json").read_bytes() == (trained / "tokenizer.json").read_bytes()


def test_a_tokenizer_that_is_given_is_used(trained, corpus, tmp_path):
    train(corpus, tmp_path / "out", tokenizer=trained / "tokenizer.json", epochs=1, **SMALL)
    assert (tmp_path / "out/tokenizer.json").read_bytes() == (trained / "tokenizer.json").read_bytes()


def test_held_out_text_can_be_given(corpus, tmp_path):
    (tmp_path / "dev.txt").write_text("\n".join(lines(20, 9)), encoding="utf-8")
    train(corpus, tmp_path / "out", dev=tmp_path / "dev.txt", epochs=1, **SMALL)
    assert metrics(tmp_path / "out")[-1]["dev_loss"] > 0


def test_tensorboard_gets_the_losses_on_request(corpus, tmp_path):
    pytest.importorskip("tensorboard")
    train(corpus, tmp_path / "out", epochs=1, tensorboard=True, **SMALL)
    (events,) = (tmp_path / "out/tensorboard").iterdir()
    assert b"dev_loss" in events.read_bytes()


# --- Interrupted ------------------------------------------------------------------------------------------------------


def test_killed_training_resumes_bit_identically(train_and_die, corpus, tmp_path):
    """Thirteen kills in a row, each in the run that the last one left."""
    assert train_and_die(corpus, tmp_path / "whole", "never", 0) == 0
    rng = random.Random(0)
    moments: list[tuple[str, float]] = [
        ("banyan.training.trainer.Tokenizer.train", 1),
        ("banyan.corpus.store._append", 3),  # while tokenising
        ("banyan.corpus.store._flush", 4),
        ("banyan.corpus.store._finish", 1),
        ("banyan.model.objective.losses", 2),  # before any checkpoint
        ("half-checkpoint", 1),
        ("banyan.support.files.sync", 6),  # a checkpoint written and not yet in its place
        ("half-checkpoint", 3),
        ("banyan.model.objective.losses", rng.randint(4, 8)),
        ("banyan.training.plots.loss_curve", 1),
        ("after", rng.uniform(0.05, 0.4)),
        ("after", rng.uniform(0.05, 0.4)),
        ("banyan.encoder.Banyan.save_pretrained", 1),
    ]
    for moment, n in moments:
        code = train_and_die(corpus, tmp_path / "killed", moment, n)
        assert code == -signal.SIGKILL or (moment == "after" and code == 0), moment
    assert train_and_die(corpus, tmp_path / "killed", "never", 0) == 0
    assert digest(tmp_path / "killed") == digest(tmp_path / "whole")
    assert not list((tmp_path / "killed").rglob("*.tmp"))


def test_ctrl_c_saves_and_resumes_bit_identically(banyan, corpus, tmp_path):
    settings = ["--resume", "--dim", "16", "--channels", "8", "--batch-size", "8", "--vocab-size", "400"]
    settings += ["--preset", "default", "--epochs", "20", "--device", "cpu"]
    command = [sys.executable, "-m", "banyan", "train", corpus, "--out", tmp_path / "stopped", *settings]
    told = []
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr
        for line in process.stderr:
            told.append(line)
            if line.startswith("epoch  1:"):
                process.send_signal(signal.SIGINT)
    stderr = "".join(told)
    assert process.returncode == 130, stderr
    assert "--resume continues" in told[-1]
    assert "Traceback" not in stderr
    assert (tmp_path / "stopped/metrics.jsonl").exists()
    for out in ("stopped", "whole"):
        assert banyan("train", corpus, "--out", tmp_path / out, *settings)[0] == 0
    assert digest(tmp_path / "stopped") == digest(tmp_path / "whole")


def test_a_full_disk_leaves_the_last_good_checkpoint(corpus, tmp_path, monkeypatch):
    """A limit on file size makes writes fail as a full disk does."""
    resource = pytest.importorskip("resource")
    settings = {**SMALL, "dim": 64, "channels": 32, "epochs": 3}
    limits, save, saves = resource.getrlimit(resource.RLIMIT_FSIZE), checkpoint.save, []

    def save_until_the_disk_is_full(*args) -> None:
        saves.append(1)
        if len(saves) == 3:
            resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, limits[1]))
        save(*args)

    monkeypatch.setattr(checkpoint, "save", save_until_the_disk_is_full)
    try:
        with pytest.raises(BanyanError, match="the last good checkpoint is kept"):
            train(corpus, tmp_path / "out", checkpoint_seconds=0, **settings)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    monkeypatch.undo()
    train(corpus, tmp_path / "out", resume=True, **settings)
    train(corpus, tmp_path / "whole", **settings)
    assert digest(tmp_path / "out") == digest(tmp_path / "whole")


def test_a_full_disk_at_the_final_save_is_one_sentence_and_the_run_resumes(corpus, tmp_path, monkeypatch):
    resource = pytest.importorskip("resource")
    limits, save = resource.getrlimit(resource.RLIMIT_FSIZE), Banyan.save_pretrained

    def save_to_a_full_disk(self: Banyan, path: Path) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (5_000, limits[1]))
        save(self, path)

    monkeypatch.setattr(Banyan, "save_pretrained", save_to_a_full_disk)
    try:
        with pytest.raises(BanyanError, match=r"^cannot write .*model.safetensors: [^\n]*$"):
            train(corpus, tmp_path / "out", epochs=1, **SMALL)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    monkeypatch.undo()
    train(corpus, tmp_path / "out", epochs=1, resume=True, **SMALL)
    train(corpus, tmp_path / "whole", epochs=1, **SMALL)
    assert digest(tmp_path / "out") == digest(tmp_path / "whole")


def test_an_absurd_vocabulary_size_is_refused_before_anything_is_written(banyan, corpus, tmp_path):
    code, _, told = banyan("train", corpus, "--out", tmp_path / "out", "--vocab-size", 100_000_000)
    assert code == 1
    assert told.startswith("banyan: vocab_size must be between 300")
    assert len(told.splitlines()) == 1
    assert not (tmp_path / "out").exists()


def test_a_finished_run_can_go_on_for_more_epochs(corpus, tmp_path):
    train(corpus, tmp_path / "out", epochs=1, **SMALL)
    train(corpus, tmp_path / "out", epochs=3, resume=True, **SMALL)
    train(corpus, tmp_path / "whole", epochs=3, **SMALL)
    assert digest(tmp_path / "out") == digest(tmp_path / "whole")


# --- A rate that falls ------------------------------------------------------------------------------------------------

STEPS = 13  # of an epoch of the corpus


@pytest.mark.parametrize("window", [1, 5])
def test_the_rate_falls_by_the_same_from_step_to_step(corpus, tmp_path, monkeypatch, window):
    monkeypatch.setattr(devices, "window", lambda device: window)
    rates: list[float] = []
    recording = register_optimizer_step_pre_hook(lambda one, *_: rates.append(float(one.param_groups[0]["lr"])))
    try:
        train(corpus, tmp_path / "out", epochs=2, lr=2e-3, final_lr_frac=0.1, **SMALL)
    finally:
        recording.remove()
    np.testing.assert_allclose(rates, np.linspace(2e-3, 2e-4, 2 * STEPS + 1)[:-1], rtol=1e-9)


def test_a_rate_that_falls_teaches_something_else_than_one_that_stays(corpus, tmp_path):
    for name, settings in (("unsaid", {}), ("stays", {"final_lr_frac": 1.0}), ("falls", {"final_lr_frac": 0.0})):
        train(corpus, tmp_path / name, epochs=1, **settings, **SMALL)
    unsaid, stays, falls = (digest(tmp_path / name) for name in ("unsaid", "stays", "falls"))
    assert unsaid == stays != falls
    losses = [[row["loss"] for row in metrics(tmp_path / name) if "loss" in row] for name in ("stays", "falls")]
    assert losses[0][:2] == losses[1][:2]  # its first step is at the whole rate
    assert losses[0][2] != losses[1][2]


def test_an_interrupted_run_whose_rate_falls_goes_on_to_the_same_bits(corpus, tmp_path):
    with interrupted_at(STEPS + 3):
        train(corpus, tmp_path / "out", epochs=2, final_lr_frac=0.0, **SMALL)
    train(corpus, tmp_path / "out", resume=True, **SMALL)
    train(corpus, tmp_path / "whole", epochs=2, final_lr_frac=0.0, **SMALL)
    assert digest(tmp_path / "out") == digest(tmp_path / "whole")


def test_a_kill_between_the_tokenizer_and_its_checksum_leaves_it_to_the_next_run(corpus, tmp_path):
    with interrupted_at(3):
        train(corpus, tmp_path / "out", epochs=1, **SMALL)
    before = (tmp_path / "out/training/SHA256SUMS").read_text()
    (tmp_path / "out/training/SHA256SUMS").unlink()
    train(corpus, tmp_path / "out", resume=True, **SMALL)
    assert (tmp_path / "out/training/SHA256SUMS").read_text() == before


# --- Windows ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [5, 64])
def test_what_is_learnt_does_not_depend_on_the_window(corpus, tmp_path, monkeypatch, size):
    train(corpus, tmp_path / "one", epochs=2, **SMALL)
    monkeypatch.setattr(devices, "window", lambda device: size)
    train(corpus, tmp_path / "out", epochs=2, **SMALL)
    assert digest(tmp_path / "out") == digest(tmp_path / "one")


def test_a_window_of_steps_is_looked_at_once(corpus, tmp_path, monkeypatch):
    """Losses, their parts and nodes are fetched when all its steps have begun."""
    events = []
    real_step, real_fetched = training.Run._step, training._fetched
    monkeypatch.setattr(devices, "window", lambda device: 5)
    monkeypatch.setattr(training.Run, "_step", lambda *args: events.append("step") or real_step(*args))
    monkeypatch.setattr(training, "_fetched", lambda values: events.append(len(values)) or real_fetched(values))
    monkeypatch.setattr(passages, "DEV_MOST", 0)
    train(corpus, tmp_path / "out", epochs=1, **SMALL)
    window = ["step"] * 5 + [5, 5, 5]
    rest = [*["step"] * 3, 3, 3, 3]
    assert events == [*window, *window, *rest]


def test_batches_of_an_epoch_differ_by_one_sentence_at_most(corpus, tmp_path):
    train(corpus, tmp_path / "out", epochs=2, **SMALL)
    for epoch in (1, 2):
        sizes = [row["sentences"] for row in metrics(tmp_path / "out") if row.get("epoch") == epoch]
        assert len(sizes) == 13  # 396 sentences in batches of at most 32
        assert sum(sizes) == 396
        assert sorted(set(sizes)) == [30, 31]
        assert sizes == sorted(sizes, reverse=True)


def test_metrics_have_each_part_of_the_loss_in_training_and_on_held_out_text(corpus, tmp_path):
    settings = {"objective": "both", "infonce_weight": 3.0, "preset": "paper"}
    train(corpus, tmp_path / "out", epochs=1, **settings, **SMALL)
    rows = metrics(tmp_path / "out")
    parts = {"contrastive": 0.5, "reconstruction": 0.5, "infonce": 3.0}
    for row in rows[:-1]:
        assert row["loss"] == pytest.approx(sum(weight * row[name] for name, weight in parts.items()), rel=1e-5)
    last = rows[-1]
    for kind in ("train", "dev"):
        total = sum(weight * last[f"{kind}_{name}"] for name, weight in parts.items())
        assert last[f"{kind}_loss"] == pytest.approx(total, rel=1e-5)
    card = (tmp_path / "out/README.md").read_text(encoding="utf-8")
    cells = f"{last['train_infonce']:.4f} | {last['dev_infonce']:.4f}"
    assert f"| InfoNCE between sentence parts (weight 3) | {cells} |" in card


def test_figures_are_fetched_from_wherever_they_are():
    assert training._fetched([3, 4]) == [3, 4]
    assert training._fetched([torch.tensor(3), torch.tensor(2**40)]) == [3, 2**40]
    assert training._fetched([torch.tensor(0.5)]) == [0.5]


def test_a_loss_that_explodes_within_a_window_is_found_at_its_step(corpus, tmp_path, monkeypatch):
    def found() -> tuple[str, list[dict]]:
        with pytest.raises(BanyanError, match=r"the loss became (nan|inf) at step \d+: try a lower lr") as caught:
            train(corpus, tmp_path / "out", preset="default", epochs=20, lr=1e30, overwrite=True, **SMALL)
        return str(caught.value), metrics(tmp_path / "out")

    alone = found()
    monkeypatch.setattr(devices, "window", lambda device: 64)
    assert found() == alone


def test_ctrl_c_within_a_window_saves_after_the_step(corpus, tmp_path, monkeypatch):
    monkeypatch.setattr(devices, "window", lambda device: 64)
    with interrupted_at(6):
        train(corpus, tmp_path / "out", epochs=2, **SMALL)
    train(corpus, tmp_path / "out", epochs=2, resume=True, **SMALL)
    train(corpus, tmp_path / "whole", epochs=2, **SMALL)
    assert digest(tmp_path / "out") == digest(tmp_path / "whole")


def test_a_deterministic_run_on_the_cpu_is_the_usual_one(corpus, tmp_path):
    train(corpus, tmp_path / "out", epochs=1, deterministic=True, **SMALL)
    train(corpus, tmp_path / "usual", epochs=1, **SMALL)
    assert digest(tmp_path / "out") == digest(tmp_path / "usual")
    assert not torch.are_deterministic_algorithms_enabled()


# --- Bad input --------------------------------------------------------------------------------------------------------


def test_an_existing_run_is_not_overwritten_unless_asked(trained, corpus, tmp_path):
    with pytest.raises(BanyanError, match="holds a finished model: --resume continues it"):
        train(corpus, trained, **SMALL)
    train(corpus, tmp_path / "out", epochs=1, **SMALL)
    train(corpus, tmp_path / "out", epochs=1, seed=3, overwrite=True, **SMALL)
    assert Banyan.from_pretrained(tmp_path / "out").config.seed == 3


def test_resuming_with_other_settings_or_another_corpus_is_refused(corpus, tmp_path):
    train(corpus, tmp_path / "out", epochs=1, **SMALL)
    with pytest.raises(BanyanError, match=r"different settings: lr was 0\.001 and is now 0\.5"):
        train(corpus, tmp_path / "out", resume=True, epochs=1, lr=0.5, **SMALL)
    other = tmp_path / "other.txt"
    other.write_text("\n".join(lines(100, 5)), encoding="utf-8")
    with pytest.raises(BanyanError, match=r"the corpus of the run in .* has changed"):
        train(other, tmp_path / "out", resume=True, epochs=1, **SMALL)


def test_nothing_is_lost_to_a_command_that_fails(trained, corpus, tmp_path):
    def files():
        return {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir() if path.is_file()}

    shutil.copytree(trained, tmp_path / "out")
    before = files()
    for wrong in (
        {"corpus": tmp_path / "missing.txt"},
        {"dim": 63},
        {"init": tmp_path / "out"},
        {"tokenizer": tmp_path / "missing.json"},
        {"pairs": tmp_path / "missing.tsv"},
        {"dev": tmp_path / "missing.txt"},
    ):
        with pytest.raises(BanyanError):
            train(**{"corpus": corpus, "out": tmp_path / "out", "overwrite": True, **SMALL, **wrong})
        assert files() == before, wrong


def test_a_model_without_its_run_is_neither_overwritten_nor_resumed(trained, corpus, tmp_path):
    shutil.copytree(trained, tmp_path / "out", ignore=shutil.ignore_patterns("training"))
    with pytest.raises(BanyanError, match="holds a finished model"):
        train(corpus, tmp_path / "out", **SMALL)
    with pytest.raises(BanyanError, match="a model without its training run"):
        train(corpus, tmp_path / "out", resume=True, **SMALL)


def test_a_folder_of_something_else_is_left_alone(corpus, tmp_path):
    (tmp_path / "README.md").write_text("mine")
    for overwrite in (False, True):
        with pytest.raises(BanyanError, match=r"holds a README\.md of something else"):
            train(corpus, tmp_path, overwrite=overwrite, **SMALL)
    assert tree(tmp_path) == {"README.md": b"mine"}
    assert not (tmp_path / "training").exists()


def test_a_resumed_run_needs_nothing_repeated(corpus, tmp_path):
    (tmp_path / "dev.txt").write_text("\n".join(lines(20, 9)), encoding="utf-8")
    settings = {**SMALL, "dev": tmp_path / "dev.txt", "lr": 2e-3}
    train(corpus, tmp_path / "out", epochs=1, **settings)
    train(corpus, tmp_path / "out", resume=True, epochs=2, quiet=True, device="cpu")
    train(corpus, tmp_path / "whole", epochs=2, **settings)
    assert digest(tmp_path / "out") == digest(tmp_path / "whole")
    with pytest.raises(BanyanError, match=r"dev was .* and is now"):
        train(corpus, tmp_path / "out", resume=True, dev=corpus, quiet=True)
    with pytest.raises(BanyanError, match="has had 2 epochs already"):
        train(corpus, tmp_path / "out", resume=True, epochs=1, quiet=True)


def test_what_is_given_is_remembered_by_its_whole_path_unless_it_is_none(corpus, monkeypatch):
    monkeypatch.chdir(corpus.parent)
    assert Given.of(dev=corpus.name).dev == str(corpus)
    for name in ("hf:some/set", "-", "texts/*.txt"):
        assert Given.of(dev=name).dev == name


def test_two_processes_do_not_train_into_one_folder(corpus, tmp_path):
    train(corpus, tmp_path / "out", epochs=1, **SMALL)
    hold = "import sys; from pathlib import Path; from banyan.support.files import locked\n"
    hold += "with locked(Path(sys.argv[1]), ''): print(flush=True); sys.stdin.read()"
    command = [sys.executable, "-c", hold, tmp_path / "out/training/lock"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        other.stdout.readline()
        with pytest.raises(BanyanError, match="another process is training into"):
            train(corpus, tmp_path / "out", resume=True, quiet=True)
        other.stdin.close()


def tree(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@contextmanager
def waiting_for_its_text(out: Path, *options: str) -> Iterator[subprocess.Popen]:
    """`banyan train - --out OUT`, which has looked into the folder and reads a pipe that has not ended yet."""
    command = [sys.executable, "-m", "banyan", "train", "-", "--out", out, "--device", "cpu", "--quiet", *options]
    command += [f"--{name.replace('_', '-')}={SMALL[name]}" for name in ("dim", "channels", "batch_size", "vocab_size")]
    pipes = {"stdin": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen([*map(str, command)], **pipes) as waiting:
        try:
            while not list(out.glob("training/**/.stdin.part")):
                assert waiting.poll() is None
                time.sleep(0.05)
            yield waiting
        finally:
            waiting.kill()


@pytest.mark.parametrize("options", [[], ["--resume"]], ids=["new", "resume"])
@pytest.mark.parametrize("piped", [False, True], ids=["file", "piped"])
def test_a_model_that_was_finished_while_another_process_read_its_text_is_kept(
    corpus, tmp_path, monkeypatch, options, piped
):
    out = tmp_path / "out"
    with waiting_for_its_text(out, "--epochs=1", *options) as waiting:
        if piped:  # two copies at a time
            monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(corpus.read_bytes())))
        train("-" if piped else corpus, out, epochs=2, **SMALL)
        finished = {name: content for name, content in tree(out).items() if "copies-" not in name}
        _, told = waiting.communicate("\n".join(lines(300, seed=7)), timeout=120)
    assert waiting.returncode == 1
    refusal = f"another process started a run in {out} in the meantime: run the command again"
    if not options:
        refusal = f"{out} holds a finished model: --resume continues it, --overwrite starts over"
    assert told == f"banyan: {refusal}\n"
    assert tree(out) == finished
    assert Banyan.from_pretrained(out).config.epochs == 2


def test_two_processes_may_wait_for_their_text_and_the_first_to_have_it_trains(corpus, tmp_path):
    out = tmp_path / "out"
    with waiting_for_its_text(out, "--epochs=1") as one, waiting_for_its_text(out, "--epochs=1") as other:
        _, told = other.communicate(corpus.read_text(), timeout=120)
        assert (other.returncode, told) == (0, "")
        assert "holds a finished model" in one.communicate("other text\n" * 100, timeout=120)[1]
    (copy,) = out.glob("training/**/stdin-*")
    assert copy.read_bytes() == corpus.read_bytes()
    assert not list(out.glob("training/copies-*"))


def test_what_a_killed_process_copied_is_cleared_away_by_the_next_run(corpus, tmp_path):
    with waiting_for_its_text(tmp_path / "out") as waiting:
        waiting.kill()
    assert list((tmp_path / "out/training").glob("copies-*"))
    train(corpus, tmp_path / "out", epochs=1, **SMALL)
    assert not list((tmp_path / "out/training").glob("copies-*"))


@pytest.mark.parametrize("wrong", [{"dim": 63}, {"pairs": "missing.tsv"}, {"corpus": ["-", "missing.txt"]}])
def test_a_failed_start_leaves_nothing(tmp_path, monkeypatch, wrong):
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b"Some text.\n" * 100)))
    with pytest.raises(BanyanError):
        train(**{"corpus": "-", "out": tmp_path / "new" / "out", **SMALL, **wrong})
    assert list(tmp_path.iterdir()) == []


def test_a_model_to_start_from_brings_its_functions_and_its_structure(corpus, tmp_path):
    linear = {"preset": "paper", "functions": "linear", "structure": "balanced"}
    train(corpus, tmp_path / "first", epochs=1, **linear, **SMALL)
    started = train(corpus, tmp_path / "second", init=tmp_path / "first", epochs=1, quiet=True, device="cpu")
    assert (started.config.functions, started.config.structure) == ("linear", "balanced")


def test_a_model_that_an_older_version_would_misread_says_so(trained):
    assert json.loads((trained / "config.json").read_text())["format"] == "4"


@pytest.mark.parametrize(
    ("steps", "all", "batch"), [(1, 15, 15), (342, 14, 8), (900, 5, 3), (909, 5, 3), (10_000, 5, 3)]
)
def test_a_small_corpus_is_gone_through_more_often(steps, all, batch):
    assert epochs.suitable_epochs(steps, Config()) == all
    assert epochs.suitable_epochs(steps, Config(candidates="batch")) == batch


def test_without_a_gpu_the_light_preset_is_used_and_chooses_its_epochs(tmp_path, capsys):
    text = write_lines(tmp_path / "few.txt", 40)
    train(text, tmp_path / "out", **{**SMALL, "device": "cpu", "quiet": False})
    assert metrics(tmp_path / "out")[-1]["finished_epoch"] == epochs.MOST
    assert Config.from_file(tmp_path / "out/config.json").preset == "light"
    assert "no GPU: training with preset light (--preset default takes" in capsys.readouterr().err
    train(text, tmp_path / "out", resume=True, preset="light", **SMALL)  # what was chosen is what the run has
    train(text, tmp_path / "default", preset="default", **SMALL)
    assert Config.from_file(tmp_path / "default/config.json").preset == "default"


def test_what_a_model_to_start_from_fixes_cannot_be_changed(trained, corpus, tmp_path):
    with pytest.raises(BanyanError, match="has dim = 16, which cannot be changed"):
        train(corpus, tmp_path / "out", init=trained, dim=32, quiet=True)
    with pytest.raises(BanyanError, match="leave --tokenizer out"):
        train(corpus, tmp_path / "out", init=trained, tokenizer=trained / "tokenizer.json", quiet=True)


def test_a_loss_that_explodes_stops_with_a_sentence(corpus, tmp_path):
    with pytest.raises(BanyanError, match=r"the loss became .*: try a lower lr"):
        train(corpus, tmp_path / "out", preset="default", epochs=20, lr=1e30, **SMALL)


def test_weights_that_explode_under_a_finite_loss_stop_with_a_sentence(corpus, tmp_path):
    with pytest.raises(BanyanError, match=r"a weight became NaN or larger than 1e\+06 by step \d+: try a lower lr"):
        train(corpus, tmp_path / "out", preset="light", epochs=2, lr=1e30, **SMALL)


OLD_KIND, OLD_RATE = "crop_kind", "lr_end"  # settings of 0.1.0


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"epoch": 3}, "there is no setting 'epoch'; did you mean epochs"),
        ({"overwrit": True}, "there is no setting 'overwrit'; did you mean overwrite"),
        ({"xyzzy": 3}, "there is no setting 'xyzzy'; the settings are dim, channels"),
        ({"preset": "best"}, "there is no preset 'best'"),
        ({"dim": 10, "channels": 3}, "must be a multiple of channels"),
        ({"lr": -1.0}, "lr must be a positive number"),
        ({"clip_grad_norm": 0.0}, "clip_grad_norm must be a positive number"),
        ({"leaf_dropout": 1.0}, r"leaf_dropout must be in \[0, 1\)"),
        ({"objective": "mlm"}, "objective must be one of cross-entropy, contrastive, both"),
        ({"epochs": "3"}, "epochs must be int"),
        ({"candidates": "some"}, "candidates must be one of all, batch"),
        ({OLD_KIND: "parts"}, "the setting crop_kind is gone: sentences are always split into two parts"),
        ({"infonce_min_part": 0.6}, r"infonce_min_part must be in \(0, 0\.5\], not 0\.6"),
        ({"init_sketch": -1.0}, r"init_sketch must be 0 or more, not -1\.0"),
        ({"init_ppmi": float("inf")}, "init_ppmi must be 0 or more, not inf"),
        ({"lexical_dim": -1}, "lexical_dim must be between 0 and 65,536, not -1"),
        ({"init_gate": 1.0}, r"init_gate must be in \(0, 1\), not 1\.0"),
        ({"init_gate": 0.9, "functions": "linear"}, "init_gate is for diagonal functions"),
        ({"vocab_factor": 0.0}, r"vocab_factor must be a positive number, not 0\.0"),
        ({"init_gate": 0}, r"init_gate must be in \(0, 1\), not 0"),
        ({"final_lr_frac": 1.5}, r"final_lr_frac must be in \[0, 1\], not 1\.5"),
        ({OLD_RATE: 0.5}, "the setting lr_end is now called final_lr_frac"),
        ({"device": "gpu"}, "unknown device 'gpu'"),
        ({"device": "cpu", "precision": "bf16"}, "precision bf16 is for CUDA GPUs, not for cpu"),
    ],
    ids=str,
)
def test_a_wrong_setting_is_named(corpus, tmp_path, settings, says):
    with pytest.raises(BanyanError, match=says):
        train(corpus, tmp_path / "out", quiet=True, **settings)


def test_a_file_in_place_of_the_folder_is_named(corpus):
    with pytest.raises(BanyanError, match="is a file; --out must name a folder"):
        train(corpus, corpus, quiet=True)


def test_train_is_at_the_top_of_the_package():
    assert banyan.train is train


# --- The preset of the paper ------------------------------------------------------------------------------------------


def test_the_preset_of_the_paper_takes_part_in_nothing_that_came_later():
    paper = Config.from_preset("paper")
    off: dict[str, object] = {"init_sketch": 0, "lexical_dim": 0, "init_ppmi": 0, "infonce_weight": 0}
    off |= {"init_gate": None, "clip_grad_norm": None, "final_lr_frac": 1, "vocab_factor": 1}
    assert {name: getattr(paper, name) for name in off} == off
    said = {"dim": 256, "channels": 128, "dropout": 0.1, "epochs": 15, "batch_size": 512, "lr": 1e-3}
    assert {name: getattr(paper, name) for name in said} == said


def test_weights_begin_as_ever():
    """Drawn here in the order of the first version: what came later must not draw before them."""
    generator = torch.Generator().manual_seed(3)
    model, U, V = BanyanModel(Config(dim=16, channels=4, seed=3), 20), 4, 20
    assert torch.equal(model.embedding, torch.empty(V, 16).uniform_(-0.1, 0.1, generator=generator))
    for gate in (model.comp_l, model.comp_r, model.decomp_l, model.decomp_r):
        assert torch.equal(gate, torch.empty(U).uniform_(0.6, 0.9, generator=generator))
    for out in (model.out_weight, model.out_bias):
        assert torch.equal(out, torch.empty_like(out).uniform_(-0.25, 0.25, generator=generator))


# --- A whole Config --------------------------------------------------------------------------------------------------


def test_a_config_gives_the_model_of_its_preset_and_overrides(corpus, tmp_path):
    settings = {name: value for name, value in SMALL.items() if name not in ("quiet", "device")}
    config = Config.from_preset("paper", epochs=1, **settings)
    train(corpus, tmp_path / "config", config=config, quiet=True, device="cpu")
    train(corpus, tmp_path / "overrides", preset="paper", epochs=1, **SMALL)
    assert digest(tmp_path / "config") == digest(tmp_path / "overrides")
    with pytest.raises(BanyanError, match="config holds every setting: leave out preset, lr"):
        train(corpus, tmp_path / "out", config=config, preset="paper", lr=1e-3, quiet=True)


def test_the_time_that_training_takes_is_told_before_it_starts(monkeypatch):
    monkeypatch.setenv("BANYAN_THREADS", "2")
    light, default, contrastive = (Config.from_preset(name) for name in ("light", "default", "self-strae"))
    told = [estimate(light, tokens, "cpu") for tokens in np.array([10**5, 10**7, 10**8])]
    assert told == ["", ", about 1 minute", ", about 10 minutes"]
    assert estimate(default, 10**8, "cpu") == estimate(contrastive, 10**8, "cpu") == ""  # other work takes longest
    assert estimate(light, 10**8, "cuda") == ""
