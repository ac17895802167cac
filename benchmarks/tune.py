"""The speed of `banyan tune` relative to sentence-transformers' own trainer, on the same model and the same pairs.

    python -m benchmarks.tune model/ [--pairs 8192] [--slow-pairs 1024] [--batch 512] [--repeats 2]

The loss of a batch is checked first, against InfoNCE in float64 on the embeddings that sentence-transformers computes.
Then both sides train for one epoch, from texts on, without evaluation, after a short run that is not counted. They take
turns, and the shortest of several times counts.

ours    preset `tuned`, with all that a run does: it tokenises, weighs n-grams, learns, and writes a checkpoint
theirs  MultipleNegativesRankingLoss in both directions on banyan.integrations.sentence_transformers. What their trainer
        does before and after the epoch is not counted. It gets fewer pairs, evenly chosen from the same ones

Their time depends on their batch, because each step moves the whole embedding. So it is measured with several: their
default, the one of their documentation, larger ones, and ours. The claim is the row of their documentation, because a
user who follows it trains so; with their default the ratio would be larger, with larger batches it is smaller.
"""

from __future__ import annotations

import argparse
import lzma
import tempfile
import time
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import torch

from banyan import Banyan
from banyan.config import TUNED
from banyan.model import BanyanModel, objective
from banyan.model.pairing import NGRAM_SHARE
from banyan.support import devices, threads
from banyan.support.display import Display
from banyan.training.folder import Given, RunFolder
from banyan.tuning.batches import Batches, prepared
from banyan.tuning.examples import Examples
from banyan.tuning.run import TuningRun
from banyan.tuning.tuner import recounted
from benchmarks.common import report, sentences
from experiments.data import add_data_option

CPU = torch.device("cpu")
THEIR_BATCHES = {  # of sentence-transformers
    8: "the default of their trainer",
    16: "as in their training overview: the claim",
    32: "a larger batch",
    64: "a larger batch",
}
WARM = 64  # pairs of the run that is not counted


def examples(n: int, data: Path) -> tuple[Examples, str]:
    """n pairs and their source: docstrings or, without the data folder, neighbouring sentences."""
    path = data / "pairs/docstrings_train.tsv.xz"
    if not path.is_file():
        texts, source = sentences(2 * n, data)
        return Examples.of(texts[::2], texts[1::2]), source
    with lzma.open(path, "rt", encoding="utf-8") as file:
        rows = [line.split("\t") for _, line in zip(range(n + 1), file, strict=False)][1:]
    return Examples.of([row[0] for row in rows], [row[1] for row in rows]), "docstrings"


def our_run(model: Banyan, pairs: Examples, batch: int, out: Path) -> TuningRun:
    """A run of one epoch, as banyan.tune makes it, without held-out pairs."""
    folder = RunFolder(out)
    asked = {"preset": TUNED, "epochs": 1, "batch_size": batch, "max_pieces": 1 << 20}
    config, given = folder.settle(asked, Given.of(init=model.folder), resume=False)
    batches = prepared(pairs, pairs[:0], model.tokenizer, config.max_pieces)
    folder.work.mkdir(parents=True)
    folder.begin(config, given, False, False)
    network = BanyanModel(config, model.tokenizer.vocab_size)
    run = TuningRun(folder, network, model.tokenizer, batches, "", Display(quiet=True))
    run.start_from(recounted(model, batches[0].store))
    return run


def check(run: TuningRun, pairs: Examples) -> None:
    """Check the loss of the pairs against InfoNCE in float64."""
    transformer = transformer_of(run.banyan())
    first, second = (transformer.encode(texts).astype(np.float64) for texts in (pairs.first, pairs.second))
    first, second = (rows / np.linalg.norm(rows, axis=1)[:, None] for rows in (first, second))
    part: Batches = run.text[np.arange(len(pairs))]
    expected = 0.0
    for share in (1.0, NGRAM_SHARE) if run.config.hashes_words else (1.0,):
        logits = np.where(part.left_out(), -np.inf, first @ second.T / (share * run.config.pairs_temperature))
        both = [np.log(np.exp(logits).sum(axis)) for axis in (0, 1)]
        expected += (np.mean(both, axis=0) - np.diag(logits)).mean()
    graph, known = next(run._graphs(run.text, [np.arange(len(pairs))], [run._dropout(0)]))
    found = objective.loss(run.model, run.model(graph), known).item()
    assert abs(found - expected) < 1e-3 * expected, (found, expected)


