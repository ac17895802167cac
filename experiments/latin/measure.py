"""Evaluate a Latin model on the four Latin sets, and search Latin literature for echoes in Lucan.

    python -m experiments.latin.measure --model model/ [--work DIR]

Every figure is compared with TF-IDF of character 3- and 4-grams (IDF from the first 30,000 lines of the Latin corpus).
Retrieval is also measured with BM25 and with both rankings combined, as in `banyan search`. Writes
experiments/results/latin.json; `python -m experiments.pages` then fills docs/latin.md. With --work, the index of
250,000 sentences (1 GB) is kept, and another run with the same model uses it. No setting was chosen on these sets.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from banyan import Banyan
from banyan.errors import BanyanError
from banyan.evaluate.outcome import Interval, Outcome
from banyan.support.files import write_text
from experiments.data import add_data_option, corpus_lines
from experiments.latin import echoes, sets
from experiments.measuring.baselines import IDF_LINES, Score, TfIdf, spearman
from experiments.places import IMAGES, RESULTS

OUT = RESULTS / "latin.json"
PICTURE = IMAGES / "latin-echo.svg"
TESSERAE = "tesserae_lucan1_aeneid_graded.tsv"
NAMES = {"Banyan": "vectors"}  # names of methods in a search
Entry = dict[str, Any]
Measure = Callable[[np.ndarray, str], Outcome]


# --- Figures as JSON -------------------------------------------------------------------------------------------------


def entry(told: str, outcomes: dict[str, Outcome]) -> Entry:
    """The figure of each method, and its difference from TF-IDF."""
    first = next(iter(outcomes.values()))
    figures = {way: _figure(outcome.value, outcome.interval()) for way, outcome in outcomes.items()}
    minus = {way: _figure(*outcomes[way].difference(outcomes["TF-IDF"])) for way in outcomes if way != "TF-IDF"}
    return {"set": told, "measure": first.metric, "n": first.n, "ways": figures, "minus TF-IDF": minus}


def _figure(value: float, interval: Interval) -> list[float]:
    return [round(number, 2) for number in (value, interval.low, interval.high)]


# --- The four sets ---------------------------------------------------------------------------------------------------


def graded(path: Path, ways: dict[str, Score]) -> list[Entry]:
    """Spearman between similarity and grade: over all pairs, and over each of the two kinds of pairs in the file."""
    parallels = sets.read_parallels(path)
    parts = {
        "graded parallels, all": parallels,
        "graded parallels, whole sentences": [one for one in parallels if not one.quoted],
        "graded parallels, words quoted by commentaries": [one for one in parallels if one.quoted],
    }
    scores = ways | {"shortness": sets.shortness}
    return [
        entry(told, {way: spearman(score, sets.as_pairs(part), told) for way, score in scores.items()})
        for told, part in parts.items()
    ]


def linked(told: str, links: sets.Linked, model: Banyan, tfidf: TfIdf, work: Path) -> list[Entry]:
    found = sets.rank_by_search(model, links, work) | {"TF-IDF": sets.rank_by_tfidf(tfidf, links)}
    places = {way: sets.first_right(found[NAMES.get(way, way)], links.right) for way in sets.WAYS}
    measures: Sequence[Measure] = (partial(sets.found_within, most=1), sets.reciprocal)
    return [entry(told, {way: measure(p, told) for way, p in places.items()}) for measure in measures]


def score_sets(latin: Path, model: Banyan, tfidf: TfIdf, work: Path) -> list[Entry]:
    ways: dict[str, Score] = {"Banyan": sets.cosines(model), "TF-IDF": tfidf.score}
    rows = graded(latin / TESSERAE, ways)
    psalms = sets.read_links(latin / "psalms_gallican_vs_hebraicum.tsv", "la_gallican", "la_iuxta_hebraeos")
    verses = sets.read_links(latin / "related_verses.tsv", "la1", "la2", quotes=True)
    directions = {
        "Psalms, Gallicanum to iuxta Hebraeos": psalms[0],
        "Psalms, iuxta Hebraeos to Gallicanum": psalms[1],
        "cross-references, Old to New Testament": verses[0],
        "cross-references, New to Old": verses[1],
    }
    for number, (told, links) in enumerate(directions.items()):
        rows += linked(told, links, model, tfidf, work / f"set-{number}")
    choices = sets.read_choices(latin / "latin_synonyms_4choice.tsv")
    told = "synonyms, one of four"
    rows.append(entry(told, {way: sets.chosen(score, choices, told) for way, score in ways.items()}))
    return rows


# --- Echoes ----------------------------------------------------------------------------------------------------------


def find_echoes(options: argparse.Namespace, model: Banyan, tfidf: TfIdf, work: Path) -> Entry:
    parallels = sets.read_parallels(options.data / "latin" / TESSERAE)
    started = time.monotonic()
    corpus = options.data / "corpora/la/train.txt.xz"
    said = echoes.make_index(options.model, corpus, parallels, work)
    print(f"{said} ({time.monotonic() - started:.0f} s)", flush=True)
    sought = echoes.wanted(parallels)
    found = echoes.look(sought, model, tfidf, work)
    echoes.banyan("explain", options.model, sought[0].lucan, sought[0].aeneid, "-o", options.picture)
    places = {way: found.places[NAMES.get(way, way)] for way in sets.WAYS}
    told = "echoes"
    measures: Sequence[Measure] = (*(partial(sets.found_within, most=most) for most in (1, 10, 100)), sets.reciprocal)
    rows = [entry(told, {way: measure(p, told) for way, p in places.items()}) for measure in measures]
    return {
        "indexed": said.split(": ", 1)[-1],
        "rows": rows,
        "pairs": _pairs(sought, places),
        "best": found.best,
        "overview": echoes.overview(corpus, work),
    }


def _pairs(sought: Sequence[sets.Parallel], places: dict[str, np.ndarray]) -> list[Entry]:
    """Each echo and its rank by each method; None if it is not among the first thousand."""
    told = []
    for number, one in enumerate(sought):
        found = {way: int(p[number]) if np.isfinite(p[number]) else None for way, p in places.items()}
        shown = {"lucan": sets.opening(one.lucan), "aeneid": sets.opening(one.aeneid)}
        told.append({**one._asdict(), **shown, "places": found})
    return told


def about(model: Banyan) -> Entry:
    config = model.config
    what = {"preset": config.preset, "epochs": config.epochs, "dim": model.dim, "vocabulary": len(model.embedding)}
    return what | {"fingerprint": model.fingerprint()}


def measure(options: argparse.Namespace, work: Path) -> Entry:
    model = Banyan.from_pretrained(options.model)
    tfidf = TfIdf(corpus_lines(options.data, "la", "train", IDF_LINES))
    with tempfile.TemporaryDirectory(dir=work) as small:
        scores = score_sets(options.data / "latin", model, tfidf, Path(small))
    return {"model": about(model), "scores": scores, "echoes": find_echoes(options, model, tfidf, work)}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, required=True, help="a model folder")
    add_data_option(parser)
    parser.add_argument("--work", type=Path, help="folder to keep the index in (default: a temporary one)")
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--picture", type=Path, default=PICTURE)
    options = parser.parse_args()
    try:
        if options.work:
            options.work.mkdir(parents=True, exist_ok=True)
            results = measure(options, options.work)
        else:
            with tempfile.TemporaryDirectory() as work:
                results = measure(options, Path(work))
    except BanyanError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    write_text(options.out, json.dumps(results, indent=1, ensure_ascii=False) + "\n")
    print(f"wrote {options.out}: run python -m experiments.pages")
    return 0


if __name__ == "__main__":
    sys.exit(main())
