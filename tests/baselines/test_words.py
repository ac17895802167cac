"""GloVe, Sent2Vec, fastText and SIF against what their papers write."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from banyan import baselines
from banyan.baselines import fasttext, glove, sent2vec, text, vectors
from banyan.errors import BanyanError
from banyan.support.display import Display

QUIET = Display(quiet=True)


def of_tokens(sentences: list[list[int]], size: int) -> text.Coded:
    """A corpus that is numbers already."""
    tokens = np.array([token for sentence in sentences for token in sentence], np.int32)
    offsets = np.concatenate([[0], np.cumsum([len(sentence) for sentence in sentences])]).astype(np.int64)
    counts = np.maximum(np.bincount(tokens, minlength=size), 1)
    return text.Coded(text.Vocabulary([f"w{i}" for i in range(size)], counts), tokens, offsets)


def animals_and_vehicles(n: int = 600) -> list[str]:
    """Cat and dog keep the same company, car and truck another."""
    rng = np.random.default_rng(0)
    company = {
        ("cat", "dog"): ["eats", "sleeps", "fur", "tail", "hungry", "barks"],
        ("car", "truck"): ["drives", "engine", "fuel", "road", "wheels", "fast"],
    }
    lines = []
    for _ in range(n):
        names, around = list(company.items())[rng.integers(2)]
        words = [*rng.choice(around, 4), rng.choice(names), "the", "a"]
        lines.append(" ".join(rng.permutation(words)))
    return lines


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("corpus") / "corpus.txt"
    path.write_text("\n".join(animals_and_vehicles()) + "\n", encoding="utf-8")
    return path


def cosine(encoder: baselines.Encoder, a: str, b: str) -> float:
    u, v = encoder.encode([a, b]).astype(np.float64)
    return float(u @ v / np.linalg.norm(u) / np.linalg.norm(v))


def keeps_company(encoder: baselines.Encoder) -> bool:
    alike = min(cosine(encoder, "cat", "dog"), cosine(encoder, "car", "truck"))
    return alike > max(cosine(encoder, a, b) for a in ("cat", "dog") for b in ("car", "truck")) + 0.2


# --- Words -----------------------------------------------------------------------------------------------------------


def test_words_are_between_spaces_punctuation_and_symbols():
    assert text.words("Don't -- stop,ÉTÉ €5!\u2003x_y") == ["don", "t", "stop", "été", "5", "x", "y"]
    assert text.words("The cat", lower=False) == ["The", "cat"]
    assert text.words("की, दुनिया!") == ["की", "दुनिया"]  # vowel signs are part of a word
    assert text.words(" .,! ") == []


def test_vocabulary_is_sorted_by_count_and_rare_words_are_left_out_of_the_sentences():
    coded = text.coded(["b a rare a", "", "a b, c c"], 2, True)
    assert coded.vocabulary.words == ["a", "b", "c"]
    assert coded.vocabulary.counts.tolist() == [3, 2, 2]
    assert coded.tokens.tolist() == [1, 0, 0, 0, 1, 2, 2]
    assert coded.offsets.tolist() == [0, 3, 3, 7]


def test_vocabulary_reads_what_it_wrote(tmp_path):
    vocabulary = text.coded(["a\u200db a\u200db été 7"], 1, False).vocabulary
    (tmp_path / "words.txt").write_text(vocabulary.to_text(), encoding="utf-8")
    again = text.Vocabulary.from_text(tmp_path / "words.txt", False)
    assert again.words == vocabulary.words == ["a\u200db", "7", "été"]
    assert_array_equal(again.counts, vocabulary.counts)


def test_a_corpus_of_rare_words_only_is_an_error():
    with pytest.raises(BanyanError, match="2 distinct words, of which 0 occur 5 times or more"):
        text.coded(["one two"], 5, True)


# --- GloVe -----------------------------------------------------------------------------------------------------------


def matrix(counts: glove.Counts) -> dict[tuple[int, int], float]:
    """X, both ways round."""
    found: dict[tuple[int, int], float] = {}
    for (a, b), pairs in counts.blocks.items():
        for first, second, log_x in zip(*pairs, strict=True):
            i, j = int(first) * glove.GROUPS + a, int(second) * glove.GROUPS + b
            assert (i, j) not in found
            found[i, j] = found[j, i] = float(np.exp(np.float64(log_x)))
    assert len(found) == counts.size
    return found


@settings(deadline=None, max_examples=25)
@given(
    st.lists(st.lists(st.integers(0, 140), max_size=9), min_size=1, max_size=9),
    st.integers(1, 4),
    st.integers(1, 40),
)
def test_counts_are_those_of_a_dictionary(sentences, window, keys):
    expected: dict[tuple[int, int], float] = defaultdict(float)
    for sentence in sentences:
        for p, one in enumerate(sentence):
            for q, other in enumerate(sentence):
                if p != q and abs(p - q) <= window:
                    expected[one, other] += 1 / abs(p - q)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(glove, "KEYS", keys)  # so that there are several passes
        found = matrix(glove.cooccurrences(of_tokens(sentences, 141), window, QUIET))
    assert found.keys() == expected.keys()
    assert_allclose([found[pair] for pair in expected], list(expected.values()), rtol=1e-5)


def by_hand(w, c, g, h, log_x, rate, x_max, alpha):
    """One entry of X, as the paper and glove.c have it: vectors with their bias as last element, and accumulators."""
    diff = w[:-1] @ c[:-1] + w[-1] + c[-1] - log_x
    weight = min(1.0, (np.exp(log_x) / x_max) ** alpha)
    of_w = rate * weight * diff * np.append(c[:-1], 1)
    of_c = rate * weight * diff * np.append(w[:-1], 1)
    w, c = w - of_w / np.sqrt(g), c - of_c / np.sqrt(h)
    return w, c, g + of_w**2, h + of_c**2, 0.5 * weight * diff**2


@pytest.mark.parametrize("log_x", [-1.0, 3.0, 6.0])  # the last is beyond x_max
def test_update_is_the_published_rule(log_x):
    rng = np.random.default_rng(0)
    table_a, table_b = (rng.uniform(0.2, 1, (3, 2, 2, 6)).astype(np.float32) for _ in range(2))
    rate, x_max, alpha = 0.3, 100.0, 0.75
    word = table_a[1, 0].astype(float), table_b[2, 1].astype(float)
    back = table_b[2, 0].astype(float), table_a[1, 1].astype(float)
    *there, loss = by_hand(word[0][0], word[1][0], word[0][1], word[1][1], log_x, rate, x_max, alpha)
    *again, more = by_hand(back[0][0], back[1][0], back[0][1], back[1][1], log_x, rate, x_max, alpha)
    pair = np.array([1], np.uint32), np.array([2], np.uint32), np.array([log_x], np.float32)
    fixed = np.float32(rate), np.float32(np.log(x_max)), np.float32(alpha)
    untouched = table_a[[0, 2]].copy()
    assert glove.update(table_a, table_b, False, *pair, *fixed) == pytest.approx(loss + more, rel=1e-5)
    assert_allclose(np.stack([table_a[1, 0, 0], table_b[2, 1, 0], table_a[1, 0, 1], table_b[2, 1, 1]]), there, 1e-5)
    assert_allclose(np.stack([table_b[2, 0, 0], table_a[1, 1, 0], table_b[2, 0, 1], table_a[1, 1, 1]]), again, 1e-5)
    assert_array_equal(table_a[[0, 2]], untouched)


def test_a_word_beside_itself_is_one_entry():
    table = np.random.default_rng(1).uniform(0.2, 1, (2, 2, 2, 4)).astype(np.float32)
    word, context = table[1, 0].astype(float), table[1, 1].astype(float)
    *expected, loss = by_hand(word[0], context[0], word[1], context[1], 1.0, 0.3, 100.0, 0.75)
    pair = np.array([1], np.uint32), np.array([1], np.uint32), np.array([1.0], np.float32)
    fixed = np.float32(0.3), np.float32(np.log(100)), np.float32(0.75)
    assert glove.update(table, table, True, *pair, *fixed) == pytest.approx(loss, rel=1e-5)
    assert_allclose(np.stack([table[1, 0, 0], table[1, 1, 0], table[1, 0, 1], table[1, 1, 1]]), expected, rtol=1e-5)


def test_in_a_round_no_group_occurs_twice_and_all_pairs_are_met():
    seen = []
    for pairs in glove.rounds():
        groups = [group for a, b in pairs for group in {a, b}]
        assert len(groups) == len(set(groups))
        seen += pairs
    assert sorted(seen) == [(a, b) for a in range(glove.GROUPS) for b in range(a, glove.GROUPS)]


def test_glove_finds_words_that_keep_the_same_company(corpus, tmp_path):
    glove.train([corpus], tmp_path / "glove", quiet=True, dim=8, window=4, epochs=40)
    assert keeps_company(baselines.load(tmp_path / "glove"))
    losses = baselines.folder.read(tmp_path / "glove").about["losses"]
    assert losses[-1] < losses[0] / 2


@pytest.mark.parametrize("name", ["glove", "sent2vec"])
def test_training_has_the_same_bits_with_any_number_of_threads(name, corpus, tmp_path, monkeypatch):
    settings = {"dim": 24, "epochs": 2, "min_count": 1}
    settings |= {"buckets": 50, "min_target": 1, "sample": 0.05, "learning_rate": 0.02} if name == "sent2vec" else {}
    for n in (1, 3):
        monkeypatch.setenv("BANYAN_THREADS", str(n))
        baselines.module_of(name).train([corpus], tmp_path / str(n), quiet=True, **settings)
    one, three = (baselines.load(tmp_path / n) for n in "13")
    assert_array_equal(one.table, three.table)
    texts = ["the cat sleeps", "", "nothing known", "a fast car"] * 700
    assert_array_equal(one.encode(texts), np.tile(one.encode(texts[:4]), (700, 1)))


# --- Sent2Vec --------------------------------------------------------------------------------------------------------


def drawn(coded: text.Coded, **more: float) -> tuple[sent2vec.Targets, sent2vec.Drawing]:
    given = {"negatives": 3, "buckets": 40, "dropout": 2, "sample": 1.0, "min_target": 1} | more
    drawing = sent2vec.Drawing.of(coded.vocabulary, **given)
    key = np.uint64(12345)
    return sent2vec.Targets(*sent2vec._draw(coded.tokens, coded.offsets, np.arange(len(coded)), key, *drawing)), drawing


def contexts(targets: sent2vec.Targets) -> list[list[int]]:
    """The rows of each target's context."""
    found = []
    for s in range(len(targets.first) - 1):
        for k in range(targets.first[s], targets.first[s + 1]):
            rows = targets.rows[targets.bounds[s] : targets.bounds[s + 1]].tolist()
            for row in targets.without[targets.ends[k] : targets.ends[k + 1]]:
                rows.remove(row)
            found.append(rows + [row for row in targets.instead[k].tolist() if row >= 0])
    return found


