"""The pages and their blocks of code, and a reader who does what a page says.

    python                  runs; the blocks of a page share their names
    pycon                   runs, and must print what it shows
    sh, bash, indented      commands, which run
    console                 the same after "$ "; the other lines are what they might print
    text                    is shown

A block that cannot run where the tests do stands after a line <!-- not run: why -->. Its commands are checked as far as
possible without running them.
"""

from __future__ import annotations

import contextlib
import doctest
import gc
import importlib.util
import io
import os
import re
import shlex
import subprocess
import sys
import tomllib
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import httpx
from markdown_it import MarkdownIt

from banyan.commands import _parser, main
from tests.helpers.places import ROOT
from tests.helpers.served import served

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
OURS = ("experiments.", "benchmarks.")  # what `python -m` may run besides installed packages
COMMANDS = ("sh", "bash", "console")
LANGUAGES = ("python", "pycon", *COMMANDS, "text")
MADE_BY = "banyan train corpus.txt --out model/"  # of the model that a reader finds
ADDRESS = "http://127.0.0.1:8080"  # on the pages
ALONE = (  # what Python code runs in a process of its own for
    "push_to_hub",  # where the Hub is, is read once, at its import
    "bertopic",  # UMAP starts threads, which stay
)
_NOT_RUN = re.compile(r"\s*<!-- not run: (.+) -->\s*")


class Block(NamedTuple):
    page: Path
    line: int
    language: str
    text: str
    why_not: str | None  # run

    @property
    def place(self) -> str:
        return f"{os.path.relpath(self.page, ROOT)}:{self.line}"


def blocks(page: Path) -> list[Block]:
    found, why_not = [], None
    for token in MarkdownIt().parse(page.read_text(encoding="utf-8")):
        if token.type in ("fence", "code_block"):
            language = token.info.strip() if token.type == "fence" else "sh"
            assert token.map
            found.append(Block(page, token.map[0] + 1, language, token.content, why_not))
        marked = _NOT_RUN.fullmatch(token.content) if token.type == "html_block" else None
        why_not = marked[1] if marked else None
    return found


class Command(NamedTuple):
    words: list[str]
    set: dict[str, str]  # in its environment
    files: dict[str, str]  # < and >

    @property
    def program(self) -> str:
        return self.words[0]


def commands(block: Block) -> Iterator[Command]:
    lines = block.text.replace("\\\n", " ").splitlines()
    if block.language == "console":
        lines = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
    for line in lines:
        lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
        lexer.whitespace_split = True
        words = [*lexer, "&&"]
        while words:
            end = words.index("&&")
            if end:
                yield _command(words[:end])
            words = words[end + 1 :]


def _command(words: list[str]) -> Command:
    assert not {"|", ";", "&", "||"} & set(words), f"this reader knows && and < and >, not {' '.join(words)}"
    assigned = [word for word in words if re.match("[A-Z_]+=", word)]
    words = words[len(assigned) :]
    files = {}
    while words[-2:-1] in (["<"], [">"]):
        *words, sign, name = words
        files[sign] = name
    return Command(words, dict(word.split("=", 1) for word in assigned), files)


# --- Without running -------------------------------------------------------------------------------------------------


def check(command: Command) -> None:
    """Of a command that is not run: are there such options, targets, extras, scripts?"""
    words = command.words
    if "banyan" in words and words[max(words.index("banyan") - 1, 0)] in ("banyan", "-m", "--"):
        parse(words[words.index("banyan") + 1 :])
    elif command.program == "make":
        targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
        assert set(words[1:]) <= set(targets), f"there is no target for {words}"
    elif command.program == "pip":
        project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        asked = re.findall(r"[\w-]+", " ".join(re.findall(r"\[(.*?)\]", " ".join(words))))
        assert set(asked) <= set(project["optional-dependencies"]), f"there is no extra for {words}"
    elif command.program.endswith("python") and words[1:2] and words[1].endswith(".py"):
        assert (ROOT / words[1]).is_file(), f"there is no {words[1]}"
    elif command.program.endswith("python") and words[1:2] == ["-m"] and words[2].startswith(OURS):
        assert importlib.util.find_spec(words[2]), f"there is no module {words[2]}"


