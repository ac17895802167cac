"""The section of RESULTS.md that compares Banyan with other systems."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from banyan.evaluate.suites import LANGUAGES
from experiments.figures.compared import PICTURE
from experiments.pages.markdown import listed, section, table
from experiments.records.material import Material
from experiments.records.sets import NAMES, STS, WORDS
from experiments.records.systems import CLASSIFICATION, PRESETS, RETRIEVAL, SYSTEMS, Compared, Figure, Measured, System
from experiments.training.runs import EXPERIMENTS

NOT_MEASURED = "not measured"
BY_OTHERS = "by others"
PAPER_STEPS = {"roberta": 200_000}
MEASURES = {"sts": "sentences, mean of 8", "words": "words, mean of 3", "arguana": "ArguAna, nDCG@10",
            "languages": "nine languages, mean"}  # fmt: skip
SETS = {**STS, **WORDS}
COSTS = ("time to train", "memory to train, MB", "memory to encode, MB", "sentences/s relative to `default`",
         "on disk, MB")  # fmt: skip


def compared(material: Material, folder: Path) -> str:
    every = Compared.read(material, folder)
    picture = f"![Quality against cost]({PICTURE.relative_to(PICTURE.parents[2]).as_posix()})"
    parts = [_how(every), "\n".join(_answers(every)), picture]
    parts += ["### Quality", _quality(every), _bullets(_of_quality(every))]
    parts += ["### Cost", _costs(every), _bullets(_of_costs(every))]
    parts += ["### Retrieval", _each(every, RETRIEVAL, RETRIEVAL.values()), RETRIEVED]
    parts += ["### Classification", _classification(every), CLASSIFIED]
    parts += ["### Each set", _each(every, SETS.values(), SETS), "### Each language", _languages(every)]
    return section("14. Which of these should I use?", *parts, "### Commands for the missing figures", _commands(every))


def _how(every: Compared) -> str:
    told = (
        "Spearman's ρ × 100 and nDCG@10 × 100 on the test sets. No two settings were compared on them, but test "
        "figures of earlier versions of `default` had been seen when it was changed (section 13). In brackets: the "
        "paper's own figure, for the paper's training text. **(paper)** marks one whose system was not run here."
    )
    groups = {"in English": [of for of in (*MEASURES, *SETS.values(), *CLASSIFICATION) if of != "languages"],
              "in the languages": [*LANGUAGES, "languages"]}  # fmt: skip
    several = {where: listed(_several(every, wanted)) for where, wanted in groups.items()}
    kinds = [f"{where} for {some}" for where, some in several.items() if some]
    means = f" Figures are means over seeds {'; '.join(kinds)}; all others are from one seed." if kinds else ""
    return told + (means or " Each figure is from one seed.")


def _several(every: Compared, wanted: Sequence[str]) -> list[str]:
    """The systems with more than one seed, with the number of seeds."""
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

RETRIEVED = "× 100. BEIR's Quora was not available here."
CLASSIFIED = "A small network on frozen vectors, as in section 3. Systems without vectors are left out."


def _quality(every: Compared) -> str:
    rows = []
    for system in SYSTEMS:
        figures = [every.told(system, of) or NOT_MEASURED for of in MEASURES]
        rows.append([system.told, *figures, _dimensions(every, system), _text(every, system), _papers_text(system)])
    return table(["system", *MEASURES.values(), "dimensions", "trained on", "in the paper trained on"], rows)


def _papers_text(system: System) -> str:
    return system.text if system.paper else ""


def _dimensions(every: Compared, system: System) -> str:
    if every.runs(system):
        return str(EXPERIMENTS[system.run].config(0).embedding_dim)
    found = every.of(system).all
    return str(found["dimensions"] or "no vectors") if "dimensions" in found else NOT_MEASURED


def _text(every: Compared, system: System) -> str:
    if runs := every.runs(system):
        return f"{runs[0]['training']['sentences'] / 1e6:.1f}M sentences, counting epochs"
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
        return f"{lines:,} sentences (counts)"
    return "nothing" if measured.all["made"]["name"] == "dice" else NOT_MEASURED


def _steps(every: Compared, system: System, language: str = "en") -> str:
    """The training steps of a transformer."""
    steps, before = every.of(system, language).about.get("steps"), every.steps_before(system, language)
    if steps is None:
        return ""
    whole = PAPER_STEPS.get(system.name)
    told = f"{steps:,} of the paper's {whole:,} steps" if whole else f"{steps:,} steps"
    return told if before is None else f"{told} after RoBERTa's {before:,}"


def _of_quality(every: Compared) -> list[str]:
    means = {"sts": "English sentences", "languages": "the nine languages"}
    sure = [f"{found.value:+.1f} on {told}{found.interval()}"
            for group, told in means.items() if (found := every.paired.of_means.get(group))]  # fmt: skip
    between = f" `default` minus TF-IDF is {listed(sure)}." if sure else ""
    return [
        "\"Trained on\" is for English. Systems that were trained or counted here had the same corpus of 10 million "
        "words or a part of it, and in the nine languages the corpus of each language.",
        _why_glove(every),
        "ArguAna: Dice compares two texts at a time, which is too slow for retrieval.",
        "Two figures differ significantly if neither lies inside the other's interval (95% bootstrap interval over the "
        "pairs of the sets; ± two standard deviations for several seeds). Between `default` and TF-IDF, the paired "
        f"differences of section 13 decide, which are more sensitive.{between}",
        _steps_in_languages(every),
    ]


def _steps_in_languages(every: Compared) -> str:
    """The range of training steps over the nine languages."""
    told = []
    for system in SYSTEMS:
        steps = {code: every.of(system, code).about.get("steps") for code in NAMES}
        have = sorted((count, code) for code, count in steps.items() if count is not None)
        ends = [have[0], have[-1]] if have and have[0][0] != have[-1][0] else have[:1]
        if ends:
            fewest = f"{ends[0][0]:,} to " if len(ends) > 1 else ""
            told.append(f"{system.told} {fewest}{_steps(every, system, ends[-1][1])}")
    return f"Training steps in the nine languages: {listed(told)}." if told else ""


def _why_glove(every: Compared) -> str:
    """Why GloVe is below the paper's on words."""
    usual, slow = (next(one for one in SYSTEMS if one.name == name) for name in ("glove", "glove-001"))
    ours, at_papers_rate = (every.ours(one, "words") for one in (usual, slow))
    papers = every.papers_figure(usual, "words")
    if not (ours and at_papers_rate and papers):
        return ""
    rates = [every.of(one).settings["learning_rate"] for one in (usual, slow)]
    return (
        f"GloVe has {ours.value:.1f} on words here and {papers.value:.1f} in the paper, which had ten times as much "
        f"text. The paper gives a learning rate of {rates[1]}. It is not what makes the difference: at that rate and "
        f"with our text the vectors hardly move from where they start, and reach {at_papers_rate.value:.1f}. Ours have "
        f"the rate of GloVe's authors, {rates[0]}. More text is what is left to explain it; no run here has as much."
    )


