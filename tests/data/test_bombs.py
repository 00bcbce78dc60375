"""Gzip that makes gigabytes of megabytes: it ends with an error, within bounded memory."""

import gzip
import io
import os
import subprocess

import pytest

from ragbench.data.files import lines
from ragbench.errors import DataError

pytestmark = pytest.mark.slow  # a second in all: each bomb in a process of its own

CHILD = """
import resource, sys
import ragbench as rb
from ragbench.data.files.lines import read_lines
from ragbench.data.files.trec_files import read_qrels, read_run
from ragbench.errors import DataError

used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (600 << 20),) * 2)
how, path = sys.argv[1:]
try:
    if how == "lines":
        for _ in read_lines(path): pass
    elif how == "qrels":
        read_qrels(path)
    else:
        read_run(path)
except DataError as error:
    print(error)
"""
CONTENTS = {
    "one line": b"x" * (1 << 20),
    "empty lines": (b" " * 127 + b"\n") * (1 << 13),
    "records": (b'{"_id": "d", "text": "' + b"the same " * 100 + b'"}\n') * (1 << 10),
    "judgements": b"q 0 d 1\n" * (1 << 17),
}


@pytest.fixture
def bomb(tmp_path):
    """4 MB that become 4 GB: gzip lets files follow one another."""

    def made(content, times=64):
        path = tmp_path / "bomb.gz"
        path.write_bytes(gzip.compress(content * 4) * (16 * times))
        return path

    return made


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="reads its size there")
@pytest.mark.parametrize(
    ("how", "content"),
    [("lines", "one line"), ("lines", "records"), ("run", "empty lines"), ("qrels", "judgements")],
)
def test_a_bomb_ends_within_bounded_memory(bomb, warm, content, how):
    path = bomb(CONTENTS[content])
    assert path.stat().st_size < 20 << 20

    process = warm.popen(["-c", CHILD, how, str(path)], stderr=subprocess.PIPE)
    process.stdin.close()
    with process.stdout, process.stderr:
        said, errors = process.stdout.read().decode(), process.stderr.read().decode()

    assert process.wait() == 0, errors[-500:]
    assert "MemoryError" not in said + errors
    assert "bomb.gz" in said
    if how == "lines":
        assert "gzip has made " in said
        assert "allowed: 200 bytes of one, beyond 64 MiB" in said


def test_what_repeats_itself_is_read_up_to_64_mib(bomb):
    path = bomb((b"q 0 d 1 " * 999 + b"q 0 d 1\n") * 10, times=10)

    assert sum(len(line) for _, line in lines.read_lines(path)) == 51_200_000


def test_honest_text_is_read_however_long(tmp_path, monkeypatch):
    monkeypatch.setattr(lines, "FREE_BYTES", 1000)
    text = "".join(f"query {i % 97} document {i} rank {i % 13}\n" for i in range(50_000)).encode()
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress(text))

    assert b"".join(line for _, line in lines.read_lines(path)) == text


def test_standard_input_is_held_to_the_same(bomb, monkeypatch):
    packed = io.BufferedReader(io.BytesIO(bomb(b"x" * (1 << 20)).read_bytes()))
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(packed, encoding="utf-8"))

    with pytest.raises(DataError, match="-: gzip has made"):
        list(lines.read_lines(lines.standard_input()))


def test_parquet_that_repeats_one_text_ends_within_bounded_memory(tmp_path):
    """50 kB that become 20 GB: a million characters, stored once, in each of 20,000 rows."""
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    from ragbench.data.files.rows import read_parquet

    path, n = tmp_path / "bomb.parquet", 20_000
    same = pa.DictionaryArray.from_arrays(pa.array([0] * n, pa.int32()), ["x" * 1_000_000])
    parquet.write_table(pa.table({"answer": same}), path, compression="zstd", store_schema=False)
    assert path.stat().st_size < 100_000
    before = pa.default_memory_pool().max_memory()

    with pytest.raises(DataError, match=r"Parquet has made .* bytes of .*beyond 64 MiB"):
        list(read_parquet(path, "dataset"))
    assert pa.default_memory_pool().max_memory() <= max(before, 400 << 20)


def test_parquet_that_says_so_itself_is_refused_at_once(tmp_path, monkeypatch):
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    from ragbench.data.files import rows

    path = tmp_path / "bomb.parquet"
    table = pa.table({"answer": ["x" * 100_000 + str(n) for n in range(100)]})
    parquet.write_table(table, path, compression="zstd", use_dictionary=False)
    monkeypatch.setattr(rows, "FREE_BYTES", 1_000)

    with pytest.raises(DataError, match="Parquet has made"):
        next(rows.read_parquet(path, "dataset"))
