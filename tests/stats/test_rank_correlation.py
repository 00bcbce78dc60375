"""Spearman and Kendall against SciPy, on ties too, and worked by hand."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ragbench.stats import rank_correlation
from ragbench.stats.rank_correlation import kendall_tau_b, spearman
from tests.stats.strategies import FEW, rated

numbers = st.one_of(st.sampled_from(FEW), st.floats(-1e6, 1e6, allow_subnormal=False))


@given(st.one_of(rated(), st.lists(st.tuples(numbers, numbers), min_size=2).map(np.transpose)))
def test_agree_with_scipy(scipy_stats, pair):
    assume(all(len(set(values)) > 1 for values in pair))

    assert spearman(*pair).value == pytest.approx(scipy_stats.spearmanr(*pair)[0], abs=1e-9)
    assert kendall_tau_b(*pair).value == pytest.approx(scipy_stats.kendalltau(*pair)[0], abs=1e-9)


@pytest.mark.parametrize(
    ("x", "y", "rho", "tau"),
    [
        pytest.param([1, 2, 3], [3, 2, 1], -1, -1, id="reversed"),
        pytest.param([1, 2, 3, 4], [1, 3, 2, 4], 0.8, 4 / 6, id="1 - 6 x 2 / 60; (5 - 1) / 6"),
        pytest.param(
            [1, 1, 2],
            [1, 2, 3],
            3**0.5 / 2,
            2 / 6**0.5,
            id="one tie: 1.5 / sqrt(1.5 x 2); 2 / 6^.5",
        ),
    ],
)
def test_hand_worked(x, y, rho, tau):
    assert spearman(x, y).value == pytest.approx(rho)
    assert kendall_tau_b(x, y).value == pytest.approx(tau)


@given(rated(min_size=3), st.sampled_from([np.exp, np.cbrt, lambda v: 7 * v - 3]))
def test_a_rising_transformation_changes_nothing(pair, rise):
    x, y = pair
    for statistic in (spearman, kendall_tau_b):
        one, other = statistic(x, y).to_dict(), statistic(rise(x), y).to_dict()
        assert (one["value"], one["interval"]) == (other["value"], other["interval"])


def test_blocks_change_nothing(monkeypatch):
    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 9, (2, 300)).astype(float)
    whole = spearman(x, y), kendall_tau_b(x, y)

    monkeypatch.setattr(rank_correlation, "_BLOCK_BYTES", 16 * 300 * 7)

    for one, other in zip((spearman(x, y), kendall_tau_b(x, y)), whole, strict=True):
        assert (one.value, one.lower) == pytest.approx((other.value, other.lower), abs=1e-12)
