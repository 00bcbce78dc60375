"""The score interval of a difference of paired proportions: hits that two systems gain and lose."""

from __future__ import annotations

import math
from functools import lru_cache
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np

from ragbench.errors import OptionError
from ragbench.stats import arguments
from ragbench.stats.root import crossing

if TYPE_CHECKING:
    from ragbench.types import FloatArray

TIE_BEYOND = 0.75
"""How much of the observed counts' own probability a limit counts that lies as far as 0 or beyond,
which claims that no larger difference is there. With the usual half, a gate passes a drop of
exactly its margin in up to 4.2 % instead of 2.5 %; with three quarters in up to 3.4 %."""
TIE_WITHIN = 0.5
"""The same for a limit between 0 and the mean, which claims a difference: mid-p."""

_NORMAL = NormalDist()
_WITHIN = 1e-9
_TIED = 1e-9
_DIGITS = 10
_GRID = np.linspace(0.0, 1.0, 65)
_REACH = 6.5  # standard deviations of a count that are summed over
_FEW = 6
_EXACT_UP_TO = 20  # factorials; the series below has an error under 1e-12 beyond
_LOG_FACTORIALS = np.cumsum(np.log(np.maximum(np.arange(_EXACT_UP_TO + 1.0), 1.0)))


def score_interval(
    lost: int, gained: int, n: int, *, confidence: float = 0.95
) -> tuple[float, float]:
    """Give the interval of (gained - lost) / n, by the exact distribution of the score statistic.

    The difference d lies within the limits if the counts are not too unlikely for d. How unlikely
    they are is summed over all counts that n queries could have, with the chances of a loss and of
    a gain that fit best among those that differ by d, in the order of Tango's statistic. The
    observed counts themselves have `TIE_WITHIN` or `TIE_BEYOND` of their probability in the sum.

    Safe where few queries changed, and yet narrow: where 5 in 100 lose a hit, 38 % of samples of
    100 show a loss of more than .02. Limits swap and change sign with lost and gained.

    Args:
        lost: How many queries only the baseline gets right.
        gained: How many only the system gets right.
        n: How many both were asked; 0 has no limits.
        confidence: Coverage that is aimed at.

    Returns:
        Lower and upper limit; -1 and 1 for a single query, NaN for none.

    Example:
        Children whose airways react too much, of Fagerland et al., after a transplantation only
        (7) and before it only (1). Tango's own limits, which take z for normal: -.517, -.026.

        >>> low, high = score_interval(7, 1, 21)
        >>> round(low, 3), round(high, 3)
        (-0.527, -0.024)

    References:
        Tango (1998), Equivalence test and confidence interval for the difference in proportions
        for the paired-sample design. Fagerland, Lydersen and Laake (2014), Recommended tests and
        confidence intervals for paired binomial proportions, for mid-p. Storer and Kim (1990),
        Exact properties of some approximate test statistics, for the estimated p-value.
    """
    owner = "score_interval"
    for name, count in (("lost", lost), ("gained", gained), ("n", n)):
        arguments.whole_number(owner, name, count, least=0)
    if lost + gained > n:
        raise OptionError(owner, "n", n, f"at least lost + gained = {lost + gained}")
    alpha = (1 - arguments.probability(owner, "confidence", confidence)) / 2
    if n < 2:
        return (-1.0, 1.0) if n else (math.nan, math.nan)
    low, high = _lower(lost, gained, n, alpha), -_lower(gained, lost, n, alpha)
    return round(low, _DIGITS), round(high, _DIGITS)


