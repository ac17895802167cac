"""The command `banyan baseline`, its folders, what needs no training, and all of it through `banyan eval`."""

from __future__ import annotations

import json
import sys
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from tokenizers import Tokenizer
from tokenizers.models import WordLevel, WordPiece
from tokenizers.pre_tokenizers import Whitespace

from banyan import baselines
from banyan.baselines import bm25, folder, model2vec
from banyan.baselines.dice import Dice, bigrams, dice
from banyan.baselines.text import words
from banyan.baselines.tfidf import TfIdf
from banyan.commands import USAGE_ERROR, baseline
from banyan.errors import BanyanError
from banyan.evaluate import suites
from banyan.evaluate.retrieval import Beir, retrieval
from banyan.support import files
from banyan.support.needs import pip_install

TEXT = ["some are born to sweet delight", "some are born to endless night", "the night and the day"]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("corpus") / "corpus.txt"
    path.write_text("\n".join(TEXT * 5) + "\n", encoding="utf-8")
    return path


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    path = tmp_path / "pairs.tsv"
    lines = ["sweet night\tsweet night\t5", "sweet delight\tsweet night\t3", "born\tthe day\t0", "\tnight\t0"]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


# --- The command -----------------------------------------------------------------------------------------------------


def test_without_a_name_it_teaches_which_there_are_and_when_each_wins(banyan):
    code, out, _ = banyan("baseline")
    assert code == 0
    for name, listed in baselines.BASELINES.items():
        assert f"  {name} " in out
        assert listed.about in out
        assert f"best for: {listed.best_for}" in out
        assert listed.kind in ("trains", "loads", "counts")


@pytest.mark.parametrize("name", ["glove", "sent2vec", "fasttext", "model2vec", "tfidf", "bm25", "dice"])
def test_a_name_alone_tells_its_settings(name, banyan):
    code, out, _ = banyan("baseline", name)
    assert code == 0
    module = baselines.module_of(name)
    making = module.load if baselines.BASELINES[name].kind == "loads" else module.train
    for setting, value in baselines.settings_of(making).items():
        assert f"  {setting} = {value}\n" in out + "\n"
        assert setting in (making.__doc__ or "") or setting in ("dim", "epochs", "seed", "learning_rate", "window")
    assert f"banyan baseline {name} " in out


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["glvoe"], "there is no baseline glvoe; did you mean glove?"),
        (["glove", "corpus.txt"], "--out DIR is missing"),
        (["glove", "corpus.txt", "--out", "x", "--set", "epoch=3"], "did you mean epochs?"),
        (["glove", "corpus.txt", "--out", "x", "--set", "epochs=many"], "--set epochs takes a whole number"),
        (["glove", "corpus.txt", "--out", "x", "--set", "lower=perhaps"], "--set lower takes yes or no"),
        (["glove", "corpus.txt", "--out", "x", "--set", "epochs"], "--set takes NAME=VALUE, not 'epochs'"),
        (["model2vec", "a", "b", "--out", "x"], "model2vec takes one folder or name, not 2"),
    ],
)
def test_what_cannot_be_is_a_usage_error(arguments, told, banyan, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, out, err = banyan("baseline", *arguments)
    assert code == USAGE_ERROR
    assert out == ""
    assert told in err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["glove", "--out", "x"], "no corpus given"),
        (["glove", "missing.txt", "--out", "x"], "there is no file or folder missing.txt"),
        (["glove", "{corpus}", "--out", "x", "--set", "dim=0"], "dim must be at least 1, not 0"),
        (["glove", "{corpus}", "--out", "a/b/c"], "there is no folder"),
        (["glove", "{corpus}", "--out", "x", "--set", "min_count=99"], "distinct words, of which 0 occur 99 times"),
        (["dice", "{corpus}", "--out", "x"], "dice needs no training text"),
        (["dice", "--out", "x", "--set", "of=letters"], "dice compares bigrams or words, not 'letters'"),
        (["model2vec", "no-such-folder/x/y", "--out", "x"], "cannot load no-such-folder/x/y as a model2vec model"),
    ],
)
def test_what_goes_wrong_is_one_sentence_and_leaves_nothing(arguments, told, banyan, tmp_path, monkeypatch, corpus):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    code, _, err = banyan("baseline", *(argument.format(corpus=corpus) for argument in arguments))
    assert code == 1
    assert told in err
    assert "Traceback" not in err
    assert not list(tmp_path.iterdir())


