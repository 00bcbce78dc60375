"""Runs scored from files in blocks: the numbers and errors of the run read whole, at any cut."""

import gzip
import io
import subprocess
import sys

import numpy as np
import pytest
import pytrec_eval
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from ragbench.comparison.evaluate import evaluate_run, evaluate_run_file, refuse_unjudged
from ragbench.data.files import trec_text as trec_stream
from ragbench.data.files.trec_files import format_run, read_qrels, read_run
from ragbench.errors import DataError, OptionError
from ragbench.records.codec import to_json
from ragbench.score.retrieval.score_run import Rules, score_run
from ragbench.types import Qrels
from ragbench.types.byte_ids import ByteIds
from tests.strategies import qrels_and_run

pytestmark = pytest.mark.slow  # seconds in all: real runs, servers or many made cases

MEASURES = ["ndcg@3", "map", "mrr", "bpref", "judged@2", "num_ret", "num_rel_ret"]
SCORES = (
    b"1", b"2.5", b"2.50", b"1e-45", b"-0.0", b"0", b"1e38", b"1e39", b"1e40", b"0.1", b"-inf",
    b"0.30000000000000004", b"0.3", b"+3", b"5.", b".5", b"12345678901234567890123", b"inf",
)  # fmt: skip
IDS = (
    b"d", b"d1", b"d10", b"a#b", b"\xff", b"\xc3\xa9", b"12345678", b"123456789", b"c\x01",
    b"a-long-id/with-a-number/1", b"a-long-id/with-a-number/2", b"\xf0\x9f\x98\x80",
)  # fmt: skip
QUERIES = (b"q", b"q1", b"query-42", b"\xfe")
QRELS = Qrels.from_dict(
    {
        query.decode("utf-8", "surrogateescape"): {
            name.decode("utf-8", "surrogateescape"): (i * j) % 4 - 1 for j, name in enumerate(IDS)
        }
        for i, query in enumerate([*QUERIES, b"never-retrieved"], start=1)
        if query != b"\xfe"
    }
)

in_peace = settings(max_examples=30, deadline=None)  # temporary files may wait for a busy disk
gaps = st.sampled_from([b" ", b" ", b" ", b"\t", b"  ", b" \t "])
ends = st.sampled_from([b"\n", b"\n", b"\n", b"\r\n", b" \n", b" more words\n"])
odd_lines = st.sampled_from(
    [
        b"\n",
        b" \r\n",
        b"# a comment\n",
        b"#\n",
        b" #q Q0 d 1 2 t\n",
        b"#q Q0 d 1 2 t\n",
        b"q\rQ0 d\x0b1 2\x0ct\n",
    ]
)


@st.composite
def hit_lines(draw):
    query, name, score = (draw(st.sampled_from(pool)) for pool in (QUERIES, IDS, SCORES))
    return draw(gaps).join([query, b"Q0", name, b"1", score, b"tag"]) + draw(ends)


plain_lines = st.builds(
    lambda query, name, score: b" ".join([query, b"Q0", name, b"1", score, b"tag\n"]),
    *map(st.sampled_from, (QUERIES, IDS, SCORES)),
)
texts = st.lists(plain_lines, min_size=1, max_size=30) | st.lists(
    hit_lines() | odd_lines, min_size=1, max_size=30
).filter(lambda lines: any(line.strip() for line in lines))
chunk_sizes = st.integers(1, 400)
rules = st.fixed_dictionaries(
    {},
    optional={
        "ties": st.sampled_from(["docid", "stable"]),
        "trec_eval": st.sampled_from([9, 10]),
        "depth": st.sampled_from([1, 2, 5]),
        "missing": st.just("skip"),
        "no_relevant": st.just("zero"),
    },
)


def assert_same(file, run, qrels=QRELS, chunk_bytes=64, measures=MEASURES, **rules):
    """The evaluation of a file equals that of the run that `read_run` makes of it."""
    result = evaluate_run_file(file, qrels, measures, Rules(**rules), _chunk_bytes=chunk_bytes)
    expected = score_run(run, qrels, measures, **rules)

    assert result.counts == to_json(expected.counts) | {"tag": run.name}
    assert tuple(result.query_ids) == expected.query_ids
    for column in expected.columns:
        np.testing.assert_array_equal(result.columns[column.name].values, column.values)
        np.testing.assert_array_equal(result.columns[column.name].causes, column.causes)
        assert result.columns[column.name].signature == column.signature


