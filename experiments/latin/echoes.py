"""Index Latin literature, and search it for the passages of the Aeneid that lines of Lucan echo.

The queries are whole sentences whose echo has grade 4 or 5. They are searched by vectors, by words and by both, as in
`banyan search`, and by TF-IDF of characters.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Sequence
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from banyan import Banyan
from banyan.commands import main
from banyan.errors import BanyanError
from banyan.search.index import Index
from banyan.search.searching import MODES, Searcher
from banyan.support.files import write_text
from experiments.latin.sets import Parallel, best_first, opening
from experiments.measuring.baselines import TfIdf

GRADES = (5, 4)  # what the authors of the set call an echo
DEEPEST = 1000  # a passage of a later rank counts as not found
RUN = 6  # consecutive words that identify a passage, even if it is quoted or divided differently
SPARE = 100  # further results, because lines of Lucan himself are skipped
CHUNK = 20_000  # rows per block of TF-IDF


class Said(NamedTuple):
    out: str
    err: str


def banyan(*arguments: str | Path) -> Said:
    """Run a command of the package and return its output and messages."""
    words, out, err = [str(argument) for argument in arguments], StringIO(), StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        failed = main(words)
    if failed:
        raise BanyanError(f"`banyan {shlex.join(words)}` failed: {err.getvalue().strip()}")
    return Said(out.getvalue(), err.getvalue())


def wanted(parallels: Iterable[Parallel]) -> list[Parallel]:
    """The echoes to search for, the highest grade first. Both passages are long enough to be identified."""
    whole = [one for one in parallels if not one.quoted and runs(one.lucan) and runs(one.aeneid)]
    return [parallel for grade in GRADES for parallel in whole if parallel.grade == grade]


def make_index(model: Path, corpus: Path, parallels: Iterable[Parallel], work: Path) -> str:
    """Index the corpus and the passages of the Aeneid; return the last message about the corpus."""
    at = {parallel.aeneid: parallel.aeneid_at for parallel in parallels if not parallel.quoted}
    lines = [json.dumps({"text": text, "at": place}, ensure_ascii=False) + "\n" for text, place in at.items()]
    aeneid, index = work / "aeneid.jsonl", work / "index"
    write_text(aeneid, "".join(lines))
    said = banyan("index", model, corpus, "-o", index).err
    banyan("index", model, aeneid, "--column", "text", "-o", index, "--update")
    return said.strip().splitlines()[-1]


# --- Which texts are the same passage --------------------------------------------------------------------------------


def letters(text: str) -> list[str]:
    """Words in a normal spelling: lower case, u for v, i for j, no punctuation."""
    return re.findall(r"[^\W\d_]+", text.lower().replace("v", "u").replace("j", "i"))


def runs(text: str) -> set[tuple[str, ...]]:
    words = letters(text)
    return {tuple(words[i : i + RUN]) for i in range(len(words) - RUN + 1)}


def place_of(echo: Parallel, texts: Iterable[str]) -> float:
    """The rank of the passage of the Aeneid, from 1, not counting lines of Lucan; infinite if it is not found."""
    own, sought = runs(echo.lucan), runs(echo.aeneid)
    place = 1
    for found in map(runs, texts):
        if found & sought:
            return place if place <= DEEPEST else np.inf
        place += not found & own
    return np.inf


# --- Searching -------------------------------------------------------------------------------------------------------


class Found(NamedTuple):
    """For each method, the ranks of the passages."""

    places: dict[str, np.ndarray]
    best: list[dict[str, Any]]  # the first results for the first query, by both


def look(echoes: Sequence[Parallel], model: Banyan, tfidf: TfIdf, work: Path) -> Found:
    searcher = Searcher(Index.open(work / "index"), lambda texts: model.encode(texts, show_progress_bar=False))
    places: dict[str, list[float]] = {}
    for echo in echoes:
        for mode in MODES:
            hits = searcher.rank(echo.lucan, DEEPEST + SPARE, mode=mode, exact=True)
            places.setdefault(mode, []).append(place_of(echo, (hit.text for hit in hits)))
    places["TF-IDF"] = by_tfidf(echoes, tfidf, searcher.index)
    return Found({way: np.array(found) for way, found in places.items()}, _best(searcher, echoes[0]))


def _best(searcher: Searcher, echo: Parallel, most: int = 5) -> list[dict[str, Any]]:
    own = runs(echo.lucan)
    hits = [hit for hit in searcher.rank(echo.lucan, 50, exact=True) if not runs(hit.text) & own][:most]
    scores = [{"cosine": round(hit.cosine, 3), "bm25": hit.words and round(hit.words, 1)} for hit in hits]
    return [{"text": opening(hit.text, 150), **score, **hit.columns} for hit, score in zip(hits, scores, strict=True)]


def by_tfidf(echoes: Sequence[Parallel], tfidf: TfIdf, index: Index) -> list[float]:
    texts: list[str] = index.rows.scan(["text"])["text"].to_pylist()
    queries = tfidf.rows([echo.lucan for echo in echoes])
    parts = (tfidf.rows(texts[start : start + CHUNK]) for start in range(0, len(texts), CHUNK))
    scores = np.hstack([(queries @ part.T).toarray().astype(np.float32) for part in parts])
    best = best_first(scores, DEEPEST + SPARE)
    return [place_of(echo, (texts[row] for row in rows)) for echo, rows in zip(echoes, best, strict=True)]


# --- The corpus ------------------------------------------------------------------------------------------------------


def overview(corpus: Path, work: Path, most: int = 8) -> dict[str, Any]:
    """The largest clusters of the corpus and the largest groups of near-duplicates, with two texts of each."""
    where = f"source LIKE '%{corpus.name}'"
    found = json.loads(banyan("cluster", work / "index", "--where", where, "--json").out)
    groups = found["near_duplicates"]
    largest = [{"texts": len(group), "two": [opening(row["text"]) for row in group[:2]]} for group in groups[:most]]
    return {
        "clusters": [{name: one[name] for name in ("size", "phrases")} for one in found["clusters"][:most]],
        "groups": len(groups),
        "like an earlier one": sum(len(group) - 1 for group in groups),
        "largest": largest,
    }
