"""Training with a teacher and with translations."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file

from banyan import Banyan, BanyanError, Config
from banyan.corpus import Corpus
from banyan.corpus.store import Store
from banyan.integrations import export
from banyan.model import BanyanModel, objective
from banyan.support import checksums
from banyan.support.display import Display
from banyan.teachers import endpoint
from banyan.tokenizer import Tokenizer
from banyan.training import beginning, lessons, teaching, train
from banyan.training.lessons import Asked
from tests.helpers import embeddings_endpoint
from tests.helpers.corpora import lines, write_lines
from tests.helpers.models import tiny_model
from tests.helpers.teaching import WIDTH, WordTeacher, translated, write_translations
from tests.helpers.training import SMALL, digest, interrupted_at, metrics

TAUGHT = {**SMALL, "batch_size": 16, "lexical_dim": 0, "lr": 0.02}


@pytest.fixture
def teacher(monkeypatch) -> WordTeacher:
    one = WordTeacher()
    monkeypatch.setattr(teaching, "open_teacher", lambda source, device: one)
    return one


@contextmanager
def gone() -> Iterator[None]:
    """Within, no teacher can be opened."""

    def fail(*_):
        raise BanyanError("the teacher is gone")

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(teaching, "open_teacher", fail)
        patched.setattr(teaching, "Itself", fail)
        yield


def correlation(model: Banyan, texts: list[str], dims: int | None = None) -> float:
    """Between the model's cosines and the teacher's."""
    vectors, targets = model.encode(texts)[:, :dims], WordTeacher().encode(texts)
    a, b = (rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (vectors, targets))
    upper = np.triu_indices(len(texts), 1)
    return float(np.corrcoef((a @ a.T)[upper], (b @ b.T)[upper])[0, 1])


# --- The losses ------------------------------------------------------------------------------------------------------


def test_cosine_distance_is_the_mean_over_texts_with_a_target():
    roots, targets = torch.randn(5, 8), torch.randn(5, 8)
    targets[2] = 0
    kept = [0, 1, 3, 4]
    expected = np.mean([1 - torch.cosine_similarity(roots[i], targets[i], dim=0).item() for i in kept])
    assert objective.cosine_distance(roots, targets).item() == pytest.approx(expected, rel=1e-5)


def test_infonce_with_the_teacher_leaves_out_equal_targets_and_missing_ones():
    generator = torch.Generator().manual_seed(1)
    roots, targets = (torch.nn.functional.normalize(torch.randn(5, 8, generator=generator)) for _ in range(2))
    targets[3], targets[4] = targets[1], 0
    logits = (roots @ targets.T / 0.1).numpy().astype(np.float64)
    expected = []
    for i in (0, 1, 2, 3):
        others = [j for j in (0, 1, 2, 3) if j == i or {i, j} != {1, 3}]
        rows, columns = np.log(np.exp(logits[i, others]).sum()), np.log(np.exp(logits[others, i]).sum())
        expected.append((rows + columns) / 2 - logits[i, i])
    assert objective.teacher_infonce(roots, targets, 0.1).item() == pytest.approx(np.mean(expected), rel=1e-4)


def test_the_teacher_trains_only_its_part():
    config = Config(dim=16, channels=8, taught_dim=6, objective="none", teacher_weight=1.0, dropout=0.0)
    model = BanyanModel(config, 30)
    tokens, offsets = np.arange(12) % 7, np.array([0, 4, 9, 12])
    passes = model(model.structure(tokens, offsets))
    objective.loss(model, passes, torch.randn(3, 6).half()).backward()
    gradient = model.embedding.grad
    assert gradient[:7, :6].abs().min() > 0
    assert not gradient[:, 6:].any()
    assert not gradient[7:].any()


def test_without_a_teacher_its_loss_is_refused(corpus, tmp_path):
    with pytest.raises(BanyanError, match="name one with --teacher"):
        train(corpus, tmp_path / "m", preset="taught", **SMALL)


# --- Lessons ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def asked(corpus, tmp_path) -> Asked:
    tokenizer = Tokenizer.train(Corpus([corpus]), vocab_size=400)
    return Asked(tmp_path / "lessons", tokenizer, 200, 16, "dim", Display(quiet=True))


def test_lessons_are_lines_and_spans_with_their_vectors(corpus, asked):
    text, teacher = Corpus([corpus]), WordTeacher()
    made = lessons.from_corpus(asked, text, teacher, 40)
    texts = (asked.folder / "texts.txt").read_text().splitlines()
    assert len(texts) == len(made.store) == len(made.vectors) == 80
    for line, span in zip(texts[::2], texts[1::2], strict=True):
        assert span in line
        assert 2 <= len(span.split()) <= 10
        assert span != line
    vectors = teacher.encode(texts)
    basis = lessons.principal_components(vectors.astype(np.float16), 16)
    assert np.allclose(np.abs((made.vectors * lessons.projected(vectors, basis)).sum(1)), 1, atol=2e-3)
    assert np.allclose(basis.T @ basis, np.eye(16), atol=1e-5)
    again = WordTeacher()
    assert lessons.from_corpus(asked, text, again, 40).fingerprint == made.fingerprint
    assert "targets.f16" in checksums.read(asked.folder / checksums.SUMS)
    assert not list(checksums.damaged(asked.folder / checksums.SUMS))
    assert not again.asked


def test_principal_components_keep_the_most_of_the_length():
    rng = np.random.default_rng(0)
    vectors = rng.standard_normal((500, 12)) * np.linspace(3, 0.01, 12)
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    basis = lessons.principal_components(vectors, 5)
    values = np.linalg.svd(unit, compute_uv=False)
    assert (np.linalg.norm(unit @ basis) ** 2) == pytest.approx((values[:5] ** 2).sum(), rel=1e-4)


def test_leaves_begin_as_the_teachers_vectors_shorter_where_frequent():
    vectors = np.eye(4, dtype=np.float32)
    vectors[3] = 0  # a byte
    leaves = beginning.from_pieces(vectors, np.array([0] * 900 + [1] * 100), 0)
    share = np.array([0.9, 0.1, 0])
    assert np.allclose(np.diag(leaves)[:3], 1e-3 / (1e-3 + share))
    assert 0 < np.linalg.norm(leaves[3]) < 0.5


def test_a_linear_map_is_found_from_texts_and_from_tokens(tmp_path):
    rng = np.random.default_rng(0)
    own, true = rng.standard_normal((60, 8)).astype(np.float32), rng.standard_normal((8, 5))
    offsets = np.arange(0, 4001, 4)
    tokens = rng.integers(0, 50, 4000).astype(np.int32)  # 50..59 never occur
    store = Store(tokens, offsets, None, "")
    sums = np.add.reduceat(own[tokens], offsets[:-1], axis=0)
    targets = sums / np.linalg.norm(sums, axis=1, keepdims=True) @ true
    assert np.allclose(beginning.mapped(own, store, targets), own @ true, atol=0.3)
    taught = (own @ true).astype(np.float32)
    taught[50:] = 7  # not learned
    found = beginning.carried_over(taught, own, tokens)
    assert np.allclose(found[50:], (own @ true)[50:], atol=0.3)
    assert np.allclose(found[:50], taught[:50], atol=0.2)


# --- Training --------------------------------------------------------------------------------------------------------


def test_a_model_learns_from_a_teacher(corpus, tmp_path, teacher):
    model = train(corpus, tmp_path / "m", teacher="word-teacher", epochs=4, **TAUGHT)
    new = lines(60, seed=99)
    assert correlation(model, new) > 0.8
    assert model.config.preset == "taught"
    assert "out_weight" not in model.weights
    rows = metrics(tmp_path / "m")
    assert rows[0]["teacher"] > 2 * rows[-2]["teacher"]
    assert "dev_teacher" in rows[-1]
    told = json.loads((tmp_path / "m" / "taught_by.json").read_text())
    about = {"name": "tests/word-teacher", "kind": "hub", "licence": "cc0-1.0", "width": None, "texts": 800}
    assert told == model.taught_by == about
    card = (tmp_path / "m" / "README.md").read_text()
    assert "| teacher | tests/word-teacher |" in card
    assert "400 lines read from 1 file, 400 sentences kept. The teacher encoded 800 lines and spans of them." in card
    pieces = set(model.tokenizer.pieces)
    assert {piece.strip("▁") for piece in pieces} - set(teacher.asked) <= {"", *(f"<0x{i:02X}>" for i in range(256))}


def test_a_taught_run_interrupted_anywhere_ends_in_the_same_bits(corpus, tmp_path, teacher, monkeypatch):
    once = {**TAUGHT, "teacher": "word-teacher", "teacher_lines": 100, "epochs": 2}
    monkeypatch.chdir(tmp_path)
    (tmp_path / "word-teacher").mkdir()
    (tmp_path / "100").touch()  # no path, although there is such a file
    train(corpus, tmp_path / "whole", **once)
    with interrupted_at(5):
        train(corpus, tmp_path / "parts", **once)
    (tmp_path / "word-teacher").rmdir()
    with gone():  # its vectors are finished
        with interrupted_at(1, told=6):
            train(corpus, tmp_path / "parts", resume=True, **once)
        train(corpus, tmp_path / "parts", resume=True, quiet=True, device="cpu")  # it knows its teacher
    assert digest(tmp_path / "parts") == digest(tmp_path / "whole")
    assert (tmp_path / "parts/taught_by.json").read_bytes() == (tmp_path / "whole/taught_by.json").read_bytes()
    asked_before = len(teacher.asked)
    calls = []

    def fails(texts):
        calls.append(texts)
        if len(calls) > 2:  # the first only tries it out
            raise BanyanError("the endpoint is down")
        return WordTeacher().encode(texts)

    monkeypatch.setattr(teacher, "encode", fails)
    with pytest.raises(BanyanError, match=r"the endpoint is down.* kept.*--resume"):
        train(corpus, tmp_path / "failed", **once)
    monkeypatch.undo()
    monkeypatch.setattr(teaching, "open_teacher", lambda source, device: WordTeacher())
    train(corpus, tmp_path / "failed", resume=True, **once)
    assert digest(tmp_path / "failed") == digest(tmp_path / "whole")
    assert len(teacher.asked) == asked_before


def test_an_endpoint_that_makes_us_wait_is_reported(monkeypatch, capsys):
    monkeypatch.setattr(endpoint, "_sleep", lambda wait, stop: None)
    with embeddings_endpoint.running() as server:
        server.faults = [embeddings_endpoint.refuses(429, "slow down", Retry_After="70")]
        teaching.Teaching(server.address)._open("cpu", Display()).encode(["one"])
    assert "answered 429 (slow down) and asks to wait 1m 10s" in capsys.readouterr().err


def test_vectors_that_exist_already_teach_the_lines(corpus, tmp_path):
    texts = corpus.read_text().splitlines()
    np.save(tmp_path / "vectors.npy", WordTeacher().encode(texts))
    model = train(corpus, tmp_path / "m", teacher=str(tmp_path / "vectors.npy"), epochs=4, **TAUGHT)
    assert correlation(model, lines(60, seed=99)) > 0.7
    np.save(tmp_path / "short.npy", WordTeacher().encode(texts[:-1]))
    with pytest.raises(BanyanError, match="one vector for each"):
        train(corpus, tmp_path / "n", teacher=str(tmp_path / "short.npy"), **TAUGHT)


def test_a_narrow_teacher_is_refused_with_what_to_do(corpus, tmp_path, teacher):
    np.save(tmp_path / "narrow.npy", WordTeacher().encode(corpus.read_text().splitlines()))
    told = f"vectors have {WIDTH} dimensions, but 32 are to be taught: use --dim {WIDTH}"
    for narrow in ("word-teacher", str(tmp_path / "narrow.npy")):
        with pytest.raises(BanyanError, match=told):
            train(corpus, tmp_path / "m", teacher=narrow, **{**TAUGHT, "dim": 32})
        assert not (tmp_path / "m").exists()
    assert teacher.asked == ["text"]


def test_vectors_of_zeros_teach_nothing_and_that_is_said(corpus, tmp_path, capsys):
    vectors = WordTeacher().encode(corpus.read_text().splitlines())
    half = len(vectors) // 2
    for name, zeros in (("half", slice(half, None)), ("all", slice(None))):
        vectors[zeros] = 0
        np.save(tmp_path / f"{name}.npy", vectors)
    train(corpus, tmp_path / "m", teacher=str(tmp_path / "half.npy"), epochs=1, **{**TAUGHT, "quiet": False})
    assert re.search(rf"{len(vectors) - half} of {len(vectors)} texts have a vector of zeros", capsys.readouterr().err)
    with pytest.raises(BanyanError, match="every vector of the teacher is zero"):
        train(corpus, tmp_path / "n", teacher=str(tmp_path / "all.npy"), **TAUGHT)


# --- Translations ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def bilingual(tmp_path_factory) -> tuple:
    """The folder of a model of the small language's translation, and the pairs it learned from."""
    folder = tmp_path_factory.mktemp("bilingual")
    text = folder / "foreign.txt"
    text.write_text("".join(f"{translated(line)}\n" for line in lines(600, seed=3)), encoding="utf-8")
    return text, write_translations(folder / "pairs.tsv", 500)