@settings(deadline=None, max_examples=25)
@given(
    st.lists(st.lists(st.integers(0, 9), max_size=8), min_size=1, max_size=5),
    st.integers(0, 3),
    st.sampled_from([0, 7]),
)
def test_context_is_the_sentence_with_a_hole_for_the_word_and_without_some_bigrams(sentences, dropout, buckets):
    hole = 10
    targets, _ = drawn(of_tokens(sentences, hole), dropout=dropout, buckets=buckets)
    found = iter(zip(contexts(targets), targets.outputs, strict=True))
    for sentence in sentences:
        for i, word in enumerate(sentence if len(sentence) > 1 else []):
            context, outputs = next(found)
            assert outputs[0] == word
            assert word not in outputs[1:]
            punched = [*sentence[:i], hole, *sentence[i + 1 :]]
            left = [int(sent2vec.bigram_row(a, b, hole, buckets)) for a, b in pairwise(punched)] if buckets else []
            assert len(context) == len(punched) + max(len(left) - dropout, 0)
            for word in punched:
                context.remove(word if word != hole else hole + buckets)
            for row in context:
                left.remove(row)
    assert next(found, None) is None


def test_frequent_words_are_asked_for_less_and_negatives_follow_the_root_of_counts():
    coded = of_tokens([[0, 1] * 8 + [2], [0] * 7 + [3]] * 4000, 4)
    targets, drawing = drawn(coded, sample=0.01, negatives=5, min_target=4001)
    share = coded.vocabulary.counts / coded.vocabulary.counts.sum()
    expected = np.minimum(np.sqrt(0.01 / share) + 0.01 / share, 1)
    asked = np.bincount(targets.outputs[:, 0], minlength=4) / coded.vocabulary.counts
    assert_allclose(asked[:2], expected[:2], atol=0.02)
    assert asked[2:].tolist() == [0, 0]  # too rare
    of_zero = targets.outputs[targets.outputs[:, 0] == 0][:, 1:]
    roots = np.sqrt(coded.vocabulary.counts[1:])
    assert_allclose(np.bincount(of_zero.ravel())[1:] / of_zero.size, roots / roots.sum(), atol=0.02)
    assert_allclose(np.bincount(drawing.table) / len(drawing.table), np.sqrt(share) / np.sqrt(share).sum(), atol=1e-5)


