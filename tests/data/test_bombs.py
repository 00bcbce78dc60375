"""Gzip that makes gigabytes of megabytes: a line without an end is refused in bounded memory."""

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
from ragbench.data.files.trec_files import read_run
from ragbench.errors import DataError

used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (600 << 20),) * 2)
how, path = sys.argv[1:]
try:
    if how == "lines":
        for _ in read_lines(path): pass
    else:
        read_run(path)
except DataError as error:
    print(error)
"""


@pytest.fixture
def bomb(tmp_path):
    """4 MB that become 4 GB without a line end: gzip lets files follow one another."""
    path = tmp_path / "bomb.gz"
    path.write_bytes(gzip.compress(b"x" * (4 << 20)) * 1024)
    return path


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="reads its size there")
@pytest.mark.parametrize("how", ["lines", "run"])
def test_a_line_without_an_end_is_refused_within_bounded_memory(bomb, warm, how, assert_message):
    assert bomb.stat().st_size < 20 << 20

    process = warm.popen(["-c", CHILD, how, str(bomb)], stderr=subprocess.PIPE)
    process.stdin.close()
    with process.stdout, process.stderr:
        output, errors = process.stdout.read().decode(), process.stderr.read().decode()

    assert process.wait() == 0, errors[-500:]
    assert "MemoryError" not in output + errors
    assert_message(output, "TMP/bomb.gz:1")


@pytest.mark.parametrize("text", [b"x", b"\0"])
def test_standard_input_is_held_to_the_same(monkeypatch, text, assert_message):
    monkeypatch.setattr(lines, "LONGEST_LINE", 1 << 20)
    packed = io.BufferedReader(io.BytesIO(gzip.compress(text * (2 << 20))))
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(packed, encoding="utf-8"))

    with pytest.raises(DataError) as caught:
        list(lines.read_lines(lines.standard_input()))
    assert_message(caught.value)


def test_what_repeats_itself_is_read(tmp_path, monkeypatch):
    # The limit is that of a line: the lines of this file are longer together
    monkeypatch.setattr(lines, "LONGEST_LINE", 1 << 20)
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress((b"q 0 d 1 " * 999 + b"q 0 d 1\n") * 1_000))

    assert sum(len(line) for _, line in lines.read_lines(path)) == 8_000_000
