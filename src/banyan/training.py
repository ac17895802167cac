"""From raw text to a model folder: one plain loop, that can be killed at any moment and resumed.

Everything random is a function of the seed and the step, and every sum has a fixed order, so a resumed run ends in
the same bits as one that was never interrupted (same machine, same number of threads).
"""

from __future__ import annotations

import json
import math
import os
import signal
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch

from banyan import card, checkpoint, files, plots, threads
from banyan.checkpoint import Progress
from banyan.config import Config
from banyan.corpus import Corpus
from banyan.display import COMPILING, Display, Meter, duration
from banyan.encoder import TOKENIZER, WEIGHTS, Banyan, load_weights
from banyan.errors import BanyanError
from banyan.evaluate.similarity import Pairs, read_pairs, spearman
from banyan.model import BanyanModel
from banyan.objective import reconstruction
from banyan.reference import Dropout
from banyan.runfolder import CARD, LOSS, METRICS, Given, RunFolder
from banyan.store import Store, shuffled_batches
from banyan.textfile import kind
from banyan.tokenizer import Tokenizer

DEV_SHARE, DEV_MOST = 100, 2000  # one sentence in a hundred is held out, and at most these


class Interrupted(KeyboardInterrupt):
    """The user asked to stop, and the run was saved."""


def train(
    corpus: str | Path | Sequence[str | Path],
    out: str | Path,
    *,
    preset: str | None = None,
    column: str | None = None,
    layout: str = "auto",
    dev: str | Path | None = None,
    pairs: str | Path | None = None,
    tokenizer: str | Path | None = None,
    init: str | Path | None = None,
    resume: bool = False,
    overwrite: bool = False,
    checkpoint_seconds: float = 60,
    tensorboard: bool = False,
    quiet: bool = False,
    **overrides: Any,
) -> Banyan:
    """Train a model on a corpus and write it to the folder `out`. Without a preset, that is `paper`.

    corpus: files, folders, globs, "-" or hf:name, as Corpus reads them (`column`, `layout`).
    dev: held-out text for the loss after each epoch; without it, 1% of the corpus is held out.
    pairs: two sentences and a score a line; their correlation is shown after each epoch.
    tokenizer: a tokenizer.json or SentencePiece .model to use instead of training one.
    init: a finished model whose tokenizer and weights to start from.
    resume: go on where an interrupted run stopped (or start, if there is none), with its settings; epochs may be more.
    overwrite: start again where `out` holds a model or a run.
    overrides: any setting of Config.
    """
    display = Display(quiet)
    folder = RunFolder(Path(out))
    folder.refuse_to_lose(resume, overwrite)
    given = Given.of(dev=dev, pairs=pairs, tokenizer=tokenizer, init=init)
    config, given = folder.settle(preset, overrides, given, resume)

    # Whatever may be wrong with what was given is found before anything is changed.
    text = Corpus(corpus, column=column, layout=layout, spool=folder.work)
    dev_text = _dev_text(given.dev, column, layout, folder.work) if given.dev else None
    scored = read_pairs(given.pairs) if given.pairs else None
    own = folder.work / TOKENIZER
    begun = resume and own.exists()
    made = Tokenizer.from_file(own) if begun else _given_tokenizer(given, config)
    weights = load_weights(Path(given.init) / WEIGHTS, config, made.vocab_size) if given.init and made else {}

    with folder.begin(config, given, resume), _all_threads():
        display.note(text.layout_reason)
        pieces = made or _made_tokenizer(text, config, display)
        if not begun:
            pieces.save(own)
        display.note(f"vocabulary of {pieces.vocab_size:,} pieces")
        store = _store(folder.work / "store", text, pieces, config, display)
        display.note(store.report.summary())
        dev_store = _store(folder.work / "dev", dev_text, pieces, config, display) if dev_text else None
        run = Run(folder, BanyanModel(config, pieces.vocab_size), pieces, store, dev_store, scored, display)
        run.start_from(weights)
        with closing(run.metrics):
            run.go(checkpoint_seconds, tensorboard)
            return run.finish()


