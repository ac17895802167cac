"""Masked language modelling: a training loop for a transformer on a tokenised corpus.

The order of the batches, the masks and the dropout are functions of the seed and the step, so a resumed run continues
exactly. On a GPU, training uses bfloat16 autocast. A step of a small transformer is about a thousand small kernels that
take longer to launch than to run, so the step is captured in one CUDA graph per batch shape and replayed.

The paper's appendix gives Adam with a learning rate of 5e-5, warmup over a tenth of the steps, and linear decay to 0.
The rest is as in transformers' Trainer and RoBERTa: no weight decay, gradients clipped to norm 1, and of the 15% of
tokens to predict, 80% are masked, 10% are replaced by random tokens and 10% are left unchanged.
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
from banyan.baselines.unfinished import CHECKPOINT, RECORD, STOPPED, resumed
from banyan.errors import BanyanError
from banyan.support import devices, files
from banyan.support.display import Display
from banyan.training import checkpoint
from banyan.training.checkpoint import Progress

PREDICTED, MASKED, REPLACED = 0.15, 0.8, 0.1
CLIP = 1.0
CHECKPOINT_SECONDS = 120.0
EVALUATIONS = 100  # of the held-out loss, in a full run
TIMED = 30  # steps timed to find how many fit in a time limit
ROOM = 5  # standard deviations above the mean number of targets for which a captured step has room
IGNORED = -100  # the target that cross_entropy ignores
_MASKS, _HELD_OUT = 1, 2  # random streams


@dataclass(frozen=True)
class Plan:
    """The settings that determine the result. `minutes` lowers `steps` once, when the run begins."""

    steps: int
    minutes: float  # 0: no limit
    batch_size: int
    lr: float
    warmup: float  # fraction of the steps
    patience: int  # stop after this many evaluations without improvement; 0: never
    seed: int

    def __post_init__(self) -> None:
        for name in ("steps", "batch_size", "lr"):
            if not getattr(self, name) > 0:
                raise BanyanError(f"{name} must be more than 0, not {getattr(self, name)}")
        if not self.minutes >= 0:
            raise BanyanError(f"minutes must be 0 (no limit) or more, not {self.minutes}")
        if not 0 <= self.warmup < 1:
            raise BanyanError(f"warmup is a fraction of the steps and must be in [0, 1), not {self.warmup}")

    def rate(self, step: int) -> float:
        """The learning rate at a step, counted from 0: linear warmup, then linear decay."""
        warm = round(self.warmup * self.steps)
        return self.lr * ((step + 1) / warm if step < warm else (self.steps - step) / (self.steps - warm))


def mask_tokens(
    ids: np.ndarray, text: np.ndarray, mask: int, vocabulary: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """The tokens with some of them masked, and which of them to predict: at least one."""
    draw = np.where(text, rng.random(ids.shape), 1.0)
    chosen = draw < max(PREDICTED, np.nextafter(draw.min(), 1))
    how = rng.random(ids.shape)
    seen = np.where(chosen & (how < MASKED), mask, ids)
    replaced = chosen & (how >= 1 - REPLACED)
    seen[replaced] = rng.integers(0, vocabulary, replaced.sum())
    return seen, chosen


class MaskedBatch(NamedTuple):
    """A batch on the device."""

    ids: Tensor  # [sentences, width], some of them masked
    real: Tensor  # False for padding
    places: Tensor  # indices of the tokens to predict, in the flattened batch
    targets: Tensor  # their ids; IGNORED for places that only fill up the shape


class MaskedTrainer:
    """The training of a transformer with a masked-language-model head.

    work: a folder for checkpoints. If it holds one, the run resumes from it with its original plan.
    capture: steps may be captured in CUDA graphs: the model neither waits for the device nor branches on values.
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
        capture: bool = False,
    ) -> None:
        self.plan, self.device, self.mask = plan, device, mask
        self.captured: dict[tuple[int, ...], _CapturedStep | None] | None = None
        if capture and device.type == "cuda":
            self._start_capturing()
        self.model = model.to(device).train()
        if compile:
            for layer in max((part for part in model.modules() if isinstance(part, nn.ModuleList)), key=len):
                layer.compile(dynamic=True)  # the layers are alike, so one compilation serves all of them
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
        self.rows: list[dict[str, float]] = []  # step, mean training loss since the last row, held-out loss
        self.seconds = 0.0
        self.state: dict[str, Any] = _read(self.record)
        if self.state:
            self._resume()

    def _start_capturing(self) -> None:
        self.captured = {}  # by batch shape; None: the shape has run once
        self.pool: Any = torch.cuda.graph_pool_handle()  # the graphs never run together, so they share memory

    def _resume(self) -> None:
        """Restore the checkpoint, if there is one."""
        self.plan = Plan(**self.state["plan"])
        self.progress = resumed(self.checkpoint, self.model, self.optimiser, self.progress)
        if self.progress.step:
            self.rows = [row for row in self.state["rows"] if row["step"] <= self.progress.step]
            self.seconds = self.state["seconds"]

    def run(self, display: Display, checkpoint_seconds: float = CHECKPOINT_SECONDS) -> dict[str, Any]:
        """Run the remaining steps and return the statistics. With patience, the model ends with its best weights."""
        if not self.state:
            if self.plan.minutes:
                display.note("timing a few steps")
                self.plan = replace(self.plan, steps=min(self.plan.steps, self._steps_that_fit()))
            self._write_record()
        if self.progress.step:
            display.note(f"resuming after step {self.progress.step:,}")
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
        except KeyboardInterrupt:  # in the middle of a step, so the state cannot be saved
            raise KeyboardInterrupt(STOPPED) from None
        return self._finish()

    def _windows(self, started: float) -> Iterator[list[float]]:
        """Train; yield the losses of several steps at a time, because reading them waits for the device."""
        every = max(self.plan.steps // EVALUATIONS, 1)
        since: list[float] = []
        while self.progress.step < self.plan.steps and not self._out_of_patience():
            next_evaluation = min((self.progress.step // every + 1) * every, self.plan.steps)
            stop = min(self.progress.step + devices.window(self.device), next_evaluation)
            losses = torch.stack([self._step(step) for step in range(self.progress.step, stop)]).tolist()
            if not all(map(math.isfinite, losses)):
                raise BanyanError(f"the loss is {losses[-1]} at step {stop:,}: start again with a lower lr")
            since += losses
            self.progress.step, self.seconds = stop, time.monotonic() - started
            if stop == next_evaluation:
                self._evaluate(sum(since) / len(since))
                since = []
            yield losses

    def _step(self, step: int, rate: float | None = None) -> Tensor:
        ids, real, text = self.text.batch(self._batch(step))
        rng = _rng(self.plan.seed, _MASKS, step)
        torch.manual_seed(int(rng.integers(2**62)))  # for dropout
        for group in self.optimiser.param_groups:
            _set_rate(group, self.plan.rate(step) if rate is None else rate)
        batch = self._masked(ids, real, text, rng)
        if self.captured is None or len(batch.targets) != _room(batch.ids):
            return self._train_on(batch)
        shape = tuple(batch.ids.shape)
        if shape not in self.captured:  # run it once uncaptured: what is allocated on first use must not be captured
            self.captured[shape] = None
            return self._train_on(batch)
        captured = self.captured[shape] = self.captured[shape] or _CapturedStep(batch, self._train_on, self.pool)
        return captured.replay(batch)

    def _train_on(self, batch: MaskedBatch) -> Tensor:
        loss = self._loss(batch)
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

    def _masked(self, ids: np.ndarray, real: np.ndarray, text: np.ndarray, rng: np.random.Generator) -> MaskedBatch:
        """Mask a batch. If steps are captured, pad the targets to a number that depends only on the batch shape."""
        seen, chosen = mask_tokens(ids, text, self.mask, self.model.config.vocab_size, rng)
        places, targets = np.flatnonzero(chosen), ids[chosen]
        more = 0 if self.captured is None else max(_room(ids) - len(places), 0)
        places, targets = np.pad(places, (0, more)), np.pad(targets, (0, more), constant_values=IGNORED)
        return MaskedBatch(*(self._to_device(array) for array in (seen, real, places, targets)))

    def _loss(self, batch: MaskedBatch) -> Tensor:
        """Mean cross-entropy of the targets. The output layer is computed only at their places."""
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.device.type == "cuda"):
            states = self.model.base_model(input_ids=batch.ids, attention_mask=batch.real.long()).last_hidden_state
            scores = self.head(states.flatten(0, 1)[batch.places])
        return cross_entropy(scores.float(), batch.targets, ignore_index=IGNORED)

    def _to_device(self, array: np.ndarray) -> Tensor:
        tensor = torch.from_numpy(array)
        return tensor.pin_memory().to(self.device, non_blocking=True) if self.device.type == "cuda" else tensor

    def _steps_that_fit(self) -> int:
        """How many steps fit into the minutes. The timed steps, spread over an epoch, have a learning rate of 0."""
        for _ in range(3):  # the first round compiles and fills caches, the second captures
            started = time.monotonic()
            steps = np.linspace(0, self.epoch_steps - 1, TIMED).astype(int)
            torch.stack([self._step(int(step), rate=0.0) for step in steps]).tolist()
            seconds = time.monotonic() - started
        self.optimiser.state.clear()
        if self.captured is not None:  # the captured steps hold the state just cleared
            self._start_capturing()
        return max(int(0.95 * 60 * self.plan.minutes * TIMED / seconds), 1)  # 5% is left for evaluation

    @torch.no_grad()
    def _evaluate(self, loss: float) -> None:
        """Add a row with the held-out loss, which always uses the same masks; with patience, keep the best weights."""
        self.model.eval()
        order, losses = np.argsort(self.held_out.lengths, kind="stable"), []
        for number, start in enumerate(range(0, len(order), self.plan.batch_size)):
            batch = self.held_out.batch(order[start : start + self.plan.batch_size])
            losses.append(self._loss(self._masked(*batch, _rng(self.plan.seed, _HELD_OUT, number))))
        self.model.train()
        self.rows.append({"step": self.progress.step, "loss": loss, "dev_loss": torch.stack(losses).mean().item()})
        if self.plan.patience:
            if min(self.rows, key=_dev_loss) is self.rows[-1]:
                weights = {name: weight.detach().cpu() for name, weight in self.model.named_parameters()}
                with files.atomic(self.best) as temporary:
                    save_file(weights, temporary)
            self.save()

    def _out_of_patience(self) -> bool:
        """Whether the held-out loss has not improved for `patience` evaluations."""
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


class _CapturedStep:
    """A training step as a CUDA graph, with its input tensors."""

    def __init__(self, batch: MaskedBatch, train_on: Callable[[MaskedBatch], Tensor], pool: Any) -> None:
        self.batch = MaskedBatch(*(tensor.clone() for tensor in batch))
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, pool=pool):
            self.loss = train_on(self.batch)

    def replay(self, batch: MaskedBatch) -> Tensor:
        for own, new in zip(self.batch, batch, strict=True):
            own.copy_(new, non_blocking=True)
        self.graph.replay()
        return self.loss.clone()


def _room(ids: np.ndarray | Tensor) -> int:
    """The number of targets to allocate for a batch of this shape; it is rarely exceeded."""
    mean = PREDICTED * math.prod(ids.shape)
    return math.ceil((mean + ROOM * mean**0.5) / 8) * 8


def _set_rate(group: dict[str, Any], rate: float) -> None:
    if isinstance(group["lr"], Tensor):
        group["lr"].fill_(rate)
    else:
        group["lr"] = rate


def _head(model: Any) -> nn.Module:
    """The head that maps hidden states to scores of tokens."""
    for name in ("lm_head", "cls"):
        if hasattr(model, name):
            return getattr(model, name)
    raise BanyanError(
        f"{type(model).__name__} has no known masked-language-model head; RoBERTa, XLM-R and BERT have one"
    )


def _rng(seed: int, use: int, number: int) -> np.random.Generator:
    return np.random.Generator(np.random.Philox(np.random.SeedSequence([seed, use, number])))


def _dev_loss(row: dict[str, float]) -> float:
    return row["dev_loss"]


def _read(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
