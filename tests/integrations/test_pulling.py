"""A model of the Hub becomes a folder."""

from __future__ import annotations

import errno

import pytest

from banyan import Banyan, BanyanError
from banyan.checking import check
from banyan.integrations import hub, pulling
from banyan.integrations.pulling import LANGUAGES, OWNER, full_name, pull
from banyan.support import files


@pytest.fixture
def pushed(tmp_path, monkeypatch, model):
    """Our model "en", as the Hub's cache holds it. tests/integrations/test_hub.py asks a Hub."""
    model.save_pretrained(tmp_path / "cache")
    (tmp_path / "cache/README.md").write_text("license: cc-by-sa-4.0\n")
    found = {f"{OWNER}/en": tmp_path / "cache"}
    monkeypatch.setattr(hub, "fetch", lambda name, revision, token: found[name])


def test_a_model_is_pulled_by_its_short_name_into_a_folder_that_is_whole(pushed, tmp_path, model, banyan, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, _, told = banyan("pull", "en", "-o", tmp_path / "english")
    assert (code, told.splitlines()[-1]) == (0, f"wrote {tmp_path / 'english'}")
    assert Banyan.from_pretrained(tmp_path / "english").fingerprint() == model.fingerprint()
    assert check(tmp_path / "english").problems == []
    assert "license: cc-by-sa-4.0" in (tmp_path / "english/README.md").read_text()
    assert pull(f"{OWNER}/en").name == "en"
    with pytest.raises(BanyanError, match="en exists already: name a new folder with -o"):
        pull("en")


def test_a_pull_that_fails_or_is_killed_is_no_obstacle_to_the_next(pushed, tmp_path, monkeypatch):
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(pulling.shutil, "copyfile", full)
        with pytest.raises(BanyanError, match=r"cannot write .*en: the disk is full"):
            pull("en", tmp_path / "en")
    assert [path.name for path in tmp_path.iterdir()] == ["cache"]
    (tmp_path / f".en.999999999{files._here()}.tmp").mkdir()  # what a killed process left
    pull("en", tmp_path / "en")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cache", "en"]


@pytest.mark.parametrize("call", [lambda out: pull("en", out), lambda out: Banyan.from_pretrained(f"{OWNER}/en")])
def test_our_own_models_that_are_not_there_are_told_with_what_to_do(tmp_path, monkeypatch, call):
    huggingface_hub = pytest.importorskip("huggingface_hub", reason="huggingface-hub is not installed")

    def gone(*_: object, **__: object) -> None:
        raise OSError("Name or service not known")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", gone)
    with pytest.raises(BanyanError) as raised:
        call(tmp_path / "en")
    told = f"our model '{OWNER}/en' cannot be downloaded from the Hub (Name or service not known); our own models "
    assert str(raised.value).startswith(f"{told}were not uploaded yet")
    assert "docs/pretrained.md" in str(raised.value)
    with pytest.raises(BanyanError, match=r"'you/it', and it cannot be downloaded from the Hub \(Name.* known\)$"):
        Banyan.from_pretrained("you/it")
    assert not any(tmp_path.iterdir())


def test_names_that_cannot_be_are_told():
    assert [full_name(name) for name in ("en", "a/b")] == [f"{OWNER}/en", "a/b"]
    with pytest.raises(BanyanError, match=r"there is no model 'klingon': use OWNER/MODEL, or one of our.*: en, la, ar"):
        full_name("klingon")
    assert set(pulling.LANGUAGES) == set(LANGUAGES)
