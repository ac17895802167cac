"""What is said when an optional package is missing."""

import json
import sys
from importlib import metadata
from types import SimpleNamespace

import pytest

from banyan.errors import BanyanError
from banyan.integrations import opening
from banyan.support.needs import needs, pip_install, pip_install_elsewhere
from tests.helpers.places import ROOT


def refusal(module, **installs):
    with pytest.raises(BanyanError) as raised, needs("Reading a.parquet", **installs):
        __import__(module)
    return str(raised.value)


def test_a_missing_package_is_named_with_its_purpose_and_the_command_that_installs_it():
    assert refusal("nothing", extra="data") == f"Reading a.parquet needs nothing: {pip_install('data')}"
    assert refusal("no_thing") == "Reading a.parquet needs no-thing: pip install no-thing"


@pytest.fixture
def installed(monkeypatch):
    """Let pip have noted something when Banyan was installed."""

    def let(about: dict | None) -> None:
        noted = SimpleNamespace(read_text=lambda name: about and json.dumps(about))
        monkeypatch.setattr("importlib.metadata.distribution", lambda name: noted)

    return let


def test_an_extra_comes_from_where_banyan_came_from(installed, tmp_path):
    installed(None)  # from an index, such as PyPI
    assert pip_install("serve") == 'pip install "banyan-embed[serve]"'
    tree = tmp_path / "a tree"
    tree.mkdir()
    installed({"url": tree.as_uri(), "dir_info": {}})
    assert pip_install("serve,data") == f'pip install "{tree}[serve,data]"'
    installed({"url": tree.as_uri(), "dir_info": {"editable": True}})
    assert pip_install("serve") == f'pip install -e "{tree}[serve]"'
    tree.rmdir()
    installed({"url": tree.as_uri(), "dir_info": {}})
    assert pip_install("serve") == 'pip install "banyan-embed[serve]"'
    installed({"url": "https://x.org/banyan", "vcs_info": {"vcs": "git", "commit_id": "1"}})
    assert pip_install("serve") == 'pip install "banyan-embed[serve] @ git+https://x.org/banyan"'


def test_on_another_machine_banyan_comes_from_an_address_and_from_no_folder_of_this_one(installed, tmp_path):
    installed(None)
    assert pip_install_elsewhere() == "pip install banyan-embed"
    installed({"url": "https://x.org/banyan", "vcs_info": {"vcs": "git", "commit_id": "1"}})
    assert pip_install_elsewhere() == 'pip install "banyan-embed @ git+https://x.org/banyan"'
    assert "'pip install \"banyan-embed @ git+" in opening.contents()[opening.MODELING]
    for about in ({"dir_info": {}}, {"vcs_info": {"vcs": "git", "commit_id": "1"}}):
        installed({"url": tmp_path.as_uri(), **about})
        assert pip_install_elsewhere() is None
        assert str(tmp_path) not in "".join(opening.contents().values())


def test_without_an_installation_the_source_tree_is_named(monkeypatch):
    def missing(name: str) -> None:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr("importlib.metadata.distribution", missing)
    assert pip_install("serve") == f'pip install -e "{ROOT}[serve]"'


def test_a_package_goes_by_the_name_that_pip_knows(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn", None)
    assert refusal("sklearn") == "Reading a.parquet needs scikit-learn: pip install scikit-learn"


def test_a_package_that_is_too_old_is_named_with_what_it_lacks():
    assert refusal("json.newer") == "Reading a.parquet needs json (No module named 'json.newer'): pip install json"
    with pytest.raises(BanyanError, match=r"needs json \(cannot import name 'newer' from 'json'.*\): pip"), needs("It"):
        from json import newer  # noqa: F401


def test_an_error_without_a_name_gives_its_first_sentence():
    with pytest.raises(BanyanError) as raised, needs("It", extra="x"):
        raise ImportError("`a` is required. Please reinstall `b[a]`")
    assert str(raised.value) == f"It needs another package (`a` is required): {pip_install('x')}"


def test_what_is_installed_is_imported():
    with needs("It"):
        import json
    assert json is sys.modules["json"]


def test_our_own_mistakes_are_not_hidden():
    with pytest.raises(ModuleNotFoundError), needs("It"):
        __import__("banyan.nothing")
