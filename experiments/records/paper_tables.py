"""Read the paper's tables from its LaTeX source and write them as JSON.

    python -m experiments.records.paper_tables [TEX] [--out experiments/results/paper.json]

Each cell has a mean and a standard deviation (null if none is printed). Columns that should be the average of others
are checked against that average.
"""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path
from typing import Any

from banyan.errors import BanyanError
from banyan.support.files import write_text
from experiments.data import paper_source
from experiments.places import RESULTS

TABLES = ("sts_vs_self", "lex_vs_self", "retrieve", "multilang", "params", "ablations", "ku")
SCORE = "Score"
ROUNDING = 0.0101  # rounding of the average (0.005) and of the averaged figures (0.005), and floating point
_UNITS = {"": 1.0, "M": 1e6, "B": 1e9}
_NUMBER = re.compile(r"(≈)?\s*(\d+(?:\.\d+)?)([MB]?)(?:\s*±\s*(\d+(?:\.\d+)?))?")

Cell = dict[str, Any]
Table = dict[str, dict[str, Cell]]


def tables(tex: str) -> dict[str, Table]:
    """The tables that we reproduce, by label."""
    macros = dict(re.findall(r"\\newcommand\{\\(\w+)\}\{\\textsc\{([^}]*)\}\}", tex))
    found = {}
    for body in re.findall(r"\\begin\{table\*?\}(.*?)\\end\{table\*?\}", tex, re.S):
        label = re.search(r"\\label\{tab:(\w+)\}", body)
        inside = re.search(r"\\begin\{tabular\}\{[^\n]*\}\s*\n(.*?)\\end\{tabular\}", body, re.S)
        if label and inside:
            found[label[1]] = _table(inside[1], macros)
    lacking = [name for name in TABLES if name not in found]
    if lacking:
        raise BanyanError(f"the paper has no table {', '.join(lacking)}")
    return {name: found[name] for name in TABLES}


def _table(body: str, macros: dict[str, str]) -> Table:
    head, *blocks = re.split(r"\\midrule", body)
    columns = _columns(_rows(head, macros))
    table: Table = {}
    for block in blocks:
        base = last = ""
        for name, *cells in _rows(block, macros):
            if not name:  # deviations of the row above
                _add_deviations(table[last], columns, cells)
                continue
            last = f"{base} {name}" if name.startswith("+") else name
            base = base if name.startswith("+") else name
            table[last] = {column: _cell(text) for column, text in zip(columns, cells, strict=True)}
    return table


def _rows(block: str, macros: dict[str, str]) -> list[list[str]]:
    """The cells of each line as plain text. A cell that spans several columns is repeated."""
    block = re.sub(r"\\(?:toprule|bottomrule|cmidrule\(\w+\)\{[\d-]+\})", "", block)
    lines = [line for line in re.split(r"\\\\", block) if line.strip()]
    return [[text for cell in line.split("&") for text in _spanned(cell, macros)] for line in lines]


def _spanned(cell: str, macros: dict[str, str]) -> list[str]:
    over = re.match(r"\s*\\multicolumn\{(\d+)\}\{\w\}\{(.*)\}", cell)
    return [_plain(over[2], macros)] * int(over[1]) if over else [_plain(cell, macros)]


def _plain(text: str, macros: dict[str, str]) -> str:
    for name, meaning in {**macros, "pm": "±", "dag": "†", "approx": "≈", "textbf": "", "textit": ""}.items():
        text = re.sub(rf"\\{name}(?![a-zA-Z])", meaning, text)
    return " ".join(re.sub(r"[{}$\\]", " " if "\\" in text else "", text).split())


def _columns(head: list[list[str]]) -> list[str]:
    """Names of all columns but the first. Two header lines are joined."""
    if len(head) == 1:
        return head[0][1:]
    return [" ".join(names) for names in zip(*(line[1:] for line in head), strict=True)]


def _cell(text: str) -> Cell:
    match = _NUMBER.fullmatch(text)
    if not match:
        raise BanyanError(f"cannot read {text!r} as a figure of the paper's tables")
    about, mean, unit, deviation = match.groups()
    cell: Cell = {"mean": float(mean) * _UNITS[unit], "sd": float(deviation) if deviation else None}
    return {**cell, "about": True} if about else cell


def _add_deviations(row: dict[str, Cell], columns: list[str], cells: list[str]) -> None:
    for column, text in zip(columns, cells, strict=True):
        row[column]["sd"] = float(text.removeprefix("±"))


def scores(table: Table) -> list[dict[str, Any]]:
    """For each row with a score: is it the mean of the other columns, up to rounding?"""
    checks = []
    for name, row in table.items():
        if SCORE in row:
            others = [cell["mean"] for column, cell in row.items() if column != SCORE]
            mean, printed = sum(others) / len(others), row[SCORE]["mean"]
            agrees = abs(mean - printed) <= ROUNDING
            checks.append({"row": name, "printed": printed, "mean": round(mean, 4), "agrees": agrees})
    return checks


def repeated(found: dict[str, Table]) -> list[dict[str, Any]]:
    """Scores of the same model in two tables."""
    twice = [
        ("Banyan on sentences", "sts_vs_self", "Banyan", "Score", "ku", "128", "STS Score"),
        ("Banyan on words", "lex_vs_self", "Banyan", "Score", "ku", "128", "Lex Score"),
        ("Banyan on sentences", "sts_vs_self", "Banyan", "Score", "ablations", "Entangled Trees ++ CE loss", "Score"),
        ("Self-StrAE on sentences", "sts_vs_self", "Self-StrAE", "Score", "ablations", "Standard Trees", "Score"),
    ]
    return [
        {"what": what, "tables": [a, b], "figures": [found[a][row][column], found[b][other][at]]}
        for what, a, row, column, b, other, at in twice
    ]


def read(path: Path) -> dict[str, Any]:
    try:
        found = tables(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise BanyanError(f"cannot read the paper at {path}: {error}") from None
    checks = {name: rows for name, table in found.items() if (rows := scores(table))}
    return {"tables": found, "scores": checks, "repeated": repeated(found)}


def to_json(content: dict[str, Any]) -> str:
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tex", nargs="?", type=Path, default=paper_source())
    parser.add_argument("--out", type=Path, default=RESULTS / "paper.json")
    options = parser.parse_args()
    write_text(options.out, to_json(read(options.tex)))


if __name__ == "__main__":
    main()
