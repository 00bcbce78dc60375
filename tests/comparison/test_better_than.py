"""Letters: who is better than whom."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench.comparison.compare_runs import compare_sources
from ragbench.comparison.matching import match_sources
from ragbench.comparison.method import Method
from ragbench.stats import difference_interval
from tests.comparison.scored_systems import NAN, column, source, system
from tests.lazy import Lazy

scipy_stats = Lazy("scipy.stats")

VALUES = st.lists(st.sampled_from([0.0, 0.25, 0.5, 1.0]), min_size=12, max_size=12)
QUICK = Method(resamples=200)


def better_than(columns, method):
    """Return system -> worse systems of a table with letters, of one run."""
    matched = match_sources(source("run", *(system(name, c) for name, c in columns.items())), [])
    (family,) = compare_sources(matched, method).measures
    return {name: list(worse) for name, worse in family.better_than.items()}


@pytest.mark.parametrize(("shift", "seed"), [(0.0, 1), (0.05, 3), (0.2, 4), (0.5, 5)])
def test_two_systems_are_marked_as_permutation_test_and_interval_say(shift, seed):
    random = np.random.default_rng(seed)
    first = 0.1 + 0.3 * random.random(12)
    second = first + shift + random.normal(0, 0.03, 12)
    theirs = scipy_stats.permutation_test(  # exact: all 4096 flips
        (second - first,), np.mean, permutation_type="samples", vectorized=True, n_resamples=5000
    )

    better = better_than({"x": column(first), "y": column(second)}, Method())

    winner = "y" if second.mean() > first.mean() else "x"
    loser = "x" if winner == "y" else "y"
    interval = difference_interval(second - first, baseline=first)
    is_shown = theirs.pvalue <= 0.05 and not interval.lower <= 0 <= interval.upper
    assert is_shown == (shift >= 0.5)
    assert better == {winner: [loser] if is_shown else [], loser: []}


def test_hand_worked():
    # Six of six queries won: 2 / 2^6 = 0.031 alone; with the tie of b and c the family is 3
    better = better_than(
        {"a": column([1.0] * 6), "b": column([0.0] * 6), "c": column([0.0] * 6)}, Method()
    )

    assert better == {"a": ["b", "c"], "b": [], "c": []}


def test_five_queries_cannot_show_anything():
    # 2 / 2^5 = 0.0625 is the smallest p-value there is
    assert better_than({"a": column([1.0] * 5), "b": column([0.0] * 5)}, Method()) == {
        "a": [],
        "b": [],
    }


@given(VALUES, VALUES, VALUES)
@settings(max_examples=30)
def test_nobody_beats_who_beats_him_and_direction_turns_it_round(a, b, c):
    up = {"a": column(a), "b": column(b), "c": column(c)}
    down = {
        name: column(score_column.values, direction="lower") for name, score_column in up.items()
    }

    better, worse = better_than(up, QUICK), better_than(down, QUICK)

    for name, beaten in better.items():
        assert all(name not in better[other] for other in beaten)
        assert beaten == [other for other in "abc" if name in worse[other]]


def test_sums_and_systems_without_common_queries_are_not_told_apart():
    counts = {name: column([9.0] * 9, aggregate="sum") for name in "ab"}
    apart = {"a": column([1.0, NAN] * 9), "b": column([NAN, 0.0] * 9)}

    assert better_than(counts, QUICK) == {"a": [], "b": []}
    assert better_than(apart, QUICK) == {"a": [], "b": []}
