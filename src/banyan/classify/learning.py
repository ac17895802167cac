"""The training loop: the head and the token vectors of the model learn together.

The passes and their gradients are those of banyan.backends._numba, so no torch is needed. The order of the texts
depends on the seed and the epoch alone, so a run that was killed goes on from its checkpoint to the same bits.
"""

from __future__ import annotations

import hashlib
import json
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from banyan.backends import _numba
from banyan.classify.calibration import Calibration, calibrated, log_loss
from banyan.classify.features import Features, Ragged, Vocabulary, compared
from banyan.classify.head import Head, gradient_of_scores, gradient_of_table, scores_of
from banyan.classify.settings import Settings
from banyan.encoder import Banyan
from banyan.errors import BanyanError, first_line
from banyan.model.graph import entangle
from banyan.model.weights import LARGEST
from banyan.support import files
from banyan.support.display import Display
from banyan.support.rows import normalize_rows

PATIENCE = 3  # epochs without improvement on the held-out texts
HEAD_LR, NGRAM_LR = 0.01, 1.0  # of Adam for the head and of Adagrad for n-grams
NGRAM_SQUARES = 1.0  # the initial sum of squares of Adagrad: it keeps rare n-grams small
_BETAS = np.float32(0.9), np.float32(0.999)
_SMALL = np.float32(1e-8)


class Part(NamedTuple):
    """Some tokenised texts, or pairs, with their classes."""

    texts: tuple[Ragged, ...]
    target: np.ndarray  # float32 [n, C]: 1 for the classes of a text

    def __len__(self) -> int:
        return len(self.target)

    def take(self, rows: np.ndarray) -> Part:
        return Part(tuple(texts.take(rows) for texts in self.texts), self.target[rows])


@dataclass
class Progress:
    epoch: int = 0  # epochs that are finished
    batch: int = 0  # batches of this epoch that are finished
    step: int = 0
    best: float | None = None  # log loss on the held-out texts
    best_epoch: int = 0
    slope: float = 1.0  # the calibration of the best epoch
    offset: float = 0.0
    history: list[dict[str, float]] = field(default_factory=list)


