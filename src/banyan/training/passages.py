"""Passages: consecutive sentences that are trained as one text, drawn anew for every epoch. And the held-out text."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from banyan.config import Config
from banyan.corpus.store import Store, shuffled
from banyan.model.crops import Cut
from banyan.model.graph import runs_of_tokens
from banyan.support.compiling import njit

DEV_SHARE, DEV_MOST = 100, 2000  # hold out one sentence in a hundred, and at most 2,000
HELD_OUT = 2**32  # an epoch that no run reaches


@dataclass(frozen=True)
class Part:
    """Runs of consecutive sentences of a store: paragraphs, passages or single sentences."""

    store: Store
    indices: np.ndarray  # the first sentence of each
    ends: np.ndarray  # the sentence after its last one

    def __len__(self) -> int:
        return len(self.indices)

    @property
    def counts(self) -> np.ndarray:
        """The number of sentences of each."""
        return self.ends - self.indices

    def __getitem__(self, chosen: slice | np.ndarray) -> Part:
        return Part(self.store, self.indices[chosen], self.ends[chosen])

    def spans(self) -> tuple[np.ndarray, np.ndarray]:
        """Where the tokens of each begin in the store, and how many there are."""
        offsets = np.asarray(self.store.offsets)  # indexing an np.memmap is slow
        starts = offsets[self.indices]
        return starts, offsets[self.ends] - starts

    def batch(self) -> tuple[np.ndarray, np.ndarray]:
        """The tokens and offsets of a ragged batch."""
        return runs_of_tokens(np.asarray(self.store.tokens), *self.spans())

    def sentences(self) -> Part:
        """All sentences, one by one."""
        counts = self.counts
        first = np.repeat(self.indices - (np.cumsum(counts) - counts), counts) + np.arange(counts.sum())
        return Part(self.store, first, first + 1)

    def passages(self, config: Config, epoch: int) -> Part:
        """Cut paragraphs into passages of at most passage_sentences and max_pieces. Where the first one ends is drawn
        from the seed and the epoch, so that sentences meet both of their neighbours."""
        most, counts = config.passage_sentences, self.counts
        if counts.max(initial=1) == 1:
            return self
        # Raw random words, because other methods may change between versions of NumPy. The numbers after the epoch keep
        # this stream apart from that of the order (corpus.store.shuffled).
        words = np.random.Philox(np.random.SeedSequence([config.seed, epoch, 0, 1])).random_raw(len(self))
        first = np.where(counts > most, 1 + (words % np.uint64(most)).astype(np.int64), most)
        offsets = np.asarray(self.store.offsets)
        return Part(self.store, *_cut(self.indices, self.ends, offsets, first, most, config.max_pieces))

    def fewest_passages(self, most: int) -> int:
        """A lower bound of the number of passages in an epoch."""
        return int((-(-self.counts // most)).sum())


@njit(cache=True)
def _cut(indices, ends, offsets, first, most, max_pieces):
    """First sentences and ends of passages. first: the sentences in the first passage of each paragraph."""
    total = (ends - indices).sum()
    begin, end = np.empty(total, np.int64), np.empty(total, np.int64)
    n = 0
    for i in range(len(indices)):
        room, pieces = first[i], 0
        for sentence in range(indices[i], ends[i]):
            length = offsets[sentence + 1] - offsets[sentence]
            if sentence == indices[i] or room == 0 or pieces + length > max_pieces:
                if sentence > indices[i]:
                    end[n - 1] = sentence
                    room = most
                begin[n] = sentence
                n += 1
                pieces = 0
            room -= 1
            pieces += length
        end[n - 1] = ends[i]
    return begin[:n], end[:n]


def parts(store: Store, dev: Store | None, config: Config, hold_out: bool) -> tuple[Part, Part | None]:
    """The training text and the held-out text, in paragraphs if passages are to be drawn from them.

    dev: text to hold out. Without it, paragraphs of the store are held out, as many as fit."""
    text = _paragraphs(store, config)
    if dev is not None:
        held_out = _paragraphs(dev, config)
        few = held_out[held_out.indices < DEV_MOST]
        return text, Part(dev, few.indices, np.minimum(few.ends, DEV_MOST))
    most = min(len(store) // DEV_SHARE, DEV_MOST) if hold_out else 0
    order = shuffled(len(text), config.seed, HELD_OUT)
    fitting = order[text.counts[order] <= most]
    out = fitting[: np.searchsorted(np.cumsum(text.counts[fitting]), most, "right")]
    kept = np.ones(len(text), bool)
    kept[out] = False
    return text[kept], text[~kept] if len(out) else None


def of_lessons(store: Store, config: Config, rank: int, world: int) -> tuple[Part, Part | None]:
    """The share of a process of texts that all processes have, and the texts that the first one holds out."""
    out, kept = np.split(shuffled(len(store), config.seed, HELD_OUT), [min(len(store) // DEV_SHARE, DEV_MOST)])
    kept, out = np.sort(kept[rank::world]), np.sort(out)
    return Part(store, kept, kept + 1), Part(store, out, out + 1) if rank == 0 and len(out) else None


def _paragraphs(store: Store, config: Config) -> Part:
    """The paragraphs of a store. Without paragraphs, or if no passages are drawn from them, its sentences."""
    if store.paragraphs is None or config.passage_sentences == 1:
        return Part(store, np.arange(len(store)), np.arange(1, len(store) + 1))
    first = np.asarray(store.paragraphs)
    return Part(store, first, np.append(first[1:], len(store)))


def sizes_of(batch: Part, cut: Cut | None) -> tuple[int, int, int]:
    """Sentences and tokens of a batch, and the nodes that its plain trees would have, including those of crops."""
    lengths = batch.spans()[1]
    sentences, tokens, trees = int(batch.counts.sum()), int(lengths.sum()), len(lengths)
    nodes = 2 * tokens - trees
    if cut is None:
        return sentences, tokens, nodes
    of_crops = 2 * (tokens + int((lengths == 1).sum()) - trees)  # a passage of one token is both of its parts
    return sentences, tokens, nodes + of_crops if cut.whole else of_crops
