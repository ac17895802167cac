"""Classification: how well does a small network classify frozen embeddings?

The paper trains a GeLU MLP with a hidden layer of 512 on frozen embeddings (SST-2: accuracy, MRPC: F1) and gives no
other details. The rest is fixed here, the same for every model: the features of a pair (`features`) and the constants
below. Only the epoch is selected.
"""

from __future__ import annotations

import copy
import csv
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import nn

from banyan.errors import BanyanError
from banyan.evaluate.outcome import Outcome, percent
from banyan.evaluate.similarity import Tabs
from banyan.support import devices

PROTOCOLS = ("held_out", "authors_best_on_test")
HIDDEN = 512
LEARNING_RATE = 1e-3
BATCH = 128
EPOCHS = 50  # at most
PATIENCE = 5  # epochs without an improvement
HELD_OUT = 0.1  # fraction of each class of the training data
SPLIT_SEED = 0  # the same split for every model and every classifier seed


class Labelled(NamedTuple):
    first: list[str]
    second: list[str] | None  # None for single texts
    label: np.ndarray  # int64 [n], counted from 0


def read_labelled(path: str | Path) -> Labelled:
    """Read one or two texts and a label (0, 1, ...) per line.

    A .csv file is comma-separated, any other is tab-separated. A first line whose last column is not a number is a
    header."""
    path = Path(path)
    rows: list[list[str]] = []
    line = 0
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file, _Commas if path.suffix == ".csv" else Tabs)
            for row in reader:
                header = line == 0 and len(row) > 1 and not _is_number(row[-1])
                line = reader.line_num
                if row and not header:
                    _check(row, len(rows[0]) if rows else None, f"{path}, line {line}")
                    rows.append(row)
    except csv.Error as error:
        raise BanyanError(f"{path}, line {line + 1}: {error}") from None
    except (OSError, UnicodeError) as error:
        raise BanyanError(f"cannot read labelled texts from {path}: {error}") from None
    if not rows:
        raise BanyanError(f"{path} holds no labelled texts")
    *texts, labels = (list(column) for column in zip(*rows, strict=True))
    return Labelled(texts[0], texts[1] if len(texts) == 2 else None, np.array(labels, np.int64))


def _check(row: list[str], columns: int | None, where: str) -> None:
    if len(row) not in (2, 3):
        raise BanyanError(f"{where}: expected one or two texts and a label, but found {len(row)} columns")
    if columns is not None and len(row) != columns:
        raise BanyanError(f"{where}: expected {columns} columns, as in the lines above, but found {len(row)}")
    if not (row[-1].isascii() and row[-1].isdigit() and len(row[-1]) <= 4):
        raise BanyanError(f"{where}: a label must be a whole number from 0, not {row[-1]!r}")


class _Commas(csv.excel):
    strict = True  # an unclosed quote is an error, not one long text


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def classification(
    encode: Callable[[Sequence[str]], np.ndarray],
    train: Labelled,
    test: Labelled,
    task: str,
    seeds: Sequence[int] = (0,),
    protocol: str = "held_out",
) -> list[Outcome]:
    """Return accuracy × 100 and, for pairs with two classes, the F1 × 100 of class 1, each averaged over the seeds.

    held_out: select the epoch on held-out training data, and use the test set once.
    authors_best_on_test: train on all training data and report the epoch that is best on the test set, as the authors'
    program does. This overestimates every model; use it only to compare with the authors' figures.
    """
    if protocol not in PROTOCOLS:
        raise BanyanError(f"protocol must be one of {', '.join(PROTOCOLS)}, not {protocol!r}")
    if not seeds:
        raise BanyanError("classification needs at least one seed")
    _check_classes(train, test, task)
    known, unseen = (torch.from_numpy(features(encode, texts)) for texts in (train, test))
    held_out = _held_out(train.label)
    if protocol == "held_out":
        fit, choose = (known[~held_out], train.label[~held_out]), (known[held_out], train.label[held_out])
    else:
        fit, choose = (known, train.label), (unseen, test.label)
    with devices.using(torch.device("cpu"), deterministic=True):
        predicted = np.stack([_predict(_train(fit, choose, seed), unseen) for seed in seeds], 1)
    outcomes = [Outcome(task, "accuracy", (predicted == test.label[:, None]).mean(1), percent)]
    if train.second is not None and train.label.max() == 1:
        outcomes.append(Outcome(task, "f1", np.column_stack([test.label, predicted]), f1))
    return outcomes


