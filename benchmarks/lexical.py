"""What the lexical dimensions cost when texts are encoded: none, n-grams of pieces, n-grams of words.

    python -m benchmarks.lexical CORPUS

CORPUS is a file with one sentence per line. Models are built on it without training, because training does not change
what the lexical part costs. First checks the sketches against their definition, then prints times relative to 512
dimensions of n-grams of pieces (preset default up to 0.2.0), measured in turns.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from banyan import Banyan
from banyan.config import Config
from banyan.corpus import Corpus
from banyan.corpus.store import Store
from banyan.model import BanyanModel
from banyan.model.word_ngrams import WordNgrams, spelling
from banyan.tokenizer import Tokenizer
from banyan.training.beginning import count_leaves
from banyan.training.passages import parts

SENTENCES, ROUNDS = 6000, 8
DEFAULT = Config.from_preset("default")
KINDS: dict[str, dict[str, Any]] = {
    "pieces, 512": {"lexical_ngrams": "pieces", "lexical_dim": 512},
    "none": {"lexical_dim": 0},
    "words, 512": {"lexical_ngrams": "words", "lexical_dim": 512},
    f"words, {DEFAULT.lexical_dim} (default)": {},
}


def built(settings: dict[str, Any], tokenizer: Tokenizer, store: Store) -> Banyan:
    config = Config.from_preset("default", init_ppmi=0.0, **settings)
    model = BanyanModel(config, tokenizer.vocab_size)
    count_leaves(model, tokenizer.pieces, parts(store, None, config, hold_out=False)[0], torch.device("cpu"))
    return Banyan(config, tokenizer, model.weights())


def check(model: Banyan, texts: list[str]) -> None:
    """Compare the lexical part of embeddings with its definition."""
    config = model.config
    ngrams = WordNgrams(
        spelling(model.tokenizer.pieces), model.weights["lexical_idf"], config.lexical_dim, config.sublinear_tf
    )
    for text in texts:
        expected = ngrams.contributions(model.tokenizer.encode([text])[0]).sum(0)
        expected = config.lexical_weight * expected / max(float(np.linalg.norm(expected)), 1.0)
        np.testing.assert_allclose(model.encode(text)[config.dim :], expected, rtol=1e-5, atol=1e-6)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", type=Path)
    options = parser.parse_args()
    corpus = Corpus(options.corpus, layout="lines")
    with tempfile.TemporaryDirectory() as folder:
        tokenizer = Tokenizer.train(corpus, kind="unigram", vocab_factor=2.0, zero_digits=False)
        store = Store.build(Path(folder) / "store", corpus, tokenizer, min_pieces=4, max_pieces=200)
        models = {name: built(settings, tokenizer, store) for name, settings in KINDS.items()}
    texts = [sentence for sentence, _ in zip(corpus, range(SENTENCES), strict=False)]
    for model in models.values():
        if model.config.hashes_words:
            check(model, texts[:200])
    best = dict.fromkeys(models, float("inf"))
    for _ in range(ROUNDS):
        for name, model in models.items():
            started = time.perf_counter()
            model.encode(texts)
            best[name] = min(best[name], time.perf_counter() - started)
    for name, seconds in best.items():
        print(f"{name:24} {seconds / best['pieces, 512']:5.2f}  ({len(texts) / seconds:,.0f} sentences/s)")


if __name__ == "__main__":
    main()
