"""Training that dies by SIGKILL."""

from __future__ import annotations

import os
import pkgutil
import signal
import threading
from pathlib import Path


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def die_before_call(name: str, n: int) -> None:
    owner_name, _, attribute = name.rpartition(".")
    owner = pkgutil.resolve_name(owner_name)
    real, calls = getattr(owner, attribute), 0

    def counted(*args, **kwargs):
        nonlocal calls
        calls += 1
        if calls == n:
            die()
        return real(*args, **kwargs)

    setattr(owner, attribute, counted)


def die_half_way_through_checkpoint(n: int) -> None:
    import safetensors.torch

    real, calls = safetensors.torch.save_file, 0

    def half(tensors, path, metadata):
        nonlocal calls
        calls += 1
        real(tensors, path, metadata)
        if calls == n:
            os.truncate(path, Path(path).stat().st_size // 2)
            die()

    safetensors.torch.save_file = half


def train(corpus: str, out: str, moment: str, n: float) -> None:
    """Die just before the n-th call of a function, whose dotted name is the moment. "half-checkpoint" dies when the
    n-th checkpoint is half written, "after" dies n seconds after training began, "never" does not die."""
    from banyan.corpus import store
    from banyan.training import trainer as training

    store.BLOCK = 40  # several blocks, so that tokenising can be interrupted between them
    if moment == "half-checkpoint":
        die_half_way_through_checkpoint(int(n))
    elif moment == "after":
        threading.Timer(float(n), die).start()
    elif moment != "never":
        die_before_call(moment, int(n))
    training.train(
        corpus,
        out,
        resume=True,
        quiet=True,
        checkpoint_seconds=0.05,
        device="cpu",
        dim=16,
        channels=8,
        epochs=3,
        batch_size=16,
        vocab_size=400,
    )
