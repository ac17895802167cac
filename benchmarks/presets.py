"""The cost of presets: matrix products to train on a corpus, and the time to encode relative to preset `paper`.

    python -m benchmarks.presets [--sentences 465000] [--samples 24]

torch counts the products in forward and backward passes of the actual objective, on random batches. The count of
preset `paper` is checked against its formula, and embeddings against the reference implementation. Presets encode in
alternation, and only the ratio of their times is reported.
"""

from __future__ import annotations

import argparse
import math
import time
from statistics import fmean, stdev
from typing import Any

import numpy as np
import torch
from torch.utils.flop_counter import FlopCounterMode

from banyan import reference
from banyan.config import Config
from banyan.encoder import Banyan
from banyan.model import BanyanModel, crops, objective
from banyan.model.dropout import Dropout
from banyan.model.word_ngrams import SAMPLE, WordNgrams, spelling, weights_of
from banyan.support import threads
from banyan.tokenizer import Tokenizer
from banyan.training.epochs import suitable_epochs
from benchmarks.common import report, sentences
from experiments.data import add_data_option

Ragged = tuple[np.ndarray, np.ndarray]
COUNTED = ("paper", "default", "light")


def tokenizer_of(config: Config, text: list[str]) -> Tokenizer:
    return Tokenizer.train(
        text,
        kind=config.subword_model,
        vocab_factor=config.vocab_factor,
        lowercase=config.lowercase,
        zero_digits=config.zero_digits,
    )


# --- Matrix products -------------------------------------------------------------------------------------------------


def products(config: Config, tokenizer: Tokenizer, text: list[str], samples: int) -> dict[str, Any]:
    """TFLOP of training on the text, estimated from some of its batches."""
    tokens, offsets = tokenizer.encode(text)
    model = BanyanModel(config, tokenizer.vocab_size)
    steps = math.ceil(len(text) / config.batch_size)
    epochs = config.epochs or suitable_epochs(steps, config)
    rng = np.random.default_rng(0)
    counts = [_of_step(model, _drawn(tokens, offsets, config.batch_size, rng), step) for step in range(samples)]
    each = fmean(counts) / 1e12
    return {
        "preset": config.preset,
        "epochs": epochs,
        "steps": epochs * steps,
        "TFLOP": each * epochs * steps,
        "±": stdev(counts) / 1e12 / math.sqrt(samples) * epochs * steps,
    }


def _drawn(tokens: np.ndarray, offsets: np.ndarray, size: int, rng: np.random.Generator) -> Ragged:
    parts = [tokens[offsets[i] : offsets[i + 1]] for i in rng.choice(len(offsets) - 1, size, replace=False)]
    return np.concatenate(parts), np.concatenate([[0], np.cumsum([len(part) for part in parts])])


def _of_step(model: BanyanModel, batch: Ragged, step: int) -> int:
    config = model.config
    dropout = Dropout(config.dropout, config.seed, step, config.leaf_dropout)
    cut = crops.cut(config)
    graph: Any = model.structure(*(crops.batch_with_crops(*batch, dropout, *cut) if cut else batch), dropout)
    with FlopCounterMode(display=False) as counter:
        objective.loss(model, model(graph, dropout)).backward()
    counted = counter.get_total_flops()
    if config.preset == "paper":  # the logits, and the gradients of both factors
        assert counted == 3 * 2 * graph.n_leaves * len(model.out_bias) * config.dim
    return counted


# --- Encoding --------------------------------------------------------------------------------------------------------


def untrained(config: Config, tokenizer: Tokenizer, text: list[str]) -> Banyan:
    rng = np.random.default_rng(0)
    weights = {"embedding": rng.normal(size=(tokenizer.vocab_size, config.dim)).astype(np.float32)}
    for name in reference.Functions._fields:
        weights[name] = rng.uniform(2, 3, config.width).astype(np.float32)
    if config.hashes_words:
        weights["lexical_idf"] = weights_of(*tokenizer.encode(text[:SAMPLE]), spelling(tokenizer.pieces))
    return Banyan(config, tokenizer, weights)


def check(model: Banyan, text: list[str]) -> None:
    embeddings, table, config = model.encode(text), model.embedding.astype(np.float64), model.config
    for text_, found in zip(text, embeddings, strict=True):
        batch = model.tokenizer.encode([text_])
        tokens, offsets, joined = model.leaf_choice.leaves(*batch)
        graph = reference.entangle(reference.greedy(tokens, offsets, table, model.functions, joined=joined))
        root = reference.up_pass(graph, table[graph.token], model.functions)[graph.root[0]]
        if config.hashes_words:
            words = WordNgrams.of(config, spelling(model.tokenizer.pieces), model.weights["lexical_idf"])
            of_words = words.contributions(*batch)
            sums = of_words.astype(np.float64).sum(0)
            root = np.concatenate([root / np.linalg.norm(root), sums * config.lexical_weight / np.linalg.norm(sums)])
        np.testing.assert_allclose(found, root, rtol=1e-4, atol=1e-4)


def encoding(models: dict[str, Banyan], text: list[str], rounds: int) -> list[dict[str, Any]]:
    """The shortest CPU time of each preset, relative to preset paper."""
    took: dict[str, list[float]] = {name: [] for name in models}
    for _ in range(rounds):
        for name, model in models.items():
            start = time.process_time()
            model.encode(text)
            took[name].append(time.process_time() - start)
    paper = min(took["paper"])
    return [{"preset": name, "dimensions": models[name].dim, "time": min(t) / paper} for name, t in took.items()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sentences", type=int, default=465_000)
    parser.add_argument("--samples", type=int, default=24)
    parser.add_argument("--rounds", type=int, default=7)
    add_data_option(parser)
    options = parser.parse_args()
    torch.set_num_threads(threads.available())
    text, source = sentences(options.sentences, options.data)
    configs = {name: Config.from_preset(name) for name in COUNTED}
    made = {config.subword_model: tokenizer_of(config, text) for config in (configs["paper"], configs["default"])}
    counted = [products(config, made[config.subword_model], text, options.samples) for config in configs.values()]
    models = {name: untrained(configs[name], made[configs[name].subword_model], text) for name in ("paper", "default")}
    some = text[: len(text) // 10]
    for model in models.values():
        check(model, some[:200])
    tables = {
        "matrix products of training": counted,
        "time to encode relative to preset paper": encoding(models, some, options.rounds),
    }
    report(tables, text=source, words=sum(len(line.split()) for line in text))


if __name__ == "__main__":
    main()
