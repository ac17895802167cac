"""A sentence-transformers model as a teacher: a tiny one of random weights."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
import torch

from banyan.errors import BanyanError
from banyan.support.display import Display
from banyan.support.needs import pip_install
from banyan.teachers import about, make_vectors, open_teacher

TEXTS = ["the cat sees the dog", "queen", "the old king remembers the child", "a bird"]
WORDS = sorted({word for text in TEXTS for word in text.split()})


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    st = pytest.importorskip("sentence_transformers", reason="sentence-transformers is not installed")
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

    inner, path = tmp_path_factory.mktemp("inner"), tmp_path_factory.mktemp("tiny") / "model"
    vocabulary = {word: number for number, word in enumerate(["[PAD]", "[UNK]", "text", *WORDS])}
    words = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    PreTrainedTokenizerFast(tokenizer_object=words, pad_token="[PAD]", unk_token="[UNK]").save_pretrained(inner)
    torch.manual_seed(0)
    config = BertConfig(vocab_size=len(vocabulary), hidden_size=8, num_hidden_layers=1, num_attention_heads=2,
                        intermediate_size=16, max_position_embeddings=16)  # fmt: skip
    BertModel(config).save_pretrained(inner)
    transformer = Transformer(str(inner))
    st.SentenceTransformer(modules=[transformer, Pooling(8, "mean")], device="cpu").save(str(path))
    (path / "README.md").write_text("---\nlicense: apache-2.0\n---\n# A model\n")
    return path


@pytest.fixture(autouse=True)
def _alone(monkeypatch):
    with suppress(ImportError):
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setenv("BANYAN_THREADS", "1")


def test_a_folder_of_sentence_transformers_teaches(folder, tmp_path):
    from sentence_transformers import SentenceTransformer

    teacher = open_teacher(str(folder), "cpu")
    assert about(teacher) == {"name": folder.name, "kind": "folder", "licence": "apache-2.0", "width": 8}
    expected = SentenceTransformer(str(folder), device="cpu").encode(TEXTS)
    found = teacher.encode(TEXTS)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, atol=1e-6)
    made = make_vectors(tmp_path, [TEXTS[0], "", *TEXTS[1:]], teacher, Display(quiet=True), "lines")
    np.testing.assert_allclose(made[[0, 2, 3, 4]], expected, atol=2e-3)
    assert not made[1].any()


@pytest.mark.parametrize(
    ("card", "licence"),
    [
        (None, None),
        ("# No metadata\n", None),
        ("---\nlanguage: en\n---\n", None),
        ("---\nlicense: 'mit' # yes\n---\n", "mit"),
        ("---\nlicense: [mit, cc-by-4.0]\n---\n", "mit, cc-by-4.0"),
        ("---\nlicense: other\nlicense_name: gemma\n---\n", "gemma"),
        ("---\nlicense: other\n---\n", "other"),
        ("---\nlicense: : [\n---\n", None),
    ],
)
def test_the_licence_is_that_of_the_card(card, licence, tmp_path):
    pytest.importorskip("huggingface_hub", reason="huggingface_hub is not installed")
    from banyan.teachers.local import licence as licence_of

    if card is not None:
        (tmp_path / "README.md").write_text(card)
    assert licence_of(str(tmp_path)) == licence


@pytest.mark.parametrize("name", ["owner/model", "model"])
def test_the_licence_of_a_model_of_the_hub_is_that_of_its_card(name, tmp_path, monkeypatch):
    hub = pytest.importorskip("huggingface_hub", reason="huggingface_hub is not installed")
    from banyan.teachers.local import licence

    cards = {"owner/model": "mit", "sentence-transformers/model": "apache-2.0"}

    def download(repository: str, file: str) -> str:
        (tmp_path / file).write_text(f"---\nlicense: {cards[repository]}\n---\n")
        return str(tmp_path / file)

    monkeypatch.setattr(hub, "hf_hub_download", download)
    assert licence(name) == ("mit" if "/" in name else "apache-2.0")


def test_teachers_are_imported_without_torch():
    program = "import sys, banyan.teachers; print({'torch', 'transformers', 'rich', 'pyarrow'} & {*sys.modules})"
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True, timeout=120)
    assert done.stdout == "set()\n"


def test_a_teacher_that_runs_out_of_memory_gets_smaller_batches(folder, monkeypatch):
    teacher = open_teacher(str(folder), "cpu")
    encode, sizes = teacher._model.encode, []

    def small_ones(texts, batch_size, **how):
        sizes.append(batch_size)
        if batch_size > 1:
            raise torch.OutOfMemoryError("out of memory")
        return encode(texts, batch_size=batch_size, **how)

    monkeypatch.setattr(teacher._model, "encode", small_ones)
    assert teacher.encode(TEXTS).shape == (4, 8)
    assert sizes == [32, 2, 1]
    monkeypatch.setattr(teacher._model, "encode", lambda *_, **__: 1 / 0)
    with pytest.raises(BanyanError, match=r"^the teacher .*model failed: division by zero$"):
        teacher.encode(TEXTS)


def test_what_is_no_model_is_said_in_a_sentence(folder, tmp_path):
    with pytest.raises(BanyanError, match=r"^the folder .* holds no sentence-transformers model: it has no"):
        open_teacher(str(tmp_path), "cpu")
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "nothing"}))
    with pytest.raises(BanyanError, match=r"^cannot load the teacher .*: "):
        open_teacher(str(tmp_path), "cpu")
    with pytest.raises(BanyanError, match=r"^cannot load the teacher owner/none: there is no such folder, and"):
        open_teacher("owner/none", "cpu")


@pytest.mark.parametrize("source", ["", "./none", "a/b/c", "some words", "/no/such/folder", "C:\\models"])
def test_what_can_be_no_teacher_is_said_in_a_sentence(source):
    with pytest.raises(BanyanError, match=r"^there is no teacher .*: name a sentence-transformers folder or"):
        open_teacher(source)


def test_a_file_is_no_teacher(tmp_path):
    (tmp_path / "corpus.txt").write_text("text")
    with pytest.raises(BanyanError, match=r"corpus.txt is a file, and a teacher is a sentence-transformers folder"):
        open_teacher(str(tmp_path / "corpus.txt"))


def test_sentence_transformers_missing_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with pytest.raises(BanyanError, match=re.escape(f"needs sentence-transformers: {pip_install('teacher')}")):
        open_teacher("owner/model")
