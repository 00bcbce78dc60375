"""Run files and qrels: against pytrec_eval's parsers, awkward lines, and every bad field."""

import gzip
import io
import math
import tracemalloc
from unittest import mock

import pytest
import pytrec_eval
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench.data.files import trec_files
from ragbench.data.files.trec_files import format_run, read_qrels, read_run, run_lines, write_run
from ragbench.errors import DataError
from ragbench.types import Run

# ids of a run file: anything but ASCII white space and NUL; lone surrogates stand for raw bytes
raw_bytes = st.integers(0xDC80, 0xDCFF).map(chr)
awkward = st.sampled_from("ab#\ufeff\x85\u2028\u00a0")
anything = st.characters(exclude_categories=["Cs"], exclude_characters=" \t\n\r\v\f\0")
ids = st.text(awkward | anything | raw_bytes, min_size=1, max_size=5).filter(
    # raw bytes that happen to be UTF-8 come back as its characters
    lambda name: name == name.encode("utf-8", "surrogateescape").decode("utf-8", "surrogateescape")
)
scores = st.floats(allow_nan=False) | st.sampled_from([0.0, 1.0, 2.5])
runs = st.dictionaries(ids, st.dictionaries(ids, scores, min_size=1, max_size=5), max_size=4)
plain_ids = st.text("abé#0", min_size=1, max_size=3).filter(lambda name: name[0] != "#")


def read(raw):
    data = raw.encode("utf-8", "surrogateescape") if isinstance(raw, str) else raw
    return read_run(io.BytesIO(data))


@pytest.mark.costly
@settings(max_examples=15)
@given(runs)
def test_a_written_run_reads_back_exactly(scores_by_query):
    run = read(format_run(scores_by_query, tag="mine"))

    assert run.to_dict() == scores_by_query
    assert run.name == ("mine" if scores_by_query else "run")
    assert not run.duplicates


@pytest.mark.costly
@settings(max_examples=15)
@given(runs, st.booleans(), st.integers(1, 40))
def test_lines_are_those_of_a_loop_over_the_hits(scores_by_query, from_file, table_bytes):
    # The number of rows per block, and a file or a mapping as source, make no difference
    run = Run.from_dict(scores_by_query, "mine")
    if from_file and scores_by_query:
        run = read(format_run(run))
    refused = ("#", "\ufeff")
    lines = [
        f"{' ' * query.startswith(refused)}{query} Q0 {document} {rank} {score!r} mine\n"
        for query in scores_by_query
        for rank, (document, score) in enumerate(run.ranking(query), start=1)
    ]

    with (
        mock.patch.object(trec_files, "_TABLE_BYTES", table_bytes),
        mock.patch.object(trec_files, "_LINES_AT_ONCE", 1 + table_bytes // 10),
    ):
        text = format_run(run)

    assert text == ("".join(lines) or "# a run without hits\n")


@settings(max_examples=15)
@given(
    st.dictionaries(
        plain_ids, st.dictionaries(plain_ids, scores, min_size=1, max_size=5), min_size=1
    )
)
def test_pytrec_eval_reads_what_we_write(run):
    text = format_run(run)

    assert pytrec_eval.parse_run(io.StringIO(text)) == run
    assert read(text).to_dict() == run


@settings(max_examples=15)
@given(
    st.dictionaries(
        plain_ids,
        st.dictionaries(plain_ids, st.integers(-3, 5), min_size=1, max_size=5),
        min_size=1,
    )
)
def test_qrels_agree_with_pytrec_eval(qrels):
    text = "".join(f"{q} 0\t{d}  {g}\n" for q, judged in qrels.items() for d, g in judged.items())

    read = read_qrels(io.BytesIO(text.encode()))

    assert read.to_dict() == pytrec_eval.parse_qrel(io.StringIO(text)) == qrels


def test_a_written_run_is_in_trec_eval_order(tmp_path):
    run = Run.from_dict({"q2": {"a": 1.0, "c": 1.0, "b": 2.0}, "q1": {"z": -math.inf}}, name="bm25")
    write_run(run, tmp_path / "new" / "run.trec")

    assert (tmp_path / "new" / "run.trec").read_text() == (
        "q2 Q0 b 1 2.0 bm25\nq2 Q0 c 2 1.0 bm25\nq2 Q0 a 3 1.0 bm25\nq1 Q0 z 1 -inf bm25\n"
    )


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param(b"q Q0 d 1 0.5 t\n", id="plain"),
        pytest.param(b"q\tQ0\td\t1\t0.5\tt\n", id="tabs"),
        pytest.param(b"  q   Q0 \t d  1   0.5   t  \r\n", id="runs of spaces, CRLF"),
        pytest.param(b"q Q0 d 1 0.5 t", id="no last newline"),
        pytest.param(b"\n \nq Q0 d 1 0.5 t\n\n", id="blank lines"),
        pytest.param(b"# a comment\nq Q0 d 1 0.5 t\n#q Q0 e 1 0.5 t\n", id="comments"),
        pytest.param(b"\xef\xbb\xbfq Q0 d 1 0.5 t\n", id="byte order mark"),
        pytest.param(b"q Q0 d notarank 5e-1 t extra words\n", id="rank unread, more columns"),
        pytest.param(gzip.compress(b"q Q0 d 1 0.5 t\n"), id="gzip"),
    ],
)
def test_awkward_but_fine(write, raw):
    run = read_run(write("run.txt", raw))

    assert (run.to_dict(), run.name) == ({"q": {"d": 0.5}}, "t")


