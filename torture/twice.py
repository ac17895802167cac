"""Two processes write to one target at once: each succeeds or says in one line why not, and nothing is lost."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from torture.campaign import Outcome, Plan
from torture.faults import COMMANDS, Command, _results, inputs

TITLE = "two processes on one target"
_MODEL = ("model.safetensors", "tokenizer.json", "config.json")
_SAVE = "import sys; from banyan import Banyan; Banyan.from_pretrained(sys.argv[2]).save_pretrained(sys.argv[3])"


def _file(name: str, *arguments: str) -> Command:
    """A command that writes a file; words that begin with @ are inputs."""

    def given(inputs: Path, out: Path) -> list[str]:
        return [str(inputs / word[1:]) if word.startswith("@") else word for word in arguments] + ["-o", str(out)]

    return Command(given, result=name)


MORE = {  # write a file or a folder in one go; which of the two processes is last does not matter
    "baseline": Command(
        lambda inputs, out: ["baseline", "tfidf", str(inputs / "corpus.txt"), "--out", str(out), "--quiet"],
        compared=("idf.safetensors", "ngrams.txt"),
    ),
    "pull": Command(lambda inputs, out: ["pull", "some/model", "-o", str(out)], compared=_MODEL),
    "export onnx": Command(
        lambda inputs, out: ["export", str(inputs / "bpe"), "-o", str(out), "--format", "onnx"],
        compared=("model.onnx", "tokenizer.json"),
    ),
    "export word2vec": _file("target.txt", "export", "@model", "--format", "word2vec"),
    "encode json lines": _file("target.jsonl", "encode", "@model", "@corpus.txt", "--quiet"),
    "dedup": _file("target.txt", "dedup", "@model", "@corpus.txt", "--remove"),
    "map": _file("target.html", "map", "@index", "--method", "pca"),
    "cluster": _file("target.csv", "cluster", "@index"),
    "tree": _file("target.svg", "tree", "@model", "the cat sat"),
    "explain": _file("target.svg", "explain", "@model", "the cat sat", "a dog slept"),
    "eval": _file("target.json", "eval", "@model", "--pairs", "@scored.tsv", "--quiet"),
    "classify predict": _file("target.tsv", "classify", "predict", "@labels", "@corpus.txt"),
    "check --repair": Command(lambda inputs, out: _without_record(inputs, out), compared=("rows",)),
}


def _without_record(inputs: Path, out: Path) -> list[str]:
    """An index that has lost its index.json, to be repaired."""
    shutil.copytree(inputs / "index", out)
    (out / "index.json").unlink()
    return ["check", str(out), "--repair"]


def _start(arguments: list[str]) -> subprocess.Popen[str]:
    program = ["-c", _SAVE] if arguments[0] == "save" else ["-m", "banyan"]
    command = [sys.executable, *program, *arguments]
    return subprocess.Popen(command, text=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def _more_inputs(folder: Path) -> None:
    """An index, and a model in the cache of the Hub."""
    command = ["index", str(folder / "model"), str(folder / "corpus.txt"), "-o", str(folder / "index"), "--quiet"]
    assert _start(command).wait() == 0
    cached = folder / "hub" / "models--some--model"
    shutil.copytree(folder / "model", cached / "snapshots" / "0")
    (cached / "refs").mkdir()
    (cached / "refs" / "main").write_text("0")
    os.environ |= {"HF_HUB_CACHE": str(folder / "hub"), "HF_HUB_OFFLINE": "1"}


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
    _more_inputs(plan.work / "inputs")
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
