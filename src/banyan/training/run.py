"""The training loop. It can be killed at any moment and resumed.

All randomness is a function of the seed and the step, and every sum has a fixed order. A resumed run therefore ends in
the same bits as one that was never interrupted (on the same machine, with the same number of threads and processes; on
a GPU, with deterministic=True).

Steps run in windows. An accelerator gets a window of steps at once, and the loop reads their metrics afterwards,
because reading waits for the device. Metrics, checkpoints and stopping happen between windows. With several processes,
each takes its share of every step, and the first one writes files and messages.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import astuple, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from banyan.config import Config
from banyan.corpus.store import Store, even_batches, shuffled_batches
from banyan.encoder import WEIGHTS, Banyan
from banyan.errors import BanyanError
from banyan.evaluate.similarity import Pairs, spearman
from banyan.model import BanyanModel, crops, objective
from banyan.model.dropout import NO_DROPOUT, Dropout
from banyan.model.graph import runs_of_tokens
from banyan.model.weights import LARGEST
from banyan.support import devices
from banyan.support.display import COMPILING, Display, duration
from banyan.tokenizer import Tokenizer
from banyan.training import checkpoint, standing, writing
from banyan.training.checkpoint import Progress
from banyan.training.distributed import Processes
from banyan.training.epochs import suitable_epochs
from banyan.training.folder import METRICS, Given, RunFolder
from banyan.training.interrupts import Interrupted, interrupts
from banyan.training.lessons import Lessons
from banyan.training.metrics import Metrics, Pace, epoch_line, estimate, read_rows, tensorboard_writer
from banyan.training.passages import HELD_OUT, Part, of_lessons, parts, sizes_of
from banyan.training.row_adam import optimiser_of

if TYPE_CHECKING:
    from banyan.training.gpu_steps import Steps as GpuSteps

WORTH_WRITING = 5  # seconds since the last model at the end of an epoch


class _Loss(nn.Module):
    """The loss of a step, and its parts; a module, so that torch can average gradients over processes."""

    def __init__(self, model: BanyanModel) -> None:
        super().__init__()
        self.model = model

    def forward(self, graph: Any, dropout: Dropout, targets: Tensor | None) -> tuple[Tensor, Tensor]:
        return objective.losses(self.model, self.model(graph, dropout), targets)


class Run:
    """One training run: a model, its data, and how far it has come."""

    def __init__(
        self,
        folder: RunFolder,
        model: BanyanModel,
        tokenizer: Tokenizer,
        store: Store,
        dev: Store | None,
        pairs: Pairs | None,
        share: int,
        summary: str,
        display: Display,
        us: Processes,
        lessons: Lessons | None = None,
        given_weights: bool = False,
    ) -> None:
        self.folder, self.out, self.us = folder, folder.out, us
        self.config, self.model, self.tokenizer = model.config, model, tokenizer
        self.display, self.pairs, self.summary, self.lessons = display, pairs, summary, lessons
        self.share = share  # passages per step in this process
        self.cut = crops.cut(self.config)
        self.terms = objective.terms(self.config)
        self.device = model.embedding.device
        self.text, held_out = self._parts(store, dev)
        self.train_part = self.text.passages(self.config, 0)
        self.dev_part = held_out.passages(self.config, HELD_OUT) if held_out else None
        self.optimiser = optimiser_of(model, us.several)
        data = (lessons.fingerprint if lessons else store.fingerprint) + (dev.fingerprint if dev else "")
        self.progress = Progress(data=data, even_batches=True, term_sums=[0.0] * len(self.terms))
        self.best: dict[str, Tensor] = {}  # the weights of the best epoch, if they are kept
        self.taught_by: dict[str, Any] | None = None  # as in Banyan
        self.given: Given | None = None  # for the model card
        if folder.checkpoint.exists():
            self.progress = checkpoint.load(folder.checkpoint, model, self.optimiser)
            if self.progress.data != data and us.first:  # checkpoints hold the first process's fingerprint
                raise BanyanError(f"the corpus of the run in {self.out} has changed: --overwrite starts over")
            if self.config.epochs and self.progress.epoch > self.config.epochs:
                done = self.progress.epoch
                raise BanyanError(f"{self.out} has had {done} epochs already: ask for more, or leave epochs out")
            self.best = checkpoint.best_weights(folder.checkpoint)
            display.note(f"resuming after step {self.progress.step:,} ({self.progress.epoch} epochs finished)")
        elif us.first and not given_weights:  # the other processes get its weights before they begin
            self._initialise()
        self.metrics = Metrics(self.out / METRICS, self.progress.metrics_bytes) if us.first else None
        self.gpu: GpuSteps | None = None
        self.seconds = 0.0

    def _parts(self, store: Store, dev: Store | None) -> tuple[Any, Any]:
        """The text to train on, and the held-out text: each a Part, or what takes its place."""
        if self.lessons:
            return of_lessons(store, self.config, self.us.rank, self.us.world)
        return parts(store, dev, self.config, hold_out=self.us.first)  # only the first process evaluates

    @torch.no_grad()
    def _initialise(self) -> None:
        """Initialise token vectors and lexical sketches from statistics of the corpus, and from a teacher."""
        from banyan.training import beginning

        config, pieces = self.config, self.tokenizer.pieces
        with self.display.patience("counting which tokens occur together", 1):
            beginning.count_leaves(self.model, pieces, self.text, self._counting())
        if self.lessons is None:
            return
        store = self.text.store
        if self.lessons.pieces is not None:
            leaves = beginning.from_pieces(self.lessons.pieces, np.asarray(store.tokens), config.seed)
        else:
            leaves = beginning.mapped(self.model.embedding.cpu().numpy(), store, self.lessons.vectors)
        self.model.embedding.copy_(torch.from_numpy(leaves))

    def _counting(self) -> torch.device:
        """The device that counts which tokens occur together: the GPU, if it is CUDA's. Other accelerators have no
        sparse matrices, and a deterministic run counts on the CPU."""
        repeatable = torch.are_deterministic_algorithms_enabled()
        return self.device if self.device.type == "cuda" and not repeatable else torch.device("cpu")

    def start_from(self, weights: dict[str, np.ndarray]) -> None:
        """Start from the weights of a finished model, unless this run has already begun."""
        with torch.no_grad():
            for name, parameter in self.model.named_parameters():
                if name in weights and self.progress.step == 0:
                    parameter.copy_(torch.from_numpy(weights[name]))

    def measure_beginning(self, sentences: Iterable[str]) -> None:
        """Before the first step, measure the model and TF-IDF of characters on the pairs, to compare the epochs with.

        sentences: the training text."""
        if self.pairs is None or self.metrics is None or self.progress.metrics_bytes:
            return
        row, note = standing.before_training(self.banyan().encode, sentences, self.pairs)
        self._log(row, None)
        self.display.note(note)

    def go(self, checkpoint_seconds: float, tensorboard: bool) -> None:
        """Train for the remaining epochs."""
        self.epoch_steps = self._steps_of_an_epoch()
        self.loss = self._averaged(_Loss(self.model))
        self.gpu = self._gpu_steps() if self.model.backend.on_device else None
        self.epochs = self.config.epochs or suitable_epochs(self._steps_over_sentences(), self.config)
        steps = self.epochs * self.epoch_steps
        self._tell_what_is_ahead(steps)
        self.saved = self.written = started = time.monotonic()
        with ExitStack() as stack:
            with self.us.together():
                board = None
                if tensorboard and self.us.first:
                    board = stack.enter_context(closing(tensorboard_writer(self.out)))
            asked = stack.enter_context(interrupts())
            first_step = stack.enter_context(self.display.patience(COMPILING, 5))
            meter = Pace(stack.enter_context(self.display.bar("training", steps, "steps")), self.epochs)
            while not self._is_done():
                self._begin_epoch()
                for window, following in pairwise([*self._windows(), []]):
                    rows, stop = self._window(window, following, asked)
                    first_step.cancel()
                    with self.us.together():
                        for row in rows:
                            self._count(row, board)
                        meter.show(rows)
                        if stop or time.monotonic() - self.saved > checkpoint_seconds:
                            self._save()
                        if stop:
                            self._write(self._unfinished())
                    if stop:
                        raise self._stopped()
                with self.us.together():
                    self._end_of_epoch(board, min(checkpoint_seconds, WORTH_WRITING))
                self._agree_on_best()
        self.seconds = time.monotonic() - started

    def _is_done(self) -> bool:
        return self.progress.epoch >= self.epochs

    def _steps_of_an_epoch(self) -> int:
        """The number of steps of the first epoch. The others take as many, although their passages differ."""
        steps = math.ceil(len(self.train_part) / self.share)
        if not self.progress.even_batches:
            return self.us.least(steps)
        fewest = self.text.fewest_passages(self.config.passage_sentences)
        return min(self.us.most(steps), self.us.least(fewest))  # every process has a batch in every step

    def _steps_over_sentences(self) -> int:
        """The steps that an epoch would take if every sentence were a passage. The number of epochs depends on them:
        passages need no more epochs than the same text cut into sentences."""
        sentences, passages = self.us.total([int(self.text.counts.sum()), len(self.train_part)])
        return max(1, round(self.epoch_steps * sentences / passages))

    def _begin_epoch(self) -> None:
        self.train_part = self.text.passages(self.config, self.progress.epoch)
        self.size_changes = self._size_changes()
        if self.gpu:
            self.gpu.store.part = self.train_part

    def _size_changes(self) -> set[int]:
        """The batches of an epoch at which the batch size of some process changes. Windows end there in all processes,
        because they exchange metrics after each window."""
        own = len(self.train_part) % self.epoch_steps if self.progress.even_batches else self.epoch_steps - 1
        changes = self.us.total([own * (rank == self.us.rank) for rank in range(self.us.world)])
        return {int(change) for change in changes}

    def _tell_what_is_ahead(self, steps: int) -> None:
        sentences, paragraphs = self.us.total([self.text.counts.sum(), len(self.text)])
        held_out = ", none held out (too few sentences)"
        if self.dev_part:
            held_out = f", {self.dev_part.counts.sum():,} held out"
        if paragraphs < sentences:
            held_out = f" in {paragraphs:,.0f} paragraphs{held_out}"
        where = devices.described(self.device, self.model.precision)
        processes = f" in each of {self.us.world} processes" if self.us.several else ""
        processes += estimate(self.config, self.text.spans()[1].sum() * self.epochs, self.device.type)
        self.display.note(f"training on {sentences:,.0f} sentences{held_out}: {steps:,} steps on {where}{processes}")

    def _averaged(self, loss: _Loss) -> nn.Module:
        """The loss, with gradients averaged over the processes."""
        if not self.us.several:
            return loss
        averaged = nn.parallel.DistributedDataParallel(loss, gradient_as_bucket_view=True)
        # Its first backward pass reduces gradients in a different order from all later ones. A dummy pass comes first,
        # so that a resumed run gives the same bits as an uninterrupted one.
        for graph, targets in self._graphs(self.train_part, [np.arange(1)], [NO_DROPOUT], self.cut):
            averaged(graph, NO_DROPOUT, targets)[0].backward()
        self.optimiser.zero_grad(set_to_none=True)
        return averaged

    def _gpu_steps(self) -> GpuSteps | None:
        """Recorded steps, for devices that run our GPU kernels. Without them, the host drives every step."""
        from banyan.training.gpu_steps import Steps
        from banyan.training.gpu_windows import DeviceStore, Room

        plain = self.config.trees == "plain"
        given = self.train_part, self.tokenizer.vocab_size, self.device, plain, self.cut
        store = DeviceStore(*given, self.lessons.vectors if self.lessons else None)
        return Steps(
            self.model,
            self.optimiser,
            lambda graph, targets: self.loss(graph, NO_DROPOUT, targets),  # the graph was made with dropout
            store,
            self._dropout,
            devices.window(self.device),
            self.us.worst if self.us.several else None,
            Room(*self.progress.room) if self.progress.room else None,
            self._rate if self.config.lr_decays else None,
        )

    def _windows(self) -> list[list[np.ndarray]]:
        """The remaining batches of the current epoch, in windows. All batches in a window have the same size."""
        n, seed, epoch, rank = len(self.train_part), self.config.seed, self.progress.epoch, self.us.rank
        if self.progress.even_batches:
            batches = even_batches(n, self.epoch_steps, seed, epoch, rank)
        else:
            batches = shuffled_batches(n, self.share, seed, epoch, rank)[: self.epoch_steps]
        most = devices.window(self.device)
        windows: list[list[np.ndarray]] = []
        for i, batch in enumerate(batches[self.progress.batch :], self.progress.batch):
            if not windows or len(windows[-1]) == most or i in self.size_changes:
                windows.append([])
            windows[-1].append(batch)
        return windows

    def _window(
        self, window: Sequence[np.ndarray], following: Sequence[np.ndarray], asked: Sequence[int]
    ) -> tuple[list[dict[str, Any]], bool]:
        """Run a step for each batch. Return the metrics over all processes, and whether one was asked to stop."""
        losses, terms, nodes = self.gpu.run(window, following) if self.gpu else self._steps(window, asked)
        n = len(losses)
        sizes = np.array([sizes_of(self.train_part[indices], self.cut) for indices in window[:n]])
        columns = [_fetched(losses), _fetched(nodes), *sizes.T.tolist(), *np.array(_fetched(terms)).T.tolist()]
        figures = self.us.total([*itertools.chain(*columns), bool(asked)])
        return [self._row(i, *figures[i:-1:n]) for i in range(n)], figures[-1] > 0

    def _steps(self, window: Sequence[np.ndarray], asked: Sequence[int]) -> tuple[list[Any], list[Any], list[Any]]:
        """The loss of each step, its parts, and the nodes, as numbers or as tensors on the device. A single process
        can stop between steps."""
        losses, terms, nodes = [], [], []
        dropouts = [self._dropout(i) for i in range(len(window))]
        graphs = self._graphs(self.train_part, window, dropouts, self.cut)
        for i, ((graph, targets), dropout) in enumerate(zip(graphs, dropouts, strict=False)):
            loss, parts = self._step(graph, dropout, targets, i)
            losses.append(loss)
            terms.append(parts)
            nodes.append(graph.n_nodes)
            if asked and not self.us.several:
                break
        return losses, terms, nodes

    def _rate(self, i: int) -> float:
        """The learning rate of the i-th step from now."""
        done = (self.progress.step + i) / (self.epochs * self.epoch_steps)
        return self.config.lr * (1 - (1 - self.config.final_lr_frac) * done)

    def _dropout(self, i: int) -> Dropout:
        """The dropout of the i-th step from now."""
        config = self.config
        return Dropout(config.dropout, config.seed, self.progress.step + i, config.leaf_dropout)

    def _graphs(
        self,
        part: Part,
        chosen: Sequence[np.ndarray],
        dropouts: Sequence[Dropout],
        cut: crops.Cut | None = None,
    ) -> Iterator[tuple[Any, Tensor | None]]:
        """The graph of each batch and the teacher's vectors of its texts. Graphs are made one at a time, because they
        depend on the current weights. With cut, they have the two parts of each passage."""
        tokens = np.asarray(part.store.tokens)
        for indices, dropout in zip(chosen, dropouts, strict=True):
            starts, lengths = part[indices[None]].spans()
            if cut is not None:
                starts, lengths = crops.with_crops(starts, lengths, [dropout], *cut)
            graph = self.model.structure(*runs_of_tokens(tokens, starts[0], lengths[0]), dropout)
            yield graph, self._targets(part.indices[indices])

    def _targets(self, texts: np.ndarray) -> Tensor | None:
        """The teacher's vectors of these texts of the lessons."""
        if self.lessons is None:
            return None
        return torch.from_numpy(np.asarray(self.lessons.vectors)[texts]).to(self.device)

    def _step(self, graph: Any, dropout: Dropout, targets: Tensor | None, i: int) -> tuple[Tensor, Tensor]:
        """Take the i-th step from now: forward, backward, optimiser. Return the loss and its parts, possibly still on
        the device."""
        if self.config.lr_decays:
            devices.set_rate(self.optimiser, self._rate(i))
        loss, parts = self.loss(graph, dropout, targets)
        self.optimiser.zero_grad(set_to_none=True)
        loss.backward()
        self.model.clip_gradients()
        self.optimiser.step()
        return loss.detach(), parts

    def _row(
        self, i: int, loss: float, nodes: float, sentences: float, tokens: float, plain_nodes: float, *terms: float
    ) -> dict[str, Any]:
        """The metrics of the i-th step of a window."""
        return {
            "step": self.progress.step + i + 1,
            "epoch": self.progress.epoch + 1,
            "loss": loss / self.us.world,
            **{term.name: value / self.us.world for term, value in zip(self.terms, terms, strict=True)},
            "sentences": int(sentences),
            "tokens": int(tokens),
            "nodes": int(nodes),
            "plain_nodes": int(plain_nodes),
        }

    def _count(self, row: dict[str, Any], board: Any) -> None:
        """Record a finished step."""
        if not math.isfinite(row["loss"]):
            raise _diverged(f"the loss became {row['loss']} at step {row['step']:,}")
        self.progress.step += 1
        self.progress.batch += 1
        self.progress.loss_sum += row["loss"]
        if self.progress.term_sums is not None:
            self.progress.term_sums = [
                total + row[term.name] for total, term in zip(self.progress.term_sums, self.terms, strict=True)
            ]
        self._log(row, board)

    def _stopped(self) -> BaseException:
        """The exception that ends this process after an interruption. Only the first process reports it."""
        told = f"stopped after step {self.progress.step:,} and saved; --resume continues"
        return Interrupted(told) if self.us.first else SystemExit(130)

    def _end_of_epoch(self, board: Any, least_seconds: float) -> None:
        """least_seconds: less work than this since the last model is not worth another one."""
        done = self.progress
        sums = [0.0] * len(self.terms)
        self.progress = replace(done, epoch=done.epoch + 1, batch=0, loss_sum=0.0, term_sums=sums)
        if not self.us.first:
            return
        metrics: dict[str, Any] = {
            "step": done.step,
            "finished_epoch": done.epoch + 1,
            "train_loss": done.loss_sum / done.batch,
        }
        for term, total in zip(self.terms, done.term_sums or [], strict=False):
            metrics[f"train_{term.name}"] = total / done.batch
        if self.dev_part:
            metrics |= self._dev_losses(self.dev_part)
        metrics |= self._figures()
        self._log(metrics, board)
        self.display.note(epoch_line(metrics, self.terms))
        if not self._is_done() and time.monotonic() - self.written < least_seconds:
            return
        self._save()
        if not self._is_done():
            self._write(self._unfinished())
            self.written = time.monotonic()

    def _figures(self) -> dict[str, float]:
        """What the model reaches after an epoch, beside its losses."""
        if self.pairs is None:
            return {}
        value = spearman(self.banyan().encode, self.pairs)
        self._keep_if_best(value)
        return {standing.SPEARMAN: value, standing.KEPT: self.progress.best_epoch}

    def _keep_if_best(self, value: float) -> None:
        """Keep the weights if this figure of theirs is the best so far."""
        if not math.isnan(value) and (self.progress.best is None or value > self.progress.best):
            self.progress.best = value
            self._keep()

    def _keep(self) -> None:
        self.progress.best_epoch = self.progress.epoch
        self.best = {name: w.detach().cpu().clone() for name, w in self.model.named_parameters() if w.requires_grad}

    def _agree_on_best(self) -> None:
        """Let every process keep the weights that the first one found to be the best. Only the first one measures."""
        newest = self.us.most(self.progress.best_epoch)
        if newest == self.progress.epoch and not self.us.first:
            self._keep_if_best(float(newest))  # any figure that grows

    @torch.no_grad()
    def _dev_losses(self, part: Part) -> dict[str, Any]:
        """The training loss and its parts on held-out text, without dropout, in batches of the training size if there
        is enough text."""
        chosen = np.array_split(np.arange(len(part)), math.ceil(len(part) / self.config.batch_size))
        steps = [Dropout(0.0, self.config.seed, i) for i in range(len(chosen))]
        graphs = self._graphs(part, chosen, steps, self.cut)
        found = [objective.losses(self.model, self.model(graph), targets) for graph, targets in graphs]
        losses, terms = (np.mean(_fetched(list(values)), axis=0) for values in zip(*found, strict=True))
        return {"dev_batch_size": len(chosen[0]), "dev_loss": float(losses)} | {
            f"dev_{term.name}": float(value) for term, value in zip(self.terms, terms, strict=True)
        }

    def _log(self, metrics: dict[str, Any], board: Any) -> None:
        if self.metrics is None:
            return
        self.progress.metrics_bytes = self.metrics.write(metrics)
        self.progress.metrics_sha256 = self.metrics.sha256
        for name, value in metrics.items() if board else ():
            if isinstance(value, float):
                board.add_scalar(name, value, metrics["step"])

    def _save(self) -> None:
        if self.metrics is None:
            return
        if not all(bool((parameter.abs() <= LARGEST).all()) for parameter in self.model.parameters()):
            raise _diverged(f"a weight became NaN or larger than {LARGEST:g} by step {self.progress.step:,}")
        self.metrics.sync()
        if self.gpu and self.gpu.room:
            self.progress.room = list(astuple(self.gpu.room))
        checkpoint.save(self.folder.checkpoint, self.model, self.optimiser, self.progress, self.best)
        self.saved = time.monotonic()

    def banyan(self) -> Banyan:
        """The current model, ready to encode on the device it trains on."""
        return self._banyan(self.config, self.model.weights())

    def _banyan(self, config: Config, weights: dict[str, np.ndarray]) -> Banyan:
        return Banyan(config, self.tokenizer, weights, str(self.device) if self.gpu else "cpu")

    @property
    def kept_config(self) -> Config:
        return self.config

    def kept(self) -> Banyan:
        """The model to write: that of the best epoch, if the run keeps it, otherwise the current one."""
        weights = self.model.weights() | {name: weight.numpy() for name, weight in self.best.items()}
        if self.config.taught_dim and self.lessons:
            writing.carry_over(weights, self.config.taught_dim, self.text.store)
        model = self._banyan(self.kept_config, weights)
        model.taught_by = self.taught_by
        return model

    def finish(self) -> Banyan:
        """Write the model folder."""
        model = self.kept()
        self._write(model)
        if self.us.first:
            if found := standing.rows(read_rows(self.out / METRICS)):
                self.display.note(standing.text(found))
            size = (self.out / WEIGHTS).stat().st_size / 1e6
            self.display.note(f"wrote {self.out} ({size:,.1f} MB) after {duration(self.seconds)} of training")
        return model

    def _unfinished(self) -> Banyan:
        """The model to write while the run goes on, marked as such."""
        done, model = self.progress, self.kept()
        model.unfinished = {"step": done.step, "steps": self.epochs * self.epoch_steps}
        if self.best:
            model.unfinished[standing.KEPT] = done.best_epoch
        return model

    def _write(self, model: Banyan) -> None:
        if self.metrics is not None:
            self.metrics.sync()
            writing.write(model, self.out, self.summary, self.terms, self.given)

    def close(self) -> None:
        if self.metrics is not None:
            self.metrics.close()


def _fetched(values: Sequence[Any]) -> list[Any]:
    """Values as plain numbers. Tensors are copied from the device together, in one wait."""
    return torch.stack(list(values)).tolist() if isinstance(values[0], Tensor) else list(values)


def _diverged(what: str) -> BanyanError:
    return BanyanError(f"{what}: try a lower lr, with --overwrite")
