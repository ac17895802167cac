"""Training steps on a GPU, recorded once as a CUDA graph and replayed: one launch instead of a hundred.

A recorded step reads its batch from the next row of the window and writes its loss to the next row of the metrics. If
two different nodes have the same hash, that step and all later ones of the window are void (the optimiser skips them),
and the host repeats them with different hashes.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
import triton
import triton.language as tl
from torch import Tensor

from banyan.backends._triton import entangling
from banyan.backends._triton.batch import Batch, Noise, kernel
from banyan.backends._triton.entangling import DeviceGraph
from banyan.model import BanyanModel, objective
from banyan.model.dropout import Dropout
from banyan.training.gpu_windows import DeviceStore, Room, Window

Indices = Sequence[np.ndarray]


@kernel
def _next_kernel(window, row, at, width, BLOCK: tl.constexpr):
    """Copy the next row of the window."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(window + tl.load(at).to(tl.int64) * width + i, mask=i < width)
    tl.store(row + i, value, mask=i < width)


@kernel
def _record_kernel(loss, terms, counts, metrics, at, void, TERMS: tl.constexpr):
    """Write the next row of metrics: loss, nodes, whether a hash has collided so far, parts of the loss."""
    row = tl.load(at)
    metrics += (3 + TERMS) * row
    tl.store(metrics, tl.load(loss))
    tl.store(metrics + 1, tl.load(counts).to(tl.float32))
    collided = tl.maximum(tl.load(void), tl.load(counts + 2).to(tl.float32))
    tl.store(metrics + 2, collided)
    for i in tl.static_range(TERMS):
        tl.store(metrics + 3 + i, tl.load(terms + i))
    tl.store(void, collided)
    tl.store(at, row + 1)


def graph_of_batch(model: BanyanModel, batch: Batch, noise: Noise, salt: int) -> DeviceGraph:
    """The graph of a batch that was drawn on the device. The caller must ask whether two different nodes had the same
    hash; a different salt tells them apart."""
    config, weights = model.config, (model.embedding.detach(), model.functions)
    return entangling.structure(
        batch, *weights, noise, config.trees == "plain", salt, structure=config.structure, halves=config.halves
    )


