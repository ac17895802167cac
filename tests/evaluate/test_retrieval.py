"""Retrieval: BEIR folders are read or refused with a reason, and the figures are trec_eval's."""

from __future__ import annotations

import json
import math
import tarfile
import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from banyan.errors import BanyanError
from banyan.evaluate import retrieval as module
from banyan.evaluate.retrieval import Beir, read_beir, retrieval

CORPUS = [
    {"_id": "d1", "title": "Trees", "text": "a banyan grows"},
    {"_id": "d2", "title": "", "text": "rivers run"},
    {"_id": "d3", "text": "stones rest"},
]
QUERIES = [{"_id": "q1", "text": "which tree?"}, {"_id": "q2", "text": "what runs?"}, {"_id": "q3", "text": "unasked"}]
JUDGEMENTS = [("q1", "d1", 2), ("q1", "d3", 1), ("q2", "d2", 1)]


def write(folder, corpus=CORPUS, queries=QUERIES, judgements=JUDGEMENTS, header="query-id\tcorpus-id\tscore\n"):
    (folder / "qrels").mkdir(parents=True)
    for name, rows in ("corpus", corpus), ("queries", queries):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    lines = "".join(f"{query}\t{document}\t{grade}\n" for query, document, grade in judgements)
    (folder / "qrels/test.tsv").write_text(header + lines, encoding="utf-8")
    return folder


def made(vectors: dict[str, list[float]], judgements, bodies=None) -> tuple[Beir, object]:
    """Queries q..., documents d...; each one's text is its id unless `bodies` says otherwise, its vector as given."""
    documents = [name for name in vectors if name[0] == "d"]
    queries = [name for name in vectors if name[0] == "q"]
    texts = {name: (bodies or {}).get(name, name) for name in vectors}
    of_text = {texts[name]: vector for name, vector in vectors.items()}
    bodies = [texts[name] for name in documents]
    data = Beir(documents, bodies, bodies, queries, [texts[name] for name in queries], judgements, 0)
    return data, lambda chunk: np.array([of_text[text] for text in chunk], np.float32)


def figures(outcomes) -> dict[str, float]:
    return {outcome.metric: outcome.value for outcome in outcomes}


# ---- reading


def test_a_folder_is_read_with_titles_before_texts_and_only_judged_queries(tmp_path):
    data = read_beir(write(tmp_path / "set"))
    assert data.document_ids == ["d1", "d2", "d3"]
    assert data.documents == ["Trees a banyan grows", "rivers run", "stones rest"]
    assert data.bodies[0] == "a banyan grows"
    assert (data.query_ids, data.queries) == (["q1", "q2"], ["which tree?", "what runs?"])
    assert data.judgements == {"q1": {"d1": 2, "d3": 1}, "q2": {"d2": 1}}
    assert data.missing == 0


def test_judgements_need_no_header(tmp_path):
    assert read_beir(write(tmp_path / "a", header="")) == read_beir(write(tmp_path / "b"))


@pytest.mark.parametrize("mode", ["", "gz", "xz"])
@pytest.mark.parametrize("inside", ["set", "."])
def test_a_tar_gives_the_same_as_its_folder(tmp_path, mode, inside):
    folder = write(tmp_path / "set")
    path = tmp_path / f"packed.tar.{mode}".rstrip(".")
    with tarfile.open(path, f"w:{mode}") as tar:
        tar.add(folder, inside)
    assert read_beir(path) == read_beir(folder)


def test_judgements_of_what_does_not_exist_are_counted_and_left_out_but_their_query_counts_as_nothing_found(tmp_path):
    lost = [("q1", "d1", 1), ("q2", "gone", 1), ("nobody", "d1", 1), ("nobody", "gone", 1)]
    data = read_beir(write(tmp_path / "set", judgements=lost))
    assert data.missing == 3
    assert data.judgements == {"q1": {"d1": 1}, "q2": {}}
    outcomes = retrieval(lambda texts: np.ones((len(texts), 2)), data, "t")
    assert outcomes[-1].items.tolist() == [1, 0]


