"""Split running text into sentences by rule, in any script, and detect the layout of a text.

Layouts: "lines" (one sentence per line), "blocks" (the same, with blank lines between paragraphs), "tabs" (one
paragraph per line, its sentences separated by tabs), "running" (text to be split).

The end of a sentence is decided from the WINDOW characters after its beginning and nothing else. So text may arrive
in parts of any size, memory stays bounded, and the sentences do not depend on how the text was divided.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise
from typing import NamedTuple

LONGEST = 1000  # characters; a longer sentence is cut at white space into parts of about half this length
WINDOW = LONGEST + 100  # includes what follows a full stop, which helps to decide whether it ends the sentence
WRAPPED = 200  # the longest hard-wrapped line; a line break next to a longer line ends a paragraph
_HELD = 1 << 16  # characters collected before they are split
_FEWEST_BLOCKS, _LONGEST_BLOCK = 10, 50  # fewer or longer blocks of lines do not look like paragraphs

_SOFT = ".!?…．"  # these end a sentence only if white space follows
_HARD = "。｡！？‼⁇⁈⁉।॥؟۔።፧፨։။។៕།༎"  # these always end one
END_MARKS = _SOFT + _HARD
_CLOSING = "\"'”’»›)]}」』）】》〉］｝"
_OPENING = "\"'“‘„‚«‹([{「『（【《〈［｛¿¡-–—•*"
_END = re.compile(rf"([{re.escape(END_MARKS)}]+)[{re.escape(_CLOSING)}]*(?:\[\d{{1,3}}\])*(\s*)")
_ENDS_LINE = re.compile(rf"[{re.escape(END_MARKS)}:][{re.escape(_CLOSING)}]*$")


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_ABBREVIATIONS = _words("""
    mr mrs ms messrs dr prof st ste mt rev hon gen col maj capt cpt cmdr lt sgt cpl adm gov sen rep pres vs cf viz
    jr sr mme mlle mgr hr fr frl bzw bspw sog vgl evtl ggf inkl dra sra srta ud uds ing lic dott sig avv
    ул им пр проф акад гр тов дж डॉ श्री
""")
_BEFORE_NUMBERS = _words("""
    no nos nr núm num n° vol vols fig figs p pp pg pág art ch chap cap sec sect op ca approx eq tab abb bd ver v
    jan feb mar apr jun jul aug sep sept oct nov dec гл рис стр табл ст
