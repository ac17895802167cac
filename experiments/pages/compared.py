"""The section of RESULTS.md that compares Banyan with other systems."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from banyan.evaluate.suites import LANGUAGES
from experiments.figures.compared import PICTURE
from experiments.pages.markdown import listed, section, table
from experiments.records.material import Material
from experiments.records.sets import NAMES, STS, WORDS
from experiments.records.systems import CLASSIFICATION, PRESETS, SYSTEMS, Compared, Figure, Measured, System

NOT_MEASURED = "not measured"
BY_OTHERS = "by others"
PAPER_STEPS = {"roberta": 200_000}
MEASURES = {"sts": "sentences, mean of 8", "words": "words, mean of 3", "arguana": "ArguAna, nDCG@10",
            "languages": "nine languages, mean"}  # fmt: skip
SETS = {**STS, **WORDS}
COSTS = ("time to train", "memory to train, MB", "memory to encode, MB", "sentences a second, `default` = 1",
         "on disk, MB")  # fmt: skip


def compared(material: Material, folder: Path) -> str:
    every = Compared.read(material, folder)
    picture = f"![Quality against cost]({PICTURE.relative_to(PICTURE.parents[2]).as_posix()})"
    parts = [_how(every), "\n".join(_answers(every)), picture]
    parts += ["### Quality", _quality(every), _bullets(_of_quality(every))]
    parts += ["### Cost", _costs(every), _bullets(_of_costs(every))]
    parts += ["### Classification", _classification(every), CLASSIFIED]
    parts += ["### Each set", _each(every, SETS.values(), SETS), "### Each language", _languages(every)]
    return section("14. Which of these should I use?", *parts, "### What would fill the cells", _commands(every))


def _how(every: Compared) -> str:
    told = (
        "Spearman's ρ × 100 and nDCG@10 × 100 on the test sets, by which nothing was chosen. **(paper)** marks a "
        "figure of the paper's, for a system that was not run here: other text, other hands."
    )
    groups = {"in English": [of for of in (*MEASURES, *SETS.values(), *CLASSIFICATION) if of != "languages"],
              "in the languages": [*LANGUAGES, "languages"]}  # fmt: skip
    several = {where: listed(_several(every, wanted)) for where, wanted in groups.items()}
    kinds = [f"{where} of {some}" for where, some in several.items() if some]
    means = f" A figure is the mean over seeds {'; '.join(kinds)}; all others are of one seed." if kinds else ""
    return told + (means or " Each is of one seed.")


def _several(every: Compared, wanted: Sequence[str]) -> list[str]:
    """Who has more than one seed, and how many."""
    told = []
    for system in SYSTEMS:
        counts = {figure.seeds for of in wanted if (figure := every.ours(system, of))}
        if counts and max(counts) > 1:
            span = f"{min(counts)} to {max(counts)}" if len(counts) > 1 else str(max(counts))
            told.append(f"{system.told} ({span})")
    return told


def _bullets(lines: Iterable[str]) -> str:
    return "\n".join(f"- {line}" for line in lines if line)


# --- Quality ---------------------------------------------------------------------------------------------------------

CLASSIFIED = "A small network on frozen vectors, as in 3: for those that have vectors."


def _quality(every: Compared) -> str:
    rows = []
    for system in SYSTEMS:
        figures = [_told(every.figure(system, of)) for of in MEASURES]
        rows.append([system.told, *figures, _dimensions(every, system), _text(every, system)])
    return table(["system", *MEASURES.values(), "dimensions", "trained on"], rows)


def _told(figure: Figure | None) -> str:
    return figure.told() if figure else NOT_MEASURED


def _dimensions(every: Compared, system: System) -> str:
    if runs := every.runs(system):
        return str(runs[0]["settings"]["dim"] + runs[0]["settings"].get("lexical_dim", 0))
    found = every.of(system).all
    return str(found["dimensions"] or "no vectors") if "dimensions" in found else NOT_MEASURED


def _text(every: Compared, system: System) -> str:
    if runs := every.runs(system):
        return f"{runs[0]['training']['sentences'] / 1e6:.1f}M sentences, repeats counted"
    measured = every.of(system)
    if not measured.records:
        return (f"{system.text} (paper)" if system.paper else system.text) or NOT_MEASURED
    text = system.text if system.pretrained else _own_text(measured)
    return ", ".join(part for part in (text, _steps(every, system)) if part)


def _own_text(measured: Measured) -> str:
    about = measured.about
    if "sentences" in about:
        return f"{about['sentences']:,} sentences"
    if "tokens" in about:
        return f"{about['tokens'] / 1e6:.1f}M words"
    if lines := about.get("texts", measured.settings.get("lines")):
        return f"{lines:,} sentences, counted"
    return "nothing" if measured.all["made"]["name"] == "dice" else NOT_MEASURED


def _steps(every: Compared, system: System, language: str = "en") -> str:
    """Of a transformer, how far it came."""
    steps, before = every.of(system, language).about.get("steps"), every.steps_before(system, language)
    if steps is None:
        return ""
    whole = PAPER_STEPS.get(system.name)
    told = f"{steps:,} of the paper's {whole:,} steps" if whole else f"{steps:,} steps"
    return told if before is None else f"{told} after RoBERTa's {before:,}"


def _of_quality(every: Compared) -> list[str]:
    return [
        "Trained on: English; what was trained or counted here had the same corpus of 10 million words or a part of "
        "it, and in the nine languages the corpus of each. The paper gave its GloVe and RoBERTa ten times that.",
        "ArguAna: Dice compares two texts, which is too slow for retrieval.",
        "Not clearly behind: one of the two figures is inside the other's interval (95% over the pairs of the sets; of "
        "several seeds, two deviations). Differences on the same pairs, which tell more, are in 13.",
        _steps_in_languages(every),
        _in_the_paper(every),
    ]


def _steps_in_languages(every: Compared) -> str:
    """From the fewest to the most."""
    told = []
    for system in SYSTEMS:
        steps = {code: every.of(system, code).about.get("steps") for code in NAMES}
        have = sorted((count, code) for code, count in steps.items() if count is not None)
        ends = [have[0], have[-1]] if have and have[0][0] != have[-1][0] else have[:1]
        if ends:
            fewest = f"{ends[0][0]:,} to " if len(ends) > 1 else ""
            told.append(f"{system.told} {fewest}{_steps(every, system, ends[-1][1])}")
    return f"In the languages: {listed(told)}." if told else ""


def _in_the_paper(every: Compared) -> str:
    """The paper's figures of systems that show ours."""
    pairs = [(system.told, every.papers_figure(system, "sts"), every.ours(system, "sts")) for system in SYSTEMS]
    told = [f"{name} {papers.value:.1f} (here {ours.value:.1f})" for name, papers, ours in pairs if papers and ours]
    return f"Sentences, the paper's of what was run here too: {listed(told)}." if told else ""


