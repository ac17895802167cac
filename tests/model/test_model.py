"""The trainable module: its parameters and how they begin."""

from __future__ import annotations

import json

import pytest
import torch

from banyan.config import PRESETS, Config
from banyan.errors import BanyanError
from banyan.model import BanyanModel


def test_initial_weights_follow_the_seed_and_the_published_ranges():
    one, same, other = (BanyanModel(Config(seed=seed), 500) for seed in (0, 0, 1))
    assert torch.equal(one.embedding, same.embedding)
    assert not torch.equal(one.embedding, other.embedding)
    assert one.embedding.abs().max() <= 0.1
    for gate in (one.comp_l, one.comp_r, one.decomp_l, one.decomp_r):
        assert gate.min() >= 0.6
        assert gate.max() <= 0.9
    assert sum(p.numel() for p in one.functions) == 14
    assert one.comp_b.abs().sum() == one.decomp_lb.abs().sum() == one.decomp_rb.abs().sum() == 0


def test_halves_go_by_age_in_self_strae_alone_and_by_side_in_older_files(tmp_path):
    assert [name for name in PRESETS if Config.from_preset(name).halves == "age"] == ["self-strae"]
    older = json.loads(Config.from_preset("self-strae").to_json())
    del older["halves"]
    (tmp_path / "config.json").write_text(json.dumps(older))
    assert Config.from_file(tmp_path / "config.json").halves == "side"


@pytest.mark.parametrize("halves", ["age", "random"])
def test_entangled_trees_go_by_side(halves):
    with pytest.raises(BanyanError, match=f"halves {halves} is for plain trees: in entangled trees, halves go by side"):
        Config(halves=halves)


def test_self_strae_has_the_parameters_of_the_paper():
    model = BanyanModel(Config.from_preset("self-strae"), 11)
    assert sum(function.numel() for function in model.functions) == 1072
    assert sum(weight.numel() for weight in model.parameters()) == 1072 + 11 * 256  # no output layer
