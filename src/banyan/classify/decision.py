"""Decision, returned by `Classifier.explain`: the score of a label as a sum over the words of the text.

The head is linear and composition is affine, so for fixed trees, norms and signs of differences, the score is exactly
the sum. The share of a product of two texts is divided evenly between them, and that of an n-gram among its pieces."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from banyan.classify.calibration import probabilities
from banyan.classify.features import OVERLAPS, Ragged, ngrams, of_pairs
from banyan.support.drawing import shorten, terminal_width, visible
from banyan.tokenizer.rules import without_surrogates

if TYPE_CHECKING:
    from banyan.classify.classifier import Classifier


class Word(NamedTuple):
    text: str
    value: float  # what it adds to the score
    side: int  # 0, or 1 for the second text of a pair


@dataclass(frozen=True, eq=False)
class Decision:
    """The score of a label: the sum of what each word adds, what the overlap of a pair adds, and the bias."""

    label: str
    probability: float
    score: float
    against: str | None  # the other class, if there are two; the score is the log-odds
    words: list[Word]  # in the order of the text
    overlap: float  # how much the texts of a pair overlap, in words, numbers and length; 0 for single texts
    bias: float  # what the classifier assumes without reading

    def top(self, k: int = 10) -> list[Word]:
        """The k words that add or subtract most."""
        return sorted(self.words, key=lambda word: -abs(word.value))[:k]

    def __str__(self) -> str:
        return self.to_text()

    def to_text(self, k: int = 10) -> str:
        """Return the score and what the k strongest words add to it, one per line."""
        beside = f" rather than {self.against}" if self.against else ""
        lines = [f"{self.label}{beside}: probability {self.probability:.3f}, score {self.score:+.2f}, the sum of"]
        named = [(word.text if word.side == 0 else f"{word.text} (second text)", word.value) for word in self.top(k)]
        rest = self.score - self.bias - self.overlap - sum(value for _, value in named)
        if len(self.words) > k:
            named.append((f"({len(self.words) - k} more words)", rest))
        if self.overlap:
            named.append(("(overlap of the texts)", self.overlap))
        named.append(("(bias)", self.bias))
        shown = [(shorten(visible(text), 40), value) for text, value in named]
        indent = max(terminal_width(text) for text, _ in shown)
        largest = max(abs(value) for _, value in shown) or 1
        for text, value in shown:
            bar = ("█" if value >= 0 else "░") * round(20 * abs(value) / largest)
            lines.append(f"  {text}{' ' * (indent - terminal_width(text))} {value:+7.2f}  {bar}".rstrip())
        return "\n".join(lines)

    def to_dict(self) -> dict[str, object]:
        """Return label, probability, score, words, overlap (of pairs) and bias. A word is [text, value], in a pair also
        its side."""
        words = [[word.text, round(word.value, 6), *([word.side] if self._pair else [])] for word in self.words]
        found = {"label": self.label, "probability": self.probability, "score": self.score, "words": words}
        return {**found, **({"overlap": self.overlap} if self._pair else {}), "bias": self.bias}

    @property
    def _pair(self) -> bool:
        return any(word.side for word in self.words)

    def to_json(self) -> str:
        """Return to_dict() as JSON."""
        return json.dumps(self.to_dict(), ensure_ascii=False)


def decision(classifier: Classifier, texts: tuple[str, ...], label: str | None) -> Decision:
    texts = tuple(map(without_surrogates, texts))
    scores = classifier.scores_of_tokens(classifier.features.tokenised(tuple([text] for text in texts)))
    p = probabilities(scores, classifier.several)[0]
    c = int(p.argmax()) if label is None else classifier.classes.index(label)
    sides = [_Side.of(classifier, text) for text in texts]
    against = _against(classifier, c)
    dense = classifier.head.weight.astype(np.float64) @ against
    bias = float(classifier.head.bias @ against) + _offset(classifier)
    overlap = 0.0
    if classifier.pair:
        bias += _of_pair(sides, dense)
        found = classifier.vocabulary.overlaps(tuple(side.ragged for side in sides), classifier.features.digits)[0]
        overlap = float(found @ dense[-OVERLAPS:]) * classifier.calibration.slope
    else:
        sides[0].leaves += sides[0].parts[:-1] @ dense
        bias += float(sides[0].parts[-1] @ dense)
    _of_ngrams(classifier, sides, against)
    slope = classifier.calibration.slope
    words = [word for number, side in enumerate(sides) for word in side.words(slope, number)]
    bias *= slope
    score = sum(word.value for word in words) + overlap + bias
    other = classifier.classes[1 - c] if len(classifier.classes) == 2 and not classifier.several else None
    return Decision(classifier.classes[c], float(p[c]), float(score), other, words, overlap, float(bias))


def _against(classifier: Classifier, c: int) -> np.ndarray:
    """The weights of the classes' scores: of this one, less the mean of the others if they exclude each other."""
    C = len(classifier.classes)
    weights = np.zeros(C)
    if not classifier.several:
        weights[:] = -1 / (C - 1)
    weights[c] = 1
    return weights


