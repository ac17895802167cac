"""Text as the Penn Treebank spaces it: punctuation stands apart from words, as in the authors' corpus and in most
sentences of STS-12 to STS-16."""

from __future__ import annotations

import re

_APART = re.compile(r'\.\.\.|--|[;!?()\[\]{}"“”„«»…]|[,:](?!\d)')  # not the comma in 1,000
_APOSTROPHE = re.compile(r"(?<=\w)(?=['’])")  # it 's, isn 't, as the authors' files have it
_STOP = re.compile(r"(?<!\.)\.(?=[\s\"'”’)\]]*$)")  # the last one: others may be part of an abbreviation


def spaced(text: str) -> str:
    """The text with spaces around its punctuation."""
    text = _APOSTROPHE.sub(" ", _STOP.sub(" .", text))
    return " ".join(_APART.sub(lambda found: f" {found.group()} ", text).split())