def test_a_folder_that_holds_something_is_not_written_over(banyan, tmp_path, corpus):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").touch()
    code, _, err = banyan("baseline", "glove", corpus, "--out", tmp_path / "out")
    assert code == 1
    assert "exists already and is not an empty folder" in err
    assert [path.name for path in tmp_path.rglob("*")] == ["out", "mine"]


def test_settings_are_kept_with_the_folder(banyan, tmp_path, corpus):
    given = "--set", "dim=4", "epochs=1", "--set", "learning_rate=1e-3", "lower=no", "weighting=content", "--quiet"
    assert banyan("baseline", "glove", corpus, "--out", tmp_path / "glove", *given) == (0, "", "")
    manifest = folder.read(tmp_path / "glove")
    assert manifest.name == "glove"
    changed = {"dim": 4, "epochs": 1, "learning_rate": 0.001, "lower": False, "weighting": "content"}
    assert manifest.settings == baselines.settings_of(baselines.module_of("glove").train) | changed
    assert manifest.about["words"] == 11
    names = sorted(path.name for path in (tmp_path / "glove").iterdir())
    assert names == ["baseline.json", "vectors.safetensors", "words.txt"]


# --- Folders ---------------------------------------------------------------------------------------------------------


def test_a_folder_appears_whole_or_not_at_all(tmp_path):
    (tmp_path / f".out.999999999{files._here()}.tmp").mkdir()  # of one that was killed
    with pytest.raises(FileNotFoundError), folder.made(tmp_path / "out", folder.Manifest("glove", {})) as building:
        (building / "file").rename(building / "never written")
    assert not list(tmp_path.iterdir())
    with folder.made(tmp_path / "out", folder.Manifest("glove", {}, about={"é": 1})) as building:
        (building / "file").touch()
        assert not (tmp_path / "out").exists()
    assert folder.read(tmp_path / "out") == folder.Manifest("glove", {}, None, {"é": 1})
    assert baselines.is_baseline(tmp_path / "out")


@pytest.mark.parametrize("content", ["", "{}", "[]", '{"format": 1}'])
def test_a_damaged_manifest_is_an_error_that_names_it(content, tmp_path):
    (tmp_path / "baseline.json").write_text(content)
    with pytest.raises(BanyanError, match=r"cannot read .*baseline\.json"):
        baselines.load(tmp_path)


def test_a_folder_of_a_newer_version_says_so(tmp_path):
    folder.write(tmp_path, folder.Manifest("glove", {}))
    kept = json.loads((tmp_path / "baseline.json").read_text())
    (tmp_path / "baseline.json").write_text(json.dumps(kept | {"format": 99}))
    with pytest.raises(BanyanError, match="newer version"):
        baselines.load(tmp_path)


def test_no_baseline_and_an_unknown_one_are_errors(tmp_path):
    with pytest.raises(BanyanError, match=r"is not a baseline: it has no baseline\.json"):
        baselines.load(tmp_path)
    folder.write(tmp_path, folder.Manifest("nonsense", {}))
    with pytest.raises(BanyanError, match="there is no baseline nonsense"):
        baselines.load(tmp_path)


def test_a_damaged_table_is_an_error(banyan, tmp_path, corpus):
    banyan("baseline", "glove", corpus, "--out", tmp_path / "glove", "--set", "dim=4", "epochs=1", "--quiet")
    table = tmp_path / "glove" / "vectors.safetensors"
    table.write_bytes(table.read_bytes()[:50])
    with pytest.raises(BanyanError, match="train the baseline again"):
        baselines.load(tmp_path / "glove")


