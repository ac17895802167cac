"""The versions of preset `default` that were measured on the test sets, from the history of the repository.

    python -m experiments.measuring.versions

Writes experiments/results/versions.json. The last row is the version whose runs are in experiments/results now.
"""

from __future__ import annotations

import io
import subprocess
import tarfile
import tempfile
from pathlib import Path

from banyan.evaluate.suites import LANGUAGES
from experiments.places import RESULTS, ROOT
from experiments.records import entries
from experiments.records.sets import SPEARMAN
from experiments.records.store import RUNS, Records

VERSIONS = {  # commit, folder of its records: what was new
    ("b2bea0c", "first-default"): "the first: half a sketch in the leaves, each token once",
    ("560ccd9", RUNS): "lexical dimensions, twice the vocabulary, sublinear term frequency",
    ("71fb5a2", RUNS): "batches of equal size",
    ("c642b6f", RUNS): "n-grams of whole words, lexical weight 0.8",
    ("1c0114a", RUNS): "768 lexical dimensions, weight 0.9, co-occurrence within 30 tokens instead of 10",
    ("46048fc", RUNS): "InfoNCE at a temperature of 0.07, half the sketch, weight 1",
    ("15c0fcd", RUNS): "no end marks among the leaves",
}
COLUMNS = ["commit of the figures", "what was new", "English sentences", "English words", "nine languages", "ArguAna"]


def main() -> None:
    rows = [[commit, told, *_means(commit, folder)] for (commit, folder), told in VERSIONS.items()]
    content = {
        "title": "Versions of `default` that were measured on the test sets",
        "columns": COLUMNS,
        "rows": rows,
        "notes": [
            "Means over the seeds that were run (three or four). Each version was chosen on development sets, when the "
            "figures of the rows above it had been seen; the last one, when those of a version without any punctuation "
            "among the leaves had been seen as well (docs/experiments.md)"
        ],
        "command": "python -m experiments.measuring.versions",
    }
    entries.keep(RESULTS / "versions.json", "default", content)


def _means(commit: str, folder: str) -> list[float]:
    with tempfile.TemporaryDirectory() as place:
        archive = subprocess.run(
            ["git", "archive", commit, "experiments/results"], cwd=ROOT, check=True, capture_output=True
        )
        with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as packed:
            packed.extractall(place, filter="data")
        records = Records.read(_folder(Path(place) / "experiments/results", folder))
    found = [records.score("default", "sts"), records.score("default", "words")]
    found.append(records.mean_over([f"default-{name}" for name in LANGUAGES], SPEARMAN))
    found.append(records.figure("default", "arguana", "nDCG@10"))
    return [round(one.mean, 2) for one in found]


def _folder(results: Path, name: str) -> Path:
    return results / name if name else next(path.parent for path in results.rglob("default-0.json"))


if __name__ == "__main__":
    main()
