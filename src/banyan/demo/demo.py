"""`banyan demo`: train on the documentation in Python's standard library, then search it by meaning.

The evaluation is retrieval: the first sentence of a docstring is the query, and the rest of the same docstring is the
one relevant document among the rests of all docstrings. The docstrings used as queries are held out: neither the model
nor its tokenizer is trained on any of their sentences.
"""

from __future__ import annotations

import platform
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from banyan.config import Config
from banyan.demo.stdlib_text import Entry, StdlibText, gather
from banyan.errors import BanyanError
from banyan.evaluate.retrieval import CUTS, Beir, retrieval, unit_vectors
from banyan.evaluate.similarity import Encode
from banyan.support.files import write_text
from banyan.support.needs import needs

if TYPE_CHECKING:
    from rich.console import Console

SETTINGS: dict[str, Any] = {"preset": "light"}  # nothing is tuned for this text

QUERIES = (
    "remove whitespace from the beginning of lines",
    "compare two files and show the differences",
    "a temporary file that deletes itself",
    "sort a list of dictionaries by key",
    "run a command and capture its output",
)
PARSED = "Return a copy of the string with leading whitespace removed."

HELD_OUT = 1000  # docstrings used as queries


class Model(Protocol):
    def encode(self, texts: Sequence[str], /) -> np.ndarray: ...

    def parse(self, text: str, /) -> object: ...


# Evaluation


@dataclass(frozen=True)
class DocstringTask:
    """Find the rest of a docstring, given its first sentence."""

    queries: list[str]
    answers: list[int]  # of each query, the index of its own rest
    rests: list[str]
    held_out: frozenset[str]  # the sentences of the docstrings used as queries

    def as_beir(self) -> Beir:
        queries = [f"query {i}" for i in range(len(self.queries))]
        documents = [f"docstring {i}" for i in range(len(self.rests))]
        judgements = {query: {documents[i]: 1} for query, i in zip(queries, self.answers, strict=True)}
        return Beir(documents, self.rests, self.rests, queries, self.queries, judgements, missing=0)


def docstring_task(entries: Sequence[Entry], held_out: int = HELD_OUT) -> DocstringTask:
    """Make the task from docstrings of two sentences or more; hold out `held_out` of them, evenly spread."""
    pairs: dict[str, Entry] = {}
    rests: set[str] = set()
    for entry in entries:
        first, rest = entry.sentences[0], " ".join(entry.sentences[1:])
        if len(first.split()) >= 4 and len(rest.split()) >= 8 and first not in pairs and rest not in rests:
            pairs[first] = entry
            rests.add(rest)
    if len(pairs) < 2:
        raise BanyanError(f"the evaluation needs docstrings of several sentences; this text has {len(pairs)}")
    answers = np.unique(np.linspace(0, len(pairs) - 1, min(held_out, len(pairs))).astype(np.intp)).tolist()
    documented = list(pairs.values())
    asked = [documented[i] for i in answers]
    return DocstringTask(
        queries=[entry.sentences[0] for entry in asked],
        answers=answers,
        rests=[" ".join(entry.sentences[1:]) for entry in documented],
        held_out=frozenset(sentence for entry in asked for sentence in entry.sentences),
    )


def measure(encoders: dict[str, Encode], task: DocstringTask) -> dict[str, dict[int, float]]:
    """{method: {k: recall@k}} of each encoder, of TF-IDF fitted on the rests that it searches, and of chance."""
    systems: dict[str, Any] = {
        **encoders,
        "TF-IDF, words": TfIdf(),
        "TF-IDF, 3-4 letters": TfIdf(analyzer="char_wb", ngram_range=(3, 4)),
    }
    data = task.as_beir()
    recalls = {}
    for name, system in systems.items():
        outcomes = {outcome.metric: outcome for outcome in retrieval(system, data, "docstrings", False)}
        recalls[name] = {k: float(outcomes[f"R@{k}"].items.mean()) for k in CUTS}
    return {**recalls, "chance": {k: min(1.0, k / len(task.rests)) for k in CUTS}}


class TfIdf:
    """TF-IDF with scikit-learn's options, fitted on the documents that it searches."""

    def __init__(self, **options: Any) -> None:
        from sklearn.feature_extraction.text import TfidfVectorizer

        self.vectorizer = TfidfVectorizer(**options)

    def index(self, documents: Sequence[str]) -> Callable[[Sequence[str]], np.ndarray]:
        rows = self.vectorizer.fit_transform(documents)
        return lambda queries: (self.vectorizer.transform(queries) @ rows.T).toarray()


# Search


class ScoredEntry(NamedTuple):
    score: float
    entry: Entry


class Search:
    """Exact search of entries by the cosine of their embedding and the query's."""

    def __init__(self, encode: Encode, entries: Sequence[Entry]) -> None:
        self.encode = encode
        self.entries = list(entries)
        self.vectors = unit_vectors(encode, [_described(entry) for entry in self.entries])

    def find(self, query: str, k: int = 5) -> list[ScoredEntry]:
        scores = self.vectors @ unit_vectors(self.encode, [query])[0]
        best = np.argsort(-scores, kind="stable")[:k]
        return [ScoredEntry(float(scores[i]), self.entries[i]) for i in best]


_NOT_FOR_USERS = ("idlelib", "turtledemo", "distutils")  # applications, and support for old packages


def searchable(entries: Sequence[Entry]) -> list[Entry]:
    """The public entries of the modules that programs use."""
    return [entry for entry in entries if entry.public and entry.name.split(".")[0] not in _NOT_FOR_USERS]


