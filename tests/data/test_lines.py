"""Lines of plain and gzip files, and every way in which their bytes can be wrong."""

import gzip
import io
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragbench.data.files.lines import find_file, plain_suffix, read_lines, text_lines

NO_TEXT = "allowed: text; this may be UTF-16, or a binary file"


@given(st.lists(st.binary().map(lambda raw: raw.translate(None, b"\0\n")), min_size=1))
def test_agrees_with_the_file_iterator(parts):
    """Any bytes but NUL; the oracle is Python's own iteration over a file."""
    raw = b"x" + b"\n".join(parts)

    lines = list(read_lines(io.BytesIO(raw)))

    assert [line for _, line in lines] == list(io.BytesIO(raw))
    assert [number for number, _ in lines] == list(range(1, len(lines) + 1))


@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz"])
def test_bom_crlf_and_missing_last_newline(write, name):
    path = write(name, b"\xef\xbb\xbffirst\r\n\r\nlast")

    assert list(text_lines(path)) == [(1, "first\r\n"), (2, "\r\n"), (3, "last")]


def test_gzip_is_told_by_its_first_bytes(write):
    path = write("renamed.txt", gzip.compress(b"inside\n"))

    assert list(text_lines(path)) == [(1, "inside\n")]


def test_a_stream_stays_open():
    stream = io.BytesIO(b"line\n")

    assert list(text_lines(stream)) == [(1, "line\n")]
    assert not stream.closed


@pytest.mark.parametrize(
    ("name", "raw", "expected"),
    [
        ("empty.txt", b"", "empty.txt: the file is empty"),
        ("empty.txt.gz", b"", "empty.txt.gz: the file is empty"),
        ("nul.txt", b"ok\nab\0c\n", f"nul.txt:2: NUL byte at column 3; {NO_TEXT}"),
        ("utf16.txt", "a".encode("utf-16"), f"utf16.txt:1: NUL byte at column 4; {NO_TEXT}"),
        ("bad.txt", b"ok\na\xff\n", "bad.txt:2: bad UTF-8: 0xff at byte 2 of the line"),
        ("cut.txt", b"ok\n\xe2\x82", "cut.txt:2: bad UTF-8: 0xe2 0x82 at byte 1 of the line"),
    ],
)
def test_bad_bytes_are_named_with_their_place(write, problem, name, raw, expected):
    path = write(name, raw)

    assert problem(lambda: list(text_lines(path))) == expected


@pytest.mark.costly
def test_truncated_gzip(write, tmp_path, problem):
    # random-looking lines, so that the first ones are flushed before the cut
    whole = gzip.compress("".join(f"{n * n}\n" for n in range(30_000)).encode())
    (tmp_path / "cut.gz").write_bytes(whole[: len(whole) // 2])

    text = problem(lambda: list(read_lines(tmp_path / "cut.gz")))

    assert text.startswith("cut.gz:")
    assert "truncated gzip after line " in text
    # every line before the cut is read: zlib finds no more of them
    before = zlib.decompressobj(31).decompress(whole[: len(whole) // 2])
    assert int(text.rpartition(" ")[2]) == before.count(b"\n")


def test_broken_gzip(tmp_path, problem):
    whole = bytearray(gzip.compress(b"line\n" * 1000))
    whole[-6] ^= 0xFF  # the checksum
    (tmp_path / "broken.gz").write_bytes(bytes(whole))

    assert "broken gzip (CRC check failed" in problem(
        lambda: list(read_lines(tmp_path / "broken.gz"))
    )


def test_plain_text_with_a_gzip_name(tmp_path, problem):
    (tmp_path / "plain.gz").write_bytes(b"plain\n")

    assert problem(lambda: list(read_lines(tmp_path / "plain.gz"))) == (
        "plain.gz: not a gzip file, though its name ends in .gz"
    )


def test_absent_files_and_folders(tmp_path, problem):
    assert problem(lambda: list(read_lines(tmp_path / "no.txt"))) == "no.txt: no such file"
    assert problem(lambda: list(read_lines(tmp_path))) == "FOLDER: a folder, expected a file"


def test_find_file_refuses_to_choose(write, tmp_path, problem):
    assert find_file(tmp_path, "a.txt") is None
    zipped = write("a.txt.gz", b"x")
    assert find_file(tmp_path, "a.txt") == zipped
    write("a.txt", b"y")

    assert problem(lambda: find_file(tmp_path, "a.txt")) == (
        "FOLDER: both a.txt and a.txt.gz exist; allowed: one of the two"
    )


def test_plain_suffix(tmp_path):
    names = ["a.jsonl", "a.JSONL.GZ", "a.b.csv.gz", "a"]
    assert [plain_suffix(tmp_path / name) for name in names] == [".jsonl", ".jsonl", ".csv", ""]