def assert_equal(one, other):
    for name, column in one.columns.items():
        np.testing.assert_array_equal(column.values, other.columns[name].values, name)


@in_peace
@given(texts, chunk_sizes, rules)
def test_any_file_scores_as_the_run_read_whole(lines, chunk_bytes, rules):
    # Scattered queries, repeated documents, ties, odd white space and odd numbers included
    text = b"".join(lines)

    assert_same(io.BytesIO(text), read_run(io.BytesIO(text)), chunk_bytes=chunk_bytes, **rules)


@in_peace
@given(texts, st.integers(1, 400))
def test_ties_are_averaged_alike(lines, chunk_bytes):
    text = b"".join(lines)
    measures = ["ndcg@3", "map", "mrr", "precision@2"]

    result = evaluate_run_file(
        io.BytesIO(text), QRELS, measures, Rules(ties="average"), _chunk_bytes=chunk_bytes
    )
    expected = evaluate_run(read_run(io.BytesIO(text)), QRELS, measures, ties="average")

    assert_equal(result, expected)


@in_peace
@given(qrels_and_run(), st.integers(1, 100))
def test_agrees_with_pytrec_eval(case, chunk_bytes):
    qrels, run = (
        {q: {d.replace(" ", "_"): x for d, x in row.items()} for q, row in part.items()}
        for part in case
    )
    assume(run)  # pytrec_eval cannot read the comment that stands for nothing
    oracle = pytrec_eval.RelevanceEvaluator(qrels, {"map", "ndcg_cut.3", "recip_rank"})
    expected = oracle.evaluate(pytrec_eval.parse_run(io.StringIO(format_run(run))))

    file = io.BytesIO(format_run(run).encode())
    names = {"map": "map", "ndcg_cut_3": "ndcg@3", "recip_rank": "mrr"}
    rules = Rules(trec_eval=9, no_relevant="zero")
    result = evaluate_run_file(
        file, Qrels.from_dict(qrels), [*names.values()], rules, _chunk_bytes=chunk_bytes
    )

    assert {q for q in qrels if q in run} == set(expected)
    for query, values in expected.items():
        for theirs, ours in names.items():
            assert result.per_query[ours][query] == pytest.approx(values[theirs], abs=1e-9)


def test_every_cut_of_one_file(tmp_path):
    # Chunks of every size, so that their borders stand at every byte
    lines = [
        b"\xef\xbb\xbfq Q0 d 1 2.5 t\nq Q0 d1 2 2.5 t\nq Q0 d1 3 1 t\n\n",
        b"# it\nq1\tQ0\td 1 1e0 t\nquery-42  Q0 d10 1 -1 t\r\nquery-42 Q0 d 1 0 t",
    ]
    path = tmp_path / "run.txt"
    path.write_bytes(b"".join(lines))

    run = read_run(path)
    for chunk_bytes in range(1, path.stat().st_size + 2):
        assert_same(path, run, chunk_bytes=chunk_bytes, measures=["map", "ndcg@10"])


@in_peace
@given(
    st.lists(plain_lines, max_size=6),
    st.lists(hit_lines() | odd_lines, max_size=6),
    st.sampled_from(
        [
            b"q Q0 d 1 nan tag", b"q Q0 d 1 1_0 tag", b"q Q0 d 1 1.2.3 tag", b"q Q0 d 1 - tag",
            b"q Q0 d 1 0x1 tag", b"q Q0 d 1 1", b"q", b"q Q0 d\0 1 1 tag", b"q Q0 d  1 1",
            b"q Q0 c\x01 1 1", b"q Q0 d 1 1 ", b"q Q0 d 1 1\xb2 tag",
        ]
    ),
    chunk_sizes,
)  # fmt: skip
def test_every_mistake_has_its_line(preceding, after, bad, chunk_bytes):
    text = b"".join([*preceding, bad, b"\n", *after])
    with pytest.raises(DataError) as expected:
        read_run(io.BytesIO(text))

    with pytest.raises(DataError) as caught:
        evaluate_run_file(io.BytesIO(text), QRELS, ["map"], _chunk_bytes=chunk_bytes)

    assert str(caught.value) == str(expected.value)
    assert f"<stream>:{len(preceding) + 1}: " in str(caught.value)


