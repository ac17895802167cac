from __future__ import annotations

import json
import os
import re
import secrets
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from banyan.checking import check
from banyan.commands import main
from banyan.encoder import Banyan
from banyan.encoding import encode_file
from banyan.errors import BanyanError
from banyan.support.needs import pip_install
from tests.helpers.places import HELPERS, ROOT

pytest.importorskip("ray")
fsspec = pytest.importorskip("fsspec")
pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

from banyan.scale import shards as shards_module  # noqa: E402
from banyan.scale.engine import EncodingJob  # noqa: E402
from banyan.scale.folder import encode_folder  # noqa: E402
from banyan.scale.shards import ParquetShard, ShardResult, encode_shard, shards  # noqa: E402
from banyan.scale.stores import FINISHED, UNFINISHED, Folder  # noqa: E402

CLUSTER = HELPERS / "cluster_of_ray.py"
PATIENCE = 120  # seconds until a test gives up: a busy machine starts Ray slowly


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three files, one in a folder of its own, of 5 row groups each."""
    for name in ("a.parquet", "b.parquet", "year=1900/a.parquet"):
        write(tmp_path / "in" / name, [f"the cat sat on mat {name} {row}" for row in range(50)], 10)
    return tmp_path / "in"


def test_a_flipped_bit_in_a_part_is_named(model_folder, folder, tmp_path):
    out = tmp_path / "out"
    encode_folder(model_folder, str(folder), str(out), work=InThisProcess(model_folder))
    assert str(check(out)) == f"{out}: encoded Parquet files, as written"
    parts = sorted(out.rglob("*.parquet"))
    for path in (*parts, out / FINISHED):
        whole = path.read_bytes()
        for at in (0, len(whole) // 4, len(whole) // 2, len(whole) - 20, len(whole) - 6):
            path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
            (problem,) = check(out).problems
            assert str(path) in problem
        path.write_bytes(whole)
    parts[0].unlink()
    assert check(out).problems == [f"{parts[0]} is missing"]


def write(path: Path, texts: Sequence[str | None], group: int = 1000, **others: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"text": texts, **others}), path, row_group_size=group)


class InThisProcess:
    """An engine without Ray; stops after some shards, as if the driver were killed."""

    def __init__(self, model_folder: Path, stop: int | None = None) -> None:
        self.model, self.stop, self.done = Banyan.from_pretrained(model_folder), stop, []

    def __call__(
        self, job: EncodingJob, todo: Sequence[ParquetShard], files: dict[str, bytes]
    ) -> Iterator[ShardResult]:
        assert sorted(files) == ["config.json", "model.safetensors", "tokenizer.json"]
        for shard in todo:
            if len(self.done) == self.stop:
                raise KeyboardInterrupt
            self.done.append(shard.part)
            try:
                yield encode_shard(self.model, Folder(job.folder), Folder(job.out), shard, job.settings)
            except BanyanError as error:
                yield ShardResult(shard.part, error=str(error))


@pytest.fixture
def small_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shards_module, "SHARD_ROWS", 25)


def table(out: Path | str) -> Any:
    """All parts, in the order that the manifest tells."""
    files, root = fsspec.core.url_to_fs(str(out))
    with files.open(f"{root}/{FINISHED}") as file:
        parts = json.load(file)["parts"]
    tables = []
    for part in parts:
        with files.open(f"{root}/{part['part']}") as file:
            tables.append(pq.read_table(file).replace_schema_metadata())
    return pa.concat_tables(tables)


def assert_as_local(model_folder: Path, folder: Path, out: Path, **how: Any) -> None:
    """The same rows in the same order, the same bits, and nothing else is in the folder."""
    local = out.with_name("local.parquet")
    encode_file(Banyan.from_pretrained(model_folder), folder, local, overwrite=True, **how)
    expected, found = pq.read_table(local).replace_schema_metadata(), table(out)
    assert found.schema.equals(expected.schema)
    assert found.column("text").to_pylist() == expected.column("text").to_pylist()
    assert bits(found) == bits(expected)
    named = {part["part"] for part in json.loads((out / FINISHED).read_text())["parts"]}
    assert {str(path.relative_to(out)) for path in out.rglob("*") if path.is_file()} == named | {FINISHED}


def bits(table: Any) -> bytes:
    return table.column("embedding").combine_chunks().flatten().to_numpy(zero_copy_only=False).tobytes()


# --- Plan and parts --------------------------------------------------------------------------------------------------


@settings(deadline=None, max_examples=30)
@given(st.lists(st.integers(1, 60), max_size=12), st.integers(1, 100))
def test_shards_have_each_row_group_once(sizes: list[int], most: int) -> None:
    memory = fsspec.filesystem("memory")
    with memory.open("/plan/a.parquet", "wb") as file, pq.ParquetWriter(file, pa.schema({"text": pa.string()})) as made:
        for size in sizes:
            made.write_table(pa.table({"text": ["x"] * size}), row_group_size=size)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shards_module, "SHARD_ROWS", most)
        found = shards(Folder("memory://plan"), "a.parquet", None)
    assert [group for shard in found for group in range(*shard.groups)] == list(range(len(sizes)))
    assert [shard.first_row for shard in found] == [sum(sizes[: shard.groups[0]]) for shard in found]
    assert all(shard.rows == sum(sizes[slice(*shard.groups)]) for shard in found)
    assert all(shard.rows <= most or shard.groups[1] - shard.groups[0] == 1 for shard in found)
    assert len({shard.part for shard in found}) == len(found)


@pytest.mark.usefixtures("small_shards")
@pytest.mark.parametrize("how", [{}, {"normalize": True}, {"precision": "int8", "truncate_dim": 8}])
def test_a_folder_gives_the_rows_and_bits_of_the_local_path(model_folder, folder, tmp_path, how) -> None:
    summary = encode_folder(model_folder, str(folder), str(tmp_path / "out"), work=InThisProcess(model_folder), **how)
    assert (summary.rows, summary.parts, summary.resumed) == (150, 9, 0)
    assert_as_local(model_folder, folder, tmp_path / "out", **how)
    assert (tmp_path / "out" / "year=1900" / "a-00002.parquet").exists()


def test_blank_rows_and_those_that_are_not_text_count_as_in_the_local_path(model_folder, tmp_path) -> None:
    texts = ["the cat", None, "", "  ", "a dog", "nul\0 inside", "naïve 日本"]
    write(tmp_path / "in" / "a.parquet", texts, 3, number=list(range(len(texts))))
    category = pa.array(["a dog", "the cat", "a dog"]).dictionary_encode()
    pq.write_table(pa.table({"text": category}), tmp_path / "in" / "b.parquet")
    summary = encode_folder(model_folder, str(tmp_path / "in"), str(tmp_path / "out"), work=InThisProcess(model_folder))
    assert summary.blank == 3
    assert "3 rows without text have zero embeddings; not text: 1 that are not text; repaired: 1 NUL" in str(summary)
    assert_as_local(model_folder, tmp_path / "in", tmp_path / "out")


def test_a_dimension_of_int8_takes_about_a_byte(model_folder, tmp_path) -> None:
    rng = np.random.default_rng(3)
    texts = [" ".join(rng.choice(["the", "cat", "dog", "sat"], 9)) for _ in range(4000)]
    write(tmp_path / "in" / "a.parquet", texts)
    how = {"precision": "int8", "work": InThisProcess(model_folder)}
    encode_folder(model_folder, str(tmp_path / "in"), str(tmp_path / "out"), **how)
    with pq.ParquetFile(tmp_path / "out" / "a-00000.parquet") as part:
        size = part.metadata.row_group(0).column(1).total_uncompressed_size
    assert size < 1.3 * 4000 * 16


@pytest.mark.usefixtures("small_shards")
def test_stores_that_fsspec_knows_are_read_and_written(model_folder, folder) -> None:
    memory = fsspec.filesystem("memory")
    memory.put(f"{folder}/", "/bucket/in/", recursive=True)
    encode_folder(model_folder, "memory://bucket/in", "memory://bucket/out", work=InThisProcess(model_folder))
    found = table("memory://bucket/out")
    model = Banyan.from_pretrained(model_folder)
    assert len(set(found.column("text").to_pylist())) == found.num_rows == 150
    assert bits(found) == model.encode(found.column("text").to_pylist()).tobytes()
    assert not memory.exists(f"/bucket/out/{UNFINISHED}")
    assert encode_folder(model_folder, f"file://{folder}", "memory://bucket/second", work=InThisProcess(model_folder))


def test_a_part_that_was_not_finished_does_not_get_its_name(tmp_path: Path) -> None:
    out = Folder(str(tmp_path / "out"))

    def fail() -> None:
        with out.written("a.parquet") as file:
            file.write(b"half")
            raise OSError("no space")

    with pytest.raises(OSError, match="no space"):
        fail()
    assert [path for path in (tmp_path / "out").rglob("*") if path.is_file()] == []


# --- Resuming --------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("small_shards")
def test_a_stopped_run_resumes_with_what_is_left(model_folder, folder, tmp_path) -> None:
    out = tmp_path / "out"
    first = InThisProcess(model_folder, stop=4)
    with pytest.raises(KeyboardInterrupt, match="continue with --resume"):
        encode_folder(model_folder, str(folder), str(out), work=first)
    with pytest.raises(BanyanError, match="holds an unfinished run: --resume"):
        encode_folder(model_folder, str(folder), str(out), work=first)
    cut = out / first.done[0]  # a store that cannot rename at once may leave half a part
    cut.write_bytes(cut.read_bytes()[:-9])
    second = InThisProcess(model_folder)
    summary = encode_folder(model_folder, str(folder), str(out), resume=True, work=second)
    assert second.done == [first.done[0], *(part for part in second.done[1:])]
    assert not set(second.done) & set(first.done[1:])
    assert len(second.done) == 9 - 3
    assert 0 < summary.resumed < summary.rows
    assert_as_local(model_folder, folder, out)
    write(folder / "c.parquet", ["a new file"])
    third = InThisProcess(model_folder)
    encode_folder(model_folder, str(folder), str(out), resume=True, work=third)
    assert third.done == ["c-00000.parquet"]
    assert_as_local(model_folder, folder, out)


def test_what_does_not_belong_is_refused_in_one_sentence(model_folder, folder, tmp_path) -> None:
    out, work = tmp_path / "out", InThisProcess(model_folder)

    def refused(told: str, source: Path = folder, target: Path = out, **how: Any) -> None:
        with pytest.raises(BanyanError, match=told) as error:
            encode_folder(model_folder, str(source), str(target), work=work, **how)
        assert "\n" not in str(error.value)

    encode_folder(model_folder, str(folder), str(out), work=work)
    refused("holds a finished run: --resume completes it, --overwrite starts again")
    refused("it was written with a different normalize; use --overwrite", normalize=True, resume=True)
    encode_folder(model_folder, str(folder), str(out), work=work, normalize=True, overwrite=True)
    assert_as_local(model_folder, folder, out, normalize=True)
    write(folder / "b.parquet", ["another text"])
    refused("b-00000.parquet was made from a file or column that has changed or is gone", normalize=True, resume=True)
    refused("b.parquet has no column 'title'; its columns are text", target=tmp_path / "new", column="title")
    refused("contains the other", target=folder / "out")
    refused("there is no .parquet file in the folder", source=tmp_path / "nowhere", target=tmp_path / "new")
    (out / "mine.parquet").write_bytes(b"precious")
    refused("mine.parquet was not written by banyan", overwrite=True)
    assert (out / "mine.parquet").read_bytes() == b"precious"


def test_a_bad_file_is_named_when_the_others_are_done(model_folder, folder, tmp_path) -> None:
    good = (folder / "b.parquet").read_bytes()
    (folder / "b.parquet").write_bytes(good[:-20])
    page = bytearray((folder / "a.parquet").read_bytes())
    page[4:40] = b"\xff" * 36  # the footer is whole, a page is not
    (folder / "a.parquet").write_bytes(page)
    out = tmp_path / "out"
    with pytest.raises(BanyanError) as error:
        encode_folder(model_folder, str(folder), str(out), work=InThisProcess(model_folder))
    told = str(error.value)
    assert f"cannot read {folder}/b.parquet as Parquet" in told
    assert f"cannot read {folder}/a.parquet as Parquet" in told
    assert told.endswith("; all other files are encoded: repair or remove these, then use --resume")
    assert "\n" not in told
    assert [str(path.relative_to(out)) for path in out.rglob("*.parquet")] == ["year=1900/a-00000.parquet"]
    assert not (out / FINISHED).exists()
    (folder / "a.parquet").unlink()
    (folder / "b.parquet").write_bytes(good)
    assert encode_folder(model_folder, str(folder), str(out), resume=True, work=InThisProcess(model_folder)).rows == 100


def test_a_file_that_changes_meanwhile_gives_no_part(model_folder, folder, tmp_path) -> None:
    work = InThisProcess(model_folder)

    def meddling(job: EncodingJob, todo: Sequence[ParquetShard], files: dict[str, bytes]) -> Iterator[ShardResult]:
        write(folder / "a.parquet", [f"meddled {row}" for row in range(50)], 10)
        yield from work(job, todo, files)

    with pytest.raises(BanyanError, match=r"a.parquet changed while it was being read: run the command again"):
        encode_folder(model_folder, str(folder), str(tmp_path / "out"), work=meddling)
    assert not (tmp_path / "out" / "a-00000.parquet").exists()


def test_rows_that_are_missing_in_the_end_are_noticed(model_folder, folder, tmp_path) -> None:
    def losing(job: EncodingJob, todo: Sequence[ParquetShard], files: dict[str, bytes]) -> Iterator[ShardResult]:
        yield from InThisProcess(model_folder)(job, todo[1:], files)

    with pytest.raises(BanyanError, match=r"a-00000.parquet is not what was written"):
        encode_folder(model_folder, str(folder), str(tmp_path / "out"), work=losing)
    assert not (tmp_path / "out" / FINISHED).exists()


@pytest.mark.parametrize(
    ("arguments", "told"),
    [(["x", "y"], "takes one folder of Parquet files, not 2"), (["x", "--device", "cuda"], "remove --device cuda")],
)
def test_the_command_says_what_it_cannot_do(arguments, told, capsys) -> None:
    assert main(["encode", "model", *arguments, "-o", "out", "--engine", "ray"]) == 1
    assert told in capsys.readouterr().err


def test_without_ray_the_command_says_what_to_install(monkeypatch, capsys) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    assert main(["encode", "model", "in", "-o", "out", "--engine", "ray"]) == 1
    assert f"needs ray: {pip_install('scale')}" in capsys.readouterr().err


# --- With Ray --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def many_rows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Long enough to be killed in the middle of: each text is there once."""
    folder = tmp_path_factory.mktemp("many") / "in"
    rng = np.random.default_rng(2)
    words = np.array("the a cat dog sat slept on mat house tree green runs slowly quickly over under".split())
    tails = [" ".join(rng.choice(words, 30)) for _ in range(500)]
    for file in range(8):
        write(folder / f"{file}.parquet", [f"{file} {row} {tails[row % 500]}" for row in range(10_000)], 5000)
    return folder


