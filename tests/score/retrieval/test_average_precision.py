"""`map` against trec_eval, against hand-worked values, and against its own definition."""

import numpy as np
import pytest
import pytrec_eval
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench.errors import OptionError
from ragbench.score.retrieval.average_precision import average_precision
from ragbench.score.retrieval.ranking import rank
from tests.strategies import qrels_and_run


@settings(max_examples=30)
@given(qrels_and_run(), st.sampled_from([1, 3, 10]))
def test_agrees_with_trec_eval(case, k):
    # Ties, misses, empty rankings and unjudged documents included
    qrels, run = case
    oracle = pytrec_eval.RelevanceEvaluator(qrels, {f"map_cut.{k}"}).evaluate(run)

    ours = dict(zip(qrels, average_precision(rank(qrels, run), k=k), strict=True))

    for query, value in ours.items():
        if max(qrels[query].values()) < 1:
            assert np.isnan(value), "no relevant document: not applicable, not 0"
        else:
            assert value == pytest.approx(oracle.get(query, {}).get(f"map_cut_{k}", 0.0), abs=1e-9)


@pytest.mark.parametrize(
    ("ranking", "relevant", "expected"),
    [
        pytest.param("axbyc", "abc", 34 / 45, id="(1/1 + 2/3 + 3/5) / 3"),
        pytest.param("axbyc", "abcdefghij", 34 / 150, id="seven never retrieved: / 10"),
        pytest.param("xyz", "ab", 0.0, id="nothing found"),
        pytest.param("", "ab", 0.0, id="nothing retrieved"),
    ],
)
def test_hand_worked(ranking, relevant, expected):
    run = {"q": {doc: float(-position) for position, doc in enumerate(ranking)}}
    ranked = rank({"q": dict.fromkeys(relevant, 1)}, run)

    assert average_precision(ranked) == pytest.approx([expected])


@settings(max_examples=30)
@given(qrels_and_run(), st.sampled_from([1, 2, 5, 100]))
def test_divide_min_is_map_cut_times_r_over_the_smaller(case, k):
    # trec_eval's `map_cut` divides by all R relevant documents; this one by min(k, R)
    qrels, run = case
    oracle = pytrec_eval.RelevanceEvaluator(qrels, {f"map_cut.{k}"}).evaluate(run)

    ours = dict(zip(qrels, average_precision(rank(qrels, run), k=k, divide="min"), strict=True))

    for query, value in ours.items():
        relevant = sum(grade >= 1 for grade in qrels[query].values())
        if relevant:
            cut = oracle.get(query, {}).get(f"map_cut_{k}", 0.0)
            assert value == pytest.approx(cut * relevant / min(k, relevant), abs=1e-9)


def test_divide_min_lets_a_full_top_score_one():
    ranked = rank({"q": dict.fromkeys("abcdefghij", 1)}, {"q": {"a": 3, "b": 2, "x": 1}})

    assert average_precision(ranked, k=2) == pytest.approx([2 / 10])
    assert average_precision(ranked, k=2, divide="min") == pytest.approx([1.0])


def test_divide_min_needs_a_cut_off(assert_message):
    with pytest.raises(OptionError) as caught:
        average_precision(rank({"q": {"d": 1}}, {}), divide="min")
    assert_message(caught.value, "map: divide")


@settings(max_examples=30)
@given(qrels_and_run())
def test_a_worse_tail_changes_nothing(case):
    qrels, run = case
    padded = {q: docs | {"zz": min(docs.values(), default=0) - 1e9} for q, docs in run.items()}

    np.testing.assert_array_equal(
        average_precision(rank(qrels, run)), average_precision(rank(qrels, padded))
    )


@pytest.mark.parametrize("options", [{"k": 0}, {"rel": 0}])
def test_bad_options_say_what_is_allowed(options, assert_message):
    with pytest.raises(OptionError) as caught:
        average_precision(rank({"q": {"d": 1}}, {}), **options)
    assert_message(caught.value)
