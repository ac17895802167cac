"""The demo's text, its measure and its search; training itself is tested elsewhere."""

from __future__ import annotations

import importlib
import io
import re
import subprocess
import sys
import warnings
import zipfile
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from banyan.config import Config
from banyan.demo import demo
from banyan.demo.demo import Search, docstring_task, measure, run_demo
from banyan.demo.stdlib_text import Entry, StdlibText, gather, to_sentences
from banyan.errors import BanyanError
from banyan.support.needs import pip_install

TOOLS = '''
"""Tools for the garden.

They are kept in the shed.
"""
raise RuntimeError("this module was imported")

# A comment that goes on for two lines is prose,
# and is worth learning from.
#
# x = rake(3)

class Rake:
    """A rake gathers fallen leaves.

    Use it in autumn::

        rake = Rake()

    >>> Rake().pull()
    42

    :param teeth: how many teeth the ``rake`` has
    """

    if True:
        async def pull(self):
            r"""Pull the rake *slowly* towards
            you. Old strings have \\d in them.
            """

def _private():
    "Something nobody outside should call."
'''

TOPICS = '''
topics = {'lists': 'List "displays"\\n*************\\n\\nA list display is a series of expressions.\\n'
          '\\n   list ::= "[" "]"\\n\\n'
          'class list(iterable)\\n\\n   Lists are made in several ways.\\n\\n'
          '   sort(*, key=None)\\n\\n      This method sorts the list in place.\\n\\n'
          '   len(s)\\n\\n      Gives the length of the list.\\n\\n'
          'And so on:\\n\\n   print(1)\\n\\nNothing more is said here.\\n'}
'''


@pytest.fixture
def library(tmp_path: Path) -> Path:
    """A small standard library, with everything that can be in the way."""
    root = tmp_path / "lib"
    files: dict[str, str | bytes] = {
        "garden/tools.py": TOOLS,
        "garden/__init__.py": '"""A place where plants are grown."""',
        "broken.py": "def f(:",
        "nul.py": b"x = 1\0",
        "latin.py": '# -*- coding: latin-1 -*-\n"""Le café est un lieu of great charm."""'.encode("latin-1"),
        "wrong.py": '"""Un café that is not what it claims."""'.encode("latin-1"),
        "escape.py": '"""A string with an old \\d escape in it."""',
        "_pyio.py": '"""The input and output of bytes."""',
        "again.py": '"""A place where plants are grown."""',
        "pydoc_data/topics.py": TOPICS,
        "test/test_x.py": '"""Tests are left out of the text."""',
        "site-packages/other.py": '"""Packages of others are left out."""',
    }
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return root


def by_name(text: StdlibText) -> dict[str, tuple[str, ...]]:
    return {entry.name: entry.sentences for entry in text.entries}


def test_docstrings_are_found_by_name_without_markup_code_and_doctests(library):
    found = by_name(gather(library))
    assert found["garden.tools"] == ("Tools for the garden.", "They are kept in the shed.")
    assert found["garden.tools.Rake"] == ("A rake gathers fallen leaves.", "how many teeth the rake has")
    assert found["garden.tools.Rake.pull"][0] == "Pull the rake slowly towards you."
    assert found["io"] == ("The input and output of bytes.",)


def test_an_entry_says_where_it_stands(library):
    (rake,) = (entry for entry in gather(library).entries if entry.name == "garden.tools.Rake")
    line = (library / rake.path).read_text().splitlines()[rake.line - 1]
    assert line == "class Rake:"


def test_encoding_cookies_are_honoured_and_unreadable_files_passed_over(library):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = by_name(gather(library))
    assert found["latin"] == ("Le café est un lieu of great charm.",)
    assert "escape" in found
    assert not {"broken", "nul", "wrong"} & set(found)


def test_nothing_is_imported(library, monkeypatch):
    monkeypatch.syspath_prepend(library)
    before = set(sys.modules)
    gather(library)
    assert not {name for name in set(sys.modules) - before if name.startswith(("garden", "pydoc_data"))}


