"""What README and docs/ say is so: their code runs, their references lead somewhere, the site builds."""

from __future__ import annotations

import importlib
import inspect
import json
import os
import re
import shutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from functools import reduce
from pathlib import Path
from typing import Any

import pytest
from markdown_it import MarkdownIt

from banyan.commands import _parser, main
from banyan.config import Config
from tests.helpers.browser import chromium, opened
from tests.helpers.corpora import lines
from tests.helpers.documents import COMMANDS, LANGUAGES, MADE_BY, PAGES, ROOT, Block, Reader, blocks, check, commands
from tests.helpers.hub_stand_in import TOKEN, hub

BLOCKS = [block for page in PAGES for block in blocks(page)]
THROUGH_THE_CODE = ROOT / "docs/a-sentence-through-the-code.md"
API = ROOT / "docs/api.md"
NEEDED = {
    "classify.md": ("sklearn",),
    "fasttext.md": ("gensim",),
    "integrations.md": ("sklearn", "sentence_transformers", "datasets", "accelerate", "mteb", "langchain_core",
                        "llama_index.core", "lancedb", "spacy", "bertopic", "huggingface_hub", "onnx", "onnxruntime",
                        "model2vec"),
    "scaling.md": ("ray", "pyarrow"),
    "search.md": ("lancedb",),
    "serving.md": ("openai", "langchain_openai"),
    "tuning.md": ("lancedb",),
}  # fmt: skip


LISTS = """\
import numpy as np

from banyan import Banyan

model = Banyan.from_pretrained("model/")
one: float = model.similarity("a", "b")
all_of_them: np.ndarray = model.similarity(["a"], ["b", "c"])
first = model.similarity("a", ["b"])[0].sum()
small = model.encode(["a"], precision="int8").shape
model.encode("a", precision="int4")  # type: ignore[call-overload]
from banyan import Banjan  # type: ignore[attr-defined]
"""
TYPED = """
[mypy]
strict = true
follow_imports = silent
cache_dir = {cache}
[mypy-torch.*]
follow_imports = skip
"""