class Steps:
    """Runs windows of training steps.

    loss: the loss of a graph under the teacher's vectors, if any, and its parts.
    dropout: the dropout of the i-th step from now.
    agree: makes `void` the same in all processes, if there are several.
    room: the initial size of the buffers. It only grows, and with it the shapes of matrix products and so the order of
        their sums: a resumed run must start with the same room to give the same bits.
    rate: the learning rate of the i-th step from now, if it changes; the optimiser's is then a tensor.
    """

    def __init__(
        self,
        model: BanyanModel,
        optimiser: torch.optim.Optimizer,
        loss: Callable[[Any, Tensor | None], tuple[Tensor, Tensor]],
        store: DeviceStore,
        dropout: Callable[[int], Dropout],
        most: int,
        agree: Callable[[Tensor], object] | None = None,
        room: Room | None = None,
        rate: Callable[[int], float] | None = None,
    ) -> None:
        self.model, self.optimiser, self.loss = model, optimiser, loss
        self.store, self.dropout, self.rate, self.agree = store, dropout, rate, agree
        device = model.embedding.device
        self.rates = torch.zeros(most, device=device)
        self.metrics = torch.zeros(most, 3 + len(objective.terms(model.config)), device=device)
        self.at = torch.zeros(1, dtype=torch.int32, device=device)
        self.void = torch.zeros((), device=device)
        optimiser.found_inf = self.void  # type: ignore[attr-defined]  # torch's loss scaling skips a step this way
        config = model.config
        counts_candidates = config.has_output_layer and config.trees == "plain" and config.candidates == "batch"
        self.records = device.type == "cuda" and agree is None and not counts_candidates
        self.recorded: _Recorded | None = None
        self.room = room
        self.drawn: tuple[Indices, Window] | None = None

    def run(self, batches: Indices, following: Indices = ()) -> tuple[list[float], list[list[float]], list[int]]:
        """A step for each of these batches, which are of one size: their losses, the parts of each loss, and their
        nodes. The batches that follow are drawn meanwhile."""
        window = self._window(batches)
        done, salt = 0, 0
        if self.rate:
            self.rates[: len(batches)] = torch.tensor([self.rate(i) for i in range(len(batches))])
        while True:
            self.at.fill_(done)
            self._enqueue(window, done, len(batches), salt)
            if following:
                self.drawn, following = (following, self._draw(following, len(batches))), ()
            losses, nodes, collided, *terms = self.metrics[: len(batches)].T.tolist()
            again = [i for i in range(done, len(batches)) if collided[i]]
            if not again:
                return losses, [list(row) for row in zip(*terms, strict=True)], [int(n) for n in nodes]
            salt, done = salt + 1 if again[0] == done else 1, again[0]
            self.void.zero_()

    def _window(self, batches: Indices) -> Window:
        drawn, self.drawn = self.drawn, None
        return drawn[1] if drawn is not None and drawn[0] is batches else self._draw(batches)

    def _draw(self, batches: Indices, steps_before: int = 0) -> Window:
        dropouts = [self.dropout(steps_before + i) for i in range(len(batches))]
        return self.store.draw(batches, dropouts, self.room)

    def _enqueue(self, window: Window, begin: int, end: int, salt: int) -> None:
        """Launch these steps of the window, the first of them with this salt."""
        if not self.records or end - begin < 4:
            for i in range(begin, end):
                self._step(*window.step(i), salt if i == begin else 0)
            return
        if salt:
            self._step(*window.step(begin), salt)
            begin += 1
        if self.recorded is None or not self.recorded.take(window):
            self.recorded = None  # free its memory first
            self.recorded, self.room = _Recorded(window, len(self.metrics), self.at, self._step, self.void), window.room
            self.at.fill_(begin)
        for _ in range(begin, end):
            self.recorded.graph.replay()

    def _batch_size(self, batch: Batch) -> int:
        """The sentences of a batch without their crops."""
        together = len(batch.offsets) - 1
        return together if self.store.cut is None else together // self.store.cut.texts

    def _step(self, batch: Batch, noise: Noise, sentences: Tensor, salt: int = 0) -> None:
        """One step: structure, forward, backward, optimiser."""
        graph = graph_of_batch(self.model, batch, noise, salt)
        loss, terms = self.loss(graph, self.store.targets(sentences, self._batch_size(batch)))
        self.optimiser.zero_grad(set_to_none=True)
        loss.backward()
        if self.rate:
            self.optimiser.param_groups[0]["lr"].copy_(self.rates.index_select(0, self.at).squeeze())
        if self.agree:
            torch.maximum(self.void, graph.collided, out=self.void)
            self.agree(self.void)
        _record_kernel[(1,)](loss.detach(), terms, graph.counts, self.metrics, self.at, self.void, TERMS=len(terms))
        self.model.clip_gradients()
        self.optimiser.step()


class _Recorded:
    """A step as a CUDA graph, and the window it reads from."""

    def __init__(
        self, window: Window, most: int, at: Tensor, step: Callable[[Batch, Noise, Tensor], None], void: Tensor
    ) -> None:
        rows = window.rows.new_zeros(most, window.rows.shape[1])
        self.window = Window(rows, window.room, window.dropout)
        self.take(window)
        self.row = torch.empty_like(rows[0])  # the graph uses it, so it must live as long

        def next_step() -> None:
            grid = (triton.cdiv(len(self.row), 1024),)
            _next_kernel[grid](rows, self.row, at, len(self.row), BLOCK=1024)
            step(*window.room.split(self.row, window.dropout))

        void_before = void.clone()
        void.fill_(1)  # warm-up steps must change no weight
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(2):
                at.zero_()
                next_step()
        torch.cuda.current_stream().wait_stream(stream)
        self.graph = torch.cuda.CUDAGraph()
        with _without_garbage_collection(), torch.cuda.graph(self.graph):
            next_step()
        void.copy_(void_before)

    def take(self, window: Window) -> bool:
        """Read from this window from now on, if it fits."""
        if window.room != self.window.room:
            return False
        self.window.rows[: len(window.rows)] = window.rows
        return True


@contextmanager
def _without_garbage_collection() -> Iterator[None]:
    """Freeing a CUDA object, such as an earlier recording, during a capture would void the capture."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