def test_tests_and_installed_packages_are_left_out_and_equal_docstrings_come_once(library):
    found = by_name(gather(library))
    assert not [name for name in found if name.startswith(("test", "site-packages"))]
    assert [name for name, sentences in found.items() if sentences == ("A place where plants are grown.",)] == ["again"]


def test_comments_of_several_lines_are_read_as_prose(library):
    assert gather(library).comments == ["A comment that goes on for two lines is prose, and is worth learning from."]


def test_the_reference_is_cut_into_sections_and_definitions(library):
    found = by_name(gather(library))
    assert found["List displays (reference)"] == ("A list display is a series of expressions.",)
    assert found["list"] == ("Lists are made in several ways.",)
    assert found["list.sort"] == ("This method sorts the list in place.",)
    assert found["len"] == ("Gives the length of the list.", "Nothing more is said here.")
    assert "print" not in found


def test_the_order_is_that_of_the_paths(library):
    paths = [entry.path for entry in gather(library).entries]
    assert paths == sorted(paths)


def test_a_library_in_a_zip_archive_reads_the_same(library, tmp_path):
    archive = tmp_path / "python.zip"
    with zipfile.ZipFile(archive, "w") as file:
        for path in library.rglob("*.py"):
            file.write(path, path.relative_to(library).as_posix())
    assert gather(archive) == gather(library)


@pytest.mark.parametrize("kind", ["folder", "zip", "not a zip"])
def test_a_library_without_sources_is_a_clear_error(tmp_path, kind):
    place = tmp_path / "lib"
    if kind == "folder":
        place.mkdir()
        (place / "os.pyc").touch()
    elif kind == "zip":
        with zipfile.ZipFile(place, "w") as file:
            file.writestr("os.pyc", b"")
    else:
        place.write_bytes(b"abc")
    with pytest.raises(BanyanError, match="lib"):
        gather(place)


def test_private_names_are_not_public_but_special_methods_are():
    def public(name: str) -> bool:
        return Entry(name, "x.py", 1, ("Some words.",)).public

    assert public("garden.Rake")
    assert public("garden.Rake.__init__")
    assert not public("garden._Rake.pull")
    assert not public("_garden.rake")
    assert not public("garden.Rake.__pull")


@pytest.mark.parametrize(
    ("documentation", "sentences"),
    [
        ("", []),
        ("f(x) -> int\n\nReturn the value of x.", ["Return the value of x."]),
        ("path -- the path of the file\nmode -- how it is opened", ["the path of the file", "how it is opened"]),
        ("Title\n=====\n\nSee :func:`~os.walk` and *top* for ``more`` of it.", ["See os.walk and top for more of it."]),
        ("Same words again here.\n\nSame words again here.", ["Same words again here."]),
        ("    x = f(y) + g(z)\n    return x", []),
        ("- the first of them\n  goes on\n- the second of them", ["the first of them goes on", "the second of them"]),
    ],
)
def test_documentation_becomes_sentences(documentation, sentences):
    assert to_sentences(documentation) == sentences


@pytest.fixture(scope="module")
def own() -> StdlibText:
    """The text of this Python's own library."""
    return gather()


def test_this_pythons_own_library_is_large_enough_to_learn_from(own):
    assert len(own.entries) > 4000
    assert sum(len(sentence.split()) for sentence in own.sentences()) > 200_000
    assert any(entry.name == "textwrap.dedent" for entry in own.entries)


# The measure

ANIMALS = ["cat", "dog", "horse", "cow", "sheep", "goat", "duck", "hen", "pig", "donkey"]


@pytest.fixture
def animals() -> list[Entry]:
    rest = "Much more could be said about every single {0}."
    return [
        Entry(f"farm.{name}", "farm.py", i, (f"Here is a {name}.", rest.format(name)))
        for i, name in enumerate(ANIMALS)
    ]


