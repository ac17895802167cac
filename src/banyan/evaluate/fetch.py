"""Download missing evaluation sets from the Hugging Face hub into the layout that the suites read.

Where mteb, the usual embedding benchmark, pins the revision of a data set, we download that revision, so that the same
command gives the same files next year. docs/evaluation.md lists what was checked.
"""

from __future__ import annotations

import csv
import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from banyan.errors import BanyanError, first_line
from banyan.evaluate import suites
from banyan.support import files
from banyan.support.needs import needs

Split = Any  # a split of a data set: it has a length, and its rows are dictionaries


class HubSource(NamedTuple):
    """Where a set is on the hub, and the function that writes it in our layout."""

    dataset: str
    revision: str | None  # None: the latest
    parts: tuple[tuple[str | None, str], ...]  # configuration and split
    columns: tuple[str, ...]  # the texts, then a number
    write: Callable[[Sequence[Split], HubSource, Path], str]  # returns a description of the size


def fetch(
    suite: str, data: str | Path, languages: Sequence[str] = (), tell: Callable[[str], None] = lambda text: None
) -> None:
    """Download the sets of a suite that are missing from `data`, if the hub has them. Each is written atomically, and
    existing files are never changed."""
    wanted = [name for name in suites.lacking(suite, data, languages) if name in SOURCES]
    if not wanted:
        return
    with needs("Downloading evaluation sets", "hub"):
        import datasets
    for name in wanted:
        source, path = SOURCES[name], _place(Path(data), name)
        tell(f"fetching {name} from {source.dataset}")
        loaded = [_load(datasets, source, config, split, name, data) for config, split in source.parts]
        path.parent.mkdir(parents=True, exist_ok=True)
        tell(f"wrote {path}: {source.write(loaded, source, path)}")


def _place(data: Path, name: str) -> Path:
    """Return where to write a set: in the authors' eval/ or beir/ inside the folder, or else in the folder itself."""
    inside = data / ("beir" if SOURCES[name].write is _folder else "eval")
    return (inside if inside.is_dir() else data) / name


def _load(datasets: Any, source: HubSource, config: str | None, split: str, name: str, data: str | Path) -> Split:
    try:
        return datasets.load_dataset(source.dataset, config, split=split, revision=source.revision)
    except Exception as error:  # anything that the network, the hub or the package may raise
        raise BanyanError(
            f"cannot download {source.dataset} ({first_line(error)}): check the network and run the command again, "
            f"put {name} into {data} yourself, or leave out --fetch to use only the sets that are there"
        ) from None


# --- Layouts ---------------------------------------------------------------------------------------------------------

_HEADERS = {2: ("sentence", "label"), 3: ("sent1", "sent2", "score")}
_SPACES = str.maketrans("\t\r\n", "   ")


def _table(loaded: Sequence[Split], source: HubSource, path: Path) -> str:
    """Write one or two texts and a number per line under the authors' header: .csv, or tab-separated without quotes."""
    lines = [_HEADERS[len(source.columns)], *_checked(loaded[0], source)]
    with files.atomic(path) as temporary, temporary.open("w", encoding="utf-8", newline="") as file:
        if path.suffix == ".csv":
            csv.writer(file, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC).writerows(lines)
        else:
            file.writelines("\t".join(str(cell).translate(_SPACES) for cell in line) + "\n" for line in lines)
    return f"{len(lines) - 1:,} lines"


def _checked(rows: Split, source: HubSource) -> Iterator[tuple[Any, ...]]:
    """Yield the wanted columns. A score of -1 on the hub means that it is withheld."""
    for number, row in enumerate(rows):
        *texts, value = (row.get(column) for column in source.columns)
        if not (all(isinstance(text, str) for text in texts) and isinstance(value, int | float) and value >= 0):
            raise _unexpected(source, f"row {number} of {source.parts[0][1]}", source.columns, row)
        yield (*texts, value)


def _folder(loaded: Sequence[Split], source: HubSource, path: Path) -> str:
    """Write BEIR's layout: corpus.jsonl, queries.jsonl, qrels/test.tsv."""
    corpus, queries, judgements = loaded
    with _whole_folder(path) as temporary:
        for name, rows in ("corpus", corpus), ("queries", queries):
            with (temporary / f"{name}.jsonl").open("w", encoding="utf-8") as file:
                file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in _documents(rows, source, name))
        (temporary / "qrels").mkdir()
        with (temporary / "qrels" / "test.tsv").open("w", encoding="utf-8") as file:
            file.write("query-id\tcorpus-id\tscore\n")
            file.writelines(f"{query}\t{document}\t{grade}\n" for query, document, grade in _judged(judgements, source))
    return f"{len(corpus):,} documents, {len(queries):,} queries, {len(judgements):,} judgements"


