"""The model card: the README.md of a model folder."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from banyan._version import __version__
from banyan.config import SETTINGS, Config
from banyan.folders import CARD, unfinished_in_words
from banyan.training import standing, taught_by
from banyan.training.metrics import read_rows

if TYPE_CHECKING:
    from banyan.classify.classifier import Classifier
    from banyan.encoder import Banyan

_CARD = """\
---
library_name: banyan-embed
pipeline_tag: sentence-similarity
tags: [banyan, sentence-embeddings]
{base_model}---

# A Banyan model

{unfinished}Sentence embeddings of {dim} dimensions, trained {how} by
[banyan-embed](https://pypi.org/project/banyan-embed/) {version}.

```python
from banyan import Banyan

model = Banyan.from_pretrained("path/to/this/folder")
model.encode(["one sentence", "another"])  # float32 [2, {dim}]
print(model.parse("one sentence"))         # the tree it composes
```

{teacher}## Training text
{text}

## Training
| | |
|---|---|
{settings}

{parameters}

## Scores
{scores}

## Limits
{knows}, and only the languages in that text. Similar embeddings mean that two texts are about the same thing, not that
they agree. An empty text has the zero vector.

## Citation
The model is the tree autoencoder of *Banyan: Improved Representation Learning with Explicit Structure* (Opper and
Siddharth, ICML 2025).
"""
_PREDICTS = """\
from banyan.classify import Classifier

classifier = Classifier.from_pretrained("path/to/this/folder")
classifier.predict([{given}])        # {labels}
classifier.predict_proba([{given}])  # their probabilities, float32 [2, {classes}]
classifier.model.encode(["one text"])  # its embedding, float32 [1, {dim}]
"""
_TEACHER = """\
## Teacher
| | |
|---|---|
{rows}

The model learned to imitate the vectors of its teacher. The teacher is not part of it and is not needed to encode.

"""
_KNOWS = "its training text uses them, including that text's biases"
_KNOWS_TAUGHT = "its teacher and its training text use them, including their biases"
NO_OUTPUT_LAYER = "training predicts no tokens"
_NAMED = 10  # sources that the card names
_LANGUAGE, _LICENCE = "Language: not stated", "Licence: not stated"  # until somebody states them
_NO_SCORES = "Unknown: the folder that the model was trained in was not available when this card was written."
_UNKNOWN = f"Text: not stated. {_LANGUAGE}. {_LICENCE}.\n\n{_NO_SCORES}"


def model_card(model: Banyan, text: str | None = None, metrics: Path | None = None) -> str:
    """The text of the card. text: what to say about the training text. metrics: those of the run. If available."""
    config, told = model.config, model.taught_by
    rows = read_rows(metrics) if metrics else []
    in_words = settings_in_words(config, len(model.embedding), last_epoch(metrics) if metrics else {})
    settings = "\n".join(f"| {name} | {value} |" for name, value in in_words.items())
    message_passing = sum(function.size for function in model.functions)
    output = sum(model.weights[name].size for name in ("out_weight", "out_bias") if name in model.weights)
    bases = taught_by.base_models(told) if told else []
    return _CARD.format(
        dim=config.embedding_dim,
        version=__version__,
        base_model="".join(["base_model:\n", *(f"- {name}\n" for name in bases)]) if bases else "",
        how="with a teacher" if told else "from scratch",
        unfinished=f"**This is {unfinished_in_words(model.unfinished)}.**\n\n" if model.unfinished else "",
        teacher=_teacher(told, config) if told else "",
        text=text or _UNKNOWN,
        settings=settings,
        parameters=(
            f"Parameters: {message_passing} in composition and decomposition, {model.embedding.size:,} in the "
            f"embedding, {output:,} in the output layer ({'training only' if output else NO_OUTPUT_LAYER})."
        ),
        scores=_scores(rows, config) if metrics else _NO_SCORES,
        knows=f"The model knows words only as {_KNOWS_TAUGHT if told else _KNOWS}",
    )


def of_classifier(card: str, found: Classifier) -> str:
    """The card of a classifier's model with its own task, and with an example that classifies."""
    given = '("one text", "its other"), ("another", "its other")' if found.pair else '"one text", "another"'
    labels = "the labels of each" if found.several else "the label of each"
    example = _PREDICTS.format(given=given, labels=labels, classes=len(found.classes), dim=found.model.dim)
    before, fence, rest = card.partition("```python\n")
    _, end, after = rest.partition("```\n")
    before = before.replace("pipeline_tag: sentence-similarity", "pipeline_tag: text-classification")
    before = before.replace("Sentence embeddings of", "A classifier of texts, with sentence embeddings of")
    return f"{before}{fence}{example}{end}{after}"


def training_text(folder: Path) -> str:
    """What the model card in a folder says about the training text; empty if there is no card."""
    card = folder / CARD
    text = card.read_text(encoding="utf-8") if card.exists() else ""
    return " ".join(text.partition("## Training text\n")[2].partition("\n## ")[0].split())


def named(corpus: str | Path | Sequence[str | Path], summary: str) -> str:
    """What the card says about the training text: its name, and that nobody has stated its language and licence yet."""
    names = [str(name) for name in ([corpus] if isinstance(corpus, str | Path) else corpus)]
    known = [Path(name).name if Path(name).exists() else {"-": "standard input"}.get(name, name) for name in names]
    more = f" and {len(known) - _NAMED:,} more" if len(known) > _NAMED else ""
    return f"Text: {', '.join(known[:_NAMED])}{more}. {_LANGUAGE}. {_LICENCE}.\n\n{summary}"


def stated(card: str, language: str | list[str] | None, license: str | None) -> str:
    """The card with its language and licence, if they are given now; also in its metadata, if it begins with them."""
    languages = [language] if isinstance(language, str) else language or []
    about = {"language": languages, "license": license}
    lines = "".join(f"{name}: {json.dumps(value, ensure_ascii=False)}\n" for name, value in about.items() if value)
    card = f"---\n{lines}{card[4:]}" if card.startswith("---\n") else card
    for unknown, known in ((_LANGUAGE, ", ".join(languages)), (_LICENCE, license)):
        if known:
            card = card.replace(unknown, f"{unknown.partition(':')[0]}: {known}")
    return card


def text_since(summary: str, start: str | Path | None) -> str:
    """What the model card says about the text. A model that starts from another one has read that one's, too."""
    before = training_text(Path(start)) if start else ""
    return f"{summary}\n\nIt started from a model with this training text: {before}" if before else summary


def last_epoch(metrics: Path) -> dict[str, Any]:
    """The metrics of the last epoch that was finished."""
    return next((row for row in reversed(read_rows(metrics)) if "finished_epoch" in row), {})


def settings_in_words(config: Config, vocabulary: int, last: dict[str, Any]) -> dict[str, Any]:
    """Every setting. Those that were chosen automatically have the value that was used, if it is known, or a reason.

    last: the metrics of the last epoch."""
    used = {"vocab_size": vocabulary, "epochs": last.get("finished_epoch")}
    found = config.to_dict()
    for name, value in found.items():
        if value is None:
            why = SETTINGS[name].when_none
            found[name] = why if used.get(name) is None else f"{used[name]:,} ({why})"
    return found


def _teacher(told: dict[str, Any], config: Config) -> str:
    rows = taught_by.described(told, config)
    return _TEACHER.format(rows="\n".join(f"| {name} | {value} |" for name, value in rows.items()))


def _scores(rows: list[dict[str, Any]], config: Config) -> str:
    """The losses of the epoch that was kept, and how the epochs stand on the evaluation pairs."""
    from banyan.model.objective import terms

    epochs = [row for row in rows if "finished_epoch" in row]
    if not epochs:
        return "No epoch is finished yet."
    kept = epochs[-1].get(standing.KEPT)
    last = next((row for row in epochs if row["finished_epoch"] == kept), epochs[-1])
    losses = [("loss", "loss"), *((term.name, f"{term.title} (weight {term.weight:g})") for term in terms(config))]
    lines = ["| | training | held-out text |", "|---|---|---|"]
    for name, title in losses if len(losses) > 2 else losses[:1]:
        cells = [f"{last[key]:.4f}" if (key := f"{kind}_{name}") in last else "" for kind in ("train", "dev")]
        lines.append(f"| {title} | {cells[0]} | {cells[1]} |")
    if config.objective != "cross-entropy" or config.candidates == "batch" or config.infonce_weight:
        lines.append("\nThe negatives come from the batch, so the losses depend on the batch size.")
    if compared := standing.rows(rows):
        lines.append(f"\n{standing.markdown(compared)}")
    why = ", the best on the evaluation pairs" if kept else ""
    return f"After epoch {last['finished_epoch']}{why}:\n\n" + "\n".join(lines)
