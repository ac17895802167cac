"""Small evaluation sets."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

WORDS = "the a cat dog sat slept on mat house tree green runs slowly quickly over under".split()


def write_pairs(path: Path, n: int = 12, seed: int = 0) -> Path:
    rng = np.random.default_rng(seed)
    lines = [",".join([" ".join(rng.choice(WORDS, 4)), " ".join(rng.choice(WORDS, 4)), str(i % 5)]) for i in range(n)]
    separator = "," if path.suffix == ".csv" else "\t"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(line.replace(",", separator) for line in lines) + "\n")
    return path


def write_beir(path: Path, n: int = 12) -> Path:
    (path / "qrels").mkdir(parents=True)
    documents = [{"_id": f"d{i}", "title": "", "text": " ".join(WORDS[i : i + 4])} for i in range(n)]
    queries = [{"_id": f"q{i}", "text": " ".join(WORDS[i : i + 3])} for i in range(n)]
    for name, rows in (("corpus", documents), ("queries", queries)):
        (path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    judged = "".join(f"q{i}\td{i}\t1\n" for i in range(n))
    (path / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\n" + judged)
    return path


def write_sets(folder: Path) -> Path:
    """Some of the sets, in the authors' layout: eval/ and beir/ side by side."""
    for seed, name in enumerate(["sts12", "sts13", "stsb", "semrel", "hi", "es"]):
        write_pairs(folder / "eval" / f"{name}_test.csv", 12 + seed, seed)
    write_pairs(folder / "eval" / "simlex.tsv")
    write_pairs(folder / "eval" / "stsb_dev_clean.tsv")
    write_pairs(folder / "eval" / "semrel_dev" / "hi.csv")
    write_beir(folder / "beir" / "arguana")
    write_beir(folder / "beir" / "quora_small_retrieval")
    return folder
