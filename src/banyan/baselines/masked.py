"""Masked language modelling: one plain loop that takes a transformer through a tokenised corpus.

Order, masks and dropout are functions of the seed and the step, so that a run that was interrupted goes on as if it
had not been. On a GPU it computes in bfloat16 where that is safe (torch's autocast), without waiting for the device;
and since a step of a small transformer is a thousand small kernels, which take longer to start than to run, a step is
recorded for each shape of batch (a CUDA graph) and then played back.

The recipe is that of the paper's appendix where it says: Adam at 5e-5, a tenth of the steps to warm up, then linearly
down to 0. What it leaves open is as in transformers' Trainer and RoBERTa: no weight decay, gradients cut at norm 1, of
the 15% of tokens that are to be guessed 80% hidden, 10% replaced, 10% left.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from banyan.baselines.tokens import Sentences, by_length
from banyan.baselines.unfinished import CHECKPOINT, RECORD, STOPPED, go_on
from banyan.errors import BanyanError
from banyan.support import devices, files
from banyan.support.display import Display
from banyan.training import checkpoint
from banyan.training.checkpoint import Progress

SHARE, HIDDEN, REPLACED = 0.15, 0.8, 0.1
CLIP = 1.0
CHECKPOINT_SECONDS = 120.0
LOOKS = 100  # at the held-out text, in the course of a run
TIMED = 30  # steps that tell how many fit into a time
ROOM = 5  # deviations above their mean that the hidden tokens of a batch may be many, where a step is recorded
NOT_HIDDEN = -100  # cross_entropy's word for what does not count
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
        if not self.minutes >= 0:
            raise BanyanError(f"minutes must be 0 (for all steps) or more, not {self.minutes}")
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


class Given(NamedTuple):
    """A batch on the device."""

    seen: Tensor  # token ids [sentences, width]
    real: Tensor  # and not padding
    places: Tensor  # of the hidden tokens, among all
    hidden: Tensor  # what they are; NOT_HIDDEN where the place means nothing


class Run:
    """A transformer with a masked-word head on its way through a corpus.

    work: a folder for checkpoints. Where it holds one, this goes on from there, with the plan that it began with.
    record: its steps may be recorded: they never wait for the device, nor depend on what it computes.
    """

    def __init__(
        self,
        model: Any,
        sentences: Sentences,
        mask: int,
        plan: Plan,
        work: Path,
        device: torch.device,
        compile: bool,
        record: bool = False,
    ) -> None:
        self.plan, self.device, self.mask = plan, device, mask
        self.recorded: dict[tuple[int, ...], _Recorded | None] | None = None
        if record and device.type == "cuda":
            self._record_anew()
        self.model = model.to(device).train()
        if compile:
            for layer in max((part for part in model.modules() if isinstance(part, nn.ModuleList)), key=len):
                layer.compile(dynamic=True)  # they are alike: what is compiled for one serves all, and every width
        self.head = _head(model)
        self.text, self.held_out = sentences.parts(plan.seed)
        self.lengths = self.text.lengths
        self.epoch_steps = math.ceil(len(self.text) / plan.batch_size)
        self.epoch: tuple[int, list[np.ndarray]] = (-1, [])
        self.optimiser = devices.adam(self.model.parameters(), plan.lr, falls=True)
        self.work = work
        self.checkpoint, self.best = work / CHECKPOINT, work / "best.safetensors"
        self.record = work / RECORD
        self.progress = Progress(data=sentences.store.fingerprint)
        self.rows: list[dict[str, float]] = []  # step, loss since the last row, loss on held-out text
        self.seconds = 0.0
        self.state: dict[str, Any] = _read(self.record)
        if self.state:
            self._go_on()

    def _record_anew(self) -> None:
        self.recorded = {}  # by the shape of the batch; None: it was seen once
        self.pool: Any = torch.cuda.graph_pool_handle()  # one at a time is played: they share memory

    def _go_on(self) -> None:
        """From the checkpoint, or from the beginning, if there is none yet."""
        self.plan = Plan(**self.state["plan"])
        self.progress = go_on(self.checkpoint, self.model, self.optimiser, self.progress)
        if self.progress.step:
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
            raise KeyboardInterrupt(STOPPED) from None
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
        ids, real, text = self.text.batch(self._batch(step))
        rng = _rng(self.plan.seed, _MASKS, step)
        torch.manual_seed(int(rng.integers(2**62)))  # dropout's
        for group in self.optimiser.param_groups:
            _set_rate(group, self.plan.rate(step) if rate is None else rate)
        given = self._given(ids, real, text, rng)
        if self.recorded is None or len(given.hidden) != _room(given.seen):
            return self._learn(given)
        shape = tuple(given.seen.shape)
        if shape not in self.recorded:  # once as it is: what is made on first use must not be made in a recording
            self.recorded[shape] = None
            return self._learn(given)
        recorded = self.recorded[shape] = self.recorded[shape] or _Recorded(given, self._learn, self.pool)
        return recorded.play(given)

    def _learn(self, given: Given) -> Tensor:
        loss = self._loss(given)
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

    def _given(self, ids: np.ndarray, real: np.ndarray, text: np.ndarray, rng: np.random.Generator) -> Given:
        """The batch with tokens hidden; where steps are recorded, with as many places in each batch of a shape."""
        seen, chosen = hide(ids, text, self.mask, self.model.config.vocab_size, rng)
        places, hidden = np.flatnonzero(chosen), ids[chosen]
        more = 0 if self.recorded is None else max(_room(ids) - len(places), 0)
        places, hidden = np.pad(places, (0, more)), np.pad(hidden, (0, more), constant_values=NOT_HIDDEN)
        return Given(*(self._there(array) for array in (seen, real, places, hidden)))

    def _loss(self, given: Given) -> Tensor:
        """Mean cross-entropy of the hidden tokens. Only where one is hidden is there an output layer to compute."""
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.device.type == "cuda"):
            states = self.model.base_model(input_ids=given.seen, attention_mask=given.real.long()).last_hidden_state
            scores = self.head(states.flatten(0, 1)[given.places])
        return cross_entropy(scores.float(), given.hidden, ignore_index=NOT_HIDDEN)

    def _there(self, array: np.ndarray) -> Tensor:
        tensor = torch.from_numpy(array)
        return tensor.pin_memory().to(self.device, non_blocking=True) if self.device.type == "cuda" else tensor

    def _fitting(self) -> int:
        """How many steps fit into the minutes. Those that are timed, all over an epoch, learn at rate 0."""
        for _ in range(3):  # the first round compiles and fills caches, the second records
            started = time.monotonic()
            steps = np.linspace(0, self.epoch_steps - 1, TIMED).astype(int)
            torch.stack([self._step(int(step), rate=0.0) for step in steps]).tolist()
            seconds = time.monotonic() - started
        self.optimiser.state.clear()
        if self.recorded is not None:  # steps with that state
            self._record_anew()
        return max(int(0.95 * 60 * self.plan.minutes * TIMED / seconds), 1)  # looks take their time, too

    @torch.no_grad()
    def _look(self, loss: float) -> None:
        """At the held-out text, always with the same tokens hidden."""
        self.model.eval()
        order, losses = np.argsort(self.held_out.lengths, kind="stable"), []
        for number, start in enumerate(range(0, len(order), self.plan.batch_size)):
            batch = self.held_out.batch(order[start : start + self.plan.batch_size])
            losses.append(self._loss(self._given(*batch, _rng(self.plan.seed, _HELD_OUT, number))))
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


class _Recorded:
    """A step as a CUDA graph, and the batch that it learns from."""

    def __init__(self, given: Given, learn: Callable[[Given], Tensor], pool: Any) -> None:
        self.given = Given(*(tensor.clone() for tensor in given))
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, pool=pool):
            self.loss = learn(self.given)

    def play(self, given: Given) -> Tensor:
        for own, new in zip(self.given, given, strict=True):
            own.copy_(new, non_blocking=True)
        self.graph.replay()
        return self.loss.clone()


def _room(ids: np.ndarray | Tensor) -> int:
    """Places for hidden tokens in a batch of this shape: it hardly ever needs more."""
    mean = SHARE * math.prod(ids.shape)
    return math.ceil((mean + ROOM * mean**0.5) / 8) * 8


def _set_rate(group: dict[str, Any], rate: float) -> None:
    if isinstance(group["lr"], Tensor):
        group["lr"].fill_(rate)
    else:
        group["lr"] = rate


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
