"""Trains in several processes, as torchrun would start them: a line of JSON in, exit codes and messages out.

The processes are forks of this one, which has imported everything and done nothing, so that they start at once. At
their end they write a digest of their weights beside the model. One of them may be told to die: by SIGKILL just before
its n-th call of a function, or by another signal in its n-th pass. A request with "killed" in it is for one process
that runs killed_training.train.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.helpers import killed_training


def signal_in_pass(number: int, n: int) -> None:
    from banyan.model import objective

    real, calls = objective.losses, 0

    def counted(*args):
        nonlocal calls
        calls += 1
        if calls == n:
            os.kill(os.getpid(), number)
        return real(*args)

    objective.losses = counted


def train(corpus: str, out: str, settings: dict[str, Any], death: list[Any]) -> int:
    """One process: the command, and the digest."""
    from banyan import commands
    from banyan.support import devices
    from banyan.training import trainer

    if window := settings.pop("window", None):
        devices.window = lambda device: window
    if death and str(death[0]) == os.environ["RANK"]:
        if death[1].startswith("SIG"):
            signal_in_pass(signal.Signals[death[1]], death[2])
        else:
            killed_training.die_before_call(death[1], death[2])
    real = trainer.train

    def and_digest(*args, **kwargs):
        model = real(*args, **{**kwargs, **settings})
        weights = b"".join(weight.tobytes() for _, weight in sorted(model.weights.items()))
        Path(f"{out}.rank{os.environ['RANK']}").write_text(hashlib.sha256(weights).hexdigest())

    trainer.train = and_digest
    return commands.main(["train", corpus, "--out", out, "--resume", "--device", "cpu", "--checkpoint-every", "0.01"])


def train_as(rank: int, world: int, port: int, request: dict[str, Any]) -> int:
    place = {"RANK": rank, "WORLD_SIZE": world, "LOCAL_RANK": rank, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    os.environ.update({name: str(value) for name, value in place.items()}, BANYAN_THREADS="1")
    return train(**request)


def start(messages: Path, work: Callable[..., int | None], *arguments: Any) -> int:
    """The id of a new process."""
    if process := os.fork():
        return process
    signal.alarm(300)  # none waits for ever for another that is lost
    code: Any = 99
    try:
        with open(messages, "wb") as file:
            os.dup2(file.fileno(), 2)
        code = work(*arguments) or 0
    except SystemExit as stop:
        code = stop.code
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def main() -> None:
    import matplotlib.pyplot  # noqa: F401
    import torch

    import banyan.training  # noqa: F401

    torch.optim.Adam([torch.nn.Parameter(torch.zeros(1))])  # which imports a great deal
    for line in sys.stdin:
        request = json.loads(line)
        folder = Path(request.pop("folder"))
        if "killed" in request:
            texts = [folder / "messages"]
            processes = [start(texts[0], killed_training.train, *request["killed"])]
        else:
            world, port = request.pop("world"), request.pop("port")
            texts = [folder / f"messages-{rank}" for rank in range(world)]
            processes = [start(text, train_as, rank, world, port, request) for rank, text in enumerate(texts)]
        codes = [os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) for process in processes]
        print(json.dumps([[code, text.read_text()] for code, text in zip(codes, texts, strict=True)]), flush=True)


if __name__ == "__main__":
    main()
