"""Banyan as a part of other libraries, each the real one."""

from __future__ import annotations

import asyncio
import json
import pickle
import re
import subprocess
import sys

import numpy as np
import pytest

from banyan import BanyanError
from tests.helpers.corpora import lines
from tests.helpers.models import TEXTS

# --- scikit-learn ----------------------------------------------------------------------------------------------------


@pytest.fixture
def transformer(folder):
    pytest.importorskip("sklearn", reason="scikit-learn is not installed")
    from banyan.integrations.sklearn import BanyanTransformer

    return BanyanTransformer(str(folder))


def test_transformer_gives_the_embeddings_of_any_column_of_texts(transformer, model):
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    expected = model.encode(TEXTS)
    table = pandas.DataFrame({"text": TEXTS, "n": range(len(TEXTS))})
    for X in (TEXTS, tuple(TEXTS), np.array(TEXTS), np.array(TEXTS, object)[:, None], table["text"], table[["text"]]):
        np.testing.assert_array_equal(transformer.fit(X).transform(X), expected)
    np.testing.assert_array_equal(transformer.transform(text for text in TEXTS), expected)


def test_transformer_works_without_fit_and_names_its_columns(transformer, model):
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    transformer.set_output(transform="pandas").set_params(truncate_dim=3, normalize=True)
    found = transformer.transform(pandas.Series(TEXTS, index=range(10, 10 + len(TEXTS))))
    assert list(found.columns) == [f"banyantransformer{i}" for i in range(3)]
    assert list(transformer.get_feature_names_out()) == list(found.columns)
    assert list(found.index) == list(range(10, 10 + len(TEXTS)))
    np.testing.assert_array_equal(found.to_numpy(), model.encode(TEXTS, truncate_dim=3, normalize=True))


def test_transformer_in_a_pipeline_in_a_grid_search(transformer):
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import GridSearchCV
    from sklearn.pipeline import make_pipeline

    texts = lines(120, seed=1)
    labels = ["garden" in text or "river" in text for text in texts]
    pipeline = make_pipeline(transformer, LogisticRegression(C=1e4, max_iter=1000))
    grid = {"banyantransformer__normalize": [False, True], "banyantransformer__truncate_dim": [None, 8]}
    search = GridSearchCV(pipeline, grid, cv=3, n_jobs=2).fit(texts, labels)
    assert len(search.cv_results_["params"]) == 4
    assert search.best_score_ > max(np.mean(labels), 1 - np.mean(labels)) + 0.1
    again = pickle.loads(pickle.dumps(search))
    np.testing.assert_array_equal(again.predict(texts), search.predict(texts))


def test_transformer_is_cloned_with_a_path_and_with_a_model(transformer, model):
    from sklearn.base import clone

    copied = clone(transformer.set_params(normalize=True))
    assert copied.get_params() == transformer.get_params()
    assert not hasattr(copied, "model_")
    in_memory = clone(transformer.set_params(model=model))
    np.testing.assert_array_equal(in_memory.fit(TEXTS).transform(TEXTS), model.encode(TEXTS, normalize=True))


def test_transformer_refuses_what_is_no_text_with_a_sentence(transformer):
    for X, told in (
        ("a single string", "put it in a list"),
        (["a", None], "text 1 is None"),
        (["a", float("nan")], "text 1 is nan"),
        (np.array([["a", "b"]]), "texts must be one column, not 2"),
        (3, "expected a list of texts, not int"),
    ):
        with pytest.raises(BanyanError, match=told):
            transformer.fit(X)


# The checks that text cannot meet, each with its reason. All others of check_estimator pass.
TEXT_CANNOT = {
    "check_n_features_in_after_fitting": "a text has no number of features",
    "check_n_features_in": "a text has no number of features",
    "check_complex_data": "a text may well spell a complex number",
    "check_estimators_nan_inf": "a text may well spell nan (a missing text is refused, see above)",
    "check_estimators_empty_data_messages": "no texts have no embeddings, which is no error",
    "check_estimator_sparse_tag": "there are no sparse texts",
    "check_estimator_sparse_array": "there are no sparse texts",
    "check_estimator_sparse_matrix": "there are no sparse texts",
    "check_fit1d": "texts have one dimension, numbers have two",
    "check_fit2d_predict1d": "texts have one dimension, numbers have two",
}

try:
    from banyan.integrations.sklearn import BanyanTransformer

    class OfNumbers(BanyanTransformer):
        """check_estimator gives tables of numbers: each row of one is written as a text."""

        def fit(self, X, y=None):
            return super().fit(_written(X))

        def transform(self, X):
            return super().transform(_written(X))

        def __sklearn_tags__(self):
            tags = super().__sklearn_tags__()
            tags.input_tags.two_d_array = True  # without, check_estimator checks nothing
            return tags