class Run:
    """A model on its way through the epochs."""

    def __init__(
        self,
        folder: RunFolder,
        model: BanyanModel,
        tokenizer: Tokenizer,
        store: Store,
        dev: Store | None,
        pairs: Pairs | None,
        display: Display,
    ) -> None:
        self.folder, self.out = folder, folder.out
        self.config, self.model, self.tokenizer = model.config, model, tokenizer
        self.display, self.pairs = display, pairs
        self.train_part, self.dev_part = _parts(store, dev, self.config.seed)
        self.optimiser = torch.optim.Adam(model.parameters(), lr=self.config.lr, fused=True)
        data = store.fingerprint + (dev.fingerprint if dev else "")
        self.progress = Progress(data=data)
        if folder.checkpoint.exists():
            self.progress = checkpoint.load(folder.checkpoint, model, self.optimiser)
            if self.progress.data != data:
                raise BanyanError(f"the text of the run in {self.out} has changed: --overwrite starts again with it")
            if self.progress.epoch > self.config.epochs:
                raise BanyanError(f"{self.out} has had {self.progress.epoch} epochs already: ask for more, or for none")
            display.note(f"resuming after step {self.progress.step:,}, {self.progress.epoch} epochs done")
        self.metrics = _Metrics(self.out / METRICS, self.progress.metrics_bytes)
        self.report = store.report
        self.seconds = 0.0

    def start_from(self, weights: dict[str, np.ndarray]) -> None:
        """Take the weights of a finished model, unless the run is under way already."""
        with torch.no_grad():
            for name, parameter in self.model.named_parameters():
                if name in weights and self.progress.step == 0:
                    parameter.copy_(torch.from_numpy(weights[name]))

    def go(self, checkpoint_seconds: float, tensorboard: bool) -> None:
        """All epochs that are left."""
        sentences = len(self.train_part[1])
        steps = self.config.epochs * math.ceil(sentences / self.config.batch_size)
        held_out = f", {len(self.dev_part[1]):,} held out" if self.dev_part else ", none held out (too few)"
        self.display.note(
            f"training on {sentences:,} sentences{held_out}: {steps:,} steps on {threads.available()} threads"
        )
        self.saved = started = time.monotonic()
        with ExitStack() as stack:
            board = stack.enter_context(closing(_tensorboard(self.out))) if tensorboard else None
            asked = stack.enter_context(_interrupts())
            first_step = stack.enter_context(self.display.patience(COMPILING, 5))
            meter = stack.enter_context(self.display.bar("training", steps, "steps"))
            while self.progress.epoch < self.config.epochs:
                for step_metrics in self._epoch(meter):
                    first_step.cancel()
                    self._log(step_metrics, board)
                    if asked or time.monotonic() - self.saved > checkpoint_seconds:
                        self._save()
                    if asked:
                        raise Interrupted(f"stopped after step {self.progress.step:,}, saved; go on with --resume")
                self._end_of_epoch(board)
        self.seconds = time.monotonic() - started

    def _epoch(self, meter: Meter) -> Iterator[dict[str, Any]]:
        """The batches that are left of the epoch under way."""
        store, part = self.train_part
        batches = shuffled_batches(len(part), self.config.batch_size, self.config.seed, self.progress.epoch)
        shown, tokens_since = time.monotonic(), 0
        for indices in batches[self.progress.batch :]:
            metrics = self._step(*store.batch(part[indices]))
            yield metrics
            tokens_since += metrics["tokens"]
            now = time.monotonic()
            if now - shown > 0.5:
                speed, saved = tokens_since / (now - shown), 1 - metrics["nodes"] / metrics["plain_nodes"]
                figures = {
                    "epoch": f"{metrics['epoch']}/{self.config.epochs}",
                    "loss": f"{metrics['loss']:.3f}",
                    "tokens/s": f"{speed:,.0f}",
                    "nodes saved": f"{saved:.0%}",
                }
                meter(metrics["step"], None, figures)
                shown, tokens_since = now, 0

    def _step(self, tokens: np.ndarray, offsets: np.ndarray) -> dict[str, Any]:
        """One batch: up, down, back, and the optimiser."""
        dropout = Dropout(self.config.dropout, self.config.seed, self.progress.step)
        graph = self.model.structure(tokens, offsets, dropout)
        loss = reconstruction(self.model, self.model(graph, dropout))
        value = loss.item()
        if not math.isfinite(value):
            raise self._diverged(f"the loss became {value}")
        self.optimiser.zero_grad(set_to_none=True)
        loss.backward()
        self.optimiser.step()
        self.progress.step += 1
        self.progress.batch += 1
        self.progress.loss_sum += value
        return {
            "step": self.progress.step,
            "epoch": self.progress.epoch + 1,
            "loss": value,
            "sentences": len(offsets) - 1,
            "tokens": len(tokens),
            "nodes": graph.n_nodes,
            "plain_nodes": 2 * len(tokens) - (len(offsets) - 1),
        }

    def _diverged(self, what: str) -> BanyanError:
        return BanyanError(f"{what} after step {self.progress.step:,}: --overwrite starts again; try a lower lr")

    def _end_of_epoch(self, board: Any) -> None:
        metrics: dict[str, Any] = {
            "step": self.progress.step,
            "finished_epoch": self.progress.epoch + 1,
            "train_loss": self.progress.loss_sum / self.progress.batch,
        }
        if self.dev_part:
            metrics["dev_loss"] = self._dev_loss()
        if self.pairs:
            metrics["pairs_spearman"] = spearman(self.banyan().encode, self.pairs)
        self.progress = Progress(epoch=self.progress.epoch + 1, step=self.progress.step, data=self.progress.data)
        self._log(metrics, board)
        figures = [f"{name.replace('_', ' ')} {metrics[name]:.4f}" for name in list(metrics)[2:]]
        self.display.note(f"epoch {metrics['finished_epoch']:2}: {', '.join(figures)}")
        if self.progress.epoch < self.config.epochs and time.monotonic() - self.saved < 5:
            return  # an epoch of a few seconds is not worth a checkpoint
        self._save()
        plots.loss_curve(self.out / METRICS, self.out / LOSS)

    @torch.no_grad()
    def _dev_loss(self) -> float:
        """Mean over the held-out batches, without dropout."""
        assert self.dev_part
        store, part = self.dev_part
        losses = []
        for start in range(0, len(part), self.config.batch_size):
            batch = store.batch(part[start : start + self.config.batch_size])
            losses.append(reconstruction(self.model, self.model(self.model.structure(*batch))).item())
        return float(np.mean(losses))

    def _log(self, metrics: dict[str, Any], board: Any) -> None:
        self.progress.metrics_bytes = self.metrics.write(metrics)
        for name, value in metrics.items() if board else ():
            if isinstance(value, float):
                board.add_scalar(name, value, metrics["step"])

    def _save(self) -> None:
        if not all(bool(parameter.isfinite().all()) for parameter in self.model.parameters()):
            raise self._diverged("a weight became infinite or not a number")
        self.metrics.sync()
        checkpoint.save(self.folder.checkpoint, self.model, self.optimiser, self.progress)
        self.saved = time.monotonic()

    def banyan(self) -> Banyan:
        """The model as it is now, for use."""
        weights = {name: p.detach().numpy() for name, p in self.model.named_parameters()}
        return Banyan(self.config, self.tokenizer, weights)

    def finish(self) -> Banyan:
        """Write the result folder."""
        self.metrics.sync()
        model = self.banyan()
        model.save_pretrained(self.out)
        plots.loss_curve(self.out / METRICS, self.out / LOSS)
        files.write_text(self.out / CARD, card.model_card(model, self.report, self.out / METRICS))
        size = (self.out / WEIGHTS).stat().st_size / 1e6
        self.display.note(f"wrote {self.out} ({size:,.1f} MB) after {duration(self.seconds)} of training")
        return model


