"""Train and evaluate the runs that a teacher or translations teach. Runs that are recorded already are skipped.

    python -m experiments.training.taught taught taught-50000 --teacher FOLDER --work work --seeds 0 1 2 3
    python -m experiments.training.taught translated-ha --teacher FOLDER --work work --translations parallel_prep

NAME is taught (all lines), taught-N (a sample of N lines), taught-stored (vectors of the lines alone, as from a file),
after taught), or translated-LANGUAGE. The teacher's vectors are made once per name, by the first run, and shared by all
seeds. A run is recorded in experiments/results/runs/NAME-SEED.json, like those of `reproduce`.

--translations is the folder that `python -m experiments.translations.prepare` wrote. --set changes settings, for trials
on the development sets: --dev-only records them in experiments/results/ideas.jsonl under NAME+SETTINGS.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from banyan import Banyan, train
from banyan.corpus.parallel import ParallelText
from banyan.evaluate.translation import Translations, translation
from banyan.support import devices
from banyan.training.folder import METRICS
from experiments.data import add_data_option, corpus
from experiments.places import RESULTS
from experiments.records import store
from experiments.training.evaluation import figures, keep_cosines, suites_of
from experiments.training.trained import _told, machine
from experiments.versions import commit

HELD_OUT = {"dev": "dev.tsv.xz", "verses": "verses.tsv.xz", "source": "source.tsv.xz"}


def main(arguments: list[str] | None = None) -> int:
    options = _options(arguments)
    for seed in options.seeds:
        for name in options.names:
            one(name, seed, options)
    return 0


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="+", metavar="NAME")
    add_data_option(parser)
    parser.add_argument("--work", type=Path, required=True, help="holds the teacher's vectors and the models")
    parser.add_argument("--teacher", required=True, help="a sentence-transformers folder or hub name")
    parser.add_argument("--teacher-name", help="the teacher's name in the records (default: as given)")
    parser.add_argument("--tokenizer", type=Path, help="a tokenizer to use instead of training one")
    parser.add_argument("--tokenizers", type=Path, help="for translated: a folder of tokenizers LANGUAGE.json")
    parser.add_argument("--text-preset", help="for translated: the preset of the training on text")
    parser.add_argument("--translations", type=Path, help="the folder of the held-out translations")
    parser.add_argument("--learned", type=Path, help="for translated: folder of models LANGUAGE-SEED to start from")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--device", default="auto")
    parser.add_argument("--keep-cosines", type=Path, metavar="DIR", help="keep the cosines of pairs as NAME-SEED.npz")
    parser.add_argument("--dev-only", action="store_true", help="evaluate on the development sets only")
    parser.add_argument("--set", nargs="*", default=[], metavar="NAME=VALUE", help="settings to change")
    parser.add_argument("--commit", default=commit("src"), help="commit to record (default: from git)")
    return parser.parse_args(arguments)


def one(name: str, seed: int, options: argparse.Namespace) -> None:
    changed = {key: json.loads(value) for key, _, value in (pair.partition("=") for pair in options.set)}
    label = name + "".join(f"+{key}={value}" for key, value in changed.items())
    place = options.results / (store.IDEAS if options.dev_only else store.RUNS)
    if store.find(place, label, seed):
        print(f"{label}-{seed}: already recorded", flush=True)
        return
    started = time.monotonic()
    call = _call(name, seed, options)
    out = options.work / "models" / f"{label}-{seed}"
    _share_lessons(out, options.work / "lessons" / name)
    given = {"teacher": options.teacher, "device": options.device, "overwrite": True, **call["extra"]}
    model = train(call["corpus"], out, seed=seed, quiet=True, **given, **changed)
    language = call["language"]
    training = {"seconds": None, **_told(out / METRICS)}
    record = {
        "name": label, "seed": seed, "language": language, "model": "banyan", "settings": model.config.to_dict(),
        "vocabulary": len(model.embedding), "parameters": _counted(model), "training": training, "energy": None,
        "seconds_in_all": time.monotonic() - started, "machine": machine(devices.choose(options.device)),
        "taught_by": json.loads((out / "taught_by.json").read_text("utf-8")), "command": call["shown"],
        "commit": options.commit,
    }  # fmt: skip
    record["taught_by"]["name"] = options.teacher_name or record["taught_by"]["name"]
    wanted = ["dev"] if options.dev_only else suites_of(language, False)
    record |= {"suites": wanted, **figures(record, model.weights, out, options.data, wanted)}
    keep_cosines(options.keep_cosines, record)
    record["figures"] += _found_translations(model, language, options)
    store.put(place, record)
    shown = [f"{one['task']} {one['value']:.2f}" for one in record["figures"] if one["value"] is not None]
    means = [f"{key} {score['value']:.2f}" for key, score in record["scores"].items()]
    print(f"{label}-{seed}: {record['seconds_in_all']:.0f}s; {', '.join(means + shown)}", flush=True)


def _call(name: str, seed: int, options: argparse.Namespace) -> dict[str, Any]:
    """The arguments of train() for a run, its language, and the command that does the same."""
    kind, _, rest = name.partition("-")
    if kind == "translated":
        folder = options.translations / rest
        extra: dict[str, Any] = {"parallel": folder / "train.tsv.xz", "preset": options.text_preset}
        if options.tokenizers:
            extra["tokenizer"] = options.tokenizers / f"{rest}.json"
        if options.learned:
            extra["init"] = options.learned / f"{rest}-{seed}"
        shown = f"banyan train {rest}.txt --parallel english-{rest}.tsv --teacher {options.teacher_name} --out model/"
        return {"language": rest, "corpus": folder / "corpus.txt.xz", "extra": extra, "shown": shown}
    extra = {"tokenizer": options.tokenizer}
    shown = f"banyan train en.txt --teacher {options.teacher_name} --out model/"
    if rest.isdigit():
        extra["teacher_lines"] = int(rest)
        shown += f" --teacher-lines {rest}"
    if rest == "stored":
        extra["teacher"] = str(_lines(options.work))
        shown = "banyan train en.txt --teacher vectors.npy --out model/"
    return {"language": "en", "corpus": corpus(options.data, "en", "train"), "extra": extra, "shown": shown}


def _share_lessons(out: Path, lessons: Path) -> None:
    """Let the run's folder hold a link to lessons that all seeds share."""
    lessons.mkdir(parents=True, exist_ok=True)
    (out / "training").mkdir(parents=True, exist_ok=True)
    link = out / "training" / "lessons"
    if not link.is_symlink():
        link.symlink_to(lessons.resolve(), target_is_directory=True)


