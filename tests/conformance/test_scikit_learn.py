"""`dcg`, `ndcg`, `lrap` and `map` against scikit-learn: all judged documents retrieved."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench.score.retrieval.notation import parse_measure
from ragbench.score.retrieval.ranking import rank
from tests.lazy import Lazy

metrics = Lazy("sklearn.metrics")

rows = st.lists(
    st.tuples(st.integers(0, 4), st.sampled_from([0.0, 0.5, 1.0, 7.5])), min_size=2, max_size=30
).filter(lambda drawn: any(grade for grade, _ in drawn))


def value_of(name, drawn, **rules):
    ids = [f"d{i:02}" for i in range(len(drawn))]
    grades, scores = zip(*drawn, strict=True)
    qrels = {"q": dict(zip(ids, grades, strict=True))}
    return parse_measure(name).score(
        rank(qrels, {"q": dict(zip(ids, scores, strict=True))}, **rules)
    )[0]


@settings(max_examples=30)
@given(rows, st.sampled_from([1, 2, 5, 40]))
def test_gains_with_ties_averaged(drawn, k):
    grades, scores = zip(*drawn, strict=True)
    for name, oracle in (("dcg", metrics.dcg_score), ("ndcg", metrics.ndcg_score)):
        expected = oracle([grades], [scores], k=k)
        assert value_of(f"{name}@{k}", drawn, ties="average") == pytest.approx(expected, abs=1e-9)


@settings(max_examples=30)
@given(rows, st.sampled_from([1, 2, 5, 40]))
def test_gains_without_ties(drawn, k):
    distinct = [(grade, -float(place)) for place, (grade, _) in enumerate(drawn)]
    grades, scores = zip(*distinct, strict=True)
    for name, oracle in (("dcg", metrics.dcg_score), ("ndcg", metrics.ndcg_score)):
        expected = oracle([grades], [scores], k=k, ignore_ties=True)
        assert value_of(f"{name}@{k}", distinct) == pytest.approx(expected, abs=1e-9)


@settings(max_examples=30)
@given(rows)
def test_label_ranking(drawn):
    grades, scores = zip(*drawn, strict=True)
    relevant = np.array([grades]) > 0

    expected = metrics.label_ranking_average_precision_score(relevant, [scores])

    for ties in ("docid", "stable"):
        assert value_of("lrap", drawn, ties=ties) == pytest.approx(expected, abs=1e-9)


@settings(max_examples=30)
@given(rows)
def test_average_precision_without_ties(drawn):
    distinct = [(grade, -float(place)) for place, (grade, _) in enumerate(drawn)]
    grades, scores = zip(*distinct, strict=True)

    expected = metrics.average_precision_score(np.array(grades) > 0, scores)

    assert value_of("map", distinct) == pytest.approx(expected, abs=1e-9)


def test_label_ranking_counts_what_was_not_retrieved():
    # Two relevant, one found at rank 1: (1/1 + 0) / 2.
    ranked = rank({"q": {"a": 1, "b": 1}}, {"q": {"a": 1.0}})

    assert parse_measure("lrap").score(ranked).tolist() == [0.5]
