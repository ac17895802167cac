"""Every block of docs/integrations.md runs, in the order of the page, where a model lies in model/."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
from hub_stand_in import TOKEN, hub
from models_for_integrations import corpus, folder  # noqa: F401

PAGE = Path(__file__).parents[1] / "docs" / "integrations.md"
NEEDED = ("sklearn", "sentence_transformers", "datasets", "accelerate", "mteb", "langchain_core", "llama_index.core",
          "lancedb", "spacy", "huggingface_hub", "onnx", "onnxruntime", "model2vec")  # fmt: skip


def blocks() -> list[tuple[str, str]]:
    """(language, text) of each."""
    return re.findall(r"^```(\w+)\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


def test_every_block_of_the_page_runs(folder, tmp_path, monkeypatch):  # noqa: F811
    for library in NEEDED:
        pytest.importorskip(library, reason=f"{library} is not installed")
    shutil.copytree(folder, tmp_path / "model", ignore=shutil.ignore_patterns("training"))
    monkeypatch.chdir(tmp_path)
    names: dict = {"__name__": "__main__"}
    with hub(tmp_path / "hub") as endpoint, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the libraries, as their users see them
        on_the_hub = {"HF_ENDPOINT": endpoint, "HF_HOME": str(tmp_path / "home"), "HF_TOKEN": TOKEN}
        environment = {**os.environ, **on_the_hub, "HF_HUB_DISABLE_XET": "1"}
        for language, text in blocks():
            if language == "console":
                for command in re.findall(r"^\$ banyan (.*)$", text, re.MULTILINE):
                    _run([sys.executable, "-m", "banyan", *command.split()], environment)
            elif "push_to_hub" in text:  # huggingface_hub reads where the Hub is once, when it is imported
                _run([sys.executable, "-c", text], environment)
                names["model"] = names["Banyan"].from_pretrained("model/")
            else:
                exec(compile(text, f"{PAGE.name}: {text.splitlines()[0]}", "exec", dont_inherit=True), names)
    assert {path.name for path in (tmp_path / "hub/you/your-model").iterdir()} >= {"model.safetensors", "README.md"}


def _run(command: list[str], environment: dict[str, str]) -> None:
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_every_module_is_on_the_page():
    modules = {path.stem for path in (PAGE.parents[1] / "src/banyan/integrations").glob("*.py")}
    page = PAGE.read_text(encoding="utf-8")
    for name in modules - {"__init__", "command", "hub"}:
        assert f"banyan.integrations.{name}" in page
