"""A trained model in use: vectors, trees, explanations, files; and what it must not import."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import save_file

from banyan import Banyan, BanyanError, Config, reference
from banyan.config import SETTINGS
from banyan.support import checksums
from banyan.tokenizer import Tokenizer
from tests.helpers.batches import functions_of
from tests.helpers.models import SAVED
from tests.helpers.places import ROOT

TEXTS = [
    "Some are born to sweet delight, some are born to endless night.",
    "Every morn and every night some to misery are born.",
    "Homer ate doughnuts.",
    "naïve café, 1234 doughnuts (or so)",
    "नमस्ते दुनिया",
    "a",
]


def model_of(**config) -> Banyan:
    """Random weights, without an output layer: encoding needs none."""
    tokenizer = Tokenizer.train(TEXTS * 3, kind="bpe", vocab_size=420, lowercase=True, zero_digits=True)
    settings, rng = Config(dim=32, channels=8, **config), np.random.default_rng(0)
    functions = functions_of(settings.functions, rng, 4)._asdict()
    embedding = rng.normal(size=(tokenizer.vocab_size, 32))
    weights = {name: v.astype(np.float32) for name, v in {"embedding": embedding, **functions}.items()}
    return Banyan(settings, tokenizer, weights)


@pytest.fixture(scope="module")
def model() -> Banyan:
    return model_of()


@pytest.fixture(
    scope="module",
    params=[{}, {"functions": "linear"}, *({"structure": name} for name in SETTINGS["structure"].choices[1:])],
    ids=str,
)
def any_model(request) -> Banyan:
    """Of every kind."""
    return model_of(**request.param)


@pytest.fixture(scope="module")
def folder(model, tmp_path_factory):
    path = tmp_path_factory.mktemp("model")
    model.save_pretrained(path)
    return path


def test_embeddings_are_the_roots_of_the_reference(any_model):
    model = any_model
    tokens, offsets = model.tokenizer.encode(TEXTS)
    table, structure = model.embedding.astype(np.float64), model.config.structure
    graph = reference.entangle(reference.greedy(tokens, offsets, table, model.functions, structure=structure))
    up = reference.up_pass(graph, table[graph.token], model.functions)
    np.testing.assert_allclose(model.encode(TEXTS), up[graph.root], atol=1e-5)


def test_a_lone_string_gives_one_vector_and_a_list_a_matrix(model):
    assert model.encode("Homer").shape == (32,)
    assert model.encode(["Homer"]).shape == (1, 32)
    assert model.encode([]).shape == (0, 32)
    assert model.encode(text for text in TEXTS).shape == (len(TEXTS), 32)
    assert model.encode(np.array(TEXTS)).dtype == np.float32


@pytest.mark.parametrize("empty", ["", " ", "\t\n \u00a0\u2003"])
def test_nothing_gives_the_zero_vector_and_similarity_0_never_nan(model, empty):
    for normalize in (False, True):
        assert not model.encode(empty, normalize=normalize).any()
        assert not model.encode(["Homer", empty, "ate"], normalize=normalize)[1].any()
    assert model.similarity(empty, "Homer") == 0
    assert model.similarity(empty, empty) == 0
    assert model.explain(empty, "Homer").similarity == 0
    assert len(model.parse(empty)) == 0


def test_what_is_not_a_string_is_a_type_error_naming_its_index(model):
    with pytest.raises(TypeError, match=r"texts\[1\] is NoneType, not str"):
        model.encode(["Homer", None])
    with pytest.raises(TypeError, match=r"texts\[0\] is bytes"):
        model.encode([b"Homer"])
    with pytest.raises(BanyanError, match="batch_size"):
        model.encode(["Homer"], batch_size=0)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.text(max_size=40), min_size=1, max_size=12), st.integers(1, 5))
def test_embedding_does_not_depend_on_batch_mates(model, texts, batch_size):
    together = model.encode(texts, batch_size=batch_size)
    assert np.isfinite(together).all()
    for text, embedding in zip(texts, together, strict=True):
        np.testing.assert_array_equal(model.encode(text), embedding)


def test_embedding_does_not_depend_on_the_number_of_threads(model, monkeypatch):
    texts = [f"{a} {b}" for a in TEXTS for b in TEXTS] * 20
    results = []
    for count in ("1", "2", "7"):
        monkeypatch.setenv("BANYAN_THREADS", count)
        results.append(model.encode(texts))
    np.testing.assert_array_equal(results[0], results[1])
    np.testing.assert_array_equal(results[0], results[2])


def test_a_wrong_number_of_threads_is_named(model, monkeypatch):
    monkeypatch.setenv("BANYAN_THREADS", "many")
    with pytest.raises(BanyanError, match="BANYAN_THREADS must be a positive whole number, not 'many'"):
        model.encode(TEXTS)


def test_encoding_is_safe_from_several_threads_at_once(model):
    texts = [f"{a} {b}" for a in TEXTS for b in TEXTS] * 10
    expected, results = model.encode(texts), [np.empty(0)] * 8

    def encode(i):
        results[i] = model.encode(texts)

    workers = [threading.Thread(target=encode, args=(i,)) for i in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    for result in results:
        np.testing.assert_array_equal(result, expected)


def test_a_progress_bar_changes_nothing_but_what_is_seen(model, capsys):
    texts = TEXTS * 50
    np.testing.assert_array_equal(model.encode(texts, batch_size=1, show_progress_bar=True), model.encode(texts))
    shown = capsys.readouterr()
    assert "encoding" in shown.err
    assert shown.out == ""


def test_normalized_embeddings_have_length_1(model):
    np.testing.assert_allclose(np.linalg.norm(model.encode(TEXTS, normalize=True), axis=1), 1, atol=1e-6)


def test_tokens_encode_as_their_text(model):
    tokens, offsets = model.tokenizer.encode([*TEXTS, ""])
    np.testing.assert_array_equal(model.encode_tokens(tokens, offsets), model.encode([*TEXTS, ""]))
    bad = ([10**6], [0, 1]), ([-1], [0, 1]), ([1, 2], [0, 1]), ([1, 2], [0, 2, 1, 2]), ([], [])
    for bad_tokens, bad_offsets in bad:
        with pytest.raises(BanyanError, match="must"):
            model.encode_tokens(np.array(bad_tokens), np.array(bad_offsets))


def test_similarity_is_the_cosine_of_texts_or_embeddings(model):
    matrix = model.similarity(TEXTS, TEXTS[:2])
    assert matrix.shape == (len(TEXTS), 2)
    assert matrix[0, 0] == pytest.approx(1, abs=1e-6)
    assert model.similarity(TEXTS[0], TEXTS[1]) == pytest.approx(matrix[0, 1], abs=1e-6)
    np.testing.assert_allclose(model.similarity(model.encode(TEXTS), model.encode(TEXTS[:2])), matrix, atol=1e-6)


def test_a_tree_covers_the_text_and_ends_in_its_embedding(any_model):
    model = any_model
    for text in TEXTS:
        tree = model.parse(text)
        n = len(tree.pieces)
        assert len(tree) == 2 * n - 1
        np.testing.assert_array_equal(tree.embeddings[-1], model.encode(text))
        assert tree.phrase(len(tree) - 1) == text
        assert (tree.similarity <= 1).all()
    assert model.parse(TEXTS[0]).root.text == TEXTS[0]
    assert "doughnuts" in str(model.parse("Homer ate doughnuts."))


def test_a_phrase_has_the_embedding_of_its_text_alone(model):
    """Merges inside a span never depend on what is outside."""
    tree = model.parse("some are born to sweet delight")
    compared = 0
    for node in tree:
        starts_word = node.span[0] == 0 or tree.text[node.span[0] - 1] == " " or tree.text[node.span[0]] == " "
        ends_word = node.span[1] == len(tree.text) or tree.text[node.span[1]] == " "
        if starts_word and ends_word:
            np.testing.assert_array_equal(node.embedding, model.encode(node.text))
            compared += 1
    assert compared >= 2


def test_trees_given_in_brackets_are_composed_as_given(model):
    (tree,) = model.parse_brackets("(S (NP (DT the) (NN night)) (VP born))")

    def word(text):  # the pieces of a word merge from the left
        first, *others = model.embedding[model.tokenizer.encode([text])[0]].astype(np.float64)
        for other in others:
            first = reference.compose(first, other, model.functions)
        return first

    noun_phrase = reference.compose(word("the"), word("night"), model.functions)
    expected = reference.compose(noun_phrase, word("born"), model.functions)
    np.testing.assert_allclose(tree.embeddings[-1], expected, atol=1e-5)
    assert tree.phrase(len(tree) - 1) == "the night born"
    phrases = [node.text for node in tree]
    assert "the night" in phrases
    assert "night born" not in phrases
    (bare,) = model.parse_brackets("((the night) born)", labels=False)
    np.testing.assert_array_equal(bare.embeddings, tree.embeddings)
    with pytest.raises(BanyanError, match="line 1"):
        model.parse_brackets("(S (NP the night)")


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(TEXTS), st.sampled_from(TEXTS))
def test_an_explanation_sums_to_the_cosine(any_model, a, b):
    model = any_model
    explanation = model.explain(a, b)
    assert explanation.matrix.shape == (len(model.parse(a).pieces) + 1, len(model.parse(b).pieces) + 1)
    assert explanation.matrix.sum() == pytest.approx(model.similarity(a, b), abs=1e-5)
    assert explanation.rows[-1] == explanation.columns[-1] == "bias"


def test_the_names_of_sentence_transformers_work(model):
    torch = pytest.importorskip("torch")
    expected = model.encode(TEXTS, normalize=True)
    np.testing.assert_array_equal(model.encode(TEXTS, normalize_embeddings=True), expected)
    np.testing.assert_array_equal(model.encode(TEXTS, normalize_embeddings=False), model.encode(TEXTS))
    found = model.encode(TEXTS, normalize_embeddings=True, convert_to_tensor=True)
    assert isinstance(found, torch.Tensor)
    np.testing.assert_array_equal(found.numpy(), expected)
    assert model.encode(TEXTS[0], convert_to_tensor=True).shape == (model.dim,)
    assert model.encode([], convert_to_tensor=True).shape == (0, model.dim)


def test_two_names_of_one_argument_may_not_differ(model):
    with pytest.raises(BanyanError, match=r"normalize=True and normalize_embeddings=False differ: .* leave one out"):
        model.encode(TEXTS, normalize=True, normalize_embeddings=False)
    expected = model.encode(TEXTS, normalize=True)
    np.testing.assert_array_equal(model.encode(TEXTS, normalize=True, normalize_embeddings=True), expected)


def test_a_tensor_needs_torch(model, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(BanyanError, match="convert_to_tensor=True needs torch"):
        model.encode("a cat", convert_to_tensor=True)


def test_a_saved_model_is_the_same_model(any_model, tmp_path):
    any_model.save_pretrained(tmp_path)
    loaded = Banyan.from_pretrained(tmp_path)
    np.testing.assert_array_equal(loaded.encode(TEXTS), any_model.encode(TEXTS))
    assert loaded.config == any_model.config
    assert {path.name for path in tmp_path.iterdir()} == SAVED
    assert set(checksums.read(tmp_path / checksums.SUMS)) == SAVED - {checksums.SUMS}
    assert not list(checksums.damaged(tmp_path / checksums.SUMS))


@pytest.mark.parametrize("missing", ["config.json", "model.safetensors", "tokenizer.json"])
def test_an_incomplete_folder_is_named(model, tmp_path, missing):
    model.save_pretrained(tmp_path)
    (tmp_path / missing).unlink()
    with pytest.raises(BanyanError, match=f"is not a finished model: it has no {missing}"):
        Banyan.from_pretrained(tmp_path)
    with pytest.raises(BanyanError, match="there is no model folder"):
        Banyan.from_pretrained(tmp_path / "nowhere")


def test_damaged_or_mixed_files_are_named(model, tmp_path):
    model.save_pretrained(tmp_path)
    (tmp_path / checksums.SUMS).unlink()
    weights = (tmp_path / "model.safetensors").read_bytes()
    (tmp_path / "model.safetensors").write_bytes(weights[: len(weights) // 2])
    with pytest.raises(BanyanError, match=r"cannot read .*model\.safetensors"):
        Banyan.from_pretrained(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(weights)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, "dim": 64}))
    with pytest.raises(BanyanError, match="embedding has shape"):
        Banyan.from_pretrained(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps({**config, "functions": "linear"}))
    with pytest.raises(BanyanError, match=r"comp_l has shape \(4,\), not \(4, 4\)"):
        Banyan.from_pretrained(tmp_path)


def test_a_file_of_a_newer_version_says_so(model, tmp_path):
    model.save_pretrained(tmp_path)
    (tmp_path / checksums.SUMS).unlink()
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, "format": "99", "banyan_version": "9.0"}))
    with pytest.raises(BanyanError, match=r"written by banyan 9\.0 in format 99; .* upgrade banyan-embed"):
        Banyan.from_pretrained(tmp_path)


def test_weights_of_a_newer_version_say_so(model, tmp_path):
    model.save_pretrained(tmp_path)
    head = json.dumps({"format": "99", "banyan_version": "9.0"})
    save_file(model.weights, tmp_path / "model.safetensors", metadata={"banyan": head})
    with pytest.raises(BanyanError, match=r"model\.safetensors was written by banyan 9\.0 in format 99"):
        Banyan.from_pretrained(tmp_path)


WITHOUT = """
import sys
for name in ("torch", "rich", "matplotlib", "scipy", "sklearn", "pyarrow", "pandas"):
    sys.modules[name] = None  # importing it is an error
