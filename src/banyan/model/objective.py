"""The losses: cross-entropy of the reconstructed leaves, a contrastive loss over nodes, InfoNCE, the distance to a
teacher's vectors, and the loss on pairs (banyan.model.pairing).

Back ends compute the first two (banyan.backends.losses). To add a loss, write a function of the model and the
passes over a batch, and add a line to `terms`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from banyan.backends._numba.adam import squared_distance
from banyan.backends.interface import Passes
from banyan.config import Config
from banyan.errors import BanyanError
from banyan.model import BanyanModel, pairing
from banyan.model.ngram_weights import RATE

NGRAM_STAY = 1.6  # of the weights of n-grams, beside the token vectors


class Term(NamedTuple):
    """One part of the loss."""

    name: str
    title: str  # for plots and the model card
    weight: float
    compute: Callable[[BanyanModel, Any, Tensor | None], Tensor]


def terms(config: Config) -> list[Term]:
    """The parts of the loss under these settings. The loss is their weighted sum."""
    share = 0.5 if config.objective == "both" else 1.0
    found = []
    if config.objective in ("contrastive", "both"):
        found.append(Term("contrastive", "contrastive loss over nodes", share, recognition))
    if config.has_output_layer:
        found.append(Term("reconstruction", "cross-entropy of reconstructed leaves", share, reconstruction))
    if config.infonce_weight:
        found.append(Term("infonce", "InfoNCE between sentence parts", config.infonce_weight, agreement))
    if config.teacher_weight:
        found.append(Term("teacher", "cosine distance to the teacher", config.teacher_weight, imitation))
    if config.teacher_infonce_weight:
        title, weight = "InfoNCE with the teacher", config.teacher_infonce_weight
        found.append(Term("teacher_infonce", title, weight, identification))
    if config.pairs_weight:
        found.append(Term("pairs", "loss on pairs", config.pairs_weight, belonging))
    if config.stay_weight:
        title, weight = "squared distance to the weights before tuning", config.stay_weight
        found.append(Term("stay", title, weight, staying))
    return found


def losses(model: BanyanModel, passes: Passes, targets: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """The loss of a step, and its parts: unweighted, detached and in the order of `terms`. With InfoNCE, the batch must
    contain the parts of its sentences (banyan.model.crops), after the sentences if a term needs those.

    targets: the teacher's vectors of the batch's sentences [B, T], if a teacher trains the model."""
    asked = terms(model.config)
    found = [term.compute(model, passes, targets) for term in asked]
    total = found[0] if asked[0].weight == 1 else asked[0].weight * found[0]
    for term, value in zip(asked[1:], found[1:], strict=True):
        total = total + term.weight * value
    return total, torch.stack([value.detach() for value in found])


def belonging(model: BanyanModel, passes: Passes, targets: Any) -> Tensor:
    """The loss on texts that belong together. targets: pairing.Belonging."""
    if targets is None:
        raise BanyanError("pairs_weight needs texts that belong together: use `banyan tune`")
    return pairing.loss(model, passes.roots, targets)


def staying(model: BanyanModel, passes: Passes, targets: Any) -> Tensor:
    """The squared distance between a token vector and the one before tuning, averaged over the vocabulary; and that of
    the logarithms of the weights of n-grams, if they are learned."""
    if model.embedding_before is None:
        raise BanyanError("stay_weight needs a model to start from: use `banyan tune`")
    of_tokens = _distance_of_tokens(model, model.embedding_before)
    if model.lexical_scale is None:
        return of_tokens
    return of_tokens + NGRAM_STAY * (RATE * model.lexical_scale).square().mean()


def _distance_of_tokens(model: BanyanModel, before: Tensor) -> Tensor:
    if model.moving_tokens is not None:  # without a gradient: the optimiser adds it (RowAdam.stay_near)
        now = model.embedding.detach().numpy()
        return torch.tensor(squared_distance(now, before.numpy(), model.moving_tokens) / len(now))
    return functional.mse_loss(model.embedding, before, reduction="sum") / len(before)


TEACHER_TEMPERATURE = 0.1
SAME = 0.9999  # texts whose targets have at least this cosine are the same text, or translations of each other


def loss(model: BanyanModel, passes: Passes, targets: Tensor | None = None) -> Tensor:
    """The loss of a step."""
    return losses(model, passes, targets)[0]


def imitation(model: BanyanModel, passes: Passes, targets: Tensor | None) -> Tensor:
    """The cosine distance to the teacher's vectors, of the part of the roots that it trains."""
    return cosine_distance(*_taught(model, passes, targets))


