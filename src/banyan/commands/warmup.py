"""`banyan warmup`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from banyan.commands._parser import Parser
from banyan.commands._shared import MODEL

if TYPE_CHECKING:
    from banyan.encoder import Banyan

GROUP, ORDER = "publish", 5
PURPOSE = "compile what encoding needs, for an image of a container"
DESCRIPTION = (
    "Where Banyan was installed without a C compiler, its first use compiles kernels with Numba, for up to half a "
    "minute. This command compiles them now, and prints the folder that keeps them. With native kernels there is "
    "nothing to do."
)
EXAMPLES = ("banyan warmup", "banyan warmup model/")


def arguments(parser: Parser) -> None:
    default = "default: models like those of the presets default and paper"
    parser.add_argument("model", metavar="MODEL", nargs="?", help=f"{MODEL} ({default})")


def run(options: argparse.Namespace) -> None:
    print(warm_up(options.model))


def warm_up(folder: str | None = None) -> str:
    """Encode, parse and explain a text with a model, or with small ones like those of the presets. Return what was
    compiled, and where it is kept."""
    from banyan.encoder import Banyan
    from banyan.native import kernels

    native = kernels()
    models = [Banyan.from_pretrained(folder)] if folder else [] if native else [_small(False), _small(True)]
    for model in models:
        model.encode(["some are born", "to sweet delight"], normalize=True)
        model.parse("some are born")
        model.explain("some are born", "to sweet delight")
    if native:
        return f"native kernels ({native.INSTRUCTIONS[-1]}): nothing to compile"
    from banyan.tokenizer.kernels import encode

    return f"compiled into {encode.stats.cache_path} and the folders beside it"


def _small(lexical: bool) -> Banyan:
    """A model with random weights: like preset `default` if it has lexical dimensions, else like `paper`."""
    import numpy as np
    from tokenizers import models

    from banyan.config import Config
    from banyan.encoder import Banyan
    from banyan.model.functions import Functions
    from banyan.model.word_ngrams import BUCKETS
    from banyan.tokenizer import Tokenizer
    from banyan.tokenizer.rules import BYTES, START, assemble

    pieces = [*BYTES, START, *"abdeghilmnorstw"]
    model: models.Model
    if lexical:
        model = models.Unigram([(piece, -1.0) for piece in pieces], unk_id=0, byte_fallback=True)
    else:
        model = models.BPE({piece: i for i, piece in enumerate(pieces)}, [], byte_fallback=True)
    config = Config(dim=32, channels=16, lexical_dim=32, lexical_ngrams="words", sublinear_tf=True)
    config = config if lexical else Config(dim=32, channels=16)
    rng = np.random.default_rng(0)
    weights = {name: rng.uniform(-1, 1, config.width).astype(np.float32) for name in Functions._fields}
    weights["embedding"] = rng.normal(size=(len(pieces), config.dim)).astype(np.float32)
    weights["lexical_idf"] = np.ones(BUCKETS, np.uint8)
    return Banyan(config, Tokenizer(assemble(model, True, False)), weights)
