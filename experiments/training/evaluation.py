"""Evaluate trained models on the CPU, while the GPU trains the next run."""

from __future__ import annotations

import itertools
import os
import signal
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

from banyan.encoder import TOKENIZER, Banyan
from banyan.errors import BanyanError
from banyan.evaluate import suites
from banyan.evaluate.outcome import mean
from banyan.evaluate.suites import Result
from banyan.support import threads
from banyan.tokenizer import Tokenizer
from experiments.data import ENGLISH as ENGLISH_TEXTS
from experiments.training.amounts import SPACED
from experiments.training.spacing import spaced
from experiments.training.weights import config_of

ENGLISH = ("sts", "words", "retrieval", "dev")
CLASSIFICATION = "classification"


def figures(record: dict[str, Any], weights: dict[str, np.ndarray], folder: Path, data: Path, wanted: list[str]) -> Any:
    """Evaluate a model: the values of "figures" and "scores" in its record, and the cosines of all pairs."""
    tokenizer = Tokenizer.from_file(folder / TOKENIZER)
    if record["model"] == "no-tree":
        from experiments.training.no_tree import Encoder

        encode: Any = Encoder(tokenizer, weights["embedding"]).encode
    else:
        config = config_of({**record["settings"], "epochs": None})
        encode = Banyan(config, tokenizer, weights).encode
    if record.get("amount", "").endswith(SPACED):
        encode = _in_spaced_form(encode)
    rows = [row for suite in wanted for row in _suite(encode, suite, data, record["language"])]
    return {"figures": [_figure(row) for row in rows], "scores": _scores(rows), "cosines": _cosines(rows)}


def _in_spaced_form(encode: Any) -> Any:
    """Encode texts in the form of the training text."""
    return lambda texts: encode([spaced(text) for text in texts])


def keep_cosines(folder: Path | None, record: dict[str, Any]) -> None:
    """Move the cosines of a record to NAME-SEED.npz in a folder, if there is one, for experiments.measuring.paired."""
    cosines = record.pop("cosines")
    if folder:
        folder.mkdir(parents=True, exist_ok=True)
        np.savez_compressed(folder / f"{record['name']}-{record['seed']}.npz", allow_pickle=False, **cosines)


def _cosines(rows: list[Result]) -> dict[str, np.ndarray]:
    found = [row.outcome for row in rows if row.outcome is not None and row.outcome.metric == "spearman"]
    return {one.task: one.items[:, 1].astype(np.float32) for one in found}


def suites_of(language: str, classification: bool) -> list[str]:
    if language not in ENGLISH_TEXTS:
        return ["languages", "dev"]
    return [*ENGLISH, *([CLASSIFICATION] if classification else [])]


def _suite(encode: Any, suite: str, data: Path, language: str) -> list[Result]:
    languages = [] if language in ENGLISH_TEXTS else [language]
    if suite == "dev" and language == "es":  # Spanish has no development set
        return []
    return suites.run(encode, suite, data, languages)


def _figure(row: Result) -> dict[str, Any]:
    if row.outcome is None:
        return {"group": row.group, "task": row.task, "value": None, "note": row.note}
    interval = row.outcome.interval()
    return {
        "group": row.group,
        "task": row.task,
        "metric": row.outcome.metric,
        "n": row.outcome.n,
        "value": row.outcome.value,
        "low": interval.low,
        "high": interval.high,
        "note": row.note,
    }


def _scores(rows: list[Result]) -> dict[str, dict[str, float]]:
    """Means over the sentence sets and over the word sets, with intervals."""
    found = {}
    for group, members in itertools.groupby(rows, key=lambda row: row.group):
        outcomes = [row.outcome for row in members if row.outcome is not None]
        if group in ("sts", "words") and outcomes:
            value, interval = mean(outcomes)
            found[group] = {"value": value, "low": interval.low, "high": interval.high}
    return found


class Here(Executor):
    """Run tasks at once in this process, for training on a CPU."""

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future:
        future: Future = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future


def beside(workers: int) -> Executor:
    """Processes that evaluate while a GPU trains, each with its share of the cores."""
    if workers == 0:
        return Here()
    cores = max(1, (threads.available() - 2) // workers)  # training keeps two
    return ProcessPoolExecutor(workers, get_context("spawn"), _settle, (cores,))


def _settle(cores: int) -> None:
    """Limit a worker to a number of cores, and let only its parent stop it."""
    os.environ["BANYAN_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = str(cores)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)


def check_data(data: Path, language: str, wanted: list[str]) -> None:
    """Raise an error before training if evaluation sets are missing."""
    for suite in wanted:
        languages = [] if language in ENGLISH_TEXTS else [language]
        if suite == "dev" and language == "es":
            continue
        found = suites.tasks(suite, data, languages)
        lacking = [task.name for task in found if not task.paths and task.name != "quora"]
        if lacking:
            raise BanyanError(f"{data} lacks {', '.join(lacking)} of the suite {suite}")