def identification(model: BanyanModel, passes: Passes, targets: Tensor | None) -> Tensor:
    """InfoNCE between the roots and the teacher's vectors."""
    return teacher_infonce(*_taught(model, passes, targets), TEACHER_TEMPERATURE)


def _taught(model: BanyanModel, passes: Passes, targets: Tensor | None) -> tuple[Tensor, Tensor]:
    if targets is None:
        raise BanyanError("teacher_weight needs the vectors of a teacher: name one with --teacher")
    roots = passes.roots[: len(targets), : model.config.taught_dim or None]
    return roots, targets.to(roots.dtype)


def cosine_distance(roots: Tensor, targets: Tensor) -> Tensor:
    """The mean of 1 - cosine over the rows whose target is not zero."""
    given = targets.norm(dim=1) > 0
    distance = 1 - torch.nn.functional.cosine_similarity(roots, targets)
    return torch.where(given, distance, 0).sum() / given.sum().clamp(min=1)


def teacher_infonce(roots: Tensor, targets: Tensor, temperature: float) -> Tensor:
    """InfoNCE between texts and the teacher's vectors of them, with the rest of the batch as negatives, averaged over
    both directions. Texts with the same target are no negatives of each other; texts without a target do not count."""
    normalize = torch.nn.functional.normalize
    given = targets.norm(dim=1) > 0
    a, b = normalize(roots), normalize(targets)
    same = (b @ b.T > SAME).fill_diagonal_(False)
    left_out = same | ~given[:, None] | ~given
    logits = (a @ b.T / temperature).masked_fill(left_out.fill_diagonal_(False), -torch.inf)
    each = (logits.logsumexp(1) + logits.logsumexp(0)) / 2 - logits.diagonal()
    return torch.where(given, each, 0).sum() / given.sum().clamp(min=1)


def agreement(model: BanyanModel, passes: Passes, targets: Tensor | None = None) -> Tensor:
    n = len(passes.roots) // 3 if model.config.needs_sentences else 0
    return infonce(passes.roots[n:], model.config.infonce_temperature)


def infonce(roots: Tensor, temperature: float) -> Tensor:
    """InfoNCE between the first and the second parts of sentences, with the other sentences of the batch as negatives,
    averaged over both directions.

    roots: those of the first parts of B sentences, then of their second parts [2·B, E]."""
    first, second = torch.nn.functional.normalize(roots).chunk(2)
    logits = first @ second.T / temperature
    return ((logits.logsumexp(1) + logits.logsumexp(0)) / 2 - logits.diagonal()).mean()


def recognition(model: BanyanModel, passes: Passes, targets: Tensor | None = None) -> Tensor:
    """The contrastive loss over all nodes, or over inner nodes only if the leaves have a reconstruction loss."""
    inner = model.config.objective == "both"
    return model.backend.contrastive(passes, inner, model.precision)


def reconstruction(model: BanyanModel, passes: Passes, targets: Tensor | None = None) -> Tensor:
    """Mean cross-entropy of the reconstructed leaves, over the vocabulary or over the batch's distinct tokens."""
    config = model.config
    return model.backend.cross_entropy(
        passes, model.out_weight, model.out_bias, config.candidates, config.mean_over, model.precision
    )
