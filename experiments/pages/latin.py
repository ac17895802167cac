"""The tables of docs/latin.md, from experiments/results/latin.json."""

from __future__ import annotations

from typing import Any

from banyan.config import Config
from experiments.latin.sets import WAYS
from experiments.pages.markdown import GENERATED, between, listed, table
from experiments.places import DOCS

PAGE = DOCS / "latin.md"
Results = dict[str, Any]


def filled(page: str, results: Results) -> str:
    """The page with the text between its marks replaced."""
    for name, written in WRITTEN.items():
        begin, end = GENERATED
        page = between(page, (begin.replace("generated", f"{name}: generated"), end), f"\n{written(results)}\n\n")
    return page


def model(results: Results) -> str:
    what = results["model"]
    epochs = f"{what['epochs']} epochs" if what["epochs"] else "a number of epochs chosen for the corpus"
    earlier = "" if what["dim"] == Config.from_preset(what["preset"]).embedding_dim else "an earlier version of "
    told = f"The figures on this page are from a model trained with {earlier}preset `{what['preset']}` for {epochs}: "
    told += f"{what['dim']} dimensions, a vocabulary of {what['vocabulary']:,}."
    if what["preset"] != "default":
        told += " **It stands in for a model of preset `default`**; the last commands of this page write its figures."
    return told


def indexed(results: Results) -> str:
    return f"> {results['echoes']['indexed']}"


def said(results: Results) -> str:
    """The significant differences, in words."""
    rows = [*results["scores"], *({**row, "set": "echoes"} for row in results["echoes"]["rows"])]
    lines = [_compared(told, way, rows) for way, told in (("Banyan", "Banyan"), ("both", "Banyan and words"))]
    lengths = [row for row in rows if "shortness" in row["ways"]]
    told = [f"{_told(row['ways']['shortness'])} ({row['set'].split(', ')[1]})" for row in lengths]
    shortness = f"- The shortness of a pair of graded parallels, as its only score, reaches {listed(told)}."
    return "\n".join([*lines, shortness])


def _compared(told: str, way: str, rows: list[Results]) -> str:
    significant: dict[str, list[str]] = {"better": [], "worse": []}
    for row in rows:
        _, low, high = row["minus TF-IDF"].get(way, (0, 0, 0))
        for kind, is_so in (("better", low > 0), ("worse", high < 0)):
            if is_so:
                significant[kind].append(f"{row['set']} ({row['measure']})")
    kinds = [f"Significantly {kind} on {'; '.join(where) or 'no set'}." for kind, where in significant.items()]
    return f"- **{told}** compared with TF-IDF. {' '.join(kinds)} Other differences are not significant."


def scores(results: Results) -> str:
    return _figures(results["scores"], "set")


def echoes(results: Results) -> str:
    return _figures(results["echoes"]["rows"])


def clusters(results: Results) -> str:
    found = results["echoes"]["overview"]["clusters"]
    return table(["texts", "typical words"], [[one["size"], f"*{', '.join(one['phrases'])}*"] for one in found])


def alike(results: Results) -> str:
    found = results["echoes"]["overview"]
    rows = [[one["texts"], *(f"*{text}*" for text in one["two"])] for one in found["largest"]]
    groups, repeats = found["groups"], found["like an earlier one"]
    told = f"{groups:,} groups of near-duplicates; {repeats:,} texts repeat an earlier one."
    return f"{told} The largest groups, with two texts of each:\n\n" + table(["texts", "one", "another"], rows)


def pairs(results: Results) -> str:
    """All echoes of the highest grade."""
    found = results["echoes"]["pairs"]
    rows = []
    for one in found:
        if one["grade"] == found[0]["grade"]:
            lucan, aeneid = (f"{one[f'{who}_at']} *{one[who]}*" for who in ("lucan", "aeneid"))
            rows.append([lucan, aeneid, *(one["places"][way] or "-" for way in WAYS)])
    return table(["Lucan", "Aeneid", *WAYS.values()], rows)


def best(results: Results) -> str:
    """The first results for the first of them."""
    rows = [[hit.get("at"), f"*{hit['text']}*", hit["cosine"], hit["bm25"]] for hit in results["echoes"]["best"]]
    return table(["at", "found", "cosine", "BM25"], rows)


def _figures(rows: list[Results], *also: str) -> str:
    columns = [*also, "measure", "n", *WAYS.values(), "Banyan − TF-IDF", "Banyan and words − TF-IDF"]
    told = []
    for row in rows:
        cells = [_told(row["ways"].get(way)) for way in WAYS]
        minus = [_told(row["minus TF-IDF"].get(way), sign="+") for way in ("Banyan", "both")]
        told.append([*(row[name] for name in also), row["measure"], row["n"], *cells, *minus])
    return table(columns, told)


def _told(figure: list[float] | None, sign: str = "") -> str | None:
    if figure is None:
        return None
    value, low, high = (f"{round(number, 1) + 0.0:{sign}.1f}" for number in figure)  # + 0.0: no minus before zero
    return f"{value} [{low}, {high}]"


WRITTEN = {
    "indexed": indexed,
    "best": best,
    "clusters": clusters,
    "alike": alike,
    "echoes": echoes,
    "pairs": pairs,
    "model": model,
    "scores": scores,
    "said": said,
}
