"""Exact upper limit of a share, against SciPy and in simulations."""

import numpy as np
import pytest

from ragbench.errors import OptionError
from ragbench.stats import share_upper_limit

WITHOUT_REFERENCE = {
    "share_upper_limit": "the quantile of SciPy's beta distribution, and coverage in 10,000 "
    "simulations at each rate"
}
SIMULATIONS = 10_000


@pytest.mark.parametrize(
    ("count", "n", "limit"),
    [
        pytest.param(0, 60, 1 - 0.05 ** (1 / 60), id="none of 60: 4.9 %"),
        pytest.param(0, 1, 0.95, id="none of 1"),
        pytest.param(1, 2, 0.95**0.5, id="one of 2: p^2 = .95"),
        pytest.param(3, 3, 1.0, id="all"),
    ],
)
def test_values_by_hand(count, n, limit):
    assert share_upper_limit(count, n) == pytest.approx(limit, rel=1e-12)


@pytest.mark.parametrize("n", [1, 2, 7, 60, 500, 20_000])
@pytest.mark.parametrize("confidence", [0.8, 0.95, 0.999])
def test_limits_equal_quantiles_of_scipy(scipy_stats, n, confidence):
    counts = sorted({0, 1, n // 3, n // 2, n - 1} & set(range(n)))

    limits = [share_upper_limit(count, n, confidence=confidence) for count in counts]

    oracle = [scipy_stats.beta.ppf(confidence, count + 1, n - count) for count in counts]
    assert limits == pytest.approx(oracle, rel=1e-9)


@pytest.mark.parametrize("n", [5, 60])
def test_limit_holds_at_every_rate(n):
    draw = np.random.default_rng(3)
    limits = np.array([share_upper_limit(count, n) for count in range(n + 1)])
    for rate in np.linspace(0, 0.2, 21):
        counts = draw.binomial(n, rate, SIMULATIONS)

        covered = float((limits[counts] >= rate).mean())

        # three standard errors of a share of .95 among as many simulations
        assert covered >= 0.95 - 3 * (0.95 * 0.05 / SIMULATIONS) ** 0.5, rate


@pytest.mark.parametrize(("count", "n", "confidence"), [(0, 0, 0.95), (2, 1, 0.95), (0, 1, 1.0)])
def test_numbers_out_of_range_are_refused(count, n, confidence):
    with pytest.raises(OptionError):
        share_upper_limit(count, n, confidence=confidence)