def test_ids_are_bytes_and_may_hold_a_hash(tmp_path):
    raw = b'q#1 Q0 doc#2 1 2.0 t\nq#1 Q0 \xff\xfe 2 1.0 t\nq#1 Q0 "x 3 0.5 t\n'

    run = read(raw)

    assert list(run.to_dict()["q#1"]) == ["doc#2", "\udcff\udcfe", '"x']
    write_run(run, tmp_path / "again.txt")
    assert (tmp_path / "again.txt").read_bytes() == raw


@pytest.mark.parametrize("query", ["#1", "\ufeffq", "#"])
def test_query_ids_that_a_line_cannot_start_with(query):
    run = {query: {"d": 1.0}}

    assert read(format_run(run)).to_dict() == run


def test_interleaved_queries_and_infinite_scores():
    run = read("a Q0 d 1 inf t\nb Q0 d 1 -inf t\na Q0 e 2 1e400 t\n")

    assert run.to_dict() == {"a": {"d": math.inf, "e": math.inf}, "b": {"d": -math.inf}}


def test_a_repeated_document_counts_once_at_its_best():
    run = read("a Q0 d 1 1 t\na Q0 d 2 3 t\na Q0 d 3 2 t\nb Q0 d 1 1 t\n")

    assert run.to_dict() == {"a": {"d": 3.0}, "b": {"d": 1.0}}
    assert run.duplicates == {"a": 2}


@pytest.mark.parametrize(
    "line",
    [
        "q12 Q0 d7 3 11.2",
        "q",
        "q Q0 d 1 NaN t",  # no order among NaN
        "q Q0 d 1 high t",
        "q Q0 d 1 1_0 t",  # Python reads it as 10
        "q Q0 d 1 1,5 t",  # a decimal comma
        "q Q0 d\0 1 1 t",
    ],
)
def test_bad_run_lines(write, problem, line, assert_message):
    path = write("run.txt", f"# head\nq Q0 ok 1 1 t\n\n{line}\n")

    assert_message(problem(lambda: read_run(path)), "run.txt:4")


@pytest.mark.parametrize(
    "line",
    [
        "q 0 d",
        "q Q0 d 1 0.5 t",  # a run in place of judgements
        "q 0 d x",
        "q 0 d 1.5",
        "q 0 d 1.0",  # a float, also a whole one
        "q 0 d 1_0",  # Python reads it as 10
        "q 0 d 2147483648",  # beyond 32 bits
        "q 0 d " + "9" * 5000,  # int() refuses so many digits
        "q 0 ok 1",  # the same pair as in line 2
    ],
)
def test_bad_qrels_lines(write, problem, line, assert_message):
    path = write("qrels.txt", f"# head\nq 0 ok 1\n\n{line}\n")

    assert_message(problem(lambda: read_qrels(path)), "qrels.txt:4")


def test_the_largest_and_smallest_grades():
    qrels = read_qrels(io.BytesIO(b"q 0 a 2147483647\nq 0 b -2147483647\nq 0 c +1\n"))

    assert qrels.to_dict() == {"q": {"a": 2**31 - 1, "b": -(2**31) + 1, "c": 1}}


def test_iterations_tell_judgements_apart():
    # Diversity qrels hold the subtopic there; a pair counts once, at its best grade
    qrels = read_qrels(io.BytesIO(b"q 1 d 0\nq 2 d 3\nq 3 d 1\n"))

    assert qrels.to_dict() == {"q": {"d": 3}}


def test_the_beir_table_is_told_by_its_header():
    qrels = read_qrels(io.BytesIO(b"query-id\tcorpus-id\tscore\r\nq\td\t2\r\n"))

    assert qrels.to_dict() == {"q": {"d": 2}}