def parse(arguments: list[str]) -> None:
    """As the command line does; "..." stands for what the reader knows."""
    try:
        _parser.parse([word for word in arguments if word != "..."])
    except SystemExit as stopped:
        raise AssertionError(f"`banyan {shlex.join(arguments)}` is not understood") from stopped


# --- Running ---------------------------------------------------------------------------------------------------------


class Reader:
    """Does what a page says, in the folder where it stands."""

    def __init__(self, environment: dict[str, str]) -> None:
        self.environment = {**os.environ, **environment}
        self.names: dict[str, Any] = {"__name__": "__main__"}
        self.address = ADDRESS
        self._until_the_end = contextlib.ExitStack()

    def __enter__(self) -> Reader:
        self._until_the_end.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore")  # of the libraries, as their users see them
        return self

    def __exit__(self, *_: object) -> None:
        if len(self.names) > 1:
            self.names.clear()
            gc.collect()  # what libraries left open may warn now
        self._until_the_end.close()

    def take(self, block: Block) -> None:
        text = block.text.replace(ADDRESS, self.address)
        if block.language == "python" and any(word in text for word in ALONE):
            self._alone(["-c", text])
        elif block.language == "python":
            with contextlib.redirect_stdout(io.StringIO()):
                exec(compile(text, block.place, "exec", dont_inherit=True), self.names)
        elif block.language == "pycon":
            self._session(block)
        elif block.language in COMMANDS:
            for command in commands(block._replace(text=text)):
                self._run(command)

    def _session(self, block: Block) -> None:
        test = doctest.DocTestParser().get_doctest(block.text, self.names, block.place, str(block.page), block.line)
        told: list[str] = []
        runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS, verbose=False)
        assert runner.run(test, out=told.append, clear_globs=False).failed == 0, "".join(told)
        self.names.update(test.globs)

    def _run(self, command: Command) -> None:
        program, *arguments = command.words
        assert not command.set, f"this reader sets no variables: {command.set}"
        if program == "curl":
            url, *body = arguments
            answer = httpx.post(url, content=body[1]) if body else httpx.get(url)
            assert answer.status_code == 200, answer.text
        elif program != "banyan":
            raise AssertionError(f"{program} is not run here: say why in a line <!-- not run: ... --> before the block")
        elif arguments[0] == "serve":
            self.address = self._until_the_end.enter_context(served(*arguments[1:])).address
        elif arguments[0] == "explore":  # the same page; tests/serve/test_explorer.py runs the command itself
            model, index = arguments[1:]
            self._until_the_end.enter_context(served(model, "--index", index))
        elif arguments[0] == "push" or "ray" in arguments:
            self._alone(["-m", "banyan", *arguments])
        elif shlex.join(command.words) != MADE_BY:
            self._banyan(command)

    def _banyan(self, command: Command) -> None:
        _, *arguments = command.words
        if arguments[0] == "map" and "--method" not in arguments:
            arguments += ["--method", "pca"]  # UMAP compiles for half a minute; tests/search/test_map.py has it
        if arguments[:2] in (["baseline", "sent2vec"], ["baseline", "fasttext"]) and "--set" not in arguments:
            arguments += ["--set", "buckets=1000"]  # half a gigabyte otherwise
        given, printed, told = "the cat\n", io.StringIO(), io.StringIO()
        if "<" in command.files:
            given = Path(command.files["<"]).read_text(encoding="utf-8")
        with _standard_input(given), contextlib.redirect_stdout(printed), contextlib.redirect_stderr(told):
            code = main(arguments)
        assert code == 0, f"{shlex.join(command.words)}: {told.getvalue()}"
        if ">" in command.files:
            Path(command.files[">"]).write_text(printed.getvalue(), encoding="utf-8")

    def _alone(self, arguments: list[str]) -> None:
        """In a process of its own."""
        done = subprocess.run([sys.executable, *arguments], env=self.environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr


@contextlib.contextmanager
def _standard_input(text: str) -> Iterator[None]:
    before, sys.stdin = sys.stdin, io.TextIOWrapper(io.BytesIO(text.encode()), encoding="utf-8")
    try:
        yield
    finally:
        sys.stdin = before
