"""Banyan: sentence embeddings trained on your own text. `import banyan` imports neither torch nor numba.

encoder       Banyan: load a model, encode, compare, parse and explain texts
folders       the files of a model folder, and whether its training is finished
encoding      encode whole files; find the most similar rows of files
formats       the files that encoding writes
block_sums    checksums of these files
fingerprints  digits that tell models apart
dedup         near-duplicates of files
compact       truncated, int8 and binary embeddings
tree          Tree: what Banyan.parse returns, and its drawings
explanation   Explanation: what Banyan.explain returns
contributions what each token contributes to an embedding
config        Config: every setting of a model and its training, declared once
errors        BanyanError
reference     the paper's algorithms and their gradients in plain NumPy

support       files, threads, devices, display, drawings
corpus        read text of any format as sentences or rows; the tokenised store
tokenizer     train, load and run subword tokenizers
model         trees and graphs, the composition functions, the objectives, initialisation
native        the encoder in C, if it was built
backends      the kernels: native, Numba, torch, Triton
teachers      vectors of a teacher, for a student to learn from
training      train(): runs, checkpoints, metrics, several processes, model card
tuning        tune a trained model on texts that belong together; measure whether it paid
classify      classifiers on top of a model: train, predict, explain
evaluate      similarity, retrieval and classification with confidence intervals
search        an index on disk, search, clusters, maps
serve         the HTTP server
scale         encode folders of Parquet shards on many machines
baselines     other models to compare with: TF-IDF, GloVe, fastText, SimCSE, ...
integrations  scikit-learn, sentence-transformers, LangChain, the Hugging Face hub, ONNX, ...
explorer      the page of `banyan explore`, and maps in one file
demo          banyan demo, on the text that comes with Python
commands      the command line, one file per command
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from banyan._version import __version__

if TYPE_CHECKING:
    from banyan.config import Config
    from banyan.encoder import Banyan
    from banyan.errors import BanyanError
    from banyan.training import train
    from banyan.tuning import tune

__all__ = ["Banyan", "BanyanError", "Config", "__version__", "train", "tune"]

_HOMES = {
    "Banyan": "banyan.encoder",
    "BanyanError": "banyan.errors",
    "Config": "banyan.config",
    "train": "banyan.training",
    "tune": "banyan.tuning",
}


if not TYPE_CHECKING:  # or every name would be one of the package to a type checker

    def __getattr__(name: str) -> Any:
        if name not in _HOMES:
            raise AttributeError(f"module 'banyan' has no attribute {name!r}")
        from importlib import import_module

        return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
