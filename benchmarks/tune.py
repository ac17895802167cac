"""The speed of `banyan tune` relative to sentence-transformers' own trainer, on the same model and the same pairs.

    python -m benchmarks.tune model/ [--pairs 8192] [--slow-pairs 1024] [--batch 512]

The loss of a batch is checked first, against InfoNCE in float64 on the embeddings that sentence-transformers computes.
Then one epoch is timed on each side, from texts on, without evaluation, after a short one that is not counted: ours
with preset `tuned`; theirs with
MultipleNegativesRankingLoss in both directions on banyan.integrations.sentence_transformers, once in batches of the
same size, once in batches of 16 pairs, as their examples have them, and once in batches of 8, the default of their
trainer. Their trainer is timed on the first --slow-pairs pairs only.
"""

from __future__ import annotations

import argparse
import lzma
import tempfile
import time
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
from benchmarks.common import report, sentences
from experiments.data import add_data_option

CPU = torch.device("cpu")
EXAMPLE_BATCH, DEFAULT_BATCH = 16, 8  # of sentence-transformers


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
    run.start_from(model.weights)
    return run


def check(run: TuningRun, model: Banyan, pairs: Examples) -> None:
    """Check the loss of the pairs against InfoNCE in float64."""
    transformer = transformer_of(model)
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


def their_seconds(model: Banyan, pairs: Examples, batch: int, out: Path) -> float:
    """The seconds of one epoch of sentence-transformers' trainer."""
    import datasets
    from sentence_transformers import SentenceTransformerTrainer, SentenceTransformerTrainingArguments
    from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss

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
    trainer = SentenceTransformerTrainer(transformer, how, columns, loss=loss)
    start = time.perf_counter()
    trainer.train()
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="a model folder")
    parser.add_argument("--pairs", type=int, default=8192)
    parser.add_argument("--slow-pairs", type=int, default=1024)
    parser.add_argument("--batch", type=int, default=512)
    add_data_option(parser)
    options = parser.parse_args()

    torch.set_num_threads(threads.available())
    model = Banyan.from_pretrained(options.model)
    pairs, source = examples(options.pairs, options.data)
    few = pairs[: options.slow_pairs]
    with tempfile.TemporaryDirectory() as folder, devices.using(CPU, False):
        place = Path(folder)
        warm = our_run(model, few, options.batch, place / "warm")
        check(warm, model, few[: min(len(few), 256)])
        warm.go(1e9, False)  # compiles the kernels
        start = time.perf_counter()
        our_run(model, pairs, options.batch, place / "ours").go(1e9, False)
        ours = len(pairs) / (time.perf_counter() - start)
        their_seconds(model, few[: 4 * EXAMPLE_BATCH], EXAMPLE_BATCH, place / "theirs")
        rows = [{"trainer": "banyan tune", "batch": options.batch, "pairs": len(pairs), "pairs/s": ours, "ratio": 1.0}]
        for batch in (options.batch, EXAMPLE_BATCH, DEFAULT_BATCH):
            theirs = len(few) / their_seconds(model, few, batch, place / f"theirs-{batch}")
            row = {"trainer": "sentence-transformers", "batch": batch, "pairs": len(few), "pairs/s": theirs}
            rows.append({**row, "ratio": ours / theirs})
    report({f"one epoch of tuning on {source}": rows}, seconds_of_three_epochs_of_40340_pairs=3 * 40_340 / ours)


if __name__ == "__main__":
    main()
