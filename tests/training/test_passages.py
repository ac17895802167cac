"""Running text: passages of consecutive sentences, held-out paragraphs; every device and every resumed run agree."""

from __future__ import annotations

import json
import random
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import load_file

from banyan import backends
from banyan.config import Config
from banyan.corpus.report import Report
from banyan.corpus.store import Store
from banyan.model import crops, initial
from banyan.model.dropout import Dropout
from banyan.support import devices
from banyan.tokenizer import Tokenizer
from banyan.training import train
from banyan.training.passages import Part, parts
from tests.helpers.batches import assert_holds
from tests.helpers.corpora import lines
from tests.helpers.training import SMALL, adam_with_a_tensor, digest, interrupted_at, metrics

RUNNING = {"passage_sentences": 2, "infonce_weight": 0.5}


def store_of(paragraphs: list[list[int]]) -> Store:
    """A store of paragraphs, given the lengths of their sentences."""
    lengths = [length for one in paragraphs for length in one]
    first = np.cumsum([0, *map(len, paragraphs)])[:-1]
    return Store(np.arange(sum(lengths), dtype=np.uint16), np.cumsum([0, *lengths]), Report(), "", first)


def all_of(store: Store, config: Config) -> Part:
    return parts(store, None, config, hold_out=False)[0]


def cut(store: Store, epoch: int = 0, **changes: int) -> list[tuple[int, ...]]:
    """The sentences of each passage."""
    config = Config(**{"passage_sentences": 2, **changes})
    passages = all_of(store, config).passages(config, epoch)
    return [tuple(range(a, b)) for a, b in zip(passages.indices.tolist(), passages.ends.tolist(), strict=True)]


@pytest.fixture(scope="module")
def paragraphs(tmp_path_factory) -> Path:
    """400 sentences in paragraphs of one to six."""
    rng, left, text = random.Random(0), lines(400), []
    while left:
        n = rng.randint(1, 6)
        text.append("\t".join(left[:n]))
        left = left[n:]
    path = tmp_path_factory.mktemp("running") / "paragraphs.txt"
    path.write_text("\n".join(text), encoding="utf-8")
    return path


# --- Passages ---------------------------------------------------------------------------------------------------------


def test_sentences_meet_both_neighbours_in_different_epochs():
    store = store_of([[9] * 5, [9] * 2, [9]])
    found = [cut(store, epoch) for epoch in range(8)]
    rest = [(5, 6), (7,)]
    assert {tuple(one) for one in found} == {((0, 1), (2, 3), (4,), *rest), ((0,), (1, 2), (3, 4), *rest)}
    assert found == [cut(store, epoch) for epoch in range(8)]
    assert found != [cut(store, epoch, seed=1) for epoch in range(8)]
    assert cut(store, passage_sentences=9) == [(0, 1, 2, 3, 4), (5, 6), (7,)]
    assert cut(store, passage_sentences=1) == [(i,) for i in range(8)]


@given(
    st.lists(st.lists(st.integers(1, 60), min_size=1, max_size=12), min_size=1, max_size=9),
    st.integers(2, 5),
    st.integers(0, 2**40),
)
@settings(deadline=None, max_examples=200)
def test_passages_hold_every_sentence_once_and_stay_in_their_paragraph(paragraphs, most, seed):
    store = store_of(paragraphs)
    passages = cut(store, passage_sentences=most, max_pieces=100, seed=seed)
    assert [sentence for passage in passages for sentence in passage] == list(range(len(store)))
    paragraph = np.repeat(np.arange(len(paragraphs)), [len(one) for one in paragraphs])
    pieces = np.diff(store.offsets)
    for passage in passages:
        assert len(set(paragraph[list(passage)])) == 1
        assert len(passage) <= most
        assert len(passage) == 1 or pieces[list(passage)].sum() <= 100
    for one, two, three in zip(passages, passages[1:], passages[2:], strict=False):  # the first and last may be short
        if len({paragraph[passage[0]] for passage in (one, two, three)}) == 1:
            assert len(two) == most or pieces[[*two, three[0]]].sum() > 100
    config = Config(passage_sentences=most, max_pieces=100, seed=seed)
    assert all_of(store, config).fewest_passages(most) <= len(passages)


def test_a_list_of_sentences_has_no_passages():
    store = Store(np.arange(20, dtype=np.uint16), np.arange(0, 21, 4), Report(), "")
    assert cut(store) == [(i,) for i in range(5)]


def test_a_batch_is_the_text_of_its_passages():
    store = store_of([[3, 2, 4], [2, 2]])
    part = Part(store, np.array([0, 3, 2]), np.array([2, 5, 3]))
    tokens, offsets = part[np.array([1, 0])].batch()
    assert [tokens[a:b].tolist() for a, b in pairwise(offsets)] == [[9, 10, 11, 12], [0, 1, 2, 3, 4]]
    assert part.sentences().indices.tolist() == [0, 1, 3, 4, 2]
    assert part.sentences().counts.tolist() == [1] * 5


