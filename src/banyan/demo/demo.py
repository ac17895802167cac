"""`banyan demo`: train on the English that comes with Python, then search the standard library by meaning.

The measure is retrieval: the first sentence of a docstring is the query, the rests of all docstrings are what is
searched, and its own rest is the one right answer. The docstrings asked about are held out: none of their sentences
is trained on, neither by the model nor by its tokenizer.
"""

from __future__ import annotations

import platform
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from banyan.config import Config
from banyan.demo.stdlib_text import Entry, StdlibText, gather
from banyan.errors import BanyanError
from banyan.support.files import write_text
from banyan.support.needs import needs

if TYPE_CHECKING:
    from rich.console import Console

SETTINGS: dict[str, Any] = {"preset": "light"}  # as anyone would train on a laptop: nothing is tuned for this text

QUERIES = (
    "remove whitespace from the beginning of lines",
    "compare two files and show the differences",
    "a temporary file that deletes itself",
    "sort a list of dictionaries by key",
    "run a command and capture its output",
)
PARSED = "Return a copy of the string with leading whitespace removed."

HELD_OUT = 1000  # docstrings that the measure asks about
CUTOFFS = (1, 10)

Encode = Callable[[list[str]], NDArray[np.float32]]


class Model(Protocol):
    def encode(self, texts: list[str], /) -> NDArray[np.float32]: ...

    def parse(self, text: str, /) -> object: ...


# The measure


@dataclass(frozen=True)
class Retrieval:
    """Find the rest of a docstring, given its first sentence."""

    queries: list[str]
    answers: NDArray[np.intp]  # the place of each query's own rest
    rests: list[str]
    unseen: frozenset[str]  # the sentences of the docstrings asked about: not to be trained on


def retrieval(entries: Sequence[Entry], held_out: int = HELD_OUT) -> Retrieval:
    """The task on docstrings of two sentences or more; `held_out` of them, evenly spread, are asked about."""
    pairs: dict[str, Entry] = {}
    rests: set[str] = set()
    for entry in entries:
        first, rest = entry.sentences[0], " ".join(entry.sentences[1:])
        if len(first.split()) >= 4 and len(rest.split()) >= 8 and first not in pairs and rest not in rests:
            pairs[first] = entry
            rests.add(rest)
    if len(pairs) < 2:
        raise BanyanError(f"the measure needs docstrings of several sentences; this text has {len(pairs)}")
    answers = np.unique(np.linspace(0, len(pairs) - 1, min(held_out, len(pairs))).astype(np.intp))
    documented = list(pairs.values())
    asked = [documented[i] for i in answers]
    return Retrieval(
        queries=[entry.sentences[0] for entry in asked],
        answers=answers,
        rests=[" ".join(entry.sentences[1:]) for entry in documented],
        unseen=frozenset(sentence for entry in asked for sentence in entry.sentences),
    )


def measure(encoders: dict[str, Encode], task: Retrieval) -> dict[str, dict[int, float]]:
    """{method: {k: recall@k}} of each encoder by cosine, then of TF-IDF, whose weights are fitted on the very rests."""
    scores = {name: _cosines(encode(task.queries), encode(task.rests)) for name, encode in encoders.items()}
    scores |= _tfidf_scores(task)
    recalls = {name: _recall(similarity, task.answers) for name, similarity in scores.items()}
    return {**recalls, "chance": {k: min(1.0, k / len(task.rests)) for k in CUTOFFS}}


def _recall(similarity: NDArray, answers: NDArray[np.intp]) -> dict[int, float]:
    """recall@k, where answers that tie with others are taken in random order: the expected value."""
    own = similarity[np.arange(len(answers)), answers][:, None]
    better = (similarity > own).sum(1)
    tied = (similarity == own).sum(1)
    return {k: float(np.clip((k - better) / tied, 0, 1).mean()) for k in CUTOFFS}


def _tfidf_scores(task: Retrieval) -> dict[str, NDArray]:
    from sklearn.feature_extraction.text import TfidfVectorizer

    scores = {}
    for name, options in (
        ("TF-IDF, words", {}),
        ("TF-IDF, 3-4 letters", {"analyzer": "char_wb", "ngram_range": (3, 4)}),
    ):
        vectorizer = TfidfVectorizer(**options)
        rests = vectorizer.fit_transform(task.rests)
        scores[name] = (vectorizer.transform(task.queries) @ rests.T).toarray()
    return scores


def _cosines(a: NDArray, b: NDArray) -> NDArray:
    return _normalized(a) @ _normalized(b).T


def _normalized(vectors: NDArray) -> NDArray:
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.divide(vectors, norms, out=np.zeros_like(vectors), where=norms > 0)


# The search


@dataclass(frozen=True)
class Hit:
    score: float
    entry: Entry


class Search:
    """Entries by the cosine of their embedding with the query's: one matrix product, nothing is approximate."""

    def __init__(self, encode: Encode, entries: Sequence[Entry]) -> None:
        self.encode = encode
        self.entries = list(entries)
        self.index = _normalized(encode([_described(entry) for entry in self.entries]))

    def find(self, query: str, k: int = 5) -> list[Hit]:
        scores = self.index @ _normalized(self.encode([query]))[0]
        best = np.argsort(-scores, kind="stable")[:k]
        return [Hit(float(scores[i]), self.entries[i]) for i in best]


_NOT_FOR_USERS = ("idlelib", "turtledemo", "distutils")  # applications, and what is there for old packages only