def _classification(every: Compared) -> str:
    content = every.material
    always = [content.baseline("classification", place, "majority class")
              for place in (["sst2", "accuracy"], ["mrpc", "accuracy"], ["mrpc", "f1"])]  # fmt: skip
    last = ["always the most frequent class", *(NOT_MEASURED if one is None else f"{one:.2f}" for one in always)]
    return _each(every, CLASSIFICATION, CLASSIFICATION.values(), [last])


def _each(every: Compared, sets: Iterable[str], heads: Iterable[str], more: Iterable[Sequence[str]] = ()) -> str:
    """Of those that have any."""
    wanted, rows = list(sets), []
    for system in SYSTEMS:
        figures = [every.figure(system, of) for of in wanted]
        if any(figures):
            rows.append([system.told, *(_told(one) for one in figures)])
    return table(["system", *heads], [*rows, *more])


def _languages(every: Compared) -> str:
    return _each(every, [*LANGUAGES, "languages"], [*NAMES.values(), "mean"])


# --- Cost ------------------------------------------------------------------------------------------------------------


def _costs(every: Compared) -> str:
    """Of those that have any."""
    have = [system for system in SYSTEMS if every.of(system).records or every.runs(system)]
    rows = [[system.told, *_cost(every, system)] for system in have]
    return table(["system", *COSTS], rows)