# --- Held-out text ----------------------------------------------------------------------------------------------------


def test_whole_paragraphs_are_held_out():
    rng = random.Random(0)
    store = store_of([[5] * rng.randint(1, 9) for _ in range(200)])
    text, held_out = parts(store, None, Config(passage_sentences=2), hold_out=True)
    assert held_out is not None
    assert 0 < held_out.counts.sum() <= len(store) // 100
    every = [(a, b) for part in (text, held_out) for a, b in zip(part.indices, part.ends, strict=True)]
    assert sorted(every) == list(pairwise([*store.paragraphs, len(store)]))
    assert parts(store, None, Config(passage_sentences=2), hold_out=False)[1] is None
    assert parts(store_of([[5] * 500]), None, Config(passage_sentences=2), hold_out=True)[1] is None


def test_given_text_is_held_out_in_paragraphs(monkeypatch):
    monkeypatch.setitem(parts.__globals__, "DEV_MOST", 7)
    store, dev = store_of([[5] * 9]), store_of([[5] * 3] * 4)
    text, held_out = parts(store, dev, Config(passage_sentences=2), hold_out=True)
    assert text.counts.tolist() == [9]
    assert held_out is not None
    assert held_out.counts.tolist() == [3, 3, 1]
    _, sentences = parts(store, dev, Config(), hold_out=True)
    assert sentences is not None
    assert sentences.counts.tolist() == [1] * 7


# --- The two parts of a passage ---------------------------------------------------------------------------------------


@pytest.mark.kernels
def test_a_window_holds_the_passages_and_parts_of_the_cpu(monkeypatch):
    pytest.importorskip("triton")
    from banyan.training import gpu_windows as windows

    monkeypatch.setattr(windows, "ROUNDED", (8, 8))
    rng = random.Random(0)
    store = store_of([[rng.randint(1, 6) for _ in range(rng.randint(1, 6))] for _ in range(20)])
    config = Config(passage_sentences=2)
    passages = all_of(store, config).passages(config, 3)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    drawing = windows.DeviceStore(passages, len(store.tokens), device, False, crops.Cut(0.3, True))
    chosen = [np.array([5, 0, 7, 1]), np.array([2, 3, 9, 8])]
    dropouts = [Dropout(0.1, 8, step) for step in (5, 6)]
    window = drawing.draw(chosen, dropouts)
    for i, (indices, dropout) in enumerate(zip(chosen, dropouts, strict=True)):
        starts, lengths = (array[None] for array in passages[indices].spans())
        starts, lengths = crops.with_crops(starts, lengths, [dropout], 0.3)
        tokens = np.concatenate([store.tokens[a : a + n] for a, n in zip(starts[0], lengths[0], strict=True)])
        assert_holds(window.step(i)[0], tokens, np.cumsum([0, *lengths[0]]), False)


# --- Runs -------------------------------------------------------------------------------------------------------------


def test_a_run_on_paragraphs_takes_every_sentence_once_in_an_epoch(paragraphs, tmp_path, capfd):
    train(paragraphs, tmp_path / "out", epochs=3, **RUNNING, **{**SMALL, "quiet": False})
    said = capfd.readouterr().err
    assert "Assuming one paragraph per line, its sentences separated by tabs" in said
    store = Store.open(tmp_path / "out/training/store")
    _, held_out = parts(store, None, Config(passage_sentences=2), hold_out=True)
    assert held_out is not None
    sentences = len(store) - held_out.counts.sum()
    assert f"training on {sentences} sentences in {len(store.paragraphs) - len(held_out)} paragraphs" in said
    tokens = []
    for epoch in (1, 2, 3):
        rows = [row for row in metrics(tmp_path / "out") if row.get("epoch") == epoch]
        assert sum(row["sentences"] for row in rows) == sentences
        tokens.append([row["tokens"] for row in rows])
    assert len({len(one) for one in tokens}) == 1
    assert len({tuple(one) for one in tokens}) == 3
    rows = [row for row in metrics(tmp_path / "out") if "dev_loss" in row]
    assert all(np.isfinite(row["dev_infonce"]) for row in rows)


def test_single_sentences_of_paragraphs_are_trained_as_a_list_of_sentences(paragraphs, tmp_path):
    listed = tmp_path / "lines.txt"
    listed.write_text(paragraphs.read_text(encoding="utf-8").replace("\t", "\n"), encoding="utf-8")
    train(paragraphs, tmp_path / "one", epochs=1, passage_sentences=1, **SMALL)
    train(listed, tmp_path / "two", epochs=1, passage_sentences=2, **SMALL)
    weights = [load_file(tmp_path / name / "model.safetensors") for name in ("one", "two")]
    for name, values in weights[0].items():
        np.testing.assert_array_equal(values, weights[1][name], err_msg=name)


