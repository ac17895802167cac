"""The loss on examples of texts that belong together: InfoNCE with in-batch negatives, or a ranking loss on scores.

The texts of a batch of B examples are B first texts, B second texts, and M negatives, in this order. Similarity is the
cosine of whole embeddings, as encode() returns them: each part is scaled to its norm (Config.parts).

If the lexical part has n-grams of words, their weights are learned too, by a second loss. Each part is learned beside
the other, but neither relies on what the other has memorised: the first loss sees the weights before tuning, and the
second does not change the roots. One loss for both finds fewer new pairs (docs/experiments.md).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import normalize, softplus

from banyan.model.ngram_weights import Hashed, sketches

if TYPE_CHECKING:
    from banyan.model.banyan_model import BanyanModel

NGRAM_SHARE = 0.6  # the temperature of the loss that learns weights of n-grams, as a share of the other one


class Belonging(NamedTuple):
    """What is known about the texts of a batch."""

    left_out: Tensor  # bool [B, B + M]: texts that are no negatives of a first text, although they are not its second
    lexical: Tensor | Hashed | None  # the lexical parts of the texts [2·B + M, D], of norm 1 or zero, or their n-grams
    score: Tensor | None  # [B]


def of_learned(model: BanyanModel, roots: Tensor, first_texts: int) -> Tensor:
    """What the learned parts add to the cosines of all first texts with all second texts and negatives [B, B + M]."""
    config, B = model.config, first_texts
    learned = [(first, end, norm) for first, end, norm in config.parts if end <= config.dim]
    vectors = torch.cat([norm * normalize(roots[:, first:end]) for first, end, norm in learned], 1)
    return vectors[:B] @ vectors[B:].T / _square(model)


def with_lexical(model: BanyanModel, learned: Tensor, lexical: Tensor) -> Tensor:
    """The cosines. lexical: the lexical parts of the texts [2·B + M, D], of norm 1 or zero."""
    B, weight = len(learned), model.config.lexical_weight
    return torch.addmm(learned, lexical[:B], lexical[B:].T, alpha=weight**2 / _square(model))


def _square(model: BanyanModel) -> float:
    """The squared norm of embeddings."""
    return sum(norm**2 for *_, norm in model.config.parts)


def infonce(cosines: Tensor, left_out: Tensor, temperature: float) -> Tensor:
    """InfoNCE, averaged over both directions: each first text finds its second among all second texts and negatives,
    and each second text finds its first."""
    B = len(cosines)
    logits = (cosines / temperature).masked_fill(left_out, -torch.inf)
    return ((logits.logsumexp(1) + logits[:, :B].logsumexp(0)) / 2 - logits.diagonal()).mean()


def ranking(cosines: Tensor, score: Tensor, temperature: float) -> Tensor:
    """CoSENT: log(1 + the sum of exp((cosine of a pair - cosine of a pair with a higher score) / temperature))."""
    cosine = cosines.diagonal() / temperature
    differences = (cosine - cosine[:, None]).masked_fill(score[:, None] <= score, -torch.inf)
    highest = differences.max().clamp(min=0).detach()
    return softplus((differences - highest).exp().sum().clamp(min=1e-30).log() + highest)


def loss(model: BanyanModel, roots: Tensor, known: Belonging) -> Tensor:
    temperature = model.config.pairs_temperature
    learned = of_learned(model, roots, len(known.left_out))

    def of(cosines: Tensor, temperature: float) -> Tensor:
        if known.score is None:
            return infonce(cosines, known.left_out, temperature)
        return ranking(cosines, known.score, temperature)

    if known.lexical is None:
        return of(learned, temperature)
    if not isinstance(known.lexical, Hashed):
        return of(with_lexical(model, learned, known.lexical), temperature)
    assert model.lexical_scale is not None
    before, scaled = (
        sketches(known.lexical, model.lexical_idf, scale, model.config.lexical_dim, model.config.lexical_root)
        for scale in (torch.zeros_like(model.lexical_scale), model.lexical_scale)
    )
    of_roots = of(with_lexical(model, learned, before), temperature)
    return of_roots + of(with_lexical(model, learned.detach(), scaled), NGRAM_SHARE * temperature)