except BanyanError:
    pass  # scikit-learn is not installed: what needs it is skipped


def _written(X) -> list[str]:
    return [" ".join(map(str, row)) for row in np.asarray(X).tolist()]


def test_check_estimator_passes_but_for_what_text_cannot_meet(transformer, folder):
    from sklearn.utils.estimator_checks import check_estimator

    results = check_estimator(OfNumbers(str(folder)), on_fail=None, on_skip=None)
    names = {status: {r["check_name"] for r in results if r["status"] == status} for status in ("passed", "failed")}
    assert names["failed"] == set(TEXT_CANNOT)
    assert len(names["passed"]) >= 30


# --- LangChain, LlamaIndex, LanceDB -----------------------------------------------------------------------------------


def test_langchain_store_finds_what_is_most_similar(folder, model):
    pytest.importorskip("langchain_core", reason="langchain-core is not installed")
    from langchain_core.vectorstores import InMemoryVectorStore

    from banyan.integrations.langchain import BanyanEmbeddings

    documents = sorted(set(lines(40, seed=2)))
    embeddings = BanyanEmbeddings(str(folder))
    store = InMemoryVectorStore.from_texts(documents, embeddings)
    query = "the cat sees the dog on the hill"
    cosines = model.similarity([query], documents)[0]
    found = store.similarity_search_with_score(query, k=3)
    assert [document.page_content for document, _ in found] == [documents[i] for i in np.argsort(-cosines)[:3]]
    np.testing.assert_allclose([score for _, score in found], np.sort(cosines)[::-1][:3], rtol=1e-5)
    retrieved = store.as_retriever(search_kwargs={"k": 1}).invoke(query)
    assert retrieved[0].page_content == documents[cosines.argmax()]


def test_langchain_vectors_are_plain_floats_of_length_1(folder, model):
    pytest.importorskip("langchain_core", reason="langchain-core is not installed")
    from banyan.integrations.langchain import BanyanEmbeddings

    embeddings = BanyanEmbeddings(folder)
    found = embeddings.embed_documents(TEXTS)
    assert all(type(number) is float for row in found for number in row)
    np.testing.assert_array_equal(np.float32(found), model.encode(TEXTS, normalize=True))
    assert embeddings.embed_query(TEXTS[0]) == found[0] == asyncio.run(embeddings.aembed_query(TEXTS[0]))
    assert embeddings.embed_documents([]) == []
    raw = BanyanEmbeddings(model, normalize=False).embed_documents(TEXTS)
    np.testing.assert_array_equal(np.float32(raw), model.encode(TEXTS))


def test_llama_index_retrieves_what_is_most_similar(folder, model):
    pytest.importorskip("llama_index.core", reason="llama-index-core is not installed")
    from llama_index.core import VectorStoreIndex
    from llama_index.core.schema import TextNode

    from banyan.integrations.llama_index import BanyanEmbedding

    documents = sorted(set(lines(40, seed=3)))
    embedding = BanyanEmbedding(folder)
    index = VectorStoreIndex([TextNode(text=text) for text in documents], embed_model=embedding)
    query = "the queen hears the wolf at the market"
    cosines = model.similarity([query], documents)[0]
    found = index.as_retriever(similarity_top_k=2).retrieve(query)
    assert [node.get_content() for node in found] == [documents[i] for i in np.argsort(-cosines)[:2]]
    assert asyncio.run(embedding.aget_text_embedding(query)) == embedding.get_query_embedding(query)
    again = BanyanEmbedding.from_dict(embedding.to_dict())
    assert again.get_text_embedding_batch(TEXTS) == embedding.get_text_embedding_batch(TEXTS)
    found = np.float32(again.get_text_embedding_batch(TEXTS))
    np.testing.assert_array_equal(found, model.encode(TEXTS, normalize=True))


_REOPEN = """
import json, sys
import lancedb
import banyan.integrations.lancedb

table = lancedb.connect(sys.argv[1]).open_table("texts")
table.add([{"text": "a sailor paints the old tree"}])
print(json.dumps([row["text"] for row in table.search(sys.argv[2]).limit(2).to_list()]))
"""