@pytest.fixture(scope="module")
def cluster() -> Iterator[dict[str, str]]:
    """A Ray that is there already: the environment of programs that use it."""
    token = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    environment = os.environ | token | {"RAY_USAGE_STATS_ENABLED": "0"}
    with subprocess.Popen(
        [sys.executable, str(CLUSTER)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        yield token | {"RAY_ADDRESS": process.stdout.readline().strip()}
        process.stdin.close()
        process.wait(PATIENCE)


def start(model: Path, folder: Path, out: Path, *more: str, **environment: str) -> subprocess.Popen[str]:
    command = ["encode", str(model), str(folder), "-o", str(out), "--engine", "ray", *more]
    inherited = {name: value for name, value in os.environ.items() if name != "RAY_ADDRESS"}
    return subprocess.Popen(
        [sys.executable, "-m", "banyan", *command], stderr=subprocess.PIPE, text=True, env=inherited | environment
    )


def writers(out: Path) -> dict[int, str]:
    """Processes that are writing a part now."""
    found = {}
    for link in Path("/proc").glob("[0-9]*/fd/*"):
        try:
            target = os.readlink(link)
        except OSError:
            continue
        if target.startswith(f"{out / UNFINISHED}/"):
            found[int(link.parts[2])] = target
    return found


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc to see which worker writes what")
def test_each_row_once_although_workers_are_killed_while_they_write(model_folder, many_rows, tmp_path) -> None:
    out, killed = tmp_path / "out", set()
    process = start(model_folder, many_rows, out, BANYAN_THREADS="2")
    deadline = time.monotonic() + PATIENCE
    while len(killed) < 2 and process.poll() is None and time.monotonic() < deadline:
        for pid in writers(out).keys() - killed:
            os.kill(pid, signal.SIGKILL)
            killed.add(pid)
        time.sleep(0.02)
    errors = process.communicate(timeout=PATIENCE)[1]
    assert process.returncode == 0, errors
    assert len(killed) >= 2, "the workers were done before they could be killed: more rows are needed"
    assert "80,000 rows" in errors
    assert len(set(table(out).column("text").to_pylist())) == 80_000
    assert_as_local(model_folder, many_rows, out)


def test_a_killed_driver_is_taken_up_on_a_cluster(cluster, model_folder, many_rows, tmp_path) -> None:
    bad = tmp_path / "in"
    shutil.copytree(many_rows, bad)
    (bad / "bad.parquet").write_bytes(b"PAR1 this is no Parquet PAR1")
    out = tmp_path / "out"
    process = start(model_folder, bad, out, **cluster)
    deadline = time.monotonic() + PATIENCE
    while not list(out.glob("*.parquet")) and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)
    process.kill()
    process.communicate(timeout=PATIENCE)
    done = {path: path.stat().st_mtime_ns for path in out.glob("*.parquet")}
    assert 0 < len(done) < 8
    resumed = start(model_folder, bad, out, "--resume", **cluster)
    errors = resumed.communicate(timeout=PATIENCE)[1]
    assert resumed.returncode == 1
    assert f"banyan: cannot read {bad}/bad.parquet as Parquet" in errors
    assert "Traceback" not in errors
    assert len(list(out.glob("*.parquet"))) == 8
    (bad / "bad.parquet").unlink()
    last = start(model_folder, bad, out, "--resume", **cluster)
    assert "80,000 rows from an earlier run" in last.communicate(timeout=PATIENCE)[1]
    assert {path: path.stat().st_mtime_ns for path in done} == done
    assert_as_local(model_folder, bad, out)


def test_what_the_documents_show_runs(cluster, model_folder, folder, tmp_path) -> None:
    page = (ROOT / "docs" / "scaling.md").read_text(encoding="utf-8")
    (tmp_path / "model").symlink_to(model_folder)
    folder.rename(tmp_path / "corpus")
    environment = os.environ | cluster | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    for command in re.findall(r"^banyan encode model/ corpus/.*$", page, re.MULTILINE):
        done = subprocess.run(shlex.split(command), cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    blocks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    run = subprocess.run([sys.executable, "-"], input="\n".join(blocks), cwd=tmp_path, env=environment, check=True,
                         capture_output=True, text=True)  # fmt: skip
    resumed = "wrote vectors: 150 rows of 16 dimensions in 3 parts, 150 rows from an earlier run"
    assert run.stdout.splitlines() == ["150", resumed]