def _check_classes(train: Labelled, test: Labelled, task: str) -> None:
    if (train.second is None) != (test.second is None):
        raise BanyanError(f"{task}: of the training set and the test set, one holds pairs and the other single texts")
    counts = np.bincount(train.label)
    if len(counts) < 2 or counts.min() < 2:
        raise BanyanError(f"{task}: the training set needs at least two classes, with at least two texts each")
    if test.label.max() >= len(counts):
        raise BanyanError(f"{task}: the test set has the label {test.label.max()}, which the training set lacks")


def features(encode: Callable[[Sequence[str]], np.ndarray], texts: Labelled) -> np.ndarray:
    """Return float32 [n, E] for single texts and [n, 4E] for pairs: u, v, |u - v|, u * v (usual; not in the paper)."""
    u = np.asarray(encode(texts.first), np.float32)
    if texts.second is not None:
        v = np.asarray(encode(texts.second), np.float32)
        u = np.concatenate([u, v, np.abs(u - v), u * v], axis=1)
    if not np.isfinite(u).all():
        raise BanyanError("the model returned embeddings that are not finite; a classifier cannot be trained on them")
    return u


def _held_out(label: np.ndarray) -> np.ndarray:
    """Return bool [n]: the same fraction of each class, and at least one text."""
    rng = np.random.default_rng(SPLIT_SEED)
    chosen = np.zeros(len(label), bool)
    for value in np.unique(label):
        members = rng.permutation(np.flatnonzero(label == value))
        chosen[members[: max(1, round(HELD_OUT * len(members)))]] = True
    return chosen


def _train(fit: tuple[torch.Tensor, np.ndarray], choose: tuple[torch.Tensor, np.ndarray], seed: int) -> nn.Module:
    """Train on `fit` and return the epoch with the best accuracy on `choose` (the first, if equal)."""
    x, y = fit[0], torch.from_numpy(fit[1])
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = nn.Sequential(nn.Linear(x.shape[1], HIDDEN), nn.GELU(), nn.Linear(HIDDEN, int(y.max()) + 1))
        optimiser = devices.adam(model.parameters(), LEARNING_RATE)
        best, best_accuracy, best_epoch = model, -1.0, 0
        for epoch in range(EPOCHS):
            for rows in torch.randperm(len(x)).split(BATCH):
                optimiser.zero_grad()
                nn.functional.cross_entropy(model(x[rows]), y[rows]).backward()
                optimiser.step()
            accuracy = float((_predict(model, choose[0]) == choose[1]).mean())
            if accuracy > best_accuracy:
                best, best_accuracy, best_epoch = copy.deepcopy(model), accuracy, epoch
            elif epoch - best_epoch >= PATIENCE:
                break
    return best


def _predict(model: nn.Module, x: torch.Tensor) -> np.ndarray:
    with torch.no_grad():
        return model(x).argmax(1).numpy()


def f1(items: np.ndarray) -> float:
    """Return the F1 × 100 of class 1, averaged over seeds. items [n, 1 + seeds]: labels, then predictions per seed."""
    truth, predicted = items[:, :1] == 1, items[:, 1:] == 1
    hits = (truth & predicted).sum(0)
    either = truth.sum(0) + predicted.sum(0)
    return 100 * float(np.mean(2 * hits / np.maximum(either, 1)))
