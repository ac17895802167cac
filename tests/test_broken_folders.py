"""Model folders that are damaged, or made to do damage: each is refused in one sentence, before it costs memory."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from banyan import Banyan, BanyanError
from banyan.support.checksums import SUMS
from tests.helpers.broken import assert_refused, broken
from tests.helpers.models import tiny_model


def settings(**values: Any) -> Callable[[Path], None]:
    """Change values of config.json."""

    def change(folder: Path) -> None:
        path = folder / "config.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | values))

    return change


def tokenizer(change: Callable[[dict[str, Any]], Any]) -> Callable[[Path], None]:
    """Change tokenizer.json."""

    def write(folder: Path) -> None:
        path = folder / "tokenizer.json"
        state = json.loads(path.read_text())
        change(state)
        path.write_text(json.dumps(state))

    return write


def weights(name: str, dtype: str | None = None, first: bytes = b"") -> Callable[[Path], None]:
    """Change the type of a tensor in the header of model.safetensors, or its first bytes."""

    def write(folder: Path) -> None:
        path = folder / "model.safetensors"
        data = path.read_bytes()
        size = int.from_bytes(data[:8], "little")
        head, body = json.loads(data[8 : 8 + size]), bytearray(data[8 + size :])
        at = head[name]["data_offsets"][0]
        body[at : at + len(first)] = first
        head[name]["dtype"] = dtype or head[name]["dtype"]
        text = json.dumps(head).encode()
        path.write_bytes(len(text).to_bytes(8, "little") + text + body)

    return write


def metadata(text: str) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        from safetensors.numpy import load_file, save_file

        path = folder / "model.safetensors"
        save_file(load_file(path), path, metadata={"banyan": text})

    return write


def number(value: float) -> bytes:
    return struct.pack("<f", value)


def file(name: str, content: str) -> Callable[[Path], None]:
    return lambda folder: (folder / name).write_text(content) and None


def grown(state: dict[str, Any]) -> None:
    step = {"type": "Replace", "pattern": {"String": "a"}, "content": "a" * 3000}
    state["normalizer"] = {"type": "Sequence", "normalizers": [step] * 3}


NESTED = "[" * 200_000
REFUSED = {
    "config nested": (file("config.json", NESTED), "config.json"),
    "config is a list": (file("config.json", "[]"), "not the configuration"),
    "lexical_weight 1e300": (settings(lexical_weight=1e300), "lexical_weight must be"),
    "taught_weight 1e39": (settings(taught_weight=1e39), "taught_weight must be"),
    "lexical_dim of two billion": (settings(lexical_dim=2**31, lexical_ngrams="words"), "lexical_dim must be"),
    "preset is a list": (settings(preset=[]), "preset must be"),
    "teacher nested": (file("taught_by.json", NESTED), "taught_by.json"),
    "teacher is a list": (file("taught_by.json", '[["a", 1]]'), "taught_by.json"),
    "tokenizer nested": (file("tokenizer.json", NESTED), "not a tokenizer.json"),
    "tokenizer has no model": (file("tokenizer.json", "{}"), "not a tokenizer.json"),
    "id of 300 million": (tokenizer(lambda t: t["model"]["vocab"].update(x=300_000_000)), "300,000,000"),
    "added id of 300 million": (
        tokenizer(lambda t: t["added_tokens"].append({"id": 300_000_000, "content": "x"})),
        "300,000,000",
    ),
    "piece of five million characters": (
        tokenizer(lambda t: t["model"]["vocab"].update({"x" * 5_000_000: 400})),
        "5,000,000 characters",
    ),
    "added token of five million characters": (
        tokenizer(lambda t: t["added_tokens"].append({"id": 400, "content": "x" * 5_000_000})),
        "5,000,000 characters",
    ),
    "type of the tokenizer is a list": (tokenizer(lambda t: t["model"].update(type=[])), "tokenizer"),
    "dropout": (tokenizer(lambda t: t["model"].update(dropout=0.1)), "dropout"),
    "normalizer that explodes": (tokenizer(grown), "normalizer makes more"),
    "metadata empty": (metadata(""), "metadata"),
    "metadata a list": (metadata("[]"), "metadata"),
    "metadata nested": (metadata(NESTED), "metadata"),
    "embedding in BF16": (weights("embedding", "BF16"), "cannot read"),
    "embedding in F8": (weights("embedding", "F8_E4M3"), "cannot read"),
    "embedding NaN": (weights("embedding", first=number(np.nan)), "embedding holds a number that is not finite"),
    "embedding infinite": (weights("embedding", first=number(-np.inf)), "embedding holds a number that is not finite"),
    "gate NaN": (weights("comp_l", first=number(np.nan)), "comp_l holds a number that is not finite"),
    "bias that overflows": (weights("comp_b", first=number(3e38)), "comp_b holds 3e+38"),
}


@pytest.mark.parametrize(("break_it", "told"), REFUSED.values(), ids=REFUSED)
def test_a_broken_folder_is_refused_in_one_sentence(model_folder, tmp_path, break_it, told):
    assert_refused(Banyan.from_pretrained, broken(model_folder, tmp_path / "model", break_it), told)


def test_a_tokenizer_that_fails_on_a_text_says_so_in_one_sentence(tmp_path):
    folder = tmp_path / "model"
    tiny_model().save_pretrained(folder)
    (folder / SUMS).unlink()

    def without_bytes(state: dict[str, Any]) -> None:
        state["model"] |= {"byte_fallback": False, "unk_token": "gone"}

    tokenizer(without_bytes)(folder)
    model = Banyan.from_pretrained(folder)
    for use in (model.encode, model.parse):
        with pytest.raises(BanyanError, match=r"^the tokenizer cannot split a text \(.*\)$"):
            use("東京")


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e30])
def test_weights_that_could_not_be_loaded_are_not_saved(tmp_path, value):
    model = tiny_model()
    model.weights["embedding"][3, 5] = value
    with pytest.raises(BanyanError, match="cannot be saved: embedding holds"):
        model.save_pretrained(tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_an_embedding_of_another_type_is_served_as_float32(tmp_path):
    """Whole numbers are a type like any other; the kernels are compiled for float32."""
    from safetensors.numpy import load_file, save_file

    model = tiny_model()
    model.save_pretrained(tmp_path)
    path = tmp_path / "model.safetensors"
    found = load_file(path)
    save_file(found | {"embedding": (found["embedding"] * 9).astype(np.int8)}, path)
    loaded = Banyan.from_pretrained(tmp_path)
    assert loaded.embedding.dtype == np.float32
    assert np.isfinite(loaded.encode("the cat sat")).all()


def test_matrices_that_grow_vectors_without_bound_say_so():
    model = tiny_model()
    config = replace(model.config, functions="linear", structure="right-branching")
    gates = {name: np.full((2, 2), 1e6, np.float32) for name in ("comp_l", "comp_r", "decomp_l", "decomp_r")}
    broken = Banyan(config, model.tokenizer, model.weights | gates)
    with pytest.raises(BanyanError, match=r"'the cat sat .* on th'... overflows: leave it out"):
        broken.encode(["a", "the cat sat on the mat " * 9])
