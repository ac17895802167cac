"""`banyan check` names each damaged file; what was written before there were checksums is read."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from banyan import Banyan, block_sums, train
from banyan.checking import check
from banyan.encoding import encode_file
from banyan.errors import BanyanError
from banyan.integrations import export
from banyan.search.index import Index, Maker
from banyan.support import checksums
from tests.helpers.corpora import write_lines
from tests.helpers.places import TESTS

BEFORE = TESTS / "data" / "written_by_0.1.0"


@pytest.fixture(scope="module")
def written(model_folder, trained_folder, tmp_path_factory) -> Path:
    """A model, a finished run, an index and encoded output."""
    folder = tmp_path_factory.mktemp("written")
    model = Banyan.from_pretrained(model_folder)
    model.save_pretrained(folder / "model")
    shutil.copytree(trained_folder, folder / "run")
    corpus = write_lines(folder / "corpus.txt", 200)
    encode_file(model, corpus, folder / "out.npy")
    with Index.writing(folder / "index", Maker.of(model, folder / "model")) as index:
        index.add(lambda texts: model.encode(texts), [str(corpus)])
    return folder


@pytest.mark.parametrize("name", ["model", "run", "index", "out.npy"])
def test_what_was_written_is_found_as_written(written, name, banyan):
    assert check(written / name).problems == check(written / name).without == []
    code, out, _ = banyan("check", written / name)
    assert (code, out.endswith("as written\n")) == (0, True)


def test_a_flipped_bit_is_named_wherever_it_is(written, tmp_path):
    names = ["model/model.safetensors", "model/tokenizer.json", "out.npy", "run/training/store/tokens.bin"]
    names += ["run/training/checkpoint.safetensors", "index/index.json", "model/config.json"]
    names += ["run/training/store/meta.json", "run/metrics.jsonl", "run/training/run.json"]
    names += ["run/training/tokenizer.json", "index/memory/rows.arrow", "index/memory/words.arrow"]
    names += [str(path.relative_to(written)) for path in (written / "index" / "rows.lance").rglob("*.lance")]
    names += [str(path.relative_to(written)) for path in (written / "index" / "rows.lance").rglob("*.manifest")]
    for name in names:
        shutil.rmtree(tmp_path / "copy", ignore_errors=True)
        shutil.copytree(written, tmp_path / "copy")
        path = tmp_path / "copy" / name
        _flip(path)
        problems = check(tmp_path / "copy" / name.partition("/")[0]).problems
        assert any(path.name in problem for problem in problems), (name, problems)


def test_no_bit_of_the_checksums_themselves_can_be_flipped_unnoticed(written, tmp_path):
    shutil.copytree(written, tmp_path / "copy")
    for name, whole in (("out.npy.crc32", "out.npy"), ("model/SHA256SUMS", "model"), ("index/index.json", "index")):
        path = tmp_path / "copy" / name
        content = path.read_bytes()
        places = [content.index(b'"checksum"') + 4] if path.suffix == ".json" else range(0, len(content), 3)
        ends = [place for place, byte in enumerate(content) if byte == ord("\n")] if "SUMS" in name else []
        for place in [*places, *ends]:
            for bit in (0, 5) if place not in ends else range(8):
                path.write_bytes(content[:place] + bytes([content[place] ^ 1 << bit]) + content[place + 1 :])
                assert check(tmp_path / "copy" / whole).problems, (name, place, bit)
        path.write_bytes(content)
        assert check(tmp_path / "copy" / whole).problems == []


def test_checksums_that_were_cut_short_are_named(written, tmp_path):
    shutil.copytree(written / "model", tmp_path / "model")
    path = tmp_path / "model" / checksums.SUMS
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(line for line in lines if "model.safetensors" not in line))
    assert check(tmp_path / "model").problems == [f"{path} has no checksum of model.safetensors"]
    path.write_text("")
    assert check(tmp_path / "model").problems == [f"{path} is empty"]


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json"])
def test_a_changed_file_is_named_when_the_model_is_loaded(written, tmp_path, name):
    shutil.copytree(written / "model", tmp_path / "model")
    path = tmp_path / "model" / name
    path.write_text(path.read_text() + " ")  # it still means the same
    with pytest.raises(BanyanError, match=rf"{name} is not as it was written: copy it again, or delete .*SHA256SUMS"):
        Banyan.from_pretrained(tmp_path / "model")
    (tmp_path / "model" / checksums.SUMS).unlink()
    assert Banyan.from_pretrained(tmp_path / "model").dim


def test_a_file_is_not_called_changed_because_another_process_saves_it_meanwhile(tmp_path, monkeypatch):
    """A save removes the checksums first, and writes them last."""
    (tmp_path / "a").write_bytes(b"old")
    checksums.write(tmp_path, ["a"])
    real = checksums.digest

    def saved_meanwhile(path: Path) -> str:
        (tmp_path / checksums.SUMS).unlink()
        path.write_bytes(b"new")
        return real(path)

    monkeypatch.setattr(checksums, "digest", saved_meanwhile)
    checksums.verify(tmp_path, ["a"])


@pytest.mark.parametrize("name", ["run.json", "tokenizer.json"])
def test_a_run_whose_small_files_changed_is_not_resumed(written, tmp_path, name):
    shutil.copytree(written / "run", tmp_path / "run")
    path = tmp_path / "run" / "training" / name
    path.write_text(path.read_text().replace("0", "1", 1))
    with pytest.raises(BanyanError, match=rf"{name} is not as it was written"):
        train(written / "corpus.txt", tmp_path / "run", resume=True, device="cpu", quiet=True)


def test_a_model_whose_settings_changed_is_nothing_to_start_from(written, tmp_path):
    shutil.copytree(written / "model", tmp_path / "model")
    path = tmp_path / "model" / "config.json"
    path.write_text(path.read_text() + " ")
    with pytest.raises(BanyanError, match=r"config\.json is not as it was written"):
        train(written / "corpus.txt", tmp_path / "out", init=tmp_path / "model", device="cpu", quiet=True)


def test_an_index_whose_record_changed_is_refused_and_can_be_restored(written, tmp_path, banyan):
    shutil.copytree(written / "index", tmp_path / "index")
    path = tmp_path / "index" / "index.json"
    path.write_text(path.read_text().replace('"rows": 2', '"rows": 3', 1))
    code, _, told = banyan("search", tmp_path / "index", "the cat")
    assert (code, told.count("\n")) == (1, 1)
    assert "index.json is not as it was written; index again, or let `banyan check --repair` restore it" in told
    assert banyan("check", tmp_path / "index")[0] == 1
    assert banyan("check", tmp_path / "index", "--repair")[0] == 0
    assert json.loads(path.read_text())["sources"].popitem()[1]["rows"] == 200
    assert banyan("search", tmp_path / "index", "the cat")[0] == 0


@pytest.mark.parametrize("content", ["", "{", "[]", '{"format": 2}', "\0" * 50])
def test_an_index_json_that_is_no_record_is_replaced(written, tmp_path, banyan, content):
    shutil.copytree(written / "index", tmp_path / "index")
    (tmp_path / "index" / "index.json").write_text(content)
    assert banyan("check", tmp_path / "index", "--repair")[0] == 0
    assert (tmp_path / "index" / "index.json").read_bytes() != content.encode()
    assert banyan("search", tmp_path / "index", "the cat")[0] == 0


def test_a_static_export_is_found_as_written_and_its_damage_is_named(written, tmp_path, banyan):
    export.static(Banyan.from_pretrained(written / "model"), tmp_path / "static")
    code, out, _ = banyan("check", tmp_path / "static")
    assert (code, out) == (0, f"{tmp_path / 'static'}: a static export, as written\n")
    path = tmp_path / "static" / "model.safetensors"
    _flip(path)
    assert check(tmp_path / "static").problems == [f"{path} is not as it was written"]


def test_a_static_export_without_checksums_is_read(written, tmp_path):
    """Model2Vec writes none, and neither did we before."""
    export.static(Banyan.from_pretrained(written / "model"), tmp_path)
    (tmp_path / checksums.SUMS).unlink()
    found = check(tmp_path)
    assert (found.problems, found.without) == ([], ["a static export"])
    tokenizer = json.loads((tmp_path / "tokenizer.json").read_text())
    tokenizer["model"]["vocab"] = dict(list(tokenizer["model"]["vocab"].items())[:300])
    tokenizer["model"]["merges"] = []
    (tmp_path / "tokenizer.json").write_text(json.dumps(tokenizer))
    assert "300 tokens" in check(tmp_path).problems[0]


def test_every_checksum_of_a_run_is_verified(written, tmp_path):
    """Those of shards, of held-out text and of the vectors of a teacher are in folders of their own."""
    shutil.copytree(written / "run", tmp_path / "run")
    lessons = tmp_path / "run/training/lessons/pieces"
    lessons.mkdir(parents=True)
    (lessons / "vectors").write_bytes(b"as they were")
    checksums.write(lessons, ["vectors"])
    assert check(tmp_path / "run").problems == []
    (lessons / "vectors").write_bytes(b"as they are")
    assert check(tmp_path / "run").problems == [f"{lessons / 'vectors'} is not as it was written"]


def test_a_missing_file_is_named_and_the_command_fails(written, tmp_path, banyan):
    shutil.copytree(written / "model", tmp_path / "model")
    (tmp_path / "model" / "tokenizer.json").unlink()
    code, out, told = banyan("check", tmp_path / "model")
    assert (code, told) == (1, "banyan: damaged: 1\n")
    assert out == f"{tmp_path / 'model' / 'tokenizer.json'} is missing\n"
    with pytest.raises(BanyanError, match="no model, training run, index or encoded output"):
        check(tmp_path)


@pytest.mark.parametrize("name", ["model", "index"])
def test_folders_from_before_have_no_checksums_and_can_be_read(name, tmp_path):
    shutil.copytree(BEFORE / name, tmp_path / name)
    found = check(tmp_path / name)
    assert (found.problems, len(found.without)) == ([], 1)


def test_a_lost_index_json_is_refused_and_restored(written, tmp_path, model, banyan):
    folder = tmp_path / "index"
    shutil.copytree(written / "index", folder)
    before = json.loads((folder / "index.json").read_text())
    (folder / "index.json").unlink()
    rows = sorted(path.name for path in (folder / "rows.lance").rglob("*"))
    maker = Maker.of(model, written / "model")
    with pytest.raises(BanyanError, match=r"has rows but no index\.json"), Index.writing(folder, maker):
        pass
    assert sorted(path.name for path in (folder / "rows.lance").rglob("*")) == rows
    assert check(folder, repair=True).problems == []
    restored = json.loads((folder / "index.json").read_text())
    assert restored["model"] == before["model"]
    assert {name: source["rows"] for name, source in restored["sources"].items()} == {
        name: source["rows"] for name, source in before["sources"].items()
    }


def test_damaged_arrays_of_an_index_are_named_and_made_anew(written, tmp_path, banyan):
    shutil.copytree(written / "index", tmp_path / "index")
    path = tmp_path / "index" / "memory" / "rows.arrow"
    before = path.read_bytes()
    path.write_bytes(before.replace(b"cat", b"bat"))
    code, out, _ = banyan("check", tmp_path / "index")
    assert (code, out) == (1, f"{path} is not as it was written; `--repair` makes it anew\n")
    assert banyan("check", tmp_path / "index", "--repair")[0] == 0
    assert "*cat*" in banyan("search", tmp_path / "index", "cat")[1]
    assert path.read_bytes() == before
    assert banyan("check", tmp_path / "index")[0] == 0


def test_search_of_a_damaged_index_says_so_in_one_sentence(written, tmp_path, banyan):
    shutil.copytree(written / "index", tmp_path / "index")
    for path in (tmp_path / "index" / "rows.lance" / "data").glob("*.lance"):
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    assert banyan("search", tmp_path / "index", "the cat")[0] == 0  # from the arrays beside it
    shutil.rmtree(tmp_path / "index" / "memory")
    code, _, told = banyan("search", tmp_path / "index", "the cat")
    assert (code, told.count("\n")) == (1, 1)
    assert "banyan check" in told


def test_encoded_output_of_an_earlier_version_is_verified_by_its_sha256(written, tmp_path):
    out = tmp_path / "out.npy"
    shutil.copy(written / "out.npy", out)
    assert check(out).without == ["encoded output"]
    checksums.record(Path(f"{out}.sha256"), {out.name: checksums.digest(out)})
    assert check(out).problems == check(out).without == []
    _flip(out)
    assert check(out).problems == [f"{out} is not as it was written"]


def test_a_damaged_block_of_encoded_output_is_named(written, tmp_path, monkeypatch):
    monkeypatch.setattr(block_sums, "BLOCK", 1000)
    out = tmp_path / "out.npy"
    shutil.copy(written / "out.npy", out)
    block_sums.record(out, block_sums.of_file(out))
    middle = out.stat().st_size // 2 // 1000
    _flip(out)
    where = f"something between bytes {1000 * middle:,} and {1000 * middle + 1000:,} changed"
    assert check(out).problems == [f"{out} is not as it was written: {where}"]


def test_encoded_output_that_was_cut_short_is_damaged(written, tmp_path):
    for name in ("out.npy", "out.npy.crc32"):
        shutil.copy(written / name, tmp_path)
    out = tmp_path / "out.npy"
    out.write_bytes(out.read_bytes()[:1000])
    assert check(out).problems == [f"{out} is not as it was written: it has 1,000 bytes now"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "cannot read"),
        ("[]", "is of another version of banyan"),
        ('{"form": "CRC-64"}', "is of another version of banyan"),
        ('{"form": "CRC-32 of every 8 MiB", "bytes": BYTES, "blocks": {}}', "is not as it was written"),
        (
            '{"form": "CRC-32 of every 8 MiB", "bytes": BYTES, "blocks": [], "checksum": "0"}',
            "is not as it was written",
        ),
    ],
)
def test_checksums_that_are_damaged_themselves_are_a_problem(written, tmp_path, content, message):
    out = tmp_path / "out.npy"
    shutil.copy(written / "out.npy", out)
    Path(f"{out}.crc32").write_text(content.replace("BYTES", str(out.stat().st_size)))
    (problem,) = check(out).problems
    assert message in problem


def _flip(path: Path) -> None:
    """Flip a bit in the middle of a file."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def test_sums_are_those_of_sha256sum(tmp_path):
    (tmp_path / "a").write_bytes(b"abc")
    checksums.write(tmp_path, ["a", "gone"])
    told = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad  a\n"
    assert (tmp_path / checksums.SUMS).read_text() == told