def test_scattered_lines_keep_their_order():
    # The order counts for stable ties, and for the first of two equal documents
    text = b"q Q0 d 1 1 t\nq1 Q0 d 1 1 t\nq Q0 d1 1 1 t\nq1 Q0 d1 1 1 t\nq Q0 d10 1 1 t\n"
    qrels = Qrels.from_dict({"q": {"d1": 1}, "q1": {"d": 1}})

    result = evaluate_run_file(
        io.BytesIO(text), qrels, ["mrr"], Rules(ties="stable"), _chunk_bytes=4
    )

    assert result.per_query["mrr"] == {"q": 1 / 2, "q1": 1.0}


def test_a_query_longer_than_the_chunk_is_not_parsed_again_and_again(monkeypatch):
    # Its text grows twofold from one try to the next, so that time stays linear
    calls = []
    parse = trec_stream.parse_uniform
    monkeypatch.setattr(trec_stream, "parse_uniform", lambda text: calls.append(1) or parse(text))
    text = b"".join(b"q Q0 d%d 1 %d tag\n" % (n, -n) for n in range(5000))

    result = evaluate_run_file(io.BytesIO(text), QRELS, ["num_ret"], _chunk_bytes=16)

    assert result.mean["num_ret"] == 5000
    assert len(calls) < 20


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"\n \n", id="blank"),
        pytest.param(b"\xef\xbb\xbf", id="only a mark"),
        pytest.param("q Q0 d 1 1 t\n".encode("utf-16"), id="UTF-16"),
        pytest.param(gzip.compress(b"q Q0 d 1 1 t\n" * 9)[:-9], id="truncated gzip"),
        pytest.param(gzip.compress(b"q Q0 d 1 nan t\n" * 9)[:-9], id="an error before that"),
    ],
)
@pytest.mark.parametrize("chunk_bytes", [1, 20, 1000])
def test_files_without_a_run(tmp_path, raw, chunk_bytes):
    (tmp_path / "run").write_bytes(raw)
    with pytest.raises(DataError) as expected:
        read_run(tmp_path / "run")

    with pytest.raises(DataError) as caught:
        evaluate_run_file(tmp_path / "run", QRELS, ["map"], _chunk_bytes=chunk_bytes)

    assert str(caught.value) == str(expected.value)


def test_a_file_of_comments_is_a_run_without_hits():
    assert_same(io.BytesIO(b"# nothing\n"), read_run(io.BytesIO(b"# nothing\n")))


@pytest.mark.parametrize("scattered", [False, True])
@pytest.mark.parametrize("kind", ["path", "gzip", "pipe", "gzip through a pipe", "stdin"])
def test_sources(tmp_path, monkeypatch, kind, scattered):
    hits = [(q, d) for d in ("d", "d1", "d10") for q in ("q", "q1", "query-42")]
    hits = hits if scattered else sorted(hits)
    text = "".join(f"{q} Q0 {d} 1 {len(d)} tag\n" for q, d in hits).encode()
    path = tmp_path / "run"
    path.write_bytes(gzip.compress(text) if "gzip" in kind else text)

    if kind in ("path", "gzip"):
        assert_same(path, read_run(path))
        return
    with subprocess.Popen([sys.executable, "-c", COPY, path], stdout=subprocess.PIPE) as sender:
        stream = sender.stdout
        if kind == "stdin":
            monkeypatch.setattr("sys.stdin", io.TextIOWrapper(stream, encoding="utf-8"))
        if "gzip" in kind:
            with gzip.open(stream) as source:
                assert_same(source, read_run(path))
        else:
            assert_same("-" if kind == "stdin" else stream, read_run(path))


COPY = "import shutil, sys; shutil.copyfileobj(open(sys.argv[1], 'rb'), sys.stdout.buffer)"