import banyan
assert "numba" not in sys.modules and "numpy" not in sys.modules, "import banyan is to be quick"
model = banyan.Banyan.from_pretrained(sys.argv[1])
assert model.encode(["some are born", ""]).shape == (2, 32)
model.parse("some are born").to_svg()
model.explain("some are born", "to sweet delight")
"""


def test_encoding_needs_only_numpy_numba_tokenizers_and_safetensors(folder):
    subprocess.run([sys.executable, "-c", WITHOUT, folder], check=True)


def test_an_output_that_is_a_pipe_or_a_link_is_written_through(tmp_path):
    from banyan.support.files import write_text

    (tmp_path / "target").write_text("old")
    (tmp_path / "link").symlink_to(tmp_path / "target")
    write_text(tmp_path / "link", "new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "target").read_text() == "new"
    write_text("/dev/null", "nothing")
    assert not Path("/dev/null").is_file()


@pytest.mark.slow
def test_a_machine_where_no_cache_can_be_kept_still_encodes(folder, tmp_path):
    """Neither beside the source nor in a home: kernels are kept in a temporary folder."""
    source = ROOT / "src" / "banyan"
    shutil.copytree(source, tmp_path / "banyan", ignore=shutil.ignore_patterns("__pycache__"))
    for folder_of_source in [path for path in (tmp_path / "banyan").rglob("*") if path.is_dir()]:
        (folder_of_source / "__pycache__").touch()  # so that no folder of that name can be made
    environment = {"PATH": "", "HOME": "/proc/none", "PYTHONPATH": str(tmp_path), "TMPDIR": str(tmp_path)}
    environment["BANYAN_KERNELS"] = "numba"  # native kernels keep nothing
    code = "import sys, banyan; print(banyan.Banyan.from_pretrained(sys.argv[1]).encode('some are born').shape)"
    done = subprocess.run(
        [sys.executable, "-c", code, folder], env=environment, check=True, capture_output=True, text=True
    )
    assert done.stdout == "(32,)\n"
    assert list(tmp_path.glob("banyan-numba-*/**/*.nbi"))