def _classification(every: Compared) -> str:
    content = every.material
    always = [content.baseline("classification", place, "majority class")
              for place in (["sst2", "accuracy"], ["mrpc", "accuracy"], ["mrpc", "f1"])]  # fmt: skip
    last = ["majority class", *(NOT_MEASURED if one is None else f"{one:.2f}" for one in always)]
    return _each(every, CLASSIFICATION, CLASSIFICATION.values(), [last])


def _each(every: Compared, sets: Iterable[str], heads: Iterable[str], more: Iterable[Sequence[str]] = ()) -> str:
    """A row for each system with at least one figure."""
    wanted, rows = list(sets), []
    for system in SYSTEMS:
        figures = [every.told(system, of) for of in wanted]
        if any(figures):
            rows.append([system.told, *(one or NOT_MEASURED for one in figures)])
    return table(["system", *heads], [*rows, *more])


def _languages(every: Compared) -> str:
    return _each(every, [*LANGUAGES, "languages"], [*NAMES.values(), "mean"])


# --- Cost ------------------------------------------------------------------------------------------------------------


def _costs(every: Compared) -> str:
    """A row for each system with a record."""
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
    told = [f"{one.memory / 1e6:,.0f}{' (GPU)' if one.of_gpu else ''}"
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
        "Time to train is wall-clock time: for Banyan as in section 9, with the number of concurrent runs on the GPU; "
        "for RoBERTa and SimCSE with up to four concurrent runs. Times without a GPU were measured on CPU cores that "
        "had other work; they are not comparable with times on a GPU.",
        "Memory to train is the peak memory of the process; for Banyan on a GPU, the peak memory of the GPU.",
        f"Sentences/s: {listed(texts)} sentences, starting from strings, threads: {listed(threads)}, in alternation "
        f"with `default`, on {listed(machines)}. TF-IDF, BM25 and Dice have no vectors; their rate is of sentences "
        "compared in pairs. Memory to encode is the peak memory of a process that loads the system and encodes these "
        "sentences."
        if found
        else "",
        _noise(every),
    ]


