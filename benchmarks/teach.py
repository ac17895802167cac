"""The time of a training step with a teacher relative to that of a bag of vectors.

    python -m benchmarks.teach [--vocabulary 50000] [--batch 512]

Half of the texts are lines and half are spans of them, and the teacher's vectors are at hand. A step is checked first:
its loss against the reference implementation, its gradients against plain autograd. Then a step (structure, up pass,
loss, gradients, optimiser) and the least work that the table of vectors allows are timed in alternation: torch's
EmbeddingBag on the same tokens, the same loss, its gradients and the same optimiser.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from banyan import reference
from banyan.config import Config
from banyan.model import BanyanModel
from banyan.model.graph import Graph
from banyan.model.objective import cosine_distance, loss
from banyan.support import devices, threads
from banyan.tokenizer import Tokenizer
from banyan.training.lessons import with_spans
from benchmarks.common import report
from experiments.data import add_data_option, corpus, corpus_lines

Batch = tuple[np.ndarray, np.ndarray, Tensor]  # tokens, offsets, the teacher's vectors
TEXTS, EPOCHS = 2 * 465_000, 2  # ten million words: lines, and as many spans
LINE, SPAN = (28, 10), (7, 3)  # tokens: mean and standard deviation


def texts(n: int, vocabulary: int, data: Path) -> tuple[np.ndarray, np.ndarray, int, str]:
    """n tokenised texts, the size of the vocabulary, and the source: the English corpus or, without it, random."""
    if corpus(data, "en", "train").is_file():
        lines = corpus_lines(data, "en", "train", 200_000)
        tokenizer = Tokenizer.train(lines, kind="unigram", vocab_size=vocabulary)
        return *tokenizer.encode(list(with_spans(lines[: n // 2]))), tokenizer.vocab_size, "English Wikipedia"
    rng = np.random.default_rng(0)
    lengths = np.maximum(np.stack([rng.normal(*kind, n // 2) for kind in (LINE, SPAN)], 1).ravel(), 2).astype(int)
    frequency = 1 / (np.arange(vocabulary) + 2.7)
    tokens = rng.choice(vocabulary, lengths.sum(), p=frequency / frequency.sum())
    return tokens.astype(np.int32), np.append(0, lengths.cumsum()), vocabulary, "random tokens (no English corpus)"


def check(config: Config, vocabulary: int, batch: Batch) -> None:
    """Check a step: its loss against the reference, its gradients against those of the back end in plain torch."""
    tokens, offsets, targets = batch
    gradients = {}
    for name in ("numba", "torch"):
        model = BanyanModel(config, vocabulary, name)
        graph = model.structure(tokens, offsets)
        assert isinstance(graph, Graph)
        value = loss(model, model(graph), targets)
        value.backward()
        w = {name: p.detach().double().numpy() for name, p in model.named_parameters()}
        up = reference.up_pass(graph, w["embedding"][graph.token], model_functions(w))
        roots, given = up[graph.root], targets.double().numpy()
        cosines = (roots * given).sum(1) / np.linalg.norm(roots, axis=1) / np.linalg.norm(given, axis=1)
        assert abs(value.item() - (1 - cosines).mean()) < 1e-5, (name, value.item(), (1 - cosines).mean())
        gradients[name] = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
    for name, expected in gradients["torch"].items():
        np.testing.assert_allclose(gradients["numba"][name], expected, atol=1e-7, rtol=1e-3, err_msg=name)


def model_functions(weights: dict[str, np.ndarray]) -> reference.Functions:
    return reference.Functions(*(weights[name] for name in reference.Functions._fields))


def timed_step(model: BanyanModel, optimiser: torch.optim.Optimizer, batch: Batch) -> dict[str, float]:
    """The seconds of each stage."""
    tokens, offsets, targets = batch
    marks = [time.perf_counter()]
    graph = model.structure(tokens, offsets)
    marks.append(time.perf_counter())
    passes = model(graph)
    marks.append(time.perf_counter())
    value = loss(model, passes, targets)
    marks.append(time.perf_counter())
    optimiser.zero_grad(set_to_none=True)
    value.backward()
    marks.append(time.perf_counter())
    optimiser.step()
    marks.append(time.perf_counter())
    names = ("structure", "passes", "loss", "gradients", "optimiser")
    return dict(zip(names, np.diff(marks).tolist(), strict=True))


def timed_bag(table: torch.nn.Parameter, optimiser: torch.optim.Optimizer, batch: Batch) -> float:
    """The seconds of the same step on sums of vectors."""
    tokens, offsets, targets = batch
    start = time.perf_counter()
    places = torch.from_numpy(tokens), torch.from_numpy(offsets[:-1].astype(tokens.dtype))
    sums = torch.nn.functional.embedding_bag(places[0], table, places[1], mode="sum")
    value = cosine_distance(sums, targets.to(sums.dtype))
    optimiser.zero_grad(set_to_none=True)
    value.backward()
    optimiser.step()
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vocabulary", type=int, default=50_000)
    parser.add_argument("--batch", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=40)
    add_data_option(parser)
    options = parser.parse_args()

    torch.set_num_threads(threads.available())
    torch.manual_seed(0)
    config = Config.from_preset("taught")
    tokens, offsets, vocabulary, source = texts(options.batch, options.vocabulary, options.data)
    targets = torch.nn.functional.normalize(torch.randn(len(offsets) - 1, config.dim)).half()
    check(config, vocabulary, (tokens[: offsets[20]], offsets[:21], targets[:20]))

    model, batch = BanyanModel(config, vocabulary), (tokens, offsets, targets)
    optimiser = devices.adam(model.parameters(), config.lr, config.lr_decays)
    table = torch.nn.Parameter(model.embedding.detach().clone())
    optimiser_of_bag = devices.adam([table], config.lr, config.lr_decays)
    timed_step(model, optimiser, batch)  # warms up
    timed_bag(table, optimiser_of_bag, batch)
    steps, bags = [], []
    for _ in range(options.rounds):  # in alternation, so that other work on the machine affects both alike
        steps.append(timed_step(model, optimiser, batch))
        bags.append(timed_bag(table, optimiser_of_bag, batch))
    bag = min(bags)
    fastest = min(steps, key=lambda timed: sum(timed.values()))
    total = sum(fastest.values())
    rows = [{"stage": name, "ms": 1e3 * t, "relative to the bag": t / bag} for name, t in fastest.items()]
    rows.append({"stage": "the whole step", "ms": 1e3 * total, "relative to the bag": total / bag})
    rows.append({"stage": "the bag", "ms": 1e3 * bag, "relative to the bag": 1.0})
    n = len(offsets) - 1
    report(
        {f"a training step of {n} texts with a teacher": rows},
        text=source,
        vocabulary=vocabulary,
        tokens=len(tokens),
        distinct_tokens=len(np.unique(tokens)),
        threads=threads.available(),
        minutes_for_ten_million_words=total * EPOCHS * TEXTS / n / 60,
        ratio=total / bag,
    )


if __name__ == "__main__":
    main()
