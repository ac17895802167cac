"""Clusters of a collection with their typical phrases and texts, and near-duplicates.

Vectors are kept in a temporary file, not in memory, and texts are read when needed, so a collection can be large.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from banyan.errors import BanyanError
from banyan.search import grammar
from banyan.search.closed_classes import closed
from banyan.search.rows import Rows
from banyan.search.word_spans import word_spans
from banyan.support.needs import needs
from banyan.support.rows import slices

FITTED_ON = 100_000  # rows, at most, to fit the centroids on
TEXTS_PER_CLUSTER = 1000  # sampled to count phrases
LONGEST_PHRASE = 3  # words
WORDS_PER_TEXT = 500  # at most, that are read
# A phrase does not begin or end with a common word:
RARE = 0.008  # one that is in more of the texts than this,
PEAK, PEAK_OF_FEW = 8.5, 0.75  # and in no cluster this many times as often as on average (of few: times their number);
SELDOM, EVEN = 0.004, 0.45  # or in more than this, and in this share of all clusters half as often as on average,
MANY_CLUSTERS = 10  # if there are so many;
COMMON = 0.1  # in a script with one cluster, one that is in more of its texts than this
FEW_TEXTS = 10  # clusters with fewer are not compared
ALL_PAIRS = 50_000  # rows up to which all pairs are compared; in larger collections, only pairs within a cluster
BLOCK = 2048
DUPLICATE = 0.97  # cosine

_VOWELS = re.compile("[\u0591-\u05bd\u05bf-\u05c7\u064b-\u0652\u0670]")


@dataclass(frozen=True)
class Cluster:
    number: int  # from 1, largest cluster first
    size: int
    phrases: list[str]
    typical: list[str]  # the texts closest to the centroid


@dataclass(frozen=True)
class Overview:
    ids: np.ndarray  # row ids, in the order of the table
    labels: np.ndarray  # the cluster number of each row
    clusters: list[Cluster]
    duplicates: list[np.ndarray]  # groups of positions in `ids`, largest group first


@contextmanager
def vectors_of(rows: Rows, where: str | None = None) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield ids [n] and vectors [n, E] of rows. The vectors are in a temporary file for the duration of the block."""
    n = rows.count(where)
    if n < 2:
        raise BanyanError(f"{'only one row' if n else 'no rows'} to cluster; at least two are needed")
    ids = np.empty(n, np.uint64)
    with TemporaryDirectory(prefix="banyan-") as folder:
        vectors = np.memmap(Path(folder) / "vectors", np.float32, "w+", shape=(n, rows.dim))
        done = 0
        for some, part in rows.vectors(where):
            part, some = part[: n - done], some[: n - done]  # another process may be adding rows
            ids[done : done + len(some)], vectors[done : done + len(part)] = some, part
            done += len(some)
        yield ids[:done], vectors[:done]


def overview(
    rows: Rows, clusters: int | None = None, where: str | None = None, alike: float = DUPLICATE, seed: int = 0
) -> Overview:
    """Return clusters and near-duplicates.

    clusters: how many; by default 2 to 40, growing with the number of rows.
    alike: the lowest cosine of near-duplicates."""
    with vectors_of(rows, where) as (ids, vectors):
        labels, nearest = divided(vectors, clusters or suitable(len(vectors)), seed)
        phrases = phrases_of(rows, ids, labels, seed)
        found = [
            Cluster(number, int((labels == number).sum()), phrases[number], rows.texts(ids[nearest[number]]))
            for number in range(1, labels.max() + 1)
        ]
        return Overview(ids, labels, found, near_duplicates(vectors, labels, alike))


def suitable(n: int) -> int:
    """Return a number of clusters that a person can still look through."""
    return int(np.clip(round((n / 2) ** 0.5), 2, 40))


