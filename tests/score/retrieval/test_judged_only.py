"""Rankings without what was not judged: equal to a run that never had it."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench.comparison.evaluate import evaluate_run
from ragbench.score.retrieval import MEASURES
from ragbench.score.retrieval.base import spec_of
from ragbench.score.retrieval.dcg import running_sums
from ragbench.score.retrieval.ranking import rank
from ragbench.score.retrieval.score_run import score_run, without_unjudged
from ragbench.score.retrieval.trec_eval import relevance_strings
from tests.strategies import qrels_and_run


def cleaned(qrels, run):
    """The run without the documents that have no grade, or a negative one."""
    return {
        query: {d: s for d, s in hits.items() if qrels.get(query, {}).get(d, -1) >= 0}
        for query, hits in run.items()
    }


@settings(max_examples=30)
@given(qrels_and_run(), st.sampled_from(["docid", "stable", "average"]))
def test_is_a_run_without_them(case, ties):
    qrels, run = case

    ranked = without_unjudged(rank(qrels, run, ties=ties))
    expected = rank(qrels, cleaned(qrels, run), ties=ties)

    for field in ("query", "rank", "grades", "starts", "n_retrieved"):
        np.testing.assert_array_equal(getattr(ranked, field), getattr(expected, field), field)
    np.testing.assert_array_equal(ranked.ties.first, expected.ties.first)
    np.testing.assert_array_equal(ranked.ties.last, expected.ties.last)
    assert ranked.missing == rank(qrels, run).missing


@pytest.mark.costly
@settings(max_examples=20)
@given(qrels_and_run())
def test_every_measure_with_ties_averaged(case):
    qrels, run = case
    names = [
        f"{name}@{3 if spec.at == 'k' else 0.5}" if spec.cutoff == "required" else name
        for name, spec in ((name, spec_of(MEASURES.load(name))) for name in MEASURES.table)
        if spec.averages_ties and spec.reads == "grades"
    ]

    scores = evaluate_run(run, qrels, names, ties="average", judged_only=True)
    expected = evaluate_run(cleaned(qrels, run), qrels, names, ties="average")

    for name in names:
        assert scores.per_query[name] == pytest.approx(
            expected.per_query[name], abs=1e-12, nan_ok=True
        ), name


def test_the_depth_is_cut_first():
    # `new` takes one of the two ranks that are looked at, and leaves nothing behind it
    qrels, run = {"q": {"a": 1, "b": 1}}, {"q": {"a": 9.0, "new": 8.0, "b": 7.0}}
    columns = score_run(run, qrels, ["num_rel_ret", "map"], depth=2, judged_only=True).columns

    assert [column.values.tolist() for column in columns] == [[1.0], [0.5]]


@pytest.mark.parametrize(
    ("grades", "length", "expected"),
    [
        pytest.param([0, 9, 10, -1, None], 10, "09>.-", id="every character, a short list"),
        pytest.param([2, None, 1], 2, "2-", id="cut"),
        pytest.param([], 3, "", id="nothing retrieved"),
    ],
)
def test_relevance_strings(grades, length, expected):
    ids = [f"d{place}" for place in range(len(grades))]
    judged = {d: g for d, g in zip(ids, grades, strict=True) if g is not None}
    run = {"q": {d: -float(place) for place, d in enumerate(ids)}, "r": {"x": 1.0}}

    strings = relevance_strings(rank({"q": judged | {"m": 1}, "r": {"y": 1}}, run), length)

    assert strings == [expected, "-"]


@settings(max_examples=30)
@given(st.lists(st.lists(st.floats(-1e6, 1e6), max_size=9), max_size=6))
def test_running_sums_start_anew_in_each_query(queries):
    starts = np.cumsum([0, *map(len, queries)])
    values = np.array([value for query in queries for value in query])

    expected = [total for query in queries for total in np.cumsum(query)]

    np.testing.assert_allclose(running_sums(values, starts), expected, atol=1e-6)
