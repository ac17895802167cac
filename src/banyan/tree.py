"""Tree, returned by `Banyan.parse`, and its text, JSON and SVG forms.

A tree with n leaves has 2n-1 nodes: leaf i is node i, and merge k makes node n+k from two earlier nodes.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, SupportsIndex

import numpy as np

from banyan.errors import BanyanError
from banyan.model.brackets import escape_word
from banyan.support import drawing as svg


def leaf_labels(text: str, pieces: Iterable[str], spans: Iterable[Sequence[int]]) -> list[str]:
    """Return the text of each leaf, or its piece if it has no characters of its own.

    Such a leaf is a byte of a character that the leaf before already shows, or a lone space, written ▁."""
    own = (text[start:end].strip() for start, end in _own_spans(spans))
    return [characters or piece.strip() or "▁" for characters, piece in zip(own, pieces, strict=True)]


def _own_spans(spans: Iterable[Sequence[int]]) -> Iterator[tuple[int, int]]:
    """Yield the spans of the leaves without what an earlier leaf covers."""
    covered = 0
    for start, end in spans:
        yield max(start, covered), max(end, covered)
        covered = max(end, covered)


@dataclass(frozen=True, eq=False, repr=False)
class Tree:
    """How a sentence was composed, and the embedding of every phrase in it."""

    text: str
    pieces: list[str]  # the n leaves, as pieces of the tokenizer
    spans: np.ndarray  # int64 [2n-1, 2]: the characters of `text` that each node covers
    children: np.ndarray  # int32 [n-1, 2]: the left and right child of each merge, in merge order
    similarity: np.ndarray  # float32 [n-1]: the cosine of the two children
    embeddings: np.ndarray  # float32 [2n-1, E]

    def __len__(self) -> int:
        """The number of nodes: 2n-1, or 0 for an empty text."""
        return len(self.pieces) + len(self.children)

    def __iter__(self) -> Iterator[Node]:
        """Iterate over the nodes bottom-up: the leaves in text order, then the merges in merge order."""
        return (Node(self, index) for index in range(len(self)))

    def __getitem__(self, node: SupportsIndex) -> Node:
        return Node(self, range(len(self))[node])

    @property
    def root(self) -> Node:
        """The root node. The tree of an empty text has none, and is false: `if tree:`."""
        if not len(self):
            raise BanyanError("the tree of an empty text has no root: `if tree:` tells whether there is one")
        return self[-1]

    @cached_property
    def height(self) -> np.ndarray:
        """int32 [2n-1]: 0 for a leaf, else one more than that of the higher child."""
        height = [0] * len(self.pieces)
        for left, right in self.children.tolist():
            height.append(1 + max(height[left], height[right]))
        return np.array(height, np.int32)

    def phrase(self, node: SupportsIndex) -> str:
        """Return the text under a node, without surrounding white space."""
        start, end = self.spans[node]
        return self.text[start:end].strip()

    @cached_property
    def leaves(self) -> list[str]:
        """The text of each leaf, or its piece if it has no characters of its own."""
        return leaf_labels(self.text, self.pieces, self.spans[: len(self.pieces)].tolist())

    @cached_property
    def _words(self) -> list[range]:
        """The leaves of each word of the text."""
        starts, previous_end = [], 0
        for leaf, (start, end) in enumerate(_own_spans(self.spans[: len(self.pieces)].tolist())):
            if start < end:
                goes_on = 0 < start == previous_end and all(map(_in_word, self.text[start - 1 : start + 1]))
            else:
                goes_on = not self.pieces[leaf].startswith("▁")
            if leaf == 0 or not goes_on:
                starts.append(leaf)
            previous_end = end
        return [range(start, end) for start, end in pairwise([*starts, len(self.pieces)])]

    def __repr__(self) -> str:
        leaves = "1 leaf" if len(self.pieces) == 1 else f"{len(self.pieces)} leaves"
        return f"<Tree of {svg.shorten(self.text, 40)!r}: {leaves}, height {self.height.max(initial=0)}>"

    def __str__(self) -> str:
        """Draw the tree with one line per leaf, the root on the left, and the cosine at each merge."""
        lines: list[str] = []
        labels = self._joined_leaves()
        todo = [(len(self) - 1, "", "")] if len(self) else []  # node, first prefix, prefix of further lines
        while todo:
            node, lead, below = todo.pop()
            merge = node - len(self.pieces)
            if merge < 0:
                lines.append(f"{lead} {labels[node]}" if lead else labels[node])
                continue
            left, right = self.children[merge].tolist()
            todo.append((right, f"{below}    └─", f"{below}      "))
            todo.append((left, f"{lead}{_cosine(self.similarity[merge])}┬─", f"{below}    │ "))
        return "\n".join(lines)

    def _joined_leaves(self) -> list[str]:
        """Return the leaves, with a dot on each side where the word continues."""
        labels = [svg.visible(leaf) for leaf in self.leaves]
        for word in self._words:
            for leaf in word[1:]:
                labels[leaf - 1] += "·"
                labels[leaf] = "·" + labels[leaf]
        return labels

    def to_brackets(self) -> str:
        """Return the tree in one line of brackets that NLTK and `read_brackets` can read. Every label is X."""
        if not self.pieces:
            return "()"
        written: list[str] = []
        todo: list[int | str] = [len(self) - 1]
        while todo:
            node = todo.pop()
            if isinstance(node, str):
                written.append(node)
            elif node >= len(self.pieces):
                left, right = self.children[node - len(self.pieces)].tolist()
                todo += [")", right, " ", left, "(X "]
            else:
                written.append(escape_word(self.leaves[node]))
        return "".join(written) if len(self.pieces) > 1 else f"(X {written[0]})"

    def to_json(self, embeddings: bool = False) -> str:
        """Return the text and the nodes, bottom-up, as JSON; with their embeddings if asked for."""
        nodes = [node.to_dict(embeddings) for node in self]
        root = len(self) - 1 if len(self) else None
        return json.dumps({"text": self.text, "root": root, "nodes": nodes}, ensure_ascii=False)

    def to_svg(self) -> str:
        """Draw the tree: words along the bottom, and each merge, with its cosine, at the height of its node."""
        return _Drawing(self).to_svg()

    def _repr_svg_(self) -> str | None:
        return self.to_svg() if len(self.pieces) <= 1000 else None  # a long document would freeze a notebook

    def _repr_html_(self) -> str | None:
        drawing = self._repr_svg_()
        return drawing and svg.in_notebook(drawing)


@dataclass(frozen=True, repr=False)
class Node:
    """One node of a tree. It also works as an index, as in `tree.embeddings[node]`."""

    tree: Tree
    index: int

    def __index__(self) -> int:
        return self.index

    def __repr__(self) -> str:
        cosine = "" if self.similarity is None else f", similarity {self.similarity:.2f}"
        return f"<Node {self.index}: {svg.shorten(self.text, 40)!r}{cosine}>"

    @property
    def is_leaf(self) -> bool:
        """Whether it is a leaf rather than a merge."""
        return self.index < len(self.tree.pieces)

    @property
    def text(self) -> str:
        """The phrase, without surrounding white space."""
        return self.tree.phrase(self)

    @property
    def span(self) -> tuple[int, int]:
        """Its start and end in the text, in characters."""
        start, end = self.tree.spans[self].tolist()
        return start, end

    @property
    def height(self) -> int:
        """0 for a leaf, else one more than that of the higher child."""
        return int(self.tree.height[self])

    @property
    def embedding(self) -> np.ndarray:
        """float32 [E]. The embedding of the root is that of the sentence."""
        return self.tree.embeddings[self]

    @property
    def children(self) -> tuple[Node, ...]:
        """The left and right child; empty for a leaf."""
        if self.is_leaf:
            return ()
        return tuple(self.tree[child] for child in self.tree.children[self.index - len(self.tree.pieces)])

    @property
    def similarity(self) -> float | None:
        """The cosine of the two children, or None for a leaf."""
        return None if self.is_leaf else float(self.tree.similarity[self.index - len(self.tree.pieces)])

    def to_dict(self, embedding: bool = False) -> dict[str, Any]:
        """Return what `Tree.to_json` writes for the node."""
        values: dict[str, Any] = {"id": self.index, "text": self.text, "span": self.span, "height": self.height}
        if self.similarity is None:
            values["piece"] = self.tree.pieces[self.index]
        else:
            values["children"] = [child.index for child in self.children]
            values["similarity"] = round(self.similarity, 6)
        if embedding:
            values["embedding"] = self.embedding.tolist()
        return values


def _cosine(value: float) -> str:
    """Four characters: 0.41, -.41, 1.00."""
    return f"{round(float(value), 2) + 0.0:.2f}".replace("-0.", "-.")[:4]


_UNSPACED = (range(0x0E00, 0x10A0), range(0x1780, 0x1800))  # Thai to Burmese, Khmer
_HANGUL = range(0xAC00, 0xD7A4)  # wide, but Korean separates words with spaces


def _in_word(character: str) -> bool:
    """Whether a character belongs to a word in a script that separates words with spaces."""
    if any(ord(character) in block for block in _UNSPACED) or (svg.wide(character) and ord(character) not in _HANGUL):
        return False
    return unicodedata.category(character)[0] in "LMN" or character in "\u200c\u200d"


class _Drawing:
    """The layout of a tree. Sizes are in pixels."""

    SIZE = 15  # font size of the words
    NARROWEST = 30  # width of a leaf, so that the pills of neighbouring merges do not touch
    SPACE, DOT = 16, 9  # between words, between pieces of one word
    ROW = 34  # vertical distance between heights
    PILL = (32, 17)
    MARGIN = 20
    LOW, HIGH = (233, 241, 236), (22, 92, 62)  # colours of cosine 0 and 1

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self.mirrored = svg.right_to_left(tree.text)
        self.labels = [svg.visible(leaf) for leaf in tree.leaves]
        self.boxes = self._boxes()
        self.width = self.boxes[-1][1] + self.MARGIN if self.boxes else 160.0
        if self.mirrored:
            self.boxes = [(self.width - right, self.width - left) for left, right in self.boxes]
        self.bottom = self.MARGIN + self.ROW * float(tree.height.max(initial=0)) + self.PILL[1] / 2  # where words begin
        self.x = self._middles()

    def _boxes(self) -> list[tuple[float, float]]:
        """Return the left and right edge of each leaf."""
        boxes: list[tuple[float, float]] = []
        x = self.MARGIN + 6.0
        for word in self.tree._words:
            for leaf in word:
                width = max(svg.text_width(self.labels[leaf], self.SIZE), self.NARROWEST)
                boxes.append((x, x + width))
                x += width + self.DOT
            x += self.SPACE - self.DOT
        return boxes

    def _middles(self) -> list[float]:
        """Return the centre of each leaf, and for each merge the midpoint between its children."""
        x = [(left + right) / 2 for left, right in self.boxes]
        for left, right in self.tree.children.tolist():
            x.append((x[left] + x[right]) / 2)
        return x

    def y(self, node: int) -> float:
        """Return the centre of a merge's pill, or the top of a leaf."""
        return self.bottom - self.ROW * float(self.tree.height[node])

    def to_svg(self) -> str:
        merges = range(len(self.tree.pieces), len(self.tree))
        parts = [
            svg.group([self._line(node) for node in merges], fill="none", stroke=svg.GREY, stroke_width=1.4),
            svg.group([self._pill(node) for node in merges], font_size=10.5, text_anchor="middle"),
            self._text(),
        ]
        if not self.boxes:
            parts = [svg.text(self.width / 2, self.bottom + 20, "(empty)", text_anchor="middle", fill=svg.GREY)]
        height = self.bottom + self.SIZE * 1.8 + self.MARGIN
        return svg.card(self.width, height, svg.shorten(self.tree.text, 200), parts)

    def _line(self, node: int) -> str:
        """Draw from the left child up, across, and down to the right child, with rounded corners."""
        left, right = sorted(self.tree.children[node - len(self.tree.pieces)].tolist(), key=self.x.__getitem__)
        y, r = self.y(node), 7
        n = svg.number
        up = f"M{n(self.x[left])} {n(self.y(left))}V{n(y + r)}q0 {-r} {r} {-r}"
        return f'<path d="{up}H{n(self.x[right] - r)}q{r} 0 {r} {r}V{n(self.y(right))}"/>'

    def _pill(self, node: int) -> str:
        similarity = float(self.tree.similarity[node - len(self.tree.pieces)])
        fill = svg.mix(self.LOW, self.HIGH, similarity)
        x, y, (width, height) = self.x[node], self.y(node), self.PILL
        return svg.group(
            [
                svg.rect(x - width / 2, y - height / 2, width, height, fill, rx=height / 2),
                svg.text(x, y + 3.8, _cosine(similarity), fill=svg.ink(fill)),
            ],
            title=f"{svg.shorten(self.tree.phrase(node), 200)} ({similarity:.3f})",
        )

    def _text(self) -> str:
        """Draw the words. A word of several pieces has a grey background, and dots between its pieces."""
        grounds, dots, texts = [], [], []
        y = self.bottom + self.SIZE * 1.35
        for word in self.tree._words:
            left = min(self.boxes[word[0]][0], self.boxes[word[-1]][0]) - 5
            right = max(self.boxes[word[0]][1], self.boxes[word[-1]][1]) + 5
            if len(word) > 1:
                grounds.append(svg.rect(left, self.bottom + 2, right - left, self.SIZE * 1.7, (238, 240, 239), rx=6))
            for leaf in word[1:]:
                (a, b), (c, d) = self.boxes[leaf - 1], self.boxes[leaf]
                dots.append(svg.text((max(a, c) + min(b, d)) / 2, y, "·", fill=svg.GREY))
            texts += [svg.text(self.x[leaf], y, self._shaped(leaf, word)) for leaf in word]
        direction = {"direction": "rtl"} if self.mirrored else {}
        return svg.group(grounds + dots + texts, font_size=self.SIZE, text_anchor="middle", **direction)

    def _shaped(self, leaf: int, word: range) -> str:
        """Add invisible joiners, so that Arabic letters keep the shape they have inside the word."""
        label = self.labels[leaf]
        before = "\u200d" if leaf > word[0] and _arabic(self.labels[leaf - 1][-1] + label[0]) else ""
        after = "\u200d" if leaf < word[-1] and _arabic(label[-1] + self.labels[leaf + 1][0]) else ""
        return before + label + after


def _arabic(letters: str) -> bool:
    return all(unicodedata.bidirectional(letter) == "AL" for letter in letters)