def score_statistic(
    lost: FloatArray, gained: FloatArray, n: int, difference: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Give Tango's statistic of counts, and the chance of a loss that it estimates.

    Args:
        lost: Counts of losses.
        gained: Counts of gains, of a shape that goes with `lost`.
        n: Number of queries.
        difference: That of which the counts are tested, in [-1, 1]; its shape goes with both.

    Returns:
        The distance of the mean from the difference in standard errors, 0 where both are equal;
        and the chance of a loss that is most likely, given the difference.

    Example:
        >>> six, none, difference = np.array(6.0), np.array(0.0), np.array(-0.02)
        >>> z, chance = score_statistic(six, none, 100, difference)
        >>> round(float(z), 4), round(float(chance), 4)
        (-1.9803, 0.0306)
    """
    linear = (2 * n - gained + lost) * difference - gained - lost
    constant = -lost * difference * (1 - difference)
    root = np.sqrt(np.maximum(linear * linear - 8 * n * constant, 0.0))
    chance = np.clip((root - linear) / (4 * n), np.maximum(-difference, 0.0), (1 - difference) / 2)
    variance = n * (2 * chance + difference * (1 - difference))
    distance = gained - lost - n * difference
    z = distance / np.sqrt(np.maximum(variance, 1e-300))
    return np.where(np.abs(distance) <= _TIED, 0.0, z), chance


@lru_cache(maxsize=4096)
def _lower(lost: int, gained: int, n: int, alpha: float) -> float:
    """Give the lower limit: the least difference for which so high a statistic is not too rare."""
    if lost == n:
        return -1.0
    if lost + gained == 0:  # only counts without a loss are as high, and this one alone
        return float(min(alpha / TIE_BEYOND, 1.0) ** (1 / n)) - 1.0
    needed = -_NORMAL.inv_cdf(alpha)

    def rises(difference: float, tie: float) -> float:
        tail = _tail(lost, gained, n, difference, tie)
        return needed + float(_NORMAL.inv_cdf(min(max(tail, 1e-300), 1 - 1e-12)))

    mean = (gained - lost) / n
    guess = _asymptotic(lost, gained, n, needed)
    if mean > 0 and rises(0.0, TIE_BEYOND) < 0:
        return crossing(lambda d: rises(d, TIE_WITHIN), 0.0, mean, guess=guess, within=_WITHIN)
    top = min(mean, 0.0)
    return crossing(lambda d: rises(d, TIE_BEYOND), -1.0, top, guess=guess, within=_WITHIN)


def _asymptotic(lost: int, gained: int, n: int, needed: float) -> float:
    """Give about the lower limit of Tango's own interval, which takes the statistic for normal."""
    low, high = -1.0, (gained - lost) / n
    counts = np.array(float(lost)), np.array(float(gained))
    for _ in range(2):
        places = low + (high - low) * _GRID
        z = score_statistic(*counts, n, places)[0]
        above = min(max(int(np.count_nonzero(z > needed)), 1), len(places) - 1)
        low, high = float(places[above - 1]), float(places[above])
    return (low + high) / 2


def _tail(lost: int, gained: int, n: int, difference: float, tie: float) -> float:
    """Give the probability of counts with a higher statistic, and `tie` of that of equal ones."""
    observed, chance = score_statistic(
        np.array(float(lost)), np.array(float(gained)), n, np.array(difference)
    )
    p_lost = float(chance)
    p_gained = max(p_lost + difference, 0.0)
    b = _reached(n, p_lost, lost)[:, np.newaxis]
    c = _reached(n, p_gained, gained)[np.newaxis, :]
    z = score_statistic(b, c, n, np.array(difference))[0]
    rest = n - b - c
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = (
            float(_log_factorial(np.array([float(n)]))[0])
            + _log_power(b, p_lost)
            + _log_power(c, p_gained)
            + _log_power(np.maximum(rest, 0.0), max(1 - p_lost - p_gained, 0.0))
        )
    probability = np.where(rest >= 0, np.exp(logs), 0.0)
    tied = np.abs(z - observed) <= _TIED * np.maximum(np.abs(observed), 1.0)
    weight = np.where(tied, tie, z > observed)
    return float((weight * probability).sum())


def _reached(n: int, p: float, observed: int) -> FloatArray:
    """Give the counts that matter: around the expected one, the observed one, and between."""
    spread = _REACH * math.sqrt(n * p * (1 - p)) + _FEW
    least = max(math.floor(min(n * p - spread, observed - _FEW)), 0)
    most = min(math.ceil(max(n * p + spread, observed + spread)), n)
    return np.arange(least, most + 1, dtype=np.float64)


def _log_power(count: FloatArray, p: float) -> FloatArray:
    """Give log(p^count / count!)."""
    power = count * math.log(p) if p > 0 else np.where(count == 0, 0.0, -math.inf)
    return np.asarray(power - _log_factorial(count), dtype=np.float64)


def _log_factorial(count: FloatArray) -> FloatArray:
    small = np.minimum(count, _EXACT_UP_TO).astype(np.intp)
    k = np.maximum(count, _EXACT_UP_TO)
    inverse = 1 / k
    series = inverse * (1 / 12 - inverse**2 * (1 / 360 - inverse**2 * (1 / 1260)))
    stirling = (k + 0.5) * np.log(k) - k + 0.5 * math.log(2 * math.pi) + series
    return np.where(count <= _EXACT_UP_TO, _LOG_FACTORIALS[small], stirling)