def loss_by_hand(table: np.ndarray, outputs: np.ndarray, targets: sent2vec.Targets) -> float:
    total = 0.0
    for context, (word, *negatives) in zip(contexts(targets), targets.outputs, strict=True):
        h = table[context].mean(axis=0)
        total += np.log1p(np.exp(-outputs[word] @ h)) + np.log1p(np.exp(outputs[negatives] @ h)).sum()
    return total


def test_step_goes_down_the_gradient_of_the_written_loss():
    coded = of_tokens([[0, 1, 2, 1], [3, 4, 0, 5, 5, 1], [2, 2]], 6)
    targets, _ = drawn(coded, buckets=5)
    rng = np.random.default_rng(0)
    weights = [rng.normal(size=shape).astype(np.float32) for shape in ((12, 4), (6, 4))]
    table, outputs = (array.astype(float) for array in weights)
    model = sent2vec.Model(*(array.copy() for array in weights))
    loss = sent2vec.step(model, targets, 1.0)
    assert loss == pytest.approx(loss_by_hand(table, outputs, targets), rel=1e-5)
    for array, moved in ((table, model.table), (outputs, model.outputs)):
        gradient = np.empty_like(array)
        for place in np.ndindex(*array.shape):
            ways = []
            for nudge in (1e-6, -1e-6):
                array[place] += nudge
                ways.append(loss_by_hand(table, outputs, targets))
                array[place] -= nudge
            gradient[place] = (ways[0] - ways[1]) / 2e-6
        assert_allclose(array - moved, gradient, atol=1e-5)
        assert np.abs(gradient).max() > 0.1