def _cost(every: Compared, system: System) -> list[str]:
    measured = every.of(system)
    memory, size = measured.all.get("peak_memory_bytes"), measured.all.get("bytes")
    return [
        _time(every, system),
        _memory(every, system),
        NOT_MEASURED if memory is None else f"{memory / 1e6:,.0f}",
        NOT_MEASURED if measured.speed is None else f"{measured.speed:.2g}",
        NOT_MEASURED if size is None else _megabytes(size),
    ]


def _time(every: Compared, system: System) -> str:
    times = {one.gpu or "CPU": clock(one.seconds) for one in every.trainings(system) if one.seconds is not None}
    if list(times) == ["CPU"]:
        return times["CPU"]
    return "; ".join(f"{took} ({where})" for where, took in times.items()) or _untrained(every, system)


def _memory(every: Compared, system: System) -> str:
    told = [f"{one.memory / 1e6:,.0f}{' (of the GPU)' if one.of_gpu else ''}"
            for one in every.trainings(system) if one.memory is not None]  # fmt: skip
    return "; ".join(told) or _untrained(every, system)


def _untrained(every: Compared, system: System) -> str:
    if system.pretrained and "steps" not in every.of(system).about:
        return BY_OTHERS
    return "none" if every.of(system).all.get("made", {}).get("name") == "dice" else NOT_MEASURED


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.0f}" if size >= 1e7 else f"{size / 1e6:.1f}"


def clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}m {rest:02d}s" if minutes else f"{rest} s"


def _of_costs(every: Compared) -> list[str]:
    found = [every.of(system).all for system in SYSTEMS if every.of(system).speed]
    texts = sorted({f"{one['speed']['sentences']:,}" for one in found if "sentences" in one["speed"]})
    threads = sorted({str(one["speed"]["threads"]) for one in found if "threads" in one["speed"]})
    machines = sorted({one["machine"] for one in found if "machine" in one})
    return [
        "Time to train: wall-clock; of Banyan the fastest seed, with so many runs on the card at once; of RoBERTa "
        "and SimCSE with up to four at once. Where no GPU is named it is that of CPU cores that did other work too, "
        "and not to be compared with a GPU's.",
        "Memory to train: the most that the process took; of a Banyan on a GPU, what it took of the GPU's.",
        f"Sentences a second: {listed(texts)} sentences from strings, threads: {listed(threads)}, turn by turn with "
        f"`default`, on {listed(machines)}. TF-IDF, BM25 and Dice have no vectors: of them, sentences that are "
        "compared in pairs. Memory to encode: the most that a process took which loaded it and encoded these."
        if found
        else "",
        _noise(every),
    ]


def _noise(every: Compared) -> str:
    """How far ratios lie apart that ought to be equal."""
    same = [system for system in SYSTEMS if system.name in ("glove", "glove-001")]
    own, *others = [every.of(system).speed for system in (PRESETS[0], *same)]
    alike = [f"{system.told} {ratio:.2f}" for system, ratio in zip(same, others, strict=True) if ratio]
    if own is None or len(alike) < len(same):
        return ""
    return f"How exact such a ratio is: `default` beside itself gave {own:.2f}, and of the same work {listed(alike)}."


# --- Commands --------------------------------------------------------------------------------------------------------


def _commands(every: Compared) -> str:
    lacking = [system for system in SYSTEMS if not system.run and every.ours(system, "sts") is None]
    rows = [[system.told, f"`{system.command} --out {system.name}/`", f"`{measure(system)}`"] for system in lacking]
    beside = "python -m experiments.measuring.compared NAME NAME/ --language ha --beside MODEL"
    told = f"For another language, with text and folder of that language: `{beside}`."
    return "\n\n".join([table(["system", "make it", "measure it"], rows), told]) if rows else told


