"""The English text that comes with Python: docstrings, comments and the language reference.

Source files are parsed with `ast`; nothing is imported, downloaded or run. The text depends only on the Python release
and is in the order of the file names.
"""

from __future__ import annotations

import ast
import builtins
import re
import sys
import sysconfig
import warnings
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib.util import decode_source
from inspect import cleandoc
from pathlib import Path

from banyan.corpus.sentences import split
from banyan.errors import BanyanError


@dataclass(frozen=True)
class Entry:
    """The documentation of a module, class or function, or a section of the language reference."""

    name: str  # "textwrap.dedent"
    path: str  # "textwrap.py", relative to the standard library
    line: int
    sentences: tuple[str, ...]  # without markup and code

    @property
    def text(self) -> str:
        return " ".join(self.sentences)

    @property
    def public(self) -> bool:
        return not re.search(r"(^|\.)_(?!_\w+__(\.|$))", self.name)


@dataclass(frozen=True)
class StdlibText:
    entries: list[Entry]
    comments: list[str]  # sentences

    def sentences(self) -> list[str]:
        """The distinct sentences, in order."""
        documented = (sentence for entry in self.entries for sentence in entry.sentences)
        return list(dict.fromkeys([*documented, *self.comments]))


def gather(library: str | Path | None = None) -> StdlibText:
    """Read the text of `library`, a folder or zip archive of source files (default: this Python's standard library)."""
    found: list[Entry] = []
    comments: list[str] = []
    for path, source in _sources(Path(library) if library else _standard_library()):
        try:
            text = decode_source(source)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # invalid escape sequences
                module = ast.parse(text)
        except (SyntaxError, ValueError, RecursionError):  # some test files are invalid on purpose
            continue
        if path == "pydoc_data/topics.py":
            found += _reference(module, path)
        else:
            found += _docstrings(module, path)
            comments += _comments(text)
    distinct: dict[tuple[str, ...], Entry] = {}
    for entry in found:
        distinct.setdefault(entry.sentences, entry)
    return StdlibText(list(distinct.values()), list(dict.fromkeys(comments)))


# Files

_SKIPPED = {"__pycache__", "site-packages", "dist-packages", "test", "tests", "idle_test", "lib2to3", "lib-dynload"}


def _standard_library() -> Path:
    folder = Path(sysconfig.get_path("stdlib"))
    archive = f"python{sys.version_info.major}{sys.version_info.minor}.zip"
    return next((Path(p) for p in sys.path if Path(p).name == archive and Path(p).is_file()), folder)


def _sources(library: Path) -> Iterator[tuple[str, bytes]]:
    """(path relative to `library`, content) of each Python file, sorted by path."""
    if library.is_file():
        try:
            archive = zipfile.ZipFile(library)
        except (OSError, zipfile.BadZipFile) as error:
            raise BanyanError(f"cannot read Python's library {library}: {error}") from None
        with archive:
            names = sorted(filter(_wanted, archive.namelist()))
            for name in names:
                yield name, archive.read(name)
    else:
        files = (path.relative_to(library).as_posix() for path in library.rglob("*.py"))
        names = sorted(filter(_wanted, files))
        for name in names:
            try:
                yield name, (library / name).read_bytes()
            except OSError:  # a dangling link, or no permission
                continue
    if not names:
        raise BanyanError(
            f"the demo trains on the source files of Python's standard library, and {library} has none: "
            "use a Python from python.org or your package manager, or train on text of your own"
        )


def _wanted(path: str) -> bool:
    *folders, name = path.split("/")
    return name.endswith(".py") and not name.startswith("_sysconfigdata") and not _SKIPPED.intersection(folders)


# Docstrings

_IMPORTED_AS = {
    "_collections_abc": "collections.abc",
    "_pydatetime": "datetime",
    "_pydecimal": "decimal",
    "_pyio": "io",
}


def _docstrings(module: ast.Module, path: str) -> Iterator[Entry]:
    name = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    yield from _documented(module, _IMPORTED_AS.get(name, name), path)


def _documented(node: ast.AST, name: str, path: str) -> Iterator[Entry]:
    if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        sentences = to_sentences(ast.get_docstring(node) or "")
        if sentences:
            yield Entry(name, path, getattr(node, "lineno", 1), tuple(sentences))
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _documented(child, f"{name}.{child.name}", path)
        elif isinstance(child, ast.stmt | ast.ExceptHandler):
            yield from _documented(child, name, path)


# The language reference: {topic: page}. A page has sections and definitions, in reST without markup.

_DEFINITION = re.compile(r"^( *)(class )?([A-Za-z_]\w[\w.]*)\(.*\)$")
_UNDERLINE = re.compile(r"^ *([*=\-~^\"'#+])\1{2,}$")


def _reference(module: ast.Module, path: str) -> Iterator[Entry]:
    for node in module.body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, ast.Dict):
            for key, page in zip(node.value.keys, node.value.values, strict=True):
                if isinstance(key, ast.Constant) and isinstance(page, ast.Constant) and isinstance(page.value, str):
                    for title, text in _sections(str(key.value), page.value):
                        sentences = to_sentences(text)
                        if sentences:
                            yield Entry(title, path, key.lineno, tuple(sentences))