def divided(vectors: np.ndarray, k: int, seed: int = 0) -> tuple[np.ndarray, dict[int, np.ndarray]]:
    """Run k-means. Return the cluster number of each vector, and the three vectors nearest to each centroid."""
    with needs("Clustering", "search"):
        from sklearn.cluster import MiniBatchKMeans
    if not 1 <= k <= len(vectors):
        raise BanyanError(f"cannot divide {len(vectors):,} rows into {k} clusters")
    rng = np.random.default_rng(seed)
    few = len(vectors) <= FITTED_ON
    sample = vectors if few else vectors[np.sort(rng.choice(len(vectors), FITTED_ON, replace=False))]
    fitted = MiniBatchKMeans(k, random_state=seed, batch_size=4096, n_init=3).fit(np.asarray(sample))
    labels, distances = np.empty(len(vectors), np.int32), np.empty(len(vectors), np.float32)
    for rows in slices(len(vectors), BLOCK):
        far = fitted.transform(np.asarray(vectors[rows]))
        labels[rows], distances[rows] = far.argmin(1), far.min(1)
    used, sizes = np.unique(labels, return_counts=True)
    order = used[np.argsort(-sizes, kind="stable")]
    numbers = np.zeros(k, np.int32)
    numbers[order] = np.arange(1, len(order) + 1)
    labels = numbers[labels]
    return labels, {number: _least(distances, labels == number, 3) for number in range(1, len(order) + 1)}


def _least(values: np.ndarray, among: np.ndarray, most: int) -> np.ndarray:
    places = np.flatnonzero(among)
    return places[np.argsort(values[places], kind="stable")[:most]]


# --- Typical phrases -------------------------------------------------------------------------------------------------


def phrases_of(rows: Rows, ids: np.ndarray, labels: np.ndarray, seed: int, most: int = 6) -> dict[int, list[str]]:
    """Return the typical phrases of each cluster, from a sample of its texts."""
    rng = np.random.default_rng(seed)
    texts = {}
    for number in range(1, labels.max() + 1):
        places = np.flatnonzero(labels == number)
        chosen = rng.choice(places, min(len(places), TEXTS_PER_CLUSTER), replace=False)
        texts[number] = rows.texts(ids[np.sort(chosen)])
    return typical_phrases(texts, most)


def typical_phrases(texts: dict[int, list[str]], most: int = 6) -> dict[int, list[str]]:
    """Return phrases of one to three words that are more frequent in a cluster than elsewhere.

    With p the share of the cluster's texts that contain a phrase and q the share of all texts, the score is
    p log(p / q) times the square root of its length in words. Words common to all clusters score low, and so do phrases
    that begin or end with a word that looks like one of grammar. A lone letter is no phrase."""
    said = {number: [_words(text) for text in some] for number, some in texts.items()}
    within = {number: _counts(some) for number, some in said.items()}
    all_said = [text for some in said.values() for text in some]
    weights = grammar.weights(all_said)
    overall: Counter[tuple[str, ...]] = Counter()
    for counts in within.values():
        overall.update(counts)
    total = sum(map(len, texts.values()))
    common = _common(within, texts) | closed(all_said)
    return {
        number: _distinct(_scored(counts, len(texts[number]), overall, total, common, weights), most)
        for number, counts in within.items()
    }


def _common(within: dict[int, Counter[tuple[str, ...]]], texts: dict[int, list[str]]) -> set[str]:
    """Return words that say nothing about a cluster: frequent ones that are spread over the clusters of their script.

    Scripts are apart, because a collection of several languages has clusters of each, and the articles of one language
    are in its clusters only."""
    within = {number: counts for number, counts in within.items() if len(texts[number]) >= FEW_TEXTS} or within
    shares: dict[str, dict[int, float]] = defaultdict(dict)  # word -> cluster -> share of the texts that contain it
    letters: dict[int, Counter[str]] = {number: Counter() for number in within}
    for number, counts in within.items():
        for phrase, count in counts.items():
            if len(phrase) == 1:
                shares[phrase[0]][number] = count / len(texts[number])
                letters[number][_script(phrase[0])] += count
    main = Counter(found.most_common(1)[0][0] for found in letters.values() if found)
    common = set()
    for word, found in shares.items():
        clusters = max(main[_script(word)], 1)
        mean = sum(found.values()) / clusters
        flat = mean > RARE and max(found.values()) / mean < min(PEAK, PEAK_OF_FEW * clusters)
        even = mean > SELDOM and sum(share >= mean / 2 for share in found.values()) >= EVEN * clusters
        if (flat or (even and clusters >= MANY_CLUSTERS)) if clusters > 1 else mean > COMMON:
            common.add(word)
    return common


