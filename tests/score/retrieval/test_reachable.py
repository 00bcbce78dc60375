"""Intervals end at what an ideal ranking reaches: no measure can have a larger mean."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragbench.comparison.method import Method
from ragbench.comparison.pairs import PairedScores
from ragbench.comparison.systems import summarize
from ragbench.records.columns import column_row, read_column_row
from ragbench.score.retrieval.score_run import score_run

QUERIES = [f"q{n}" for n in range(30)]
# one relevant document a query, of 50
QRELS = {query: {"d0": 1, "d1": 0} for query in QUERIES}


@pytest.mark.parametrize(
    ("measure", "qrels", "largest"),
    [
        pytest.param("precision@1000", QRELS, 1 / 1000, id="1 of 1000"),
        pytest.param("precision@1", QRELS, math.inf, id="1 of 1"),
        pytest.param("recall@10", QRELS, math.inf, id="all of 1"),
        pytest.param("recall@2", {"q": dict.fromkeys("abcde", 1)}, 2 / 5, id="2 of 5"),
        pytest.param("precision(rel=2)@4", {"q": {"a": 2, "b": 1}}, 1 / 4, id="grade 2"),
        pytest.param("ndcg@10", QRELS, math.inf, id="the ideal is 1"),
        pytest.param("map@2", {"q": dict.fromkeys("abcd", 1)}, 2 / 4, id="AP at 2 of 4"),
        pytest.param("precision@2", {"q": {"a": 1}, "p": dict.fromkeys("ab", 1)}, math.inf,
                     id="one query reaches 1"),
    ],
)  # fmt: skip
def test_the_largest_value_is_that_of_an_ideal_ranking(measure, qrels, largest):
    (column,) = score_run({}, qrels, [measure]).columns

    assert column.reachable == pytest.approx(largest)


@st.composite
def judged_run(draw):
    """Judgements of some queries, and a ranking of each."""
    documents = [f"d{n}" for n in range(12)]
    qrels, run = {}, {}
    for query in ("q1", "q2"):
        grades = draw(st.lists(st.integers(0, 3), min_size=1, max_size=12))
        qrels[query] = dict(zip(documents, grades, strict=False))
        order = draw(st.permutations(documents))
        run[query] = {document: -float(rank) for rank, document in enumerate(order)}
    return run, qrels


# the others reach the end of their range, or have none
LIMITED = ("precision", "recall", "f1", "map", "rbp", "err")


@given(judged_run(), st.sampled_from([1, 3, 20]))
def test_no_ranking_has_a_larger_value(data, k):
    run, qrels = data
    names = [f"{name}@{k}" for name in (*LIMITED, "ndcg", "hit_rate", "mrr", "relative_p")]

    for column in score_run(run, qrels, names).columns:
        assert np.nan_to_num(column.values).max() <= min(column.reachable, column.high) + 1e-12


@given(st.lists(st.booleans(), min_size=3, max_size=12), st.sampled_from([2, 10, 1000]))
def test_no_interval_reaches_beyond_it(hits, k):
    run = {}
    for query, is_hit in zip(QUERIES, hits, strict=False):
        run[query] = {"d0" if is_hit else "d9": 1.0}
    qrels = {query: QRELS[query] for query in run}
    (column,) = score_run(run, qrels, [f"precision@{k}"]).columns
    best = replace(column, values=np.full(len(hits), 1 / k))

    low, high = summarize(column).interval
    pairs = PairedScores(best, column)
    gain = pairs.interval(pairs.differences, Method(resamples=200))

    assert 0 <= low <= column.mean <= high <= 1 / k + 1e-12
    assert -1 / k - 1e-12 <= gain.lower <= gain.mean <= gain.upper <= 1 / k + 1e-12


def test_a_stored_column_keeps_it():
    (column,) = score_run({}, QRELS, ["precision@1000"]).columns

    assert read_column_row(column_row(column)).reachable == column.reachable == 0.001