def test_a_lancedb_table_embeds_by_itself_also_when_another_process_opens_it(folder, model, tmp_path):
    pytest.importorskip("lancedb", reason="lancedb is not installed")
    import lancedb
    from lancedb.embeddings import get_registry
    from lancedb.pydantic import LanceModel, Vector

    import banyan.integrations.lancedb  # noqa: F401

    function = get_registry().get("banyan").create(name=str(folder))

    class Texts(LanceModel):
        text: str = function.SourceField()
        vector: Vector(function.ndims()) = function.VectorField()

    documents = sorted(set(lines(40, seed=4)))
    table = lancedb.connect(tmp_path / "db").create_table("texts", schema=Texts)
    table.add([{"text": text} for text in documents])
    query = "a sailor paints the tree"
    found = [row["text"] for row in table.search(query).limit(2).to_list()]
    assert found == [documents[i] for i in np.argsort(-model.similarity([query], documents)[0])[:2]]
    np.testing.assert_array_equal(table.to_pandas().vector.tolist(), model.encode(documents, normalize=True))
    command = [sys.executable, "-c", _REOPEN, str(tmp_path / "db"), query]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert json.loads(told)[0] == "a sailor paints the old tree"


# --- spaCy ------------------------------------------------------------------------------------------------------------


def test_spacy_documents_and_spans_have_vectors_and_documents_a_tree(folder, model):
    spacy = pytest.importorskip("spacy", reason="spacy is not installed")
    import banyan.integrations.spacy  # noqa: F401

    nlp = spacy.blank("en")
    nlp.add_pipe("banyan", config={"model": str(folder)})
    one, other, none = nlp.pipe(["The cat sees the dog.", "a bird", ""])
    np.testing.assert_array_equal(one.vector, model.encode(one.text))
    np.testing.assert_array_equal(one[1:3].vector, model.encode("cat sees"))
    assert one.similarity(other) == one[:].similarity(other) == model.similarity(one.text, other.text)
    assert one.vector_norm == pytest.approx(np.linalg.norm(one.vector))
    assert (one.has_vector, none.has_vector) == (True, False)
    assert one._.banyan_tree.to_json() == model.parse(one.text).to_json()


def test_a_spacy_pipeline_is_saved_and_loaded(folder, model, tmp_path):
    spacy = pytest.importorskip("spacy", reason="spacy is not installed")
    import banyan.integrations.spacy  # noqa: F401

    nlp = spacy.blank("en")
    nlp.add_pipe("banyan", config={"model": str(folder)})
    nlp.to_disk(tmp_path)
    np.testing.assert_array_equal(spacy.load(tmp_path)("a bird").vector, model.encode("a bird"))


# --- Jupyter ----------------------------------------------------------------------------------------------------------


def test_jupyter_draws_trees_and_explanations(model):
    pytest.importorskip("IPython", reason="IPython is not installed")
    from IPython.core.formatters import DisplayFormatter

    for shown in (model.parse("the cat sees the dog"), model.explain("the cat", "the dog")):
        formats, _ = DisplayFormatter().format(shown)
        assert formats["image/svg+xml"].startswith("<svg")
        assert formats["text/plain"] == repr(shown)


# --- What is not installed --------------------------------------------------------------------------------------------


LIBRARIES = {
    "sklearn": "scikit-learn",
    "langchain": "langchain-core",
    "llama_index": "llama-index-core",
    "lancedb": "lancedb",
    "sentence_transformers": "sentence-transformers",
    "mteb": "mteb",
    "spacy": "spacy",
}
HIDE_AND_IMPORT = """
import importlib, json, sys

class Hidden:
    name = None

    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if name == cls.name:
            raise ModuleNotFoundError(name=name)

sys.meta_path.insert(0, Hidden)
told = {}
for module in sys.argv[1:]:
    Hidden.name = {"langchain": "langchain_core"}.get(module, module)
    try:
        importlib.import_module(f"banyan.integrations.{module}")
    except ValueError as error:
        told[module] = str(error)
print(json.dumps(told))
"""


@pytest.fixture(scope="module")
def told_without() -> dict[str, str]:
    """What importing each integration says where its library is missing: one process for all of them."""
    command = [sys.executable, "-c", HIDE_AND_IMPORT, *LIBRARIES]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


@pytest.mark.parametrize(("module", "library"), LIBRARIES.items())
def test_a_library_that_is_missing_is_named_in_one_sentence(module, library, told_without):
    assert re.fullmatch(rf"Banyan[A-Za-z -]+ needs? {library}: pip install {library}", told_without[module])


def test_importing_the_package_imports_no_library():
    code = "import sys, banyan.integrations; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"sklearn", "torch", "numba", "huggingface_hub", "langchain_core", "lancedb"} & set(loaded)
