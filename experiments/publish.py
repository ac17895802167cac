"""Make a model ready to be published, and push it: weights, card with every figure, the text and its licence.

    python -m experiments.publish en --out texts/en                                  # the text, to train on
    banyan train texts/en/train.txt.xz --preset default --out models/en
    python -m experiments.publish en --model models/en --out published/en            # a dry run: nothing is uploaded
    python -m experiments.publish en --model models/en --out published/en-2 --push   # after `hf auth login`

experiments/texts.py says which languages have a text that may be passed on, and why the others have none.
"""

from __future__ import annotations

import argparse
import lzma
import re
import shutil
import sys
import tempfile
from pathlib import Path

from banyan.encoder import Banyan
from banyan.errors import BanyanError
from banyan.evaluate import suites
from banyan.evaluate.suites import Result
from banyan.integrations import hub
from banyan.integrations.pulling import LANGUAGES, OWNER
from banyan.support import files
from banyan.training.folder import CARD
from experiments.data import add_data_option, corpus, corpus_lines
from experiments.texts import TEXTS, WITHHELD, Text

ENGLISH_SUITES = ("sts", "words", "dev")
TEXT, LICENCE = "train.txt.xz", "TEXT.md"
_ABOUT_TEXT = """\
# The training text

{sources}

One sentence per line, UTF-8 in NFC, without duplicates, shuffled: `{name}`. Licence: {licence}.
"""


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("language", metavar="LANGUAGE", help=", ".join(TEXTS))
    parser.add_argument("--model", type=Path, help="a finished model of that language (default: write the text only)")
    parser.add_argument("--out", type=Path, required=True, help="new folder with everything to publish")
    parser.add_argument("--owner", default=OWNER)
    parser.add_argument("--push", action="store_true", help="upload the folder")
    add_data_option(parser)
    options = parser.parse_args(arguments)
    try:
        _publish(options, f"{options.owner}/{options.language}")
    except BanyanError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def _publish(options: argparse.Namespace, name: str) -> None:
    language, out = options.language, options.out
    if language in WITHHELD:
        raise BanyanError(f"the text of {language!r} may not be passed on: it is {WITHHELD[language]}")
    if language not in TEXTS:
        raise BanyanError(f"there is no text of {language!r}: choose one of {', '.join(TEXTS)}")
    if out.exists():
        raise BanyanError(f"{out} exists already: name a new folder")
    if options.model is None:
        if options.push:
            raise BanyanError("--push uploads a model: name it with --model")
        with files.new_folder(out) as building:
            write_text(TEXTS[language], corpus(options.data, language, "train"), building)
        print(f"{out / TEXT} is ready to be trained on")
        return
    prepare(language, options.model, out, options.data, name)
    print(f"{out} is ready for {name}")
    print(upload(out, name) if options.push else "nothing was uploaded: add --push")


def prepare(language: str, folder: Path, out: Path, data: Path, name: str) -> None:
    """Write everything to publish to a new folder."""
    model = Banyan.from_pretrained(folder)
    if model.unfinished:
        raise BanyanError(f"{folder} is unfinished: finish it first")
    with files.new_folder(out) as building:
        write_text(TEXTS[language], corpus(data, language, "train"), building)
        check_trained_on(folder, building / TEXT)
        figures = measured(model, language, data)
        model.save_pretrained(building)
        files.write_text(building / CARD, card(model, name, language, figures))


def write_text(text: Text, source: Path, out: Path) -> None:
    """Write the lines that may be passed on, and what is known about them."""
    if not source.exists():
        raise BanyanError(f"the text is missing: there is no {source}")
    if text.may_pass is None:
        shutil.copyfile(source, out / TEXT)
    else:
        with lzma.open(source, "rt", encoding="utf-8") as given, lzma.open(out / TEXT, "wt", encoding="utf-8") as kept:
            kept.writelines(line for line in given if text.may_pass(line.rstrip("\n")))
    files.write_text(out / LICENCE, _ABOUT_TEXT.format(sources=text.sources, name=TEXT, licence=text.licence))


def check_trained_on(folder: Path, text: Path) -> None:
    """Refuse a model of another text than the one that is published with it, as far as the number of lines tells."""
    told = folder / CARD
    found = re.search(r"([\d,]+) lines? read", told.read_text(encoding="utf-8")) if told.exists() else None
    with lzma.open(text, "rb") as lines:
        wanted = f"{sum(1 for _ in lines):,}"
    if found is None or found[1] != wanted:
        read = f"{found[1]} lines" if found else "an unknown text"
        raise BanyanError(f"{folder} was trained on {read}, but the text to publish has {wanted}: train it on that")


def card(model: Banyan, name: str, language: str, figures: list[str]) -> str:
    """The card that training wrote, with the text, its licence and every figure."""
    text = TEXTS[language]
    written = hub.hub_card(model, name, language, text.licence)
    about = f"\n{text.sources} The text is in `{TEXT}`; `{LICENCE}` says what may be done with it.\n"
    before, heading, after = written.partition("## Training text\n")
    before_limits, limits, rest = (before + heading + about.lstrip("\n") + "\n" + after).partition("## Limits\n")
    return f"{before_limits}## Figures\n{chr(10).join(figures)}\n\n{limits}{rest}"


# --- Figures ---------------------------------------------------------------------------------------------------------


def measured(model: Banyan, language: str, data: Path) -> list[str]:
    """Every figure of the language as lines of a table, with its 95% interval."""
    if language == "la":
        return _of_latin(model, data)
    chosen, languages = (ENGLISH_SUITES, []) if language == "en" else (("languages", "dev"), [language])
    rows = [row for suite in chosen for row in suites.run(model.encode, suite, data / "eval", languages)]
    return ["| set | measure | figure | 95% interval |", "|---|---|---|---|", *map(_line, rows)]


def _line(row: Result) -> str:
    if row.outcome is None:
        return f"| {row.task} | | | {row.note} |"
    interval = row.outcome.interval()
    return f"| {row.task} | {row.outcome.metric} | {_told(row.outcome.value, interval.low, interval.high)} |"


def _told(value: float, low: float, high: float) -> str:
    return f"{value:.1f} | {low:.1f} to {high:.1f}"


def _of_latin(model: Banyan, data: Path) -> list[str]:
    """The figures of the Latin sets, with TF-IDF of characters beside them."""
    from experiments.latin.measure import score_sets
    from experiments.measuring.baselines import IDF_LINES, TfIdf

    tfidf = TfIdf(corpus_lines(data, "la", "train", IDF_LINES))
    with tempfile.TemporaryDirectory() as work:
        rows = score_sets(data / "latin", model, tfidf, Path(work))
    lines = [
        f"| {row['set']} | {row['measure']} | {_told(*row['ways']['Banyan'])} | {row['ways']['TF-IDF'][0]:.1f} |"
        for row in rows
    ]
    return ["| set | measure | figure | 95% interval | TF-IDF of characters |", "|---|---|---|---|---|", *lines]


def upload(folder: Path, name: str) -> str:
    """Upload a prepared folder in one commit, and return its URL."""
    from huggingface_hub import HfApi

    api = HfApi(library_name="banyan-embed")
    with hub.in_a_sentence(f"cannot push to {name!r} on the Hub"):
        api.create_repo(name, exist_ok=True)
        return api.upload_folder(repo_id=name, folder_path=str(folder), commit_message="A Banyan model").commit_url


assert set(TEXTS) == set(LANGUAGES)

if __name__ == "__main__":
    sys.exit(main())
