"""The names that the source of a number may use: what the JSON in experiments/results and benchmarks/results says."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import reduce
from operator import getitem
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from banyan.config import Config
from banyan.evaluate.suites import LANGUAGES
from experiments.pages import markdown
from experiments.places import BENCHMARKS, RESULTS
from experiments.records import entries, store
from experiments.records.estimates import Estimate
from experiments.records.material import Material
from experiments.records.sets import SPEARMAN
from experiments.records.systems import PRESETS, SYSTEMS, Compared

Names = dict[str, Any]  # what sources may name, by name
KINDS = "training loss", "held-out loss", "STS-B dev, Spearman × 100"
RUN_OF = {preset.name: preset.run for preset in PRESETS}
COLUMN = re.compile(r"(?P<name>.+?)(?: (?P<form>,?(?:\.\d)?[f%]))?(?: as (?P<head>.+))?")  # "floor ms .4f as floor, ms"


def names(benchmarks: Path = BENCHMARKS, results: Path = RESULTS) -> Names:
    """The functions by the names that sources use."""
    of_runs, of_benchmarks = Runs(results), Benchmarks(benchmarks)
    found: dict[str, Callable[..., Any]] = {"abs": abs, "deviation": stdev, "max": max, "mean": fmean, "min": min}
    found["setting"] = setting
    for source in (of_runs, of_benchmarks):
        found |= {name: getattr(source, name) for name in dir(source) if not name.startswith("_")}
    return found


def setting(preset: str, name: str) -> Any:
    """A setting of a preset."""
    return getattr(Config.from_preset(preset), name)


class Benchmarks:
    """Figures of benchmarks/results/FILE.json."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._read: dict[str, Any] = {}

    def bench(self, file: str, *keys: str) -> Any:
        """The value under keys."""
        if file not in self._read:
            self._read[file] = entries.read(self._folder / f"{file}.json")
        return reduce(getitem, keys, self._read[file])

    def row(self, file: str, *cells: Any) -> Any:
        """A cell of one of the tables: cells of its row (and the title of the table, if needed), and its column."""
        *wanted, column = cells
        tables = self.bench(file, "tables")
        titles = [one for one in wanted if one in tables]
        within = {title: tables[title] for title in titles} if titles else tables
        rest = [one for one in wanted if one not in titles]
        rows = [row for some in within.values() for row in some if all(one in row.values() for one in rest)]
        if len(rows) != 1:
            raise LookupError(f"{len(rows)} rows of {file}.json have {wanted}")
        return rows[0][column]

    def table(self, file: str, title: str, *columns: str) -> str:
        """One of the tables, as Markdown. A column: its name, then a format (.1f) and a heading (as HEADING)."""
        chosen = [_column(one) for one in columns]
        rows = [[_told(row[name], form) for name, form, _ in chosen] for row in self.bench(file, "tables", title)]
        return markdown.table([head for _, _, head in chosen], rows)

    def beside(self, file: str, label: str, column: str, **titles: str) -> str:
        """A column of several tables with the same rows, side by side. The titles by their headings."""
        name, form, _ = _column(column)
        tables = [self.bench(file, "tables", title) for title in titles.values()]
        rows = [[row[0][label], *(_told(one[name], form) for one in row)] for row in zip(*tables, strict=True)]
        return markdown.table([label, *titles], rows)


def _column(told: str) -> tuple[str, str, str]:
    found = COLUMN.fullmatch(told)
    assert found
    return found["name"], found["form"] or "", found["head"] or found["name"]


def _told(value: Any, form: str) -> str:
    return format(value, form) if form else f"{value:,}" if isinstance(value, int) else str(value)


