"""gensim reads the vectors of words."""

from __future__ import annotations

import numpy as np
import pytest

from banyan import BanyanError
from banyan.integrations.word2vec import own_words, word2vec

KeyedVectors = pytest.importorskip("gensim.models", reason="gensim is not installed").KeyedVectors


@pytest.mark.parametrize("name", ["vectors.txt", "vectors.bin"])
def test_gensim_reads_the_words_of_the_vocabulary(name, trained_folder, tmp_path, banyan):
    assert banyan("export", trained_folder, "--format", "word2vec", "-o", tmp_path / name)[0] == 0
    from banyan import Banyan

    model = Banyan.from_pretrained(trained_folder)
    found = KeyedVectors.load_word2vec_format(str(tmp_path / name), binary=name.endswith(".bin"))
    assert found.index_to_key == own_words(model)
    assert len(found) > 20
    np.testing.assert_allclose(found.vectors, model.encode(own_words(model), normalize=True), atol=1e-5)


def test_words_of_a_file_and_what_cannot_be_a_word(model_folder, model, tmp_path, banyan):
    (tmp_path / "words.txt").write_text("zebra\n\nनमस्ते\nzebra\n")
    options = ["--format", "word2vec", "--words", tmp_path / "words.txt", "-o", tmp_path / "vectors.txt"]
    assert banyan("export", model_folder, *options)[0] == 0
    assert KeyedVectors.load_word2vec_format(str(tmp_path / "vectors.txt")).index_to_key == ["zebra", "नमस्ते"]
    with pytest.raises(BanyanError, match="word 2 is 'two words'"):
        word2vec(model, tmp_path / "no.txt", ["one", "two words"])
    assert not (tmp_path / "no.txt").exists()
    code, _, told = banyan("export", model_folder, "--format", "static", "--words", "x", "-o", tmp_path / "static")
    assert (code, told) == (1, "banyan: --words is for --format word2vec: leave it out\n")
