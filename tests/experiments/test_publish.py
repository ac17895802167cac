"""What is published, in a dry run: the folder is ready, and nothing is uploaded."""

from __future__ import annotations

import lzma

import pytest

from banyan import Banyan
from banyan.checking import check
from experiments import publish


@pytest.fixture
def data(tmp_path):
    for language in ("la", "ha"):
        folder = tmp_path / "data/corpora" / language
        folder.mkdir(parents=True)
        (folder / "train.txt.xz").write_bytes(lzma.compress(b"arma virumque cano\n"))
    (tmp_path / "data/eval").mkdir()
    return tmp_path / "data"


@pytest.fixture(autouse=True)
def nothing_is_uploaded(monkeypatch):
    def refuse(*arguments):
        raise AssertionError("uploaded")

    monkeypatch.setattr(publish, "upload", refuse)


def test_a_dry_run_makes_the_whole_folder(data, tmp_path, trained_folder, capsys):
    pytest.importorskip("huggingface_hub", reason="huggingface_hub is not installed")
    out = tmp_path / "published"
    assert publish.main(["la", "--model", str(trained_folder), "--out", str(out), "--data", str(data)]) == 0
    assert "nothing was uploaded" in capsys.readouterr().out
    assert Banyan.from_pretrained(out).fingerprint() == Banyan.from_pretrained(trained_folder).fingerprint()
    assert check(out).problems == []
    assert lzma.decompress((out / "train.txt.xz").read_bytes()) == b"arma virumque cano\n"
    card = (out / "README.md").read_text()
    for told in ("license: cc0-1.0", "language: la", "# banyan-embed/la", "The Latin Library", "## Limits"):
        assert told in card
    assert card.index("## Training text") < card.index("The Latin Library") < card.index("## Figures")
    assert "None" not in card.split("---")[1]
    assert "Public domain" in (out / "TEXT.md").read_text()


def test_figures_have_intervals_and_what_is_missing_is_said(data, tmp_path, trained_folder, monkeypatch):
    pytest.importorskip("huggingface_hub", reason="huggingface_hub is not installed")
    monkeypatch.setitem(publish.TEXTS, "la", publish.TEXTS["la"]._replace(suites=("sts",)))
    rows = ["sent1,sent2,score", *(f"the cat {i},the cat {i % 3},{i}" for i in range(9))]
    (data / "eval/sts12_test.csv").write_text("\n".join(rows))
    publish.main(["la", "--model", str(trained_folder), "--out", str(tmp_path / "out"), "--data", str(data)])
    figures = (tmp_path / "out/README.md").read_text().partition("## Figures")[2].partition("##")[0].splitlines()
    (measured,) = [line for line in figures if "sts12" in line]
    assert " to " in measured
    assert len(figures) > 8


@pytest.mark.parametrize(
    ("language", "told"), [("ha", "the text of 'ha' may not be passed on: en, la may"), ("en", "the text is missing")]
)
def test_what_may_not_be_published_is_refused(language, told, data, tmp_path, trained_folder, capsys):
    options = [language, "--model", str(trained_folder), "--out", str(tmp_path / "out"), "--data", str(data), "--push"]
    assert publish.main(options) == 1
    assert told in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