def test_translations_put_both_languages_into_one_space(bilingual, tmp_path, teacher):
    text, pairs = bilingual
    settings = {**SMALL, "batch_size": 32, "lexical_dim": 32, "epochs": 2, "infonce_weight": 1.0}
    model = train(text, tmp_path / "m", parallel=pairs, teacher="word-teacher", taught_dim=16, **settings)
    new = lines(60, seed=99)
    english, foreign = model.encode(new), model.encode([translated(line) for line in new])
    assert english.shape == (60, 16 + 16 + 32)
    assert [norm for _, _, norm in model.config.parts] == [1.0, 1.0, 1.3]
    for first, end, norm in model.config.parts:
        assert np.allclose(np.linalg.norm(foreign[:, first:end], axis=1), norm, atol=1e-5)
    found = (english[:, :16] @ foreign[:, :16].T).argmax(1)
    assert np.mean([new[i] == line for i, line in zip(found, new, strict=True)]) > 0.5
    learned = load_file(tmp_path / "m" / "training" / "learned" / "model.safetensors")
    assert np.array_equal(model.embedding[:, 16:], learned["embedding"])
    for name in ("comp_l", "comp_r", "comp_b", "lexical_idf"):
        assert np.array_equal(model.weights[name], learned[name])
    assert np.isclose(model.explain(new[0], new[1]).similarity, model.similarity(new[0], new[1]), atol=1e-5)
    assert np.allclose(model.parse(new[0]).embeddings[-1], model.encode(new[0]), atol=1e-5)
    again = Banyan.from_pretrained(tmp_path / "m")
    assert np.array_equal(again.encode(new), english)
    learned_from = {"translations": "pairs.tsv", "pairs": 500, "languages": "both", "texts": 500}
    assert learned_from.items() <= again.taught_by.items()
    card = (tmp_path / "m" / "README.md").read_text()
    assert "500 pairs kept" in card
    assert "It started from a model with this training text: Text: foreign.txt, translations.txt." in card
    assert "1,100 lines read from 2 files" in card


