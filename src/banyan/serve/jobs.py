"""The embeddings of one request, or of all small requests that arrived at the same time.

In a batch of thirty, a short sentence costs a tenth of what it costs alone. No request waits for a batch to fill: a
batch holds the requests that are there. The embeddings are the same bits in any batch.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from banyan.serve import inputs
from banyan.serve.service import Answer, Service

_Found = tuple[inputs.Ragged, np.ndarray]  # the tokens and the embeddings of a request


class Job(NamedTuple):
    """A request for embeddings. All its fields are checked, except the inputs."""

    value: Any  # the inputs
    name: str  # the field they came in
    keep: int | None  # dimensions
    normalize: bool
    truncate: str | None
    render: Callable[[np.ndarray, int], bytes]  # embeddings and number of tokens -> body of the answer


def alone(service: Service, job: Job) -> Answer:
    """Encode one request."""
    batch = inputs.ragged(job.value, job.name, service.model, service.limits, job.truncate)
    return _answer(service, job, batch, None)


def _answer(service: Service, job: Job, batch: inputs.Ragged, found: np.ndarray | None) -> Answer:
    """found: the normalized embeddings of the batch, if they have been computed."""
    fitting = inputs.within(batch, job.name, service.limits, job.truncate)
    inputs.check_answer(len(fitting) * (job.keep or service.model.dim) * inputs.NUMBER_BYTES, service.limits)
    if found is None or fitting is not batch or job.keep is not None or not job.normalize:
        found = inputs.vectors(service.model, fitting, job.keep, job.normalize)
    return Answer(job.render(found, len(fitting.tokens)), len(fitting), len(fitting.tokens))


class Batcher:
    """Encodes small requests that arrive at the same time in one batch."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.waiting: list[tuple[list[str], asyncio.Future]] = []

    async def run(self, job: Job) -> Answer:
        if inputs.is_tokens(job.value):
            return alone(self.service, job)
        texts = inputs.texts(job.value, job.name, self.service.limits)
        loop = asyncio.get_running_loop()
        future = loop.create_future()
        if not self.waiting:
            loop.call_soon(self._encode)  # once the event loop has handled the requests that are already here
        self.waiting.append((texts, future))
        return _answer(self.service, job, *await future)

    def _encode(self) -> None:
        waiting, self.waiting = self.waiting, []
        found: list[_Found | Exception]
        try:
            found = [*self._together([texts for texts, _ in waiting])]
        except Exception:  # of one request: the others are answered
            found = [self._by_itself(texts) for texts, _ in waiting]
        for (_, future), part in zip(waiting, found, strict=True):
            if future.done():  # the client has disconnected
                continue
            if isinstance(part, Exception):
                future.set_exception(part)
            else:
                future.set_result(part)

    def _by_itself(self, texts: list[str]) -> _Found | Exception:
        try:
            return self._together([texts])[0]
        except Exception as error:
            return error

    def _together(self, requests: list[list[str]]) -> list[_Found]:
        """The tokens and normalized embeddings of each request."""
        model = self.service.model
        tokens, offsets = model.tokenizer.encode([text for texts in requests for text in texts])
        vectors = model.encode_tokens(tokens, offsets, normalize=True)
        parts = []
        last = 0
        for texts in requests:
            first, last = last, last + len(texts)
            own = offsets[first : last + 1]
            parts.append((inputs.Ragged(tokens[own[0] : own[-1]], own - own[0]), vectors[first:last]))
        return parts
