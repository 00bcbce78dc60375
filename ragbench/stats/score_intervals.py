"""Score intervals of paired differences: of proportions, and of graded values by tilting."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike

from ragbench.errors import OptionError
from ragbench.stats import arguments
from ragbench.stats.memory import remember
from ragbench.types import FloatArray

# How much of the observed counts' own probability a limit counts that lies as far as 0 or beyond,
# which claims that no larger difference is there. With the usual half, a gate passes a drop of
# exactly its margin in up to 4.2 % instead of 2.5 %; with three quarters in up to 3.4 %.
TIE_BEYOND = 0.75
# The same for a limit between 0 and the mean, which claims a difference: mid-p.
TIE_WITHIN = 0.5

_NORMAL = NormalDist()
_WITHIN = 1e-9  # error of a limit
_TIED = 1e-9  # largest relative difference of equal statistics
_DIGITS = 10  # beyond them a limit is chance, and another computer has others
_ZERO = np.zeros(1)
_GRID = np.linspace(0.0, 1.0, 65)
_BEND = 0.5  # place on the path of `tilted` beyond which a value that was not seen has a share
_NEAREST_GUESS = 0.1
_REACH = 6.5  # standard deviations of a count that are summed over
_FEW = 6
_CROSSING_STEPS = 200
_TILTING_STEPS = 100
_NEWTON_WITHIN = 1e-8  # last step of Newton's method, whose error is about the square of it
_SMALL = 1e-3  # a root below it is taken by its series
_EXACT_UP_TO = 20  # factorials; the series below has an error under 1e-12 beyond
_LOG_FACTORIALS = np.cumsum(np.log(np.maximum(np.arange(_EXACT_UP_TO + 1.0), 1.0)))


def score_interval(
    lost: int, gained: int, n: int, *, confidence: float = 0.95
) -> tuple[float, float]:
    """Return the interval of (gained - lost) / n, by the exact distribution of the score statistic.

    The difference d lies within the limits if the counts are not too unlikely for d. How unlikely
    they are is summed over all counts that n queries could have, with the chances of a loss and of
    a gain that fit best among those that differ by d, in the order of Tango's statistic. The
    observed counts themselves have `TIE_WITHIN` or `TIE_BEYOND` of their probability in the sum.

    Safe where few queries changed, and yet narrow: where 5 in 100 lose a hit, 38 % of samples of
    100 show a loss of more than .02. Limits swap and change sign with lost and gained.

    Args:
        lost: Number of queries that only the baseline gets right.
        gained: Number of queries that only the system gets right.
        n: Number of queries of both.
        confidence: Coverage that is aimed at.

    Returns:
        Lower and upper limit; -1 and 1 for a single query, NaN for none.

    Raises:
        OptionError: A count is no integer from 0, lost + gained is above n, or confidence is
            outside (0, 1).

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
    """Return Tango's statistic of counts, and the chance of a loss that it estimates.

    That is the distance of the mean of n queries from a difference in [-1, 1] in standard errors, 0
    where both are equal, and the chance of a loss that is most likely, given the difference.

    Both have the shape to which the counts and `difference` broadcast; n is above 0.

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
    """Return the lower limit: the least difference for which the statistic is not too rare."""
    if lost == n:
        return -1.0
    if lost + gained == 0:  # only counts without a loss are as high, and this one alone
        return float(min(alpha / TIE_BEYOND, 1.0) ** (1 / n)) - 1.0
    needed = -_NORMAL.inv_cdf(alpha)

    def rises(difference: float, tie: float) -> float:
        """Return a value that rises with the difference and is 0 at the limit."""
        tail = _tail(lost, gained, n, difference, tie)
        return needed + float(_NORMAL.inv_cdf(min(max(tail, 1e-300), 1 - 1e-12)))

    mean = (gained - lost) / n
    guess = _asymptotic(lost, gained, n, needed)
    if mean > 0 and rises(0.0, TIE_BEYOND) < 0:
        return crossing(lambda d: rises(d, TIE_WITHIN), 0.0, mean, guess=guess, within=_WITHIN)
    top = min(mean, 0.0)
    return crossing(lambda d: rises(d, TIE_BEYOND), -1.0, top, guess=guess, within=_WITHIN)


def _asymptotic(lost: int, gained: int, n: int, needed: float) -> float:
    """Return roughly the lower limit of Tango's interval, which assumes a normal statistic."""
    low, high = -1.0, (gained - lost) / n
    counts = np.array(float(lost)), np.array(float(gained))
    for _ in range(2):
        places = low + (high - low) * _GRID
        z = score_statistic(*counts, n, places)[0]
        above = min(max(int(np.count_nonzero(z > needed)), 1), len(places) - 1)
        low, high = float(places[above - 1]), float(places[above])
    return (low + high) / 2


