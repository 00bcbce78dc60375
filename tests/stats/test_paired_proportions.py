"""The score interval of paired hits: published limits, sums over all counts, errors, order."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench.errors import OptionError
from ragbench.stats import score_interval
from ragbench.stats.score_intervals import TIE_BEYOND, TIE_WITHIN, score_statistic


@st.composite
def counts(draw, most=40):
    """Lost, gained and n."""
    n = draw(st.integers(2, most))
    lost = draw(st.integers(0, n))
    return lost, draw(st.integers(0, n - lost)), n


def statistic(lost, gained, n, difference):
    z, chance = score_statistic(
        np.array(float(lost)), np.array(float(gained)), n, np.array(difference)
    )
    return float(z), float(chance)


@pytest.mark.parametrize(
    ("lost", "gained", "n", "confidence", "published"),
    [
        pytest.param(7, 1, 21, 0.95, (-0.517, -0.026), id="Fagerland et al., airways"),
        pytest.param(25, 28, 618, 0.90, (-0.0148, 0.0247), id="PropCIs scoreci.mp(25, 28, 618)"),
    ],
)
def test_the_statistic_gives_published_limits(
    scipy_optimize, scipy_stats, lost, gained, n, confidence, published
):
    # Tango's own interval: where the statistic crosses the normal quantile
    z = scipy_stats.norm.ppf((1 + confidence) / 2)
    mean = (gained - lost) / n

    low = scipy_optimize.brentq(lambda d: statistic(lost, gained, n, d)[0] - z, -0.99, mean)
    high = scipy_optimize.brentq(lambda d: statistic(lost, gained, n, d)[0] + z, mean, 0.99)

    digits = len(str(published[0]).split(".")[1])
    assert (round(low, digits), round(high, digits)) == published
    ours = score_interval(lost, gained, n, confidence=confidence)
    assert ours == pytest.approx((low, high), abs=0.1 * (high - low)), "little but a correction"


def test_the_chance_of_a_loss_is_the_most_likely_one(scipy_optimize):
    # Against a search over the likelihood
    for lost, gained, n, difference in ((6, 0, 100, -0.02), (3, 5, 40, -0.1), (0, 2, 30, -0.05)):

        def unlikely(p, lost=lost, gained=gained, n=n, difference=difference):
            unchanged = 1 - 2 * p - difference
            return -(
                lost * math.log(p)
                + gained * math.log(p + difference)
                + (n - lost - gained) * math.log(unchanged)
            )

        low, high = max(-difference, 0.0) + 1e-12, (1 - difference) / 2 - 1e-12
        optimum = scipy_optimize.minimize_scalar(
            unlikely, bounds=(low, high), method="bounded", options={"xatol": 1e-10}
        )
        assert statistic(lost, gained, n, difference)[1] == pytest.approx(optimum.x, abs=1e-5)


def tail(lost, gained, n, difference, weight, multinomial):
    """Sum over every table of n queries, one by one."""
    observed, p = statistic(lost, gained, n, difference)
    chances = [p, p + difference, 1 - 2 * p - difference]
    total = 0.0
    for b in range(n + 1):
        for c in range(n + 1 - b):
            z = statistic(b, c, n, difference)[0]
            if z > observed - 1e-9:
                share = weight if abs(z - observed) <= 1e-9 else 1.0
                total += share * multinomial.pmf([b, c, n - b - c], n, chances)
    return total


@pytest.mark.costly
@pytest.mark.parametrize(
    ("lost", "gained", "n"),
    [(6, 0, 30), (2, 1, 25), (1, 1, 20), (0, 4, 20), (3, 9, 30), (1, 0, 12), (10, 10, 24)],
)
def test_at_a_limit_the_tail_is_what_is_allowed(scipy_stats, lost, gained, n):
    low, high = score_interval(lost, gained, n)

    def upper(b, c, limit):
        weight = TIE_WITHIN if 0 < limit < (c - b) / n else TIE_BEYOND
        return tail(b, c, n, limit, weight, scipy_stats.multinomial)

    assert upper(lost, gained, low) == pytest.approx(0.025, abs=2e-6)
    assert upper(gained, lost, -high) == pytest.approx(0.025, abs=2e-6)


def test_no_change_has_three_quarters_of_the_chance_of_none():
    for n, confidence in ((5, 0.9), (100, 0.95), (10_000, 0.99)):
        low, high = score_interval(0, 0, n, confidence=confidence)
        assert high == -low
        assert 0.75 * (1 + low) ** n == pytest.approx((1 - confidence) / 2)


def errors(n, margin, churn, multinomial):
    """Exact chances of a wrong pass, a wrong fail and of "identical" at a drop of the margin."""
    chances = [margin + churn, churn, 1 - margin - 2 * churn]
    # 5 standard deviations and more: counts beyond have a chance of 1e-5
    reach = [int(n * p + 5 * math.sqrt(n * p) + 3) for p in chances[:2]]
    passed = failed = 0.0
    for b in range(reach[0]):
        for c in range(reach[1]):
            if b + c > n:
                continue
            low, high = score_interval(b, c, n)
            p = multinomial.pmf([b, c, n - b - c], n, chances)
            passed += p * (low > -margin) * (b + c > 0)
            failed += p * (high < -margin)
    return passed, failed


@pytest.mark.costly
@pytest.mark.parametrize(
    ("n", "margin", "churn"), [(50, 0.02, 0.0), (100, 0.02, 0.01), (50, 0.05, 0.01)]
)
def test_errs_as_seldom_as_it_says(scipy_stats, n, margin, churn):
    # Allowed are 2.5 %; counts are whole numbers, so a little more, or less
    passed, failed = errors(n, margin, churn, scipy_stats.multinomial)

    assert passed <= 0.035
    assert failed <= 0.035


def test_a_loss_of_few_hits_is_found(scipy_stats):
    # 5 in 100 lose a hit, 2 in 100 may: it took 8 of 100 by t, it takes 6
    assert score_interval(6, 0, 100)[1] < -0.02 < score_interval(5, 0, 100)[1]
    assert scipy_stats.binom.sf(5, 100, 0.05) == pytest.approx(0.384, abs=1e-3)


@given(counts(), st.sampled_from([0.5, 0.9, 0.95, 0.99]))
@settings(max_examples=16)
def test_limits_hold_the_mean_and_mirror(case, confidence):
    lost, gained, n = case
    low, high = score_interval(lost, gained, n, confidence=confidence)

    assert -1 <= low <= (gained - lost) / n <= high <= 1
    assert high - low > 0.1 / n
    assert score_interval(gained, lost, n, confidence=confidence) == (-high, -low)


@pytest.mark.costly
@given(counts())
@settings(max_examples=16)
def test_more_confidence_is_wider_and_a_loss_more_is_lower(case):
    lost, gained, n = case
    low, high = score_interval(lost, gained, n)
    wider = score_interval(lost, gained, n, confidence=0.99)

    assert wider[0] <= low + 1e-8
    assert high <= wider[1] + 1e-8
    if gained:
        less = score_interval(lost + 1, gained - 1, n)
        assert less[0] <= low + 1e-8
        assert less[1] <= high + 1e-8


def test_a_look_that_all_but_never_errs_has_finite_limits():
    limits = [score_interval(6, 1, 100, confidence=1 - 10.0**-k) for k in (2, 6, 10, 15)]

    assert limits == sorted(limits, reverse=True)
    assert all(-1 < low < -0.13 and 0.02 < high < 1 for low, high in limits)


@pytest.mark.parametrize(
    ("call", "place"),
    [
        (lambda: score_interval(3, 2, 4), "score_interval: n"),
        (lambda: score_interval(-1, 2, 4), "score_interval: lost"),
        (lambda: score_interval(1, 2, 4, confidence=1.0), "score_interval: confidence"),
    ],
)
def test_wrong_arguments(call, place, assert_message):
    with pytest.raises(OptionError) as caught:
        call()
    assert_message(caught.value, place)


def test_one_query_and_none():
    assert score_interval(1, 0, 1) == (-1.0, 1.0)
    assert np.isnan(score_interval(0, 0, 0)).all()
