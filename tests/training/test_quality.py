"""Slow: does a model trained on real text rank real sentences better than one that has learnt nothing?"""

from __future__ import annotations

import lzma
from itertools import islice

import pytest

from banyan import Banyan
from banyan.evaluate.similarity import read_pairs, spearman
from banyan.model import BanyanModel
from banyan.training import train


# Spearman on stsb_dev_clean before and after, seed 0, on a CPU: paper 22.7 and 70.8, default 66.8 and 80.8, light 66.8
# and 80.1. The bounds are about two thirds of the gains. Untrained, `default` and `light` already compare n-grams of
# words in their lexical dimensions.
@pytest.mark.slow
@pytest.mark.data
@pytest.mark.parametrize(("preset", "gain"), [("paper", 32), ("default", 9), ("light", 9)])
def test_training_on_wikipedia_ranks_sentence_pairs_far_better_than_no_training(data_folder, tmp_path, preset, gain):
    with lzma.open(data_folder / "corpora/en/train.txt.xz", "rt", encoding="utf-8") as lines:
        (tmp_path / "en.txt").write_text("".join(islice(lines, 60_000)), encoding="utf-8")
    pairs = read_pairs(data_folder / "eval/stsb_dev_clean.tsv")
    settings = {"preset": preset, "epochs": 3, "lr": 3e-3, "candidates": "batch", "device": "cpu"}
    model = train(tmp_path / "en.txt", tmp_path / "model", quiet=True, **settings)
    untrained = BanyanModel(model.config, model.tokenizer.vocab_size)
    before = spearman(Banyan(model.config, model.tokenizer, untrained.weights()).encode, pairs)
    assert spearman(model.encode, pairs) > before + gain