def _script(word: str) -> str:
    """Return the script of a word's first letter, such as LATIN or ARABIC."""
    letter = next((character for character in word if character.isalpha()), "")
    return unicodedata.name(letter, "").partition(" ")[0] if letter else ""


def _words(text: str) -> list[str]:
    """The first words of a text. Vowels of Arabic and Hebrew, which few texts write, are dropped."""
    return [_VOWELS.sub("", text[start:end].lower()) for start, end in word_spans(text)][:WORDS_PER_TEXT]


def _counts(texts: list[list[str]]) -> Counter[tuple[str, ...]]:
    """Count the texts that contain each phrase."""
    counts: Counter[tuple[str, ...]] = Counter()
    for said in texts:
        lengths = range(1, LONGEST_PHRASE + 1)
        counts.update({tuple(said[i : i + length]) for length in lengths for i in range(len(said) - length + 1)})
    return Counter({phrase: count for phrase, count in counts.items() if count > 1 or len(texts) < 10})


def _scored(
    counts: Counter[tuple[str, ...]],
    n: int,
    overall: Counter[tuple[str, ...]],
    total: int,
    common: set[str],
    weights: dict[str, float],
) -> list[tuple[float, tuple[str, ...]]]:
    scored = []
    for phrase, count in counts.items():
        p, q = count / n, overall[phrase] / total
        if p > q and phrase[0] not in common and phrase[-1] not in common and not _is_letter(phrase):
            weight = (weights.get(phrase[0], 1) * weights.get(phrase[-1], 1)) ** 0.5
            scored.append((weight * p * float(np.log(p / q)) * len(phrase) ** 0.5, phrase))
    return sorted(scored, key=lambda pair: (-pair[0], pair[1]))


def _is_letter(phrase: tuple[str, ...]) -> bool:
    """Whether this is one letter of a script with upper and lower case. Elsewhere, a letter can be a whole word."""
    return len(phrase) == 1 and len(phrase[0]) == 1 and phrase[0].upper() != phrase[0].lower()


def _distinct(scored: list[tuple[float, tuple[str, ...]]], most: int) -> list[str]:
    """Return the best phrases that share no word with a better one."""
    kept: list[tuple[str, ...]] = []
    for _, phrase in scored:
        if len(kept) < most and not any(set(phrase) & set(better) for better in kept):
            kept.append(phrase)
    return [" ".join(phrase) for phrase in kept]


# --- Near-duplicates -------------------------------------------------------------------------------------------------


def near_duplicates(vectors: np.ndarray, labels: np.ndarray, alike: float = DUPLICATE) -> list[np.ndarray]:
    """Return groups of rows linked by cosines of at least `alike`. Beyond ALL_PAIRS rows, only rows of the same cluster
    are compared, so a pair on the border of two clusters may be missed."""
    parent = np.arange(len(vectors))
    whole = len(vectors) <= ALL_PAIRS
    parts = [np.arange(len(vectors))] if whole else [np.flatnonzero(labels == label) for label in np.unique(labels)]
    for part in parts:
        for first in range(0, len(part), BLOCK):
            rows = np.asarray(vectors[part[first : first + BLOCK]])
            for second in range(first, len(part), BLOCK):
                others = part[second : second + BLOCK]
                a, b = np.nonzero(rows @ np.asarray(vectors[others]).T >= alike - 1e-6)
                for i, j in zip(part[first + a].tolist(), others[b].tolist(), strict=True):
                    if i < j:
                        _join(parent, i, j)
    groups = defaultdict(list)
    for i in range(len(parent)):
        groups[_root(parent, i)].append(i)
    found = [np.array(group) for group in groups.values() if len(group) > 1]
    return sorted(found, key=lambda group: (-len(group), group[0]))


def _root(parent: np.ndarray, i: Any) -> int:
    while parent[i] != i:
        parent[i] = parent[parent[i]]
        i = parent[i]
    return int(i)


def _join(parent: np.ndarray, i: int, j: int) -> None:
    a, b = _root(parent, i), _root(parent, j)
    parent[max(a, b)] = min(a, b)
