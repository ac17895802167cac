"""What figures, claims and baselines share: models from disk, text, graphs, results as JSON, the look of a picture."""

from __future__ import annotations

import json
import lzma
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from banyan import files
from banyan.config import Config
from banyan.encoder import TOKENIZER, Banyan
from banyan.errors import BanyanError
from banyan.graph import Forest, Graph, with_few_repeats
from banyan.reference import Functions
from banyan.tokenizer import Tokenizer

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "experiments" / "results"
PICTURES = ROOT / "docs" / "images" / "results"

# Okabe and Ito's colours, which the colour-blind can tell apart.
BLACK, ORANGE, SKY, GREEN, BLUE, VERMILION, PURPLE = (
    "#000000", "#E69F00", "#56B4E9", "#009E73", "#0072B2", "#D55E00", "#CC79A7"
)  # fmt: skip
MARKERS = ((BLUE, "o"), (ORANGE, "s"), (GREEN, "^"), (VERMILION, "D"), (PURPLE, "v"), (SKY, "P"), (BLACK, "X"))


# --- Models ----------------------------------------------------------------------------------------------------------

OUTPUT, OUTPUT_NPZ = ("out_weight", "out_bias"), ".output.npz"


def load(path: str | Path) -> Banyan:
    """A model folder, or an .npz of its weights (`embedding`, the seven functions) that stands next to its
    tokenizer.json and, where it was kept, the .output.npz of its output layer. Its settings are its `config`, as JSON,
    or those in the record of the run of that name."""
    path = Path(path)
    if path.is_dir():
        return Banyan.from_pretrained(path)
    if not path.is_file():
        raise BanyanError(f"there is no model folder and no .npz file {path}")
    config, weights = kept(path)
    if (beside := path.with_name(path.stem + OUTPUT_NPZ)).is_file():
        weights.update(arrays_of(beside))
    return Banyan(config, Tokenizer.from_file(path.parent / TOKENIZER), weights)


def kept(path: Path) -> tuple[Config, dict[str, np.ndarray]]:
    """The settings and the weights of a model with trees, from its .npz."""
    weights = arrays_of(path)
    lacking = [name for name in ("embedding", *Functions._fields) if name not in weights]
    if lacking:
        raise BanyanError(f"{path} is no model with trees: it has no {', '.join(lacking)}")
    settings = json.loads(str(weights.pop("config"))) if "config" in weights else _recorded(path)
    known = Config.__dataclass_fields__
    return Config(**{name: value for name, value in settings.items() if name in known}), weights


def arrays_of(path: Path) -> dict[str, np.ndarray]:
    """Of an .npz: numbers that were stored in float16 become float32 again."""
    with np.load(path) as file:
        return {name: a.astype(np.float32) if a.dtype.kind == "f" else a for name, a in file.items()}


def _recorded(path: Path) -> dict[str, Any]:
    record = RESULTS / "runs" / f"{path.stem}.json"
    if not record.is_file():
        raise BanyanError(f"{path} has no settings: neither a `config` inside, nor a record {record} of the run")
    return json.loads(record.read_text(encoding="utf-8"))["settings"]


def label(model: Banyan) -> str:
    """What sets a model apart in a picture."""
    config = model.config
    trees = "" if config.trees == "entangled" else ", plain trees"
    objective = {"cross-entropy": "CE", "contrastive": "contrastive", "both": "CE and contrastive"}[config.objective]
    return f"{objective}, {config.functions}{trees}"


def load_all(paths: Sequence[str | Path]) -> dict[str, Banyan]:
    """By label; where two have the same, the file's name tells them apart."""
    models: dict[str, Banyan] = {}
    for path in paths:
        model = load(path)
        name = label(model)
        models[name if name not in models else f"{name} ({Path(path).stem})"] = model
    return models


# --- Text and graphs -------------------------------------------------------------------------------------------------


