"""The loss on texts that belong together."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from banyan.config import Config
from banyan.model import BanyanModel, objective, pairing
from banyan.model.ngram_weights import Hashed, factors
from banyan.model.pairing import Belonging

B, M, E, D = 4, 2, 6, 5
TUNED = {"dim": E, "channels": 3, "objective": "none", "pairs_weight": 1.0, "lexical_dim": D, "lexical_weight": 0.6}


def unit(rows: np.ndarray) -> np.ndarray:
    return rows / np.linalg.norm(rows, axis=-1, keepdims=True)


def known(seed: int = 0, score: np.ndarray | None = None) -> tuple[np.ndarray, Belonging]:
    """Random roots and lexical parts. Second text 2 and negative 1 are left out for first text 0."""
    rng = np.random.default_rng(seed)
    left_out = np.zeros((B, B + M), bool)
    left_out[0, 2] = left_out[2, 0] = left_out[0, B + 1] = True
    lexical = unit(rng.standard_normal((2 * B + M, D)))
    given = None if score is None else torch.from_numpy(score)
    return rng.standard_normal((2 * B + M, E)), Belonging(torch.from_numpy(left_out), torch.from_numpy(lexical), given)


def plain_loss(roots: np.ndarray, about: Belonging, config: Config) -> float:
    """The loss of embeddings as encode() makes them, one example after another."""
    parts = [(first, end, norm) for first, end, norm in config.parts if end <= E]
    scaled = [norm * unit(roots[:, first:end]) for first, end, norm in parts]
    vectors = unit(np.hstack([*scaled, config.lexical_weight * about.lexical.numpy()]))
    logits, out = vectors[:B] @ vectors[B:].T / config.pairs_temperature, about.left_out.numpy()
    if about.score is not None:
        own, score = logits.diagonal(), about.score.numpy()
        return np.log1p(sum(np.exp(own[j] - own[i]) for i in range(B) for j in range(B) if score[i] > score[j]))
    losses = []
    for i in range(B):
        row = [logits[i, j] for j in range(B + M) if not out[i, j]]
        column = [logits[j, i] for j in range(B) if not out[j, i]]
        losses += [np.log(np.exp(some).sum()) - logits[i, i] for some in (row, column)]
    return float(np.mean(losses))


@pytest.mark.parametrize("score", [None, np.array([0.5, 0.1, 0.5, 0.9])], ids=["pairs", "scores"])
@pytest.mark.parametrize("parts", [{}, {"taught_dim": 2, "taught_weight": 0.7}], ids=["one part", "taught"])
def test_loss_and_gradients_are_those_of_whole_embeddings(score, parts):
    config = Config(**TUNED, **parts, pairs_temperature=0.3)
    model = BanyanModel(config, 10).double()
    values, about = known(score=score)
    roots = torch.from_numpy(values).requires_grad_()
    loss = pairing.loss(model, roots, about)
    loss.backward()
    assert loss.item() == pytest.approx(plain_loss(values, about, config), rel=1e-9)
    step = 1e-6
    for place in np.ndindex(values.shape):
        moved = [values.copy() for _ in range(2)]
        moved[0][place] += step
        moved[1][place] -= step
        slope = np.subtract(*(plain_loss(some, about, config) for some in moved)) / (2 * step)
        assert roots.grad[place].item() == pytest.approx(slope, abs=1e-7)


def test_texts_that_are_left_out_do_not_matter():
    model = BanyanModel(Config(**TUNED), 10).double()
    values, about = known()
    before = pairing.loss(model, torch.from_numpy(values), about)
    everything = about._replace(left_out=torch.ones(B, B + M, dtype=torch.bool).fill_diagonal_(False))
    assert before > 0
    assert pairing.loss(model, torch.from_numpy(values), everything).item() == pytest.approx(0, abs=1e-12)


def test_equal_scores_are_not_ranked():
    cosines, score = torch.eye(3, requires_grad=True), torch.full((3,), 0.5)
    loss = pairing.ranking(cosines, score, 0.05)
    loss.backward()
    assert loss.item() == pytest.approx(0)
    assert not cosines.grad.any()


def test_weights_of_ngrams_and_roots_are_learned_apart():
    config = Config(**{**TUNED, "lexical_ngrams": "words"})
    model = BanyanModel(config, 10)
    values, about = known()
    roots = torch.from_numpy(values).float()
    model.lexical_idf.data.fill_(8)
    model.learn_ngram_weights()
    rng = np.random.default_rng(1)
    places = torch.from_numpy(np.arange(2 * B + M).repeat(3) * D + rng.integers(0, D, 3 * (2 * B + M)))
    buckets = torch.from_numpy(rng.integers(0, 9, len(places)))
    about = about._replace(lexical=Hashed(places, buckets, torch.ones(len(places)), 2 * B + M))

    def gradients(scale: float) -> tuple[torch.Tensor, torch.Tensor]:
        model.lexical_scale.data.copy_(torch.linspace(-scale, scale, len(model.lexical_scale)))
        model.lexical_scale.data[:9] += torch.linspace(0, scale, 9)
        model.zero_grad()
        given = roots.clone().requires_grad_()
        pairing.loss(model, given, about).backward()
        return given.grad, model.lexical_scale.grad

    (of_roots, of_scale), (of_roots_scaled, of_scale_scaled) = gradients(0.0), gradients(0.3)
    assert torch.equal(of_roots, of_roots_scaled)
    assert of_scale[:9].any()
    assert not of_scale[9:].any()
    assert not torch.equal(of_scale, of_scale_scaled)


def test_weights_of_ngrams_stay_too():
    """The distance is that of the logarithms of the weights, averaged over all n-grams."""
    model = BanyanModel(Config(**{**TUNED, "lexical_ngrams": "words"}), 10)
    model.learn_ngram_weights()
    model.embedding_before = model.embedding.detach().clone()
    model.lexical_scale.data[:9] = 0.1
    distance = objective.staying(model, None, None)
    logarithms = factors(model.lexical_scale.detach()).log()
    assert distance.item() == pytest.approx(objective.NGRAM_STAY * logarithms.square().mean().item(), rel=1e-4)
    distance.backward()
    assert (model.lexical_scale.grad[:9] > 0).all()
    assert not model.lexical_scale.grad[9:].any()
