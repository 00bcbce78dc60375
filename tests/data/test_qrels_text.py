"""Regular qrels, read quickly: as line by line, or not at all."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench.data.files import judgements
from ragbench.data.files.judgements import read_judgements, read_uniform_qrels
from ragbench.data.files.trec_files import read_qrels
from ragbench.errors import DataError

rows = st.lists(
    st.tuples(
        st.sampled_from(["q", "q1", "a-long-query-id", "\u00fc", "\udcff"]),
        st.sampled_from(["0", "Q0", "1"]),
        st.sampled_from(["d", "d1", "12345678", "123456789", "\u00e9", "\udcfe", "a#b"]),
        st.sampled_from(["0", "1", "-1", "3", "99999999"]),
    ),
    min_size=1,
    max_size=25,
)


def outcome(read, path):
    try:
        qrels = read(path)
    except DataError as error:
        return str(error)
    return list(qrels.to_dict().items()), [list(row.items()) for row in qrels.to_dict().values()]


@settings(max_examples=30, deadline=None)  # a busy disk
@given(
    rows, st.sampled_from([" ", "\t"]), st.sampled_from(["\n", "\r\n"]), st.booleans(),
    st.integers(1, 60), st.integers(1, 9),
)  # fmt: skip
def test_any_qrels_are_read_as_line_by_line(
    tmp_path_factory, lines, gap, end, ordered, chunk_bytes, rows_at_once
):
    path = tmp_path_factory.getbasetemp() / "qrels"
    lines = sorted(lines) if ordered else lines
    text = "".join(gap.join(line) + end for line in lines)
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(judgements, "_CHUNK_BYTES", chunk_bytes)
        patch.setattr(judgements, "_ROWS_AT_ONCE", rows_at_once)
        qrels = outcome(read_qrels, path)

    assert qrels == outcome(lambda name: read_judgements(name).qrels(), path)


@pytest.mark.parametrize(
    "text",
    [
        b"q 0 d 1\nq1 0 d 2\nq1 0 e -1\n",
        b"q 0 d 1",
        b"\xef\xbb\xbfq 0 d 1\n",
        b"q\t0\td\t1\n",
        b"q 0 d 1\r\nq 0 e 2\r\n",
    ],
)
def test_regular_files_take_the_quick_way(write, text):
    assert read_uniform_qrels(write("qrels", text)) is not None


@pytest.mark.parametrize(
    "text",
    [
        b"q 0\rd 1\n", b"q 0 d  1\n", b"q 0 d 1\n\n", b"#q 0 d 1\n", b"q 0 d 1.0\n",
        b"q 0 d 123456789\n", b"q 0 d 1\nq1 0 d 1\nq 0 e 1\n", b"q 0 d 1\nq 1 d 1\n",
        b"q 0 d\n", b"q 0 d 1 x\n", b"q 0 d\0 1\n", b"", b"\n", b"\xff\xfe",
    ],
)  # fmt: skip
def test_others_are_left_to_the_careful_way(write, text):
    assert read_uniform_qrels(write("qrels", text)) is None
