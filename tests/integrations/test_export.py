"""What other programs read: the model as an ONNX graph, exactly, and as a bag of tokens, which is another model."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest

from banyan import Banyan, BanyanError
from banyan.integrations import export
from banyan.training import train
from tests.helpers.corpora import lines
from tests.helpers.models import TEXTS
from tests.helpers.training import SMALL


@pytest.fixture(scope="module")
def linear_folder(corpus, tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("linear") / "model"
    train(corpus, out, preset="self-strae", epochs=1, **SMALL)
    return out


MINILM = {"name": "all-MiniLM-L6-v2", "kind": "hub", "licence": "apache-2.0", "width": 384, "texts": 9300}


def run_onnx(folder: Path, tokens: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = 1
    session = runtime.InferenceSession(folder / "model.onnx", options, providers=["CPUExecutionProvider"])
    return session.run(None, {"tokens": tokens.astype(np.int64), "offsets": offsets})[0]


@pytest.fixture(scope="module")
def taught_folder(lexical_folder, tmp_path_factory) -> Path:
    """A lexical model whose first dimensions are a part of their own."""
    model = Banyan.from_pretrained(lexical_folder)
    model.config = dataclasses.replace(model.config, taught_dim=6)
    model.taught_by = MINILM
    model.save_pretrained(out := tmp_path_factory.mktemp("taught"))
    return out


@pytest.fixture(scope="module")
def whole_folder(lexical_folder, tmp_path_factory) -> Path:
    """The same model, but the pieces of a word merge first and end marks are left out."""
    model = Banyan.from_pretrained(lexical_folder)
    model.config = dataclasses.replace(model.config, whole_words=True, end_marks=False)
    model.save_pretrained(out := tmp_path_factory.mktemp("whole"))
    return out


@pytest.mark.parametrize("kind", ["folder", "lexical_folder", "linear_folder", "taught_folder", "whole_folder"])
def test_the_onnx_graph_makes_the_same_trees(kind, request, tmp_path):
    pytest.importorskip("onnx", reason="onnx is not installed")
    model = Banyan.from_pretrained(request.getfixturevalue(kind))
    export.onnx(model, tmp_path / "onnx")
    repeats = ["the the the cat the the cat", "dog dog dog dog"]
    texts = [*TEXTS, *lines(100, seed=5), *repeats, "(a well-known cat's 19.5.) ..."]
    tokens, offsets = model.tokenizer.encode(texts)
    expected = model.encode(texts)
    np.testing.assert_allclose(run_onnx(tmp_path / "onnx", tokens, offsets), expected, rtol=1e-4, atol=1e-6)
    alone = run_onnx(tmp_path / "onnx", *model.tokenizer.encode(["bird"]))
    np.testing.assert_allclose(alone, model.encode(["bird"]), rtol=1e-6)
    assert run_onnx(tmp_path / "onnx", *model.tokenizer.encode([])).shape == (0, model.dim)


def test_the_onnx_folder_has_a_tokenizer_that_others_read(folder, tmp_path):
    pytest.importorskip("onnx", reason="onnx is not installed")
    import tokenizers

    model = Banyan.from_pretrained(folder)
    export.onnx(model, tmp_path / "onnx")
    theirs = tokenizers.Tokenizer.from_file(str(tmp_path / "onnx/tokenizer.json")).encode_batch(TEXTS)
    offsets = np.cumsum([0, *(len(text.ids) for text in theirs)])
    tokens = np.array([token for text in theirs for token in text.ids])
    np.testing.assert_allclose(run_onnx(tmp_path / "onnx", tokens, offsets), model.encode(TEXTS), rtol=1e-4, atol=1e-6)


def test_the_static_folder_is_read_by_model2vec_and_sentence_transformers(either, tmp_path):
    model = Banyan.from_pretrained(either)
    export.static(model, tmp_path / "static")
    tokens, offsets = model.tokenizer.encode(TEXTS)
    rows = export.token_table(model)[tokens]
    parts = np.split(rows, offsets[1:-1])
    expected = np.array([part.mean(0) if len(part) else np.zeros(model.dim) for part in parts], np.float32)
    for library in ("model2vec", "sentence_transformers"):
        pytest.importorskip(library, reason=f"{library} is not installed")
    from model2vec import StaticModel
    from sentence_transformers import SentenceTransformer

    theirs = StaticModel.from_pretrained(tmp_path / "static")
    np.testing.assert_allclose(theirs.encode(TEXTS), expected, rtol=1e-5, atol=1e-6)
    opened = SentenceTransformer(str(tmp_path / "static"), device="cpu")  # no code of ours: nothing to trust
    np.testing.assert_allclose(opened.encode(TEXTS), expected, rtol=1e-5, atol=1e-6)
    long = " ".join(lines(200))  # nothing is cut off
    whole = export.token_table(model)[model.tokenizer.encode([long])[0]].mean(0)
    np.testing.assert_allclose(theirs.encode(long), whole, rtol=1e-4, atol=1e-5)


def test_one_token_is_the_same_in_a_bag_and_in_a_tree(either):
    model = Banyan.from_pretrained(either)
    table = export.token_table(model)
    tokens, _ = model.tokenizer.encode(["bird"])
    assert len(tokens) == 1
    dim, (row,), (found,) = model.config.dim, table[tokens], model.encode(["bird"])
    for part in (slice(dim), slice(dim, None)):  # of a lexical model each has a length of its own
        longer = np.linalg.norm(row[part]) / (np.linalg.norm(found[part]) or 1)
        np.testing.assert_allclose(row[part], found[part] * longer, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(table[:, : model.config.dim], model.embedding)


def test_an_export_never_overwrites_a_model(folder):
    before = (folder / "config.json").read_text()
    model = Banyan.from_pretrained(folder)
    for write in (export.static, export.onnx):
        with pytest.raises(BanyanError, match="already holds a model: export to another folder"):
            write(model, folder)
    assert (folder / "config.json").read_text() == before


def test_ngrams_of_words_are_not_exported_to_onnx(words_folder, tmp_path, banyan):
    pytest.importorskip("onnx", reason="onnx is not installed")
    model = Banyan.from_pretrained(words_folder)
    with pytest.raises(BanyanError, match=r"ONNX cannot hash .*--no-lexical.* or train with --lexical-ngrams pieces"):
        export.onnx(model, tmp_path / "onnx")
    assert not (tmp_path / "onnx").exists()
    told = banyan("export", words_folder, "--format", "onnx", "-o", tmp_path / "onnx", "--no-lexical")[2]
    assert told == "exported the first 16 dimensions, without the 8 lexical ones\n"
    found = run_onnx(tmp_path / "onnx", *model.tokenizer.encode(TEXTS))
    np.testing.assert_allclose(found, model.encode(TEXTS, truncate_dim=16), rtol=1e-4, atol=1e-6)


def test_an_export_says_who_taught_the_model(taught_folder, tmp_path, banyan):
    onnx = pytest.importorskip("onnx", reason="onnx is not installed")
    for kind in ("onnx", "static"):
        banyan("export", taught_folder, "--format", kind, "-o", tmp_path / kind)
    graph = onnx.load(tmp_path / "onnx" / "model.onnx")
    assert {one.key: json.loads(one.value) for one in graph.metadata_props} == {"taught_by": MINILM}
    assert (tmp_path / "static/taught_by.json").read_bytes() == (taught_folder / "taught_by.json").read_bytes()


def test_a_static_export_without_lexical_dimensions_has_the_others(lexical_folder, tmp_path):
    from safetensors.numpy import load_file

    model = Banyan.from_pretrained(lexical_folder)
    export.static(model, tmp_path, lexical=False)
    table = load_file(tmp_path / "model.safetensors")["embeddings"]
    np.testing.assert_array_equal(table, model.embedding)


def test_trees_that_ask_no_vector_are_not_exported(corpus, tmp_path):
    pytest.importorskip("onnx", reason="onnx is not installed")
    train(corpus, tmp_path / "model", preset="paper", structure="balanced", epochs=1, **SMALL)
    with pytest.raises(BanyanError, match="only models with induced trees can be exported to ONNX, not balanced ones"):
        export.onnx(Banyan.from_pretrained(tmp_path / "model"), tmp_path / "onnx")
    assert not (tmp_path / "onnx").exists()