def knows_animals(texts: list[str]) -> np.ndarray:
    """A vector of which animals are named."""
    return np.array([[float(name in text) for name in ANIMALS] for text in texts], np.float32)


def knows_nothing(texts: list[str]) -> np.ndarray:
    return np.ones((len(texts), 4), np.float32)


def test_recall_is_one_for_an_encoder_that_knows_and_chance_for_one_that_does_not(animals):
    found = measure({"knows": knows_animals, "nothing": knows_nothing}, docstring_task(animals))
    assert found["knows"] == {1: 1.0, 10: 1.0}
    assert found["nothing"] == found["chance"] == {1: pytest.approx(0.1), 10: 1.0}


def test_an_encoder_that_points_elsewhere_finds_nothing(animals):
    def opposite(texts: list[str]) -> np.ndarray:
        sign = [1 if text.startswith("Here") else -1 for text in texts]
        return knows_animals(texts) * np.array(sign, np.float32)[:, None]

    assert measure({"opposite": opposite}, docstring_task(animals))["opposite"][1] == 0


def test_tfidf_beats_random_vectors(own):
    task = docstring_task(own.entries, held_out=200)
    rng = np.random.default_rng(0)
    found = measure({"random": lambda texts: rng.normal(size=(len(texts), 16)).astype(np.float32)}, task)
    assert found["random"][10] < 0.05
    assert found["TF-IDF, words"][10] > 0.3
    assert found["TF-IDF, 3-4 letters"][10] > 0.3


def test_the_docstrings_asked_about_are_held_out_whole(animals):
    task = docstring_task(animals, held_out=3)
    assert len(task.queries) == 3
    assert len(task.rests) == len(animals)
    for query, answer in zip(task.queries, task.answers, strict=True):
        assert {query, task.rests[answer]} <= task.held_out
        assert query.split()[-1] == task.rests[answer].split()[-1]
    assert len(task.held_out) == 6


def test_docstrings_that_repeat_are_asked_about_once(animals):
    first, rest = animals[0].sentences
    twins = [
        Entry("twin.a", "twin.py", 1, (first, "It has another rest but the very same first sentence.")),
        Entry("twin.b", "twin.py", 2, ("Another first sentence than before.", rest)),
        Entry("short", "twin.py", 3, ("There is nothing more to say.",)),
    ]
    assert len(docstring_task([*animals, *twins]).rests) == len(animals)


def test_too_little_text_is_a_clear_error(animals):
    with pytest.raises(BanyanError, match="docstrings of several sentences"):
        docstring_task(animals[:1])


# The search


def test_search_finds_an_exact_match_first(animals):
    hits = Search(knows_animals, animals).find(animals[3].sentences[0], k=2)
    assert hits[0].entry == animals[3]
    assert hits[0].score == pytest.approx(1)
    assert hits[0].score > hits[1].score


def test_search_with_a_query_that_means_nothing_scores_zero(animals):
    assert [hit.score for hit in Search(knows_animals, animals).find("", k=3)] == [0, 0, 0]


def test_asking_for_more_hits_than_there_are_gives_all(animals):
    assert len(Search(knows_animals, animals).find("cat", k=99)) == len(animals)


def test_what_users_do_not_call_is_not_searched():
    names = ["textwrap.dedent", "textwrap._private", "idlelib.run", "distutils"]
    entries = [Entry(name, "x.py", 1, ("Some words.",)) for name in names]
    assert [entry.name for entry in demo.searchable(entries)] == ["textwrap.dedent"]


# All of it, with a model that needs no training


class Farm:
    encode = staticmethod(knows_animals)

    def parse(self, text: str) -> str:
        return f"[a tree] of {text}"


