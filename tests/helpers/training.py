"""A small corpus, the settings of a small model, and what a run leaves."""

from __future__ import annotations

import hashlib
import json
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
from safetensors.numpy import load_file

import banyan
from banyan.config import Config
from banyan.corpus.store import Store, shuffled_batches
from banyan.model import BanyanModel
from banyan.model.dropout import Dropout
from banyan.training import run as training

SMALL = {"dim": 16, "channels": 8, "batch_size": 32, "vocab_size": 400, "quiet": True, "device": "cpu"}
IN_PROCESSES = {"preset": "paper", "dim": 16, "channels": 8, "batch_size": 48, "vocab_size": 400, "epochs": 2}


def metrics(out: Path) -> list[dict]:
    head, *rows = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    assert head["banyan_version"] == banyan.__version__
    return rows


def digest(out: Path) -> str:
    """SHA-256 of weights, optimiser state and metrics."""
    sha = hashlib.sha256()
    for name in ("model.safetensors", "training/checkpoint.safetensors"):
        for key, tensor in sorted(load_file(out / name).items()):
            sha.update(key.encode() + tensor.tobytes())
    sha.update((out / "metrics.jsonl").read_bytes())
    sha.update((out / "tokenizer.json").read_bytes())
    return sha.hexdigest()


def adam_with_a_tensor(parameters, lr: float, falls: bool) -> torch.optim.Adam:
    """As devices.adam makes it on a GPU: a rate that falls is a tensor there, which recorded steps can change."""
    parameters = list(parameters)
    rate = torch.tensor(lr, device=parameters[0].device) if falls else lr
    return torch.optim.Adam(parameters, lr=rate, fused=True, capturable=parameters[0].is_cuda)


@contextmanager
def interrupted_at(step: int, told: int | None = None) -> Iterator[None]:
    """The user presses Ctrl-C in that step of the run within, which saves and stops. told: its number as it is told."""
    real, calls = training._Loss.forward, []

    def interrupted(*args):
        calls.append(1)
        if len(calls) == step:
            signal.raise_signal(signal.SIGINT)
        return real(*args)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(training._Loss, "forward", interrupted)
        message = f"stopped after step {told or step} and saved; --resume continues"
        with pytest.raises(training.Interrupted, match=message):
            yield


def first_step_again(out: Path, loss_of: Callable[..., torch.Tensor]) -> tuple[BanyanModel, dict, list[torch.Tensor]]:
    """The model that two processes made one step with, 40 sentences each, as it was before and with its gradients; what
    they saved; and the loss of each share."""
    state = load_file(out / "training/checkpoint.safetensors")
    config = Config.from_file(out / "config.json")
    model = BanyanModel(config, len(state["model.embedding"]))
    dropout, losses = Dropout(config.dropout, config.seed, 0), []
    for rank in range(2):
        store = Store.open(out / f"training/store/shard-{rank}-of-2")
        (chosen,) = shuffled_batches(len(store), 40, config.seed, 0, rank)
        losses.append(loss_of(model, *store.batch(chosen), dropout))
    (sum(losses) / 2).backward()
    return model, state, losses
