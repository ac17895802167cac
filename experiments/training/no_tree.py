"""The control without trees: a sentence is the mean of its leaves.

Everything else is as close to Banyan as possible: dropout on leaf types, one decomposition (Equation 4, U = 2) from a
sentence to its tokens, the mean over the sentences that contain a token, cross-entropy over the vocabulary, the same
optimiser, batches and initial weights.

The indices of all batches of an epoch (distinct tokens, sentences that contain them) are computed at once, so that no
step waits for the host.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from banyan import backends
from banyan.backends.losses import cross_entropy
from banyan.config import Config
from banyan.corpus.store import Store, shuffled_batches
from banyan.support import devices
from banyan.tokenizer import Tokenizer
from banyan.training.epochs import suitable_epochs
from banyan.training.passages import DEV_MOST

WIDTH = 2  # U


class Batch(NamedTuple):
    """B sentences, L distinct tokens."""

    token: Tensor  # [L]
    leaf: Tensor  # [T]: the index in `token` of each position
    at: Tensor  # [T]: the sentence of each position
    length: Tensor  # [B]
    holder: Tensor  # [P]: a sentence ...
    held: Tensor  # [P]: ... and a token that it contains
    holders: Tensor  # [L]: the number of sentences that contain each token


class NoTree(nn.Module):
    def __init__(self, config: Config, vocab_size: int) -> None:
        super().__init__()
        self.config, self.precision = config, "float32"
        bound = config.dim**-0.5
        generator = torch.Generator().manual_seed(config.seed)

        def uniform(low: float, high: float, *shape: int) -> nn.Parameter:
            return nn.Parameter(torch.empty(shape).uniform_(low, high, generator=generator))

        self.embedding = uniform(-0.1, 0.1, vocab_size, config.dim)
        self.gate = uniform(0.6, 0.9, WIDTH)
        self.bias = nn.Parameter(torch.zeros(WIDTH))
        self.out_weight = uniform(-bound, bound, vocab_size, config.dim)
        self.out_bias = uniform(-bound, bound, vocab_size)

    def forward(self, batch: Batch, dropout: float = 0.0) -> Tensor:
        """The loss of a batch."""
        leaves = nn.functional.dropout(self.embedding.index_select(0, batch.token), dropout)
        places = leaves.index_select(0, batch.leaf)
        sums = leaves.new_zeros(len(batch.length), leaves.shape[1]).index_add(0, batch.at, places)
        sentence = sums / batch.length[:, None]
        channels = self.config.dim // WIDTH
        down = sentence * torch.sigmoid(self.gate).repeat(channels) + self.bias.repeat(channels)
        messages = torch.zeros_like(leaves).index_add(0, batch.held, down.index_select(0, batch.holder))
        return self._loss(messages / batch.holders[:, None], batch.token)

    def _loss(self, rebuilt: Tensor, token: Tensor) -> Tensor:
        if backends.choose(rebuilt.device).on_device:
            from banyan.backends._triton import loss

            return loss.cross_entropy(rebuilt, self.out_weight, self.out_bias, token, self.precision, distinct=True)
        return cross_entropy(rebuilt, self.out_weight, self.out_bias, token)


class Encoder:
    """Encode texts as the means of their leaves."""

    def __init__(self, tokenizer: Tokenizer, embedding: np.ndarray) -> None:
        self.tokenizer, self.embedding = tokenizer, embedding

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        tokens, offsets = self.tokenizer.encode(list(texts))
        lengths = np.diff(offsets)
        out = np.zeros((len(texts), self.embedding.shape[1]), np.float32)
        some = np.flatnonzero(lengths)
        for rows in np.array_split(some, max(1, len(tokens) // 1_000_000)):
            if len(rows):
                here = self.embedding[tokens[offsets[rows[0]] : offsets[rows[-1] + 1]]]
                out[rows] = np.add.reduceat(here, offsets[rows] - offsets[rows[0]]) / lengths[rows, None]
        return out


def train(model: NoTree, store: Store, dev: Store) -> dict[str, Any]:
    """Train for all epochs; return the sums and losses of the run."""
    config, device = model.config, model.embedding.device
    model.precision = backends.choose_precision("auto", device)
    optimiser = devices.adam(model.parameters(), config.lr)
    torch.manual_seed(config.seed)
    corpus = OnDevice(store, device)
    started, steps, total = time.monotonic(), 0, torch.zeros((), device=device)
    epochs = config.epochs or suitable_epochs(math.ceil(len(store) / config.batch_size), config)
    for epoch in range(epochs):
        total.zero_()
        chosen = shuffled_batches(len(store), config.batch_size, config.seed, epoch)
        for batch in corpus.batches(chosen):
            loss = model(batch, config.dropout)
            optimiser.zero_grad(set_to_none=True)
            loss.backward()
            optimiser.step()
            total += loss.detach()
            steps += 1
    train_loss = float(total) / len(chosen)
    return {
        "seconds": time.monotonic() - started,
        "precision": model.precision,
        "steps": steps,
        "tokens": epochs * store.n_tokens,
        "sentences": epochs * len(store),
        "nodes": None,
        "plain_nodes": None,
        "train_loss": train_loss,
        "dev_loss": _dev_loss(model, dev),
    }


@torch.no_grad()
def _dev_loss(model: NoTree, dev: Store) -> float:
    """Mean loss over the held-out batches, without dropout."""
    size, most = model.config.batch_size, min(len(dev), DEV_MOST)
    chosen = [np.arange(start, min(start + size, most)) for start in range(0, most, size)]
    losses = [model(batch) for batch in OnDevice(dev, model.embedding.device).batches(chosen)]
    return float(torch.stack(losses).mean())


class OnDevice:
    """The tokens of a store in the memory of a device."""

    def __init__(self, store: Store, device: torch.device) -> None:
        self.device = device
        self.offsets = np.asarray(store.offsets)
        self.tokens = torch.from_numpy(np.asarray(store.tokens).astype(np.int64)).to(device)

    def batches(self, chosen: Sequence[np.ndarray]) -> Iterator[Batch]:
        """Batches of the chosen sentences."""
        order = np.concatenate(chosen)
        lengths = np.diff(self.offsets)[order]
        ends = np.concatenate([[0], np.cumsum(lengths)])
        sizes = np.array([len(indices) for indices in chosen])
        place = np.concatenate([np.arange(size) for size in sizes])  # the index of a sentence in its batch

        def of_each_place(values: np.ndarray) -> Tensor:
            return torch.repeat_interleave(on_device(values), length, output_size=int(ends[-1]))

        def on_device(values: np.ndarray) -> Tensor:
            return torch.from_numpy(values.astype(np.int64)).to(self.device)

        length = on_device(lengths)
        here = torch.arange(int(ends[-1]), device=self.device)
        tokens = self.tokens[of_each_place(self.offsets[order] - ends[:-1]) + here]
        at, batch = of_each_place(place), of_each_place(np.repeat(np.arange(len(sizes)), sizes))
        vocabulary, most = int(self.tokens.max()) + 1, int(sizes.max())
        pairs = torch.unique((batch * vocabulary + tokens) * most + at)  # distinct (batch, token, sentence), sorted
        types, held, holders = torch.unique_consecutive(pairs // most, return_inverse=True, return_counts=True)
        leaf = torch.searchsorted(types, batch * vocabulary + tokens)
        count = torch.bincount(types // vocabulary, minlength=len(sizes))
        pair_count = torch.bincount(pairs // (most * vocabulary), minlength=len(sizes))
        cuts = [np.concatenate([[0], np.cumsum(part)]) for part in (count.tolist(), pair_count.tolist(), sizes)]
        token, holder = types % vocabulary, pairs % most
        for i in range(len(sizes)):
            (t, t_end), (p, p_end), (s, s_end) = ((int(cut[i]), int(cut[i + 1])) for cut in cuts)
            a, b = int(ends[s]), int(ends[s_end])
            yield Batch(
                token[t:t_end],
                leaf[a:b] - t,
                at[a:b],
                length[s:s_end],
                holder[p:p_end],
                held[p:p_end] - t,
                holders[t:t_end],
            )
