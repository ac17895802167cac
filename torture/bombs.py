"""Inputs that grow: compressed bombs, one endless line, names that are no names. Memory and time have a ceiling."""

from __future__ import annotations

import gzip
import lzma
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from banyan.support.files import remove
from torture.campaign import Outcome, Plan
from torture.faults import inputs

TITLE = "bombs"
MEMORY, SECONDS = 4 << 30, 300
SIZE = 50_000_000


def _gzip(path: Path) -> None:
    with gzip.open(path, "wb") as file:
        file.write(b"a" * SIZE)


def _xz(path: Path) -> None:
    with lzma.open(path, "wb") as file:
        for _ in range(4):
            file.write(b"\0" * SIZE)


def _zstd(path: Path) -> None:
    import zstandard

    path.write_bytes(zstandard.ZstdCompressor().compress(b"a b " * (SIZE // 2)))


FILES: dict[str, Callable[[Path], object]] = {
    "bomb.txt.gz": _gzip,
    "bomb.txt.xz": _xz,
    "bomb.txt.zst": _zstd,
    "line.txt": lambda path: path.write_bytes(b"word " * (SIZE // 5)),
    "line.jsonl": lambda path: path.write_bytes(b'{"text": "' + b"x" * SIZE + b'"}'),
    "nested.jsonl": lambda path: path.write_bytes(b'{"text":' + b"[" * 1_000_000),
    "wide.csv": lambda path: path.write_bytes(b"text," + b"a," * 1_000_000 + b"\n"),
}
COMMANDS = (
    "encode MODEL FILE -o OUT --quiet",
    "dedup MODEL FILE -o OUT --quiet",
    "classify predict LABELS FILE -o OUT",
    "train FILE --out OUT --epochs 1 --dim 16 --channels 8 --preset paper --vocab-size 400 --quiet --device cpu",
)
NAMES = ("../../etc/passwd", "owner/../../x", "a/b/c", "owner/" + "x" * 5000, "hf:", "\udcff/x", "-", "owner/model\n")


def _limited() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))


def run(plan: Plan) -> Outcome:
    outcome = Outcome()
    inputs(plan.work / "inputs")
    model = str(plan.work / "inputs" / "model")
    for name, write in FILES.items():
        path = plan.work / name
        write(path)
        for command in COMMANDS:
            out = plan.work / "out.npy"
            given = {"FILE": path, "MODEL": model, "LABELS": plan.work / "inputs" / "labels", "OUT": out}
            outcome.count(name, _wrong([str(given.get(word, word)) for word in command.split()]))
            remove(out)
        path.unlink()
    for name in NAMES:
        outcome.count("hub names", _wrong(["encode", name, model, "-o", str(plan.work / "never.npy"), "--quiet"]))
    return outcome


def _wrong(arguments: list[str]) -> str | None:
    command = [sys.executable, "-m", "banyan", *arguments]
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=SECONDS, preexec_fn=_limited
        )
    except subprocess.TimeoutExpired:
        return f"{arguments[0]} {arguments[1:3]}: no end within {SECONDS} s"
    told = done.stderr.decode(errors="replace")
    if done.returncode not in (0, 1) or "Traceback" in told:
        return f"{arguments[0]} {arguments[1][:40]!r} {arguments[2][-20:]}: exit code {done.returncode}, {told[-99:]!r}"
    return None