def transformer_of(model: Banyan) -> Any:
    from sentence_transformers import SentenceTransformer

    from banyan.integrations.sentence_transformers import BanyanModule

    return SentenceTransformer(modules=[BanyanModule(model)], device="cpu")


class Times:
    """The shortest time of several, and the least time of all processors."""

    def __init__(self) -> None:
        self.seconds = self.processor_seconds = float("inf")

    def begin(self) -> None:
        self._began = time.perf_counter(), time.process_time()

    def end(self) -> None:
        self.seconds = min(self.seconds, time.perf_counter() - self._began[0])
        self.processor_seconds = min(self.processor_seconds, time.process_time() - self._began[1])


def train_ours(model: Banyan, pairs: Examples, batch: int, out: Path, times: Times) -> None:
    times.begin()
    our_run(model, pairs, batch, out).go(1e9, False)
    times.end()


def train_theirs(model: Banyan, pairs: Examples, batch: int, out: Path, times: Times) -> None:
    """One epoch of sentence-transformers' trainer."""
    import datasets
    from sentence_transformers import SentenceTransformerTrainer, SentenceTransformerTrainingArguments
    from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss
    from transformers import TrainerCallback

    class Clock(TrainerCallback):
        def on_epoch_begin(self, *state: Any, **more: Any) -> None:
            times.begin()

        def on_epoch_end(self, *state: Any, **more: Any) -> None:
            times.end()

    transformer = transformer_of(model)
    loss = MultipleNegativesRankingLoss(transformer, directions=("query_to_doc", "doc_to_query"))
    how = SentenceTransformerTrainingArguments(
        str(out),
        num_train_epochs=1,
        per_device_train_batch_size=batch,
        learning_rate=3e-3,
        report_to=[],
        use_cpu=True,
        save_strategy="no",
        disable_tqdm=True,
    )
    columns = datasets.Dataset.from_dict({"anchor": pairs.first, "positive": pairs.second})
    SentenceTransformerTrainer(transformer, how, columns, loss=loss, callbacks=[Clock()]).train()


def evenly(pairs: Examples, n: int) -> Examples:
    return pairs[np.linspace(0, len(pairs) - 1, min(n, len(pairs))).round().astype(int)]


def row(trainer: str, batch: int, pairs: int, times: Times, ours: float, why: str) -> dict[str, Any]:
    """ours: our pairs/s."""
    speed = pairs / times.seconds
    figures = {"pairs/s": speed, "ratio": ours / speed, "CPU ms/pair": 1000 * times.processor_seconds / pairs}
    return {"trainer": trainer, "batch": batch, "pairs": pairs, **figures, "why": why}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="a model folder")
    parser.add_argument("--pairs", type=int, default=8192)
    parser.add_argument("--slow-pairs", type=int, default=1024)
    parser.add_argument("--batch", type=int, default=512)
    parser.add_argument("--repeats", type=int, default=2)
    add_data_option(parser)
    options = parser.parse_args()

    torch.set_num_threads(threads.available())
    model = Banyan.from_pretrained(options.model)
    pairs, source = examples(options.pairs, options.data)
    theirs = {**THEIR_BATCHES, options.batch: "the same batch as ours"}
    given = {batch: evenly(pairs, max(options.slow_pairs, 4 * batch)) for batch in theirs}  # four steps at least
    times, of_theirs = Times(), {batch: Times() for batch in theirs}
    with tempfile.TemporaryDirectory() as folder, devices.using(CPU, False):
        places = (Path(folder) / str(number) for number in count())
        warm = our_run(model, given[options.batch], options.batch, next(places))
        check(warm, given[options.batch][: min(len(given[options.batch]), 256)])
        warm.go(1e9, False)  # compiles the kernels
        train_theirs(model, evenly(pairs, WARM), 16, next(places), Times())
        for _ in range(options.repeats):
            train_ours(model, pairs, options.batch, next(places), times)
            for batch in theirs:
                train_theirs(model, given[batch], batch, next(places), of_theirs[batch])
    ours = len(pairs) / times.seconds
    rows = [row("banyan tune", options.batch, len(pairs), times, ours, "preset tuned")]
    rows += [
        row("sentence-transformers", batch, len(given[batch]), of_theirs[batch], ours, why)
        for batch, why in theirs.items()
    ]
    report({f"one epoch of tuning on {source}": rows}, seconds_of_five_epochs_of_40340_pairs=5 * 40_340 / ours)


if __name__ == "__main__":
    main()