def test_the_quick_start_is_typed(tmp_path):
    for name, page in {"readme.py": ROOT / "README.md", "quick_start.py": ROOT / "docs/quick-start.md"}.items():
        code = [block for block in blocks(page) if block.language in ("python", "pycon")]
        lines = [line.removeprefix(">>> ") for block in code for line in block.text.splitlines()
                 if block.language == "python" or line.startswith(">>> ")]  # fmt: skip
        (tmp_path / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    (tmp_path / "lists.py").write_text(LISTS, encoding="utf-8")
    (tmp_path / "mypy.ini").write_text(TYPED.format(cache=ROOT / "build/mypy"), encoding="utf-8")
    command = [sys.executable, "-m", "mypy", "--config-file", "mypy.ini", *tmp_path.glob("*.py")]
    found = subprocess.run(
        command, cwd=tmp_path, env={**os.environ, "MYPYPATH": str(ROOT / "src")}, capture_output=True, text=True
    )
    assert found.returncode == 0, found.stdout + found.stderr


# --- Code ------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def one_thread() -> Iterator[None]:
    """On a busy machine several threads would mostly wait for each other, in steps as small as these."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("BANYAN_THREADS", "1")
        yield


@pytest.fixture(scope="module")
def files(one_thread, tmp_path_factory) -> Path:
    """The files that the pages name."""
    folder = tmp_path_factory.mktemp("files") / "here"
    texts = lines(200)
    for name, some in {
        "corpus.txt": texts,
        "more.txt": lines(50, 1),
        "new.txt": lines(50, 2),
        "docs.txt": lines(50, 3),
        "sentences.txt": lines(50, 4),
        "texts/letters.txt": lines(50, 5),
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("\n".join(some) + "\n", encoding="utf-8")
    both = zip(lines(50, 6), lines(50, 7), strict=True)
    pairs = [f"{a}\t{b}\t{len(set(a.split()) & set(b.split()))}\n" for a, b in both]
    (folder / "pairs.tsv").write_text("".join(pairs), encoding="utf-8")
    books = [f"{title},{1880 + row},Smith {row}\n" for row, title in enumerate(lines(50, 8))]
    (folder / "books.csv").write_text("title,year,author\n" + "".join(books), encoding="utf-8")
    _write_labelled(folder, lines(120, 9))
    tickets = [f"{one},{other},2024\n" for one, other in zip(lines(60, 9), lines(60, 10), strict=True)]
    (folder / "tickets.csv").write_text("ticket,duplicate,year\n" + "".join(tickets), encoding="utf-8")
    _write_beir(folder / "my-corpus", texts)
    _write_parquet(folder / "corpus", texts)
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(folder)
        assert main([*MADE_BY.split()[1:], "--quiet"]) == 0
    shutil.copytree(folder, folder.with_name("kept"))
    return folder


@pytest.fixture
def here(files, monkeypatch) -> Path:
    """Where a reader stands: always the same place, because a run that is resumed knows its text by it."""
    shutil.rmtree(files)
    shutil.copytree(files.with_name("kept"), files)
    monkeypatch.chdir(files)
    return files


def _write_labelled(folder: Path, texts: list[str]) -> None:
    """Texts whose label is their place; the same with a list of labels; and pairs, which are alike or not."""
    labels = [text.split()[-1].rstrip(".") for text in texts]
    rows = "".join(f"{text}\t{label}\n" for text, label in zip(texts, labels, strict=True))
    (folder / "tickets.tsv").write_text("text\tlabel\n" + rows, encoding="utf-8")
    several = [
        {"labari": text, "batutuwa": [label, text.split()[1]]} for text, label in zip(texts, labels, strict=True)
    ]
    (folder / "labarai.jsonl").write_text("\n".join(map(json.dumps, several)), encoding="utf-8")
    both = "".join(f"{text},{text if row % 2 else texts[row - 1]},{row % 2}\n" for row, text in enumerate(texts))
    (folder / "duplicates.csv").write_text("text1,text2,label\n" + both, encoding="utf-8")


def _write_beir(folder: Path, texts: list[str]) -> None:
    (folder / "qrels").mkdir(parents=True)
    for name in ("corpus", "queries"):
        rows = [json.dumps({"_id": f"{name[0]}{i}", "title": "", "text": text}) for i, text in enumerate(texts[:20])]
        (folder / f"{name}.jsonl").write_text("\n".join(rows), encoding="utf-8")
    judged = [f"q{i}\tc{i + 1}\t1\n" for i in range(10)]
    (folder / "qrels/test.tsv").write_text("query-id\tcorpus-id\tscore\n" + "".join(judged), encoding="utf-8")


def _write_parquet(folder: Path, texts: list[str]) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    folder.mkdir()
    parquet.write_table(pyarrow.table({"text": texts}), folder / "a.parquet")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_block_of_the_page_runs(page, here, tmp_path):
    for library in NEEDED.get(page.name, ()):
        pytest.importorskip(library, reason=f"{library} is not installed")
    todo = [block for block in blocks(page) if block.why_not is None and block.language != "text"]
    with hub(tmp_path / "hub") as endpoint:
        on_the_hub = {"HF_ENDPOINT": endpoint, "HF_HOME": str(tmp_path / "home"), "HF_TOKEN": TOKEN}
        with Reader({**on_the_hub, "HF_HUB_DISABLE_XET": "1"}) as reader:
            for block in todo:
                try:
                    reader.take(block)
                except BaseException as error:
                    error.add_note(f"in the block at {block.place}")
                    raise


def test_every_block_says_what_it_is():
    wrong = [f"{block.place}: {block.language or 'no language'}" for block in BLOCKS if block.language not in LANGUAGES]
    assert not wrong, f"a block is one of {', '.join(LANGUAGES)}"


@pytest.mark.parametrize("block", [block for block in BLOCKS if block.why_not], ids=lambda block: block.place)
def test_what_cannot_run_here_is_right_as_far_as_can_be_told(block: Block):
    assert block.language != "text", "what is only shown needs no reason"
    if block.language == "python":
        compile(block.text, block.place, "exec", dont_inherit=True)
    if block.language in COMMANDS:
        for command in commands(block):
            check(command)


def _page(folder: Path, text: str) -> Block:
    (folder / "page.md").write_text(text, encoding="utf-8")
    (block,) = blocks(folder / "page.md")
    return block


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("```sh\npip install banyan-embed\n```", "pip is not run here: say why"),
        ("    make demo", "make is not run here: say why"),
        ("```console\n$ banyan tree model/ --format png cat\n```", None),
        ("```sh\nbanyan tree model/ 'a cat' | head\n```", "this reader knows"),
        ("```python\nfrom banyan import Bonsai\n```", None),
        ("```pycon\n>>> 1 + 1\n3\n```", "Expected:\n    3"),
    ],
)
def test_a_block_that_is_wrong_is_noticed(text, told, here, tmp_path):
    with Reader({}) as reader, pytest.raises((AssertionError, ImportError, SystemExit), match=told):
        reader.take(_page(tmp_path, text))


@pytest.mark.parametrize(
    "line",
    [
        "banyan train corpus.txt --out model/ --epoch 3",
        "torchrun --nproc-per-node 2 -m banyan train corpus.txt --output model/",
        "make tests",
        'pip install "banyan-embed[everything]"',
        "python benchmarks/everything.py",
        "python -m benchmarks.everything",
    ],
)
def test_a_command_that_is_not_run_is_looked_at_all_the_same(line, tmp_path):
    block = _page(tmp_path, f"<!-- not run: why -->\n```sh\n{line}\n```")
    assert block.why_not == "why"
    with pytest.raises(AssertionError):
        check(*commands(block))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_and_options_within_sentences_exist(page):
    for command in re.findall(r"`banyan ([^`]+)`", _text(page)):
        name, *words = command.split()
        assert name in _parser.names(), command
        assert {word for word in words if word.startswith("--")} <= set(_parser.parser_of(name).names), command


# --- References ------------------------------------------------------------------------------------------------------


def _found(name: str) -> Any:
    """What a dotted name means: a module, or something in it."""
    parts = name.split(".")
    for n in range(len(parts), 0, -1):
        try:
            module = importlib.import_module(".".join(parts[:n]))
        except ModuleNotFoundError as error:
            if error.name is None or not name.startswith(error.name):
                raise  # another package
            continue
        return reduce(getattr, parts[n:], module)
    raise AttributeError(name)


@pytest.mark.filterwarnings("ignore")  # of the libraries
@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_names_and_files_that_a_page_tells_of_are_there(page):
    text = page.read_text(encoding="utf-8")
    for name in set(re.findall(r"(?:`|::: )(banyan(?:\.\w+)+)", text)):
        try:
            _found(name)
        except ModuleNotFoundError as error:
            pytest.importorskip(str(error.name))
    folders = "benchmarks|docs|experiments|tests|src/banyan"
    for path in set(re.findall(rf"(?<![\w/])((?:{folders})/[\w/-]+\.(?:py|md|svg|png))", text)):
        assert (ROOT / path).exists(), path


def test_each_equation_is_the_line_that_the_page_quotes():
    row = r"^\| (.+?) \| \[?`([\w.]+)`(?:\]\(.+?\))? \| `(.+)` \|$"
    rows = re.findall(row, _text(THROUGH_THE_CODE), re.MULTILINE)
    for what, name, line in rows:
        meant = _found(f"banyan.{name}")
        meant = getattr(meant, "py_func", meant)  # of a kernel
        assert line in [quoted.split("  #")[0].strip() for quoted in inspect.getsource(meant).splitlines()], name
        if name.startswith("reference."):
            for number in re.findall(r"(?:Equation|Algorithm) (\d)", what):
                assert re.search(rf"\b{number}\b", meant.__doc__), name
    said = " ".join(what for what, _, _ in rows)
    assert all(wanted in said for wanted in ("Equation 1", "Equation 2", "Equation 3", "Equation 4", "Algorithm 1"))


def test_the_modules_of_the_tour_are_there():
    text = _text(THROUGH_THE_CODE)
    homes = [ROOT / "src/banyan", ROOT / "src/banyan/backends/_triton", ROOT]
    for path in set(re.findall(r"`([\w/]+(?:\.py|/))`", text)):
        assert any((home / path).exists() for home in homes), path
    for name in set(re.findall(r"`((?:reference|graph|model|objective|encoder)\.\w+)`", text)):
        if not name.endswith(".py"):
            _found(f"banyan.{name}")


def test_everything_in_the_reference_says_what_it_is():
    for entry in _text(API).split("\n::: ")[1:]:
        name, chosen = entry.split()[0], re.search(r"members: \[(.*)\]", entry)
        meant = _found(name)
        assert meant.__doc__, name
        assert not meant.__doc__.startswith(f"{name.rpartition('.')[2]}("), f"{name} has only what dataclasses say"
        public = [part for part in vars(meant) if not part.startswith("_")] if inspect.isclass(meant) else []
        for part in filter(None, chosen[1].split(", ") if chosen else public):
            member = inspect.getattr_static(meant, part)
            if inspect.isroutine(member) or isinstance(member, property):
                assert getattr(meant, part).__doc__, f"{name}.{part}"


@pytest.mark.parametrize("page", ["README.md", "docs/index.md", "src/banyan/encoder.py"])
def test_the_first_example_has_the_dimensions_of_the_default_preset(page):
    told = re.findall(r"(?:float32 \[|    \()2, (\d+)[\])]", _text(ROOT / page))
    assert told == [str(Config.from_preset().embedding_dim)]


def test_every_integration_is_on_its_page():
    modules = {path.stem for path in (ROOT / "src/banyan/integrations").glob("*.py")}
    for name in modules - {"__init__", "hub", "opening", "pulling"}:
        assert f"banyan.integrations.{name}" in _text(ROOT / "docs/integrations.md")


def _text(page: Path) -> str:
    return page.read_text(encoding="utf-8")


# --- The site --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    pytest.importorskip("mkdocs")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_the_site_builds_without_a_warning_and_has_every_page(site):
    made = {page.relative_to(site).with_suffix("") for page in site.rglob("*.html")}
    of_docs = {page.relative_to(ROOT / "docs").with_suffix("") for page in PAGES if ROOT / "docs" in page.parents}
    assert made >= of_docs | {Path("RESULTS"), Path("CHANGELOG"), Path("CONTRIBUTING")}


def test_nothing_is_loaded_from_elsewhere(site):
    elements = r'<(?:script|img|iframe|link rel="(?:stylesheet|preconnect|icon)")[^>]*?(?:src|href)="(.+?)"'
    for page in site.rglob("*.html"):
        loaded = re.findall(elements, _text(page))
        assert loaded
        assert not [address for address in loaded if re.match("(?:https?:)?//", address)], page.name


def test_sessions_in_docstrings_are_code(site):
    page = _text(site / "api.html")
    assert "Homer ate doughnuts." in page
    assert "<blockquote>" not in page


def test_the_search_finds_words_next_to_punctuation(site):
    index = json.loads(_text(site / "search/search_index.json"))
    separator, pages_of = index["config"]["separator"], defaultdict(set)
    for part in index["docs"]:
        text = re.sub("<[^>]+>", " ", f"{part['title']} {part['text']}")  # the search reads no tags
        for word in re.split(separator, text.lower()):
            pages_of[word].add(part["location"].partition("#")[0])
    assert {"explorer.html", "CHANGELOG.html"} <= pages_of["lasso"]
    calls = {page for page in (ROOT / "docs").glob("*.md") if "Banyan.from_pretrained(" in _text(page)}
    assert pages_of["from_pretrained"] >= {page.with_suffix(".html").name for page in calls}
    assert len(calls) > 5


def test_the_search_works_in_a_page_that_is_opened_as_a_file(site):
    with chromium() as browser, opened(browser) as page:
        for name in ("index.html", "baselines/index.html"):
            page.goto((site / name).as_uri())
            page.locator("[data-md-component=search-query]").focus()
            page.keyboard.type("lasso")
            page.wait_for_selector(".md-search-result__item a", timeout=30_000)
            found = [link.get_attribute("href") for link in page.locator(".md-search-result__item a").all()]
            assert all(address.startswith("file:") for address in found)
            assert any("/explorer.html" in address for address in found)


def test_lists_have_a_blank_line_before_them_where_the_site_needs_it():
    for page in PAGES:
        rows = _text(page).splitlines()
        for token in MarkdownIt().parse(_text(page)):
            if token.type in ("bullet_list_open", "ordered_list_open") and token.level == 0:
                assert token.map
                before = rows[token.map[0] - 1]
                assert not before or before.startswith(("#", "<!--")), f"{page.name}:{token.map[0]}: {before}"
