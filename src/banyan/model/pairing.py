"""The loss on examples of texts that belong together: InfoNCE with in-batch negatives, or a ranking loss on scores.

The texts of a batch of B examples are B first texts, B second texts, and M negatives, in this order. Similarity is the
cosine of whole embeddings, as encode() returns them: each part is scaled to its norm (Config.parts).

If the lexical part has n-grams of words, their weights are learned too, by a second loss. Each part is learned beside
the other, but neither relies on what the other has memorised: the first loss sees the weights before tuning, and the
second does not change the roots. One loss for both finds fewer new pairs (docs/experiments.md).
"""

from __future__ import annotations

import math
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


def similarities(model: BanyanModel, roots: Tensor, lexical: Tensor | None, first_texts: int) -> Tensor:
    """The cosines of all first texts with all second texts and negatives [B, B + M].

    lexical: the lexical parts of the texts [2·B + M, D], of norm 1 or zero."""
    config, B = model.config, first_texts
    of_learned = [(first, end, norm) for first, end, norm in config.parts if end <= config.dim]
    parts = [norm * normalize(roots[:, first:end]) for first, end, norm in of_learned]
    if lexical is not None:
        parts.append(config.lexical_weight * lexical)
    vectors = torch.cat(parts, 1) / math.sqrt(sum(norm**2 for *_, norm in config.parts))
    return vectors[:B] @ vectors[B:].T


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
    temperature, B = model.config.pairs_temperature, len(known.left_out)

    def of(roots: Tensor, lexical: Tensor | None, temperature: float) -> Tensor:
        cosines = similarities(model, roots, lexical, B)
        if known.score is None:
            return infonce(cosines, known.left_out, temperature)
        return ranking(cosines, known.score, temperature)

    if not isinstance(known.lexical, Hashed):
        return of(roots, known.lexical, temperature)
    assert model.lexical_scale is not None
    before, scaled = (
        sketches(known.lexical, model.lexical_idf, scale, model.config.lexical_dim)
        for scale in (torch.zeros_like(model.lexical_scale), model.lexical_scale)
    )
    return of(roots, before, temperature) + of(roots.detach(), scaled, NGRAM_SHARE * temperature)