def _noise(every: Compared) -> str:
    """The spread of ratios that should be equal."""
    same = [system for system in SYSTEMS if system.name in ("glove", "glove-001")]
    own, *others = [every.of(system).speed for system in (PRESETS[0], *same)]
    alike = [f"{system.told} {ratio:.2f}" for system, ratio in zip(same, others, strict=True) if ratio]
    if own is None or len(alike) < len(same):
        return ""
    return f"Precision of these ratios: `default` against itself has {own:.2f}; with equal work, {listed(alike)}."


# --- Commands --------------------------------------------------------------------------------------------------------


def _commands(every: Compared) -> str:
    lacking = [system for system in SYSTEMS if not system.run and every.ours(system, "sts") is None]
    rows = [[system.told, f"`{system.command} --out {system.name}/`", f"`{measure(system)}`"] for system in lacking]
    beside = "python -m experiments.measuring.compared NAME NAME/ --language ha --beside MODEL"
    told = f"For another language, with a folder trained on its text: `{beside}`."
    return "\n\n".join([table(["system", "to make it", "to measure it"], rows), told]) if rows else told


def measure(system: System) -> str:
    return f"python -m experiments.measuring.compared {system.name} {system.name}/ --beside MODEL"


# --- Answers ---------------------------------------------------------------------------------------------------------

QUESTIONS = {"sts": "English sentences", "words": "single English words", "arguana": "retrieval (ArguAna)",
             "sst2": "classification (SST-2)", "languages": "mean of nine languages"}  # fmt: skip
Ranked = Sequence[tuple[Figure, System]]  # the best first


def _answers(every: Compared) -> list[str]:
    answers = [_best(every, of, asked) for of, asked in QUESTIONS.items()]
    answers += [_quickest(every), _smallest(every), _least_to_train(every), _above(every)]
    return [f"- {answer}" for answer in answers if answer]


def _best(every: Compared, of: str, asked: str) -> str:
    """The best system, the best one trained on the user's own text, and the best of those with vectors."""
    have = [(figure, system) for system in SYSTEMS if (figure := every.ours(system, of))]
    if not have:
        return f"**{asked}**: {NOT_MEASURED}."
    if len(have) == 1:
        return f"**{asked}**: {_ranked(every, of, have)}; no other was measured."
    have.sort(key=lambda pair: -pair[0].value)
    told = f"**{asked}**: {_ranked(every, of, have)}."
    wishes: dict[str, Callable[[System], bool]] = {
        "Trained on your own text": lambda system: not system.pretrained,
        "With vectors": every.has_vectors,
    }
    for wish, fulfils in wishes.items():
        rest = [(figure, system) for figure, system in have if fulfils(system)]
        if rest and rest[0] != have[0]:
            told += f" {wish}: {_ranked(every, of, rest)}{'; no other was measured' if len(rest) == 1 else ''}."
        have = rest or have
    return told


