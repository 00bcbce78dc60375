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
    # Any bytes but NUL; the oracle is Python's own iteration over a file
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
    ("name", "raw", "place"),
    [
        ("empty.txt", b"", "empty.txt"),
        ("empty.txt.gz", b"", "empty.txt.gz"),
        ("nul.txt", b"ok\nab\0c\n", "nul.txt:2"),
        ("utf16.txt", "a".encode("utf-16"), "utf16.txt:1"),  # UTF-16 has NUL bytes in Latin letters
        ("bad.txt", b"ok\na\xff\n", "bad.txt:2"),  # Latin 1
        ("cut.txt", b"ok\n\xe2\x82", "cut.txt:2"),  # a character that the end of the file cuts
    ],
)
def test_bad_bytes_are_named_with_their_place(write, problem, name, raw, place, assert_message):
    path = write(name, raw)

    assert_message(problem(lambda: list(text_lines(path))), place)


@pytest.mark.costly
def test_truncated_gzip(write, tmp_path, problem, assert_message):
    # random-looking lines, so that the first ones are flushed before the cut
    whole = gzip.compress("".join(f"{n * n}\n" for n in range(30_000)).encode())
    (tmp_path / "cut.gz").write_bytes(whole[: len(whole) // 2])

    text = problem(lambda: list(read_lines(tmp_path / "cut.gz")))

    assert text.startswith("cut.gz:")
    assert_message(text, "cut.gz:15489")
    # every line before the cut is read: zlib finds no more of them
    prefix = zlib.decompressobj(31).decompress(whole[: len(whole) // 2])
    assert int(text.rpartition(" ")[2]) == prefix.count(b"\n")


def test_broken_gzip(tmp_path, problem, assert_message):
    whole = bytearray(gzip.compress(b"line\n" * 1000))
    whole[-6] ^= 0xFF  # the checksum
    (tmp_path / "broken.gz").write_bytes(bytes(whole))

    assert_message(problem(lambda: list(read_lines(tmp_path / "broken.gz"))), "broken.gz:1000")


def test_plain_text_with_a_gzip_name(tmp_path, problem, assert_message):
    (tmp_path / "plain.gz").write_bytes(b"plain\n")

    assert_message(problem(lambda: list(read_lines(tmp_path / "plain.gz"))), "plain.gz")


def test_absent_files_and_folders(tmp_path, problem, assert_message):
    assert problem(lambda: list(read_lines(tmp_path / "no.txt"))) == "no.txt: no such file"
    assert_message(problem(lambda: list(read_lines(tmp_path))), "FOLDER")


def test_find_file_refuses_to_choose(write, tmp_path, problem, assert_message):
    assert find_file(tmp_path, "a.txt") is None
    zipped = write("a.txt.gz", b"x")
    assert find_file(tmp_path, "a.txt") == zipped
    write("a.txt", b"y")

    assert_message(problem(lambda: find_file(tmp_path, "a.txt")), "FOLDER")


def test_plain_suffix(tmp_path):
    names = ["a.jsonl", "a.JSONL.GZ", "a.b.csv.gz", "a"]
    assert [plain_suffix(tmp_path / name) for name in names] == [".jsonl", ".jsonl", ".csv", ""]