def searchable(entries: Sequence[Entry]) -> list[Entry]:
    """The entries that somebody who searches the library may want to use."""
    return [entry for entry in entries if entry.public and entry.name.split(".")[0] not in _NOT_FOR_USERS]


def _described(entry: Entry) -> str:
    """An entry's name in words and what it is: "tempfile mkstemp. User-callable function to create ..."."""
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
    """Gather, train into the folder `out`, show searches, a tree and the measure, then ask for queries.

    The measure is returned. What trains, what makes an untrained model of a trained one's shape, and the text can be
    given instead of the real ones.
    """
    from rich.console import Console

    _check_installed()
    console = console or Console(highlight=False)
    text = text or _gathered(console)
    task = retrieval(text.entries)
    corpus, known = _write_corpus(text, task, Path(out), console)
    model = (train or _train)(corpus, out, resume=known, overwrite=not known, layout="lines", **SETTINGS)
    search = Search(model.encode, searchable(text.entries))
    for query in QUERIES:
        _show_title(query, console)
        _show_hits(search.find(query, 4), console)
    _show_tree(model, console)
    start = (untrained or _untrained)(model)
    results = measure({"Banyan": model.encode, "Banyan, untrained": start.encode}, task)
    _show_measure(results, task, console)
    if console.is_terminal and sys.stdin.isatty():
        _prompt(search, console)
    return results


def _check_installed() -> None:
    """Fail now rather than after the training."""
    with needs("The demo", "train,demo"):
        import sklearn  # noqa: F401
        import torch  # noqa: F401


def _train(corpus: Path, out: str | Path, **settings: Any) -> Model:
    from banyan.training import Interrupted, train

    try:
        return train(corpus, out, **settings)
    except Interrupted:
        raise KeyboardInterrupt("stopped, and saved: the same command goes on from here") from None


def _untrained(model: Any) -> Model:
    """The model as it was before its first step."""
    from banyan.encoder import Banyan
    from banyan.model import BanyanModel

    start = BanyanModel(model.config, model.tokenizer.vocab_size)
    return Banyan(model.config, model.tokenizer, start.weights())


def _gathered(console: Console) -> StdlibText:
    with console.status("Reading the sources of Python's standard library"):
        text = gather()
    console.print(
        f"Read the standard library of Python {platform.python_version()}: "
        f"{len(text.entries):,} docstrings and sections of the language reference.",
        soft_wrap=True,
    )
    return text


def _write_corpus(text: StdlibText, task: Retrieval, out: Path, console: Console) -> tuple[Path, bool]:
    """The file to train on, and whether `out` already holds a run of this very text and these settings."""
    corpus, run = out / "corpus.txt", out / "training" / "run.json"
    if run.exists() and not corpus.exists():
        raise BanyanError(f"{out} holds a model that is not the demo's: name another folder")
    sentences = [sentence for sentence in text.sentences() if sentence not in task.unseen]
    lines = "".join(f"{sentence}\n" for sentence in sentences)
    unchanged = corpus.exists() and corpus.read_text(encoding="utf-8") == lines
    if not unchanged:  # an untouched file tells the trainer that what it made of it still holds
        _make_folder(out)
        write_text(corpus, lines)
    words = sum(len(sentence.split()) for sentence in sentences)
    console.print(
        f"{len(sentences):,} sentences ({words:,} words) to train on; "
        f"{len(task.queries):,} docstrings are held out for the measure.",
        soft_wrap=True,
    )
    return corpus, unchanged and run.exists() and Config.from_file(run) == Config.from_preset(**SETTINGS)


def _make_folder(out: Path) -> None:
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BanyanError(f"cannot make the folder {out}: {error.strerror}") from None


def _show_title(title: str, console: Console) -> None:
    console.print(f"\n{title}", style="bold", markup=False, soft_wrap=True)


def _show_hits(hits: Sequence[Hit], console: Console) -> None:
    from rich.text import Text

    width = min(max(len(hit.entry.name) for hit in hits), 40)
    for hit in hits:
        line = Text.assemble(
            f"{hit.score:5.2f}  ", (f"{hit.entry.name:{width}}", "cyan"), f"  {hit.entry.sentences[0]}"
        )
        console.print(line, no_wrap=True, overflow="ellipsis")


def _show_tree(model: Model, console: Console) -> None:
    _show_title("The tree it makes of a sentence", console)
    console.print(str(model.parse(PARSED)), markup=False, soft_wrap=True)


def _show_measure(results: dict[str, dict[int, float]], task: Retrieval, console: Console) -> None:
    from rich.table import Table

    _show_title("Does a docstring's first sentence find the rest of it?", console)
    console.print(
        f"{len(task.queries):,} docstrings that were not trained on, each searched among {len(task.rests):,} rests:",
        soft_wrap=True,
    )
    table = Table("", *(f"recall@{k}" for k in CUTOFFS), box=None)
    for column in table.columns[1:]:
        column.justify = "right"
    for name, recall in results.items():
        table.add_row(name, *(f"{100 * recall[k]:.1f}%" for k in CUTOFFS))
    console.print(table)


def _prompt(search: Search, console: Console) -> None:
    console.print("\nWhat are you looking for? (an empty line ends)")
    while True:
        try:
            query = console.input("[bold]> [/]").strip()
        except (EOFError, KeyboardInterrupt):
            console.print()
            return
        if not query:
            return
        _show_hits(search.find(query, 8), console)