# --- Through `banyan eval` -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["glove", "sent2vec", "tfidf", "bm25", "dice"])
def test_eval_measures_every_kind(name, banyan, tmp_path, corpus, pairs):
    source = [] if name == "dice" else [corpus]
    small = {"glove": ["--set", "dim=8"], "sent2vec": ["--set", "dim=8", "buckets=9", "min_count=2", "min_target=2"]}
    code, _, err = banyan("baseline", name, *source, "--out", tmp_path / name, *small.get(name, []))
    assert code == 0, err
    code, out, err = banyan("eval", tmp_path / name, "--pairs", pairs, "-o", tmp_path / "out.json", "--quiet")
    assert code == 0, err
    assert "spearman" in out
    model = baselines.load(tmp_path / name)
    if hasattr(model, "encode"):
        vectors = model.encode(["sweet night", ""])
        assert vectors.dtype == np.float32
        assert vectors.shape == (2, model.dim)
        assert not vectors[1].any()
    else:
        second = ["sweet night", "sweet night", "the day", "x"]
        found = model.similarity(["sweet night", "sweet delight", "born", ""], second)
        assert found[0] == pytest.approx(1)
        assert found[0] > found[1] > found[2] == found[3] == 0


def test_two_baselines_are_compared(banyan, tmp_path, corpus, pairs):
    banyan("baseline", "dice", "--out", tmp_path / "dice")
    banyan("baseline", "glove", corpus, "--out", tmp_path / "glove", "--set", "dim=8", "--quiet")
    given = "--pairs", pairs, "--against", tmp_path / "glove", "--quiet"
    assert banyan("eval", tmp_path / "dice", *given)[0] == 0
    code, _, err = banyan("eval", tmp_path / "dice", *given, "--precision", "int8")
    assert (code, "has no vectors" in err) == (1, True)
    assert banyan("eval", tmp_path / "glove", "--pairs", pairs, "--truncate-dim", 4, "--quiet")[0] == 0


def test_a_set_that_needs_vectors_says_so_in_its_row(tmp_path):
    for name in ("train", "test"):
        (tmp_path / f"sst_{'dev' if name == 'test' else name}.tsv").write_text("good\t1\nbad\t0\n" * 4)
    rows = suites.run(Dice(), "classification", tmp_path)
    assert rows[0].outcome is None
    assert rows[0].note == "not measured; a classifier needs vectors, and this model compares texts without vectors"
    beir = Beir(["a"], ["x"], ["x"], ["q"], ["x"], {"q": {"a": 1}}, 0)
    with pytest.raises(BanyanError, match="too slow for all queries and documents"):
        retrieval(Dice(), beir, "toy")


def test_retrieval_by_scores_is_that_by_cosines():
    """TF-IDF's sparse scores against its rows as dense vectors."""
    rng = np.random.default_rng(0)
    texts = [" ".join(rng.choice(list("abcdefgh"), 5)) + f" night{i % 7}" for i in range(60)]
    judgements = {f"q{i}": {f"d{j}": 1 for j in rng.integers(0, 40, 3)} for i in range(20)}
    ids = [f"d{i}" for i in range(40)]
    data = Beir(ids, texts[:40], texts[:40], list(judgements), texts[40:], judgements, 0)
    tfidf = TfIdf(texts)
    dense = retrieval(lambda some: tfidf.rows(some).toarray(), data, "toy")
    assert 0 < dense[1].value < 100
    for one, other in zip(retrieval(tfidf, data, "toy"), dense, strict=True):
        assert_allclose(one.items, other.items)


# --- What needs no training ------------------------------------------------------------------------------------------


def test_dice_of_known_strings():
    assert dice(bigrams("night"), bigrams("nacht")) == 2 * 1 / 8  # ht
    by_words = Dice("words").similarity(["a b c", "the the cat", ""], ["B c d.", "the cat", ""])
    assert by_words.tolist() == [4 / 6, 4 / 5, 0]
    assert dice(Counter(), Counter()) == 0


def test_dice_counts_repeats_and_words_of_one_character():
    assert bigrams("aaa b") == Counter({"aa": 2, "b": 1})


def test_tfidf_scores_are_cosines_and_equal_texts_score_one():
    tfidf = TfIdf(TEXT)
    assert_allclose(tfidf.similarity(["sweet night"] * 2, ["sweet night", "born"]), [1, 0], atol=1e-12)


