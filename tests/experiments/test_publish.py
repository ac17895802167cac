"""What is published, in a dry run: the folder is ready, and nothing is uploaded."""

from __future__ import annotations

import lzma
from pathlib import Path

import pytest

from banyan import Banyan
from banyan.checking import check
from banyan.evaluate import suites
from banyan.integrations.pulling import OWNER
from experiments import publish
from experiments.places import ROOT
from experiments.texts import TEXTS, WITHHELD

TRAINED_ON = 400  # lines, as trained_folder
LATIN = "".join(f"arma virumque cano {i}\n" for i in range(TRAINED_ON))
LINES = ["ولد في بغداد.", "مصر.. عنوان بلا نقطة", "عنوان بلا نقطة", "عنوان لCNN.", "هل هذا سؤال؟"]


@pytest.fixture
def data(tmp_path):
    for language, text in {"la": LATIN, "ar": "\n".join([*LINES, ""]), "ha": "sannu\n"}.items():
        folder = tmp_path / "data/corpora" / language
        folder.mkdir(parents=True)
        (folder / "train.txt.xz").write_bytes(lzma.compress(text.encode()))
    (tmp_path / "data/eval").mkdir()
    return tmp_path / "data"


@pytest.fixture(autouse=True)
def nothing_is_uploaded(monkeypatch):
    def refuse(*arguments):
        raise AssertionError("uploaded")

    monkeypatch.setattr(publish, "upload", refuse)


@pytest.fixture
def latin(monkeypatch):
    """Let one Latin set be measured."""
    entry = {"set": "Psalms", "measure": "MRR", "ways": {"Banyan": [71.23, 70, 72], "TF-IDF": [60.1, 59, 61]}}
    monkeypatch.setattr("experiments.latin.measure.score_sets", lambda folder, *given: [entry])


def publish_in(data, tmp_path, language, *more) -> tuple[int, Path]:
    out = tmp_path / "published"
    return publish.main([language, "--out", str(out), "--data", str(data), *map(str, more)]), out


def test_a_dry_run_makes_the_whole_folder(data, tmp_path, trained_folder, latin, capsys):
    pytest.importorskip("huggingface_hub", reason="huggingface_hub is not installed")
    pytest.importorskip("sklearn", reason="scikit-learn is not installed")
    status, out = publish_in(data, tmp_path, "la", "--model", trained_folder)
    assert status == 0
    assert "nothing was uploaded" in capsys.readouterr().out
    assert Banyan.from_pretrained(out).fingerprint() == Banyan.from_pretrained(trained_folder).fingerprint()
    assert check(out).problems == []
    assert lzma.decompress((out / "train.txt.xz").read_bytes()).decode() == LATIN
    card = (out / "README.md").read_text()
    for told in ("license: cc0-1.0", "language: la", "# banyan-embed/la", "The Latin Library", "## Limits"):
        assert told in card
    assert card.index("## Training text") < card.index("The Latin Library") < card.index("## Figures")
    assert "| Psalms | MRR | 71.2 | 70.0 to 72.0 | 60.1 |" in card
    assert "None" not in card.split("---")[1]
    assert "Public domain" in (out / "TEXT.md").read_text()


def test_figures_have_intervals_and_what_is_missing_is_said(data, tmp_path, trained_folder):
    pytest.importorskip("huggingface_hub", reason="huggingface_hub is not installed")
    rows = ["sent1,sent2,score", *(f"the cat {i},the cat {i % 3},{i}" for i in range(9))]
    (data / "corpora/ar/train.txt.xz").write_bytes(lzma.compress((LINES[0] + "\n").encode() * TRAINED_ON))
    (data / "eval/ar_test.csv").write_text("\n".join(rows))
    (data / "eval/semrel_dev").mkdir()
    (data / "eval/semrel_dev/ar.csv").write_text("\n".join(rows))
    status, out = publish_in(data, tmp_path, "ar", "--model", trained_folder)
    assert status == 0
    figures = (out / "README.md").read_text().partition("## Figures")[2].partition("##")[0].splitlines()
    measured = [line for line in figures if line.startswith(("| ar |", "| semrel_dev/ar |"))]
    assert len(measured) == 2
    assert all(" to " in line for line in measured)
    missing = suites.Result("sts", "sts12", None, "not measured; no sts12_test.csv")
    assert publish._line(missing) == "| sts12 | | | not measured; no sts12_test.csv |"


def test_a_model_of_another_text_is_refused(data, tmp_path, trained_folder, model_folder, capsys):
    (data / "corpora/la/train.txt.xz").write_bytes(lzma.compress(b"arma virumque cano\n"))
    for folder, read in ((trained_folder, "400 lines"), (model_folder, "an unknown text")):
        status, out = publish_in(data, tmp_path, "la", "--model", folder)
        assert status == 1
        assert f"was trained on {read}, but the text to publish has 1: train it" in capsys.readouterr().err
        assert not out.exists()


def test_without_a_model_there_is_the_text_to_train_on_and_no_line_of_unknown_licence(data, tmp_path, capsys):
    status, out = publish_in(data, tmp_path, "ar")
    assert status == 0
    assert sorted(path.name for path in out.iterdir()) == ["TEXT.md", "train.txt.xz"]
    assert lzma.decompress((out / "train.txt.xz").read_bytes()).decode() == "ولد في بغداد.\n"
    assert "full stop" in (out / "TEXT.md").read_text()
    assert publish_in(data, tmp_path / "more", "la", "--push")[0] == 1
    assert "--push uploads a model" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("language", "told"),
    [
        ("ha", "the text of 'ha' may not be passed on: it is news of the BBC"),
        ("en", "the text is missing"),
        ("xx", "there is no text of 'xx': choose one of en, la, ar"),
    ],
)
def test_what_may_not_be_published_is_refused(language, told, data, tmp_path, trained_folder, capsys):
    status, out = publish_in(data, tmp_path, language, "--model", trained_folder, "--push")
    assert status == 1
    assert told in capsys.readouterr().err
    assert not out.exists()


def test_every_language_that_we_measure_is_published_or_the_docs_say_why_not():
    page = (ROOT / "docs/pretrained.md").read_text()
    assert {*TEXTS, *WITHHELD} == {*suites.LANGUAGES, "en", "la"}
    assert not TEXTS.keys() & WITHHELD.keys()
    for language in TEXTS:
        assert f"| `{language}` | `{OWNER}/{language}` |" in page
    for reason in WITHHELD.values():
        assert reason in page
