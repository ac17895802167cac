from __future__ import annotations

import dataclasses
import inspect
import io
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tracemalloc
import xml.etree.ElementTree as ElementTree
from importlib import import_module
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from banyan import __version__, encoding
from banyan.commands import _parser, _shared, main, tree
from banyan.config import PRESETS, SETTINGS, Config
from banyan.encoder import Banyan
from banyan.errors import BanyanError
from banyan.support.needs import pip_install
from tests.helpers.commands import unhurried
from tests.helpers.models import SAVED

COMMANDS = ["train", "tune", "classify", "encode", "tree", "similar", "explain", "eval", "info", "demo"]
COMMANDS += ["index", "search", "cluster", "map", "explore", "serve", "export", "push", "baseline", "check", "warmup"]
COMMANDS += ["dedup", "completion", "pull"]


@pytest.fixture
def trained(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What banyan.training.train was called with; it is not called."""
    calls: list[dict[str, Any]] = []
    training = ModuleType("banyan.training")
    training.Interrupted = type("Interrupted", (KeyboardInterrupt,), {})  # type: ignore[attr-defined]
    training.train = lambda corpus, out, **rest: calls.append({"corpus": corpus, "out": out, **rest})  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "banyan.training", training)
    return calls


def stdin(monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content), encoding="ascii"))


# --- Help and usage --------------------------------------------------------------------------------------------------


def test_help_is_quick_because_it_imports_neither_torch_nor_numba():
    program = (
        "import sys\nfrom banyan.commands import _parser, main\n"
        "try: main(['--help'])\nexcept SystemExit: pass\n"
        "for name in _parser.names(): _parser.parser_of(name)\n"
        "heavy = {'torch', 'numba', 'numpy', 'rich', 'tokenizers', 'sklearn', 'transformers'} & set(sys.modules)\n"
        "sys.exit(str(heavy) if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(("chosen", "expected"), [(None, "passive"), ("active", "active")])
def test_threads_of_torch_rest_between_operations_unless_the_user_wants_them_awake(monkeypatch, chosen, expected):
    monkeypatch.setenv("OMP_WAIT_POLICY", "active")
    if chosen is None:
        monkeypatch.delenv("OMP_WAIT_POLICY")
    main(["completion", "bash"])
    assert os.environ["OMP_WAIT_POLICY"] == expected


def test_python_m_banyan_is_banyan():
    command = [sys.executable, "-m", "banyan", "--version"]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == f"banyan {__version__}\n"


def test_every_module_of_the_package_is_a_command_and_defines_what_a_command_has():
    assert set(_parser.names()) == set(COMMANDS)
    for name in COMMANDS:
        command = import_module(f"banyan.commands.{name}")
        assert command.GROUP in _parser.GROUPS
        assert isinstance(command.ORDER, int)
        assert command.PURPOSE
        assert command.DESCRIPTION
        assert command.EXAMPLES
        assert callable(command.arguments)
        assert callable(command.run)


def test_a_command_imports_no_other_command():
    program = "import sys\nfrom banyan.commands._parser import parse\nparse(['info', 'model'])\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    loaded = {name.rpartition(".")[2] for name in done.stdout.split() if name.startswith("banyan.commands.")}
    assert loaded == {"_parser", "_shared", "info"}


def test_help_teaches_every_command(banyan):
    code, out, _ = banyan("--help")
    assert code == 0
    for command in COMMANDS:
        assert f"\n  {command} " in out
        assert f"\n  banyan {command}" in out  # an example


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_a_command_has_examples_that_parse(banyan, command):
    code, out, _ = banyan(command, "--help")
    assert code == 0
    examples = [line.strip() for line in out.partition("examples:\n")[2].splitlines()]
    assert examples
    for example in examples:
        arguments = shlex.split(example.partition("| ")[2] or example.partition(" <")[0])
        assert "banyan" in arguments
        arguments = arguments[arguments.index("banyan") + 1 :]
        assert arguments[0] == command
        _parser.parse(arguments)


@pytest.mark.parametrize("preset", PRESETS)
def test_help_all_shows_every_setting_with_its_value_in_the_preset(banyan, monkeypatch, preset):
    monkeypatch.setenv("COLUMNS", "300")
    _, out, _ = banyan("train", "--help-all", "--preset", preset)
    assert f"The defaults below are those of preset {preset}." in out
    config = Config.from_preset(preset)
    for setting in (setting for setting in SETTINGS.values() if setting.group != "tuning"):
        flag = _shared.flag(setting.name)
        (line,) = [line for line in out.splitlines() if line.strip().split(" ")[0].strip(",") == flag]
        rest = out[out.index(line) :].split(")")[0:4]
        value = getattr(config, setting.name)
        shown = setting.when_none if value is None else {"True": "yes", "False": "no"}.get(str(value), str(value))
        assert f"{setting.help} (default: {shown})" in " ".join(")".join(rest).split()) + ")", setting.name
    for heading in ("text:", "model:", "training:", "run:"):
        assert f"\n{heading}\n" in out


def test_help_shows_the_options_that_people_use(banyan):
    _, out, _ = banyan("train", "--help")
    options = [line.split()[0] for line in out.splitlines() if line.startswith("  --")]
    assert 10 <= len(options) <= 18
    assert {"--out", "--preset", "--epochs", "--resume", "--help-all"} <= {*options}
    assert "--infonce-weight" not in out
    assert "preset default" in out


def test_an_option_of_an_earlier_version_is_named_with_its_successor(banyan):
    code, _, err = banyan("train", "corpus.txt", "--out", "m", "--company", "1")
    assert (code, err) == (2, "banyan train: --company is now called --init-ppmi (see banyan train --help)\n")


def test_no_command_shows_the_help(banyan):
    code, out, err = banyan()
    assert (code, out) == (2, "")
    assert "COMMAND" in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["tran"], "banyan: there is no command tran; did you mean train? (see banyan --help)"),
        (["xyzzy"], "banyan: there is no command xyzzy (see banyan --help)"),
        (["--versoin"], "banyan: there is no option --versoin; did you mean --version? (see banyan --help)"),
        (["train", "c", "--epoch=3"], "banyan train: there is no option --epoch; did you mean --epochs?"),
        (["tune", "m", "e", "--hard-negatives", "2"], "there is no option --hard-negatives; did you mean --hard?"),
        (["train", "c"], "banyan train: the following arguments are required: --out"),
        (["train", "c", "--out", "o", "--dim", "x"], "banyan train: argument --dim: invalid int value: 'x'"),
        (["train", "c", "--out", "o", "--lines", "--running"], "not allowed with argument --lines"),
        (["encode", "m", "i"], "banyan encode: the following arguments are required: -o/--out"),
        (["tree", "m", "t", "--format", "png"], "argument --format: invalid choice: 'png'"),
        (["similar", "m", "a"], "banyan similar: pass two texts, or one text and --in FILE; got 1"),
        (["similar", "m", "a", "b", "--in", "f"], "banyan similar: --in takes one text; got 2"),
        (["similar", "m", "", "b"], "banyan similar: argument TEXT: the text is empty: write at least one word"),
        (["similar", "m", " ", "--in", "f"], "banyan similar: argument TEXT: the text is empty"),
        (["explain", "m", "a", "\t\n"], "banyan explain: argument B: the text is empty: write at least one word"),
        (["tree", "m", ""], "banyan tree: argument TEXT: the text is empty: write at least one word"),
        (["info", "m", "n"], "banyan info: unrecognized arguments: n (see banyan info --help)"),
    ],
)
def test_usage_errors_are_one_line_and_exit_code_2(banyan, arguments, message):
    code, out, err = banyan(*arguments)
    assert (code, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1


# --- Errors ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", [["encode", "x", "-o", "o.npy"], ["tree", "x"], ["explain", "x", "y"], ["info"]])
def test_missing_model_is_one_line_and_exit_code_1(banyan, tmp_path, command):
    code, out, err = banyan(command[0], tmp_path / "none", *command[1:])
    assert (code, out) == (1, "")
    assert err == f"banyan: there is no model folder '{tmp_path}/none'; train a model with `banyan train`\n"


def test_debugging_shows_the_traceback(banyan, tmp_path, monkeypatch):
    monkeypatch.setenv("BANYAN_DEBUG", "1")
    with pytest.raises(BanyanError, match="there is no model folder"):
        banyan("info", tmp_path / "none")


def test_error_of_the_system_names_the_file(banyan, monkeypatch):
    def refuse(options: object) -> None:
        raise PermissionError(13, "Permission denied", "model/config.json")

    monkeypatch.setattr(tree, "load", refuse)
    assert banyan("tree", "model", "text") == (1, "", "banyan: model/config.json: Permission denied\n")


def test_too_little_memory_is_one_line(banyan, monkeypatch):
    def refuse(options: object) -> None:
        np.empty(1 << 50, np.float64)

    monkeypatch.setattr(tree, "load", refuse)
    code, out, told = banyan("tree", "model", "text")
    assert (code, out) == (1, "")
    assert told.startswith("banyan: not enough memory (")
    assert told.count("\n") == 1


def test_interrupt_is_exit_code_130(banyan, monkeypatch):
    def interrupt(options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(tree, "load", interrupt)
    assert banyan("tree", "model", "text") == (130, "", "banyan: interrupted\n")


def test_reader_that_has_seen_enough_is_no_error(model_folder, tmp_path):
    (tmp_path / "in.txt").write_text("the cat sat on the mat\n" * 20_000)
    command = f"{sys.executable} -m banyan tree {model_folder} - < {tmp_path}/in.txt | head -n 1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False, timeout=60)
    assert unhurried(done.stderr) == ""
    assert done.stdout.count("\n") == 1


# --- train -----------------------------------------------------------------------------------------------------------


def test_train_is_called_with_what_was_given_and_nothing_else(banyan, trained):
    assert banyan("train", "a.txt", "b", "--out", "m") == (0, "", "")
    assert trained == [
        {
            "corpus": ["a.txt", "b"],
            "out": "m",
            "preset": None,
            "column": None,
            "layout": "auto",
            "dev": None,
            "pairs": None,
            "tokenizer": None,
            "init": None,
            "teacher": None,
            "teacher_lines": None,
            "parallel": None,
            "languages": "both",
            "language": None,
            "license": None,
            "resume": False,
            "overwrite": False,
            "checkpoint_seconds": 60.0,
            "device": "auto",
            "precision": "auto",
            "deterministic": False,
            "tensorboard": False,
            "quiet": False,
        }
    ]


def test_settings_reach_train_under_their_own_names(banyan, trained):
    banyan("train", "c", "--out", "m", "--running", "--eval", "p.tsv", "--checkpoint-every", "5", "--no-lowercase",
           "--zero-digits", "--lr", "2e-3", "--vocab-size", "500", "--candidates", "batch", "--tokenizer", "t.json",
           "--resume", "--quiet")  # fmt: skip
    expected = {"layout": "running", "pairs": "p.tsv", "checkpoint_seconds": 5.0, "lowercase": False, "lr": 2e-3}
    expected |= {"zero_digits": True, "vocab_size": 500, "candidates": "batch", "tokenizer": "t.json", "resume": True}
    assert {name: trained[0][name] for name in expected} == expected
    assert "epochs" not in trained[0]
    settings = {field.name for field in dataclasses.fields(Config)} & set(trained[0])
    Config.from_preset(**{name: trained[0][name] for name in settings})


def test_options_of_train_are_its_parameters():
    training = pytest.importorskip("banyan.training")
    named = vars(_parser.parse(["train", "c", "--out", "m"])).keys() - {"command", "parser"}
    parameters = inspect.signature(training.train).parameters
    assert named == parameters.keys() - {"overrides", "config"}


def test_stopped_training_is_exit_code_130(banyan, trained):
    def stop(*_: object, **__: object) -> None:
        raise sys.modules["banyan.training"].Interrupted("stopped after step 3, saved; go on with --resume")

    sys.modules["banyan.training"].train = stop  # type: ignore[attr-defined]
    code, _, err = banyan("train", "c", "--out", "m")
    assert (code, err) == (130, "banyan: stopped after step 3, saved; go on with --resume\n")


@pytest.mark.parametrize(
    ("command", "told"),
    [
        (["train", "c", "--out", "m"], f"Training needs torch: {pip_install('train')}"),
        (["demo", "--out", "m"], f"The demo needs torch: {pip_install('train,demo')}"),
    ],
)
def test_training_without_torch_names_the_extra(banyan, monkeypatch, command, told):
    pytest.importorskip("sklearn")
    for name in [name for name in sys.modules if name.startswith("banyan.training")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "torch", None)
    code, _, err = banyan(*command)
    assert (code, err) == (1, f"banyan: {told}\n")


# --- encode ----------------------------------------------------------------------------------------------------------


def test_encode_writes_and_reports(banyan, model_folder, model, tmp_path):
    (tmp_path / "in.txt").write_text("the cat\n\na dog\n")
    code, out, err = banyan("encode", model_folder, tmp_path / "in.txt", "-o", tmp_path / "out.npy", "--normalize")
    assert (code, out) == (0, "")
    assert err.startswith(f"wrote {tmp_path}/out.npy: 3 rows of 16 dimensions (")
    assert "; 1 without text are zero" in err
    np.testing.assert_array_equal(np.load(tmp_path / "out.npy"), model.encode(["the cat", "", "a dog"], normalize=True))


def test_encode_can_be_quiet_but_not_about_errors(banyan, model_folder, tmp_path):
    (tmp_path / "in.txt").write_text("the cat\n")
    arguments = ["encode", model_folder, tmp_path / "in.txt", "-o", tmp_path / "out.jsonl", "--quiet"]
    assert banyan(*arguments) == (0, "", "")
    assert banyan(*arguments) == (1, "", f"banyan: {tmp_path}/out.jsonl exists already: --overwrite replaces it\n")
    assert banyan(*arguments, "--overwrite") == (0, "", "")


def test_encode_reads_a_column_of_standard_input(banyan, model_folder, tmp_path, monkeypatch):
    stdin(monkeypatch, '{"t": "thé cat"}\n{"t": ""}\n'.encode())
    assert banyan("encode", model_folder, "-", "--column", "t", "-o", tmp_path / "out.jsonl")[0] == 0
    rows = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [row["text"] for row in rows] == ["thé cat", ""]


def test_interrupted_encode_says_how_to_go_on(banyan, model_folder, tmp_path, monkeypatch):
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    (tmp_path / "in.txt").write_text("the cat\n")
    arguments = ["encode", model_folder, tmp_path / "in.txt", "-o", tmp_path / "out.npy"]
    with monkeypatch.context() as patched:
        patched.setattr(encoding._Partial, "append", interrupt)
        code, _, err = banyan(*arguments)
    assert (code, err) == (130, "banyan: stopped after 0 rows, which are kept: --resume continues\n")
    assert banyan(*arguments, "--resume")[0] == 0


def test_an_interrupt_inside_a_compiled_function_is_told_in_one_line(banyan, model_folder, monkeypatch):
    def interrupt(*_: object) -> None:
        raise SystemError("returned a result with an exception set") from KeyboardInterrupt()

    monkeypatch.setattr(Banyan, "similarity", interrupt)
    assert banyan("similar", model_folder, "the cat", "the dog") == (130, "", "banyan: interrupted\n")


def test_progress_shows_only_when_encoding_takes_a_while(banyan, model_folder, tmp_path, monkeypatch):
    monkeypatch.setattr(encoding, "BLOCK_ROWS", 1)
    monkeypatch.setattr("banyan.support.display.SECONDS_BETWEEN_LINES", -1.0)
    (tmp_path / "in.txt").write_text("the cat\n" * 3)
    arguments = ["encode", model_folder, tmp_path / "in.txt", "-o", tmp_path / "out.npy", "--overwrite"]
    assert "encoding:" not in banyan(*arguments)[2]
    monkeypatch.setattr(encoding, "SECONDS_WITHOUT_BAR", -1.0)
    assert "encoding: 24 of 24 bytes, rows 3" in banyan(*arguments)[2]


# --- tree ------------------------------------------------------------------------------------------------------------

SENTENCE = "the cat sat on the mat"


def test_tree_as_text_brackets_and_json(banyan, model_folder, model):
    tree = model.parse(SENTENCE)
    assert banyan("tree", model_folder, SENTENCE) == (0, f"{tree}\n", "")
    assert banyan("tree", model_folder, SENTENCE, "a dog") == (0, f"{tree}\n\n{model.parse('a dog')}\n", "")
    assert banyan("tree", model_folder, SENTENCE, "--format", "brackets") == (0, tree.to_brackets() + "\n", "")
    assert banyan("tree", model_folder, SENTENCE, "--format", "json") == (0, tree.to_json() + "\n", "")


def test_tree_as_a_drawing(banyan, model_folder, tmp_path):
    assert banyan("tree", model_folder, SENTENCE, "-o", tmp_path / "tree.svg") == (0, "", "")
    assert ElementTree.parse(tmp_path / "tree.svg").getroot().tag.endswith("svg")
    code, out, _ = banyan("tree", model_folder, SENTENCE, "--format", "svg")
    assert code == 0
    assert out == (tmp_path / "tree.svg").read_text(encoding="utf-8")
    code, _, err = banyan("tree", model_folder, "a", "b", "--format", "svg")
    assert (code, err) == (1, "banyan: an SVG file holds one tree, not 2: pass one sentence\n")


def test_tree_of_brackets_is_composed_as_given(banyan, model_folder, tmp_path, monkeypatch):
    brackets = "(S (NP the cat)\n   (VP sat))"
    code, out, _ = banyan("tree", model_folder, "--brackets", brackets, "--format", "json")
    assert code == 0
    phrases = [node["text"] for node in json.loads(out)["nodes"] if "children" in node]
    assert phrases[-2:] == ["the cat", "the cat sat"]
    stdin(monkeypatch, f"{brackets}\n(X (A a) (B dog))\n".encode())
    assert len(banyan("tree", model_folder, "-", "--brackets", "--format", "json")[1].splitlines()) == 2
    code, _, err = banyan("tree", model_folder, "--brackets", "(S the")
    assert code == 1
    assert err.startswith("banyan: line 1, column 1: ")


def test_tree_of_the_lines_of_standard_input(banyan, model_folder, model, monkeypatch):
    stdin(monkeypatch, "\ufeffthe cat\r\n\nna\u00efve\u2028dog\n".encode() + b"b\xffd")
    code, out, _ = banyan("tree", model_folder, "-", "--format", "json")
    assert code == 0
    texts = [json.loads(line)["text"] for line in out.split("\n")[:-1]]
    assert texts == ["the cat", "", "naïve\u2028dog", "b\ufffdd"]


def test_output_folder_that_is_not_there(banyan, model_folder, tmp_path):
    code, _, err = banyan("tree", model_folder, "x", "-o", tmp_path / "none" / "tree.svg")
    assert (code, err) == (1, f"banyan: cannot write {tmp_path}/none/tree.svg: there is no folder {tmp_path}/none\n")


def test_a_name_of_compressed_output_is_refused(banyan, model_folder, tmp_path):
    code, _, err = banyan("tree", model_folder, "a cat", "-o", tmp_path / "tree.txt.gz")
    assert (code, err) == (1, f"banyan: {tmp_path}/tree.txt.gz would not be compressed: leave .gz out of its name\n")


def test_output_to_a_file_is_not_kept_in_memory_and_replaces_it_at_the_end(tmp_path):
    path, line = tmp_path / "out.txt", "x" * 10_000
    path.write_text("before\n")
    tracemalloc.start()
    with _shared.output(str(path)) as write:
        for _ in range(1000):
            write(line)
        assert path.read_text() == "before\n"
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert path.stat().st_size == 1000 * 10_001
    assert most < 1_000_000


def test_output_that_fails_leaves_the_file_as_it_was(tmp_path):
    path = tmp_path / "out.txt"
    path.write_text("before\n")

    def fail() -> None:
        with _shared.output(str(path)) as write:
            write("half")
            raise BanyanError("bad input")

    with pytest.raises(BanyanError, match="bad input"):
        fail()
    assert [(file.name, file.read_text()) for file in tmp_path.iterdir()] == [("out.txt", "before\n")]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no device that is always full")
def test_a_full_disk_is_told_in_a_sentence(banyan, model_folder):
    code, _, err = banyan("tree", model_folder, "x", "-o", "/dev/full")
    assert (code, err) == (1, "banyan: cannot write /dev/full: the disk is full\n")


# --- similar, explain, info, demo ------------------------------------------------------------------------------------


def test_similar_compares_two_texts(banyan, model_folder, model):
    assert banyan("similar", model_folder, SENTENCE, "a dog") == (0, f"{model.similarity(SENTENCE, 'a dog'):.4f}\n", "")
    assert banyan("similar", model_folder, SENTENCE, SENTENCE)[1] == "1.0000\n"


def test_similar_searches_a_file(banyan, model_folder, tmp_path, monkeypatch):
    lines = b"a dog slept\nthe cat\x1b sat\non the mat\n"
    (tmp_path / "in.txt").write_bytes(lines)
    code, out, err = banyan("similar", model_folder, "the cat sat", "--in", tmp_path / "in.txt", "-k", "2")
    assert (code, err) == (0, "")
    rows = [line.split("\t") for line in out.splitlines()]
    assert len(rows) == 2
    assert float(rows[0][0]) >= float(rows[1][0])
    stdin(monkeypatch, lines)
    assert banyan("similar", model_folder, "the cat sat", "--in", "-", "-k", "2")[1] == out
    assert "\x1b" not in banyan("similar", model_folder, "cat", "--in", tmp_path / "in.txt")[1]
    assert banyan("similar", model_folder, "x", "--in", tmp_path / "in.txt", "-k", "0")[0] == 1


def test_text_that_is_not_utf8_or_begins_with_a_dash(banyan, model_folder):
    assert banyan("similar", model_folder, "b\udcffd", "b\ufffdd")[1] == "1.0000\n"
    assert banyan("similar", model_folder, "--", "-cat", "--dog")[0] == 0


def test_explain_as_text_json_and_drawing(banyan, model_folder, model, tmp_path):
    explanation = model.explain(SENTENCE, "a dog")
    code, out, err = banyan("explain", model_folder, SENTENCE, "a dog")
    assert (code, err) == (0, "")
    assert out == f"{explanation.to_text(color=False)}\n"
    assert banyan("explain", model_folder, SENTENCE, "a dog", "--format", "json")[1] == explanation.to_json() + "\n"
    assert banyan("explain", model_folder, SENTENCE, "a dog", "-o", tmp_path / "why.svg") == (0, "", "")
    assert (tmp_path / "why.svg").read_text(encoding="utf-8") == explanation.to_svg()


def test_explain_has_colours_on_a_terminal_only(banyan, model_folder, monkeypatch, tmp_path):
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    assert "\x1b[48;5;" in banyan("explain", model_folder, SENTENCE, "a dog")[1]
    banyan("explain", model_folder, SENTENCE, "a dog", "-o", tmp_path / "why.txt")
    assert "\x1b" not in (tmp_path / "why.txt").read_text(encoding="utf-8")
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in banyan("explain", model_folder, SENTENCE, "a dog")[1]


def test_info_counts_parameters_from_the_tensors(banyan, model_folder, model):
    code, out, err = banyan("info", model_folder, "--json")
    assert (code, err) == (0, "")
    about = json.loads(out)
    vocabulary = len(model.embedding)
    assert list(about["parameters"].values()) == [14, vocabulary * 16, vocabulary * 16 + vocabulary]
    assert about["settings"] == model.config.to_dict()
    assert about["written by"] == f"banyan {__version__}"
    assert about["files (bytes)"].keys() == SAVED
    assert about["files (bytes)"]["config.json"] == (model_folder / "config.json").stat().st_size
    text = banyan("info", model_folder)[1]
    assert "dimensions: 16 (8 channels of width 2)" in text
    assert f"vocabulary: {vocabulary}" in text
    assert f"  embedding                      {vocabulary * 16:,}" in text


def test_info_tells_of_the_corpus_and_the_last_epoch(banyan, model_folder, tmp_path):
    Banyan.from_pretrained(model_folder).save_pretrained(tmp_path)
    (tmp_path / "README.md").write_text("# A model\n\n## Training text\n9 lines read.\n\n## Training\n| |\n")
    rows = [{"step": 1, "loss": 3.0}, {"step": 2, "finished_epoch": 1, "train_loss": 2.5}, {"step": 3, "loss": 2.0}]
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    about = json.loads(banyan("info", tmp_path, "--json")[1])
    assert about["training text"] == "9 lines read."
    assert about["last epoch"] == rows[1]


def test_info_imports_nothing_heavy(model_folder, tmp_path):
    """Neither NumPy, which takes twice as long as all else, nor what reads weights and tokenizers."""
    shutil.copytree(model_folder, tmp_path / "model")
    (tmp_path / "model" / "metrics.jsonl").write_text('{"step": 2, "finished_epoch": 1, "train_loss": 2.5}\n')
    program = "import sys\nfrom banyan.commands import main\nmain(sys.argv[1:])\nprint(*sys.modules, file=sys.stderr)"
    command = [sys.executable, "-c", program, "info", tmp_path / "model"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "vocabulary: " in done.stdout
    assert not {"numpy", "safetensors", "tokenizers", "rich", "logging"} & set(done.stderr.split())


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (lambda data: data[:-1], r"it has [\d,]+ bytes, not [\d,]+; is it truncated\?"),
        (lambda data: data[:100], "it is not a safetensors file"),
        (lambda data: b"", "it is not a safetensors file"),
        (lambda data: b"\xff" * 8 + data[8:], "it is not a safetensors file"),
        (lambda data: data.replace(b'"shape":[', b'"shaqe":[', 1), "it is not a safetensors file"),
        (lambda data: data.replace(b'"comp_b":', b'"comp_x":'), "comp_b is missing, not"),
    ],
    ids=["shorter", "only the beginning", "empty", "endless header", "no shape", "no bias"],
)
def test_info_names_a_damaged_file_of_weights(banyan, model_folder, tmp_path, damage, told):
    shutil.copytree(model_folder, tmp_path / "model")
    weights = tmp_path / "model" / "model.safetensors"
    weights.write_bytes(damage(weights.read_bytes()))
    code, out, err = banyan("info", tmp_path / "model")
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert re.search(rf"model\.safetensors.*{told}", err)


def test_demo_is_run_in_the_folder_named(banyan, monkeypatch):
    folders: list[str] = []
    demo = ModuleType("banyan.demo")
    demo.run_demo = folders.append  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "banyan.demo", demo)
    assert banyan("demo")[0] == 0
    assert banyan("demo", "--out", "x")[0] == 0
    assert folders == ["demo-model", "x"]
