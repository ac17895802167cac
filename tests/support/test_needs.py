"""What is said when an optional package is missing."""

import sys

import pytest

from banyan.errors import BanyanError
from banyan.support.needs import needs


def refusal(module, **installs):
    with pytest.raises(BanyanError) as raised, needs("Reading a.parquet", **installs):
        __import__(module)
    return str(raised.value)


def test_a_missing_package_is_named_with_its_purpose_and_the_command_that_installs_it():
    assert refusal("nothing", extra="data") == 'Reading a.parquet needs nothing: pip install "banyan-embed[data]"'
    assert refusal("no_thing") == "Reading a.parquet needs no-thing: pip install no-thing"


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
    assert str(raised.value) == 'It needs another package (`a` is required): pip install "banyan-embed[x]"'


def test_what_is_installed_is_imported():
    with needs("It"):
        import json
    assert json is sys.modules["json"]


def test_our_own_mistakes_are_not_hidden():
    with pytest.raises(ModuleNotFoundError), needs("It"):
        __import__("banyan.nothing")
