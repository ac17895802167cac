"""Train and evaluate the runs behind the tables. Runs that are recorded already are skipped.

    python -m experiments.training.reproduce all --prepare --work work
    python -m experiments.training.reproduce english languages --work work --seeds 0 1 2 3
    python -m experiments.training.reproduce paper default --classification --work work --seeds 0 1 2 3 --dry-run

NAME is a run or a group of runs (runs.py, ideas.py): english, ablations, channels, languages, controls (paper: all of
these), presets, paragraphs, amounts, spaced, all, ideas. One seed of everything is trained first. A run is recorded in
experiments/results/runs/NAME-SEED.json, an idea in experiments/results/ideas.jsonl; `python -m experiments.pages` makes
the pages from them.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

from banyan.config import Config
from banyan.errors import BanyanError, first_line
from banyan.support import devices
from banyan.support.display import Display, duration
from experiments.data import add_data_option
from experiments.places import RESULTS
from experiments.records import store
from experiments.training import weights as on_disk
from experiments.training.evaluation import CLASSIFICATION, beside, check_data, figures, keep_cosines, suites_of
from experiments.training.plan import chosen, plan
from experiments.training.prepared import Prepared, name_of, prepared
from experiments.training.runs import Experiment
from experiments.training.trained import trained
from experiments.training.weights import OUTPUT, OUTPUT_NPZ, Weights, arrays_of
from experiments.versions import commit

CLASSIFIED = ("banyan", "self-strae", "default")
# settings that training does not depend on
WHEN_ENCODING = ("lexical_dim", "lexical_weight", "end_marks", "whole_words")


def main(arguments: list[str] | None = None) -> int:
    options = _options(arguments)
    display = Display(quiet=not sys.stderr.isatty())
    try:
        todo = plan(chosen(options.names), options.seeds)
        if options.dry_run:
            return dry_run(todo, options)
        if options.prepare:
            for one, seed in todo:  # a folder that exists is not made again
                prepared(one.language, options.data, options.work, Display(), one.config(seed), one.amount)
            return 0
        for experiment, _ in todo:
            check_data(options.data, experiment.language, _wanted(experiment, options))
    except BanyanError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    on_cpu = devices.choose(options.device).type == "cpu"  # then training needs every core
    with beside(0 if on_cpu else options.workers) as pool:
        return Reproduction(options, display, pool).run(todo)


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="+", metavar="NAME")
    add_data_option(parser)
    parser.add_argument("--work", type=Path, required=True, help="holds prepared corpora and unfinished runs")
    parser.add_argument("--results", type=Path, default=RESULTS, help=f"holds {store.RUNS}/ and {store.IDEAS}")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--device", default="auto")
    parser.add_argument("--prepare", action="store_true", help="prepare the corpora and train nothing")
    parser.add_argument("--dry-run", action="store_true", help="list what would be trained, and train nothing")
    also = f"evaluate {', '.join(CLASSIFIED)} on SST-2 and MRPC too"
    parser.add_argument("--classification", action="store_true", help=also)
    parser.add_argument("--keep-weights", nargs="*", metavar="NAME", help="keep the weights of these runs, or of all")
    parser.add_argument("--keep-output", action="store_true", help="keep their output layers too, in separate files")
    parser.add_argument("--out-weights", type=Path, default=Path("weights"), help="folder for NAME-SEED.npz")
    parser.add_argument("--keep-cosines", type=Path, metavar="DIR", help="keep the cosines of pairs as NAME-SEED.npz")
    parser.add_argument("--workers", type=int, default=4, help="processes that evaluate while a GPU trains (0: none)")
    parser.add_argument("--commit", default=commit("src"), help="commit to record (default: from git)")
    parser.add_argument("--sharing", type=int, default=1, help="concurrent runs on the device, to record")
    parser.add_argument("--stop-after", type=float, default=float("inf"), metavar="SECONDS", help="start no run later")
    return parser.parse_args(arguments)


def _wanted(experiment: Experiment, options: argparse.Namespace) -> list[str]:
    if experiment.choosing:
        return ["dev"]
    return suites_of(experiment.language, options.classification and experiment.name in CLASSIFIED)


def _place(experiment: Experiment, options: argparse.Namespace) -> Path:
    return options.results / (store.IDEAS if experiment.choosing else store.RUNS)


def _found(experiment: Experiment, seed: int, options: argparse.Namespace) -> dict[str, Any] | None:
    """The record of a run with its present settings, if there is one."""
    return finished(store.find(_place(experiment, options), experiment.name, seed), experiment.recorded(seed))


def dry_run(todo: list[tuple[Experiment, int]], options: argparse.Namespace) -> int:
    """Print what each run still needs, and the seconds that runs of the same names took where they were recorded."""
    seconds, unknown, left = 0.0, 0, 0
    for experiment, seed in todo:
        found, stem = _found(experiment, seed, options), f"{experiment.name}-{seed}"
        lacking = [suite for suite in _wanted(experiment, options) if not found or suite not in found["suites"]]
        if not lacking:
            print(f"{stem}: already recorded")
            continue
        earlier = [one for one in map(_before(experiment, options), options.seeds) if one]
        left, unknown = left + 1, unknown + (not earlier)
        seconds += min((one["seconds_in_all"] for one in earlier), default=0.0)
        why = "" if found is None else "; its record lacks these"
        print(f"{stem}: to train and to evaluate on {', '.join(lacking)}{why}")
    print(f"{left} of {len(todo)} runs are left: about {duration(seconds)} as they were recorded, {unknown} never run")
    return 0


def _before(experiment: Experiment, options: argparse.Namespace) -> Callable[[int], dict[str, Any] | None]:
    """The record of a run by its seed, whatever its settings."""
    return lambda seed: store.find(_place(experiment, options), experiment.name, seed)


@dataclass
class Reproduction:
    options: argparse.Namespace
    display: Display
    pool: Executor
    failed: int = 0
    corpora: dict[str, Prepared] = field(default_factory=dict)
    pending: list[tuple[Path, dict[str, Any], Future]] = field(default_factory=list)

    def run(self, todo: list[tuple[Experiment, int]]) -> int:
        """Train and evaluate everything. A run that fails is reported and does not stop the others."""
        began = time.monotonic()
        try:
            for experiment, seed in todo:
                if time.monotonic() - began > self.options.stop_after:
                    print("time is up: run the same command again to continue", file=sys.stderr)
                    break
                try:
                    self._one(experiment, seed)
                except Exception as error:
                    self._failure(f"{experiment.name}-{seed}", error)
                self._collect(wait=False)
        finally:
            self._collect(wait=True)
        return 1 if self.failed else 0

    def _one(self, experiment: Experiment, seed: int) -> None:
        options, wanted = self.options, _wanted(experiment, self.options)
        place, found = _place(experiment, options), _found(experiment, seed, options)
        stem = f"{experiment.name}-{seed}"
        if found and set(wanted) <= set(found["suites"]):
            print(f"{stem}: already recorded", flush=True)
            return
        text = self._corpus(experiment, experiment.config(seed))
        if found and (weights := self._kept(stem)):
            wanted = [suite for suite in wanted if suite not in found["suites"]]
            self._submit(place, found, weights, text, wanted)
            return
        alike = trained_alike(store.find(place, experiment.name, seed), experiment.recorded(seed))
        if alike and (weights := self._kept(stem)):
            self._submit(place, {**alike, "suites": [], "figures": [], "scores": {}}, weights, text, wanted)
            return
        mark = sha256(json.dumps(experiment.recorded(seed)).encode()).hexdigest()[:8]
        folder = options.work / "runs" / f"{stem}-{mark}"
        weights, record = trained(experiment, seed, text, folder, devices.choose(options.device), self.display)
        record["commit"], record["sharing"] = options.commit, options.sharing
        if experiment.choosing:
            record["list"] = experiment.groups[0]
        output = {name: weights.pop(name) for name in OUTPUT if name in weights}  # evaluation does not need it
        kept = options.keep_weights
        if kept is not None and (not kept or {experiment.name, stem} & set(kept)):
            on_disk.write(options.out_weights / f"{stem}.npz", weights, experiment.config(seed), text.tokenizer)
            if options.keep_output and output:
                on_disk.write_arrays(options.out_weights / f"{stem}{OUTPUT_NPZ}", output)
        self._submit(place, {**record, "suites": [], "figures": [], "scores": {}}, weights, text, wanted)

    def _submit(
        self, place: Path, record: dict[str, Any], weights: Weights, text: Prepared, wanted: list[str]
    ) -> None:
        future = self.pool.submit(figures, record, weights, text.folder, self.options.data, wanted)
        self.pending.append((place, {**record, "suites": [*record["suites"], *wanted]}, future))

    def _collect(self, wait: bool) -> None:
        """Record the runs whose evaluation is finished; or wait for all of them."""
        for pending in list(self.pending):
            place, record, future = pending
            if not (wait or future.done()):
                continue
            self.pending.remove(pending)
            stem = f"{record['name']}-{record['seed']}"
            try:
                made = future.result()
            except Exception as error:
                self._failure(stem, error)
                continue
            record["figures"] = [*record["figures"], *made["figures"]]
            record["scores"] = {**record["scores"], **made["scores"]}
            record["cosines"] = made["cosines"]
            keep_cosines(self.options.keep_cosines, record)
            store.put(place, record)
            print(_line(stem, record), flush=True)

    def _failure(self, stem: str, error: Exception) -> None:
        self.failed += 1
        print(f"{stem} failed: {type(error).__name__}: {first_line(error)}", file=sys.stderr, flush=True)

    def _corpus(self, experiment: Experiment, config: Config) -> Prepared:
        language, amount = experiment.language, experiment.amount
        name = name_of(language, config, amount)
        if name not in self.corpora:
            self.corpora[name] = prepared(language, self.options.data, self.options.work, self.display, config, amount)
        return self.corpora[name]

    def _kept(self, stem: str) -> Weights | None:
        """The weights of a finished run, if they were kept."""
        path = self.options.out_weights / f"{stem}.npz"
        if not path.exists():
            return None
        return {name: array for name, array in arrays_of(path).items() if name != "config"}


def finished(found: dict[str, Any] | None, recorded: dict[str, Any]) -> dict[str, Any] | None:
    """The record, if it has the same settings. Settings that are newer than the record have their default."""
    if found is None:
        return None
    settings = {name: found["settings"].get(name, value) for name, value in Config().to_dict().items()}
    made_with = {**found, "settings": settings}
    return found if all(made_with.get(name) == value for name, value in recorded.items()) else None


def trained_alike(found: dict[str, Any] | None, recorded: dict[str, Any]) -> dict[str, Any] | None:
    """The record with its present settings, if it differs from them only in settings of encoding: then weights that
    were kept are evaluated anew, without training."""
    if found is None:
        return None
    now = {name: recorded["settings"][name] for name in WHEN_ENCODING}
    return finished({**found, "settings": {**found["settings"], **now}}, recorded)


def _line(stem: str, record: dict[str, Any]) -> str:
    training = record["training"]
    took = f"{duration(training['seconds'])}, loss {training['train_loss']:.3f}" if training else "not trained"
    scores = [f"{name} {score['value']:.2f}" for name, score in record["scores"].items()]
    chosen_on = [one for one in record["figures"] if one["group"].startswith("dev")]
    scores += [f"{one['task']} {one['metric']} {one['value']:.1f}" for one in chosen_on]
    tests = [f"{one['task']} {one['value']:.2f}" for one in record["figures"] if one["group"] == "languages"]
    tests += [f"{one['task']} {one['value']:.2f}" for one in record["figures"] if one["group"] == CLASSIFICATION]
    return f"{stem}: {took}; {', '.join(scores + tests)}"


if __name__ == "__main__":
    sys.exit(main())