class _Metrics:
    """metrics.jsonl: one JSON object a line, cut back to where the checkpoint was."""

    def __init__(self, path: Path, length: int) -> None:
        path.touch()
        if path.stat().st_size < length:
            raise BanyanError(f"{path} is shorter than at the last checkpoint; --overwrite starts again")
        os.truncate(path, length)
        self.file = path.open("a", encoding="utf-8")
        self.length = length
        if length == 0:
            self.write(Config.head())

    def write(self, metrics: Mapping[str, Any]) -> int:
        line = json.dumps(metrics) + "\n"
        self.file.write(line)
        self.length += len(line)
        return self.length

    def sync(self) -> None:
        self.file.flush()
        os.fsync(self.file.fileno())

    def close(self) -> None:
        self.file.close()


def _dev_text(dev: str, column: str | None, layout: str, spool: Path) -> Corpus:
    """The held-out text; the column is meant for it too if it is a table."""
    is_text = kind(Path(dev)) in ("text", None)
    return Corpus(dev, column=None if is_text else column, layout=layout, spool=spool)


def _given_tokenizer(given: Given, config: Config) -> Tokenizer | None:
    """The one that was asked for, or that of the model to start from."""
    source = Path(given.init) / TOKENIZER if given.init else given.tokenizer
    if source is None:
        return None
    return Tokenizer.from_file(source, lowercase=config.lowercase, zero_digits=config.zero_digits)


