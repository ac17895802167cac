"""Suites of evaluation sets: the paper's, those for development, and the user's own files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from banyan.errors import BanyanError
from banyan.evaluate.outcome import Outcome
from banyan.evaluate.similarity import Comparer, Encode, NoVectors, read_pairs, similarity
from banyan.evaluate.word_similarity import word_similarity

_PLACES = ("", "eval", "beir", "../beir")  # --data names the folder of the sets, or one that holds eval/ and beir/
_ARCHIVES = (".tar", ".tar.gz", ".tar.xz")


class Task(NamedTuple):
    """An evaluation set: its files, and the function that measures on them."""

    group: str  # the table has a mean for each group
    name: str
    files: tuple[str, ...]
    # returns the outcomes, and a note about the data
    measure: Callable[[Encode | Comparer, str, Sequence[Path]], tuple[list[Outcome], str]]
    note: str = ""  # what a reader of its figures must know
    origin: str = ""  # where to get it
    missing: str = ""  # why it cannot be measured
    paths: tuple[Path, ...] = ()  # of the files; empty if one is missing


class Result(NamedTuple):
    """One figure or, if outcome is None, the reason why there is none."""

    group: str
    task: str
    outcome: Outcome | None
    note: str


# --- Measures --------------------------------------------------------------------------------------------------------


def _pairs(encode: Encode | Comparer, task: str, paths: Sequence[Path]) -> tuple[list[Outcome], str]:
    return [similarity(encode, read_pairs(paths[0]), task)], ""


def _words(encode: Encode | Comparer, task: str, paths: Sequence[Path]) -> tuple[list[Outcome], str]:
    return [word_similarity(encode, paths[0], task)], ""


def _retrieval(encode: Encode | Comparer, task: str, paths: Sequence[Path]) -> tuple[list[Outcome], str]:
    from banyan.evaluate.retrieval import read_beir, retrieval

    data = read_beir(paths[0])
    return retrieval(encode, data, task), _of_missing(task, data.missing)


def _of_missing(task: str, missing: int) -> str:
    if not missing:
        return ""
    official = ", as in the official file" if missing == _OFFICIALLY_MISSING.get(task) else ""
    return f"judgements of a document or query that does not exist: {missing:,}{official}"


def _classification(encode: Encode | Comparer, task: str, paths: Sequence[Path]) -> tuple[list[Outcome], str]:
    from banyan.evaluate.classification import classification, read_labelled

    if not callable(encode):
        raise NoVectors("a classifier needs vectors, and this model compares texts without vectors")
    return classification(encode, read_labelled(paths[0]), read_labelled(paths[1]), task), ""


def _translation(
    encode: Encode | Comparer, task: str, paths: Sequence[Path], columns: Sequence[str] | None
) -> tuple[list[Outcome], str]:
    from banyan.corpus.parallel import ParallelText
    from banyan.evaluate.translation import Translations, translation

    text = ParallelText(paths[0], columns)
    outcomes = translation(encode, Translations.of(text), task)
    dropped = ", ".join(f"{count:,} {reason}" for reason, count in text.report.dropped.items())
    return outcomes, f"left out {dropped}" if dropped else ""


# --- The suites ------------------------------------------------------------------------------------------------------

_NOTES = {
    "semrel": "SemRel's English training split, which the authors publish under this name",
    "es": "SemRel's Spanish development split, which the authors publish as test set",
}
_ITEMS = {  # the number of pairs or test texts in the authors' files
    "sts12": 3108, "sts13": 1500, "sts14": 3750, "sts15": 3000, "sts16": 1186, "stsb": 1379,
    "sick": 4927, "semrel": 5500,
    "id": 360, "ar": 595, "te": 297, "mr": 298, "ha": 603, "af": 375, "es": 140, "am": 171, "hi": 968,
    "simlex": 995, "wordsim-s": 203, "wordsim-r": 252, "sst2": 872, "mrpc": 1725,
}  # fmt: skip
_OFFICIALLY_MISSING = {"arguana": 5}
_ON_HUB = "banyan eval --fetch downloads it"
_WORD_LISTS = "--fetch cannot download it; it is in the authors' repository, github.com/exlab-research/Banyan"
_QUORA = "BEIR's Quora (522,931 questions) is not in the authors' files: put it there as quora/, or use --fetch"
_STAND_IN = "a stand-in built from QQP pairs, not BEIR's Quora"
_SST_DEV = "measured on SST-2's development set, as in the authors' files"
LANGUAGES = ("id", "ar", "te", "mr", "ha", "af", "es", "am", "hi")
_DEV_LANGUAGES = ("en", "id", "ar", "te", "mr", "ha", "af", "am", "hi")  # Spanish has none
_STS = ("sts12", "sts13", "sts14", "sts15", "sts16", "stsb", "sick", "semrel")


def _test_sets(group: str, names: Iterable[str]) -> list[Task]:
    return [Task(group, name, (f"{name}_test.csv",), _pairs, _NOTES.get(name, ""), _ON_HUB) for name in names]


def _dev_sets(languages: Iterable[str]) -> list[Task]:
    return [
        Task("dev", f"semrel_dev/{name}", (f"semrel_dev/{name}.csv",), _pairs, origin=_ON_HUB if name != "en" else "")
        for name in languages
    ]


_SUITES: dict[str, list[Task]] = {
    "sts": _test_sets("sts", _STS),
    "words": [
        Task("words", "simlex", ("simlex.tsv",), _words, origin=_WORD_LISTS),
        Task("words", "wordsim-s", ("wordsim_similarity_goldstandard.txt",), _words, origin=_WORD_LISTS),
        Task("words", "wordsim-r", ("wordsim_relatedness_goldstandard.txt",), _words, origin=_WORD_LISTS),
    ],
    "languages": _test_sets("languages", LANGUAGES),
    "retrieval": [
        Task("retrieval", "arguana", ("arguana",), _retrieval, origin=_ON_HUB),
        Task("retrieval", "quora", ("quora",), _retrieval, origin=_QUORA),
    ],
    "classification": [
        Task("classification", "sst2", ("sst_train.tsv", "sst_dev.tsv"), _classification, _SST_DEV, _ON_HUB),
        Task("classification", "mrpc", ("mrpc_train.csv", "mrpc_test.csv"), _classification, origin=_ON_HUB),
    ],
    "dev": [
        Task("dev", "stsb_dev_clean", ("stsb_dev_clean.tsv",), _pairs),
        *_dev_sets(["en"]),
        Task("dev", "qqp_dev", ("qqp_dev.tsv",), _pairs),
        Task("dev words", "mturk-771", ("words_dev/mturk-771.tsv",), _words),
        Task("dev retrieval", "quora_small_retrieval", ("quora_small_retrieval",), _retrieval, _STAND_IN),
    ],
}
_SUITES["paper"] = [task for name in ("sts", "words", "retrieval", "classification") for task in _SUITES[name]]
SUITES = ("paper", "sts", "words", "languages", "retrieval", "classification", "dev")


def tasks(suite: str, data: str | Path, languages: Sequence[str] = ()) -> list[Task]:
    """Return the sets of a suite, with their paths in `data`.

    languages: for the suite languages, only these; for the suite dev, their development sets instead of the English
    ones."""
    wanted = _wanted(suite, languages)
    if not Path(data).is_dir():
        raise BanyanError(f"the folder {data} of evaluation sets does not exist")
    found = [_found(task, Path(data)) for task in wanted]
    if not any(task.paths for task in found):
        files = ", ".join(name for task in found for name in task.files)
        origins = "".join(f"; {origin}" for origin in dict.fromkeys(task.origin for task in found) if origin)
        raise BanyanError(f"{data} has no set of the suite {suite}; its files are {files}{origins}")
    return found


def lacking(suite: str, data: str | Path, languages: Sequence[str] = ()) -> list[str]:
    """Return the files and folders of a suite that are missing from `data`, which need not exist."""
    return [name for task in _wanted(suite, languages) for name in task.files if _find(Path(data), name) is None]


def _wanted(suite: str, languages: Sequence[str]) -> list[Task]:
    if suite not in SUITES:
        raise BanyanError(f"there is no suite {suite}: choose one of {', '.join(SUITES)}")
    if not languages:
        return _SUITES[suite]
    if suite not in ("languages", "dev"):
        raise BanyanError(f"the suite {suite} is English only: only the suites languages and dev have languages")
    known = _DEV_LANGUAGES if suite == "dev" else LANGUAGES
    for name in languages:
        if name not in known:
            raise BanyanError(f"the suite {suite} has no language {name}: choose one of {', '.join(known)}")
    return _dev_sets(languages) if suite == "dev" else _test_sets("languages", languages)


def _found(task: Task, data: Path) -> Task:
    paths = [_find(data, name) for name in task.files]
    absent = [name for name, path in zip(task.files, paths, strict=True) if path is None]
    if absent:
        why = f"no {' and no '.join(absent)} in {data}"
        return task._replace(missing=f"{why}; {task.origin}" if task.origin else why)
    return task._replace(paths=tuple(path for path in paths if path is not None))


def _find(data: Path, name: str) -> Path | None:
    candidates = (data / place / f"{name}{ending}" for place in _PLACES for ending in ("", *_ARCHIVES))
    return next((path for path in candidates if path.exists()), None)


def own(
    pairs: Iterable[str | Path] = (),
    words: Iterable[str | Path] = (),
    beir: Iterable[str | Path] = (),
    parallel: Iterable[str | Path] = (),
    columns: Sequence[str] | None = None,
) -> list[Task]:
    """Return tasks for the user's own files: scored text pairs, scored word pairs, folders in BEIR's layout, and
    translations. columns: the names of the two columns of translations, if they are not the first two."""
    kinds = (
        ("own pairs", pairs, _pairs),
        ("own words", words, _words),
        ("own retrieval", beir, _retrieval),
        ("own translations", parallel, partial(_translation, columns=columns)),
    )
    made = [Task(kind, str(path), (), measure, paths=(Path(path),)) for kind, paths, measure in kinds for path in paths]
    for task in made:
        if not task.paths[0].exists():
            raise BanyanError(f"cannot evaluate on {task.name}: it does not exist")
    return made


# --- Running ---------------------------------------------------------------------------------------------------------


def measure(encode: Encode | Comparer, task: Task) -> list[Result]:
    """Return the figures of one set. If the set or a package it needs is missing, the result says so."""
    if not task.paths:
        return [Result(task.group, task.name, None, f"not measured; {task.missing}")]
    try:
        outcomes, said = task.measure(encode, task.name, task.paths)
    except ModuleNotFoundError as error:
        return [Result(task.group, task.name, None, f"not measured; needs the Python package {error.name}")]
    except NoVectors as error:
        return [Result(task.group, task.name, None, f"not measured; {error}")]
    note = "; ".join(filter(None, [task.note, said, _of_size(task, outcomes[0].n)]))
    return [Result(task.group, task.name, outcome, note) for outcome in outcomes]


def _of_size(task: Task, n: int) -> str:
    """Return a note if the size of a set differs from the authors' (the hub has another SICK)."""
    authors = _ITEMS.get(task.name, n) if task.files else n
    return f"{n:,} items, where the authors' file has {authors:,}" if n != authors else ""


def run(encode: Encode | Comparer, suite: str, data: str | Path, languages: Sequence[str] = ()) -> list[Result]:
    """Measure a whole suite. encode: texts in, array [n, E] out."""
    return [row for task in tasks(suite, data, languages) for row in measure(encode, task)]
