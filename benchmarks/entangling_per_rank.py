"""The cost of entangling per process: a step of 512 or 4,096 sentences divided among 1, 2, 4 and 8 processes.

    python -m benchmarks.entangling_per_rank [--model FOLDER]

Each process entangles its own share of the step. Spans that two shares have in common are computed twice, and tokens
that occur in several shares are scored once in each. Counts are means over a few steps, with initial weights and, if a
model is given, with its weights. The shares are checked first.
"""

from __future__ import annotations

import argparse
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import torch

from banyan.config import Config
from banyan.corpus.report import Report
from banyan.corpus.store import Store, shuffled_batches
from banyan.encoder import TOKENIZER, WEIGHTS
from banyan.model import BanyanModel
from banyan.model.graph import Graph
from banyan.model.weights import load_weights
from banyan.tokenizer import Tokenizer
from benchmarks.common import report, sentences
from experiments.data import add_data_option

BATCHES, RANKS = (512, 4096), (1, 2, 4, 8)
STEPS = 5


def store_of(text: list[str], tokenizer: Tokenizer, config: Config) -> Store:
    """The sentences whose length is in the range for training."""
    tokens, offsets = tokenizer.encode(text)
    keep = (np.diff(offsets) >= config.min_pieces) & (np.diff(offsets) <= config.max_pieces)
    tokens, offsets = Store(tokens, offsets, Report(), "").batch(np.flatnonzero(keep))
    return Store(tokens, offsets, Report(), "")


def shares(store: Store, batch: int, ranks: int, step: int) -> list[np.ndarray]:
    """The sentences of each rank in a step, from its own shuffled shard, as in training."""
    shards = [np.arange(rank, len(store), ranks) for rank in range(ranks)]
    return [
        shard[shuffled_batches(len(shard), batch // ranks, 0, 0, rank)[step]] for rank, shard in enumerate(shards)
    ]


def counted(model: BanyanModel, store: Store, batch: int, ranks: int) -> dict[str, Any]:
    nodes, plain, distinct, scored, repeated = 0, 0, 0, 0, 0
    for step in range(STEPS):
        graphs = []
        for share in shares(store, batch, ranks, step):
            tokens, offsets = store.batch(share)
            graph = model.structure(tokens, offsets)
            assert isinstance(graph, Graph)
            graphs.append(graph)
            plain += 2 * len(tokens) - len(share)
        times = Counter(token for graph in graphs for token in graph.token.tolist())
        nodes += sum(graph.n_nodes for graph in graphs)
        distinct += len(times)
        scored += sum(times.values())
        repeated += sum(count for count in times.values() if count == ranks)
    return {
        "batch": batch,
        "processes": ranks,
        "nodes per step": nodes // STEPS,
        "relative to plain trees": nodes / plain,
        "distinct tokens": distinct // STEPS,
        "tokens scored": scored // STEPS,
        "share in all processes": repeated / scored,
    }


def table(model: BanyanModel, store: Store) -> list[dict[str, Any]]:
    rows = [counted(model, store, batch, ranks) for batch in BATCHES for ranks in RANKS]
    for row in rows:
        alone = next(other for other in rows if other["batch"] == row["batch"] and other["processes"] == 1)
        row["nodes relative to one process"] = row["nodes per step"] / alone["nodes per step"]
    return rows


def check(store: Store) -> None:
    """Check that shares are disjoint and of the right size, and that a single process has the whole step."""
    (alone,) = shares(store, 512, 1, 0)
    np.testing.assert_array_equal(alone, shuffled_batches(len(store), 512, 0, 0)[0])
    eighths = np.concatenate(shares(store, 512, 8, 0))
    assert len(np.unique(eighths)) == 512


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, help="a model folder")
    add_data_option(parser)
    options = parser.parse_args()
    text, source = sentences(200_000, options.data)
    config = Config()
    if options.model:
        tokenizer = Tokenizer.from_file(options.model / TOKENIZER)
    else:
        tokenizer = Tokenizer.train(text, kind="bpe", vocab_size=25_000, lowercase=True, zero_digits=True)
    store = store_of(text, tokenizer, config)
    model = BanyanModel(config, tokenizer.vocab_size)
    check(store)
    tables = {"initial weights": table(model, store)}
    if options.model:
        with torch.no_grad():
            for name, weights in load_weights(options.model / WEIGHTS, config, tokenizer.vocab_size).items():
                model.get_parameter(name).copy_(torch.from_numpy(weights))
        tables["trained weights"] = table(model, store)
    report(tables, text=source, vocabulary=tokenizer.vocab_size, sentences=len(store), steps=STEPS)


if __name__ == "__main__":
    main()
