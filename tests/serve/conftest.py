"""An index of the small model, for the routes that search."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from banyan import Banyan
from banyan.search.index import Index, Maker

TEXTS = [
    "The cat sat on the mat.",
    "A dog slept under the green tree.",
    "the cat runs quickly over the house",
    "the dog runs slowly over the mat",
    "a green house and a green tree",
    "<script>alert('cat')</script> & \"quotes\"",
    "the cat \u202egod eht\u202c sat",
    "قطة خضراء على السجادة",
    "हरी बिल्ली चटाई पर बैठी",
    "𝒄𝒂𝒕 🐈 cat",
]


@pytest.fixture(scope="session")
def index_folder(tmp_path_factory: pytest.TempPathFactory, model: Banyan, model_folder: Path) -> Path:
    """An index of 40 rows with the columns year, kind and when."""
    pytest.importorskip("lancedb")
    folder = tmp_path_factory.mktemp("indexed")
    rows = [
        {"text": TEXTS[i % len(TEXTS)] + f" {i}" * (i >= 10), "year": 1900 + i, "kind": ("a", "b'c")[i % 2]}
        for i in range(40)
    ]
    (folder / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    with Index.writing(folder / "index", Maker.of(model, model_folder)) as index:
        index.add(model.encode, [str(folder / "rows.jsonl")], column="text")
    return folder / "index"