def test_an_interrupted_run_on_paragraphs_goes_on_to_the_same_bits(paragraphs, tmp_path):
    settings = {"epochs": 3, **RUNNING, **SMALL}
    with interrupted_at(11):  # in the second epoch
        train(paragraphs, tmp_path / "out", **settings)
    train(paragraphs, tmp_path / "out", resume=True, **SMALL)
    train(paragraphs, tmp_path / "whole", **settings)
    assert digest(tmp_path / "out") == digest(tmp_path / "whole")


def test_tokens_that_occur_together_in_a_paragraph_are_counted(paragraphs, tmp_path):
    train(paragraphs, tmp_path / "out", epochs=1, lr=1e-30, init_sketch=1.0, init_ppmi=2.0, preset="paper",
          passage_sentences=2, **SMALL)  # fmt: skip
    config = Config.from_file(tmp_path / "out/config.json")
    pieces = Tokenizer.from_file(tmp_path / "out/tokenizer.json").pieces
    text, _ = parts(Store.open(tmp_path / "out/training/store"), None, config, hold_out=True)
    together = initial.ppmi_vectors(*text.batch(), len(pieces), config.dim, config.seed, torch.device("cpu"))
    apart = initial.ppmi_vectors(*text.sentences().batch(), len(pieces), config.dim, config.seed, torch.device("cpu"))
    sketches = initial.character_sketches(pieces, *text.sentences().batch(), config.dim, config.seed)
    found = load_file(tmp_path / "out/training/checkpoint.safetensors")["model.embedding"]
    np.testing.assert_allclose(found, sketches + 2 * together, rtol=1e-5, atol=1e-6)
    assert np.abs(together - apart).max() > 1e-3


def test_processes_train_on_whole_paragraphs(train_in_processes, paragraphs, tmp_path):
    ended = train_in_processes(paragraphs, tmp_path / "out", **RUNNING)
    assert [code for code, _ in ended] == [0, 0], ended
    assert len({Path(f"{tmp_path}/out.rank{rank}").read_text() for rank in range(2)}) == 1
    stores = [Store.open(tmp_path / f"out/training/store/shard-{rank}-of-2") for rank in range(2)]
    given = [len(line.split("\t")) for line in paragraphs.read_text(encoding="utf-8").splitlines()]
    for rank, store in enumerate(stores):
        assert np.diff([*store.paragraphs, len(store)]).tolist() == given[rank::2]
    _, held_out = parts(stores[0], None, Config(passage_sentences=2), hold_out=True)
    assert held_out is not None
    rows = [row for row in metrics(tmp_path / "out") if "loss" in row]
    assert sum(row["sentences"] for row in rows) == 2 * (400 - held_out.counts.sum())


@pytest.mark.kernels
def test_a_run_by_the_gpu_kernels_draws_the_passages_of_the_cpu(tmp_path, monkeypatch):
    pytest.importorskip("triton")
    from banyan.backends._triton import entangling, passes
    from banyan.training import gpu_windows as windows

    device = "cuda" if torch.cuda.is_available() else "cpu"
    monkeypatch.setattr(windows, "ROUNDED", (8, 8))
    if device == "cpu":  # the interpreter goes through large blocks number by number
        monkeypatch.setattr(entangling, "NUMBERED", 64)
        monkeypatch.setattr(passes, "BLOCK", 32)
        monkeypatch.setattr(passes, "SLABS", 2)
    text = lines(6)
    rows = [{"text": " ".join(text[:3])}, {"text": " ".join(text[3:])}]
    corpus = tmp_path / "documents.jsonl"
    corpus.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    same = {**SMALL, "dim": 8, "channels": 4, "batch_size": 4, "epochs": 2, "layout": "running", **RUNNING}
    same["preset"] = "default"
    train(corpus, tmp_path / "cpu", **same)
    monkeypatch.setattr(backends, "choose", lambda *given: backends.named("triton"))
    monkeypatch.setattr(devices, "window", lambda device: 2)
    monkeypatch.setattr(devices, "adam", adam_with_a_tensor)
    train(corpus, tmp_path / "gpu", **{**same, "device": device, "precision": "float32"})
    by_cpu, by_gpu = ([row for row in metrics(tmp_path / name) if "loss" in row] for name in ("cpu", "gpu"))
    for a, b in zip(by_cpu, by_gpu, strict=True):
        for name in ("loss", "reconstruction", "infonce"):
            assert b.pop(name) == pytest.approx(a.pop(name), rel=1e-4)
        assert a == b
