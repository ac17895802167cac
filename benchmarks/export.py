"""Compare a model with its exports: a bag of tokens (the format of model2vec) and an ONNX graph.

    python -m benchmarks.export model/

Prints Spearman × 100 on the sets of the suite sts, sentences per second from strings to embeddings, and the largest
difference between embeddings of the graph and of the model. The graph is slow and is measured on fewer sentences.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from model2vec import StaticModel

from banyan import Banyan
from banyan.evaluate import suites
from banyan.integrations import export
from experiments.data import add_data_option

Encode = Callable[[Sequence[str]], np.ndarray]
GRAPH_SENTENCES = 500


def of_graph(model: Banyan, folder: Path) -> Encode:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1  # the operations are small
    session = onnxruntime.InferenceSession(folder / export.GRAPH, options, providers=["CPUExecutionProvider"])

    def encode(texts: Sequence[str]) -> np.ndarray:
        tokens, offsets = model.tokenizer.encode(list(texts))
        return session.run(None, {"tokens": tokens.astype(np.int64), "offsets": offsets})[0]

    return encode


def rate(encode: Encode, texts: Sequence[str]) -> float:
    encode(texts[:100])
    started = time.perf_counter()
    encode(texts)
    return len(texts) / (time.perf_counter() - started)


def scores(encode: Encode, data: Path) -> dict[str, float]:
    return {row.task: row.outcome.value for row in suites.run(encode, "sts", data) if row.outcome is not None}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    add_data_option(parser)
    options = parser.parse_args()
    model = Banyan.from_pretrained(options.model)
    paths = [path for task in suites.tasks("sts", options.data) for path in task.paths]
    texts = [line for path in paths for line in path.read_text(encoding="utf-8").splitlines()]
    with tempfile.TemporaryDirectory() as folder:
        export.static(model, Path(folder) / "static")
        lexical = not model.config.hashes_words  # ONNX cannot hash n-grams
        export.onnx(model, Path(folder) / "onnx", lexical)
        bag: Encode = StaticModel.from_pretrained(Path(folder) / "static").encode
        graph = of_graph(model, Path(folder) / "onnx")
        tree_scores, bag_scores = scores(model.encode, options.data), scores(bag, options.data)
        few = texts[:: max(len(texts) // GRAPH_SENTENCES, 1)]
        exact = model.encode(few, truncate_dim=None if lexical else model.config.dim)
        away = np.linalg.norm(graph(few) - exact, axis=1) / np.maximum(np.linalg.norm(exact, axis=1), 1e-9)
        rates = {"tree": rate(model.encode, texts), "bag": rate(bag, texts), "graph": rate(graph, few)}
    for name, value in tree_scores.items():
        print(f"{name:12} tree {value:6.2f}  bag {bag_scores[name]:6.2f}  {bag_scores[name] - value:+6.2f}")
    mean = [float(np.mean(list(found.values()))) for found in (tree_scores, bag_scores)]
    print(f"{'mean':12} tree {mean[0]:6.2f}  bag {mean[1]:6.2f}  {mean[1] - mean[0]:+6.2f}")
    print("sentences/s: " + ", ".join(f"{name} {value:,.0f}" for name, value in rates.items()))
    print(f"graph: the largest relative error of {len(few)} embeddings is {away.max():.1e}")


if __name__ == "__main__":
    main()
