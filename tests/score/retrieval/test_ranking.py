"""Order, ties and the join of run and qrels, by both ways of finding ranks."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench.errors import DataError
from ragbench.score.retrieval import judgements
from ragbench.score.retrieval.ranking import ideal_order, rank
from ragbench.types import Qrels, Run
from ragbench.types.byte_ids import ByteIds
from tests.strategies import qrels_and_run

COLUMNS = ("query", "rank", "grades", "starts", "n_retrieved", "judged_grades", "judged_starts")


def assert_same(one, other):
    assert one.query_ids == other.query_ids
    assert one.missing == other.missing
    for column in COLUMNS:
        np.testing.assert_array_equal(getattr(one, column), getattr(other, column), column)


def plain_ranks(qrels, run, stable, singles):
    """Rank as the rule reads, with Python's sort."""
    rows = []
    for index, (query, judged) in enumerate(qrels.items()):
        hits = [(float(np.float32(s)) if singles else s, d) for d, s in run.get(query, {}).items()]
        if not stable:
            hits.sort(key=lambda hit: hit[1].encode(), reverse=True)
        hits.sort(key=lambda hit: -hit[0])
        rows += [(index, r, judged[d]) for r, (_, d) in enumerate(hits, 1) if d in judged]
    return rows


@settings(max_examples=30)
@given(st.lists(st.lists(st.integers(-2, 3) | st.integers(-(2**31), 2**31 - 1), max_size=6)))
def test_the_ideal_order_is_that_of_the_grades(queries):
    # Few grades are counted, others sorted
    grades = np.array([grade for judged in queries for grade in judged], np.int64)
    starts = np.cumsum([0, *map(len, queries)])

    expected = [grade for judged in queries for grade in sorted(judged, reverse=True)]
    assert ideal_order(grades, starts).tolist() == expected


@settings(max_examples=30)
@given(
    qrels_and_run(),
    st.sampled_from(["docid", "stable"]),
    st.sampled_from([9, 10]),
    st.sampled_from([1, 8, 1 << 17]),
)
def test_both_ways_are_the_rule(case, ties, trec_eval, block_rows):
    # The number of queries per block makes no difference
    qrels, run = case
    expected = plain_ranks(qrels, run, ties == "stable", trec_eval == 9)
    options = {"ties": ties, "trec_eval": trec_eval}

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(judgements, "_BLOCK_ROWS", block_rows)
        joined = rank(qrels, Run.from_dict(run), **options)
        looked_up = rank(qrels, run, **options)

    rows = zip(joined.query, joined.rank, joined.grades, strict=True)
    assert [tuple(map(int, row)) for row in rows] == expected
    assert_same(joined, looked_up)
    assert_same(joined, rank(Qrels.from_dict(qrels), run, **options))


def test_scores_of_one_half_precision_step_tie_by_both_ways():
    qrels, run = {"q": {"a": 1, "b": 1}}, {"q": {"a": 1.00000001, "b": 1.0, "c": 1e39, "d": 1e40}}

    joined = rank(qrels, Run.from_dict(run), trec_eval=9)

    assert_same(joined, rank(qrels, run, trec_eval=9))
    assert joined.rank.tolist() == [3, 4], "d and c first, then b before a: ids fall"


def test_ties_fall_by_bytes_not_by_code_points():
    run = {"q": dict.fromkeys(["d10", "d2", "é", "\U0001f600", "\udc80"], 1.0)}

    order = [document for document, _ in Run.from_dict(run).ranking("q")]
    ranks = {d: rank({"q": {d: 1}}, run).rank[0] for d in order}

    assert order == ["\U0001f600", "é", "\udc80", "d2", "d10"], "byte 0x80 < 0xc3 < 0xf0"
    assert list(ranks.values()) == [1, 2, 3, 4, 5]


def test_infinite_scores_are_first_and_last():
    run = {"q": {"a": float("-inf"), "b": 0.0, "c": float("inf")}}

    assert rank({"q": {"a": 1, "b": 2, "c": 3}}, run).grades.tolist() == [3, 2, 1]


def test_queries_are_those_of_the_qrels_in_their_order():
    ranked = rank(
        {"q2": {"a": 1}, "q1": {"a": 1}, "q3": {"a": 1}}, {"q1": {"a": 1}, "x": {"a": 1}, "q3": {}}
    )

    assert ranked.query_ids == ("q2", "q1", "q3")
    assert ranked.missing == {0}, "an empty list is not a missing one"
    assert ranked.n_retrieved.tolist() == [0, 1, 0]


