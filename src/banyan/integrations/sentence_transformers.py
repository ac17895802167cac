"""sentence-transformers: a Banyan as the first module of a SentenceTransformer, for encoding and for fine-tuning.

`Banyan.from_pretrained` reads the folders that sentence-transformers saves.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import tokenizers

from banyan.encoder import SETTINGS, TAUGHT_BY, TOKENIZER, WEIGHTS, Banyan
from banyan.errors import BanyanError
from banyan.integrations import as_model, opening
from banyan.support.needs import needs

with needs("BanyanModule"):
    import torch
    from sentence_transformers.base.modules import InputModule
    from torch import Tensor

    from banyan.model import BanyanModel

_ENCODES = ("embedding", "comp_l", "comp_r", "comp_b")  # the weights that encoding uses


class BanyanModule(InputModule):
    """`SentenceTransformer(modules=[BanyanModule("model/")])`.

    Without gradients, its output is that of `Banyan.encode`, bit for bit. It is computed on the CPU, even if the model
    is on another device. With gradients, trees are induced as usual, and gradients reach the token embeddings and the
    composition function. Lexical dimensions and weights that only pretraining uses do not change.
    """

    def __init__(self, model: Banyan | str | Path) -> None:
        super().__init__()
        self._banyan = as_model(model)
        config = replace(self._banyan.config, objective="contrastive", lexical_dim=0)  # the part that learns
        self.trees = BanyanModel(config, len(self._banyan.embedding))
        for name, parameter in self.trees.named_parameters():
            parameter.data = torch.from_numpy(self._banyan.weights[name].copy())
            parameter.requires_grad_(name in _ENCODES)
        self._seen: object = self._state()
        self.tokenizer = tokenizers.Tokenizer.from_str(self._banyan.tokenizer.to_json())

    @property
    def banyan(self) -> Banyan:
        """A Banyan with the current weights, for example to show the trees of a fine-tuned model."""
        state = self._state()
        if self.training or state != self._seen:
            weights = {name: p.detach().cpu().numpy().copy() for name, p in self.trees.named_parameters()}
            old = self._banyan
            self._banyan = Banyan(old.config, old.tokenizer, {**old.weights, **weights})
            self._banyan.taught_by = old.taught_by
            self._seen = state
        return self._banyan

    def _state(self) -> object:
        """Changes when a weight changes, except for optimizers that do not increase the version of a tensor."""
        return [(parameter.data_ptr(), parameter._version) for parameter in self.trees.parameters()]

    def train(self, mode: bool = True) -> Self:
        self._seen = None  # read the weights again before encoding
        return super().train(mode)

    # --- What sentence-transformers calls -----------------------------------------------------------------------------

    @property
    def max_seq_length(self) -> float:
        return math.inf

    def get_embedding_dimension(self) -> int:
        return self._banyan.dim

    def preprocess(self, inputs: Sequence[Any], prompt: str | None = None, **kwargs: Any) -> dict[str, Any]:
        """Padded tokens and their attention mask, which every loss can split into mini-batches."""
        for text in inputs:
            if not isinstance(text, str):
                raise BanyanError(f"texts must be strings, not {type(text).__name__}")
        texts = [(prompt or "") + text for text in inputs]
        tokens, offsets = self._banyan.tokenizer.encode(texts)
        lengths = np.diff(offsets)
        real = np.arange(lengths.max(initial=0)) < lengths[:, None]
        ids = np.zeros(real.shape, np.int64)
        ids[real] = tokens
        return {"input_ids": torch.from_numpy(ids), "attention_mask": torch.from_numpy(real.astype(np.int64))}

    def forward(self, features: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        real = features["attention_mask"].bool()
        device = self.trees.embedding.device
        tokens = features["input_ids"][real].cpu().numpy().astype(np.int32)
        offsets = np.append(0, real.sum(1).cumsum(0).cpu().numpy())
        learns = torch.is_grad_enabled() and any(parameter.requires_grad for parameter in self.trees.parameters())
        embed = self._with_gradients if learns else self._without
        features["sentence_embedding"] = embed(tokens, offsets).to(device)
        return features

    def _without(self, tokens: np.ndarray, offsets: np.ndarray) -> Tensor:
        return torch.from_numpy(self.banyan.encode_tokens(tokens, offsets))

    def _with_gradients(self, tokens: np.ndarray, offsets: np.ndarray) -> Tensor:
        self._seen = None  # an optimizer step may follow
        config, device = self._banyan.config, self.trees.embedding.device
        lexical = self._banyan.encode_tokens(tokens, offsets)[:, config.dim :] if config.lexical_dim else None
        tokens, offsets, joined = self._banyan.leaf_choice.leaves(tokens, offsets)
        some = np.flatnonzero(np.diff(offsets))
        learnt = torch.zeros(len(offsets) - 1, config.dim, device=device)
        if len(some):
            graph = self.trees.structure(tokens, np.append(offsets[some], len(tokens)), joined=joined)
            learnt = learnt.index_copy(0, torch.from_numpy(some).to(device), self.trees(graph).roots)
        if lexical is None and not config.taught_dim:
            return learnt
        trained = [part for part in config.parts if part[1] <= config.dim]
        parts = [norm * torch.nn.functional.normalize(learnt[:, first:end]) for first, end, norm in trained]
        return torch.cat([*parts, *([] if lexical is None else [torch.from_numpy(lexical).to(device)])], 1)

    def get_config_dict(self) -> dict[str, Any]:
        return {"dim": self._banyan.dim, "vocabulary": len(self._banyan.embedding)}

    def save(self, output_path: str, *args: Any, safe_serialization: bool = True, **kwargs: Any) -> None:
        self.banyan.save_pretrained(output_path)
        opening.remove(Path(output_path))  # sentence-transformers writes modules.json itself, with all modules

    @classmethod
    def load(
        cls,
        model_name_or_path: str,
        subfolder: str = "",
        token: bool | str | None = None,
        cache_folder: str | None = None,
        revision: str | None = None,
        local_files_only: bool = False,
        init_defaults: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> Self:
        where = (subfolder, token, cache_folder, revision, local_files_only)
        paths = [cls.load_file_path(model_name_or_path, name, *where) for name in (SETTINGS, WEIGHTS, TOKENIZER)]
        if None in paths:
            raise BanyanError(f"{model_name_or_path} is not a finished Banyan model, or it cannot be reached")
        cls.load_file_path(model_name_or_path, TAUGHT_BY, *where)  # downloaded too, if the model has one
        return cls(Path(str(paths[0])).parent)
