"""Masked language modelling: one plain loop that takes a transformer through a tokenised corpus.

Order, masks and dropout are functions of the seed and the step, so that a run that was interrupted goes on as if it
had not been. On a GPU it computes in bfloat16 where that is safe (torch's autocast), without waiting for the device.

The recipe is that of the paper's appendix where it says: Adam at 5e-5, a tenth of the steps to warm up, then linearly
down to 0. What it leaves open is as in transformers' Trainer and RoBERTa: no weight decay, gradients cut at norm 1, of
the 15% of tokens that are to be guessed 80% hidden, 10% replaced, 10% left.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from banyan import checkpoint, devices, files
from banyan.baselines.tokens import Sentences, by_length
from banyan.checkpoint import Progress
from banyan.display import Display
from banyan.errors import BanyanError

SHARE, HIDDEN, REPLACED = 0.15, 0.8, 0.1
CLIP = 1.0
CHECKPOINT_SECONDS = 120.0
LOOKS = 100  # at the held-out text, in the course of a run
TIMED = 30  # steps that tell how many fit into a time
_MASKS, _HELD_OUT = 1, 2  # what randomness is for


@dataclass(frozen=True)
class Plan:
    """What decides the result. `minutes` is there to decide `steps`, once, when the run begins."""

    steps: int
    minutes: float  # 0: as many as `steps` take
    batch_size: int
    lr: float
    warmup: float  # share of the steps
    patience: int  # looks at the held-out text without improvement before it stops; 0: it never does
    seed: int

    def __post_init__(self) -> None:
        for name in ("steps", "batch_size", "lr"):
            if not getattr(self, name) > 0:
                raise BanyanError(f"{name} must be more than 0, not {getattr(self, name)}")
        if not 0 <= self.warmup < 1:
            raise BanyanError(f"warmup is a share of the steps, from 0 to below 1, not {self.warmup}")

    def rate(self, step: int) -> float:
        """Of learning, at a step counted from 0: up, then down, in straight lines."""
        warm = round(self.warmup * self.steps)
        return self.lr * ((step + 1) / warm if step < warm else (self.steps - step) / (self.steps - warm))


def hide(
    ids: np.ndarray, text: np.ndarray, mask: int, vocabulary: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """The tokens as the model sees them, and which of them it has to guess; at least one."""
    draw = np.where(text, rng.random(ids.shape), 1.0)
    chosen = draw < max(SHARE, np.nextafter(draw.min(), 1))
    how = rng.random(ids.shape)
    seen = np.where(chosen & (how < HIDDEN), mask, ids)
    replaced = chosen & (how >= 1 - REPLACED)
    seen[replaced] = rng.integers(0, vocabulary, replaced.sum())
    return seen, chosen


class Run:
    """A transformer with a masked-word head on its way through a corpus.

    work: a folder for checkpoints. Where it holds one, this goes on from there, with the plan that it began with.
    """

    def __init__(
        self, model: Any, sentences: Sentences, mask: int, plan: Plan, work: Path, device: torch.device, compile: bool
    ) -> None:
        self.plan, self.device, self.mask = plan, device, mask
        self.model = model.to(device).train()
        self.encoder = torch.compile(model.base_model, dynamic=True) if compile else model.base_model
        self.head = _head(model)
        self.text, self.held_out = sentences.parts(plan.seed)
        self.lengths = self.text.lengths
        self.epoch_steps = math.ceil(len(self.text) / plan.batch_size)
        self.epoch: tuple[int, list[np.ndarray]] = (-1, [])
        self.optimiser = devices.adam(self.model.parameters(), plan.lr)
        self.work = work
        self.checkpoint, self.best = work / "checkpoint.safetensors", work / "best.safetensors"
        self.record = work / "run.json"
        self.progress = Progress(data=sentences.store.fingerprint)
        self.rows: list[dict[str, float]] = []  # step, loss since the last row, loss on held-out text
        self.seconds = 0.0
        self.state: dict[str, Any] = _read(self.record)
        if self.state:
            self._go_on()

    def _go_on(self) -> None:
        """From the checkpoint, or from the beginning, if there is none yet."""
        self.plan = Plan(**self.state["plan"])
        if self.checkpoint.exists():
            data = self.progress.data
            self.progress = checkpoint.load(self.checkpoint, self.model, self.optimiser)
            if self.progress.data != data:
                raise BanyanError(f"the text of the run in {self.work.parent} has changed: remove it to start again")
            self.rows = [row for row in self.state["rows"] if row["step"] <= self.progress.step]
            self.seconds = self.state["seconds"]

    def go(self, display: Display, checkpoint_seconds: float = CHECKPOINT_SECONDS) -> dict[str, Any]:
        """All steps that are left; then what there is to say about them. The model has the weights that are best."""
        if not self.state:
            if self.plan.minutes:
                display.note("timing a few steps, which count for nothing")
                self.plan = replace(self.plan, steps=min(self.plan.steps, self._fitting()))
            self._write_record()
        if self.progress.step:
            display.note(f"going on after step {self.progress.step:,}")
        where = devices.described(self.device, "bf16")
        display.note(f"{self.plan.steps:,} steps of {self.plan.batch_size} sentences on {where}")
        saved = time.monotonic()
        try:
            with display.bar("training", self.plan.steps, "steps") as meter:
                for losses in self._windows(saved - self.seconds):
                    meter(self.progress.step, None, self._figures(losses))
                    if time.monotonic() - saved > checkpoint_seconds:
                        self.save()
                        saved = time.monotonic()
        except KeyboardInterrupt:  # in the middle of a step, which therefore is not saved
            raise KeyboardInterrupt("stopped; the same command goes on from the last checkpoint") from None
        return self._finish()

    def _windows(self, started: float) -> Iterator[list[float]]:
        """Trains; yields the losses of some steps at a time, because to ask a device for them is to wait for it."""
        every = max(self.plan.steps // LOOKS, 1)
        since: list[float] = []
        while self.progress.step < self.plan.steps and not self._stale():
            next_look = min((self.progress.step // every + 1) * every, self.plan.steps)
            stop = min(self.progress.step + devices.window(self.device), next_look)
            losses = torch.stack([self._step(step) for step in range(self.progress.step, stop)]).tolist()
            if not all(map(math.isfinite, losses)):
                raise BanyanError(f"the loss became {losses[-1]} by step {stop:,}: start again with a lower lr")
            since += losses
            self.progress.step, self.seconds = stop, time.monotonic() - started
            if stop == next_look:
                self._look(sum(since) / len(since))
                since = []
            yield losses

    def _step(self, step: int, rate: float | None = None) -> Tensor:
        batch = self._batch(step)
        rng = _rng(self.plan.seed, _MASKS, step)
        torch.manual_seed(int(rng.integers(2**62)))  # dropout's
        for group in self.optimiser.param_groups:
            group["lr"] = self.plan.rate(step) if rate is None else rate
        loss = self._loss(*self.text.batch(batch), rng)
        self.optimiser.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), CLIP)
        self.optimiser.step()
        return loss.detach()

    def _batch(self, step: int) -> np.ndarray:
        epoch, number = divmod(step, self.epoch_steps)
        if epoch != self.epoch[0]:
            self.epoch = epoch, by_length(self.lengths, self.plan.batch_size, self.plan.seed, epoch)
        return self.epoch[1][number]

    def _loss(self, ids: np.ndarray, real: np.ndarray, text: np.ndarray, rng: np.random.Generator) -> Tensor:
        """Mean cross-entropy of the hidden tokens. Only where one is hidden is there an output layer to compute."""
        seen, chosen = hide(ids, text, self.mask, self.model.config.vocab_size, rng)
        given, padding, places, hidden = (
            self._there(array) for array in (seen, real, np.flatnonzero(chosen), ids[chosen])
        )
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.device.type == "cuda"):
            states = self.encoder(input_ids=given, attention_mask=padding.long()).last_hidden_state
            scores = self.head(states.flatten(0, 1)[places])
        return cross_entropy(scores.float(), hidden)

    def _there(self, array: np.ndarray) -> Tensor:
        tensor = torch.from_numpy(array)
        return tensor.pin_memory().to(self.device, non_blocking=True) if self.device.type == "cuda" else tensor

    def _fitting(self) -> int:
        """How many steps fit into the minutes. Those that are timed, all over an epoch, learn at rate 0."""
        for _ in range(2):  # the first round compiles, and fills caches
            started = time.monotonic()
            steps = np.linspace(0, self.epoch_steps - 1, TIMED).astype(int)
            torch.stack([self._step(int(step), rate=0.0) for step in steps]).tolist()
            seconds = time.monotonic() - started
        self.optimiser.state.clear()
        return max(int(0.95 * 60 * self.plan.minutes * TIMED / seconds), 1)  # looks take their time, too

    @torch.no_grad()
    def _look(self, loss: float) -> None:
        """At the held-out text, always with the same tokens hidden."""
        self.model.eval()
        order, losses = np.argsort(self.held_out.lengths, kind="stable"), []
        for number, start in enumerate(range(0, len(order), self.plan.batch_size)):
            batch = self.held_out.batch(order[start : start + self.plan.batch_size])
            losses.append(self._loss(*batch, _rng(self.plan.seed, _HELD_OUT, number)))
        self.model.train()
        self.rows.append({"step": self.progress.step, "loss": loss, "dev_loss": torch.stack(losses).mean().item()})
        if self.plan.patience:
            if min(self.rows, key=_dev_loss) is self.rows[-1]:
                weights = {name: weight.detach().cpu() for name, weight in self.model.named_parameters()}
                with files.atomic(self.best) as temporary:
                    save_file(weights, temporary)
            self.save()

    def _stale(self) -> bool:
        """Whether the held-out text has not become any more likely for too long."""
        best = self.rows.index(min(self.rows, key=_dev_loss)) if self.rows else 0
        return bool(self.plan.patience) and len(self.rows) - 1 - best >= self.plan.patience

    def save(self) -> None:
        checkpoint.save(self.checkpoint, self.model, self.optimiser, self.progress)
        self._write_record()

    def _write_record(self) -> None:
        self.state = {"plan": asdict(self.plan), "rows": self.rows, "seconds": self.seconds}
        files.write_text(self.record, json.dumps(self.state))

    def _figures(self, losses: list[float]) -> dict[str, str]:
        dev = {"held out": f"{self.rows[-1]['dev_loss']:.3f}"} if self.rows else {}
        return {"loss": f"{sum(losses) / len(losses):.3f}", **dev}

    @torch.no_grad()
    def _finish(self) -> dict[str, Any]:
        kept = self.progress.step
        if self.plan.patience:
            kept = int(min(self.rows, key=_dev_loss)["step"])
            best = load_file(self.best)
            for name, weight in self.model.named_parameters():
                weight.copy_(best[name])
        self.model.eval()
        embedding = self.model.get_input_embeddings().weight.numel()
        return {
            "steps": self.progress.step,
            "steps planned": self.plan.steps,
            "steps kept": kept,
            "seconds": round(self.seconds, 1),
            "device": devices.described(self.device, "bf16"),
            "sentences": len(self.text),
            "tokens": int(self.lengths.sum()),
            "epochs": round(self.progress.step / self.epoch_steps, 2),
            "parameters": sum(weight.numel() for weight in self.model.parameters()),
            "parameters beside the embedding": sum(weight.numel() for weight in self.model.parameters()) - embedding,
            "losses": self.rows,
        }


def _head(model: Any) -> nn.Module:
    """What makes scores of hidden states."""
    for name in ("lm_head", "cls"):
        if hasattr(model, name):
            return getattr(model, name)
    raise BanyanError(f"{type(model).__name__} has no masked-word head that is known here: RoBERTa, XLM-R and BERT do")


def _rng(seed: int, use: int, number: int) -> np.random.Generator:
    return np.random.Generator(np.random.Philox(np.random.SeedSequence([seed, use, number])))


def _dev_loss(row: dict[str, float]) -> float:
    return row["dev_loss"]


def _read(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
