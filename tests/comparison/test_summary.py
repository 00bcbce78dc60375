"""A mean with its interval, counts and bounds."""

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench.comparison.systems import summarize
from ragbench.records.codec import to_json
from ragbench.signature import Signature
from ragbench.types import Cause, ScoreColumn

NAN = float("nan")


def column(values, causes=None, **facts):
    values = np.array(values, dtype=float)
    if causes is None:
        causes = np.where(np.isnan(values), Cause.NO_RELEVANT, Cause.SCORED)
    return ScoreColumn("x", values, np.array(causes, dtype=np.uint8), Signature("x"), **facts)


def test_failed_and_not_applicable_are_counted_apart():
    causes = [Cause.SCORED, Cause.NO_REFERENCE, Cause.TIMEOUT, Cause.TIMEOUT, Cause.UNREADABLE]

    summary = summarize(column([0.5, NAN, NAN, NAN, NAN], causes))

    assert summary.n == 1
    assert summary.failed == {"timeout": 2, "unreadable": 1}
    assert (summary.not_applicable, summary.not_applicable_causes) == (1, {"no_reference": 1})
    assert summary.mean == 0.5
    assert summary.bounds == (0.125, 0.875), "(0.5 + 3 * 0) / 4, (0.5 + 3 * 1) / 4"


@given(st.lists(st.sampled_from(list(Cause)), min_size=1, max_size=30))
def test_each_query_is_counted_once_by_its_cause(causes):
    values = [0.5 if cause is Cause.SCORED else NAN for cause in causes]

    summary = summarize(column(values, causes))

    counts = Counter(cause.word for cause in causes if cause is not Cause.SCORED)
    assert {**summary.failed, **summary.not_applicable_causes} == counts
    assert sum(summary.not_applicable_causes.values()) == summary.not_applicable
    assert summary.n + summary.n_failed + summary.not_applicable == len(causes)


def test_bounds_are_worst_first_when_lower_is_better():
    causes = [Cause.SCORED, Cause.ERROR]

    assert summarize(column([0.5, NAN], causes, direction="lower")).bounds == (0.75, 0.25)


def test_nothing_scored_is_null_not_zero():
    summary = to_json(summarize(column([NAN, NAN])))

    assert summary["mean"] is None
    assert summary["interval"] == [None, None]
    assert summary["n"] == 0
    assert summary["not_applicable"] == 2


def test_sums_and_geometric_means():
    assert summarize(column([1, 2, 4], high=math.inf, aggregate="sum")).mean == 7
    logs = [math.log(0.25), math.log(1.0)]
    summary = summarize(column(logs, low=math.log(1e-5), high=0.0, aggregate="geometric_mean"))
    assert summary.mean == pytest.approx(0.5)
    assert 0 < summary.interval[0] < 0.5 < summary.interval[1] <= 1


@given(st.lists(st.floats(0, 1), min_size=1, max_size=40))
@settings(max_examples=30)
def test_the_interval_holds_the_mean_and_has_a_width(values):
    summary = summarize(column(values))

    low, high = summary.interval
    assert 0 <= low <= summary.mean <= high <= 1
    assert high > low
    assert summary.bounds == (summary.mean, summary.mean)
