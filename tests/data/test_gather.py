"""Runs that are read in pieces: what reading line by line gives, at any cut, with its errors."""

import gzip
import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench.data.files import trec_text as trec_stream
from ragbench.data.files.lines import read_lines, source_name
from ragbench.data.files.trec_files import open_run_stream, read_run, whole_run
from ragbench.data.files.trec_text import COLUMNS, normalize_lines
from ragbench.errors import DataError
from ragbench.score.retrieval.ranking import rank
from ragbench.types import Run

in_peace = settings(
    max_examples=15, deadline=None
)  # other processes may keep the disk and the cores busy

LINES = (
    b"q1 Q0 d1 1 2.5 tag\n", b"q1 Q0 d2 2 -0.0 tag\n", b"q1 Q0 d1 3 7 tag\n", b"q2 Q0 d1 1 0 tag\n",
    b"q2 Q0 d1 1 -0.0 other\n", b"q1\tQ0\td3\t1\t1e-45\ttag\n", b"q3 Q0 \xff 1 inf tag\n",
    b"\xfe Q0 a#b 1 -inf tag\n", b"q1  Q0 d4   1 1.5 tag extra\n", b"q1 Q0 \xc3\xa9 1 3 tag\r\n",
    b"q2 Q0 d\x01 1 1 tag\n", b"# a comment\n", b"\n", b" q3 Q0 d9 9 .5 tag \n",
)  # fmt: skip
WRONG = (b"q1 Q0 d1 1 2.5\n", b"q1 Q0 d1 1 x tag\n", b"q1 Q0 d1 1 nan tag\n", b"q1 Q0 d\0 1 1 t\n")
texts = st.lists(st.sampled_from(LINES), max_size=20).map(b"".join)
BOM = b"\xef\xbb\xbf"


def line_by_line(source):
    """Read a run as the format is defined, one line after the other."""
    scores, duplicates, tag, empty = {}, {}, "", True
    for number, line in read_lines(source):
        hit, _, is_comment = normalize_lines(line, source_name(source), number)
        fields = hit.split()
        empty = empty and not (fields or is_comment)
        if not fields:
            continue
        query, document, last = (fields[n].decode("utf-8", "surrogateescape") for n in (0, 2, 5))
        tag = last  # of the last hit, as trec_eval does
        score = float(fields[4])
        ranking = scores.setdefault(query, {})
        if document in ranking:
            duplicates[query] = duplicates.get(query, 0) + 1
            score = max(score, ranking[document])
        ranking[document] = score
    if empty:
        problem = "no rankings, only blank lines"
        raise DataError(problem, file=source_name(source), allowed=COLUMNS)
    return scores, duplicates, tag or "run"


def outcome(read, text):
    """Return the rows of a file in order, -0.0 apart from 0.0, or the message of the error."""
    try:
        scores, duplicates, tag = read(io.BytesIO(text))
    except DataError as error:
        return str(error)
    rows = [(query, [*map(repr, hits.items())]) for query, hits in scores.items()]
    return rows, duplicates, tag


def columns(run):
    return run.to_dict(), run.duplicates, run.name


def in_pieces(size):
    def read(source):
        with open_run_stream(source, chunk_bytes=size) as stream:
            run = whole_run(stream)
            return run.to_dict(), run.duplicates, stream.tag or "run"

    return read


@in_peace
@given(texts, st.booleans(), st.booleans(), st.integers(1, 200))
def test_any_run_is_what_its_lines_are(text, bom, cut_last_end, size):
    text = (BOM if bom else b"") + (text.removesuffix(b"\n") if cut_last_end else text)

    expected = outcome(line_by_line, text)

    assert outcome(in_pieces(size), text) == expected
    assert outcome(lambda source: columns(read_run(source)), text) == expected


@in_peace
@given(texts, st.sampled_from(WRONG), texts, st.integers(1, 200))
def test_errors_are_those_of_the_first_bad_line(preceding, wrong, after, size):
    text = preceding + wrong + after

    assert outcome(in_pieces(size), text) == outcome(line_by_line, text)


@pytest.mark.parametrize("keep", [40, -20, -8])
def test_a_gzip_file_that_breaks_off_says_where(tmp_path, keep, assert_message):
    path = tmp_path / "run.gz"
    path.write_bytes(gzip.compress(b"".join(LINES[:3]) * 999)[:keep])

    with pytest.raises(DataError) as expected:
        line_by_line(path)
    assert_message(expected.value)
    with pytest.raises(DataError) as caught:
        read_run(path)
    assert str(caught.value) == str(expected.value)


def test_regular_runs_take_the_quick_way(monkeypatch):
    monkeypatch.setattr(trec_stream, "normalize_lines", None)
    text = b"".join(b"q%d Q0 d%d 1 %d.5 t\r\n" % (n % 3, n, -n) for n in range(100))

    run = read_run(io.BytesIO(text))

    assert run.query_ids == ("q0", "q1", "q2"), "scattered, yet nothing is read line by line"
    assert run.ranking("q1")[:2] == [("d1", -1.5), ("d4", -4.5)]


def test_a_stream_that_cannot_go_back_is_read_once():
    stream = io.BytesIO(b"b Q0 d 1 1 t\na Q0 d 1 1 t\nb Q0 e 1 1 t\n")
    stream.seekable = lambda: False

    assert read_run(stream).to_dict() == {"b": {"d": 1.0, "e": 1.0}, "a": {"d": 1.0}}


@in_peace
@given(texts.filter(lambda text: text.strip(b"\n#")))
def test_a_run_from_a_file_scores_as_its_dictionaries(text):
    try:
        run = read_run(io.BytesIO(text))
    except DataError:
        return
    qrels = {query: dict.fromkeys(hits, 1) for query, hits in run.to_dict().items()} | {"x": {}}

    ranked, expected = rank(qrels, run), rank(qrels, Run.from_dict(run.to_dict()))

    assert ranked.rank.tolist() == expected.rank.tolist()
    assert ranked.missing == expected.missing
