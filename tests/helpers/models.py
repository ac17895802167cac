"""Small models, and texts for them."""

from __future__ import annotations

import numpy as np

from banyan import Banyan
from banyan.config import Config
from banyan.model.functions import Functions
from banyan.tokenizer import Tokenizer
from tests.helpers.corpora import PLACES, lines

LIKE_DEFAULT = {"subword_model": "unigram", "sublinear_tf": True, "lexical_dim": 8, "init_gate": 0.9}
SAVED = {"SHA256SUMS", "config.json", "modeling_banyan.py", "model.safetensors", "modules.json", "tokenizer.json"}
TEXTS = ["The cat sees the dog.", "", "the king remembers the old queen near the river", "bird", "   "]


def tiny_model(dim: int = 16) -> Banyan:
    """A model of random weights, made in a moment."""
    words = "the a cat dog sat slept on mat house tree green runs slowly quickly over under".split()
    rng = np.random.default_rng(1)
    tokenizer = Tokenizer.train([" ".join(rng.choice(words, 6)) for _ in range(50)], vocab_size=400)
    config = Config(dim=dim, channels=dim // 2, vocab_size=400)
    weights = {name: rng.uniform(-1, 1, config.width).astype(np.float32) for name in Functions._fields}
    vocabulary = tokenizer.vocab_size
    weights["embedding"] = rng.uniform(-1, 1, (vocabulary, dim)).astype(np.float32)
    weights["out_weight"] = rng.uniform(-1, 1, (vocabulary, dim)).astype(np.float32)
    weights["out_bias"] = np.zeros(vocabulary, np.float32)
    return Banyan(config, tokenizer, weights)


def _place(text: str) -> str:
    return next(place for place in PLACES if place in text)


def pairs(n: int, seed: int = 0) -> dict[str, list]:
    """Two sentences are alike if they are of the same place; the model must forget all else."""
    rng = np.random.default_rng(seed)
    one, other = lines(n, seed), lines(n, seed + 1)
    for i in range(n):
        if rng.random() < 0.5:  # so that more than half of the pairs are alike
            other[i] = other[i].replace(_place(other[i]), _place(one[i]))
    alike = [float(_place(a) == _place(b)) for a, b in zip(one, other, strict=True)]
    return {"sentence1": one, "sentence2": other, "score": alike}