def _sections(topic: str, page: str) -> Iterator[tuple[str, str]]:
    """Split a page before each underlined title and each definition: (title, text)."""
    lines = page.splitlines()
    title, start = f"{topic} (reference)", 0
    owner = ""  # the class whose methods are being defined
    for i, line in enumerate(lines):
        defined = _defined(lines, i)
        underlined = i + 1 < len(lines) and line.strip() and _UNDERLINE.match(lines[i + 1])
        if line[:1].strip():
            owner = ""
        if not (defined or underlined):
            continue
        yield title, cleandoc("\n".join(["", *lines[start:i]]))
        start = i + 1 if defined else i + 2
        if defined:
            indent, kind, name = defined.groups()
            title = f"{owner}{name}" if indent and not hasattr(builtins, name) else name  # len(d) is not a method
            owner = f"{name}." if kind else owner
        else:
            title = f"{_plain(line.strip())} (reference)"
    yield title, cleandoc("\n".join(["", *lines[start:]]))


def _defined(lines: list[str], i: int) -> re.Match[str] | None:
    """`name(arguments)` on line i, if a description follows: an empty line, then lines with more indentation."""
    definition = _DEFINITION.match(lines[i])
    if definition and (i == 0 or not lines[i - 1].strip() or _DEFINITION.match(lines[i - 1])):
        following = "\n".join(lines[i + 1 : i + 3])
        if re.match(rf"\n{definition[1]} +\S", following) or _DEFINITION.match(following.split("\n")[0]):
            return definition
    return None


# Comments

_COMMENT = re.compile(r"^[ \t]*#+!?(.*)$")


def _comments(source: str) -> Iterator[str]:
    """The sentences of comments of two lines or more; shorter comments are often labels or disabled code."""
    block: list[str] = []
    for line in [*source.splitlines(), ""]:
        comment = _COMMENT.match(line)
        if comment:
            block.append(comment[1])
            continue
        if len(block) > 1:
            yield from to_sentences(cleandoc("\n".join(["", *block])))
        block = []


# From documentation to sentences

_ITEM = re.compile(  # the label of a list item or table row
    r"^\s*(?:[-*+•]\s+|\(?(?:\d+|[a-z])[.)]\s+"  # bullets and numbers
    r"|:\w+[^:]*:\s+|@\w+\s+\w+:?\s+"  # :param name: and @param name
    r"|[\w.*'\"]+\s+(?:--?|—|–)\s+|\S+(?: \S+)?\s{3,})"  # name -- description; columns
)
_SIGNATURE = re.compile(r"^\s*[\w.]+\(.*\)(?:\s*->.*)?:?\s*$")
_MARKUP = [
    (re.compile(r":[\w:+-]+:`~?([^`<]*)(?:<[^`]*>)?`"), r"\1"),  # :func:`name`
    (re.compile(r"``(.+?)``"), r"\1"),
    (re.compile(r"`([^`]+?)[`']_{0,2}"), r"\1"),
    (re.compile(r"(?<![\w*])(\*{1,2})(\w[^*]*?)\1(?![\w*])"), r"\2"),  # *emphasis*
    (re.compile(r'""([^"\s]+)""|"([\w.()]+)"'), r"\1\2"),  # the reference puts code in double quotes
    (re.compile(r"\s+"), " "),
]
_WORD = re.compile(r"^[(\"'\[]*[A-Za-z]?[a-z]+(?:['’/-][a-z]+)*[)\"'\].,;:!?]*$|^(?:I|A|a|an)$")


def to_sentences(documentation: str) -> list[str]:
    """The distinct English sentences of a docstring, without code, doctests, tables, titles and markup."""
    sentences = (s for paragraph in _paragraphs(documentation) for s in split(paragraph))
    return list(dict.fromkeys(filter(_is_english, sentences)))


def _paragraphs(documentation: str) -> Iterator[str]:
    """Paragraphs and list items, each joined into one line."""
    literal: int | None = None  # the indentation of the paragraph whose "::" announced code
    for block in re.split(r"\n\s*\n", documentation.expandtabs()):
        lines = block.strip("\n").split("\n")
        indent = len(lines[0]) - len(lines[0].lstrip())
        if literal is not None and indent > literal:
            continue
        literal = indent if block.rstrip().endswith("::") else None
        yield from map(_plain, _items(_without_code(lines)))


def _without_code(lines: Iterable[str]) -> Iterator[str]:
    for line in lines:
        text = line.strip()
        if text.startswith((">>>", ".. ", "$ ", "% ")):
            return  # a doctest, directive or command extends to the end of its block
        if not (_UNDERLINE.match(line) or _SIGNATURE.match(line)):
            yield line


def _items(lines: Iterable[str]) -> Iterator[str]:
    item: list[str] = []
    for line in lines:
        label = _ITEM.match(line)
        if label and item:
            yield " ".join(item)
            item = []
        item.append(line[label.end() :].strip() if label else line.strip())
    if item:
        yield " ".join(item)


def _plain(text: str) -> str:
    for markup, replacement in _MARKUP:
        text = markup.sub(replacement, text)
    return text.strip().replace("::", ":")


def _is_english(sentence: str) -> bool:
    words = sentence.split()
    if len(words) < 3 or words[0].startswith("#") or {"=", "==", "|", "::="}.intersection(words):
        return False
    if sentence.endswith(":") and len(words) < 8:
        return False  # it introduces something that was removed
    return sum(1 for word in words if _WORD.match(word)) >= 0.6 * len(words)
