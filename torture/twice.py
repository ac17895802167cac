"""Two processes write to one target at once: each succeeds or says in one line why not, and nothing is lost."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from torture.campaign import Outcome, Plan
from torture.faults import COMMANDS, Command, _results, inputs

TITLE = "two processes on one target"
_SAVE = "import sys; from banyan import Banyan; Banyan.from_pretrained(sys.argv[2]).save_pretrained(sys.argv[3])"


MORE = {  # write a file or a folder in one go; which of the two processes is last does not matter
    "baseline": Command(
        lambda inputs, out: ["baseline", "tfidf", str(inputs / "corpus.txt"), "--out", str(out), "--quiet"],
        compared=("idf.safetensors", "ngrams.txt"),
    ),
    "dedup": Command(
        lambda inputs, out: ["dedup", str(inputs / "model"), str(inputs / "corpus.txt"), "--remove", "-o", str(out)],
        result="target.txt",
    ),
}  # fmt: skip


def _start(arguments: list[str]) -> subprocess.Popen[str]:
    program = ["-c", _SAVE] if arguments[0] == "save" else ["-m", "banyan"]
    return subprocess.Popen([sys.executable, *program, *arguments], text=True, stderr=subprocess.PIPE)


def _together(command: Command, given: Path, case: Path) -> str | None:
    arguments = command.arguments(given, case / command.result)
    processes = [_start(arguments), _start([*arguments, *command.again])]
    ends = [(process.communicate(timeout=600)[1], process.returncode) for process in processes]
    for told, code in ends:
        if code not in (0, 1) or "Traceback" in told or (code == 1 and len(told.strip().splitlines()) != 1):
            return f"exit code {code}: {told[-300:]!r}"
    if not any(code == 0 for _, code in ends):
        return f"neither succeeded: {ends}"
    return None


def run(plan: Plan) -> Outcome:
    outcome = Outcome()
    inputs(plan.work / "inputs")
    case = plan.work / "case"
    for name, command in {**COMMANDS, **MORE}.items():
        wanted: dict[str, str] | None = None
        for number in plan.cases(2, 20):
            shutil.rmtree(case, ignore_errors=True)
            case.mkdir()
            if wanted is None:
                assert _start(command.arguments(plan.work / "inputs", case / command.result)).wait() == 0
                wanted = _results(command, case)
                shutil.rmtree(case)
                case.mkdir()
            problem = _together(command, plan.work / "inputs", case)
            if problem is None and _results(command, case) != wanted:
                problem = "other bits"
            outcome.count(name, problem and f"try {number}: {problem}")
    return outcome