def test_tfidf_loads_as_it_was_saved(tmp_path):
    odd = [*TEXT, "under_score a\u2028b \x1f c\x85d  \tplenty of   room"]
    tfidf = TfIdf(odd)
    tfidf.save(tmp_path)
    assert (TfIdf.load(tmp_path).rows(odd) != tfidf.rows(odd)).nnz == 0


def by_hand(query: str, document: str, documents: list[str], k1: float, b: float) -> float:
    cut = [words(text) for text in documents]
    mean = np.mean([len(text) for text in cut])
    own, total = words(document), 0.0
    for word in words(query):
        n = sum(word in text for text in cut)
        idf = np.log(1 + (len(cut) - n + 0.5) / (n + 0.5))
        tf = own.count(word)
        total += idf * tf * (k1 + 1) / (tf + k1 * (1 - b + b * len(own) / mean))
    return total


def test_bm25_is_the_written_formula_one_by_one_and_as_a_product():
    documents = [*TEXT, "night night night", ""]
    queries = ["the endless night night", "unheard of", "Sweet, sweet!"]
    model = bm25.Bm25(bm25.Collection.of([words(text) for text in documents]), k1=0.9, b=0.4)
    expected = [[by_hand(query, document, documents, 0.9, 0.4) for document in documents] for query in queries]
    one_by_one = [[model.score(*(Counter(words(text)) for text in (q, d))) for d in documents] for q in queries]
    assert_allclose(one_by_one, expected)
    assert_allclose(model.index(documents)(queries), expected)


def test_bm25_of_a_pair_is_symmetric_and_between_0_and_1(tmp_path, corpus):
    bm25.train([corpus], tmp_path / "bm25", quiet=True)
    model = baselines.load(tmp_path / "bm25")
    first, second = ["sweet night", "the the night", "night", ""], ["sweet night", "night and day", "born", ""]
    found = model.similarity(first, second)
    assert_array_equal(found, model.similarity(second, first))
    assert found[0] == pytest.approx(1)
    assert 0 < found[1] < 1
    assert found[2:].tolist() == [0, 0]


# --- model2vec -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def static(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model2vec model of our own, saved."""
    model2vec_ = pytest.importorskip("model2vec")
    tokenizer = Tokenizer(WordLevel({"[UNK]": 0, "sweet": 1, "night": 2, "day": 3}, "[UNK]"))
    tokenizer.pre_tokenizer = Whitespace()
    table = np.random.default_rng(0).normal(size=(4, 6)).astype(np.float32)
    path = tmp_path_factory.mktemp("static") / "model"
    model2vec_.StaticModel(table, tokenizer, normalize=False).save_pretrained(path)
    return path


def test_model2vec_is_remembered_by_name_and_measured(static, banyan, tmp_path, pairs):
    code, _, err = banyan("baseline", "model2vec", static, "--out", tmp_path / "m2v")
    assert code == 0, err
    manifest = folder.read(tmp_path / "m2v")
    assert (manifest.source, manifest.about) == (str(static), {"dim": 6})
    model = baselines.load(tmp_path / "m2v")
    vectors = model.encode(["sweet night", "sweet", "night", ""])
    assert vectors.dtype == np.float32
    assert_allclose(vectors[0], (vectors[1] + vectors[2]) / 2, rtol=1e-5)
    assert not vectors[3].any()
    assert banyan("eval", tmp_path / "m2v", "--pairs", pairs, "--quiet")[0] == 0


def test_what_is_distilled_is_kept_and_not_made_again(static, banyan, monkeypatch, tmp_path):
    seen: list[Any] = []

    def distill(**given: Any) -> Any:
        seen.append(given)
        return model2vec._loaded(static)

    monkeypatch.setitem(sys.modules, "model2vec.distill", SimpleNamespace(distill=distill))
    out = tmp_path / "m2v"
    code, _, err = banyan("baseline", "model2vec", "some/name", "--out", out, "--set", "distill=yes", "dim=6")
    assert code == 0, err
    manifest = folder.read(out)
    assert (manifest.source, manifest.about["of"]) == (None, "some/name")
    assert manifest.about["seconds"] >= 0
    texts = ["sweet night", ""]
    assert_array_equal(baselines.load(out).encode(texts), model2vec.load(static).encode(texts))
    assert seen == [{"model_name": "some/name", "pca_dims": 6}]