def test_a_run_with_translations_goes_on_where_it_was(bilingual, tmp_path, teacher):
    text, pairs = bilingual
    settings = {**SMALL, "batch_size": 32, "epochs": 1, "parallel": pairs, "teacher": "word-teacher", "taught_dim": 16}
    train(text, tmp_path / "whole", **settings)
    with interrupted_at(3):  # in the text
        train(text, tmp_path / "parts", **settings)
    with pytest.raises(BanyanError, match="--resume continues"):
        train(text, tmp_path / "parts", **settings)
    rest = metrics(tmp_path / "whole" / "training" / "learned")[-1]["step"] - 3
    with interrupted_at(60, told=60 - rest):  # in the translations
        train(text, tmp_path / "parts", resume=True, **settings)
    with gone():
        train(text, tmp_path / "parts", resume=True, **settings)
    assert digest(tmp_path / "parts") == digest(tmp_path / "whole")
    assert (tmp_path / "parts/taught_by.json").read_bytes() == (tmp_path / "whole/taught_by.json").read_bytes()


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"languages": "third"}, "one of both, second"),
        ({"teacher": "vectors.npy"}, "a teacher that can encode"),
        ({"teacher": "word-teacher", "teacher_lines": 5}, "leave teacher_lines out"),
        ({"teacher": "no/where"}, "the teacher is gone"),
        ({"teacher": "word-teacher"}, f"vectors have {WIDTH} dimensions, but 256 .* use --taught-dim {WIDTH}"),
        ({"taught_dim": 18}, "vectors have 16 dimensions, but 18 .* use --taught-dim 16"),
        ({"taught_dim": 15}, "must be a multiple"),
        ({"taught_dim": 0}, "leave taught_dim out"),
        ({"teacher": "word-teacher", "preset": "translated"}, "leave preset translated out"),
        ({"taught_dim": 16, "pairs": "no.tsv"}, "no.tsv"),
    ],
)
def test_what_translations_cannot_be_learned_with_is_refused_before_the_text_is(
    bilingual, tmp_path, monkeypatch, options, told
):
    def opened(source, device):
        if source != "word-teacher":
            raise BanyanError("the teacher is gone")
        return WordTeacher()

    monkeypatch.setattr(teaching, "open_teacher", opened)
    text, pairs = bilingual
    with pytest.raises(BanyanError, match=told):
        train(text, tmp_path / "m", parallel=pairs, **options, **SMALL)
    assert not (tmp_path / "m").exists()