@in_peace
@given(texts, chunk_sizes)
def test_ids_that_share_a_hash_stay_apart(lines, chunk_bytes):
    # With a hash of 2 bits nearly all ids collide: only their bytes may decide
    text = b"".join(lines)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            ByteIds, "hashes", lambda ids: (ids.lengths % 4).astype(np.uint64) << np.uint64(62)
        )
        qrels = Qrels.from_dict(QRELS.to_dict())
        result = evaluate_run_file(io.BytesIO(text), qrels, MEASURES, _chunk_bytes=chunk_bytes)

    expected = evaluate_run(read_run(io.BytesIO(text)), QRELS, MEASURES)
    assert {key: result.counts[key] for key in expected.counts} == expected.counts
    assert_equal(result, expected)


@pytest.mark.parametrize(
    "qrels",
    [
        {"q2": {"d1": 1}},
        {},
    ],
)
def test_a_run_without_a_judged_query_is_refused(qrels, assert_message):
    evaluation = evaluate_run({"q1": {"d1": 1.0}}, qrels, ["mrr"])

    with pytest.raises(DataError) as caught:
        refuse_unjudged(evaluation, "bm25.trec")
    assert_message(caught.value, "bm25.trec")


def test_duplicates_of_unjudged_documents_and_queries_are_counted():
    text = b"q Q0 x 1 1 t\nq Q0 x 2 3 t\nq Q0 d 3 2 t\nnew Q0 x 1 1 t\nnew Q0 x 1 1 t\n"

    result = evaluate_run_file(io.BytesIO(text), Qrels.from_dict({"q": {"d": 1}}), ["mrr"])

    assert result.counts["duplicates"] == 2
    assert result.counts["without_judgements"] == 1
    assert result.mean["mrr"] == 0.5, "x stays first, at its best score"


def test_depth_is_trec_evals_m_and_part_of_the_signature():
    text = b"q Q0 x 1 1 t\nq Q0 d 3 2 t\nq Q0 e 3 0.5 t\n"
    qrels = Qrels.from_dict({"q": {"d": 1, "e": 1}})

    whole, cut = (
        evaluate_run_file(io.BytesIO(text), qrels, ["map", "num_ret"], Rules(depth=depth))
        for depth in (None, 2)
    )

    assert (whole.mean["map"], cut.mean["map"]) == (pytest.approx((1 + 2 / 3) / 2), 0.5)
    assert (whole.mean["num_ret"], cut.mean["num_ret"]) == (3, 2)
    assert "|depth:2|" in cut.signature["map"]
    assert "depth" not in whole.signature["map"]


@pytest.mark.parametrize(
    "options", [{"depth": 0}, {"depth": True}, {"ties": "x"}, {"trec_eval": 8}, {"missing": "no"}]
)
def test_rules_that_are_not_there(options):
    with pytest.raises(OptionError, match="allowed: "):
        Rules(**options)


def test_robust03_scores_as_read_whole(lent_data):
    folder = lent_data / "trec-robust03"
    qrels = read_qrels(folder / "qrels.txt.gz")
    path = folder / "runs" / "pircRBa1.gz"

    assert_same(path, read_run(path), qrels, chunk_bytes=1 << 18)


MEMORY = """
import sys
from pathlib import Path
from ragbench.comparison.evaluate import evaluate_run_file
from ragbench.types import Qrels
def peak():
    # not `ru_maxrss`, which a process takes over from the one that started it
    return int(Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0])
qrels = Qrels.from_dict({f"q{i}": {"doc-1": 1} for i in range(400)})
before = peak()
result = evaluate_run_file(sys.argv[1], qrels, ["map", "num_ret"], _chunk_bytes=1 << 18)
print(int(result.mean["num_ret"]), (peak() - before) // 1024)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_memory_does_not_grow_with_the_file(tmp_path):
    # 14 MB of run, of which a quarter of a megabyte is parsed at a time
    with (tmp_path / "run").open("w") as stream:
        for query in range(400):
            lines = (f"q{query} Q0 doc-{i} {i} {1000 - i}.125 a-tag\n" for i in range(1000))
            stream.write("".join(lines))

    done = subprocess.run(
        [sys.executable, "-c", MEMORY, tmp_path / "run"], capture_output=True, text=True, check=True
    )

    n_retrieved, grown_mb = map(int, done.stdout.split())
    assert n_retrieved == 400_000
    assert grown_mb < 40, "the run read whole takes some 90 MB"