def test_sent2vec_finds_words_that_keep_the_same_company(corpus, tmp_path):
    given = {"dim": 16, "epochs": 20, "buckets": 100, "sample": 0.05, "min_target": 1, "dropout": 1, "negatives": 5}
    sent2vec.train([corpus], tmp_path / "sent2vec", quiet=True, **given)
    assert keeps_company(baselines.load(tmp_path / "sent2vec"))
    losses = baselines.folder.read(tmp_path / "sent2vec").about["losses"]
    assert losses[-1] < losses[0]


def test_a_sentence_is_the_mean_of_its_words_and_bigrams():
    rng = np.random.default_rng(0)
    table = rng.normal(size=(8, 4)).astype(np.float32)
    model = sent2vec.Sent2Vec.of_table(text.Vocabulary(["a", "b", "c"], np.ones(3, np.int64)), table)
    row = lambda one, two: int(sent2vec.bigram_row(one, two, 3, 5))  # noqa: E731
    expected = model.table[[0, 1, 0, row(0, 1), row(1, 0)]].mean(axis=0)
    assert_allclose(model.encode(["A b, unknown a!", "c", ""]), [expected, model.table[2], np.zeros(4)], rtol=1e-5)


def test_few_words_or_long_steps_are_learnt_from_in_small_batches():
    rng = np.random.default_rng(0)
    many, few = (of_tokens(rng.integers(0, size, (300, 20)).tolist(), size) for size in (2000, 4))
    sizes = []
    for coded, rate in ((many, 0.01), (many, 0.2), (few, 0.2), (few, 100.0)):
        sizes.append(sent2vec.Drawing.of(coded.vocabulary, 5, 0, 0, 1e-3, 1).batch(coded, rate))
    assert sent2vec.BATCH == sizes[0] > sizes[1] > sizes[2] > sizes[3] == 1


@pytest.mark.parametrize("name", ["glove", "sent2vec"])
def test_steps_that_are_too_long_are_told(name, corpus, tmp_path):
    more = {"min_target": 1, "buckets": 9} if name == "sent2vec" else {}
    with pytest.raises(BanyanError, match="loss is no longer finite"):
        baselines.module_of(name).train([corpus], tmp_path / "out", quiet=True, dim=4, learning_rate=1e20, **more)
    assert not list(tmp_path.iterdir())


# --- Texts of words --------------------------------------------------------------------------------------------------


def a_model(weighting: str) -> vectors.WordVectors:
    coded = text.coded(["the cat sat on the mat", "the dog sat", "a mat the cat"] * 3, 1, True)
    table = np.random.default_rng(0).normal(size=(len(coded.vocabulary), 5)).astype(np.float32)
    return vectors.WordVectors.of(table, coded, weighting)


def rows_of(model: vectors.WordVectors, *words: str) -> np.ndarray:
    return model.table[[model.vocabulary.words.index(word) for word in words]].astype(float)


def test_a_text_is_the_mean_of_its_known_words():
    model = a_model("mean")
    found = model.encode(["The cat; cat!", "", "unheard of", "mat"])
    expected = rows_of(model, "the", "cat", "cat").mean(axis=0), np.zeros(5), np.zeros(5), rows_of(model, "mat")[0]
    assert found.dtype == np.float32
    assert_allclose(found, expected, rtol=1e-5)