def run(out: Path, text: StdlibText) -> tuple[dict, str, list[dict]]:
    calls: list[dict] = []

    def train(corpus: Path, out: Path, **settings) -> Farm:
        calls.append({"corpus": corpus.read_text(), **settings})
        (out / "training").mkdir(exist_ok=True)
        (out / "training" / "run.json").write_text(Config.from_preset(**demo.SETTINGS).to_json())
        return Farm()

    shown = io.StringIO()
    console = Console(file=shown, width=80)
    results = run_demo(out, train=train, untrained=lambda model: Farm(), console=console, text=text)
    return results, shown.getvalue(), calls


@pytest.fixture
def farm(animals, monkeypatch) -> StdlibText:
    monkeypatch.setattr(demo, "docstring_task", lambda entries: docstring_task(entries, held_out=4))
    return StdlibText(animals, ["A comment about all of the animals.", animals[0].sentences[0]])


def test_the_demo_trains_searches_and_measures(tmp_path, farm):
    results, shown, (call,) = run(tmp_path / "out", farm)
    assert results["Banyan"][1] == 1
    assert all(query in shown for query in demo.QUERIES)
    assert f"[a tree] of {demo.PARSED}" in shown
    assert "TF-IDF" in shown
    assert "recall@10" in shown
    assert "\x1b" not in shown
    assert max(map(len, shown.splitlines())) <= 80
    assert call["layout"] == "lines"


def test_held_out_sentences_are_not_in_the_corpus(tmp_path, farm, animals):
    _, _, (call,) = run(tmp_path / "out", farm)
    lines = call["corpus"].splitlines()
    held_out = docstring_task(animals, held_out=4).held_out
    assert animals[0].sentences[0] in held_out  # and is a comment too
    assert not held_out & set(lines)
    assert set(lines) == set(farm.sentences()) - held_out
    assert len(lines) == len(set(lines))


def test_a_second_run_goes_on_with_the_first_unless_the_text_changed(tmp_path, farm, animals):
    run(tmp_path / "out", farm)
    _, _, (again,) = run(tmp_path / "out", farm)
    assert again["resume"]
    assert not again["overwrite"]
    _, _, (changed,) = run(tmp_path / "out", StdlibText(animals, ["Another comment about the animals."]))
    assert changed["overwrite"]
    assert not changed["resume"]


def test_a_model_that_is_not_the_demos_is_never_overwritten(tmp_path, farm):
    (tmp_path / "training").mkdir()
    (tmp_path / "training" / "run.json").write_text("{}")
    with pytest.raises(BanyanError, match="not the demo's"):
        run(tmp_path, farm)
    assert not (tmp_path / "corpus.txt").exists()


@pytest.mark.parametrize("missing", ["torch", "sklearn"])
def test_a_missing_package_is_said_before_training(tmp_path, farm, monkeypatch, missing):
    importlib.import_module("scipy.stats")  # while it is imported, it takes None for torch itself
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(BanyanError, match=re.escape(pip_install("train,demo"))):
        run(tmp_path, farm)


def test_the_prompt_searches_until_an_empty_line(animals, monkeypatch):
    typed = iter(["a donkey", " "])
    shown = io.StringIO()
    console = Console(file=shown, width=80)
    monkeypatch.setattr(console, "input", lambda prompt: next(typed))
    demo._prompt(Search(knows_animals, animals), console)
    assert shown.getvalue().count("farm.") == 8
    assert "1.00  farm.donkey" in shown.getvalue()


@pytest.mark.parametrize("end", [EOFError, KeyboardInterrupt])
def test_the_prompt_ends_quietly_on_end_of_input_and_ctrl_c(animals, monkeypatch, end):
    def interrupted(prompt: str) -> str:
        raise end

    console = Console(file=io.StringIO())
    monkeypatch.setattr(console, "input", interrupted)
    demo._prompt(Search(knows_animals, animals), console)


def test_importing_the_demo_imports_neither_torch_nor_scikit_learn():
    code = "import sys, banyan.demo; sys.exit(bool({'torch', 'sklearn', 'numba', 'rich'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
