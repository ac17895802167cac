"""The tables of docs/latin.md, made of experiments/results/latin.json."""

from __future__ import annotations

from typing import Any

from experiments.latin.sets import WAYS
from experiments.pages.markdown import GENERATED, between, listed, table
from experiments.places import DOCS

PAGE = DOCS / "latin.md"
Results = dict[str, Any]


def filled(page: str, results: Results) -> str:
    """The page with everything between its marks written anew."""
    for name, written in WRITTEN.items():
        begin, end = GENERATED
        page = between(page, (begin.replace("generated", f"{name}: generated"), end), f"\n{written(results)}\n\n")
    return page


def model(results: Results) -> str:
    what = results["model"]
    epochs = f"{what['epochs']} epochs" if what["epochs"] else "as many epochs as suit the corpus"
    told = f"The figures on this page are of a model of preset `{what['preset']}`, {epochs}: "
    told += f"{what['dim']} dimensions, {what['vocabulary']:,} pieces."
    if what["preset"] != "default":
        told += " **It stands in for one of preset `default`**, whose figures the last command of this page writes."
    return told


def indexed(results: Results) -> str:
    return f"> {results['echoes']['indexed']}"


def said(results: Results) -> str:
    """In words, whatever the figures are: which differences are sure."""
    rows = [*results["scores"], *({**row, "set": "echoes"} for row in results["echoes"]["rows"])]
    lines = [_compared(told, way, rows) for way, told in (("Banyan", "Banyan"), ("both", "Banyan and words"))]
    lengths = [row for row in rows if "shortness" in row["ways"]]
    told = [f"{_told(row['ways']['shortness'])} ({row['set'].split(', ')[1]})" for row in lengths]
    return "\n".join([*lines, f"- How short a pair of graded parallels is, and nothing else, reaches {listed(told)}."])


def _compared(told: str, way: str, rows: list[Results]) -> str:
    sure: dict[str, list[str]] = {"better": [], "worse": []}
    for row in rows:
        _, low, high = row["minus TF-IDF"].get(way, (0, 0, 0))
        for kind, is_so in (("better", low > 0), ("worse", high < 0)):
            if is_so:
                sure[kind].append(f"{row['set']} ({row['measure']})")
    kinds = " ".join(f"{kind.capitalize()} on {'; '.join(where) or 'none'}." for kind, where in sure.items())
    return f"- **{told}** compared with TF-IDF. {kinds} All other differences might be chance."


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
    told = f"{found['groups']:,} groups of near-duplicates, {found['like an earlier one']:,} texts like an earlier one."
    return f"{told} The largest, two texts of each:\n\n" + table(["alike", "one", "another"], rows)


def pairs(results: Results) -> str:
    """Those of the best grade, all of them."""
    found = results["echoes"]["pairs"]
    rows = []
    for one in found:
        if one["grade"] == found[0]["grade"]:
            lucan, aeneid = (f"{one[f'{who}_at']} *{one[who]}*" for who in ("lucan", "aeneid"))
            rows.append([lucan, aeneid, *(one["places"][way] or "-" for way in WAYS)])
    return table(["Lucan", "Aeneid", *WAYS.values()], rows)


def best(results: Results) -> str:
    """What came first for the first of them."""
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
