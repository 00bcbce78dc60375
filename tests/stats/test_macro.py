"""Macro means and the stratified randomization test, against plain enumeration and scipy."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench import stats
from ragbench.errors import OptionError
from tests.lazy import Lazy

scipy_stats = Lazy("scipy.stats")

WITHOUT_REFERENCE = {
    "macro_mean": "the interval of a stratified mean, worked by hand",
    "stratified_units": "its randomization test beside all swaps of small data, and SciPy",
}

scores = st.sampled_from([0.0, 0.25, 0.5, 1.0])
collections = st.lists(
    st.lists(st.tuples(scores, scores), min_size=1, max_size=4), min_size=1, max_size=3
)


def macro_difference(pairs):
    """Return the mean over the collections of the mean difference of their pairs."""
    return np.mean([np.mean([a - b for a, b in collection]) for collection in pairs])


def plain_p_value(pairs):
    """Swap the two systems of every query in all ways, and count differences as large."""
    sizes = [len(collection) for collection in pairs]
    observed = abs(macro_difference(pairs))
    extreme = total = 0
    for swaps in itertools.product([False, True], repeat=sum(sizes)):
        remaining = iter(swaps)
        swapped = [[(b, a) if next(remaining) else (a, b) for a, b in rows] for rows in pairs]
        extreme += abs(macro_difference(swapped)) >= observed - 1e-12
        total += 1
    return extreme / total


@given(collections)
@settings(max_examples=16)
def test_the_test_over_all_counts_all_swaps_within_collections(pairs):
    columns = [np.array([a - b for a, b in rows]) for rows in pairs]

    column = stats.stratified_units(columns)

    assert column.sum() == pytest.approx(macro_difference(pairs), abs=1e-12)
    [p] = stats.randomization_p_values(column[:, np.newaxis])
    assert p == pytest.approx(plain_p_value(pairs), abs=1e-12)


def test_the_test_over_all_is_that_of_scipy():
    rng = np.random.default_rng(5)
    systems = [(rng.random(5), rng.random(5)), (rng.random(3) + 0.2, rng.random(3))]
    weights = np.concatenate([np.full(len(a), 1 / len(a)) for a, _ in systems]) / 2
    a, b = (np.concatenate(side) for side in zip(*systems, strict=True))

    theirs = scipy_stats.permutation_test(
        (a, b),
        lambda x, y: float(((x - y) * weights).sum()),
        permutation_type="samples",
        n_resamples=np.inf,
    )

    [p] = stats.randomization_p_values(
        stats.stratified_units([x - y for x, y in systems])[:, np.newaxis]
    )
    assert p == pytest.approx(theirs.pvalue, abs=1e-12)


def test_queries_without_both_scores_do_not_count():
    column = stats.stratified_units([np.array([0.4, np.nan]), np.array([0.1, 0.3])])

    assert np.nansum(column) == pytest.approx((0.4 + 0.2) / 2)


def test_symmetric_limits_are_those_of_a_stratified_mean():
    # Half-widths z s / sqrt(n): that of the mean of two is z sqrt(s1^2 / n1 + s2^2 / n2) / 2
    z, errors = 1.96, [0.03, 0.04]
    estimates = [(0.2, 0.2 - z * 0.03, 0.2 + z * 0.03), (0.6, 0.6 - z * 0.04, 0.6 + z * 0.04)]

    mean, lower, upper = stats.macro_mean(estimates)

    assert mean == pytest.approx(0.4)
    assert upper - mean == pytest.approx(mean - lower) == pytest.approx(z * math.hypot(*errors) / 2)


def test_limits_of_one_collection_stay():
    assert stats.macro_mean([(0.9, 0.7, 0.95)]) == pytest.approx((0.9, 0.7, 0.95))
    assert math.isnan(stats.macro_mean([(0.5, math.nan, 0.6), (0.5, 0.4, 0.6)])[1])
    with pytest.raises(OptionError, match="estimates: found"):
        stats.macro_mean([])
