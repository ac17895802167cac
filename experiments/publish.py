"""Make a model ready to be published, and push it: weights, card with every figure, the text and its licence.

    banyan train $BANYAN_DATA/corpora/en/train.txt.xz --preset default --out models/en
    python -m experiments.publish en --model models/en --out published/en           # a dry run: nothing is uploaded
    python -m experiments.publish en --model models/en --out published/en --push    # after `hf auth login`

Only languages whose whole training text may be passed on have an entry in TEXTS. The others mix in texts that are
non-commercial, of unknown licence or under copyright (PROVENANCE.md of the data folder), so their models stay here.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path
from typing import NamedTuple

from banyan.encoder import Banyan
from banyan.errors import BanyanError
from banyan.evaluate import suites
from banyan.evaluate.suites import Result
from banyan.integrations import hub
from banyan.integrations.pulling import LANGUAGES, OWNER
from banyan.support import files
from banyan.training.folder import CARD
from experiments.data import add_data_option, corpus


class Text(NamedTuple):
    """A training text that may be passed on."""

    licence: str  # of the text and of the model, as the Hub names it
    sources: str  # in words, for the card
    suites: tuple[str, ...]  # that measure the language


TEXTS = {
    "en": Text(
        "cc-by-sa-4.0",
        "English Wikipedia, in four snapshots of 2014 to 2020: half ordinary articles, 20% core articles, 15% recent "
        "ones, 15% good and featured ones. Authors: the contributors of Wikipedia. Licence: CC BY-SA.",
        ("sts", "words", "dev"),
    ),
    "la": Text("cc0-1.0", "The Latin Library (cltk/lat_text_latin_library), without the Bible. Public domain.", ()),
}
TEXT, LICENCE = "train.txt.xz", "TEXT.md"
_ABOUT_TEXT = """\
# The training text

{sources}

One sentence per line, UTF-8 in NFC, without duplicates, shuffled. `{name}` is the whole of it. Licence: {licence}.
"""


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("language", metavar="LANGUAGE", help=", ".join(TEXTS))
    parser.add_argument("--model", type=Path, required=True, help="a finished model of that language")
    parser.add_argument("--out", type=Path, required=True, help="new folder with everything to publish")
    parser.add_argument("--owner", default=OWNER)
    parser.add_argument("--push", action="store_true", help="upload the folder")
    add_data_option(parser)
    options = parser.parse_args(arguments)
    try:
        name = f"{options.owner}/{options.language}"
        prepare(options.language, options.model, options.out, options.data, name)
        print(f"{options.out} is ready for {name}")
        if options.push:
            print(upload(options.out, name))
        else:
            print("nothing was uploaded: add --push")
    except BanyanError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def prepare(language: str, folder: Path, out: Path, data: Path, name: str) -> None:
    """Write everything to publish to a new folder."""
    if language not in TEXTS:
        raise BanyanError(f"the text of {language!r} may not be passed on: {', '.join(TEXTS)} may")
    if out.exists():
        raise BanyanError(f"{out} exists already: name a new folder")
    model, text = Banyan.from_pretrained(folder), TEXTS[language]
    if model.unfinished:
        raise BanyanError(f"{folder} is unfinished: finish it first")
    source = corpus(data, language, "train")
    if not source.exists():
        raise BanyanError(f"the text is missing: there is no {source}")
    rows = [row for suite in text.suites for row in suites.run(model.encode, suite, data / "eval", [])]
    model.save_pretrained(out)
    shutil.copyfile(source, out / TEXT)
    files.write_text(out / LICENCE, _ABOUT_TEXT.format(sources=text.sources, name=TEXT, licence=text.licence))
    files.write_text(out / CARD, card(model, name, language, rows))


def card(model: Banyan, name: str, language: str, rows: list[Result]) -> str:
    """The card that training wrote, with the text, its licence and every figure."""
    text = TEXTS[language]
    written = hub.hub_card(model, name, language, text.licence)
    about = f"\n{text.sources} The text is in `{TEXT}`; `{LICENCE}` says what may be done with it.\n"
    before, heading, after = written.partition("## Training text\n")
    before_limits, limits, rest = (before + heading + about.lstrip("\n") + "\n" + after).partition("## Limits\n")
    return f"{before_limits}## Figures\n{figures(rows)}\n\n{limits}{rest}"


def figures(rows: list[Result]) -> str:
    """Every figure that was measured, with its 95% interval."""
    lines = ["| set | measure | figure | 95% interval |", "|---|---|---|---|"]
    for row in rows:
        if row.outcome is None:
            lines.append(f"| {row.task} | | | {row.note} |")
            continue
        interval = row.outcome.interval()
        told = f"{interval.low:.1f} to {interval.high:.1f}"
        lines.append(f"| {row.task} | {row.outcome.metric} | {row.outcome.value:.1f} | {told} |")
    return "\n".join(lines) if rows else "There is no test set of this language that measures sentences."


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
