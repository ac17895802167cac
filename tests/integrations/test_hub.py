"""Models pushed to a Hub and fetched from it by name: huggingface_hub as it is, against a stand-in on this machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from banyan import Banyan, BanyanError
from banyan.integrations.hub import hub_card, is_name
from tests.helpers.hub_stand_in import TOKEN, hub
from tests.helpers.models import SAVED, TEXTS

huggingface_hub = pytest.importorskip("huggingface_hub", reason="huggingface-hub is not installed")


def run(code: str, *arguments: str | Path, endpoint: str, home: Path, token: str = TOKEN) -> Any:
    """In a process of its own: huggingface_hub reads where the Hub is once, when it is imported."""
    there = {"HF_ENDPOINT": endpoint, "HF_HOME": str(home), "HF_TOKEN": token, "HF_HUB_DISABLE_XET": "1"}
    environment = {**os.environ, **there, "HF_HUB_OFFLINE": "0"}
    command = [sys.executable, "-W", "error::ResourceWarning", "-c", code, *map(str, arguments)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)


PUSH = """
import sys
from banyan import Banyan
model = Banyan.from_pretrained(sys.argv[1])
print(model.push_to_hub("tests/small", language="en", license="apache-2.0"))
"""
FETCH = """
import sys, json
from banyan import Banyan, BanyanError
model = Banyan.from_pretrained("tests/small")
print(json.dumps(model.encode(json.loads(sys.argv[1])).tolist()))
try:
    Banyan.from_pretrained("tests/none")
except BanyanError as error:
    print(error)
"""


@pytest.fixture(scope="module")
def pushed(folder, tmp_path_factory) -> tuple[Path, str]:
    """Where the Hub keeps what was pushed, and what pushing said."""
    kept = tmp_path_factory.mktemp("hub")
    with hub(kept) as endpoint:
        done = run(PUSH, folder, endpoint=endpoint, home=kept / "home")
    assert done.returncode == 0, done.stderr
    return kept, done.stdout


def test_what_is_pushed_is_a_model_folder_with_its_card(pushed, folder, model):
    kept, told = pushed
    assert "/tests/small/commit/" in told
    np.testing.assert_array_equal(Banyan.from_pretrained(kept / "tests/small").encode(TEXTS), model.encode(TEXTS))
    names = {path.name for path in (kept / "tests/small").iterdir()}
    assert names == {"README.md", *SAVED}
    card = huggingface_hub.ModelCard.load(kept / "tests/small/README.md")
    assert (card.data.language, card.data.license) == ("en", "apache-2.0")
    assert (card.data.library_name, card.data.pipeline_tag) == ("banyan-embed", "sentence-similarity")
    assert 'Banyan.from_pretrained("tests/small")' in card.text
    assert "path/to/this/folder" not in card.text
    trained = (folder / "README.md").read_text()
    before, after = (text.split("## Training text\n")[1] for text in (trained, card.content))
    assert before.startswith("Text: corpus.txt. Language: not stated. Licence: not stated.\n")
    assert after.startswith("Text: corpus.txt. Language: en. Licence: apache-2.0.\n")
    assert before.partition("\n")[2] == after.partition("\n")[2]
    assert "None" not in trained + card.content


@pytest.fixture(scope="module")
def fetched(pushed, tmp_path_factory) -> list[list[str]]:
    """Embeddings by a model that is there and the message about one that is not: from the Hub, and when it is gone."""
    kept, home = pushed[0], tmp_path_factory.mktemp("home")
    with hub(kept) as endpoint:
        done = [run(FETCH, json.dumps(TEXTS), endpoint=endpoint, home=home)]
    done.append(run(FETCH, json.dumps(TEXTS), endpoint=endpoint, home=home))
    for one in done:
        assert one.returncode == 0, one.stderr
    return [one.stdout.splitlines() for one in done]


def test_a_name_is_fetched_once_and_then_needs_no_hub(fetched, model):
    first, without = (embeddings for embeddings, _ in fetched)
    np.testing.assert_array_equal(np.float32(json.loads(first)), model.encode(TEXTS))
    assert without == first


def test_sentence_transformers_opens_what_was_pushed(pushed, model):
    library = pytest.importorskip("sentence_transformers", reason="sentence-transformers is not installed")
    kept, _ = pushed
    opened = library.SentenceTransformer(str(kept / "tests/small"), trust_remote_code=True, device="cpu")
    np.testing.assert_array_equal(opened.encode(TEXTS), model.encode(TEXTS))


def test_what_goes_wrong_is_told_in_a_sentence(pushed, fetched, folder, tmp_path):
    with hub(pushed[0]) as endpoint:
        refused = run(PUSH, folder, endpoint=endpoint, home=tmp_path, token="hf_wrong").stderr.strip().splitlines()[-1]
    assert "BanyanError: cannot push to 'tests/small' on the Hub (" in refused
    assert "hf auth login" in refused
    (_, missing), (_, unreachable) = fetched
    for told in (missing, unreachable):
        assert told.startswith("there is no model folder 'tests/none', and it cannot be downloaded from the Hub (")
    assert missing != unreachable


def test_a_path_is_never_taken_for_a_name(tmp_path):
    assert is_name("user/my-model.v2")
    paths = ["model", "model/", "./model", "../model", "/tmp/model", "a/b/c", "~/model", "a b/c", Path("user/model")]
    for path in paths:
        assert not is_name(path), path
    with pytest.raises(BanyanError, match="there is no model folder"):
        Banyan.from_pretrained(tmp_path / "none")


def test_only_owner_and_name_are_pushed_to(model):
    with pytest.raises(BanyanError, match="'my model' is not a name on the Hub: use owner/model"):
        model.push_to_hub("my model")


def test_a_model_without_a_training_folder_has_a_card_that_says_so(model):
    made = Banyan(model.config, model.tokenizer, model.weights)
    card = huggingface_hub.ModelCard(hub_card(made, "tests/made", ["la", "el"]))
    assert card.data.language == ["la", "el"]
    assert card.text.lstrip().startswith("# tests/made")
    assert "Unknown" in card.text.split("## Training text")[1]
