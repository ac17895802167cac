"""Classification of frozen embeddings: the files, the protocols, and the figures."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.metrics import accuracy_score, f1_score

from banyan.errors import BanyanError
from banyan.evaluate import classification as module
from banyan.evaluate.classification import Labelled, classification, features, read_labelled

E = 8


def encode(texts) -> np.ndarray:
    """A text is the seed of its vector: frozen, and without meaning."""
    return np.stack([np.random.default_rng(int(text)).normal(size=E) for text in texts]).astype(np.float32)


def texts(start: int, n: int) -> list[str]:
    return [str(i) for i in range(start, start + n)]


def separable(start: int, n: int) -> Labelled:
    first = texts(start, n)
    return Labelled(first, None, (encode(first) @ np.linspace(-1, 1, E) > 0).astype(np.int64))


def at_random(start: int, n: int) -> Labelled:
    return Labelled(texts(start, n), None, np.random.default_rng(start).integers(0, 2, n))


def pairs(start: int, n: int) -> Labelled:
    """Alike or not, by a noisy eye: learnable, but not without mistakes."""
    first, second = texts(start, n), texts(start + n, n)
    noise = np.random.default_rng(start).normal(size=n)
    alike = np.einsum("ij,ij->i", encode(first), encode(second)) + noise > 0
    return Labelled(first, second, alike.astype(np.int64))


def permuted(labelled: Labelled) -> Labelled:
    return labelled._replace(label=np.random.default_rng(7).permutation(labelled.label))


def test_learns_what_can_be_separated():
    (accuracy,) = classification(encode, separable(0, 600), separable(1000, 300), "toy")
    assert (accuracy.task, accuracy.metric, accuracy.n) == ("toy", "accuracy", 300)
    assert accuracy.value > 93


def test_is_at_chance_on_random_labels():
    (accuracy,) = classification(encode, at_random(0, 600), at_random(1000, 600), "toy")
    assert 43 < accuracy.value < 57


def test_learns_three_classes():
    def three(start: int, n: int) -> Labelled:
        return Labelled(texts(start, n), None, encode(texts(start, n))[:, :3].argmax(1))

    (accuracy,) = classification(encode, three(0, 600), three(1000, 300), "toy")
    assert accuracy.value > 85


def test_test_labels_change_nothing_but_the_score():
    train, test = pairs(0, 400), pairs(1000, 200)
    before, after = (classification(encode, train, labelled, "toy")[1] for labelled in (test, permuted(test)))
    assert (before.items[:, 1:] == after.items[:, 1:]).all()
    assert before.value != after.value


def test_a_test_text_is_classified_alike_in_any_test_set():
    train, test = pairs(0, 400), pairs(1000, 200)
    few = Labelled(test.first[:50], test.second[:50], test.label[:50])
    everything, alone = (classification(encode, train, labelled, "toy")[1] for labelled in (test, few))
    assert (everything.items[:50] == alone.items).all()


def test_the_authors_protocol_chooses_on_the_test_set_and_only_when_named():
    train, test = at_random(0, 400), at_random(1000, 100)
    honest = classification(encode, train, test, "toy", seeds=range(5))[0]
    flattered = classification(encode, train, test, "toy", seeds=range(5), protocol="authors_best_on_test")[0]
    assert flattered.value > honest.value + 1  # there is nothing to learn: all of it is choice
    with pytest.raises(BanyanError, match="protocol must be one of held_out, authors_best_on_test, not 'best'"):
        classification(encode, train, test, "toy", protocol="best")


def test_the_best_epoch_is_kept_not_the_last(monkeypatch):
    train, test = at_random(0, 400), at_random(1000, 100)
    monkeypatch.setattr(module, "PATIENCE", 100)
    reached = []
    for epochs in range(1, 16):
        monkeypatch.setattr(module, "EPOCHS", epochs)
        reached.append(classification(encode, train, test, "toy", protocol="authors_best_on_test")[0].value)
    assert reached == sorted(reached)
    assert reached[0] < reached[-1]


def test_the_same_seed_gives_the_same_and_others_other_predictions():
    train, test = pairs(0, 400), pairs(1000, 200)
    state = torch.random.get_rng_state()
    first, again, other = (classification(encode, train, test, "toy", seeds=(seed,))[1].items for seed in (0, 0, 1))
    assert (first == again).all()
    assert (first != other).any()
    assert (torch.random.get_rng_state() == state).all()


def test_several_seeds_give_their_mean_item_by_item():
    train, test = pairs(0, 400), pairs(1000, 200)
    accuracy, f1 = classification(encode, train, test, "toy", seeds=(0, 1, 2))
    alone = [classification(encode, train, test, "toy", seeds=(seed,)) for seed in (0, 1, 2)]
    assert accuracy.items == pytest.approx(np.mean([one[0].items for one in alone], axis=0))
    assert accuracy.value == pytest.approx(np.mean([one[0].value for one in alone]))
    assert f1.value == pytest.approx(np.mean([one[1].value for one in alone]))


def test_accuracy_and_f1_equal_scikit_learns():
    accuracy, f1 = classification(encode, pairs(0, 400), pairs(1000, 200), "toy")
    truth, predicted = f1.items.T
    assert 50 < accuracy.value < 99  # with mistakes of both kinds
    assert {tuple(item) for item in f1.items} == {(0, 0), (0, 1), (1, 0), (1, 1)}
    assert accuracy.value == pytest.approx(100 * accuracy_score(truth, predicted))
    assert f1.value == pytest.approx(100 * f1_score(truth, predicted))
    assert f1.interval().low < f1.value < f1.interval().high


def test_f1_is_zero_when_class_1_is_nowhere():
    assert module.f1(np.zeros((5, 2), np.int64)) == 0


def test_f1_is_for_pairs_of_two_classes_only():
    single = classification(encode, separable(0, 100), separable(1000, 50), "toy")
    assert [outcome.metric for outcome in single] == ["accuracy"]
    train, test = (pairs(start, 90)._replace(label=np.arange(90) % 3) for start in (0, 1000))
    assert [outcome.metric for outcome in classification(encode, train, test, "toy")] == ["accuracy"]


def test_pairs_are_seen_as_both_their_difference_and_their_product():
    pair = Labelled(["1"], ["2"], np.array([0]))
    u, v = encode(["1", "2"])
    assert (features(encode, pair) == np.concatenate([u, v, abs(u - v), u * v])).all()
    assert (features(encode, pair._replace(second=None)) == u).all()


def test_every_class_keeps_its_share_in_the_held_out_part():
    label = np.repeat([0, 1, 2], [600, 300, 2])
    held_out = module._held_out(label)
    assert np.bincount(label[held_out]).tolist() == [60, 30, 1]
    assert (held_out == module._held_out(label)).all()


def test_nothing_is_printed(capfd):
    classification(encode, separable(0, 100), separable(1000, 50), "toy")
    assert capfd.readouterr() == ("", "")


def test_sets_that_do_not_fit_together_are_refused():
    train, test = separable(0, 50), separable(1000, 50)
    with pytest.raises(BanyanError, match="toy: of the training set and the test set, one holds pairs"):
        classification(encode, train, pairs(1000, 50), "toy")
    with pytest.raises(BanyanError, match="toy: the test set has the label 5"):
        classification(encode, train, test._replace(label=test.label * 5), "toy")
    with pytest.raises(BanyanError, match="toy: the training set needs at least two classes"):
        classification(encode, train._replace(label=train.label * 0), test, "toy")
    with pytest.raises(BanyanError, match="at least one seed"):
        classification(encode, train, test, "toy", seeds=())
    with pytest.raises(BanyanError, match="not finite"):
        classification(lambda texts: encode(texts) * np.nan, train, test, "toy")


def test_reads_single_texts_with_quotes_as_they_stand(tmp_path):
    path = tmp_path / "sst.tsv"
    path.write_text('sentence\tlabel\na "good one \t1\n\nbad, "bad"\t0\n', encoding="utf-8")
    first, second, label = read_labelled(path)
    assert first == ['a "good one ', 'bad, "bad"']
    assert second is None
    assert label.tolist() == [1, 0]
    assert label.dtype == np.int64


def test_reads_pairs_of_a_csv_with_and_without_a_header(tmp_path):
    path = tmp_path / "mrpc.csv"
    for header in ("", "sent1,sent2,score\n", "\ufeffsent1,sent2,score\n"):
        path.write_text(header + '"one, ""two""",three,1\r\nfour,five,0', encoding="utf-8")
        first, second, label = read_labelled(path)
        assert (first, second, label.tolist()) == (['one, "two"', "four"], ["three", "five"], [1, 0])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a,b,1\na,b,good\n", "line 2: a label must be a whole number from 0, not 'good'"),
        ("a,b,score\na,b,-1\n", "line 2: a label must be a whole number from 0, not '-1'"),
        ("a,b,0.5\n", "line 1: a label must be a whole number from 0, not '0.5'"),
        ("a,b,1\n\na,b,c,1\n", "line 3: expected one or two texts and a label, but found 4 columns"),
        ("alone\n", "line 1: expected one or two texts and a label, but found 1 columns"),
        ("a,b,1\na,1\n", "line 2: expected 3 columns, as in the lines above, but found 2"),
        ('a,b,1\n"a,b,1\na,b,1\n', "line 2: unexpected end of data"),
        ("sent1,sent2,score\n", "holds no labelled texts"),
        ("", "holds no labelled texts"),
    ],
)
def test_an_unreadable_line_is_named(tmp_path, content, message):
    path = tmp_path / "labels.csv"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(BanyanError, match=message) as error:
        read_labelled(path)
    assert str(path) in str(error.value)