def _made_tokenizer(corpus: Corpus, config: Config, display: Display) -> Tokenizer:
    display.note(f"making a {config.pieces} vocabulary of the corpus")
    with display.patience(COMPILING, 15):
        return Tokenizer.train(
            corpus,
            kind=config.pieces,
            vocab_size=config.vocab_size,
            lowercase=config.lowercase,
            zero_digits=config.zero_digits,
            show_progress=display.live,
        )


def _store(folder: Path, corpus: Corpus, tokenizer: Tokenizer, config: Config, display: Display) -> Store:
    with display.bar("tokenising", None, "sentences") as meter:
        return Store.build(
            folder,
            corpus,
            tokenizer,
            min_pieces=config.min_pieces,
            max_pieces=config.max_pieces,
            progress=meter,
        )


Part = tuple[Store, np.ndarray]  # a store, and the sentences of it that are meant


def _parts(store: Store, dev: Store | None, seed: int) -> tuple[Part, Part | None]:
    """What is trained on and what is held out."""
    if dev is not None:
        return (store, np.arange(len(store))), (dev, np.arange(min(len(dev), DEV_MOST)))
    held_out = min(len(store) // DEV_SHARE, DEV_MOST)
    (order,) = shuffled_batches(len(store), len(store), seed, epoch=2**32)  # an epoch that no run reaches
    kept, out = np.sort(order[held_out:]), np.sort(order[:held_out])
    return (store, kept), (store, out) if held_out else None


@contextmanager
def _all_threads() -> Iterator[None]:
    """Let torch use as many threads as our kernels do."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads.available())
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def _interrupts() -> Iterator[list[int]]:
    """Collects Ctrl-C and SIGTERM, so that the loop can end its step and save; a second Ctrl-C ends it at once."""
    asked: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield asked
        return

    def ask(number: int, frame: Any) -> None:
        if asked:
            raise KeyboardInterrupt
        asked.append(number)

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _tensorboard(out: Path) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise BanyanError('TensorBoard is not installed: pip install "banyan-embed[tensorboard]"') from None
    return SummaryWriter(str(out / "tensorboard"))
