"""Several processes that train one model.

`torchrun` starts the processes and numbers them in environment variables. DistributedDataParallel averages the
gradients; this module exchanges small numbers, always through gloo on the CPU, so that no device has to wait.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from banyan.errors import BanyanError, first_line
from banyan.support import threads

if TYPE_CHECKING:
    import torch

PATIENCE = timedelta(hours=1)  # the first process may take long to train a tokenizer
BACKENDS = {"cpu": "gloo", "cuda": "cpu:gloo,cuda:nccl", "xpu": "cpu:gloo,xpu:xccl"}

# Kept until the process ends: process groups that were left, and the last exchange. Otherwise gloo's threads release
# them, which needs the GIL. While DistributedDataParallel destroys the group (holding the GIL) or Python exits, they
# would wait forever or abort (torch 2.13).
_left: list[Any] = []
_last_exchange: list[Any] = []


@dataclass(frozen=True)
class Processes:
    """This process and its peers. A single process exchanges nothing."""

    rank: int = 0
    world: int = 1
    local_rank: int = 0
    local_world: int = 1  # processes on this machine

    @classmethod
    def of_environment(cls) -> Processes:
        """The processes that torchrun started, or this one alone."""
        names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")
        told = [os.environ.get(name) for name in names]
        if told[0] is None or told[1] in (None, "1"):
            return cls()
        try:
            rank, world, local_rank, local_world = map(int, (told[0], told[1], told[2] or told[0], told[3] or told[1]))
        except ValueError:
            found = ", ".join(f"{name}={value}" for name, value in zip(names, told, strict=True))
            raise BanyanError(f"these environment variables are not as torchrun sets them: {found}") from None
        return cls(rank, world, local_rank, local_world)

    @property
    def several(self) -> bool:
        return self.world > 1

    @property
    def first(self) -> bool:
        """Whether this process writes files and messages."""
        return self.rank == 0

    @contextmanager
    def joined(self, device: torch.device) -> Iterator[None]:
        """Join the process group, with a fair share of this machine's threads."""
        if not self.several:
            yield
            return
        import torch.distributed as dist

        if device.type not in BACKENDS:
            raise BanyanError(f"several processes cannot train on {device.type}: use cpu or cuda")
        with self._share_of_threads():
            try:
                dist.init_process_group(BACKENDS[device.type], timeout=PATIENCE)
            except (ValueError, RuntimeError) as error:
                raise BanyanError(f"cannot join the other processes: {first_line(error)}") from None
            try:
                yield
            except RuntimeError as error:
                if not _is_loss_of_another(error):
                    raise
                raise BanyanError(
                    f"another process of this run ended ({first_line(error)}); --resume continues from the last "
                    "checkpoint"
                ) from None
            finally:
                _left.append(dist.group.WORLD)
                dist.destroy_process_group()

    @contextmanager
    def _share_of_threads(self) -> Iterator[None]:
        if "BANYAN_THREADS" in os.environ:
            yield
            return
        os.environ["BANYAN_THREADS"] = str(max(threads.available() // self.local_world, 1))
        try:
            yield
        finally:
            del os.environ["BANYAN_THREADS"]

    def total(self, values: Sequence[float]) -> list[float]:
        """Sums over all processes, bit-identical in each."""
        return self._reduced(values, "SUM")

    def least(self, value: int) -> int:
        return int(self._reduced([value], "MIN")[0])

    def most(self, value: int) -> int:
        return int(self._reduced([value], "MAX")[0])

    def _reduced(self, values: Sequence[float], how: str) -> list[float]:
        if not self.several:
            return list(values)
        import torch
        import torch.distributed as dist

        numbers = torch.tensor(values, dtype=torch.float64)
        exchange = dist.all_reduce(numbers, getattr(dist.ReduceOp, how), async_op=True)
        exchange.wait()
        _last_exchange[:] = [exchange]
        return numbers.tolist()

    def worst(self, flag: torch.Tensor) -> None:
        """Set the tensor to its maximum over all processes, without leaving the device."""
        import torch.distributed as dist

        dist.all_reduce(flag, dist.ReduceOp.MAX)

    @contextmanager
    def together(self) -> Iterator[None]:
        """Leave the block only when every process has. If some fail, the one with the lowest rank raises its error, and
        the others exit quietly."""
        failed: BaseException | None = None
        try:
            yield
        except BaseException as error:
            if not self.several:
                raise
            failed = error
        speaker = self.least(self.world if failed is None else self.rank)
        if failed is not None and speaker == self.rank:
            raise failed
        if speaker < self.world:
            raise SystemExit(1)


def _is_loss_of_another(error: RuntimeError) -> bool:
    from torch.distributed import DistError

    return isinstance(error, DistError) or "gloo" in str(error)
