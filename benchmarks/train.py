"""The time of a training step relative to the matrix products of its output layer.

    python -m benchmarks.train [--vocabulary 25000] [--batch 512]

A step is checked against the reference implementation first. Then a step (structure, dropout, both passes, loss,
gradients, optimiser) and three bare products of the same shapes are timed in alternation.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import torch

from banyan import reference
from banyan.config import Config
from banyan.model import BanyanModel
from banyan.model.dropout import Dropout
from banyan.model.graph import Graph
from banyan.model.objective import reconstruction
from banyan.support import threads
from banyan.tokenizer import Tokenizer
from benchmarks.common import report, sentences
from experiments.data import add_data_option


def check(model: BanyanModel, tokens: np.ndarray, offsets: np.ndarray) -> None:
    """Check loss and gradients of a few sentences, with dropout, against the reference."""
    dropout = Dropout(model.config.dropout, seed=0, step=1)
    graph = model.structure(tokens, offsets, dropout)
    assert isinstance(graph, Graph)
    loss = reconstruction(model, model(graph, dropout))
    loss.backward()
    w = {name: p.detach().double().numpy() for name, p in model.named_parameters()}
    f = reference.Functions(*(w[name] for name in reference.Functions._fields))
    expected, gradients = reference.loss_and_gradients(
        graph, w["embedding"], f, w["out_weight"], w["out_bias"], dropout
    )
    assert abs(loss.item() - expected) < 1e-4, (loss.item(), expected)
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None
        np.testing.assert_allclose(parameter.grad, gradients[name], atol=1e-6, rtol=1e-3, err_msg=name)
    model.zero_grad()


def timed_step(
    model: BanyanModel, optimiser: torch.optim.Optimizer, batch: tuple[np.ndarray, np.ndarray], step: int
) -> dict[str, float]:
    """The seconds of each stage."""
    marks = [time.perf_counter()]
    dropout = Dropout(model.config.dropout, seed=0, step=step)
    graph = model.structure(*batch, dropout)
    marks.append(time.perf_counter())
    passes = model(graph, dropout)
    marks.append(time.perf_counter())
    loss = reconstruction(model, passes)
    marks.append(time.perf_counter())
    optimiser.zero_grad(set_to_none=True)
    loss.backward()
    marks.append(time.perf_counter())
    optimiser.step()
    marks.append(time.perf_counter())
    names = ("structure", "both passes", "loss and its gradients", "backward passes", "optimiser")
    return dict(zip(names, np.diff(marks).tolist(), strict=True))


def products(leaves: int, V: int, E: int) -> float:
    """The seconds of the output layer's matrix products: logits, gradient of the inputs, gradient of the weights."""
    x, w = torch.randn(leaves, E), torch.randn(V, E)
    logits, g_x, g_w = torch.empty(leaves, V), torch.empty(leaves, E), torch.empty(V, E)
    seconds = 0.0
    for a, b, out in ((x, w.T, logits), (logits, w, g_x), (logits.T, x, g_w)):
        shortest = float("inf")
        for _ in range(3):
            start = time.perf_counter()
            torch.mm(a, b, out=out)
            shortest = min(shortest, time.perf_counter() - start)
        seconds += shortest
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vocabulary", type=int, default=25_000)
    parser.add_argument("--batch", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=6)
    add_data_option(parser)
    options = parser.parse_args()

    torch.set_num_threads(threads.available())
    text, source = sentences(200_000, options.data)
    tokenizer = Tokenizer.train(
        text, kind="bpe", vocab_size=options.vocabulary, lowercase=True, zero_digits=True
    )
    config = Config()
    model = BanyanModel(config, tokenizer.vocab_size)
    check(model, *tokenizer.encode(text[:20]))
    optimiser = torch.optim.Adam(model.parameters(), lr=config.lr, fused=True)

    batch = tokenizer.encode(text[: options.batch])
    leaves = len(np.unique(batch[0]))
    timed_step(model, optimiser, batch, 0)  # warms up
    steps, bare = [], []
    for step in range(1, options.rounds + 1):  # in alternation, so that other work on the machine affects both alike
        steps.append(timed_step(model, optimiser, batch, step))
        bare.append(products(leaves, tokenizer.vocab_size, config.dim))
    seconds = min(bare)
    fastest = min(steps, key=lambda timed: sum(timed.values()))
    total = sum(fastest.values())
    rows = [{"stage": name, "ms": 1e3 * t, "relative to the products": t / seconds} for name, t in fastest.items()]
    rows.append({"stage": "the whole step", "ms": 1e3 * total, "relative to the products": total / seconds})
    rows.append({"stage": "the products alone", "ms": 1e3 * seconds, "relative to the products": 1.0})
    report(
        {f"a training step of {options.batch} sentences": rows},
        text=source,
        vocabulary=tokenizer.vocab_size,
        distinct_tokens=leaves,
        product_gflops=6 * leaves * tokenizer.vocab_size * config.dim / seconds / 1e9,
        threads=threads.available(),
        ratio=total / seconds,
    )


if __name__ == "__main__":
    main()