def test_another_split_is_read_when_asked(tmp_path):
    folder = write(tmp_path / "set")
    (folder / "qrels/dev.tsv").write_text("q3\td2\t1\n")
    assert read_beir(folder, "dev").queries == ["unasked"]


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("corpus.jsonl", b'{"_id": "d1", "text": "a"}\n{"_id": \n', r"corpus\.jsonl, line 2: not JSON"),
        ("corpus.jsonl", b'\n{"_id": 7, "text": "a"}\n', r"corpus\.jsonl, line 2: expected .* strings"),
        ("corpus.jsonl", b"[1]\n", r"corpus\.jsonl, line 1: expected an object .* found list"),
        ("corpus.jsonl", b'{"_id": "d1", "text": "a"}\n' * 2, r'corpus\.jsonl, line 2: the id "d1" .* earlier'),
        ("corpus.jsonl", b"", r"corpus\.jsonl is empty"),
        ("queries.jsonl", b'{"_id": "q1"}\n', r"queries\.jsonl, line 1: expected"),
        ("queries.jsonl", b'{"_id": "q1", "text": "\xff"}\n', r"queries\.jsonl, line 1: not UTF-8"),
        ("qrels/test.tsv", b"q\td\ts\nq1\td1\n", r"test\.tsv, line 2: expected .* found 2 columns"),
        ("qrels/test.tsv", b"q1 0 d1 1\n", r"test\.tsv, line 1: expected .* found 1 columns"),
        ("qrels/test.tsv", b"q1\t0\td1\t1\n", r"test\.tsv, line 1: expected .* found 4 columns"),
        ("qrels/test.tsv", b"q1\td1\t1\nq1\td2\thigh\n", r"test\.tsv, line 2: expected .* whole number"),
        ("qrels/test.tsv", b"q1\td9\t1\n", r"test\.tsv has no judgement of an existing query and document"),
    ],
)
def test_a_bad_file_is_named_with_its_line(tmp_path, name, content, sentence):
    folder = write(tmp_path / "set")
    (folder / name).write_bytes(content)
    with pytest.raises(BanyanError, match=sentence):
        read_beir(folder)


def test_what_is_missing_or_damaged_is_named(tmp_path):
    folder = write(tmp_path / "set")
    with pytest.raises(BanyanError, match=r"cannot read .*qrels/train\.tsv"):
        read_beir(folder, "train")
    with pytest.raises(BanyanError, match=r"cannot read .*nowhere"):
        read_beir(tmp_path / "nowhere")
    with pytest.raises(BanyanError, match=r"cannot read .*corpus\.jsonl as a folder") as raised:
        read_beir(folder / "corpus.jsonl")  # neither a folder nor a .tar: tarfile's own message has many lines
    assert "\n" not in str(raised.value)
    with tarfile.open(tmp_path / "set.tar.xz", "w:xz") as tar:
        tar.add(folder, "set")
    with pytest.raises(BanyanError, match=r"set\.tar\.xz has no file set/qrels/train\.tsv"):
        read_beir(tmp_path / "set.tar.xz", "train")
    (tmp_path / "cut.tar.xz").write_bytes((tmp_path / "set.tar.xz").read_bytes()[:-200])
    with pytest.raises(BanyanError, match=r"cannot read .*cut\.tar\.xz"):
        read_beir(tmp_path / "cut.tar.xz")
    with tarfile.open(tmp_path / "other.tar", "w") as tar:
        tar.add(folder / "queries.jsonl", "queries.jsonl")
    with pytest.raises(BanyanError, match=r"other\.tar has 0 files named corpus\.jsonl"):
        read_beir(tmp_path / "other.tar")


# ---- measuring


def test_ndcg_and_recall_by_hand():
    """Ranked d3 (unjudged), d1 (grade 1), d2 (grade 2); d4, grade 1 too, stands last of 12 and is not among the ten."""
    fillers = {f"d{5 + i}": [0.1, 1] for i in range(8)}
    vectors = {"q": [1, 0], "d3": [1, 0], "d1": [1, 0.1], "d2": [1, 0.2], "d4": [-1, 0], **fillers}
    data, encode = made(vectors, {"q": {"d1": 1, "d2": 2, "d4": 1}})
    reached = (1 / math.log2(3) + 2 / 2) / (2 + 1 / math.log2(3) + 1 / 2)
    expected = {"nDCG@1": 0, "nDCG@10": 100 * reached, "R@1": 0, "R@10": 100 * 2 / 3}
    assert figures(retrieval(encode, data, "t")) == pytest.approx(expected)


def test_each_query_is_an_item_so_that_two_models_can_be_paired():
    vectors = {"q1": [1, 0], "q2": [0, 1], "d1": [1, 0], "d2": [0.9, 0.1]}
    data, encode = made(vectors, {"q1": {"d1": 1}, "q2": {"d1": 1}})
    good = retrieval(encode, data, "t")
    assert [(outcome.task, outcome.metric) for outcome in good] == [
        ("t", "nDCG@1"), ("t", "nDCG@10"), ("t", "R@1"), ("t", "R@10"),
    ]  # fmt: skip
    assert good[0].items.tolist() == [1, 0]
    assert good[0].value == 50
    assert good[1].items == pytest.approx([1, 1 / math.log2(3)])
    worse = retrieval(lambda texts: -encode(texts) * [1, 0] + [0, 0.1], data, "t")
    assert good[0].difference(worse[0])[0] == good[0].value - worse[0].value
    assert good[1].interval().low <= good[1].value <= good[1].interval().high


