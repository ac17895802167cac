"""Highlight the words of a result that contribute most to its cosine with the query, using `Banyan.explain`."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from banyan.search.word_spans import word_spans

if TYPE_CHECKING:
    from banyan.explanation import Explanation

STRONG = 0.4  # highlight words that contribute at least this fraction of the strongest word's contribution


class Highlight(NamedTuple):
    start: int  # characters of the text
    end: int
    weight: float  # the contribution of the word to the cosine


def highlights(explanation: Explanation, text: str) -> list[Highlight]:
    """Return the words that contribute most to the cosine, in the order of the text."""
    found = _weighted(explanation, text)
    most = max((word.weight for word in found), default=0.0)
    return [word for word in found if word.weight > 0 and word.weight >= STRONG * most]


def _weighted(explanation: Explanation, text: str) -> list[Highlight]:
    """Return the contribution of each word: the sum over its pieces, which are the columns but the last."""
    parts = [0.0] * (len(text) + 1)  # contribution of the piece that begins at each character
    place = 0
    for label, part in zip(explanation.columns[:-1], explanation.matrix.sum(0)[:-1].tolist(), strict=True):
        piece = label.strip()
        found = text.find(piece, place) if piece else -1
        if found >= 0:
            parts[found] += part
            place = found + len(piece)
    return [Highlight(start, end, sum(parts[start:end])) for start, end in word_spans(text)]


def marked(text: str, found: list[Highlight], before: str, after: str, most: int = 400) -> str:
    """Return the text with highlights between `before` and `after`; of a long text, the window with the most weight."""
    start, end = _window(text, found, most)
    pieces, place = ["… " * (start > 0)], start
    for highlight in found:
        if highlight.start >= place and highlight.end <= end:
            word = text[highlight.start : highlight.end]
            pieces += [text[place : highlight.start], before, word, after]
            place = highlight.end
    return "".join([*pieces, text[place:end], " …" * (end < len(text))])


def _window(text: str, found: list[Highlight], most: int) -> tuple[int, int]:
    if len(text) <= most:
        return 0, len(text)
    best, weight = 0, 0.0
    for first in found:
        inside = sum(one.weight for one in found if one.start >= first.start and one.end <= first.start + most - 40)
        if inside > weight:
            best, weight = first.start, inside
    start = max(best - 40, 0)
    if start:
        start = text.find(" ", start, start + 40) + 1 or start  # begin at a word if the text has spaces
    end = min(start + most, len(text))
    if end < len(text):
        end = max(text.rfind(" ", end - 40, end), start + 1) if " " in text[end - 40 : end] else end
    return start, end
