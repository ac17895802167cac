"""How well `banyan search` finds the rest of a docstring by its first sentence, before and after tuning.

    banyan tune model/ $BANYAN_DATA/pairs/docstrings_train.tsv.xz --out tuned/
    python -m experiments.measuring.docstrings --name light model/ tuned/

Each of the 4,146 queries of docstrings_dev, of packages that are not in the training pairs, is searched among all
documents: by vectors, by words, and by both (nDCG@10). The means over the English development and test sets tell what
was forgotten. Adds a table to experiments/results/docstrings.json.
"""

from __future__ import annotations

import argparse
import csv
import lzma
import math
import statistics
import tempfile
from collections.abc import Sequence
from pathlib import Path

from banyan import Banyan
from banyan.evaluate import suites
from banyan.evaluate.retrieval import Beir
from banyan.search.searching import MODES, Searcher
from experiments.data import add_data_option
from experiments.measuring.search import build
from experiments.places import RESULTS
from experiments.records.entries import keep

CUT = 10


def pairs(path: Path) -> Beir:
    """The pairs of a file with the columns query and document, as a retrieval set."""
    with lzma.open(path, "rt", encoding="utf-8", newline="") as lines:
        rows = list(csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE))
    ids = [str(number) for number in range(1, len(rows) + 1)]
    documents = [row["document"] for row in rows]
    judged = {number: {number: 1} for number in ids}
    return Beir(ids, documents, documents, ids, [row["query"] for row in rows], judged, 0)


def ndcg(searcher: Searcher, data: Beir, by: str) -> float:
    """nDCG@10 × 100, where one document is relevant for each query."""
    gains = []
    for query, text in zip(data.query_ids, data.queries, strict=True):
        hits = [str(hit.row) for hit in searcher.rank(text, CUT, by=by)]
        gains.append(1 / math.log2(hits.index(query) + 2) if query in hits else 0.0)
    return 100 * statistics.fmean(gains)


def figures(path: str, data: Beir, suites_data: Path) -> dict[str, float]:
    model = Banyan.from_pretrained(path)
    with tempfile.TemporaryDirectory() as folder:
        index = build(Path(folder) / "index", model, data, None)
        searcher = Searcher(index, model.encode, share=model.config.vectors_share)
        found = {f"by {mode}": ndcg(searcher, data, mode) for mode in MODES}
    for name, suite in (("English development sets", "dev"), ("English test sets", "sts")):
        rows = [row for row in suites.run(model.encode, suite, suites_data) if row.group in ("dev", "sts")]
        found[name] = statistics.fmean(row.outcome.value for row in rows if row.outcome is not None)
    return {name: round(value, 2) for name, value in found.items()}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", help="the folder of the model before tuning")
    parser.add_argument("tuned", help="the folder of the tuned model")
    parser.add_argument("--name", required=True, help="what to call them in the results")
    add_data_option(parser)
    parser.add_argument("--out", type=Path, default=RESULTS / "docstrings.json")
    options = parser.parse_args(arguments)
    data = pairs(options.data / "pairs" / "docstrings_dev.tsv.xz")
    before, tuned = (figures(path, data, options.data) for path in (options.before, options.tuned))
    entry = {
        "title": f"Tuning on docstrings: {options.name}",
        "columns": ["", "before", "tuned"],
        "rows": [[name, before[name], tuned[name]] for name in before],
        "command": f"python -m experiments.measuring.docstrings --name '{options.name}' model/ tuned/",
    }
    keep(options.out, options.name, entry)


if __name__ == "__main__":
    main()