def test_of_equal_documents_the_greatest_id_comes_first():
    vectors = {"q": [1, 2], "d1": [1, 1], "d9": [1, 1], "d10": [1, 1]}
    for relevant, first in ("d9", 100), ("d10", 0), ("d1", 0):
        data, encode = made(vectors, {"q": {relevant: 1}})
        assert figures(retrieval(encode, data, "t"))["R@1"] == first


def test_cosines_do_not_see_lengths_and_a_zero_vector_ranks_as_unrelated():
    vectors = {"q": [1, 0], "d1": [-9, 0], "d2": [0, 0], "d3": [50, 50], "d4": [0.1, 0]}
    for relevant, place in ("d4", 1), ("d3", 2), ("d2", 3), ("d1", 4):
        data, encode = made(vectors, {"q": {relevant: 1}})
        assert figures(retrieval(encode, data, "t"))["nDCG@10"] == pytest.approx(100 / math.log2(place + 1))


def test_a_query_does_not_find_itself_by_id_nor_by_text_unless_that_is_allowed():
    vectors = {"q1": [1, 0], "q2": [1, 0], "d1": [1, 0], "d2": [1, 1]}
    bodies = {"d1": "same", "q1": "same "}
    data, encode = made(vectors, {"q1": {"d2": 1}, "q2": {"d2": 1}}, bodies)
    first = retrieval(encode, data, "t")[0]
    assert first.items.tolist() == [1, 0]  # q2 says something else, and d1 is nearer
    assert retrieval(encode, data, "t", leave_out_same_text=False)[0].items.tolist() == [0, 0]
    own = data._replace(query_ids=["d1"], queries=["q2"], judgements={"d1": {"d2": 1}})
    assert retrieval(encode, own, "t", leave_out_same_text=False)[0].items.tolist() == [1]


def test_a_title_does_not_hide_that_a_document_is_the_query(tmp_path):
    queries = [{"_id": "q1", "text": "a banyan grows"}]
    data = read_beir(write(tmp_path / "set", queries=queries, judgements=[("q1", "d2", 1)]))
    encode = lambda texts: np.array([[1, "banyan" in text, "stones" in text] for text in texts], float)  # noqa: E731
    assert figures(retrieval(encode, data, "t", leave_out_same_text=False))["R@1"] == 0
    assert figures(retrieval(encode, data, "t"))["R@1"] == 100


def test_a_document_of_the_same_text_that_was_judged_is_found():
    data, encode = made({"q": [1, 0], "d1": [1, 0], "d2": [0, 1]}, {"q": {"d1": 1}}, {"q": "same", "d1": "same"})
    assert figures(retrieval(encode, data, "t"))["R@1"] == 100


def test_vectors_that_cannot_be_ranked_are_refused():
    data, _ = made({"q": [1], "d1": [1]}, {"q": {"d1": 1}})
    with pytest.raises(BanyanError, match=r"not finite for: 'q'"):
        retrieval(lambda texts: np.full((len(texts), 2), np.nan), data, "t")
    with pytest.raises(BanyanError, match=r"shape \(2,\) for 1 texts"):
        retrieval(lambda texts: np.ones(2), data, "t")


def random_data(seed: int, queries=7, documents=40) -> tuple[Beir, object]:
    """Few values, so that ties abound; grades from -1 to 3; some queries are documents, by id or by text."""
    rng = np.random.default_rng(seed)
    vectors = {f"q{i}": rng.integers(-1, 2, 3).tolist() for i in range(queries)}
    vectors |= {f"d{i}": rng.integers(-1, 2, 3).tolist() for i in range(documents)}
    judged = {
        f"q{i}": {f"d{j}": int(rng.integers(-1, 4)) for j in rng.integers(0, documents, rng.integers(1, 20))}
        for i in range(queries)
    }
    data, encode = made(vectors, judged)
    data.bodies[3] = "q1"
    data.query_ids[2] = "d5"
    judged["d5"] = judged.pop("q2")
    return data, encode


def run_of(encode, data: Beir) -> dict[str, dict[str, float]]:
    """All cosines at once, what must not be found taken away: the input of trec_eval."""
    unit = lambda v: v / np.maximum(np.linalg.norm(v, axis=1, keepdims=True), 1e-30)  # noqa: E731
    cosines = (unit(encode(data.queries).astype(float)) @ unit(encode(data.documents).astype(float)).T).round(6)
    return {
        query: {
            document: float(cosines[i, j])
            for j, document in enumerate(data.document_ids)
            if document != query and (data.bodies[j] != data.queries[i] or document in data.judgements[query])
        }
        for i, query in enumerate(data.query_ids)
    }


