"""Trees that a user gives in brackets, such as `(S (NP the cat) (VP sat))`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from banyan.errors import BanyanError


@dataclass(frozen=True)
class BracketTree:
    """A binary tree over words, as a linguist wrote it: leaf i is word i, and merge k makes node len(words)+k."""

    words: list[str]
    merges: list[tuple[int, int]]  # left and right node; both were made before

    def expand(self, pieces: Sequence[int]) -> list[tuple[int, int]]:
        """The merges over pieces, given how many pieces the tokenizer made of each word.

        The pieces of a word merge first, from left to right; then the words, as the brackets say. A word of no
        pieces is left out, and what it would have merged with takes its place.
        """
        if len(pieces) != len(self.words):
            raise BanyanError(f"the brackets have {len(self.words)} words, but pieces were counted for {len(pieces)}")
        merges = _Merges()
        nodes: list[int | None] = []
        for count in pieces:
            nodes.append(merges.chain([merges.leaf() for _ in range(count)], "left"))
        for left, right in self.merges:
            nodes.append(merges.chain([node for node in (nodes[left], nodes[right]) if node is not None], "left"))
        return merges.numbered()


class _Merges:
    """Merges written down while the number of leaves is still unknown: merge k is called -1-k until the end."""

    def __init__(self) -> None:
        self.leaves = 0
        self.merges: list[tuple[int, int]] = []

    def leaf(self) -> int:
        self.leaves += 1
        return self.leaves - 1

    def merge(self, left: int, right: int) -> int:
        self.merges.append((left, right))
        return -len(self.merges)

    def chain(self, nodes: list[int], branching: str) -> int | None:
        """One node over some: ((a b) c) for "left", (a (b c)) for "right"; a lone node is itself."""
        if not nodes:
            return None
        if branching == "left":
            top = nodes[0]
            for node in nodes[1:]:
                top = self.merge(top, node)
        else:
            top = nodes[-1]
            for node in reversed(nodes[:-1]):
                top = self.merge(node, top)
        return top

    def numbered(self) -> list[tuple[int, int]]:
        return [(self._number(left), self._number(right)) for left, right in self.merges]

    def _number(self, node: int) -> int:
        return node if node >= 0 else self.leaves - 1 - node


_ESCAPES = {"-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]", "-LCB-": "{", "-RCB-": "}"}
_EMPTY = "-NONE-"


def read_brackets(text: str, *, labels: bool = True, branching: str = "right") -> list[BracketTree]:
    """Read trees in brackets, as in the Penn Treebank and NLTK: (S (NP (DT the) (NN dog)) (VP barked)).

    The first word after an opening bracket is its label, unless `labels` is false: ((the dog) barked). Labels are
    not kept. A node with one child is that child; a node with more than two is binarised, (a (b c)) by default,
    ((a b) c) with branching="left". Empty nodes (-NONE- ...) are dropped, and -LRB- is "(" again. An unlabelled
    bracket around a whole tree, as in the Penn Treebank, is allowed. A tree may go over several lines.
    """
    if branching not in ("left", "right"):
        raise BanyanError(f'branching must be "left" or "right", not {branching!r}')
    reader = _Reader(text, labels, branching)
    for match in re.finditer(r"[()]|[^\s()]+", text):
        reader.take(match.group(), match.start())
    return reader.finish()


@dataclass
class _Bracket:
    """An opening bracket that waits for its end."""

    position: int
    label: str | None = None
    nodes: list[int | None] = field(default_factory=list)  # None for a dropped one


class _Reader:
    def __init__(self, text: str, labels: bool, branching: str) -> None:
        self.text, self.labels, self.branching = text, labels, branching
        self.open: list[_Bracket] = []
        self.trees: list[BracketTree] = []
        self.words: list[str] = []
        self.merges = _Merges()

    def take(self, token: str, position: int) -> None:
        if token == "(":
            self.open.append(_Bracket(position))
        elif not self.open:
            raise self._error(position, f"'(' was expected, not {token!r}")
        elif token == ")":
            self._end(self.open.pop(), position)
        else:
            self._word(self.open[-1], token)

    def finish(self) -> list[BracketTree]:
        if self.open:
            raise self._error(self.open[-1].position, "this '(' is never closed, ')' was expected before the end")
        return self.trees

    def _word(self, bracket: _Bracket, token: str) -> None:
        if self.labels and bracket.label is None and not bracket.nodes:
            bracket.label = token
        elif bracket.label == _EMPTY:
            bracket.nodes.append(None)
        else:
            self.words.append(_unescape_word(token))
            bracket.nodes.append(self.merges.leaf())

    def _end(self, bracket: _Bracket, position: int) -> None:
        if not bracket.nodes and (self.open or bracket.label):
            raise self._error(position, "a word or '(' was expected, not ')'")
        if self.labels and bracket.label is None and (len(bracket.nodes) > 1 or self.open):
            raise self._error(
                bracket.position, "a label was expected after '('; read brackets without labels with labels=False"
            )
        top = self.merges.chain([node for node in bracket.nodes if node is not None], self.branching)
        if self.open:
            self.open[-1].nodes.append(top)
        else:
            self.trees.append(BracketTree(self.words, self.merges.numbered()))
            self.words, self.merges = [], _Merges()

    def _error(self, position: int, problem: str) -> BanyanError:
        line = self.text.count("\n", 0, position) + 1
        column = position - self.text.rfind("\n", 0, position)
        return BanyanError(f"line {line}, column {column}: {problem}")


def escape_word(word: str) -> str:
    """A word that cannot be taken for brackets or for two words."""
    return re.sub(r"\s+", "▁", word).replace("(", "-LRB-").replace(")", "-RRB-")


def _unescape_word(word: str) -> str:
    for escaped, character in _ESCAPES.items():
        word = word.replace(escaped, character)
    return word


def pieces_per_word(words: list[str], spans: list[tuple[int, int]]) -> list[int]:
    """Return the number of pieces of each word of " ".join(words)."""
    ends = np.cumsum([len(word) + 1 for word in words])
    of = np.searchsorted(ends, [max(end - 1, start) for start, end in spans], side="right")
    return np.bincount(of, minlength=len(words)).tolist()