class Learner:
    """What is learned, and how far it is."""

    def __init__(
        self, model: Banyan, vocabulary: Vocabulary, train: Part, held_out: Part, several: bool, settings: Settings
    ) -> None:
        self.model, self.vocabulary, self.settings, self.several = model, vocabulary, settings, several
        self.train, self.held_out = train, held_out
        self.features = Features(model, vocabulary)
        self.batch_size, self.epochs = settings.batch_for(len(train)), settings.epochs_for(len(train))
        self.batches = -(-len(train) // self.batch_size)
        share = np.clip(train.target.mean(0), 1e-6, 1 - 1e-6)
        self.class_weight = (share.mean() / share).astype(np.float32) if settings.balanced else None
        logs = np.log(share) - (np.log(1 - share) if several else 0)
        bias = np.zeros_like(share) if settings.balanced else logs
        head = Head.zeros(self.features.dense_width, len(vocabulary.idf), bias)
        self.learned = {"embedding": model.embedding.copy(), **vars(head)}
        self.memory = {"ngrams": np.full((len(head.table), 1), NGRAM_SQUARES, np.float32)}
        for name in ("embedding", "weight", "bias"):
            if not (name == "embedding" and settings.frozen):
                self.memory |= {f"{name}.{kind}": np.zeros_like(self.learned[name]) for kind in ("mean", "square")}
        self.memory["embedding.steps"] = np.zeros((len(model.embedding), 1), np.float32)
        self.best: dict[str, np.ndarray] = {}
        self.progress = Progress()

    @property
    def head(self) -> Head:
        return Head(*(self.learned[name] for name in ("weight", "bias", "table")))

    # --- A run -------------------------------------------------------------------------------------------------------

    def run(self, checkpoint: Path | None, seconds: float, display: Display) -> None:
        if not self.progress.epoch and not self.progress.step:
            self._measure()
        saved = time.monotonic()
        quiet = np.errstate(over="ignore", invalid="ignore")  # _check says it in a sentence
        with quiet, display.bar("learning", self.epochs * self.batches, "batches") as meter:
            while not self._is_done():
                order = np.random.default_rng([self.settings.seed, self.progress.epoch]).permutation(len(self.train))
                while self.progress.batch < self.batches:
                    at = self.progress.batch * self.batch_size
                    self._step(self.train.take(np.sort(order[at : at + self.batch_size])))
                    self.progress.batch += 1
                    self.progress.step += 1
                    meter(self.progress.step, figures=self._shown())
                    if checkpoint and time.monotonic() - saved > seconds:
                        self.save(checkpoint)
                        saved = time.monotonic()
                self._check()
                self.progress.epoch, self.progress.batch = self.progress.epoch + 1, 0
                self._measure()

    def _check(self) -> None:
        """Raise an error if what is learned could not be loaded. The last checkpoint is from before that."""
        for name, array in self.learned.items():
            if not np.abs(array).max(initial=0) <= LARGEST:
                told = f"{name} became NaN or larger than {LARGEST:g} by step {self.progress.step:,}"
                raise BanyanError(f"{told}: try a lower lr, with --overwrite")

    def _is_done(self) -> bool:
        since = self.progress.epoch - self.progress.best_epoch
        return self.progress.epoch >= self.epochs or (len(self.held_out) > 0 and since >= PATIENCE)

    def _shown(self) -> dict[str, str]:
        last = self.progress.history[-1] if self.progress.history else {}
        shown = {"epoch": str(self.progress.epoch + 1)}
        return shown | ({"held-out loss": f"{last['held_out_loss']:.4f}"} if "held_out_loss" in last else {})

    def _measure(self) -> None:
        """Measure the present weights on the held-out texts, and keep them if they are the best so far."""
        row: dict[str, float] = {"epoch": self.progress.epoch}
        if len(self.held_out):
            scores = scores_of(self._features(), self.head, self.held_out.texts)
            found = calibrated(scores, self.held_out.target, self.several)
            loss = log_loss(found(scores), self.held_out.target, self.several)
            row["held_out_loss"] = loss
            better = self.progress.best is None or loss < self.progress.best
        else:
            found, loss, better = Calibration(), 0.0, True
        if better:
            self.progress.best, self.progress.best_epoch = loss, self.progress.epoch
            self.progress.slope, self.progress.offset = found
            self.best = {name: array.copy() for name, array in self.learned.items()}
        self.progress.history.append(row)

    def _features(self) -> Features:
        """The features that the present token vectors give."""
        if self.settings.frozen:
            return self.features
        return Features(with_embedding(self.model, self.learned["embedding"]), self.vocabulary)

    # --- A step ------------------------------------------------------------------------------------------------------

    def _step(self, part: Part) -> None:
        left = np.float32(1 - self.progress.step / (self.epochs * self.batches))  # the learning rate falls to zero
        up = _Up.of(self.model, self.learned["embedding"], part.texts)
        units = up.units(self.model, part.texts)
        dense = units[0]
        if self.vocabulary.of_pairs:
            dense = np.hstack([compared(*units), self.vocabulary.overlaps(part.texts, self.features.digits)])
        sparse = self.vocabulary.sparse(part.texts)
        g = gradient_of_scores(self.head.scores(dense, sparse), part.target, self.several, self.class_weight)
        if not self.settings.frozen:
            tokens, g_tokens = up.gradients(self._of_units(g, units))
            self._adam_rows(tokens, g_tokens, left * np.float32(self.settings.lr))
        self._adam("weight", dense.T @ g, left * np.float32(HEAD_LR))
        self._adam("bias", g.sum(0), left * np.float32(HEAD_LR))
        bucket, g_table = gradient_of_table(sparse, g)
        squares = self.memory["ngrams"]
        g_table *= np.float32(len(part))  # the sum over texts, so that rare n-grams learn slowly
        squares[bucket] += (g_table**2).mean(1, keepdims=True)
        self.learned["table"][bucket] -= left * np.float32(NGRAM_LR) * g_table / np.sqrt(squares[bucket])

    def _of_units(self, g: np.ndarray, units: list[np.ndarray]) -> np.ndarray:
        """The gradient of the learned parts of the embeddings, first texts before second ones [m, E]."""
        E, D = self.model.config.dim, self.model.dim
        if not self.vocabulary.of_pairs:
            return g @ self.learned["weight"][:E].T
        u, v = (unit[:, :E] for unit in units)
        of_difference, of_product = (g @ self.learned["weight"][at : at + E].T for at in (0, D))
        of_difference *= np.sign(u - v)
        return np.vstack([of_difference + of_product * v, of_product * u - of_difference])

    def _adam(self, name: str, g: np.ndarray, lr: np.float32) -> None:
        mean, square = self.memory[f"{name}.mean"], self.memory[f"{name}.square"]
        step = _adam_step(mean, square, g, np.float32(self.progress.step + 1))
        self.learned[name] -= lr * step

    def _adam_rows(self, rows: np.ndarray, g: np.ndarray, lr: np.float32) -> None:
        """Adam on the token vectors that occur; those that do not stay as they are."""
        kept = {kind: self.memory[f"embedding.{kind}"][rows] for kind in ("mean", "square", "steps")}
        kept["steps"] += 1
        step = _adam_step(kept["mean"], kept["square"], g, kept["steps"])
        for kind, array in kept.items():
            self.memory[f"embedding.{kind}"][rows] = array
        self.learned["embedding"][rows] -= lr * step

    # --- Checkpoints -------------------------------------------------------------------------------------------------

    def save(self, path: Path) -> None:
        from safetensors.numpy import save_file

        self._check()
        groups = {"learned": self.learned, "memory": self.memory, "best": self.best}
        arrays = {f"{group}/{name}": array for group, named in groups.items() for name, array in named.items()}
        about = {"progress": json.dumps(asdict(self.progress)), "sha256": _digest(arrays)}
        kept = "the last good checkpoint is kept" if path.exists() else "there is no earlier checkpoint"
        with files.reported(path, kept), files.atomic(path) as temporary:
            save_file(arrays, temporary, metadata=about)

    def load(self, path: Path) -> None:
        try:
            self.progress, arrays = read_checkpoint(path)
        except BanyanError as error:
            raise BanyanError(f"cannot resume: {error}; --overwrite starts over") from None
        for key, array in arrays.items():
            group, _, name = key.partition("/")
            getattr(self, group)[name] = array


def read_checkpoint(path: Path) -> tuple[Progress, dict[str, np.ndarray]]:
    """The content of a checkpoint, or an error if it is not as it was written."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, "np") as file:
            about, arrays = file.metadata(), {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
        progress, found = Progress(**json.loads(about["progress"])), _digest(arrays)
    except (OSError, SafetensorError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise BanyanError(f"cannot read {path}: {first_line(error)}") from None
    if about.get("sha256", found) != found:
        raise BanyanError(f"{path} is not as it was written")
    return progress, arrays


def _digest(arrays: dict[str, np.ndarray]) -> str:
    digest = hashlib.sha256()
    for name, array in sorted(arrays.items()):
        digest.update(name.encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


def _adam_step(mean: np.ndarray, square: np.ndarray, g: np.ndarray, steps: Any) -> np.ndarray:
    """Update the running means in place. Return the step for a learning rate of 1."""
    first, second = _BETAS
    mean += (1 - first) * (g - mean)
    square += (1 - second) * (g * g - square)
    return np.sqrt(1 - second**steps) / (1 - first**steps) * mean / (np.sqrt(square) + _SMALL)


def with_embedding(model: Banyan, embedding: np.ndarray) -> Banyan:
    return Banyan(model.config, model.tokenizer, {**model.weights, "embedding": embedding})


class _Up(NamedTuple):
    """The up pass over the texts of a batch, first texts before second ones."""

    graph: Any
    vectors: np.ndarray  # of all nodes
    model: Banyan

    @classmethod
    def of(cls, model: Banyan, embedding: np.ndarray, texts: tuple[Ragged, ...]) -> _Up:
        tokens = np.concatenate([part.tokens for part in texts])
        sizes = np.concatenate([np.diff(part.offsets) for part in texts])
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        tokens, offsets, joined = model.leaf_choice.leaves(tokens, offsets)
        token, rows = np.unique(tokens, return_inverse=True)
        leaves, f = embedding[token], model.functions
        given, structure = (tokens, offsets, leaves, rows.astype(np.int32), f), model.config.structure
        forest, _ = _numba.induce(*given, structure=structure, joined=joined)
        graph = entangle(forest)
        return cls(graph, _numba.up_pass(graph, embedding[graph.token], f), model)

    def units(self, model: Banyan, texts: tuple[Ragged, ...]) -> list[np.ndarray]:
        """The embeddings of each column of texts, with every part scaled to length 1."""
        roots = self.vectors[self.graph.root]
        for first, end in self._parts():
            roots[:, first:end] = normalize_rows(np.ascontiguousarray(roots[:, first:end]))
        columns = np.split(roots, len(texts))
        if not model.config.lexical_dim:
            return columns
        return [np.hstack([unit, model.lexical_parts(*part)]) for unit, part in zip(columns, texts, strict=True)]

    def gradients(self, g: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The tokens that occur, and the gradients of their vectors. g: of the scaled roots [m, E]."""
        roots, g_roots = self.vectors[self.graph.root], np.empty_like(g)
        for first, end in self._parts():
            norm = np.maximum(np.linalg.norm(roots[:, first:end], axis=1, keepdims=True), _SMALL)
            unit, of_unit = roots[:, first:end] / norm, g[:, first:end]
            g_roots[:, first:end] = (of_unit - (of_unit * unit).sum(1, keepdims=True) * unit) / norm
        g_up = np.zeros_like(self.vectors)
        np.add.at(g_up, self.graph.root, g_roots)
        g_leaves, _ = _numba.backward(self.graph, self.vectors, None, g_up, None, self.model.functions)
        return self.graph.token, g_leaves

    def _parts(self) -> list[tuple[int, int]]:
        E = self.model.config.dim
        return [(first, end) for first, end, _ in self.model.config.parts if end <= E]