def _tail(lost: int, gained: int, n: int, difference: float, tie: float) -> float:
    """Return the probability of counts with a higher statistic, and `tie` of that of equal ones."""
    observed, chance = score_statistic(
        np.array(float(lost)), np.array(float(gained)), n, np.array(difference)
    )
    p_lost = float(chance)
    p_gained = max(p_lost + difference, 0.0)
    b, c = _reached(n, p_lost, lost), _reached(n, p_gained, gained)
    z = score_statistic(b[:, np.newaxis], c, n, np.array(difference))[0]
    # all sums of both counts, and the place of each pair's sum among them
    places = np.arange(len(b))[:, np.newaxis] + np.arange(len(c))
    unchanged = n - b[0] - c[0] - np.arange(len(b) + len(c) - 1.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        unchanged_logs = _log_power(np.maximum(unchanged, 0.0), max(1 - p_lost - p_gained, 0.0))
        logs = (
            float(log_factorial(np.array([float(n)]))[0])
            + _log_power(b, p_lost)[:, np.newaxis]
            + _log_power(c, p_gained)
            + unchanged_logs[places]
        )
    probability = np.where(unchanged[places] >= 0, np.exp(logs), 0.0)
    tied = np.abs(z - observed) <= _TIED * np.maximum(np.abs(observed), 1.0)
    weight = np.where(tied, tie, z > observed)
    return float((weight * probability).sum())


def _reached(n: int, p: float, observed: int) -> FloatArray:
    """Return the counts that matter: around the expected one, the observed one, and between."""
    spread = _REACH * math.sqrt(n * p * (1 - p)) + _FEW
    least = max(math.floor(min(n * p - spread, observed - _FEW)), 0)
    most = min(math.ceil(max(n * p + spread, observed + spread)), n)
    return np.arange(least, most + 1, dtype=np.float64)


def _log_power(count: FloatArray, p: float) -> FloatArray:
    """Return log(p^count / count!)."""
    power = count * math.log(p) if p > 0 else np.where(count == 0, 0.0, -math.inf)
    return np.asarray(power - log_factorial(count), dtype=np.float64)


def log_factorial(count: FloatArray) -> FloatArray:
    """Return log(count!) of whole numbers from 0."""
    small = np.minimum(count, _EXACT_UP_TO).astype(np.intp)
    k = np.maximum(count, _EXACT_UP_TO)
    inverse = 1 / k
    series = inverse * (1 / 12 - inverse**2 * (1 / 360 - inverse**2 * (1 / 1260)))
    stirling = (k + 0.5) * np.log(k) - k + 0.5 * math.log(2 * math.pi) + series
    return np.where(count <= _EXACT_UP_TO, _LOG_FACTORIALS[small], stirling)


def tilting_interval(
    differences: ArrayLike,
    *,
    largest: float | tuple[float, float] = 1.0,
    confidence: float = 0.95,
) -> tuple[float, float]:
    """Return the interval of a mean of differences none of which can be larger than `largest`.

    A mean m lies within the limits if, drawn from the distribution that fits the differences best
    among those with mean m, a mean as far from m as the observed one is not too rare. Such a
    distribution weighs the differences anew ("tilts" them), and it may add one of a size that
    were not seen yet: 100 unchanged queries do not exclude that 3 in 100 lose everything. How
    rare the observed mean is, the saddlepoint approximation says, so that skew is in both limits.
    A sample without a loss of everything allows for as many unseen ones as an unchanged one does,
    or for a little less if its mean is not precise.

    Both limits allow for unseen differences up to `largest`, whatever the sign of the mean. Where
    that excludes 0 already, the limit is moved towards the mean: to the limit that allows for
    unseen differences no larger than the largest of the sample, in either direction. If all
    differences are 0 or `largest`, both limits are those of `score_interval`, apart from the
    approximation.

    Args:
        differences: n numbers, from minus the largest loss to the largest gain.
        largest: The largest possible difference, above 0; two numbers: the largest loss and gain.
        confidence: Coverage that is aimed at.

    Returns:
        Lower and upper limit; the largest loss, negative, and gain where n = 1, NaN where n = 0.
        The interval never has zero width. They mirror each other where the differences change sign.

    Raises:
        OptionError: An argument is outside its range, or a difference is beyond `largest`.

    Example:
        Three of fifty queries lost something, so the interval reaches farther down than up.

        >>> low, high = tilting_interval([-0.5, -0.5, -0.3] + [0.0] * 47)
        >>> round(low, 3), round(high, 3)
        (-0.083, 0.034)

        All gained a little. No query can lose more than it has, .4.

        >>> low, high = tilting_interval([0.01] * 300, largest=(0.4, 0.6))
        >>> round(low, 3), round(high, 3)
        (0.01, 0.017)

    References:
        Efron (1981), Nonparametric standard errors and confidence intervals. DiCiccio and Romano
        (1990), Nonparametric confidence limits by resampling methods and least favorable
        families. Daniels (1987), Tail probability approximations. Owen (2001), Empirical
        likelihood, for the weights.
    """
    owner = "tilting_interval"
    loss, gain = arguments.largest_differences(owner, largest)
    alpha = (1 - arguments.probability(owner, "confidence", confidence)) / 2
    sample = arguments.sample(owner, "differences", differences)
    unit = max(loss, gain)
    arguments.within(owner, "differences", sample, -loss, gain)
    if len(sample) < 2:
        return (-loss, gain) if len(sample) else (math.nan, math.nan)
    d = sample / unit
    lower, upper = _tilted_lower(d, loss / unit, alpha), -_tilted_lower(-d, gain / unit, alpha)
    return round(unit * lower, _DIGITS), round(unit * upper, _DIGITS)


def _tilted_lower(d: FloatArray, loss: float, alpha: float) -> float:
    """Return the lower limit of the mean of differences from -loss, the largest possible, to 1."""
    # losses that no query has shown come first: without them, small gains of a few queries would
    # exclude rare total losses
    limit = _limit_with_unseen(d, loss, alpha)
    largest = float(np.abs(d).max())
    # with the same end the same values would give the same limit again
    if limit > 0 and largest < loss:
        limit = max(limit, _limit_with_unseen(d, largest, alpha))
    return limit


# Distance of the tail at a mean of 0 from its limit, in standard normal deviates, from which it
# decides without the root: the root is found within far less.
_CLEAR = 0.01


def score_is_above_zero(lost: int, gained: int, n: int, *, confidence: float) -> bool:
    """Return True if the lower limit of `score_interval` is above 0, without the upper one."""
    if n < 2 or gained <= lost:
        return False
    return round(_lower(lost, gained, n, (1 - confidence) / 2), _DIGITS) > 0


def tilting_is_above_zero(
    differences: FloatArray, *, largest: tuple[float, float], confidence: float
) -> bool:
    """Return True if the lower limit of `tilting_interval` is above 0, without computing it.

    The tail of the distribution with mean 0 tells it; only where that is within 0.01 standard
    deviates of the limit, the limit is computed. The arguments are those of `tilting_interval`.
    """
    loss, unit = largest[0], max(largest)
    n, alpha = len(differences), (1 - confidence) / 2
    if n < 2 or not differences.mean() > 0:
        return False
    d, loss = differences / unit, loss / unit
    distinct, shares = distinct_shares((d + loss) / (1 + loss))
    mean, zero = float(distinct @ shares), loss / (1 + loss)
    # only samples without a value at 0 hide unseen losses
    factor = unseen_factor(float(d.std()), loss, n, alpha) if shares[0] == 0 else 1.0
    if mean * factor < zero - _WITHIN:
        return False
    if zero > _WITHIN and np.count_nonzero(shares) > 1:
        null = tilt_to_mean(distinct, shares, zero)
        distance = tail_distance(null, mean, n) + _NORMAL.inv_cdf(alpha)
        if distance < -_CLEAR:
            return False
        if distance > _CLEAR and mean * factor > zero + _WITHIN:
            return True
    return round(unit * _tilted_lower(d, loss, alpha), _DIGITS) > 0


@dataclass(frozen=True, slots=True)
class Tilted:
    """A distribution on distinct values in [0, 1] with mean below that of the sample.

    `tilted` creates it from a sample.

    Attributes:
        values: Distinct values, rising; the first is 0, which need not have been observed.
        weights: The probability of each; they sum to 1.
    """

    values: FloatArray
    weights: FloatArray

    @property
    def mean(self) -> float:
        """The mean."""
        return float(self.values @ self.weights)


def tilted(values: FloatArray, shares: FloatArray, place: float) -> Tilted:
    """Return a distribution that fits a sample best among all on [0, 1] with its mean.

    Those of all means lie on a path: first the values are weighed anew, proportional to
    1 / (1 + t value) with a rising t, then what is left goes to 0, if no value is there. `place` on
    it is 0 at the sample itself, 1 where everything is at 0. Values and shares are those of
    `distinct_shares`, not all of them at 0.

    Example:
        >>> found = tilted(np.array([0.0, 0.5, 1.0]), np.array([0.0, 0.5, 0.5]), 0.75)
        >>> found.weights.round(4).tolist(), round(found.mean, 4)
        ([0.5, 0.3333, 0.1667], 0.3333)
    """
    has_zero = shares[0] > 0
    turn = place if has_zero else min(2 * place, 1.0)
    if has_zero and place >= 1:
        return Tilted(values, (values == 0).astype(np.float64))
    at_end = 0.0 if has_zero else max(2 * place - 1, 0.0)
    divisors = 1 - turn + turn * values
    if turn == 1:
        divisors[0] = 1.0  # nothing is there
    weights = shares / divisors
    weights *= (1 - at_end) / float(weights.sum())
    if at_end:
        weights[0] = at_end
    return Tilted(values, weights)


def tilt_to_mean(values: FloatArray, shares: FloatArray, mean: float) -> Tilted:
    """Return the distribution on the path of `tilted` with a given mean, or the nearest one.

    Example:
        >>> tilt_to_mean(np.array([0.0, 0.5, 1.0]), np.array([0.0, 0.5, 0.5]), 0.5).mean
        0.5
    """
    if not 0 < mean < float(values @ shares):
        return tilted(values, shares, float(mean <= 0))
    weights = np.zeros_like(shares)
    start, highest = 0, float(1 - shares[0]) / mean
    if shares[0] == 0:
        weights[1:] = mean * shares[1:] / values[1:]
        weights[0] = 1 - float(weights.sum())
        if weights[0] >= 0:  # the mean is so low that 0 has a weight
            return Tilted(values, weights)
        weights[0], start = 0.0, 1
    x, shares = values[start:] - mean, shares[start:]
    # shares / (1 + slope x) sum to 1 at the slope where their mean is right
    first = shares * x
    low, high, slope = 0.0, highest, float(first.sum()) / float(first @ x)
    for _ in range(_TILTING_STEPS):
        if not low < slope < high:
            slope = (low + high) / 2
        inverse = 1 / (1 + slope * x)
        moments = first * inverse
        excess = float(moments.sum())
        low, high = (slope, high) if excess > 0 else (low, slope)
        step = excess / float((moments * inverse) @ x)
        slope += step
        if abs(step) <= _NEWTON_WITHIN * slope:
            break
    tilt = shares / (1 + slope * x)
    weights[start:] = tilt / tilt.sum()
    return Tilted(values, weights)


def distinct_shares(values: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the distinct values in [0, 1], rising and led by 0, with the share of each.

    Values that differ by rounding alone (beyond 10 digits) are one: between them there is nothing
    to weigh. Values outside are moved to 0 or 1; the share of 0 is 0 if no value is there. The
    shares sum to 1; `values` must not be empty.
    """
    rounded = np.asarray(np.round(np.clip(values, 0.0, 1.0), _DIGITS), dtype=np.float64)
    distinct, counts = np.unique(rounded, return_counts=True)
    shares = counts / len(values)
    if distinct[0] > 0:
        distinct, shares = _with_zero(distinct), _with_zero(shares)
    return distinct, shares


def _with_zero(values: FloatArray) -> FloatArray:
    """Return the values led by 0."""
    return np.concatenate((_ZERO, values))


@remember
def _limit_with_unseen(d: FloatArray, loss: float, alpha: float) -> float:
    """Return the lower limit of the mean of differences, if unseen ones may be as low as -loss."""
    n, width = len(d), 1 + loss
    distinct, shares = distinct_shares((d + loss) / width)
    mean = float(distinct @ shares)
    if len(distinct) == 1:
        return -loss
    # only samples without a value at 0 are as high
    sd = float(d.std())
    unseen = mean * unseen_factor(sd, loss, n, alpha) if shares[0] == 0 else mean
    if np.count_nonzero(shares) == 1:
        return width * unseen - loss
    needed = -_NORMAL.inv_cdf(alpha)

    def rises(place: float) -> float:
        """Return a value that rises with the place and is 0 at the limit."""
        return needed - tail_distance(tilted(distinct, shares, 1 - place), mean, n)

    guess, ends = _rough_place(mean, sd / width, needed / math.sqrt(n)), (0.0, 1.0)
    if shares[0] == 0:
        # the path has a bend where the values end and unseen losses begin
        guess, ends = (1 + guess) / 2, (_BEND, 1.0)
        if rises(_BEND) >= 0:
            guess, ends = _BEND * alpha ** (2 / 3 / n), (0.0, _BEND)
    place = _smooth_crossing(rises, *ends, guess=guess, within=_WITHIN)
    return width * min(unseen, tilted(distinct, shares, 1 - place).mean) - loss


def _rough_place(mean: float, sd: float, distance: float) -> float:
    """Return roughly where on the path of `tilted`, from its end, the mean is so many sd lower."""
    slope = distance / max(sd, _WITHIN)
    shifted = 1 - slope * (mean - distance * sd)
    return max(shifted / (slope + shifted), _NEAREST_GUESS) if shifted > 0 else _NEAREST_GUESS


def unseen_factor(sd: float, loss: float, n: int, alpha: float) -> float:
    """Return 1 less the largest share of unseen losses that a sample without any may hide.

    Such samples have a chance of their own, of which samples with a higher mean are a half. Where
    the mean varies by less than half a loss, a limit at that half would be wrong too often: a true
    mean just below it is missed by nearly all samples without a loss. So it counts more of the
    chance there, up to that of equal values.

    Args:
        sd: Standard deviation of the differences.
        loss: Size of an unseen loss.
        n: Number of queries.
        alpha: Error on one side.

    Example:
        >>> round(300 * (1 - unseen_factor(0.0, 1.0, 300, 0.025)), 2)
        3.38
    """
    precise = max(0.0, 1 - 2 * sd * math.sqrt(n) / loss)
    tie = TIE_WITHIN + (TIE_BEYOND - TIE_WITHIN) * precise
    return float(min(alpha / tie, 1.0) ** (1 / n))


def tail_distance(null: Tilted, mean: float, n: int) -> float:
    """Return the distance of a mean of n draws from the centre, in standard normal deviates.

    The draws are from `null`; `mean` lies between its mean, the centre, and its largest value.

    Example:
        A mean of .7 in 100 throws of a coin is about 4 standard deviations from .5.

        >>> coin = Tilted(np.array([0.0, 1.0]), np.array([0.5, 0.5]))
        >>> round(tail_distance(coin, 0.7, 100), 2)
        4.05
    """
    x = null.values - mean
    slope = _saddlepoint(x, null.weights)
    tilt = null.weights * np.exp(slope * x)
    mass = float(tilt.sum())
    variance = float(tilt @ (x * x)) / mass  # about the mean, which is now at 0
    root = math.sqrt(max(-2 * n * math.log(mass), 0.0))
    if root < _SMALL:
        skew = float(null.weights @ x**3) / math.pow(max(variance, 1e-300), 1.5)
        return root + skew / (6 * math.sqrt(n))
    # Lugannani and Rice's tail, in the form of Barndorff-Nielsen
    factor = slope * math.sqrt(n * variance) / root
    distance = root + math.log(factor) / root if factor > 0 else -math.inf
    # Chernoff's bound, with the weight of a tie: better where the mean is all but the largest
    bound = max(TIE_BEYOND * math.exp(-root * root / 2), 1e-300)
    return max(distance, -float(_NORMAL.inv_cdf(bound)))


def _saddlepoint(x: FloatArray, weights: FloatArray) -> float:
    """Return the slope above 0 at which the values, weighed by exp(slope x), have mean 0."""
    low, high, slope = 0.0, math.inf, 0.0
    beyond = x - x[-1]  # from the largest, so that no power overflows
    first = weights * x
    second = first * x
    n_below = int(x.searchsorted(0.0))
    losses, gains = first[:n_below], first[n_below:]
    losses_rise, gains_rise = second[:n_below], second[n_below:]
    for _ in range(_TILTING_STEPS):
        tilt = np.exp(slope * beyond)
        of_losses, of_gains = tilt[:n_below], tilt[n_below:]
        loss, gain = -float(losses @ of_losses), float(gains @ of_gains)
        low, high = (slope, high) if gain < loss else (low, slope)
        following = math.inf
        if loss > 0 and gain > 0:
            # the logarithm of gain / loss is nearly straight, of two values it is
            rise = float(losses_rise @ of_losses) / loss + float(gains_rise @ of_gains) / gain
            following = slope + math.log(loss / gain) / rise
        if not low <= following <= high or math.isinf(following):
            following = 2 * low + 1.0 if math.isinf(high) else (low + high) / 2
        if abs(following - slope) <= _NEWTON_WITHIN * max(slope, 1.0):
            return following
        slope = following
    return slope


def crossing(
    rises: Callable[[float], float], low: float, high: float, *, guess: float, within: float
) -> float:
    """Return the place in [low, high] where `rises` turns from negative to positive.

    Neither end is evaluated: the function counts as negative at `low` and as positive at `high`.
    It may jump over 0; then the place is that of the jump. The place is at most `within` away from
    the root, and is found after 200 steps at the latest. `guess` lies in [low, high]. Where the
    function turns several times, guess and steps decide which place it is.

    Example:
        >>> round(crossing(lambda x: x**3 - 2.0, 0.0, 8.0, guess=1.0, within=1e-9), 6)
        1.259921
    """
    low_rise = high_rise = 0.0  # the values at both ends, 0 where not known
    place, step = guess, max((high - guess) / 8, within)
    for count in range(_CROSSING_STEPS):
        if not low < place < high:
            place = low + (high - low) / 2
        value = rises(place)
        if value < 0:
            low, low_rise = place, value
        else:
            high, high_rise = place, value
        if high - low <= within:
            break
        if low_rise == 0 or high_rise == 0:  # on one side of the root so far: away from the guess
            place, step = (place + step if value < 0 else place - step), 2 * step
        elif count % 3 == 2:  # halve now and then: a jump cannot hold it up
            place = low + (high - low) / 2
        else:  # not nearer to an end than the answer has to be, so that both ends move
            place = low - low_rise * (high - low) / (high_rise - low_rise)
            place = min(max(place, low + within / 2), high - within / 2)
    return low + (high - low) / 2


def _smooth_crossing(
    rises: Callable[[float], float], low: float, high: float, *, guess: float, within: float
) -> float:
    """Return the place as `crossing` does, in half the steps, for a function without jumps."""
    place, step = guess, max((high - guess) / 16, within)
    last_place = last_value = math.nan
    n_below = n_above = n_slow = 0
    while n_below + n_above < _CROSSING_STEPS:
        if not low < place < high:
            place = low + (high - low) / 2
        width, value = high - low, rises(place)
        if value < 0:
            low, n_below = place, n_below + 1
        else:
            high, n_above = place, n_above + 1
        root = _secant_root(last_place, last_value, place, value)
        if high - low <= within:
            break
        if low <= root <= high and abs(root - place) <= within / 2:
            return root
        # a jump, or a bend, must not hold it up
        is_slow = high - low > width / 2 and not abs(root - place) < abs(place - last_place) / 2
        n_slow = n_slow + 1 if is_slow else 0
        last_place, last_value = place, value
        if not n_below or not n_above:  # on one side of the root so far: go beyond it
            if math.isfinite(root):
                step = min(2 * abs(root - place) + within, 8 * step)
            place = place + step if value < 0 else place - step
            step *= 2
        elif n_slow > 1 or math.isnan(root):
            place, n_slow = low + (high - low) / 2, 0
        else:  # not nearer to an end than the answer has to be, so that both ends move
            place = min(max(root, low + within / 4), high - within / 4)
    return low + (high - low) / 2


def _secant_root(x: float, value: float, other_x: float, other_value: float) -> float:
    """Return the root of the line through two points; NaN if it does not rise."""
    run, rise = other_x - x, other_value - value
    return other_x - other_value * run / rise if run * rise > 0 else math.nan