def _lines(work: Path) -> Path:
    """A file of vectors with one row for each line of the corpus, from the lessons of `taught`: lines have even numbers
    there, their spans odd ones."""
    path, lessons = work / "lines.npy", work / "lessons" / "taught"
    if not path.exists():
        numbers = np.load(lessons / "rows.npy")
        vectors = np.fromfile(lessons / "vectors" / "vectors.f16", np.float16).reshape(len(numbers), -1)
        rows = np.zeros((int(numbers.max()) // 2 + 1, vectors.shape[1]), np.float16)
        even = numbers % 2 == 0
        rows[numbers[even] // 2] = vectors[even]
        np.save(path, rows)
    return path


def _counted(model: Banyan) -> dict[str, int]:
    functions = sum(function.size for function in model.functions)
    return {"functions": functions, "embedding": model.embedding.size, "output": 0}


def _found_translations(model: Banyan, language: str, options: argparse.Namespace) -> list[dict[str, Any]]:
    """Retrieval of held-out translations, with the taught dimensions and with all."""
    if not model.config.taught_dim:
        return []
    found = []
    sets = {"dev": HELD_OUT["dev"]} if options.dev_only else HELD_OUT
    for name, file in sets.items():
        pairs = Translations.of(ParallelText(options.translations / language / file))
        for dims, told in ((model.config.taught_dim, "taught"), (None, "all")):
            encode = lambda texts, dims=dims: model.encode(texts, truncate_dim=dims, normalize=True)  # noqa: E731
            for outcome in translation(encode, pairs, name):
                interval = outcome.interval()
                found.append(
                    {"group": "translations", "task": f"{name}, {told} dimensions", "metric": outcome.metric,
                     "n": outcome.n, "value": outcome.value, "low": interval.low, "high": interval.high, "note": ""}
                )  # fmt: skip
    return found


if __name__ == "__main__":
    sys.exit(main())
