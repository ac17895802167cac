"""The loss on examples of texts that belong together: InfoNCE with in-batch negatives, or a ranking loss on scores.

The texts of a batch of B examples are B first texts, B second texts, and M negatives, in this order. Similarity is the
cosine of whole embeddings, as encode() returns them: each part is scaled to its norm (Config.parts). The lexical part
is not learned.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import normalize, softplus

if TYPE_CHECKING:
    from banyan.model.banyan_model import BanyanModel


class Belonging(NamedTuple):
    """What is known about the texts of a batch."""

    left_out: Tensor  # bool [B, B + M]: texts that are no negatives of a first text, although they are not its second
    lexical: Tensor | None  # [2·B + M, D]: the lexical parts of the texts, of norm 1 or zero
    score: Tensor | None  # [B]


def similarities(model: BanyanModel, roots: Tensor, known: Belonging) -> Tensor:
    """The cosines of all first texts with all second texts and negatives [B, B + M]."""
    config, B = model.config, len(known.left_out)
    of_learned = [(first, end, norm) for first, end, norm in config.parts if end <= config.dim]
    parts = [norm * normalize(roots[:, first:end]) for first, end, norm in of_learned]
    if known.lexical is not None:
        parts.append(config.lexical_weight * known.lexical)
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
    cosines, temperature = similarities(model, roots, known), model.config.pairs_temperature
    if known.score is None:
        return infonce(cosines, known.left_out, temperature)
    return ranking(cosines, known.score, temperature)
