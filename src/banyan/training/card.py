"""The model card: the README.md of a model folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from banyan._version import __version__

if TYPE_CHECKING:
    from banyan.config import Config
    from banyan.corpus.report import Report
    from banyan.encoder import Banyan

_CARD = """\
---
library_name: banyan-embed
pipeline_tag: sentence-similarity
tags: [banyan, sentence-embeddings]
---

# A Banyan model

Sentence embeddings of {dim} dimensions, trained from scratch by
[banyan-embed](https://pypi.org/project/banyan-embed/) {version}.

```python
from banyan import Banyan

model = Banyan.from_pretrained("path/to/this/folder")
model.encode(["one sentence", "another"])  # float32 [2, {dim}]
print(model.parse("one sentence"))         # the tree it composes
```

## Training text
{report}

## Training
| | |
|---|---|
{settings}

{parameters}

## Scores
{scores}

## Limits
The model knows words only as its training text uses them, including that text's biases, and only the languages in that
text. Similar embeddings mean that two texts are about the same thing, not that they agree. An empty text has the zero
vector.

## Citation
The model is the tree autoencoder of *Banyan: Improved Representation Learning with Explicit Structure* (Opper and
Siddharth, ICML 2025).
"""
_UNKNOWN = "Unknown: the folder that the model was trained in was not available when this card was written."


def model_card(model: Banyan, report: Report | None = None, metrics: Path | None = None) -> str:
    """The text of the card. report, metrics: those of the training run, if available."""
    config = model.config
    settings = "\n".join(f"| {name} | {value} |" for name, value in config.to_dict().items())
    message_passing = sum(function.size for function in model.functions)
    output = sum(model.weights[name].size for name in ("out_weight", "out_bias") if name in model.weights)
    return _CARD.format(
        dim=config.embedding_dim,
        version=__version__,
        report=report.summary() if report else _UNKNOWN,
        settings=settings,
        parameters=(
            f"Parameters: {message_passing} in composition and decomposition, {model.embedding.size:,} in the "
            f"embedding, {output:,} in the output layer (training only)."
        ),
        scores=_scores(metrics, config) if metrics else _UNKNOWN,
    )


def _scores(metrics: Path, config: Config) -> str:
    from banyan.model.objective import terms

    rows = [json.loads(line) for line in metrics.read_text(encoding="utf-8").splitlines()]
    last = next((row for row in reversed(rows) if "finished_epoch" in row), None)
    if last is None:
        return "None yet."
    losses = [("loss", "loss"), *((term.name, f"{term.title} (weight {term.weight:g})") for term in terms(config))]
    lines = ["| | training | held-out text |", "|---|---|---|"]
    for name, title in losses if len(losses) > 2 else losses[:1]:
        cells = [f"{last[key]:.4f}" if (key := f"{kind}_{name}") in last else "" for kind in ("train", "dev")]
        lines.append(f"| {title} | {cells[0]} | {cells[1]} |")
    if "pairs_spearman" in last:
        lines.append(f"\nSpearman × 100 on the evaluation pairs: {last['pairs_spearman']:.2f}.")
    if config.objective != "cross-entropy" or config.candidates == "batch" or config.infonce_weight:
        lines.append("\nThe negatives come from the batch, so the losses depend on the batch size.")
    return f"After epoch {last['finished_epoch']}:\n\n" + "\n".join(lines)