def test_a_depth_may_be_any_integer():
    ranked = rank({"q": {"a": 1}}, {"q": {"a": 1.0, "b": 2.0}}, depth=10**30)
    assert (ranked.rank.tolist(), ranked.n_retrieved.tolist()) == ([2], [2])


def test_nothing_at_all():
    ranked = rank({}, {})

    assert ranked.n_queries == 0
    assert len(ranked.rank) == 0


@pytest.mark.parametrize(
    ("qrels", "run"),
    [
        pytest.param(
            {"q": {"a": 0.7}},
            {"q": {"a": 1}},
            id="fraction",
        ),
        pytest.param({"q": {"a": "x"}}, {}, id="text"),
        pytest.param({"q": {"a": True}}, {}, id="true"),
        pytest.param({"q": {"a": 2**31}}, {}, id="32 bits"),
        pytest.param({"q": {"a": 2**70}}, {}, id="beyond int64"),
        pytest.param({"q": {"a": np.inf}}, {}, id="inf"),
        pytest.param({"q": {"a": np.ones(2)}}, {}, id="array"),
        pytest.param(
            {"q": {"a": 1}}, {"q": {"a": np.ones(2)}},
            id="array of scores",
        ),
        pytest.param({"q": {b"d": 1}}, {}, id="id of bytes"),
        pytest.param({None: {"a": 1}}, {}, id="null as query"),
        pytest.param({"q": ["a"]}, {}, id="list"),
        pytest.param([], {}, id="no mapping"),
        pytest.param({}, {"q": {0.5: 1.0}}, id="run id"),
        pytest.param(
            {"q": {"a": {"s": 1}, "b": {"t": "x"}}}, {},
            id="grade of a subtopic",
        ),
    ],
)  # fmt: skip
def test_bad_input_is_named(qrels, run, assert_message):
    with pytest.raises(DataError) as caught:
        rank(qrels, run)
    assert_message(caught.value)


@pytest.mark.parametrize("wrong", [{"q2": {"b": "x"}}, {"q2": {"b": float("nan")}}])
def test_a_bad_score_is_named_before_a_bad_id_of_an_earlier_block(
    monkeypatch, wrong, assert_message
):
    monkeypatch.setattr(judgements, "_BLOCK_ROWS", 1)

    with pytest.raises(DataError) as caught:
        rank({"q1": {"a": 1}, "q2": {"a": 1}}, {"q1": {None: 1.0}} | wrong)
    assert_message(caught.value)
    with pytest.raises(DataError) as caught:
        rank({"q1": {"a": 1}, "q2": {"a": 1}}, {"q1": {"a": 1.0}, "q2": {None: 1.0}})
    assert_message(caught.value)


def test_empty_lists_among_many():
    # Scores are read many lists at a time; a batch of empty ones is not the end
    full = {f"d{i}": float(i) for i in range(10)}
    run = {f"q{n}": full if n < 300 or n == 899 else {} for n in range(900)}
    qrels = {query: {"d9": 1, "x": 1} for query in run}

    for ranked in (rank(qrels, run), rank(qrels, Run.from_dict(run))):
        assert ranked.query.tolist() == [*range(300), 899]
    assert Run.from_dict(run).scores.tolist() == [*full.values()] * 301


def test_judged_ids_that_share_a_hash_are_told_apart(monkeypatch):
    monkeypatch.setattr(ByteIds, "hashes", lambda ids: ids.lengths.astype(np.uint64))
    run = {"q": {"b": 3.0, "long": 2.0, "a": 1.0, "list": 0.5}, "r": {"a": 1.0, "c": 0.5}}

    ranked = rank({"q": {"a": 1, "long": 2}, "r": {"c": 3}}, Run.from_dict(run))

    assert ranked.rank.tolist() == [2, 3, 2]
    assert ranked.grades.tolist() == [2, 1, 3]


@pytest.mark.parametrize("score", [float("nan"), "0.5", None, [1.0]])
def test_bad_scores_are_named(score, assert_message):
    with pytest.raises(DataError) as caught:
        rank({"q": {"a": 1}}, {"q": {"a": 1.0, "b": score}})
    assert_message(caught.value)


@pytest.mark.parametrize("number", [float, np.int32, np.float32, np.int64])
def test_integral_grades_of_any_type_are_grades(number):
    assert rank({"q": {"a": number(2)}}, {"q": {"a": np.float32(1)}}).grades.tolist() == [2]