def _described(entry: Entry) -> str:
    """The name split into words, then the first sentence: "tempfile mkstemp. User-callable function to create ..."."""
    words = re.sub(r"(?<=[a-z])(?=[A-Z])|[._]+", " ", entry.name.removesuffix(" (reference)"))
    return f"{words}. {entry.sentences[0]}"


# The demo


def run_demo(
    out: str | Path,
    *,
    train: Callable[..., Model] | None = None,
    untrained: Callable[[Any], Model] | None = None,
    console: Console | None = None,
    text: StdlibText | None = None,
) -> dict[str, dict[int, float]]:
    """Train into the folder `out`; show searches, a tree and the evaluation; prompt for queries. Returns the recalls.

    train, untrained, text: replace the training, the model before its first step, and the text of the standard library.
    """
    from rich.console import Console

    _check_installed()
    console = console or Console(highlight=False)
    text = text or _gathered(console)
    task = docstring_task(text.entries)
    corpus, known = _write_corpus(text, task, Path(out), console)
    model = (train or _train)(corpus, out, resume=known, overwrite=not known, layout="lines", **SETTINGS)
    search = Search(model.encode, searchable(text.entries))
    for query in QUERIES:
        _show_title(query, console)
        _show_found(search.find(query, 4), console)
    _show_tree(model, console)
    start = (untrained or _untrained)(model)
    results = measure({"Banyan": model.encode, "Banyan, untrained": start.encode}, task)
    _show_measure(results, task, console)
    if console.is_terminal and sys.stdin.isatty():
        _prompt(search, console)
    return results


def _check_installed() -> None:
    """Fail before the training rather than after it."""
    with needs("The demo", "train,demo"):
        import sklearn  # noqa: F401
        import torch  # noqa: F401


def _train(corpus: Path, out: str | Path, **settings: Any) -> Model:
    from banyan.training import Interrupted, train

    try:
        return train(corpus, out, **settings)
    except Interrupted:
        raise KeyboardInterrupt("stopped and saved: the same command resumes the run") from None


def _untrained(model: Any) -> Model:
    """The model before its first step."""
    from banyan.encoder import Banyan
    from banyan.model import BanyanModel

    start = BanyanModel(model.config, model.tokenizer.vocab_size)
    return Banyan(model.config, model.tokenizer, start.weights())


def _gathered(console: Console) -> StdlibText:
    with console.status("Reading the source files of Python's standard library"):
        text = gather()
    console.print(
        f"Read the standard library of Python {platform.python_version()}: "
        f"{len(text.entries):,} docstrings and sections of the language reference.",
        soft_wrap=True,
    )
    return text


def _write_corpus(text: StdlibText, task: DocstringTask, out: Path, console: Console) -> tuple[Path, bool]:
    """The file to train on, and whether `out` already holds a run with this text and these settings."""
    corpus, run = out / "corpus.txt", out / "training" / "run.json"
    if run.exists() and not corpus.exists():
        raise BanyanError(f"{out} holds a model that is not the demo's: choose another folder")
    sentences = [sentence for sentence in text.sentences() if sentence not in task.held_out]
    lines = "".join(f"{sentence}\n" for sentence in sentences)
    unchanged = corpus.exists() and corpus.read_text(encoding="utf-8") == lines
    if not unchanged:  # the trainer reuses the tokenised text of a file that was not written again
        _make_folder(out)
        write_text(corpus, lines)
    words = sum(len(sentence.split()) for sentence in sentences)
    console.print(
        f"{len(sentences):,} sentences ({words:,} words) to train on; "
        f"{len(task.queries):,} docstrings are held out for evaluation.",
        soft_wrap=True,
    )
    return corpus, unchanged and run.exists() and Config.from_file(run) == Config.from_preset(**SETTINGS)


def _make_folder(out: Path) -> None:
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BanyanError(f"cannot create the folder {out}: {error.strerror}") from None


def _show_title(title: str, console: Console) -> None:
    console.print(f"\n{title}", style="bold", markup=False, soft_wrap=True)


def _show_found(found: Sequence[ScoredEntry], console: Console) -> None:
    from rich.text import Text

    width = min(max(len(entry.name) for _, entry in found), 40)
    for score, entry in found:
        line = Text.assemble(f"{score:5.2f}  ", (f"{entry.name:{width}}", "cyan"), f"  {entry.sentences[0]}")
        console.print(line, no_wrap=True, overflow="ellipsis")


def _show_tree(model: Model, console: Console) -> None:
    _show_title("The tree of a sentence", console)
    console.print(str(model.parse(PARSED)), markup=False, soft_wrap=True)


def _show_measure(results: dict[str, dict[int, float]], task: DocstringTask, console: Console) -> None:
    from rich.table import Table

    _show_title("Does the first sentence of a docstring find the rest of it?", console)
    console.print(
        f"{len(task.queries):,} held-out docstrings, each searched for among {len(task.rests):,}:",
        soft_wrap=True,
    )
    table = Table("", *(f"recall@{k}" for k in CUTS), box=None)
    for column in table.columns[1:]:
        column.justify = "right"
    for name, recall in results.items():
        table.add_row(name, *(f"{100 * recall[k]:.1f}%" for k in CUTS))
    console.print(table)


def _prompt(search: Search, console: Console) -> None:
    console.print("\nWhat are you looking for? (an empty line quits)")
    while True:
        try:
            query = console.input("[bold]> [/]").strip()
        except (EOFError, KeyboardInterrupt):
            console.print()
            return
        if not query:
            return
        _show_found(search.find(query, 8), console)
