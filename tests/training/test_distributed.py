"""Several processes that train one model, on CPUs with gloo."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch

from banyan import Banyan, BanyanError
from banyan.corpus.store import Store
from banyan.model import BanyanModel
from banyan.model.dropout import Dropout
from banyan.model.objective import reconstruction
from banyan.training import train
from banyan.training.distributed import Processes
from tests.helpers.corpora import lines, write_lines
from tests.helpers.training import IN_PROCESSES, digest, first_step_again, metrics


@pytest.fixture(scope="module")
def corpus(tmp_path_factory) -> Path:
    return write_lines(tmp_path_factory.mktemp("corpus") / "corpus.txt", 409)


def sentences(store: Store) -> list[tuple[int, ...]]:
    return [tuple(store.tokens[a:b].tolist()) for a, b in pairwise(store.offsets)]


@pytest.fixture(scope="module")
def three(train_in_processes, corpus, tmp_path_factory) -> Path:
    """What three processes trained."""
    out = tmp_path_factory.mktemp("three") / "model"
    ended = train_in_processes(corpus, out, world=3)
    assert [code for code, _ in ended] == [0, 0, 0], ended
    assert "training on 408 sentences, 1 held out" in ended[0][1]
    assert [stderr for _, stderr in ended[1:]] == ["", ""]
    return out


def test_replicas_stay_bit_identical(three):
    digests = {Path(f"{three}.rank{rank}").read_text() for rank in range(3)}
    assert len(digests) == 1


def test_shards_are_disjoint_and_complete(three, corpus, tmp_path):
    shards = [Store.open(three / f"training/store/shard-{rank}-of-3") for rank in range(3)]
    whole = train(corpus, tmp_path / "one", quiet=True, device="cpu", **{**IN_PROCESSES, "epochs": 1})
    assert isinstance(whole, Banyan)
    everything = sentences(Store.open(tmp_path / "one/training/store"))
    for rank, shard in enumerate(shards):
        assert sentences(shard) == everything[rank::3]
    assert not (three / "training/store/tokens.bin").exists()


def test_the_first_process_writes_everything_once(three):
    steps = [row for row in metrics(three) if "loss" in row]
    assert [row["step"] for row in steps] == list(range(1, 19))  # 136 sentences in shares of 16, twice
    assert [row["sentences"] for row in steps[:9]] == [48] + [45] * 8
    assert all(row["nodes"] < row["plain_nodes"] == 2 * row["tokens"] - row["sentences"] for row in steps)
    assert "409 lines read from 1 file, 409 sentences kept" in (three / "README.md").read_text(encoding="utf-8")
    assert [row["finished_epoch"] for row in metrics(three) if "dev_loss" in row] == [1, 2]
    assert Banyan.from_pretrained(three).encode("The cat sees the dog.").any()


def test_a_step_is_the_single_process_step_over_both_shares_with_averaged_gradients(train_in_processes, tmp_path):
    """The first moment of Adam after one step is a tenth of the gradient."""
    (tmp_path / "corpus.txt").write_text("\n".join(lines(80)), encoding="utf-8")
    ended = train_in_processes(tmp_path / "corpus.txt", tmp_path / "out", batch_size=80, epochs=1)
    assert [code for code, _ in ended] == [0, 0], ended

    def loss(model: BanyanModel, tokens: np.ndarray, offsets: np.ndarray, dropout: Dropout) -> torch.Tensor:
        return reconstruction(model, model(model.structure(tokens, offsets, dropout), dropout))

    model, state, losses = first_step_again(tmp_path / "out", loss)
    (row,) = [row for row in metrics(tmp_path / "out") if "loss" in row]
    assert row["loss"] == pytest.approx(sum(losses).item() / 2, rel=1e-6)
    assert losses[0].item() != losses[1].item()
    for name, parameter in model.named_parameters():
        np.testing.assert_allclose(10 * state[f"exp_avg.{name}"], parameter.grad, atol=1e-7, rtol=1e-4, err_msg=name)
    torch.optim.Adam(model.parameters(), lr=model.config.lr).step()
    for name in ("comp_l", "decomp_r"):
        weights = model.get_parameter(name).detach()
        np.testing.assert_allclose(state[f"model.{name}"], weights, atol=1e-6, err_msg=name)


@pytest.mark.parametrize(("rank", "moment", "n"), [(0, "SIGINT", 7), (1, "SIGTERM", 13)])
def test_a_stopped_run_is_saved_once_and_resumes_to_the_same_bits(
    train_in_processes, three, corpus, tmp_path, rank, moment, n
):
    """A signal to one process ends all of them after the same step. One pass comes before the first step."""
    ended = train_in_processes(corpus, tmp_path / "model", rank, moment, n, world=3)
    assert [code for code, _ in ended] == [130, 130, 130], ended
    assert ended[0][1].splitlines()[-1] == f"banyan: stopped after step {n - 1} and saved; --resume continues"
    assert ended[1][1] == ended[2][1] == ""
    assert [code for code, _ in train_in_processes(corpus, tmp_path / "model", world=3)] == [0, 0, 0]
    assert digest(tmp_path / "model") == digest(three)


def test_several_processes_stop_after_the_same_window(train_in_processes, three, corpus, tmp_path):
    """Passes 7 to 10 are the third window: one step of 16 sentences per process, then twice four steps of 15."""
    ended = train_in_processes(corpus, tmp_path / "model", 2, "SIGTERM", 7, world=3, window=4)
    assert [code for code, _ in ended] == [130, 130, 130], ended
    assert "stopped after step 9 and saved" in ended[0][1]
    assert [code for code, _ in train_in_processes(corpus, tmp_path / "model", world=3, window=4)] == [0, 0, 0]
    assert digest(tmp_path / "model") == digest(three)


@pytest.mark.parametrize(
    ("rank", "moment", "n"), [(0, "banyan.training.checkpoint.save", 5), (1, "banyan.model.objective.losses", 8)]
)
def test_a_killed_process_ends_the_others_and_the_run_resumes_to_the_same_bits(
    train_in_processes, three, corpus, tmp_path, rank, moment, n
):
    ended = train_in_processes(corpus, tmp_path / "model", rank, moment, n, world=3)
    codes = [code for code, _ in ended]
    assert codes[rank] == -signal.SIGKILL
    assert codes.count(1) == 2
    for code, stderr in ended:
        assert code != 1 or "another process of this run ended" in stderr.splitlines()[-1]
        assert "Traceback" not in stderr
    assert [code for code, _ in train_in_processes(corpus, tmp_path / "model", world=3)] == [0, 0, 0]
    assert digest(tmp_path / "model") == digest(three)


def test_a_loss_that_explodes_is_told_once(train_in_processes, corpus, tmp_path):
    ended = train_in_processes(corpus, tmp_path / "out", lr=1e30, epochs=20)
    assert [code for code, _ in ended] == [1, 1]
    assert "try a lower lr" in ended[0][1].splitlines()[-1]
    assert ended[1][1] == ""


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"batch_size": 49}, "2 processes cannot share batch_size 49: choose a multiple of 2"),
        ({"dim": 15}, "dim (15) must be a multiple of channels (8)"),
    ],
    ids=str,
)
def test_what_is_wrong_is_told_once_before_anything_is_written(train_in_processes, corpus, tmp_path, settings, says):
    ended = train_in_processes(corpus, tmp_path / "out", **settings)
    assert ended == [[1, f"banyan: {says}\n"], [1, ""]]
    assert not (tmp_path / "out").exists()


def test_another_number_of_processes_does_not_resume(train_in_processes, three, corpus, tmp_path):
    shutil.copytree(three, tmp_path / "out")
    told = f"banyan: the run in {tmp_path}/out was started with 3 processes and cannot be resumed with 2 processes, "
    (code, stderr), quiet = train_in_processes(corpus, tmp_path / "out")
    assert code == 1
    assert stderr.startswith(told)
    assert quiet == [1, ""]
    with pytest.raises(BanyanError, match="was started with 3 processes and cannot be resumed with 1 process, because"):
        train(corpus, tmp_path / "out", resume=True, quiet=True, device="cpu")


def test_standard_input_is_not_for_several(train_in_processes, tmp_path):
    ended = train_in_processes("-", tmp_path / "out")
    assert ended[0] == [1, "banyan: 2 processes cannot all read standard input: write it to a file first\n"]


def test_torchrun_starts_the_command(corpus, tmp_path):
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    command += ["-m", "banyan", "train", corpus, "--out", tmp_path / "out", "--device", "cpu", "--epochs", "1"]
    command += ["--dim", "16", "--channels", "8", "--vocab-size", "400", "--batch-size", "64"]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("epoch  1: training loss") == 1
    assert (tmp_path / "out/model.safetensors").exists()


# --- One process at a time --------------------------------------------------------------------------------------------


def test_processes_are_numbered_by_the_environment(monkeypatch):
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    assert Processes.of_environment() == Processes(0, 1, 0, 1)
    monkeypatch.setenv("RANK", "5")
    monkeypatch.setenv("WORLD_SIZE", "8")
    monkeypatch.setenv("LOCAL_RANK", "1")
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "4")
    assert Processes.of_environment() == Processes(5, 8, 1, 4)
    monkeypatch.setenv("WORLD_SIZE", "1")
    assert not Processes.of_environment().several
    monkeypatch.setenv("WORLD_SIZE", "many")
    with pytest.raises(BanyanError, match="RANK=5, WORLD_SIZE=many"):
        Processes.of_environment()


def test_one_process_says_nothing_to_anyone():
    alone = Processes()
    with alone.joined(torch.device("cpu")), alone.together():
        assert alone.total([1.5, 2]) == [1.5, 2]
        assert alone.least(3) == 3
        assert not torch.distributed.is_initialized()
    with pytest.raises(KeyError), alone.together():
        raise KeyError


def test_processes_that_cannot_meet_say_so(monkeypatch):
    for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(BanyanError, match="cannot join the other processes"), Processes(0, 2).joined(
        torch.device("cpu")
    ):
        pass
    with pytest.raises(BanyanError, match="several processes cannot train on mps"), Processes(0, 2).joined(
        torch.device("mps")
    ):
        pass
    assert "BANYAN_THREADS" not in os.environ


def test_processes_with_unequal_shards_agree_on_their_windows(train_in_processes, tmp_path):
    """The first process holds out text, so its batches change size at another step than those of the others."""
    (tmp_path / "corpus.txt").write_text("\n".join(lines(611)), encoding="utf-8")
    ended = train_in_processes(tmp_path / "corpus.txt", tmp_path / "out", batch_size=32, epochs=1, window=4)
    assert [code for code, _ in ended] == [0, 0], ended
    steps = [row for row in metrics(tmp_path / "out") if "loss" in row]
    assert sum(row["sentences"] for row in steps) == 608  # 306 and 305, of which 3 are held out
    assert max(row["sentences"] for row in steps) <= 32
