"""mteb: an encoder for its benchmarks, with the metadata that its results need."""

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
        """
        name: "owner/model", the name under which mteb keeps the results. Default: the model's name on the Hub.
        revision: of the model, on the Hub and in the results. Default: a fingerprint of the model, so that the results
            of two models are never mixed.
        languages: such as ["eng-Latn"].
        license: of the weights, such as "apache-2.0"; None if they are not published.
        release_date: of the model, such as "2026-11-15". Default: today.
        training_datasets: names of the mteb tasks on whose texts the model was trained. Default: none.
        """
        self.model = as_model(model, device or "cpu", revision)
        name = name or (str(model) if isinstance(model, str) and is_name(model) else None)
        if name is None or name.count("/") != 1:
            raise BanyanError(f"mteb needs a name of the form owner/model: give name='you/your-model', not {name!r}")
        given = {"name": name, "languages": languages, "license": license, "revision": revision}
        released = release_date or date.today().isoformat()
        try:
            self.mteb_model_meta = _meta(self.model, training_datasets or set(), release_date=released, **given)
        except ValueError as error:  # pydantic's message has several lines
            raise BanyanError(f"mteb does not accept this metadata: {first_line(error)}: {error}") from None

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
        """Encode the batches. Prompts are ignored: the model was not trained with any."""
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