@pytest.mark.parametrize(
    ("raised", "told"),
    [
        # What model2vec 0.10 raises; its own advice is left out.
        (ImportError("`skeletoken`, is required. Please reinstall. `pip install model2vec[distill]`"),
         f"The model2vec baseline needs another package (`skeletoken`, is required): {pip_install('baselines')}"),
        (OSError("there is no config.json\nand so on"),
         "cannot load some/folder as a sentence transformer to distil: there is no config.json"),
    ],
)  # fmt: skip
def test_what_cannot_be_distilled_is_told(monkeypatch, raised, told):
    pytest.importorskip("model2vec")

    def distill(**given: Any) -> Any:
        raise raised

    monkeypatch.setitem(sys.modules, "model2vec.distill", SimpleNamespace(distill=distill))
    with pytest.raises(BanyanError) as caught:
        model2vec.load("some/folder", distill=True)
    assert str(caught.value) == told


def test_a_sentence_transformer_is_distilled(tmp_path):
    """With the versions that are installed, which model2vec's own extra does not allow."""
    pytest.importorskip("model2vec")
    pytest.importorskip("skeletoken")
    transformers = pytest.importorskip("transformers")
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "sweet", "night", "day"]
    backend = Tokenizer(WordPiece({word: number for number, word in enumerate(vocabulary)}, unk_token="[UNK]"))
    backend.pre_tokenizer = Whitespace()
    special = {f"{name}_token": f"[{name.upper()}]" for name in ("pad", "unk", "cls", "sep", "mask")}
    transformers.PreTrainedTokenizerFast(tokenizer_object=backend, **special).save_pretrained(tmp_path)
    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
    config = transformers.BertConfig(vocab_size=len(vocabulary), **sizes)
    transformers.BertModel(config).save_pretrained(tmp_path)
    model = model2vec.load(tmp_path, distill=True, dim=4)
    vectors = model.encode(["sweet night", "sweet", ""])
    assert model.dim == 4
    assert vectors.shape == (3, 4)
    assert vectors[:2].any(axis=1).all()
    assert not vectors[2].any()


def test_a_folder_is_found_from_anywhere(static, banyan, tmp_path, monkeypatch):
    monkeypatch.chdir(static.parent)
    code, _, err = banyan("baseline", "model2vec", static.name, "--out", tmp_path / "m2v")
    assert code == 0, err
    monkeypatch.chdir(tmp_path)
    assert folder.read("m2v").source == str(static)
    assert baselines.load("m2v").dim == 6


def test_settings_take_the_type_of_their_default():
    assert baseline._value("7", 3) == 7
    assert baseline._value("7", 3.0) == 7.0
    assert baseline._value("No", True) is False
    assert baseline._value("7", "text") == "7"


# --- A run that cannot go on -----------------------------------------------------------------------------------------


def test_a_broken_checkpoint_says_to_remove_the_folder(banyan, tmp_path):
    pytest.importorskip("sentence_transformers")
    from banyan.baselines.masked import Plan

    text, out = tmp_path / "text.txt", tmp_path / "model"
    text.write_text("\n".join(f"line {number} of a text" for number in range(100)), encoding="utf-8")
    (out / "training").mkdir(parents=True)
    plan = asdict(Plan(2, 0.0, 16, 1e-3, 0.1, 0, 0))
    (out / "training/run.json").write_text(json.dumps({"plan": plan, "rows": [], "seconds": 0}), encoding="utf-8")
    (out / "training/checkpoint.safetensors").write_bytes(b"broken")
    small = ["layers=1", "heads=2", "dim=8", "feed_forward=8", "vocab_size=300"]
    code, _, err = banyan("baseline", "roberta", text, "--out", out, "--device", "cpu", "--quiet", "--set", *small)
    assert code == 1
    assert f"cannot resume from {out / 'training/checkpoint.safetensors'}" in err
    assert f"; remove {out} to start again" in err
    assert "--overwrite" not in err