def _documents(rows: Split, source: HubSource, name: str) -> Iterator[dict[str, str]]:
    for number, row in enumerate(rows):
        if row.get("_id") is None or not isinstance(row.get("text"), str):
            raise _unexpected(source, f"row {number} of {name}", ("_id", "text"), row)
        yield {"_id": str(row["_id"]), "title": row.get("title") or "", "text": row["text"]}


def _judged(rows: Split, source: HubSource) -> Iterator[tuple[str, str, int]]:
    """Yield the judgements. Grades are floats on the hub and whole numbers in BEIR's files."""
    for number, row in enumerate(rows):
        query, document, grade = (row.get(column) for column in source.columns)
        if query is None or document is None or not (isinstance(grade, int | float) and grade == grade // 1):
            raise _unexpected(source, f"row {number} of the judgements", source.columns, row)
        yield query, document, int(grade)


def _unexpected(source: HubSource, where: str, columns: Iterable[str], row: dict[str, Any]) -> BanyanError:
    wanted, found = ", ".join(columns), ", ".join(f"{name}: {str(value)[:30]!r}" for name, value in row.items())
    return BanyanError(f"{source.dataset} cannot be used: expected {wanted} in {where}, but found {found}")


@contextmanager
def _whole_folder(path: Path) -> Iterator[Path]:
    """Like `files.atomic`, for a folder that does not exist yet."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    shutil.rmtree(temporary, ignore_errors=True)
    try:
        temporary.mkdir()
        yield temporary
        for file in [*temporary.rglob("*"), temporary]:
            files.sync(file)
        temporary.rename(path)
        files.sync(path.parent)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


# --- Sources on the hub ----------------------------------------------------------------------------------------------

_STS = {
    "sts12": ("mteb/sts12-sts", "a0d554a64d88156834ff5ae9920b964011b16384"),
    "sts13": ("mteb/sts13-sts", "7e90230a92c190f1bf69ae9002b8cea547a64cca"),
    "sts14": ("mteb/sts14-sts", "6031580fec1f6af667f0bd2da0a551cf4f0b2375"),
    "sts15": ("mteb/sts15-sts", "ae752c7c21bf194d8b67fd573edf7ae58183cbe3"),
    "sts16": ("mteb/sts16-sts", "4d8694f8f0e0100860b497b999b3dbed754a0513"),
    "stsb": ("mteb/stsbenchmark-sts", "b0fddb56ed78048fa8b90373c8a3cfc37b684831"),
    "sick": ("mteb/sickr-sts", "20a6d6f312dd54037fe07a32d58e5e168867909d"),
}
_LANGUAGES = {
    "id": "ind", "ar": "arb", "te": "tel", "mr": "mar", "ha": "hau", "af": "afr", "es": "esp", "am": "amh", "hi": "hin",
}  # fmt: skip
_BEIR = {
    "arguana": ("mteb/arguana", "c22ab2a51041ffd869aaddef7af8d8215647e41a"),
    "quora": ("mteb/quora", "e4e08e0b7dbe3c8700f0daef558ff32256715259"),
}
_BEIR_PARTS = (("corpus", "corpus"), ("queries", "queries"), ("default", "test"))


def _semrel(config: str, split: str) -> HubSource:
    revision = "ef5c383d1b87eb8feccde3dfb7f95e42b1b050dd"
    return HubSource("SemRel/SemRel2024", revision, ((config, split),), ("sentence1", "sentence2", "label"), _table)


def _glue(config: str, split: str, *texts: str) -> HubSource:
    return HubSource("nyu-mll/glue", None, ((config, split),), (*texts, "label"), _table)


SOURCES: dict[str, HubSource] = {  # by file or folder name in the authors' layout
    **{
        f"{name}_test.csv": HubSource(dataset, revision, ((None, "test"),), ("sentence1", "sentence2", "score"), _table)
        for name, (dataset, revision) in _STS.items()
    },
    "semrel_test.csv": _semrel("eng", "train"),  # the split that the authors use under this name
    **{f"{name}_test.csv": _semrel(code, "test") for name, code in _LANGUAGES.items()},
    "es_test.csv": _semrel("esp", "dev"),  # the same; the scores of the test split are withheld
    **{f"semrel_dev/{name}.csv": _semrel(code, "dev") for name, code in _LANGUAGES.items() if name != "es"},
    "sst_train.tsv": _glue("sst2", "train", "sentence"),
    "sst_dev.tsv": _glue("sst2", "validation", "sentence"),
    "mrpc_train.csv": _glue("mrpc", "train+validation", "sentence1", "sentence2"),  # MRPC's own training set, 4,076
    "mrpc_test.csv": _glue("mrpc", "test", "sentence1", "sentence2"),
    **{
        name: HubSource(dataset, revision, _BEIR_PARTS, ("query-id", "corpus-id", "score"), _folder)
        for name, (dataset, revision) in _BEIR.items()
    },
}
