"""Faults in the file operations of every command that writes: kills, short writes, EIO, a full disk, power cuts.

A shim (faults.c, loaded with LD_PRELOAD) counts the operations on files below the target, and lets one of them go
wrong. Then the command is run again, as a user would, sometimes with a second kill. The result must have the same bits
as that of a run without faults, with no file left behind, and a failure must be told in one line.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from torture.campaign import Outcome, Plan

TITLE = "faults in file operations"
MODES = ("kill before", "kill after", "short write", "EIO", "ENOSPC", "lost unsynced writes", "undone renames")
FAILING = (4, 5)  # the numbers, from 1, of modes in which the process lives
SAMPLE = 180  # points in the hour, of all commands together


class Command(NamedTuple):
    arguments: Callable[[Path, Path], list[str]]  # of the inputs and of the target
    again: tuple[str, ...] = ()  # further arguments when it is run again
    result: str = "target"  # the file or folder that it makes, below the folder of the case
    compared: tuple[str, ...] = ("",)  # files of the result that must have the same bits; "": itself; ".x": beside it
    left: bool = True  # whether no other file may be left
    finished: str = "finished already"  # what it says, and then fails, if there is nothing left to do


_SMALL = ["--preset", "paper", "--epochs", "2", "--dim", "16", "--channels", "8", "--vocab-size", "400"]
_SMALL += ["--batch-size", "64", "--checkpoint-every", "0", "--quiet", "--device", "cpu"]
_MODEL = ("model.safetensors", "tokenizer.json", "config.json", "SHA256SUMS")
COMMANDS = {
    "train": Command(
        lambda inputs, out: ["train", str(inputs / "corpus.txt"), "--out", str(out),
                             "--eval", str(inputs / "scored.tsv"), *_SMALL],
        ("--resume",),
        compared=(*_MODEL, "metrics.jsonl"),
    ),
    "tune": Command(
        lambda inputs, out: ["tune", str(inputs / "model"), str(inputs / "pairs.tsv"), "--out", str(out),
                             "--epochs", "1", "--checkpoint-every", "0", "--quiet", "--device", "cpu"],
        ("--resume",),
        compared=_MODEL,
    ),
    "classify": Command(
        lambda inputs, out: ["classify", "train", str(inputs / "model"), str(inputs / "labelled.tsv"),
                             "--out", str(out), "--epochs", "1", "--checkpoint-every", "0", "--quiet"],
        ("--resume",),
        compared=(*_MODEL, "classifier.safetensors", "classifier.json"),
    ),
    "encode": Command(
        lambda inputs, out: ["encode", str(inputs / "model"), str(inputs / "corpus.txt"), "-o", str(out), "--quiet"],
        ("--resume",),
        result="target.npy",
        compared=("", ".crc32"),
    ),
    "encode parquet": Command(
        lambda inputs, out: ["encode", str(inputs / "model"), str(inputs / "corpus.txt"), "-o", str(out), "--quiet"],
        ("--resume",),
        result="target.parquet",
        compared=("", ".crc32"),
    ),
    "index": Command(
        lambda inputs, out: ["index", str(inputs / "model"), str(inputs / "corpus.txt"), "-o", str(out), "--quiet"],
        compared=("rows",),
        left=False,
    ),
    "save": Command(lambda inputs, out: ["save", str(inputs / "model"), str(out)], compared=_MODEL),
    "export": Command(
        lambda inputs, out: ["export", str(inputs / "model"), "-o", str(out), "--format", "static"],
        compared=("model.safetensors", "tokenizer.json", "config.json"),
        finished="already holds a model",
    ),
}  # fmt: skip


# --- Running ---------------------------------------------------------------------------------------------------------


def _serve() -> None:
    """Run the commands that arrive on standard input, each in a forked process with a fault."""
    shim = ctypes.CDLL(None)
    from banyan.commands import main

    warm: list[str] = json.loads(sys.stdin.readline())
    sys.stdin.flush()
    if warm[0] != "index":  # its library has threads, which do not survive a fork
        _run(main, warm)
    print("ready", flush=True)
    for line in sys.stdin:
        arguments, root, mode, at, told = json.loads(line)
        child = os.fork()
        if not child:
            with open(told, "w") as log:
                os.dup2(log.fileno(), 1)
                os.dup2(log.fileno(), 2)
            shim.faults_arm(root.encode(), mode, at)
            code = _run(main, arguments)
            done = shim.faults_done()
            shim.faults_arm(b"", 0, 0)
            Path(told + ".done").write_text(str(done))
            os._exit(code)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


def _run(main: Callable[[list[str]], int], arguments: list[str]) -> int:
    import traceback

    try:
        if arguments[0] == "save":
            from banyan import Banyan, BanyanError

            try:
                Banyan.from_pretrained(arguments[1]).save_pretrained(arguments[2])
            except (BanyanError, OSError) as error:
                print(error)
                return 1
            return 0
        return main(arguments)
    except BaseException:
        traceback.print_exc()
        return 70
    finally:
        sys.stdout.flush()
        sys.stderr.flush()


class Runner:
    """A warm process that runs one command in forked processes."""

    def __init__(self, shim: Path, work: Path, warm: list[str]) -> None:
        environment = os.environ | {"LD_PRELOAD": str(shim), "TOKENIZERS_PARALLELISM": "false", "BANYAN_THREADS": "1"}
        self.told = work / "told"
        self.process = subprocess.Popen(
            [sys.executable, "-m", "torture.faults"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env=environment, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        assert self._ask(warm) == "ready"

    def _ask(self, request: Any) -> str:
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        while line := self.process.stdout.readline():  # what a library prints comes before
            if line.strip() == "ready" or line.strip().lstrip("-").isdigit():
                return line.strip()
        raise RuntimeError("the runner died")

    def run(self, arguments: list[str], root: Path, mode: int = 0, at: int = 0) -> tuple[int, int, str]:
        """Return the exit code, the operations done (if it lived) and what it said."""
        done = Path(f"{self.told}.done")
        done.unlink(missing_ok=True)
        code = int(self._ask([arguments, str(root), mode, at, str(self.told)]))
        return code, int(done.read_text()) if done.exists() else 0, self.told.read_text(errors="replace")

    def close(self) -> None:
        assert self.process.stdin
        self.process.stdin.close()
        self.process.wait()


# --- Comparing -------------------------------------------------------------------------------------------------------


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "missing"


def _rows(folder: Path) -> str:
    """A digest of the rows of an index, read by another process."""
    program = (
        "import sys, hashlib; from banyan.search.index import Index\n"
        "from banyan.checking import check\n"
        "table = Index.open(sys.argv[1]).rows\n"
        "rows = table.scan(['source', 'row', 'text', 'vector']).to_pylist()\n"
        "keys = sorted((row['row'], row['text'], row['vector']) for row in rows)\n"
        "found = [row['row'] for text in ('cat', 'green tree') for row in table.matching(text, 20)]\n"
        "digest = hashlib.sha256(repr((keys, sorted(found))).encode()).hexdigest()\n"
        "print(digest, len(rows), *check(sys.argv[1]).problems)"
    )
    found = subprocess.run([sys.executable, "-c", program, str(folder)], capture_output=True, text=True)
    return found.stdout.strip() or found.stderr[-200:]


def _results(command: Command, case: Path) -> dict[str, str]:
    result = case / command.result
    if command.compared == ("rows",):
        return {"rows": _rows(result)}
    beside = {name: Path(f"{result}{name}") for name in command.compared if not name or name.startswith(".")}
    return {name: _digest(beside.get(name, result / name)) for name in command.compared}


def _names(case: Path) -> set[str]:
    return {str(path.relative_to(case)) for path in case.rglob("*")}


# --- The campaign ----------------------------------------------------------------------------------------------------


def inputs(folder: Path) -> None:
    import numpy as np

    from torture.folders import models

    folder.mkdir()
    rng = np.random.default_rng(0)
    words = "the a cat dog sat slept on mat house tree green runs slowly quickly over under".split()
    lines = [" ".join(rng.choice(words, rng.integers(4, 12))) for _ in range(600)]
    (folder / "corpus.txt").write_text("\n".join(lines) + "\n")
    (folder / "pairs.tsv").write_text("".join(f"{a}\t{b}\n" for a, b in zip(lines[::2], lines[1::2], strict=True)))
    scored = ((a, b, len(set(a.split()) & set(b.split()))) for a, b in zip(lines[:40], lines[40:80], strict=True))
    (folder / "scored.tsv").write_text("".join(f"{a}\t{b}\t{score}\n" for a, b, score in scored))
    (folder / "labelled.tsv").write_text("text\tlabel\n" + "".join(f"{a}\t{'cat' in a}\n" for a in lines))
    next(path for path in models(folder) if path.name == "words").rename(folder / "model")


def run(plan: Plan) -> Outcome:
    outcome = Outcome()
    shim = plan.work / "faults.so"
    source = Path(__file__).with_suffix(".c")
    if not shutil.which("gcc"):
        outcome.not_tried.append("no compiler for the shim: no faults at all")
        return outcome
    subprocess.run(["gcc", "-O1", "-shared", "-fPIC", "-o", shim, source, "-ldl"], check=True)
    inputs(plan.work / "inputs")
    for name, command in COMMANDS.items():
        _campaign(name, command, plan, shim, outcome)
    return outcome


class Trial:
    """One command, and what a run of it without faults makes."""

    def __init__(self, name: str, command: Command, plan: Plan, shim: Path) -> None:
        self.name, self.command, self.plan = name, command, plan
        self.case = plan.work / "case"
        self.arguments = command.arguments(plan.work / "inputs", self.case / command.result)
        self.fresh()
        self.runner = Runner(shim, plan.work, self.arguments)
        self.fresh()
        code, self.operations, told = self.runner.run(self.arguments, self.case)
        if code or not self.operations:
            raise RuntimeError(f"the run without faults: {code}, {self.operations} operations, {told[-300:]!r}")
        self.wanted, self.names = _results(command, self.case), _names(self.case)

    def fresh(self) -> None:
        shutil.rmtree(self.case, ignore_errors=True)
        for kept in self.plan.work.glob("case.undo-*"):
            kept.unlink()
        self.case.mkdir()

    def points(self) -> list[tuple[int, int]]:
        """The modes and operations to try: all of them, or a sample."""
        points = [(mode, at) for mode in range(1, len(MODES) + 1) for at in range(1, self.operations + 1)]
        share = SAMPLE // len(COMMANDS) + (30 if self.name == "train" else 0)
        rng = self.plan.rng("faults", self.name)
        return points if self.plan.long else rng.sample(points, min(share, len(points)))

    def tried(self, mode: int, at: int) -> str | None:
        """Let an operation go wrong, then run the command again. Return what is wrong in the end."""
        self.fresh()
        rng = self.plan.rng("faults", self.name, mode, at)
        code, _, told = self.runner.run(self.arguments, self.case, mode, at)
        if problem := _told(code, told):
            return problem
        again = [*self.arguments, *self.command.again]
        if killed := rng.random() < 0.3:  # a second time, while it goes on
            self.runner.run(again, self.case, 1, rng.randint(1, self.operations))
        if code or killed or mode not in FAILING:
            code, _, told = self.runner.run(again, self.case)
            if code and self.command.finished not in told:
                return f"running it again: exit code {code}, {told[-300:]!r}"
        return self._wrong()

    def _wrong(self) -> str | None:
        found, names = _results(self.command, self.case), _names(self.case)
        if found != self.wanted:
            return f"other bits in {[part for part in self.wanted if found[part] != self.wanted[part]]}"
        if self.command.left and names - self.names:
            return f"left behind: {sorted(names - self.names)[:5]}"
        if self.command.left and self.names - names:
            return f"missing: {sorted(self.names - names)[:5]}"
        return None


def _campaign(name: str, command: Command, plan: Plan, shim: Path, outcome: Outcome) -> None:
    trial = Trial(name, command, plan, shim)
    for mode, at in trial.points():
        problem = trial.tried(mode, at)
        outcome.count(f"{name}, {MODES[mode - 1]}", problem and f"operation {at} of {trial.operations}: {problem}")
    trial.runner.close()


def _told(code: int, told: str) -> str | None:
    """What is wrong with how a command ended."""
    if "Traceback" in told or code == 70:
        return f"a traceback: {told[-400:]!r}"
    if code not in (0, 1, -9):
        return f"exit code {code}"
    if code == 1 and len(told.strip().splitlines()) != 1:
        return f"not one line: {told[-300:]!r}"
    return None


if __name__ == "__main__":
    _serve()