def test_a_run_that_has_not_come_to_its_translations_is_not_resumed_with_others_or_none(bilingual, tmp_path, teacher):
    text, pairs = bilingual
    settings = {**SMALL, "batch_size": 32, "epochs": 1}
    taught = {"teacher": "word-teacher", "taught_dim": 16}
    with interrupted_at(3):
        train(text, tmp_path / "m", parallel=pairs, **taught, **settings)
    with pytest.raises(BanyanError, match="translations to learn after the text: name them again, with --parallel"):
        train(text, tmp_path / "m", resume=True, **settings)
    other = write_translations(tmp_path / "other.tsv", 400, seed=5)
    with pytest.raises(BanyanError, match=r"the corpus of the run in .* has changed"):
        train(text, tmp_path / "m", parallel=other, resume=True, **taught, **settings)
    train(text, tmp_path / "m", parallel=pairs, resume=True, **taught, **settings)


def test_translations_without_a_teacher_are_taught_by_the_model_itself(bilingual, tmp_path):
    text, pairs = bilingual
    train([text, write_lines(tmp_path / "english.txt", 300)], tmp_path / "first", **{**SMALL, "epochs": 2})
    settings = {"quiet": True, "device": "cpu", "taught_dim": 16}
    with interrupted_at(3):
        train(text, tmp_path / "m", init=tmp_path / "first", parallel=pairs, **settings)
    with gone():
        model = train(text, tmp_path / "m", init=tmp_path / "first", parallel=pairs, resume=True, **settings)
    assert model.taught_by["name"].startswith("itself, before it saw translations (")
    new = lines(40, seed=99)
    shared = {"truncate_dim": 16, "normalize": True}
    english, foreign = model.encode(new, **shared), model.encode([translated(line) for line in new], **shared)
    same = (english * foreign).sum(1).mean()
    assert same > 0.6
    assert same > (english @ foreign.T).mean() + 0.2