@pytest.mark.parametrize(
    ("read_file", "form"), [(read_run, "q Q0 d{} 1 1 t\n"), (read_qrels, "q 0 d{} 1\n")]
)
def test_files_without_content(write, problem, tmp_path, read_file, form, assert_message):
    assert_message(problem(lambda: read_file(write("empty.txt", b""))), "empty.txt")
    assert problem(lambda: read_file(write("blank.txt", b"\n\n"))).startswith("blank.txt: no ")
    assert problem(lambda: read_file(tmp_path / "absent")) == "absent: no such file"
    whole = gzip.compress("".join(form.format(n) for n in range(10)).encode())
    (tmp_path / "cut.gz").write_bytes(whole[:-9])
    assert "truncated gzip" in problem(lambda: read_file(tmp_path / "cut.gz"))


def test_a_run_without_hits_is_a_run(tmp_path):
    write_run({"q": {}}, tmp_path / "none.txt")

    assert len(read_run(tmp_path / "none.txt")) == 0


@pytest.mark.parametrize(
    ("run", "tag", "expected"),
    [
        ({"q": {"a b": 1.0}}, "t", "run file: document id holds white space: 'a b'"),
        ({"": {"a": 1.0}}, "t", "run file: query id is empty: ''"),
        ({"q": {"a": 1.0}}, "my run", "run file: tag holds white space: 'my run'"),
        ({"q": {"a": math.nan}}, "t", "NaN"),
    ],
)
def test_what_the_format_cannot_hold_is_not_written(tmp_path, run, tag, expected):
    path = tmp_path / "run.txt"

    with pytest.raises(DataError) as caught:
        write_run(run, path, tag=tag)

    assert expected.lower() in str(caught.value).lower()
    assert not path.exists()


def test_robust03_counts(lent_data):
    qrels = read_qrels(lent_data / "trec-robust03" / "qrels.txt.gz")
    run = read_run(lent_data / "trec-robust03" / "runs" / "pircRBa1.gz")

    assert (len(qrels.query_ids), len(qrels)) == (100, 128796)
    assert (run.name, len(run.query_ids), len(run)) == ("pircRBa1", 100, 100_000)


@pytest.mark.costly
def test_many_queries_are_written_as_each_by_itself():
    # More than become text together, with scores that come again, 0.0 beside -0.0
    run = {
        f"q{n}": {f"d{d}": [0.1, -0.0, 0.0, 1 / 3, 5e-324][(d + n) % 5] for d in range(n % 4)}
        for n in range(250)
    }

    alone = [format_run({query: hits}, tag="t") for query, hits in run.items() if hits]

    assert format_run(run, tag="t") == "".join(alone)
    assert {line.split()[4] for line in alone if line.count("\n") == 1} >= {"0.0", "-0.0"}


@pytest.mark.costly
def test_a_long_query_id_makes_no_wide_table():
    # Beside other rows it would be as wide for each of them: 60 MB here
    hits = {f"d{number}": float(number) for number in range(1_500)}
    run = Run.from_dict({"q1": hits, "q" * 20_000: {"d1": 1.0}, "q2": hits})
    tracemalloc.start()
    try:
        n_lines = sum(lines.count("\n") for lines in run_lines(run))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert n_lines == 3_001
    assert peak < 40_000_000


WORDS = st.text("bcdgh.", min_size=1, max_size=5)


@pytest.mark.parametrize("separator", [" ", "\t", "  "])
@given(words=st.lists(WORDS, min_size=2, max_size=4), is_query=st.booleans())
def test_a_blank_in_an_id_is_told_with_the_line_to_write(separator, words, is_query):
    ids = [" ".join(words), "d1"] if is_query else ["q1", " ".join(words)]
    encoded = [identifier.replace(" ", "%20") for identifier in ids]
    lines = [
        separator.join([query, "Q0", document, "1", "12.5", "r"])
        for query, document in (ids, encoded)
    ]

    with pytest.raises(DataError, match=r":1: a blank in an id") as refused:
        read_run(io.BytesIO(f"{lines[0]}\n".encode()))

    assert read_run(io.BytesIO(f"{lines[1]}\n".encode())).to_dict() == {
        encoded[0]: {encoded[1]: 12.5}
    }
    if not is_query or separator == "\t":
        assert str(refused.value).endswith(" ".join(lines[1].split()))


@pytest.mark.parametrize("rank", ["-", "Q0", "first"])
def test_a_rank_of_another_form_is_read_as_before(rank):
    assert read_run(io.BytesIO(f"q1 Q0 d1 {rank} 12.5 my run\n".encode())).to_dict() == {
        "q1": {"d1": 12.5}
    }