def corpus_lines(data: Path, language: str, split: str, n: int) -> list[str]:
    """The first n lines; the corpora are shuffled already."""
    path = data / "corpora" / language / f"{split}.txt.xz"
    if not path.is_file():
        raise BanyanError(f"there is no corpus {path}")
    with lzma.open(path, "rt", encoding="utf-8") as file:
        return [line.rstrip("\n") for line in islice(file, n)]


def forest_of(model: Banyan, texts: Sequence[str], n: int | None = None) -> Forest:
    """The trees of the first n texts that training would keep, by their number of pieces."""
    from banyan.backends import _numba

    tokens, offsets = model.tokenizer.encode(texts)
    if not model.config.repeats:
        tokens, offsets = with_few_repeats(tokens, offsets)
    lengths = np.diff(offsets)
    kept = np.flatnonzero((lengths >= model.config.min_pieces) & (lengths <= model.config.max_pieces))[:n]
    if n is not None and len(kept) < n:
        raise BanyanError(f"of {len(texts)} lines only {len(kept)} are of a length to train on; {n} are needed")
    tokens = np.concatenate([tokens[offsets[i] : offsets[i + 1]] for i in kept]).astype(np.int32)
    offsets = np.concatenate([[0], np.cumsum(lengths[kept])]).astype(np.int64)
    f, structure = model.functions, model.config.structure
    return _numba.induce(tokens, offsets, model.embedding, tokens, f, structure=structure)[0]


def part(forest: Forest, start: int, end: int) -> Forest:
    """Sentences start..end, as a forest of their own."""
    first, last = int(forest.offsets[start]), int(forest.offsets[end])
    first_merge, last_merge = forest.merge_offsets[[start, end]]
    T = len(forest.tokens)
    children = forest.children[first_merge:last_merge]
    moved = np.where(children < T, children - first, children - T - first_merge + last - first)
    return Forest(forest.tokens[first:last], forest.offsets[start : end + 1] - first, moved.astype(np.int32))


def select(forest: Forest, sentences: Sequence[int] | np.ndarray) -> Forest:
    """These sentences, in this order, as a forest of their own."""
    alone = [part(forest, sentence, sentence + 1) for sentence in sentences]
    offsets = np.concatenate([[0], np.cumsum([len(one.tokens) for one in alone])]).astype(np.int64)
    T, children = offsets[-1], []
    for i, one in enumerate(alone):
        n = len(one.tokens)
        children.append(np.where(one.children < n, one.children + offsets[i], one.children - n + T + offsets[i] - i))
    tokens = np.concatenate([one.tokens for one in alone])
    return Forest(tokens, offsets, np.concatenate(children).astype(np.int32))


def up_and_down(model: Banyan, graph: Graph) -> tuple[np.ndarray, np.ndarray]:
    """Both embeddings of every node [N, E], without dropout."""
    from banyan.backends import _numba

    up = _numba.up_pass(graph, model.embedding[graph.token], model.functions)
    return up, _numba.down_pass(graph, up, model.functions)


# --- Results and pictures --------------------------------------------------------------------------------------------


def keep(path: Path, key: str, entry: dict[str, Any]) -> None:
    """Put one entry into a JSON file of results; the others stay."""
    entries = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    entries[key] = entry
    path.parent.mkdir(parents=True, exist_ok=True)
    files.write_text(path, json.dumps(entries, indent=1, ensure_ascii=False) + "\n")
    print(f"{key}: {entry['title']}")
    for row in [entry["columns"], *entry["rows"]]:
        print("  " + " | ".join("" if value is None else str(value) for value in row))


def picture(figure: Figure, name: str) -> str:
    """Save a picture; its path from the root of the repository."""
    PICTURES.mkdir(parents=True, exist_ok=True)
    with files.atomic(PICTURES / name) as temporary:
        figure.savefig(temporary, format="png", dpi=150, metadata={"Software": None})
    return (PICTURES / name).relative_to(ROOT).as_posix()


def plain_axes(axes: Axes) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.25)
