"""Windows: the batches of many steps, drawn together on the GPU.

The tokens live on the device. Which tokens of a batch are distinct, and how its sentences are split, does not depend on
the weights, so both are computed here. The host reads the size of the largest batch once per window, while earlier
steps are still running.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
import triton
from torch import Tensor

from banyan.backends._triton.batch import Batch, Noise
from banyan.model import crops
from banyan.model.dropout import Dropout
from banyan.model.graph import runs_of_tokens
from banyan.training.passages import Part

SHARE = 4  # the tokens may take one part in so many of the device's free memory
ROUNDED = 1024, 128  # round the room for tokens and for leaves up to multiples of these
_STREAMS = 12  # int32 values for a step's random streams: six of 64 bits


@dataclass(frozen=True)
class Room:
    """The buffer sizes of a window's batches; all rows of a window have the same length."""

    sentences: int  # and their crops
    tokens: int
    leaves: int
    longest: int

    @property
    def parts(self) -> list[int]:
        """The layout of a row: tokens, leaf of each token, token of each leaf, streams, offsets, sizes, sentences."""
        of_sentences = -(-(self.sentences + 1) // 4) * 4
        return [self.tokens, self.tokens, self.leaves, _STREAMS, of_sentences, 4, of_sentences]

    def with_room_for(self, other: Room) -> Room:
        tokens, leaves = max(self.tokens, other.tokens), max(self.leaves, other.leaves)
        return Room(other.sentences, tokens, leaves, max(self.longest, other.longest))

    def split(self, row: Tensor, dropout: Dropout) -> tuple[Batch, Noise, Tensor]:
        """A row as the arguments of the kernels, and the numbers of its sentences in the store."""
        tokens, leaf, token, streams, offsets, sizes, sentences = row.split(self.parts)
        batch = Batch(tokens, offsets[: self.sentences + 1], token, leaf, sizes, self.longest)
        return batch, Noise.at(dropout, streams.view(torch.int64)), sentences


@dataclass(frozen=True)
class Window:
    """The batches of several steps, one per row."""

    rows: Tensor  # int32 [steps, ...]
    room: Room
    dropout: Dropout  # of the first; the rates are those of all

    def step(self, i: int) -> tuple[Batch, Noise, Tensor]:
        return self.room.split(self.rows[i], self.dropout)


class DeviceStore:
    """Draws batches of passages. The tokens live on the device if they fit; otherwise each window copies its own.

    part: the passages of the current epoch.
    cut: how passages are cut into parts; None: they are not.
    vectors: the teacher's vectors of all sentences of the store, if there is a teacher."""

    def __init__(
        self,
        part: Part,
        vocab_size: int,
        device: torch.device,
        plain: bool,
        cut: crops.Cut | None = None,
        vectors: np.ndarray | None = None,
    ) -> None:
        self.part, self.store, self.vocab_size = part, part.store, vocab_size
        self.device, self.plain, self.cut = device, plain, cut
        self.stream = torch.cuda.Stream(device) if device.type == "cuda" else None
        free = torch.cuda.mem_get_info(device)[0] if self.stream else 2**63
        fits = 4 * self.store.n_tokens < free / SHARE
        self.tokens = self._brought(np.asarray(self.store.tokens), np.int32) if fits else None
        self.vectors = None if vectors is None else torch.from_numpy(np.array(vectors)).to(device)

    def targets(self, sentences: Tensor, batch_size: int) -> Tensor | None:
        """The teacher's vectors of the first sentences of a row; their crops follow them and have none."""
        return None if self.vectors is None else self.vectors.index_select(0, sentences[:batch_size])

    def _brought(self, array: np.ndarray, dtype: type = np.int64) -> Tensor:
        return torch.from_numpy(array.astype(dtype)).to(self.device)

    def draw(self, batches: Sequence[np.ndarray], dropouts: Sequence[Dropout], room: Room | None = None) -> Window:
        """A batch for each list of passages, which are of one length, with its crops and with at least as much room
        for tokens and leaves as `room`. Runs beside what the device is doing."""
        if self.stream is None:
            return self._draw(batches, dropouts, room)
        with torch.cuda.stream(self.stream):
            window = self._draw(batches, dropouts, room)
        torch.cuda.current_stream(self.device).wait_stream(self.stream)
        window.rows.record_stream(torch.cuda.current_stream(self.device))
        return window

    def _draw(self, batches: Sequence[np.ndarray], dropouts: Sequence[Dropout], room: Room | None) -> Window:
        starts, lengths = self._spans(batches, dropouts)
        steps, B = lengths.shape
        sizes = lengths.sum(1)
        step = self._repeated(np.arange(steps), sizes)
        tokens = self._tokens(starts.ravel(), lengths.ravel())
        leaf, token, of_step, n_leaves = self._leaves(tokens, step, steps)
        tokens_room, leaves_room = _rounded(sizes.max(), ROUNDED[0]), _rounded(max(n_leaves.tolist()), ROUNDED[1])
        needed = Room(B, tokens_room, leaves_room, max(64, triton.next_power_of_2(int(lengths.max()))))
        if room is not None:
            needed = room.with_room_for(needed)
        rows = torch.zeros(steps, sum(needed.parts), dtype=torch.int32, device=self.device)
        of_tokens, of_leaf, of_token, of_streams, of_offsets, of_sizes, of_sentences = rows.split(needed.parts, 1)
        within = torch.arange(len(tokens), device=self.device) - self._repeated(np.cumsum(sizes) - sizes, sizes)
        of_tokens[step, within], of_leaf[step, within] = tokens, leaf
        place = torch.arange(len(token), device=self.device) - (n_leaves.cumsum(0) - n_leaves)[of_step]
        of_token[of_step, place] = token
        of_streams.copy_(Noise.streams_of(dropouts, self.device).view(torch.int32))
        of_offsets[:, 1 : B + 1] = self._brought(np.cumsum(lengths, 1))
        of_sizes[:, 0], of_sizes[:, 1] = self._brought(sizes), n_leaves
        sentences = self.part.indices[np.stack(batches)]
        of_sentences[:, : sentences.shape[1]] = self._brought(sentences)
        return Window(rows, needed, dropouts[0])

    def _spans(self, batches: Sequence[np.ndarray], dropouts: Sequence[Dropout]) -> tuple[np.ndarray, np.ndarray]:
        """Starts and lengths of the passages in each batch [steps, B], followed by those of their parts."""
        starts, lengths = self.part[np.stack(batches)].spans()
        if self.cut is None:
            return starts, lengths
        return crops.with_crops(starts, lengths, dropouts, *self.cut)

    def _tokens(self, starts: np.ndarray, lengths: np.ndarray) -> Tensor:
        if self.tokens is None:
            return self._brought(runs_of_tokens(np.asarray(self.store.tokens), starts, lengths)[0], np.int32)
        places = self._repeated(starts - (np.cumsum(lengths) - lengths), lengths)
        return self.tokens[places + torch.arange(len(places), device=self.device)]

    def _repeated(self, values: np.ndarray, times: np.ndarray) -> Tensor:
        both = self._brought(np.stack([values, times]))
        return torch.repeat_interleave(both[0], both[1], output_size=int(times.sum()))

    def _leaves(self, tokens: Tensor, step: Tensor, steps: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """The leaf of each position; the token and the step of each leaf; the number of leaves of each step."""
        if self.plain:
            n_leaves = torch.bincount(step, minlength=steps)
            leaf = torch.arange(len(tokens), device=self.device) - (n_leaves.cumsum(0) - n_leaves)[step]
            return leaf.int(), tokens, step, n_leaves
        seen = torch.zeros(steps, self.vocab_size, dtype=torch.int32, device=self.device)
        places = step * self.vocab_size + tokens
        seen.view(-1)[places] = 1
        number = seen.cumsum(1, dtype=torch.int32)
        of_step, token = seen.nonzero(as_tuple=True)
        return number.view(-1)[places] - 1, token.int(), of_step, number[:, -1].long()


def _rounded(n: int, to: int) -> int:
    return triton.cdiv(int(n), to) * to
