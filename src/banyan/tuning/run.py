"""The training loop of tuning: banyan.training.run on batches of examples, which stops by itself."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from banyan.config import Config
from banyan.corpus.store import Store
from banyan.encoder import Banyan
from banyan.model import BanyanModel
from banyan.model.crops import Cut
from banyan.model.dropout import Dropout
from banyan.model.ngram_weights import Hashed, hashed, stored
from banyan.model.pairing import Belonging
from banyan.model.word_ngrams import spelling
from banyan.support import devices, files
from banyan.support.display import Display
from banyan.tokenizer import Tokenizer
from banyan.training.distributed import Processes
from banyan.training.folder import RunFolder
from banyan.training.row_adam import RowAdam
from banyan.training.run import Run
from banyan.tuning.batches import Batches
from banyan.tuning.finding import Found, as_good, figure
from banyan.tuning.mining import hard_negatives
from banyan.tuning.split import FEWEST

PATIENCE = 2  # epochs without improvement on the held-out examples


class TuningRun(Run):
    """One run of tuning. It keeps the weights of the latest epoch that was not clearly worse on the held-out examples
    than the best: the learning rate falls, so later epochs are better if nothing says otherwise."""

    def __init__(
        self,
        folder: RunFolder,
        model: BanyanModel,
        tokenizer: Tokenizer,
        examples: tuple[Batches, Batches],
        summary: str,
        display: Display,
    ) -> None:
        """examples: those to tune on, and those held out."""
        self.examples = examples
        self.vectors_share = model.config.vectors_share  # beside words, in the model that is kept
        if model.config.hashes_words:
            model.learn_ngram_weights()
        data = examples[0].store, None, None, model.config.batch_size
        us = Processes.of_environment()
        super().__init__(folder, model, tokenizer, *data, summary, display, us, given_weights=True)

    def _parts(self, store: Store, dev: Store | None) -> tuple[Batches, Batches | None]:
        train, held_out = self.examples
        return train, held_out if len(held_out) else None

    def start_from(self, weights: Mapping[str, np.ndarray]) -> None:
        """Start from the weights of a model, unless this run has already begun, and stay near its token vectors."""
        super().start_from(dict(weights))
        self._stay_near(weights["embedding"])
        if self.config.hashes_words:
            self.spelling = spelling(self.tokenizer.pieces)
        before = self.banyan()
        self.lexical, self.leaf_choice = before.lexical_parts, before.leaf_choice
        if self.progress.step == 0 and self.dev_part:
            self._measure(self.dev_part)

    def _stay_near(self, embedding: np.ndarray) -> None:
        self.model.embedding_before = torch.from_numpy(embedding).to(self.device)
        if isinstance(self.optimiser, RowAdam):
            self.model.moving_tokens = np.unique(self.text.store.tokens).astype(np.int64)
            self.optimiser.stay_near(self.model.embedding, embedding, self.config.stay_weight / len(embedding))

    def _measure(self, held_out: Batches) -> Found:
        """Measure the model on the held-out examples, and keep its weights if no epoch before was clearly better."""
        found, done = figure(self.banyan(), held_out), self.progress
        value, items = found.outcome.value, found.outcome.items
        highest = not math.isnan(value) and (done.best is None or value > done.best)
        if highest:
            done.best, done.highest_epoch, done.highest_items = value, done.epoch, items.tolist()
        if highest or (done.highest_items is not None and as_good(found.outcome, np.array(done.highest_items))):
            self._keep()
            done.best_lexical_weight = found.lexical_weight
        return found

    def _begin_epoch(self) -> None:
        """Mine hard negatives. A run that resumes within an epoch takes those that the epoch began with."""
        super()._begin_epoch()
        if not self.config.hard_negatives:
            return
        path = self.folder.work / f"hard-{self.progress.epoch}.npy"
        if self.progress.batch == 0:
            given = self.config.hard_negatives, self.config.seed, self.progress.epoch
            with files.atomic(path) as temporary, open(temporary, "wb") as file:
                np.save(file, hard_negatives(self.banyan(), self.text, *given))
        self.train_part = self.text.with_negatives(np.load(path))

    def _save(self) -> None:
        """Save the run, and remove the hard negatives of epochs that no resumed run can go back to."""
        super()._save()
        for path in self.folder.work.glob("hard-*.npy"):
            if int(path.stem.removeprefix("hard-")) < self.progress.epoch:
                path.unlink()

    def _is_done(self) -> bool:
        since = self.progress.epoch - self.progress.highest_epoch
        return super()._is_done() or (self.dev_part is not None and since >= PATIENCE)

    def _figures(self) -> dict[str, float]:
        if not self.dev_part:
            return {}
        found = self._measure(self.dev_part)
        return {found.outcome.metric: found.outcome.value, "lexical_weight": found.lexical_weight}

    def _steps_over_sentences(self) -> int:
        return self.epoch_steps

    def _gpu_steps(self) -> None:
        """None: the host drives every step, because batches of examples are made there."""

    def _tell_what_is_ahead(self, steps: int) -> None:
        few = f"fewer than {FEWEST} examples" if len(self.text) < FEWEST else "too few have texts of their own"
        held_out = f"{len(self.dev_part):,}" if self.dev_part else f"none ({few})"
        where = devices.described(self.device, self.model.precision)
        most = f"at most {steps:,} step{'s' * (steps != 1)} on {where}"
        self.display.note(f"tuning on {len(self.text):,} examples, held out: {held_out}; {most}")

    def _graphs(
        self,
        part: Any,
        chosen: Sequence[np.ndarray],
        dropouts: Sequence[Dropout],
        cut: Cut | None = None,
    ) -> Iterator[tuple[Any, Any]]:
        """The graph of the texts of each batch, and what is known about them."""
        for indices, dropout in zip(chosen, dropouts, strict=True):
            batch: Batches = part[indices]
            tokens, offsets = batch.batch()
            known = self._belonging(batch, tokens, offsets)
            leaves = self.leaf_choice.leaves(tokens, offsets)
            yield self.model.structure(leaves.tokens, leaves.offsets, dropout, leaves.joined), known

    def _belonging(self, batch: Batches, tokens: np.ndarray, offsets: np.ndarray) -> Belonging:
        def sent(array: np.ndarray) -> Tensor:
            """A copy, because the rounding of products may depend on how their factors are aligned in memory."""
            return torch.tensor(array, device=self.device)

        lexical: Tensor | Hashed | None = None
        if self.config.hashes_words:
            how = self.spelling, self.config.lexical_dim, self.config.sublinear_tf, self.device
            lexical = hashed(tokens, offsets, *how)
        elif self.config.lexical_dim:
            lexical = sent(self.lexical(tokens, offsets))
        score = None if batch.score is None else sent(batch.score)
        return Belonging(sent(batch.left_out()), lexical, score)

    def _banyan(self, config: Config, weights: dict[str, np.ndarray]) -> Banyan:
        if config.hashes_words:
            weights["lexical_idf"] = stored(weights["lexical_idf"], weights.pop("lexical_scale"))
        return Banyan(config, self.tokenizer, weights)

    @property
    def kept_config(self) -> Config:
        config = replace(self.config, vectors_share=self.vectors_share)
        weight = self.progress.best_lexical_weight
        return replace(config, lexical_weight=weight) if weight else config
