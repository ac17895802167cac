"""Training that goes wrong in numbers: it stops, says so in one line, and the last checkpoint can be read."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from torture.campaign import Outcome, Plan
from torture.faults import COMMANDS, inputs

TITLE = "training that goes wrong in numbers"
ABSURD = (  # command, option, value, and whether it must end with an error
    ("train", "--lr", "1e30", True),
    ("train", "--lr", "1e4", False),
    ("train", "--lr", "3e38", True),
    ("train", "--infonce-weight", "1e30", False),
    ("train", "--vocab-size", "100000000", False),
    ("train", "--lexical-weight", "1e300", True),
    ("train", "--dropout", "0.999999", False),
    ("train", "--clip-grad-norm", "1e-300", False),
    ("tune", "--lr", "1e30", True),
    ("tune", "--lr", "inf", True),
    ("classify", "--lr", "1e30", True),
    ("classify", "--lr", "inf", True),
)


def run(plan: Plan) -> Outcome:
    outcome = Outcome()
    inputs(plan.work / "inputs")
    for number, (name, option, value, fails) in enumerate(ABSURD):
        out = plan.work / f"out{number}"
        command = [*COMMANDS[name].arguments(plan.work / "inputs", out), option, value]
        done = subprocess.run([sys.executable, "-m", "banyan", *command], capture_output=True, text=True)
        problem = "it says nothing" if fails and not done.returncode else _wrong(done, out)
        outcome.count(f"{name} {option} {value}", problem)
    return outcome


def _wrong(done: subprocess.CompletedProcess[str], out: Path) -> str | None:
    from banyan.checking import check

    lines = done.stderr.strip().splitlines()
    if done.returncode not in (0, 1) or "Traceback" in done.stderr or (done.returncode and len(lines) != 1):
        return f"exit code {done.returncode}: {done.stderr[-300:]!r}"
    problems = check(out).problems if out.exists() else []
    if done.returncode:  # an unfinished run is no model; its checkpoint must be whole
        problems = [problem for problem in problems if "checkpoint" in problem]
    return f"damaged: {problems}" if problems else None