def test_stop_words_are_left_out_unless_there_is_nothing_else():
    model = a_model("content")
    found = model.encode(["the cat on the mat", "on the"])
    assert_allclose(found[0], rows_of(model, "cat", "mat").mean(axis=0), rtol=1e-5)
    assert_allclose(found[1], rows_of(model, "on", "the").mean(axis=0), rtol=1e-5)


def test_sif_weighs_by_rarity_and_takes_the_common_component_away():
    model = a_model("sif")
    share = model.vocabulary.counts / model.vocabulary.counts.sum()
    assert_allclose(model.weights, 1e-3 / (1e-3 + share), rtol=1e-6)
    sentences = ["the cat sat on the mat", "the dog sat", "a mat the cat"]
    weights = dict(zip(model.vocabulary.words, model.weights.astype(float), strict=True))
    raw = []
    for sentence in sentences:
        w = np.array([weights[word] for word in sentence.split()])
        raw.append(w @ rows_of(model, *sentence.split()) / w.sum())
    common = np.linalg.svd(np.array(raw))[2][0]
    assert abs(common @ model.common) == pytest.approx(1, abs=1e-5)
    assert_allclose(model.encode(sentences), raw - np.outer(raw @ common, common), atol=1e-6)


def test_a_weighting_that_does_not_exist_is_told_before_the_work(corpus, tmp_path):
    with pytest.raises(BanyanError, match="no weighting 'best': choose one of mean, content, sif"):
        glove.train([corpus], tmp_path / "out", quiet=True, weighting="best", epochs=10**9)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("weighting", vectors.WEIGHTINGS)
def test_word_vectors_load_as_they_were_saved(weighting, tmp_path):
    model = a_model(weighting)
    model.save(tmp_path)
    texts = ["the cat", "", "dog on mat"]
    assert_array_equal(vectors.WordVectors.load(tmp_path).encode(texts), model.encode(texts))


# --- fastText --------------------------------------------------------------------------------------------------------


def test_fasttext_by_gensim_knows_words_it_has_not_seen(corpus, tmp_path):
    pytest.importorskip("gensim")
    given = {"dim": 16, "epochs": 10, "window": 3, "buckets": 2000, "weighting": "mean"}
    fasttext.train([corpus], tmp_path / "fasttext", quiet=True, **given)
    model = baselines.load(tmp_path / "fasttext")
    (unknown,) = model.encode(["Sleepy!"])
    assert "sleepy" not in model.vocabulary.words
    assert_allclose(unknown, model.ngrams[fasttext.buckets_of("sleepy", 2000)].mean(axis=0), rtol=1e-4)


@pytest.mark.parametrize("word", ["cat", "été", "की", "a", "straße"])
def test_ngrams_are_hashed_as_fasttext_does(word):
    inner = pytest.importorskip("gensim.models.fasttext_inner")
    ngrams = inner.compute_ngrams_bytes(word, fasttext.SHORTEST, fasttext.LONGEST)
    assert sorted(fasttext.buckets_of(word, 1000)) == sorted(inner.ft_hash_bytes(ngram) % 1000 for ngram in ngrams)


@pytest.mark.parametrize("header", ["", "4 2\n"])
def test_published_vectors_are_read_and_weighed_by_the_corpus(header, tmp_path, corpus):
    path = tmp_path / "some.vec"
    path.write_text(f"{header}the 1 0\ncat 0 1\nNew York 5 5\nzebra 3 4 \n", encoding="utf-8")
    fasttext.train([corpus], tmp_path / "out", quiet=True, vectors=str(path), weighting="sif")
    model = baselines.load(tmp_path / "out")
    assert model.vocabulary.words == ["the", "cat", "zebra"]
    assert model.vocabulary.counts[2] == 0
    assert model.weights[2] == 1 > model.weights[1] > model.weights[0]
    assert model.encode(["dog"]).tolist() == [[0, 0]]  # a .vec has no n-grams


@pytest.mark.parametrize("line", ["cat 1", "cat 1 x", "cat 1 nan", "", "1 2"])
def test_a_damaged_line_of_vectors_is_named(line, tmp_path):
    path = tmp_path / "bad.vec"
    path.write_text(f"the 1 0\n{line}\n", encoding="utf-8")
    with pytest.raises(BanyanError, match="line 2: expected a word and 2 numbers"):
        fasttext.read_vec(path, 100)


def test_only_the_first_words_are_read(tmp_path):
    path = tmp_path / "some.vec"
    path.write_text("5 1\n" + "".join(f"w{i} {i}\n" for i in range(5)), encoding="utf-8")
    words, table = fasttext.read_vec(path, 3)
    assert words == ["w0", "w1", "w2"]
    assert table.tolist() == [[0], [1], [2]]