def test_a_file_that_is_not_there_or_not_text_is_named(tmp_path):
    with pytest.raises(BanyanError, match=r"cannot read labelled texts from .*absent\.csv"):
        read_labelled(tmp_path / "absent.csv")
    (tmp_path / "bytes.csv").write_bytes(b"\xff\xfe,1\n")
    with pytest.raises(BanyanError, match=r"cannot read labelled texts from .*bytes\.csv"):
        read_labelled(tmp_path / "bytes.csv")


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "n", "ones", "paired"),
    [
        ("sst_train.tsv", 67349, 37569, False),
        ("sst_dev.tsv", 872, 444, False),
        ("mrpc_train.csv", 4076, 2753, True),
        ("mrpc_test.csv", 1725, 1147, True),
    ],
)
def test_reads_all_of_the_authors_files(data_folder, name, n, ones, paired):
    first, second, label = read_labelled(data_folder / "eval" / name)
    assert len(first) == len(label) == n
    assert label.sum() == ones
    assert (second is not None and len(second) == n) == paired


@pytest.mark.data
def test_counted_words_tell_sentiment_better_than_chance(data_folder):
    from sklearn.feature_extraction.text import HashingVectorizer

    words = HashingVectorizer(n_features=512)
    train = read_labelled(data_folder / "eval/sst_train.tsv")
    some = Labelled(train.first[:4000], None, train.label[:4000])
    test = read_labelled(data_folder / "eval/sst_dev.tsv")
    (accuracy,) = classification(lambda texts: words.transform(texts).toarray(), some, test, "sst")
    assert accuracy.interval().low > 55