def measure(system: System) -> str:
    return f"python -m experiments.measuring.compared {system.name} {system.name}/ --beside MODEL"


# --- Answers ---------------------------------------------------------------------------------------------------------

QUESTIONS = {"sts": "English sentences", "words": "single English words", "arguana": "retrieval (ArguAna)",
             "sst2": "classification (SST-2)", "languages": "nine languages, their mean"}  # fmt: skip
Ranked = Sequence[tuple[Figure, System]]  # the best first


def _answers(every: Compared) -> list[str]:
    answers = [_best(every, of, asked) for of, asked in QUESTIONS.items()]
    answers += [_quickest(every), _smallest(every), _least_to_train(every), _above(every)]
    return [f"- {answer}" for answer in answers if answer]


def _best(every: Compared, of: str, asked: str) -> str:
    """The best that was run here; the best that is of one's own text; of these, the best that has vectors."""
    have = [(figure, system) for system in SYSTEMS if (figure := every.ours(system, of))]
    if not have:
        return f"**{asked}**: {NOT_MEASURED}."
    if len(have) == 1:
        return f"**{asked}**: {_ranked(have)}, the only one that was measured."
    have.sort(key=lambda pair: -pair[0].value)
    told = f"**{asked}**: {_ranked(have)}."
    wishes: dict[str, Callable[[System], bool]] = {
        "From your own text": lambda system: not system.pretrained,
        "With vectors": every.has_vectors,
    }
    for wish, fulfils in wishes.items():
        rest = [(figure, system) for figure, system in have if fulfils(system)]
        if rest and rest[0] != have[0]:
            told += f" {wish}: {_ranked(rest)}{', the only one that was measured' if len(rest) == 1 else ''}."
        have = rest or have
    return told


def _ranked(have: Ranked) -> str:
    """The first, what cannot be told from it, and the first that can."""
    (best, first), *rest = have
    level = [f"{system.told} ({figure.value:.1f})" for figure, system in rest if best.level(figure)]
    told = f"; not clearly behind it: {listed(level)}" if level else ""
    behind = (f"; then {system.told} ({figure.value:.1f})" for figure, system in rest if not best.level(figure))
    return f"{first.told} ({best.value:.1f}){told}{next(behind, '')}"


def _quickest(every: Compared) -> str:
    have = {system.told: ratio for system in SYSTEMS if (ratio := every.of(system).speed)}
    if not have:
        return ""
    slow, quick = _ends(have)
    fast = f"{quick} is the fastest, {have[quick]:.2g} × preset `default`"
    return f"**speed**: {fast}, {slow} the slowest, {have[slow]:.2g} ×."


def _smallest(every: Compared) -> str:
    sizes = {system.told: every.of(system).all.get("bytes") for system in SYSTEMS if every.has_vectors(system)}
    have = {told: size for told, size in sizes.items() if size is not None}
    if not have:
        return ""
    small, large = _ends(have)
    least, most = (f"({_megabytes(have[told])} MB)" for told in (small, large))
    return f"**size** on disk, of those with vectors: {small} the least {least}, {large} the most {most}."


def _least_to_train(every: Compared) -> str:
    """A CPU and a GPU are not to be compared."""
    took: dict[str, dict[str, float]] = {"on a CPU": {}, "on a GPU": {}}
    for system in SYSTEMS:
        if every.has_vectors(system) and not system.pretrained:
            for one in every.trainings(system):
                if one.seconds is not None:
                    took["on a GPU" if one.gpu else "on a CPU"][system.told] = one.seconds
    told = []
    for where, have in took.items():
        if have:
            short, long = _ends(have)
            told.append(f"{where} {short} the least ({clock(have[short])}), {long} the most ({clock(have[long])})")
    return f"**time to train**, of those with vectors: {'; '.join(told)}." if told else ""


def _ends(have: Mapping[str, float]) -> tuple[str, str]:
    """Who has the least, and who the most."""
    return min(have, key=have.__getitem__), max(have, key=have.__getitem__)


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
