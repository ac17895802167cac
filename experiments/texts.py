"""The training texts by language: which may be passed on, under which licence, and why the others may not.

PROVENANCE.md of the data folder names every source and its licence.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple


class Text(NamedTuple):
    """A training text that may be passed on."""

    licence: str  # of the text and of the model, as the Hub names it
    sources: str  # in words, for the card
    may_pass: Callable[[str], bool] | None = None  # whether a line may be passed on (default: all may)


def _no_headline(line: str) -> bool:
    """Whether an Arabic line has the form of a sentence. Headlines of CNN Arabic, which alone state no licence,
    have not.

    The data folder does not say which line is of which source. Headlines were taken as they are, nearly always without
    a full stop (of 1,461 that name CNN, one has it); Wikipedia and the study notes had to end in punctuation."""
    return line.endswith(".") and not re.search(r"\.\.|CNN", line)


TEXTS = {
    "en": Text(
        "cc-by-sa-4.0",
        "English Wikipedia, in four snapshots of 2014 to 2020: half ordinary articles, 20% core articles, 15% recent "
        "ones, 15% good and featured ones. Authors: the contributors of Wikipedia. Licence: CC BY-SA.",
    ),
    "la": Text("cc0-1.0", "The Latin Library (cltk/lat_text_latin_library), without the Bible. Public domain."),
    "ar": Text(
        "cc-by-sa-4.0",
        "Arabic Wikipedia of September 2019 (motazsaad/arwikiExtracts), by the contributors of Wikipedia, CC BY-SA; "
        "Tyndale Open Study Notes (BibleAquifer), CC BY-SA 4.0; sentences collected by Common Voice, CC0. Only lines "
        "that end in a full stop: headlines of unknown licence, which were mixed in, were told by its absence, so a "
        "few may remain.",
        _no_headline,
    ),
}
WITHHELD = {
    "af": "government text that is non-commercial (Autshumato), and a Bible and textbooks whose rights are unclear",
    "am": "news that is non-commercial (MasakhaNER) or states no licence",
    "es": "mostly newspaper articles that state no licence, and text that is non-commercial (WikiNEuRal)",
    "ha": "news of the BBC, news that is non-commercial (MasakhaNER), and captions that are non-commercial",
    "hi": "mostly news that states no licence (DD News and newspapers)",
    "id": "mostly news that states no licence (Kompas, Detik, Tribun)",
    "mr": "mostly a magazine under copyright (Palakneeti), and tweets and news that are non-commercial (L3Cube)",
    "te": "nearly all of it a magazine whose copyright is unclear (Chandamama)",
}
