"""Weights of finished runs on disk: NAME-SEED.npz with the settings inside, and the tokenizer beside them.

The output layer, which encoding does not need, has a file of its own.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from banyan.config import Config, upgraded
from banyan.encoder import TOKENIZER, Banyan
from banyan.errors import BanyanError
from banyan.model.functions import Functions
from banyan.support.files import atomic
from banyan.tokenizer import Tokenizer
from experiments.places import RESULTS
from experiments.records.store import RUNS

OUTPUT, OUTPUT_NPZ = ("out_weight", "out_bias"), ".output.npz"
MOST_BYTES = 16 << 20  # a larger file gets a warning

Weights = dict[str, np.ndarray]


# --- Writing ---------------------------------------------------------------------------------------------------------


def write(path: Path, weights: Weights, config: Config, tokenizer: Tokenizer) -> None:
    write_arrays(path, {**weights, "config": np.array(config.to_json())})
    tokenizer.save(path.parent / TOKENIZER)


def write_arrays(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Write an .npz; matrices with a row for each token are stored in float16."""
    path.parent.mkdir(parents=True, exist_ok=True)
    halved = {n: a.astype(np.float16) if n in ("embedding", "out_weight") else a for n, a in arrays.items()}
    with atomic(path) as temporary, temporary.open("wb") as file:
        np.savez_compressed(file, allow_pickle=False, **halved)
    if path.stat().st_size > MOST_BYTES:
        print(f"warning: {path} has {path.stat().st_size:,} bytes, more than {MOST_BYTES:,}", file=sys.stderr)


# --- Reading ---------------------------------------------------------------------------------------------------------


def load(path: str | Path) -> Banyan:
    """Load a model folder, or an .npz of weights that lies beside its tokenizer.json.

    The output layer is loaded too if its .output.npz is there. If the .npz has no `config`, the settings are those in
    the record of the run of that name.
    """
    path = Path(path)
    if path.is_dir():
        return Banyan.from_pretrained(path)
    if not path.is_file():
        raise BanyanError(f"there is no model folder and no .npz file {path}")
    config, weights = kept(path)
    if (beside := path.with_name(path.stem + OUTPUT_NPZ)).is_file():
        weights.update(arrays_of(beside))
    return Banyan(config, Tokenizer.from_file(path.parent / TOKENIZER), weights)


def kept(path: Path) -> tuple[Config, Weights]:
    """The settings and the weights in the .npz of a model with trees."""
    weights = arrays_of(path)
    lacking = [name for name in ("embedding", *Functions._fields) if name not in weights]
    if lacking:
        raise BanyanError(f"{path} is not a model with trees: it has no {', '.join(lacking)}")
    settings = json.loads(str(weights.pop("config"))) if "config" in weights else _recorded(path)
    return config_of(settings), weights


def config_of(settings: Mapping[str, Any]) -> Config:
    """The settings of kept weights or of a record, which may have names and settings of earlier versions."""
    known = Config.__dataclass_fields__
    return Config(**{name: value for name, value in upgraded(dict(settings)).items() if name in known})


def arrays_of(path: Path) -> Weights:
    """The arrays of an .npz; those stored in float16 become float32."""
    with np.load(path) as file:
        return {name: a.astype(np.float32) if a.dtype.kind == "f" else a for name, a in file.items()}


def _recorded(path: Path) -> dict[str, Any]:
    record = RESULTS / RUNS / f"{path.stem}.json"
    if not record.is_file():
        raise BanyanError(f"{path} has no settings: there is no `config` inside and no record {record} of the run")
    return json.loads(record.read_text(encoding="utf-8"))["settings"]


def label(model: Banyan) -> str:
    """A short name for a model in a picture."""
    config = model.config
    trees = "" if config.trees == "entangled" else ", plain trees"
    objective = {"cross-entropy": "CE", "contrastive": "contrastive", "both": "CE and contrastive"}[config.objective]
    return f"{objective}, {config.functions}{trees}"


def load_all(paths: Sequence[str | Path]) -> dict[str, Banyan]:
    """Models by label; the file name is added to a label that occurs twice."""
    models: dict[str, Banyan] = {}
    for path in paths:
        model = load(path)
        name = label(model)
        models[name if name not in models else f"{name} ({Path(path).stem})"] = model
    return models
