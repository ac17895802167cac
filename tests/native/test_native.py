"""The native kernels: the same pieces, trees and vectors as those in Numba and as the reference, and safe tables."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from tokenizers import models

from banyan import Banyan, native, reference
from banyan.backends._native import Encoder
from banyan.config import SETTINGS, Config
from banyan.errors import BanyanError
from banyan.model.functions import Functions
from banyan.model.graph import kept_occurrences
from banyan.model.word_ngrams import BUCKETS
from banyan.tokenizer import Tokenizer
from banyan.tokenizer.lookup import Native, Numba
from banyan.tokenizer.ours import ours
from banyan.tokenizer.rules import assemble
from tests.helpers.batches import functions_of
from tests.helpers.corpora import lines

kernels = native.kernels()
if kernels is None:
    pytest.skip("the native kernels are not built", allow_module_level=True)

ROUNDING = 1e-6  # Numba adds numbers in an order of its own
TEXTS = [
    *lines(60),
    *("", " ", "a", "the the the the the the the the king and the king and the king", "x" * 300, "1984 7:30 (2017)"),
    *("naïve café ½ “quoted” … don't", "e\u0301 o\u0323\u0301 \ud800 \U0010ffff", "जम्मू क्षेत्र 👩‍👧 ❤️ 가 \u1100\u1161"),
    "a\x00b",
    "word " * 3000 + "end",
]
PAPER = {"preset": "paper", "subword_model": "bpe"}
DEFAULT = {"subword_model": "unigram", "sublinear_tf": True, "lexical_dim": 24, "lexical_ngrams": "words"}
DEFAULT |= {"end_marks": False}
KINDS = {
    "paper": PAPER,
    "default": DEFAULT,
    "roots": DEFAULT | {"lexical_root": True},
    "lexical pieces": DEFAULT | {"lexical_ngrams": "pieces", "subword_model": "bpe"},
    "every word": PAPER | {"end_marks": False},
    "whole words": DEFAULT | {"whole_words": True},
    "taught": DEFAULT | {"taught_dim": 8, "lexical_dim": 7},
    "linear": PAPER | {"functions": "linear"},
    "wide": PAPER | {"dim": 320, "channels": 160},
    "odd sizes": PAPER | {"dim": 45, "channels": 9, "sublinear_tf": True},
}


def made(settings: dict) -> tuple[Config, Tokenizer, dict[str, np.ndarray]]:
    config = Config(**({"dim": 48, "channels": 24} | {k: v for k, v in settings.items() if k != "preset"}))
    kind = config.subword_model
    tokenizer = Tokenizer.train([*lines(400), *TEXTS], kind=kind, vocab_size=700, zero_digits=False)
    rng = np.random.default_rng(7)
    weights = {"embedding": rng.normal(size=(tokenizer.vocab_size, config.dim)).astype(np.float32)}
    gate = (config.width,) * (2 if config.functions == "linear" else 1)
    for name in Functions._fields:
        shape = gate if name in ("comp_l", "comp_r", "decomp_l", "decomp_r") else (config.width,)
        weights[name] = (rng.uniform(-0.5, 0.5, shape) / len(gate)).astype(np.float32)
    weights["lexical_idf"] = rng.integers(4, 46, BUCKETS).astype(np.uint8)
    weights["lexical"] = rng.integers(-90, 90, (tokenizer.vocab_size, config.lexical_dim)).astype(np.int8)
    return config, tokenizer, weights


def both(settings: dict, monkeypatch: pytest.MonkeyPatch) -> tuple[Banyan, Banyan]:
    config, tokenizer, weights = made(settings)
    found = []
    for name, kind in (("native", Native), ("numba", Numba)):
        monkeypatch.setenv("BANYAN_KERNELS", name)
        model = Banyan(config, Tokenizer.from_json(tokenizer.to_json()), weights)
        assert isinstance(model.tokenizer._fast, kind)
        found.append(model)
    monkeypatch.delenv("BANYAN_KERNELS")
    return found[0], found[1]


def assert_close(a: np.ndarray, b: np.ndarray) -> None:
    np.testing.assert_allclose(a, b, atol=ROUNDING, rtol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_both_kernels_give_the_same_pieces_trees_and_vectors(kind, monkeypatch):
    ours, theirs = both(KINDS[kind], monkeypatch)
    for a, b in zip(ours.tokenizer.encode(TEXTS), theirs.tokenizer.encode(TEXTS), strict=True):
        np.testing.assert_array_equal(a, b)
    options: list[dict] = [{}, {"normalize": True}, {"truncate_dim": 11}, {"truncate_dim": 11, "normalize": True}]
    for option in options:
        assert_close(ours.encode(TEXTS, **option), theirs.encode(TEXTS, **option))
    for precision, most in (("int8", 1), ("binary", 0)):
        a, b = (model.encode(TEXTS[:60], precision=precision).astype(np.int64) for model in (ours, theirs))
        assert np.abs(a - b).max() <= most
    tokens, offsets = ours.tokenizer.encode(TEXTS)
    np.testing.assert_array_equal(ours.encode_tokens(tokens, offsets), ours.encode(TEXTS))
    for text in TEXTS[:-1]:
        a, b = ours.parse(text), theirs.parse(text)
        np.testing.assert_array_equal(a.children, b.children)
        assert_close(a.embeddings, b.embeddings)
        assert_close(ours.encode(text), theirs.encode(text))


@pytest.mark.parametrize("kind", ["paper", "default", "taught"])
def test_vectors_do_not_depend_on_what_their_memory_held(kind, monkeypatch):
    models = both(KINDS[kind], monkeypatch)
    options: list[dict] = [{}, {"truncate_dim": 11, "normalize": True}]
    expected = [model.encode(TEXTS, **option) for model in models for option in options]
    empty = np.empty

    def poisoned(shape: tuple[int, ...], dtype: type = float) -> np.ndarray:
        array = empty(shape, dtype)
        array.fill(np.nan if array.dtype.kind == "f" else 0)
        return array

    monkeypatch.setattr(np, "empty", poisoned)
    found = [model.encode(TEXTS, **option) for model in models for option in options]
    for a, b in zip(expected, found, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("structure", SETTINGS["structure"].choices)
@pytest.mark.parametrize(("kind", "U"), [("diagonal", 2), ("diagonal", 5), ("linear", 4)])
def test_roots_are_those_of_the_reference(structure, kind, U):
    rng = np.random.default_rng(3)
    offsets = np.concatenate([[0], np.cumsum(rng.integers(1, 150, 30))])
    tokens, embedding = rng.integers(0, 200, offsets[-1]).astype(np.int32), rng.normal(size=(200, 40))
    f = functions_of(kind, rng, U)
    out = np.zeros((30, 40), np.float32)
    encoder = Encoder(kernels, embedding.astype(np.float32), f, structure)
    encoder.roots(tokens, offsets, out)
    forest = reference.greedy(tokens, offsets, embedding.astype(np.float32).astype(np.float64), f, structure=structure)
    graph = reference.entangle(forest)
    up = reference.up_pass(graph, embedding[graph.token], f)
    np.testing.assert_allclose(out, up[graph.root], atol=1e-4)


def test_every_instruction_set_gives_the_same_bits(monkeypatch):
    for settings in (DEFAULT, KINDS["linear"], KINDS["odd sizes"]):
        config, tokenizer, weights = made(settings)
        try:
            found = []
            for name in kernels.INSTRUCTIONS:
                kernels.use(name)
                found.append(Banyan(config, tokenizer, weights).encode(TEXTS))
        finally:
            kernels.use(kernels.INSTRUCTIONS[-1])
        for other in found[1:]:
            np.testing.assert_array_equal(found[0], other)


def test_kept_occurrences_are_those_of_numba(monkeypatch):
    rng = np.random.default_rng(0)
    tokens, offsets = rng.integers(0, 9, 3000).astype(np.int32), np.array([0, 0, 5, 1400, 1400, 3000])
    found = kept_occurrences(tokens, offsets)
    monkeypatch.setenv("BANYAN_KERNELS", "numba")
    np.testing.assert_array_equal(found, kept_occurrences(tokens, offsets))


# --- Files of our own ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lowercase", [False, True])
@pytest.mark.parametrize("zero_digits", [False, True])
def test_our_tokenizers_are_recognised_without_the_library(lowercase, zero_digits):
    for kind in ("bpe", "unigram"):
        trained = Tokenizer.train(lines(100), kind=kind, vocab_size=400, lowercase=lowercase, zero_digits=zero_digits)
        found = ours(json.loads(trained.to_json()))
        assert found is not None
        assert found.settings == (lowercase, zero_digits)
        assert found.pieces == Tokenizer(trained._tokenizers).pieces
        assert Tokenizer.from_json(trained.to_json()).to_json() == trained.to_json()
    assert ours(json.loads(assemble(models.BPE(), lowercase, zero_digits).to_str())) is None  # it has no pieces


CHANGES = [
    lambda state: state.update(version="2.0"),
    lambda state: state.update(more=1),
    lambda state: state["decoder"].update(type="Fuse"),
    lambda state: state["normalizer"]["normalizers"].pop(),
    lambda state: state["model"].update(unk_id=10**6),
    lambda state: state["model"].update(unk_id=None),
    lambda state: state["model"].update(byte_fallback=False),
    lambda state: state["model"]["vocab"].pop(5),
    lambda state: state["model"]["vocab"].append(state["model"]["vocab"][300]),
    lambda state: state["model"]["vocab"].append(["\ud800", -1.0]),
    lambda state: state["model"]["vocab"].append([5, -1.0]),
    lambda state: state["model"]["vocab"].append(["a piece"]),
]


@pytest.mark.parametrize("change", CHANGES)
def test_a_file_that_differs_from_ours_is_left_to_the_library(change):
    state = json.loads(Tokenizer.train(lines(100), kind="unigram", vocab_size=400).to_json())
    assert ours(state)
    change(state)
    assert ours(state) is None
    with suppress(BanyanError):  # the library may not take it either
        assert Tokenizer.from_json(json.dumps(state))._fast is None


def test_words_that_one_character_becomes_are_not_left_to_the_library():
    tokenizer = Tokenizer.train(lines(100), vocab_size=400)
    fast = tokenizer._fast
    assert isinstance(fast, Native)
    for text in ("\ufdfa" * 1000, "a " * 2040 + "\ufdfa" * 3, "x " + "\ufdfa" * 455 + " end", "\ufdfa" * 228):
        tokens, counts = fast.encode([text])
        assert counts.tolist() == [len(tokens)]
        assert tokens.tolist() == tokenizer._tokenizers.encode(text, add_special_tokens=False).ids


@pytest.mark.parametrize("first", [0x4E00, 0x9F90, 0xAC00, 0xD790])
def test_letters_that_are_loaded_at_once_have_the_entries_that_the_library_gives(first):
    fast = Tokenizer.train([*lines(50), *(chr(code) * 3 for code in range(first, first + 3))], vocab_size=400)._fast
    assert isinstance(fast, Native)
    characters = fast._characters
    characters.learn([first // 16])
    page = int(characters.known.pages[first // 16])
    expected = characters._entries([chr(code) for code in range(first, first + 16)], [])
    assert characters.known.entries[page * 16 : page * 16 + 16].tolist() == expected


# --- Safety ----------------------------------------------------------------------------------------------------------


def test_wrong_tables_are_refused_and_not_read():
    tokenizer = Tokenizer.train(lines(100), vocab_size=400)
    fast = tokenizer._fast
    assert isinstance(fast, Native)
    known = fast._characters.known
    n = tokenizer.vocab_size
    for wrong in (
        {"pages": known.pages[:-1]},
        {"pages": np.where(known.pages == 3, 10**6, known.pages)},
        {"pages": known.pages.astype(np.int64)},
        {"entries": known.entries[:100]},
        {"entries": np.where(np.arange(len(known.entries)) == 70, n | 1 << 32, known.entries)},
        {"entries": np.where(np.arange(len(known.entries)) == 70, 5 | 5 << 32 | 31 << 35, known.entries)},
    ):
        with pytest.raises((ValueError, TypeError)):
            kernels.Characters(*known._replace(**wrong), n)
    with pytest.raises(ValueError, match="out of range"):
        kernels.Characters(*known, 3)
    trees = kernels.Trees(np.ones((5, 4), np.float32), *[np.ones(4, np.float32)] * 3, 4, 2, False, 0)
    out = np.zeros((2, 4), np.float32)
    good = np.array([1, 4, 0], np.int32), np.array([0, 2, 3]), out, 0, 2, None
    trees.roots(*good)
    assert out.all()
    for place, value in (
        (0, np.array([1, 5, 0], np.int32)),
        (0, np.array([1, -1, 0], np.int32)),
        (1, np.array([0, 3, 2])),
        (1, np.array([0, 2, 4])),
        (1, np.array([-1, 2, 3])),
        (2, np.zeros((2, 3), np.float32)),
        (2, np.zeros((2, 4), np.float64)),
        (3, -1),
        (4, 3),
        (5, np.zeros(2, np.bool_)),
        (5, np.zeros(3, np.int32)),
    ):
        with pytest.raises((ValueError, TypeError)):
            trees.roots(*(value if i == place else given for i, given in enumerate(good)))
    with pytest.raises(ValueError, match="out of range"):
        trees.compose(np.array([[0, 2]], np.int32), np.zeros((3, 4), np.float32))
    with pytest.raises(ValueError, match="out of range"):
        kernels.Trees(np.ones((5, 4), np.float32), *[np.ones(3, np.float32)] * 3, 4, 2, False, 0)
    with pytest.raises(TypeError, match="text 1 is int, not a string"):
        kernels.split(fast.pieces, fast.characters, ["a", 5], np.zeros(0x11000, np.uint8))


def test_characters_of_a_larger_vocabulary_are_refused():
    small, large = (Tokenizer.train(lines(100), vocab_size=size)._fast for size in (300, 400))
    assert isinstance(small, Native)
    assert isinstance(large, Native)
    with pytest.raises(ValueError, match="out of range"):
        kernels.split(small.pieces, large.characters, ["a cat"], np.zeros(0x11000, np.uint8))


def test_a_text_none_of_whose_tokens_count_gets_zeros():
    fast = Tokenizer.train(lines(100), vocab_size=400)._fast
    assert isinstance(fast, Native)
    trees = kernels.Trees(np.ones((400, 4), np.float32), *[np.ones(4, np.float32)] * 3, 4, 2, False, 0)
    out, left, missing = np.ones((3, 4), np.float32), np.zeros(3, np.uint8), np.zeros(0x11000, np.uint8)
    second = np.array([2])  # the first occurrence of a token does not count
    none, texts = np.empty(0, np.uint8), ["the", "the the the", ""]
    kernels.embed(fast.pieces, fast.characters, trees, None, 4, second, none, none, texts, out, left, missing)
    assert not out[[0, 2]].any()
    assert out[1].any()


# --- The choice ------------------------------------------------------------------------------------------------------


def test_the_environment_chooses_the_kernels(monkeypatch):
    monkeypatch.setenv("BANYAN_KERNELS", "numba")
    assert native.kernels() is None
    monkeypatch.setenv("BANYAN_KERNELS", "fast")
    with pytest.raises(BanyanError, match="BANYAN_KERNELS must be one of native, numba, not 'fast'"):
        native.kernels()
    monkeypatch.setenv("BANYAN_KERNELS", "native")
    monkeypatch.setattr(native, "_compiled", lambda: None)
    with pytest.raises(BanyanError, match="BANYAN_KERNELS is native, but those kernels are not built"):
        native.kernels()


def test_encoding_comparing_and_info_import_nothing_slow(model_folder):
    program = (
        "import sys\nfrom banyan.commands import main\n"
        "main(['similar', sys.argv[1], 'the cat', 'a dog'])\nfrom banyan import Banyan\n"
        "model = Banyan.from_pretrained(sys.argv[1])\nmodel.parse('the cat sat')\nmodel.explain('the cat', 'a dog')\n"
        "slow = {'numba', 'llvmlite', 'scipy', 'torch', 'importlib.metadata', 'urllib.request', 'banyan.evaluate'}\n"
        "main(['info', sys.argv[1]])\nsys.exit(str(slow & set(sys.modules) or ''))"
    )
    done = subprocess.run([sys.executable, "-c", program, str(model_folder)], capture_output=True, text=True)
    assert done.stderr.strip() == ""


def test_without_the_native_kernels_numba_encodes(model_folder, model):
    program = (
        "import sys\nsys.modules['banyan.native._kernels'] = None\nfrom banyan import Banyan\n"
        "print(Banyan.from_pretrained(sys.argv[1]).encode('the cat sat').tolist(), 'numba' in sys.modules)"
    )
    command = [sys.executable, "-c", program, str(model_folder)]
    vector, used = subprocess.run(command, capture_output=True, text=True, check=True).stdout.rsplit(" ", 1)
    assert used.strip() == "True"
    np.testing.assert_allclose(json.loads(vector), model.encode("the cat sat"), atol=ROUNDING)


def test_warmup_says_where_the_kernels_are(banyan, monkeypatch, model_folder):
    assert banyan("warmup") == (0, f"native kernels ({kernels.INSTRUCTIONS[-1]}): nothing to compile\n", "")
    monkeypatch.setenv("BANYAN_KERNELS", "numba")
    code, out, _ = banyan("warmup", model_folder)
    assert code == 0
    assert Path(out.removeprefix("compiled into ").removesuffix(" and the folders beside it\n")).is_dir()