def trec_eval(run: dict[str, float], judged: dict[str, int]) -> dict[str, float]:
    """As its manual says, in the plainest way."""
    ranked = sorted(sorted(run, reverse=True), key=lambda document: -run[document])
    relevant = [document for document in judged if judged[document] > 0]
    result = {}
    for cut in (1, 10):
        gained = sum(
            judged[document] / math.log2(rank + 1)
            for rank, document in enumerate(ranked[:cut], 1)
            if document in relevant
        )
        best = sorted((judged[document] for document in relevant), reverse=True)
        ideal = sum(grade / math.log2(rank + 1) for rank, grade in enumerate(best[:cut], 1))
        result[f"nDCG@{cut}"] = gained / ideal if relevant else 0
        result[f"R@{cut}"] = len(set(ranked[:cut]) & set(relevant)) / len(relevant) if relevant else 0
    return result


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6))
def test_figures_are_those_of_trec_evals_definition_query_by_query(seed):
    data, encode = random_data(seed)
    run = run_of(encode, data)
    expected = [trec_eval(run[query], data.judgements[query]) for query in data.query_ids]
    for outcome in retrieval(encode, data, "t"):
        assert outcome.items == pytest.approx([figures[outcome.metric] for figures in expected], abs=1e-12)


def test_figures_are_those_of_pytrec_eval():
    pytrec_eval = pytest.importorskip("pytrec_eval")
    names = {"nDCG@1": "ndcg_cut_1", "nDCG@10": "ndcg_cut_10", "R@1": "recall_1", "R@10": "recall_10"}
    for seed in range(200):
        data, encode = random_data(seed)
        evaluator = pytrec_eval.RelevanceEvaluator(data.judgements, {"ndcg_cut.1,10", "recall.1,10"})
        theirs = evaluator.evaluate(run_of(encode, data))
        for outcome in retrieval(encode, data, "t"):
            expected = [theirs[query][names[outcome.metric]] for query in data.query_ids]
            assert outcome.items == pytest.approx(expected, abs=1e-9)


def hashed_words(texts, size=2048) -> np.ndarray:
    """The longer words, which say more: cheap, and better than chance."""
    vectors = np.zeros((len(texts), size), np.float32)
    for vector, text in zip(vectors, texts, strict=True):
        for word in text.lower().split():
            vector[zlib.crc32(word.encode()) % size] += len(word) > 3
    return np.sqrt(vectors)


@pytest.mark.parametrize(("documents", "queries"), [(1, 1), (7, 3), (64, 5)])
def test_blocks_give_the_same_as_one_go(monkeypatch, documents, queries):
    """Also between texts that stand several times in the corpus, on both sides of a block's end."""
    rng = np.random.default_rng(0)
    words = ["".join(rng.choice(list("abcde"), 4)) for _ in range(60)]
    texts = [" ".join(rng.choice(words, 6)) for _ in range(60)] * 3
    ids = [f"d{i}" for i in range(180)]
    asked = [f"q{i}" for i in range(20)]
    judged = {query: {f"d{j}": 1 for j in rng.integers(0, 180, 3)} for query in asked}
    questions = [" ".join(rng.choice(words, 6)) for _ in asked]
    data = Beir(ids, texts, texts, asked, questions, judged, 0)
    whole = retrieval(hashed_words, data, "t")
    sizes = []
    monkeypatch.setattr(module, "DOCUMENTS", documents)
    monkeypatch.setattr(module, "QUERIES", queries)
    parts = retrieval(lambda chunk: sizes.append(len(chunk)) or hashed_words(chunk), data, "t")
    assert max(sizes) <= documents
    assert 0 < whole[1].value < 100
    for a, b in zip(whole, parts, strict=True):
        assert a.items.tolist() == b.items.tolist()


@pytest.mark.data
def test_arguana_is_read_and_ranked_far_better_than_chance(data_folder):
    data = read_beir(data_folder / "beir/arguana.tar.xz")
    assert (len(data.documents), len(data.queries), data.missing) == (8674, 1406, 5)
    known = dict(zip(data.documents, hashed_words(data.documents), strict=True))
    known |= dict(zip(data.queries, hashed_words(data.queries), strict=True))
    encode = lambda texts: np.stack([known[text] for text in texts])  # noqa: E731
    apart, together = (figures(retrieval(encode, data, "arguana", leave)) for leave in (True, False))
    assert apart["R@10"] > 20
    assert apart["R@1"] >= together["R@1"]
    assert apart["nDCG@10"] > together["nDCG@10"]
