"""SimCSE, unsupervised (Gao, Yao and Chen 2021), on top of a transformer: a sentence goes through it twice, each time
with other dropout, and must find itself again among the others of the batch.

Model and loss are those of sentence-transformers. Settings are the authors' for RoBERTa (batch 512, 1e-5 falling
linearly to 0, one epoch, temperature 0.05, 32 tokens), but sentences are means of their tokens, as in the paper, and
no labelled pairs choose among checkpoints: the last step is the result.
"""

from __future__ import annotations

import math
import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from banyan.baselines.folder import Manifest, made
from banyan.display import Display
from banyan.errors import BanyanError
from banyan.integrations import needs

with needs("sentence-transformers"):
    import torch
    from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss
    from torch import Tensor

    from banyan import devices
    from banyan.baselines import tokens
    from banyan.baselines.pretrained import MeanPooled, pieces_of, quietly
    from banyan.baselines.pretrained import load as load_any


def train(
    corpus_paths: Sequence[str | Path],
    out: str | Path,
    *,
    quiet: bool = False,
    device: str = "auto",
    init: str = "",
    epochs: float = 1.0,
    batch_size: int = 512,
    lr: float = 1e-5,
    temperature: float = 0.05,
    longest: int = 32,
    half: bool = False,
    seed: int = 0,
) -> None:
    """Write a transformer that was trained further by SimCSE on this text to the folder `out`.

    corpus_paths: text as for banyan train, or one folder with a tokenizer.json and the store/ made with it.
    init: where to start from: the folder of `banyan baseline roberta`, any other folder, or a name on the Hub.
    longest: tokens of a sentence; the rest of it is cut off.
    half: write the weights in 16 bits.
    """
    settings = {name: value for name, value in locals().items() if name not in ("corpus_paths", "out", "quiet")}
    settings["text"] = [str(path) for path in corpus_paths]
    if not init:
        raise BanyanError("SimCSE starts from a transformer: --set init=FOLDER")
    manifest, display, place = Manifest("simcse", settings), Display(quiet), devices.choose(device)
    with made(out, manifest) as folder, devices.using(place, False):
        model = load_any(init, device=str(place), precision="float32").model
        with quietly():
            text = tokens.sentences(
                corpus_paths, folder / "training", pieces_of(model.tokenizer), model.tokenizer, display
            )
            about = learn(model, text, epochs, batch_size, lr, temperature, longest, seed, display)
            manifest.about.update(about)
            (model.half() if half else model).save(str(folder), create_model_card=False)
        shutil.rmtree(folder / "training", ignore_errors=True)


def learn(
    model: Any,
    text: tokens.Sentences,
    epochs: float,
    batch_size: int,
    lr: float,
    temperature: float,
    longest: int,
    seed: int,
    display: Display,
) -> dict[str, Any]:
    """Changes the model; what there is to say about it."""
    loss_of = MultipleNegativesRankingLoss(model, scale=1 / temperature)
    optimiser = devices.adam(model.parameters(), lr)
    per_epoch = math.ceil(len(text) / batch_size)
    steps, started, losses = max(round(epochs * per_epoch), 1), time.monotonic(), []
    model.train()
    with display.bar("SimCSE", steps, "steps") as meter:
        for step in range(steps):
            if step % per_epoch == 0:
                batches = tokens.by_length(text.lengths, batch_size, seed, step // per_epoch)
            torch.manual_seed(seed * steps + step)  # dropout's
            for group in optimiser.param_groups:
                group["lr"] = lr * (1 - step / steps)
            loss = _loss(loss_of, model.device, *text.batch(batches[step % per_epoch], longest)[:2])
            optimiser.zero_grad(set_to_none=True)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimiser.step()
            losses.append(loss.item())
            meter(step + 1, None, {"loss": f"{losses[-1]:.4f}"})
    model.eval()
    seconds = round(time.monotonic() - started, 1)
    about = {"steps": steps, "seconds": seconds, "device": devices.described(model.device, "bf16")}
    return {**about, "sentences": len(text), "loss": float(np.mean(losses[-per_epoch:]))}


def _loss(loss_of: Any, device: torch.device, ids: np.ndarray, real: np.ndarray) -> Tensor:
    """Of a batch that goes through the model twice."""
    features = {
        "input_ids": torch.from_numpy(ids).to(device),
        "attention_mask": torch.from_numpy(real.astype(np.int64)).to(device),
    }
    with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
        return loss_of([dict(features), dict(features)], None)


def load(folder: str | Path, *, device: str = "cpu") -> MeanPooled:
    return load_any(str(folder), device=device)
