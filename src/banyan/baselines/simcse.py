"""Unsupervised SimCSE (Gao, Yao and Chen 2021): each sentence is encoded twice with different dropout, and the two
vectors must match, with the other sentences of the batch as negatives.

Model and loss are those of sentence-transformers. The settings are the authors' for RoBERTa (batch size 512, learning
rate 1e-5 with linear decay to 0, one epoch, temperature 0.05, 32 tokens) with two differences: a sentence is the mean
of its tokens, as in the Banyan paper, and the last step is the result, not the best checkpoint on labelled pairs.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from banyan.baselines.folder import Manifest
from banyan.baselines.unfinished import CHECKPOINT, RECORD, STOPPED, finish, resumed, run_in
from banyan.errors import BanyanError
from banyan.support import files
from banyan.support.display import Display
from banyan.support.needs import needs
from banyan.training import checkpoint
from banyan.training.checkpoint import Progress

with needs("The SimCSE baseline", "baselines"):
    import torch
    from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss
    from torch import Tensor

    from banyan.baselines import tokens
    from banyan.baselines.pretrained import MeanPooled, pieces_of, quietly
    from banyan.baselines.pretrained import load as load_any
    from banyan.support import devices


CHECKPOINT_SECONDS = 120.0


def train(
    corpus_paths: Sequence[str | Path],
    out: str | Path,
    *,
    quiet: bool = False,
    device: str = "auto",
    init: str = "",
    epochs: float = 1.0,
    batch_size: int = 512,
    lr: float = 1e-5,
    temperature: float = 0.05,
    longest: int = 32,
    half: bool = False,
    seed: int = 0,
) -> None:
    """Train a transformer further with SimCSE on the text. The same command resumes an interrupted run.

    corpus_paths: text as for banyan train, or one folder with a tokenizer.json and the store/ tokenised with it.
    init: the transformer to start from: a folder, such as that of `banyan baseline roberta`, or a name on the Hub.
    longest: truncate sentences to this many tokens.
    half: write the weights as float16.
    """
    settings = {name: value for name, value in locals().items() if name not in ("corpus_paths", "out", "quiet")}
    settings["text"] = [str(path) for path in corpus_paths]
    if not init:
        raise BanyanError("SimCSE needs a transformer to start from: --set init=FOLDER")
    plan = Plan(epochs, batch_size, lr, temperature, longest, seed)
    place, display = devices.choose(device), Display(quiet)
    model = load_any(init, device=str(place), precision="float32").model
    with devices.using(place, False), quietly(), run_in(out, settings) as work:
        text = tokens.sentences(corpus_paths, work, pieces_of(model.tokenizer), model.tokenizer, display)
        try:
            about = fit(model, text, plan, work, display)
        except KeyboardInterrupt:
            raise KeyboardInterrupt(STOPPED) from None
        (model.half() if half else model).eval()
        finish(
            out,
            lambda folder: model.save(str(folder), create_model_card=False),
            Manifest("simcse", settings, None, about),
        )


@dataclass(frozen=True)
class Plan:
    epochs: float
    batch_size: int
    lr: float
    temperature: float
    longest: int
    seed: int

    def __post_init__(self) -> None:
        for name in ("epochs", "batch_size", "lr", "temperature", "longest"):
            if not getattr(self, name) > 0:
                raise BanyanError(f"{name} must be more than 0, not {getattr(self, name)}")


def fit(model: Any, text: tokens.Sentences, plan: Plan, work: Path, display: Display) -> dict[str, Any]:
    """Train the model in place and return the statistics. Resume from the checkpoint in `work`, if there is one."""
    loss_of = MultipleNegativesRankingLoss(model, scale=1 / plan.temperature)
    optimiser = devices.adam(model.parameters(), plan.lr)
    per_epoch = math.ceil(len(text) / plan.batch_size)
    steps = max(round(plan.epochs * per_epoch), 1)
    kept = _Checkpoints(work, model, optimiser, text.store.fingerprint)
    progress, batches, epoch = kept.progress, [], -1
    model.train()
    with display.bar("SimCSE", steps, "steps") as meter:
        for step in range(progress.step, steps):
            if step // per_epoch != epoch:
                epoch = step // per_epoch
                batches = tokens.by_length(text.lengths, plan.batch_size, plan.seed, epoch)
            torch.manual_seed(plan.seed * steps + step)  # for dropout
            for group in optimiser.param_groups:
                group["lr"] = plan.lr * (1 - step / steps)
            loss = _loss(loss_of, model.device, *text.batch(batches[step % per_epoch], plan.longest)[:2])
            optimiser.zero_grad(set_to_none=True)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimiser.step()
            value = loss.item()
            progress.loss_sum = value + (progress.loss_sum if step % per_epoch else 0.0)
            progress.step = step + 1
            meter(progress.step, None, {"loss": f"{value:.4f}"})
            kept.save_if_due()
    about = {"steps": steps, "seconds": round(kept.seconds, 1), "device": devices.described(model.device, "bf16")}
    return {**about, "sentences": len(text), "loss": progress.loss_sum / ((steps - 1) % per_epoch + 1)}


class _Checkpoints:
    """Restores the last checkpoint, and saves new ones at intervals."""

    def __init__(self, work: Path, model: Any, optimiser: torch.optim.Optimizer, data: str) -> None:
        self.model, self.optimiser = model, optimiser
        self.path, self.record, self.before = work / CHECKPOINT, work / RECORD, 0.0
        self.progress = resumed(self.path, model, optimiser, Progress(data=data))
        if self.progress.step:
            self.before = json.loads(self.record.read_text(encoding="utf-8"))["seconds"]
        self.started = self.saved = time.monotonic()

    @property
    def seconds(self) -> float:
        return self.before + time.monotonic() - self.started

    def save_if_due(self) -> None:
        if time.monotonic() - self.saved < CHECKPOINT_SECONDS:
            return
        files.write_text(self.record, json.dumps({"seconds": self.seconds}))
        checkpoint.save(self.path, self.model, self.optimiser, self.progress)
        self.saved = time.monotonic()


def _loss(loss_of: Any, device: torch.device, ids: np.ndarray, real: np.ndarray) -> Tensor:
    """The loss of a batch that is encoded twice."""
    features = {
        "input_ids": torch.from_numpy(ids).to(device),
        "attention_mask": torch.from_numpy(real.astype(np.int64)).to(device),
    }
    with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
        return loss_of([dict(features), dict(features)], None)


def load(folder: str | Path, *, device: str = "cpu") -> MeanPooled:
    return load_any(str(folder), device=device)