def _offset(classifier: Classifier) -> float:
    """The offset of the calibration, before the slope. It cancels between classes that exclude each other."""
    return classifier.calibration.offset / classifier.calibration.slope if classifier.several else 0.0


@dataclass
class _Side:
    """A text, and what its leaves and tokens have been given so far."""

    text: str
    ragged: Ragged
    spans: list[tuple[int, int]]
    kept: np.ndarray  # the tokens that are leaves
    parts: np.ndarray  # float64 [leaves + 1, D]: contributions to the embedding with parts of length 1, then the bias
    leaves: np.ndarray  # float64: what each leaf adds
    tokens: np.ndarray  # float64: what each token adds through n-grams

    @classmethod
    def of(cls, classifier: Classifier, text: str) -> _Side:
        model = classifier.model
        tokens, spans = model.tokenizer.encode_with_offsets(text)
        offsets = np.array([0, len(tokens)])
        kept = np.flatnonzero(model.leaf_choice.kept(tokens, offsets))
        _, parts = model._contributions(text)
        for first, end, _ in model.config.parts:
            parts[:, first:end] /= np.linalg.norm(parts[:, first:end].sum(0)) or 1
        return cls(text, Ragged(tokens, offsets), spans, kept, parts, np.zeros(len(kept)), np.zeros(len(tokens)))

    def words(self, slope: float, number: int) -> list[Word]:
        """What each word between white space adds."""
        total = self.tokens.copy()
        total[self.kept] += self.leaves
        found: list[Word] = []
        ends: list[int] = []
        at = 0
        for word in self.text.split():
            at = self.text.index(word, at) + len(word)
            found.append(Word(word, 0.0, number))
            ends.append(at)
        values = np.zeros(len(found))
        for (start, end), value in zip(self.spans, total, strict=True):
            place = int(np.searchsorted(ends, max(end, start + 1)))
            values[min(place, len(found) - 1)] += value * slope
        return [word._replace(value=float(value)) for word, value in zip(found, values, strict=True)]


def _of_pair(sides: list[_Side], dense: np.ndarray) -> float:
    """Give each leaf its share of |u - v| and u * v. Return the share of the biases of both texts."""
    D = sides[0].parts.shape[1]
    u, v = (side.parts.sum(0) for side in sides)
    of_difference, of_product = dense[:D] * np.sign(u - v), dense[D : 2 * D] / 2
    bias = 0.0
    for side, sign, other in zip(sides, (1, -1), (v, u), strict=True):
        shares = side.parts @ (sign * of_difference + of_product * other)
        side.leaves += shares[:-1]
        bias += float(shares[-1])
    return bias


def _of_ngrams(classifier: Classifier, sides: list[_Side], against: np.ndarray) -> None:
    """Give each token its share of the n-grams it is in, or of the piece it is in a pair."""
    table = classifier.head.table
    if not classifier.pair:
        row, first, hashes = ngrams(sides[0].ragged)
        known = classifier.vocabulary.scaled(np.arange(len(row)), hashes, len(row))  # which are known
        sparse = classifier.vocabulary.sparse((sides[0].ragged,))
        values = sparse.value * (table[sparse.bucket] @ against)
        for place, value in zip(known.row, values, strict=True):
            length = int(hashes[place] % np.uint64(8))
            sides[0].tokens[first[place] : first[place] + length] += value / length
        return
    texts = tuple(side.ragged for side in sides)
    _, hashes = of_pairs(texts)
    known = classifier.vocabulary.scaled(np.arange(len(hashes)), hashes, len(hashes))
    sparse = classifier.vocabulary.sparse(texts)
    values = sparse.value * (table[sparse.bucket] @ against)
    for place, value in zip(known.row, values, strict=True):
        token = int(hashes[place] & np.uint64((1 << 56) - 1))
        where = [np.flatnonzero(side.ragged.tokens == token) for side in sides]
        times = sum(map(len, where))
        for side, found in zip(sides, where, strict=True):
            side.tokens[found] += value / times
