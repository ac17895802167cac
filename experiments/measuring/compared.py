"""Measure the scores and the cost of a system that Banyan is compared with, on the CPU of this machine.

    python -m experiments.measuring.compared NAME FOLDER [--language en] [--beside MODEL]
                                             [--only scores|cost] [--device cuda]

FOLDER is the output of `banyan baseline` or `banyan train`. English systems are evaluated on the suites sts, words and
classification and on ArguAna, systems of other languages on the test set of the language.

Sentences per second are measured from strings, with BANYAN_THREADS threads. With --beside, a Banyan model encodes the
same sentences in alternation, so that the ratio is meaningful on a busy machine. With --only, scores can come from a
machine with a GPU (--device, for transformers) and costs from this one. --trained gives the training time of a folder
that does not record it.

Writes NAME-LANGUAGE.json to experiments/results/compared, with the suffix -sSEED for a seed other than 0 and -cost for
costs only; an existing record is kept. `python -m experiments.figures.compared` then draws the picture, and `python -m
experiments.pages` writes the tables.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from banyan import baselines
from banyan.baselines import folder as folders
from banyan.config import Config
from banyan.encoder import SETTINGS, Banyan
from banyan.errors import BanyanError
from banyan.evaluate import suites, table
from banyan.evaluate.suites import Task
from banyan.support import files, threads
from experiments.data import add_data_option, corpus_lines
from experiments.hardware import processor
from experiments.places import RESULTS, ROOT

OUT = RESULTS / "compared"
ENGLISH, ENGLISH_SUITES = "en", ("sts", "words", "classification")
SENTENCES = 4096  # of held-out text, to time encoding
WARM = 64  # sentences encoded before timing, to compile kernels or load them from the cache
TURNS, ENOUGH = 7, 60.0  # repetitions, or seconds after which no further one starts
LEFT_OUT = ("losses",)  # notes of a folder that are too long for a record

Work = Callable[[Sequence[str]], Any]


def cost(folder: Path, data: Path, language: str, beside: Path | None) -> dict[str, Any]:
    lines = corpus_lines(data, language, "dev", SENTENCES)
    memory = peak_memory(folder, lines)  # first, because the peak of a child includes what its parent holds at the fork
    return {
        "bytes": size(folder),
        "peak_memory_bytes": memory,
        "speed": speed(work_of(loaded(folder)), lines, beside),
        "machine": f"{os.cpu_count()} × {processor()}, Python {platform.python_version()}",
    }


def scores(folder: Path, data: Path, language: str, device: str) -> dict[str, Any]:
    model = loaded(folder, device)
    return {"dimensions": getattr(model, "dim", None), "figures": figures(model, tasks(data, language))}


def loaded(folder: Path, device: str = "cpu") -> Any:
    return baselines.load(folder, device) if baselines.is_baseline(folder) else Banyan.from_pretrained(folder)


def said(folder: Path) -> dict[str, Any]:
    """How the folder was made, from its manifest or settings."""
    if not baselines.is_baseline(folder):
        config = Config.from_file(folder / SETTINGS)
        return {"name": "banyan", "settings": {"preset": config.preset, "seed": config.seed}}
    manifest = folders.read(folder)
    about = {key: value for key, value in manifest.about.items() if key not in LEFT_OUT}
    return {"name": manifest.name, "settings": manifest.settings, "source": manifest.source, "about": about}


# --- Scores ----------------------------------------------------------------------------------------------------------


def tasks(data: Path, language: str) -> list[Task]:
    if language != ENGLISH:
        return suites.tasks("languages", data, [language])
    arguana = [task for task in suites.tasks("retrieval", data) if task.name == "arguana"]
    return [*(task for suite in ENGLISH_SUITES for task in suites.tasks(suite, data)), *arguana]


def figures(model: Any, wanted: Sequence[Task]) -> list[dict[str, Any]]:
    """Figures of each set and means of suites, with 95% intervals. A missing figure has a note that says why."""
    measurable = getattr(model, "encode", model)
    rows = [row for task in wanted for row in suites.measure(measurable, task)]
    found = []
    for line in table.tabulate("", rows).lines:
        value, low, high = line.figure or (None, None, None)
        figure = {"value": value, "low": low, "high": high, "note": line.note}
        found.append({"group": line.group, "task": line.task, "metric": line.metric, "n": line.n, **figure})
    return found


# --- Costs -----------------------------------------------------------------------------------------------------------


def size(folder: Path) -> int | None:
    """Bytes of all files; of the source, if the folder only points to a model; None if that is not a folder."""
    source = folders.read(folder).source if baselines.is_baseline(folder) else None
    place = Path(source) if source is not None else folder
    if not place.is_dir():
        return None
    return sum(path.stat().st_size for path in place.rglob("*") if path.is_file())


def peak_memory(folder: Path, lines: Sequence[str]) -> int:
    """Peak memory in bytes of a process that only loads the folder and encodes."""
    program = f"from experiments.measuring import compared; compared.tell_peak({str(folder.resolve())!r})"
    child = subprocess.run(
        [sys.executable, "-c", program],
        input="\n".join(lines), capture_output=True, text=True, encoding="utf-8", cwd=ROOT,
    )  # fmt: skip
    if child.returncode:
        raise BanyanError(f"a process that loads {folder} and encodes has failed: {child.stderr.strip()}")
    return int(child.stdout)


def tell_peak(folder: str) -> None:
    """Encode the lines of standard input and print the peak memory."""
    work_of(loaded(Path(folder)))(sys.stdin.read().split("\n"))
    print(folders.peak_memory())


def work_of(model: Any) -> Work:
    """What is timed: encoding or, for a system without vectors, comparing one half of the sentences with the other."""
    if hasattr(model, "encode"):
        return model.encode
    return lambda lines: model.similarity(lines[: len(lines) // 2], lines[len(lines) // 2 : len(lines) // 2 * 2])


def speed(work: Work, lines: Sequence[str], beside: Path | None) -> dict[str, Any]:
    """Sentences per second of the fastest repetition, and the median ratio to the model beside."""
    works: list[Work] = [work, *([] if beside is None else [Banyan.from_pretrained(beside).encode])]
    for one in works:
        one(lines[:WARM])
    times: list[list[float]] = []
    started = time.perf_counter()
    while len(times) < TURNS and (not times or time.perf_counter() - started < ENOUGH):
        times.append([_seconds(one, lines) for one in works])
    best = [len(lines) / min(of_one) for of_one in zip(*times, strict=True)]
    found: dict[str, Any] = {"sentences": len(lines), "threads": threads.available(), "turns": len(times)}
    found["sentences_per_second"] = best[0]
    if beside is None:
        return found
    ratio = statistics.median(theirs / own for own, theirs in times)
    return {**found, "beside": beside.name, "beside_sentences_per_second": best[1], "ratio": ratio}


def _seconds(work: Work, lines: Sequence[str]) -> float:
    started = time.perf_counter()
    work(lines)
    return time.perf_counter() - started


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", metavar="NAME")
    parser.add_argument("folder", metavar="FOLDER", type=Path)
    add_data_option(parser)
    parser.add_argument("--language", default=ENGLISH)
    parser.add_argument("--beside", type=Path)
    parser.add_argument("--only", choices=("scores", "cost"))
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--trained", type=float, metavar="SECONDS")
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args(arguments)
    made = said(options.folder)
    path = options.out / f"{options.name}-{options.language}{suffix(made, options.only)}.json"
    if path.exists():
        print(f"{path.name} exists already")
        return
    seconds = made.get("about", {}).get("seconds", options.trained)
    record = {"name": options.name, "language": options.language, "folder": options.folder.name, "made": made}
    record["training_seconds"] = seconds
    if options.only != "scores":
        record |= cost(options.folder, options.data, options.language, options.beside)
    if options.only != "cost":
        record |= scores(options.folder, options.data, options.language, options.device)
    path.parent.mkdir(parents=True, exist_ok=True)
    files.write_text(path, json.dumps(record, indent=1, ensure_ascii=False) + "\n")
    print(f"wrote {path}")


def suffix(made: dict[str, Any], only: str | None) -> str:
    """The suffix of a record's name, after NAME-LANGUAGE."""
    seed = made["settings"].get("seed", 0)
    return (f"-s{seed}" if seed else "") + ("-cost" if only == "cost" else "")


if __name__ == "__main__":
    main()
