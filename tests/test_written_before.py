"""What banyan-embed 0.1.0 wrote still works: a model folder, an index, and an unfinished run."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from banyan import Banyan, BanyanError
from banyan.corpus.sources import File
from banyan.search.index import Index, Maker
from banyan.search.searching import Searcher
from banyan.training import train

WRITTEN = Path(__file__).parent / "data" / "written_by_0.1.0"
EXPECTED = json.loads((WRITTEN / "expected.json").read_text(encoding="utf-8"))


@pytest.fixture
def written(tmp_path) -> Path:
    """A copy, because an index takes a lock and a run goes on."""
    return Path(shutil.copytree(WRITTEN, tmp_path / "written"))


def test_a_model_folder_of_the_version_before_encodes_as_it_did(written):
    model = Banyan.from_pretrained(written / "model")
    np.testing.assert_allclose(model.encode(EXPECTED["texts"]), EXPECTED["vectors"], rtol=1e-5, atol=1e-6)
    assert model.parse(EXPECTED["texts"][0]).to_brackets() == EXPECTED["tree"]


def test_an_index_of_the_version_before_finds_what_it_found(written):
    pytest.importorskip("lancedb")
    model = Banyan.from_pretrained(written / "model")
    index = Index.open(written / "index")
    index.check(Maker.of(model, written / "model"))
    hits = Searcher(index, lambda texts: model.encode(texts), model.explain).search("a king near the river", 5)
    expected = [json.loads(line) for line in (written / "search.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [(hit.row, hit.text) for hit in hits] == [(one["row"], one["text"]) for one in expected]
    np.testing.assert_allclose([hit.score for hit in hits], [one["score"] for one in expected], rtol=1e-5)


def test_a_run_of_the_version_before_is_resumed_and_ends_as_it_would_have(written, monkeypatch):
    monkeypatch.setattr(File, "mark", lambda self: EXPECTED["corpus"])  # a file is known by its path and time
    model = train(written / "corpus.txt", written / "run", resume=True, device="cpu", quiet=True)
    np.testing.assert_allclose(model.encode(EXPECTED["texts"]), EXPECTED["vectors"], rtol=1e-3, atol=1e-4)


def with_setting(path: Path, **settings: object) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text(encoding="utf-8")), **settings}), encoding="utf-8")


def test_a_model_with_learned_ngram_vectors_is_refused_with_the_last_version_that_reads_it(written):
    with_setting(written / "model/config.json", ngrams=1000)
    with pytest.raises(BanyanError, match=r"has learned n-gram vectors; the last version .* is banyan-embed 0\.1\.0"):
        Banyan.from_pretrained(written / "model")


def test_a_model_trained_with_overlapping_crops_still_encodes(written):
    with_setting(written / "model/config.json", crop_kind="free", crop_shortest=0.8)
    vectors = Banyan.from_pretrained(written / "model").encode(EXPECTED["texts"])
    np.testing.assert_allclose(vectors, EXPECTED["vectors"], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"crop_kind": "free"}, r"overlapping crops; the last version that can continue it is banyan-embed 0\.1\.0"),
        ({"ngrams": 1000}, r"learned n-gram vectors; the last version that reads it is banyan-embed 0\.1\.0"),
    ],
)
def test_a_run_that_needs_what_is_gone_is_refused(written, settings, says):
    with_setting(written / "run/training/run.json", **settings)
    with pytest.raises(BanyanError, match=says):
        train(written / "corpus.txt", written / "run", resume=True, device="cpu", quiet=True)