def _ranked(every: Compared, of: str, have: Ranked) -> str:
    """The best system, those that are not significantly lower, and the next one."""
    (best, first), *rest = have
    apart = [not every.level(first, system, of) for _, system in rest]
    named = [f"{system.told} ({figure.value:.1f})" for figure, system in rest]
    level = [name for name, lower in zip(named, apart, strict=True) if not lower]
    told = f"; not significantly lower: {listed(level)}" if level else ""
    behind = (f"; then {name}" for name, lower in zip(named, apart, strict=True) if lower)
    return f"{first.told} ({best.value:.1f}){told}{next(behind, '')}"


def _quickest(every: Compared) -> str:
    have = {system.told: ratio for system in SYSTEMS if (ratio := every.of(system).speed)}
    if not have:
        return ""
    slow, quick = _ends(have)
    fastest, slowest = (f"{told} ({have[told]:.2g} times the speed of `default`)" for told in (quick, slow))
    return f"**speed**: {fastest} is the fastest, {slowest} the slowest."


def _smallest(every: Compared) -> str:
    sizes = {system.told: every.of(system).all.get("bytes") for system in SYSTEMS if every.has_vectors(system)}
    have = {told: size for told, size in sizes.items() if size is not None}
    if not have:
        return ""
    small, large = _ends(have)
    least, most = (f"({_megabytes(have[told])} MB)" for told in (small, large))
    return f"**size on disk**, systems with vectors: {small} is the smallest {least}, {large} the largest {most}."


def _least_to_train(every: Compared) -> str:
    """The shortest and the longest training, on a CPU and on a GPU that no other run shared."""
    took: dict[str, dict[str, float]] = {"on a CPU": {}, "on a GPU": {}}
    shared = []
    for system in SYSTEMS:
        if every.has_vectors(system) and not system.pretrained:
            for one in every.trainings(system):
                if one.seconds is not None and one.at_once > 1:
                    shared.append(f"{system.told} ({clock(one.seconds)}, {one.at_once} concurrent runs)")
                elif one.seconds is not None:
                    took["on a GPU" if one.gpu else "on a CPU"][system.told] = one.seconds
    told = []
    for where, have in took.items():
        if have:
            short, long = _ends(have)
            fastest, slowest = f"is the fastest ({clock(have[short])})", f"the slowest ({clock(have[long])})"
            told.append(f"{where} {short} {fastest}, {long} {slowest}")
    apart = f" Timed only on a shared GPU, and so not compared: {listed(shared)}." if shared else ""
    return f"**time to train**, systems with vectors: {'; '.join(told)}.{apart}" if told else ""


def _ends(have: Mapping[str, float]) -> tuple[str, str]:
    """The names with the least and with the greatest value."""
    return min(have, key=have.__getitem__), max(have, key=have.__getitem__)


def _above(every: Compared) -> str:
    """Languages in which a figure of the paper is higher than all of ours."""
    told = []
    for code, name in NAMES.items():
        ours = [figure.value for system in SYSTEMS if (figure := every.ours(system, code))]
        theirs = [(figure.value, system.told) for system in SYSTEMS
                  if system.pretrained and (figure := every.papers_figure(system, code))]  # fmt: skip
        if ours and theirs and max(theirs)[0] > max(ours):
            told.append(f"{name} ({max(theirs)[1]} {max(theirs)[0]:.1f}, best here {max(ours):.1f})")
    if not told:
        return ""
    return f"**large pretrained models**: the paper reports a higher score than any here for {listed(told)}."