class Runs:
    """Figures of experiments/results."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._material = Material.read(folder)
        self._compared = Compared.read(self._material, folder / "compared")

    def score(self, run: str, of: str) -> float:
        """The mean over seeds of a preset or run: the mean of sts, words or languages, or a set, or task and metric."""
        return self._estimate(run, of).mean

    def seeds(self, run: str, of: str) -> int:
        return self._estimate(run, of).n

    def _estimate(self, run: str, of: str) -> Estimate:
        records, name = self._material.records, RUN_OF.get(run, run)
        if of == "languages":
            prefix = "" if name == "banyan" else f"{name}-"
            return records.mean_over([f"{prefix}{one}" for one in LANGUAGES], SPEARMAN)
        if of in ("sts", "words"):
            return records.score(name, of)
        if of in LANGUAGES and name in RUN_OF.values():
            name = of if name == "banyan" else f"{name}-{of}"
        task, _, metric = of.partition(" ")
        return records.figure(name, task, metric or SPEARMAN)

    def runs(self, name: str, *keys: str) -> list[Any]:
        """A value in the record of each seed."""
        return [reduce(getitem, keys, record) for record in self._material.records[RUN_OF.get(name, name)]]

    def system(self, name: str, of: str) -> float:
        """Our figure of a system of RESULTS.md, section 14."""
        found = self._compared.ours(next(one for one in SYSTEMS if one.name == name), of)
        assert found
        return found.value

    def about(self, name: str, key: str) -> Any:
        """What the command that made a system of section 14 noted about it."""
        return self._compared.of(next(one for one in SYSTEMS if one.name == name)).about[key]

    def tfidf(self, of: str) -> float:
        """The figure of character TF-IDF: the mean of sts, words or languages, a language, or ArguAna's nDCG@10."""
        where = {"arguana": ("retrieval", ["arguana", "nDCG@10"])}
        where |= {group: (group, ["mean"]) for group in ("sts", "words", "languages")}
        where |= {language: ("languages", [language]) for language in LANGUAGES}
        found = self._material.baseline(*where[of], "TF-IDF")
        assert found is not None
        return found

    def paper(self, table: str, row: str, column: str) -> float:
        """A figure of the paper."""
        found = self._material.cell(table, row, column)
        assert found
        return found["mean"]

    def entry(self, file: str, key: str, *cells: Any) -> Any:
        """A cell of a table in experiments/results/FILE.json: the first cells of its row, and its column."""
        *first, column = cells
        content = entries.read(self._folder / f"{file}.json")[key]
        (found,) = [row for row in content["rows"] if row[: len(first)] == first]
        return found[content["columns"].index(column)]

    def paired(self, group: str, of: str, column: str = "minus TF-IDF") -> float:
        return self.entry("paired", group, of, column)

    def low(self, group: str, of: str, column: str = "minus TF-IDF") -> float:
        return self._interval(group, of, column)[0]

    def high(self, group: str, of: str, column: str = "minus TF-IDF") -> float:
        return self._interval(group, of, column)[1]

    def _interval(self, group: str, of: str, column: str) -> list[float]:
        content = entries.read(self._folder / "paired.json")[group]
        (found,) = [row for row in content["rows"] if row[0] == of]
        return [float(end) for end in found[content["columns"].index(column) + 1].split(" to ")]

    def noted(self, name: str, *cells: Any) -> Any:
        """A figure whose run was not kept. experiments/results/noted.json has it, with the command that gave it."""
        return self.entry("noted", name, *cells)

    def noted_table(self, name: str) -> str:
        content = entries.read(self._folder / "noted.json")[name]
        rows = [[str(one) if isinstance(one, float) else one for one in row] for row in content["rows"]]  # 79.0, not 79
        return f"{markdown.table(content['columns'], rows)}\n\n(The output of this run was not kept.)"

    def quality(self, *keys: Any) -> Any:
        """A value in the comparison of devices and precisions: file in gpu_quality, then keys."""
        file, *rest = keys
        return reduce(getitem, rest, entries.read(self._folder / "gpu_quality" / f"{file}.json"))

    def finished(self, name: str, key: str) -> float:
        """A value of the last epoch in a metrics file of gpu_quality."""
        return store.read(self._folder / "gpu_quality" / f"{name}.jsonl")[-1][key]

    def two_kinds(self, file: str, these: str, those: str) -> str:
        """Losses and correlations of two kinds of runs, three seeds each, with their paired difference."""
        rows = []
        for one, told, form in zip(self.quality(file), KINDS, (".4f", ".4f", ".2f"), strict=True):
            means = [f"{fmean(one[kind]):{form}} ± {stdev(one[kind]):{form}}" for kind in ("these", "those")]
            rows.append([told, *means, f"{one['difference']:+{form}} ± {one['half_width_95']:{form}}"])
        return markdown.table(["", these, those, "difference"], rows)
