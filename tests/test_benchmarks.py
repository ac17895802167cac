"""Benchmarks check what they time. Their checks must know every preset."""

from __future__ import annotations

import pytest

from banyan.config import Config
from banyan.tokenizer import Tokenizer
from benchmarks import encode
from benchmarks.common import sentences


@pytest.mark.parametrize("preset", ["paper", "default"])
def test_what_is_timed_when_encoding_is_what_the_reference_computes(preset, tmp_path, monkeypatch):
    monkeypatch.setattr(encode, "random_unicode", lambda n, made=encode.random_unicode: made(n // 10))
    config, (text, _) = Config.from_preset(preset), sentences(2000, tmp_path)  # made up, of words of several pieces
    case = {"lowercase": config.lowercase, "zero_digits": config.zero_digits}
    tokenizer = Tokenizer.train(text, kind=config.subword_model, vocab_size=600, **case)
    model = encode.untrained(tokenizer, preset)
    encode.check(model, text)
    model.embedding[:] = model.embedding[::-1].copy()  # not what the kernels were made with
    with pytest.raises(AssertionError):
        encode.check(model, text)
