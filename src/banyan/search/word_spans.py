"""Find the words of a text: separated by white space, without surrounding punctuation."""

from __future__ import annotations

import re
import unicodedata

_BETWEEN_SPACES = re.compile(r"\S+")


def word_spans(text: str) -> list[tuple[int, int]]:
    """Return where each word begins and ends. Vowel signs and other marks, as in Indian scripts, belong to words."""
    found = []
    for match in _BETWEEN_SPACES.finditer(text):
        start, end = match.span()
        while start < end and _around(text[start]):
            start += 1
        while start < end and _around(text[end - 1]):
            end -= 1
        if start < end:
            found.append((start, end))
    return found


def _around(character: str) -> bool:
    return not character.isalnum() and unicodedata.category(character)[0] in "PSZC"