def test_options_that_contradict_each_other_are_refused(corpus, tmp_path, bilingual):
    text, pairs = bilingual
    for options, told in [
        ({"teacher": "x.npy", "parallel": pairs, "init": "m"}, "a teacher that can encode"),
        ({"teacher": "x", "teacher_lines": 0}, "at least 1"),
        ({"teacher_lines": 5}, "name one that can encode"),
        ({"teacher": "x", "dev": text}, "leave --dev out"),
        ({"teacher": "x", "init": "m"}, "leave --init out"),
        ({"teacher": "x", "preset": "light"}, "preset light does not learn from a teacher"),
        ({"parallel": pairs, "init": "m", "languages": "third"}, "one of both, second"),
    ]:
        with pytest.raises(BanyanError, match=told):
            train(corpus, tmp_path / "m", **options, **SMALL)


def test_a_static_export_keeps_the_balance_of_a_taught_part():
    plain = tiny_model()
    config = dataclasses.replace(plain.config, taught_dim=6, lexical_dim=8)
    sketches = np.random.default_rng(0).integers(-9, 9, (len(plain.embedding), 8)).astype(np.int8)
    model = Banyan(config, plain.tokenizer, {**plain.weights, "lexical": sketches})
    table = export.token_table(model)
    norms = [np.linalg.norm(table[:, start:end], axis=1).mean() / norm for start, end, norm in model.config.parts]
    assert np.allclose(norms, norms[0], rtol=1e-3)