""")


class Sentence(NamedTuple):
    text: str
    begins: bool  # whether it is the first of a paragraph


def split(text: str) -> list[str]:
    """Return the sentences of a text. A blank line ends a paragraph; any other line break is a space."""
    running = Running()
    sentences = [sentence for line in re.split(r"\r\n|\r|\n", text) for sentence in running.line(line)]
    return [sentence.text for sentence in sentences + running.end()]


class Running:
    """Splits running text that arrives line by line, or in parts of a line, into sentences."""

    def __init__(self) -> None:
        self.cuts = 0  # sentences cut because they were longer than LONGEST
        self._parts: list[str] = []
        self._held = 0
        self._last = ""
        self._begins = True  # the next sentence begins a paragraph

    def line(self, line: str) -> list[Sentence]:
        """Add a line without its line end. Return the sentences that are now complete."""
        line = line.strip()
        ended = self.end() if not line or max(len(line), len(self._last)) > WRAPPED else []
        if line:
            ended += self.part(_glue(self._last, line) + line)
            self._last = line
        return ended

    def part(self, text: str) -> list[Sentence]:
        """Add text unchanged. Return the sentences that are now complete."""
        self._parts.append(text)
        self._held += len(text)
        return self._sentences(final=False) if self._held > _HELD else []

    def end(self) -> list[Sentence]:
        """End the paragraph. Return its remaining sentences."""
        self._last = ""
        return self._sentences(final=True) if self._parts else []

    def _sentences(self, final: bool) -> list[Sentence]:
        text = "".join(self._parts)
        sentences: list[Sentence] = []
        start = _skip(text, 0)
        while len(text) - start >= (1 if final else WINDOW):
            end, cut = _sentence_end(text, start)
            self.cuts += cut
            sentences.append(Sentence(text[start:end].rstrip(), self._begins))
            self._begins = False
            start = _skip(text, end)
        self._begins = self._begins or final
        self._parts = [] if final else [text[start:]]
        self._held = 0 if final else len(text) - start
        return sentences


def _skip(text: str, start: int) -> int:
    while start < len(text) and text[start].isspace():
        start += 1
    return start


def _glue(before: str, after: str) -> str:
    """Return what replaces a line break inside a paragraph: nothing between Chinese or Japanese characters."""
    wide = before and all("⺀" <= char <= "鿿" or "\uff00" <= char <= "\uffef" for char in (before[-1], after[0]))
    return "" if wide or not before else " "


def _sentence_end(text: str, start: int) -> tuple[int, bool]:
    """Return where the sentence that begins at `start` ends, and whether it had to be cut there."""
    limit = min(len(text), start + WINDOW)
    for found in _END.finditer(text, start, limit):
        if found.start(2) - start > LONGEST:
            break
        if _ends_sentence(text, start, found, limit):
            return found.end(), False
    if len(text) - start <= LONGEST:
        return len(text), False
    half = start + LONGEST // 2
    spaces = (place for place in range(half, start + LONGEST // 4, -1) if text[place].isspace())
    return next(spaces, half), True


def _ends_sentence(text: str, start: int, found: re.Match[str], limit: int) -> bool:
    if found.end() == limit:  # the end of the text, or a very long gap
        return True
    marks, white = found.groups()
    if any(mark in _HARD for mark in marks):
        return True
    if not white:
        return False
    place = found.end()
    while place < limit and text[place] in _OPENING:
        place += 1
    if place == limit or text[place] in _SOFT:
        return False
    after = text[place]
    before = text[start : found.start()]
    if after.islower() and before != before.lower():
        return False  # a sentence begins with a lower-case letter only in text without capitals
    return marks != "." or not _abbreviates(before, after)


def _abbreviates(before: str, after: str) -> bool:
    """Whether a full stop between the two belongs to an abbreviation, an initial or the number of a list item."""
    words = before.rsplit(None, 1)
    if not words:
        return True
    word = words[-1].lstrip(_OPENING)
    if len(words) == 1 and word.isdigit() and len(word) < 4:
        return True
    small = word.lower()
    if (small in _ABBREVIATIONS and not word.isupper()) or (small in _BEFORE_NUMBERS and after.isdigit()):
        return True
    if len(word) > 1 and "." not in word:
        return False
    return all(0 < len(part) <= 2 and part.isalpha() and part.lower() != part.upper() for part in word.split("."))


def assume_layout(lines: Sequence[str]) -> tuple[str, str]:
    """Return the layout and the reason for it, judging by the first lines. The default is one sentence per line."""
    full = [line for line in lines if line.strip()]
    if not full:
        return "lines", "there is no text to examine"
    if _tabbed(full):
        mean = sum(line.count("\t") + 1 for line in full) / len(full)
        return "tabs", f"tabs separate {mean:.1f} sentences per line on average"
    length = sum(map(len, full)) / len(full)
    if length > 2 * LONGEST:
        return "running", f"a line has {length:,.0f} characters on average"
    counts = [len(split(line)) for line in full]
    mean = sum(counts) / len(full)
    if mean >= 2:
        return "running", f"a line holds {mean:.1f} sentences on average"
    if _hard_wrapped(lines, counts):
        return "running", "lines break where the next word would not have fitted"
    blocks = sum(has_text for has_text, _ in groupby(lines, lambda line: bool(line.strip())))
    if blocks >= _FEWEST_BLOCKS and 2 <= len(full) / blocks <= _LONGEST_BLOCK:
        return "blocks", f"blank lines separate blocks of {len(full) / blocks:.1f} lines on average"
    return "lines", f"a line holds {mean:.1f} sentence{'s' * (mean >= 1.05)} on average"


def _tabbed(lines: Sequence[str]) -> bool:
    """Whether tabs separate sentences: most lines have tabs, most fields end as sentences do, and the number of fields
    varies from line to line, unlike that of a table."""
    fields = [[field.strip() for field in line.split("\t")] for line in lines]
    counts = Counter(map(len, fields))
    every = [field for some in fields for field in some]
    ended = sum(bool(_ENDS_LINE.search(field)) for field in every)
    same = max(counts.values())
    return counts[1] < 0.5 * len(lines) and same < 0.9 * len(lines) and ended >= 0.8 * len(every)


def _hard_wrapped(lines: Sequence[str], counts: Sequence[int]) -> bool:
    """Whether most lines are as full as the width allows, few end a sentence, and sentences end inside lines."""
    lengths = sorted(len(line) for line in lines if line.strip())
    width = lengths[int(0.98 * (len(lengths) - 1))]
    pairs = list(_neighbours(lines))
    if not 40 <= width <= WRAPPED or not pairs:
        return False
    filled = sum(len(line) + 1 + len(below.split()[0]) >= width for line, below in pairs)
    ended = sum(bool(_ENDS_LINE.search(line)) for line, _ in pairs)
    inside = sum(count > 1 for count in counts)
    return filled >= 0.6 * len(pairs) and ended < 0.5 * len(pairs) and inside >= 0.1 * len(counts)


def _neighbours(lines: Sequence[str]) -> Iterator[tuple[str, str]]:
    for line, below in pairwise(lines):
        if line.strip() and below.strip():
            yield line.rstrip(), below
