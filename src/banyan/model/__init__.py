"""The model: what is computed, independent of the device.

banyan_model  BanyanModel, the torch module that is trained
graph         trees and entangled graphs, as integers only
functions     composition and decomposition: the seven functions that all channels share
dropout       masks that depend only on the seed, the step and the span
brackets      trees that the user gives in bracket notation
objective     the loss and its parts: reconstruction, contrastive, InfoNCE
crops         the two parts of each sentence, for InfoNCE
initial       initial token vectors: character n-gram sketches and PPMI
leaves        which tokens of a text are leaves when it is encoded
lexical       the lexical dimensions of an embedding
shapes        the names and shapes of weights
weights       read weights from a file and check them
whole_words   words whose pieces merge first
word_ngrams   the n-grams of whole words, from tokens, for the lexical dimensions

Importing this package imports none of its modules. Only BanyanModel, objective and initial need torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from banyan.model.banyan_model import BanyanModel, Passes

__all__ = ["BanyanModel", "Passes"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from banyan.model import banyan_model

    return getattr(banyan_model, name)
