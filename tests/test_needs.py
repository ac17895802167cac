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
    assert refusal("no_thing", package="no-thing") == "Reading a.parquet needs no-thing: pip install no-thing"
    assert refusal("nothing") == "Reading a.parquet needs nothing: pip install nothing"


def test_a_missing_dependency_and_an_old_version_are_named_too():
    assert refusal("nothing", package="thing") == (
        "Reading a.parquet needs thing (No module named 'nothing'): pip install thing"
    )
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
