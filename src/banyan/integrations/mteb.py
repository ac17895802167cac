"""mteb: a Banyan as an encoder of its benchmarks, with all the metadata that its results ask for."""

from __future__ import annotations

import math
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from banyan._version import __version__
from banyan.errors import BanyanError, first_line
from banyan.integrations import as_model
from banyan.integrations.hub import is_name
from banyan.support.needs import needs

with needs("BanyanEncoder"):
    from mteb.models import ModelMeta
    from mteb.models.abs_encoder import AbsEncoder
    from mteb.models.model_meta import ScoringFunction

if TYPE_CHECKING:
    from banyan.encoder import Banyan

_CODE = "https://pypi.org/project/banyan-embed/"
_CITATION = """@inproceedings{opper2025banyan,
  title = {Banyan: Improved Representation Learning with Explicit Structure},
  author = {Opper, Mattia and Siddharth, N.},
  booktitle = {Proceedings of the 42nd International Conference on Machine Learning},
  year = {2025}
}"""


class BanyanEncoder(AbsEncoder):
    """`mteb.evaluate(BanyanEncoder("model/", name="me/my-model", languages=["hau-Latn"]), tasks)`."""

    def __init__(
        self,
        model: Banyan | str | Path,
        revision: str | None = None,
        *,
        name: str | None = None,
        languages: list[str] | None = None,
        license: str | None = None,
        release_date: str | None = None,
        training_datasets: set[str] | None = None,
        device: str = "cpu",
        **kwargs: Any,
    ) -> None:
        """name: "owner/model", under which results are kept; of a model from the Hub, its own.
        languages: as "eng-Latn". license: as "apache-2.0", if the weights are published under one.
        release_date: of the model, "2026-11-15"; without, today. training_datasets: names of mteb's tasks whose texts
        the model was trained on; without, none is.
        revision: on the Hub, and of results; without, a fingerprint of the weights, so that another model never passes
        for this one."""
        self.model = as_model(model, device or "cpu", revision)
        name = name or (str(model) if isinstance(model, str) and is_name(model) else None)
        if name is None or name.count("/") != 1:
            raise BanyanError(f"mteb keeps results under owner/model: say name='you/your-model', not {name!r}")
        given = {"name": name, "languages": languages, "license": license, "revision": revision}
        released = release_date or date.today().isoformat()
        try:
            self.mteb_model_meta = _meta(self.model, training_datasets or set(), release_date=released, **given)
        except ValueError as error:  # of pydantic, several lines
            raise BanyanError(f"mteb does not accept this about the model: {first_line(error)}: {error}") from None

    def encode(
        self,
        inputs: Any,
        *,
        task_metadata: Any = None,
        hf_split: str | None = None,
        hf_subset: str | None = None,
        prompt_type: Any = None,
        **kwargs: Any,
    ) -> np.ndarray:
        """Batches as they come; prompts are for models that were taught to follow them."""
        texts = [text for batch in inputs for text in batch["text"]]
        return self.model.encode(texts, show_progress_bar=kwargs.get("show_progress_bar"))


def _meta(model: Banyan, trained_on: set[str], **given: Any) -> ModelMeta:
    rows = [model.weights[name] for name in ("embedding", "lexical") if name in model.weights]
    composing = sum(function.size for function in model.functions[:3])
    return ModelMeta(
        **{
            **given,
            "revision": given["revision"] or model.fingerprint(),
            "loader": BanyanEncoder,
            "n_parameters": sum(array.size for array in rows) + composing,
            "n_embedding_parameters": sum(array.size for array in rows),
            "memory_usage_mb": sum(array.nbytes for array in rows) / 2**20,
            "max_tokens": math.inf,
            "embed_dim": model.dim,
            "open_weights": given["license"] is not None,
            "public_training_code": _CODE,
            "public_training_data": None,
            "framework": ["NumPy", "safetensors"],
            "reference": None,
            "similarity_fn_name": ScoringFunction.COSINE,
            "use_instructions": False,
            "training_datasets": trained_on,
            "adapted_from": None,
            "modalities": ["text"],
            "model_type": ["dense"],
            "citation": _CITATION,
            "experiment_kwargs": {"banyan_embed": __version__, "preset": model.config.preset},
        }
    )
