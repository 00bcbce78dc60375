"""Intervals by resampling: the bootstrap of a mean, and the jackknife of any statistic.

A bootstrap takes n finite numbers, one per query, draws `resamples` samples of n with replacement,
the same for the same seed, and returns the lower and the upper limit: both the mean where all
values are equal, NaN where n = 0. Memory stays bounded; the time is O(n x resamples). The jackknife
serves one table of ratings, the mean over several, and items that are not independent because they
belong to the same query.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ragbench.errors import OptionError
from ragbench.stats import arguments
from ragbench.stats.student import t_quantile
from ragbench.types import FloatArray

RESAMPLES = 10_000
# From this many values (of queries or clusters) on that differ from the others, resampling says how
# a mean of them varies.
ENOUGH_CHANGED = 20
_BLOCK_BYTES = 8 * 2**20
_TIE = 1e-12
_ROUNDING = 1e-9  # (1 - 0.9) / 2 is just below 0.05

# Smallest effective number of groups behind a spread, see `carriers`. In 400 simulations of
# each of 15 worlds (kappa, alpha, rho, tau, AUC; n = 20, 50, 200) the interval then covers in 90 to
# 100 %, in 42 of the 45 cells in 94 or more.
CARRIERS = 6

_NO_SPREAD = 1e-12
_CERTAIN = 1 - _NO_SPREAD
# The sum of 100 million values of this size is still finite.
_LARGEST = 1e300


def percentile_bootstrap(
    values: ArrayLike, *, confidence: float = 0.95, resamples: int = RESAMPLES, seed: int = 0
) -> tuple[float, float]:
    """Return lower and upper limit of the mean: two quantiles of the resampled means.

    Both limits are the value itself if all values are equal, and NaN without values.

    Args:
        values: One finite number per query.
        confidence: Coverage of the interval, between 0 and 1.
        resamples: Number of samples drawn with replacement, at least 1.
        seed: Seed of the draws, at least 0.

    Raises:
        OptionError: An option is out of range, a value is not finite or above 1e300 in size, or
            `values` is no vector.

    Example:
        A mean of two resampled values is 0 in one of four resamples, and 1 in another.

        >>> percentile_bootstrap([0.0, 1.0])
        (0.0, 1.0)

    References:
        Efron (1979), Bootstrap methods: another look at the jackknife.
    """
    sample, alpha = _checked("percentile_bootstrap", values, confidence, resamples, seed)
    if (point := _point(sample)) is not None:
        return point
    return _quantiles(_resampled_means(sample, resamples, seed), alpha, 1 - alpha)


def bca_bootstrap(
    values: ArrayLike, *, confidence: float = 0.95, resamples: int = RESAMPLES, seed: int = 0
) -> tuple[float, float]:
    """Return the percentile interval corrected for bias and skew (BCa).

    For sparse paired differences it is not the better choice: there its coverage falls to 86 %.
    Arguments are those of `percentile_bootstrap`. Both limits are the value itself if all values
    are equal, and NaN without values.

    Raises:
        OptionError: An option is not allowed, a value is not finite or above 1e300 in
            size, or `values` is no vector.

    Example:
        The same range, moved up by the skew.

        >>> low, high = bca_bootstrap([0.0, 0.1, 0.1, 0.2, 0.9], seed=1)
        >>> percentile = percentile_bootstrap([0.0, 0.1, 0.1, 0.2, 0.9], seed=1)
        >>> low > percentile[0], high > percentile[1]
        (True, True)

    References:
        Efron (1987), Better bootstrap confidence intervals.
    """
    from statistics import NormalDist  # only here, as in `mean`

    sample, alpha = _checked("bca_bootstrap", values, confidence, resamples, seed)
    if (point := _point(sample)) is not None:
        return point
    means = _resampled_means(sample, resamples, seed)
    mean = float(sample.mean())
    # A resampled mean that equals the mean but for rounding counts as half below it.
    tie = _TIE * float(np.abs(sample).max())
    below = np.count_nonzero(means < mean - tie) + np.count_nonzero(means <= mean + tie)
    share, normal = below / (2 * resamples), NormalDist()
    bias = normal.inv_cdf(min(max(share, 0.5 / resamples), 1 - 0.5 / resamples))
    centred = (sample - mean) / float(np.abs(sample - mean).max())
    skew = float((centred**3).sum() / (6 * (centred**2).sum() ** 1.5))

    def corrected(p: float) -> float:
        shift = bias + normal.inv_cdf(p)
        return normal.cdf(bias + shift / (1 - skew * shift))

    return _quantiles(means, corrected(alpha), corrected(1 - alpha))


def studentized_bootstrap(
    values: ArrayLike, *, confidence: float = 0.95, resamples: int = RESAMPLES, seed: int = 0
) -> tuple[float, float]:
    """Return the interval from the resampled distribution of Student's statistic.

    The limits mirror each other where the values change sign, and shift and scale with them. A
    limit is infinite where so few values differ that resamples without spread reach the quantile.
    Arguments are those of `percentile_bootstrap`. Both limits are the value itself if all values
    are equal, and NaN without values.

    Raises:
        OptionError: An option is not allowed, a value is not finite or above 1e300 in
            size, or `values` is no vector.

    Example:
        Skewed upwards, so the interval reaches farther up than down.

        >>> values = [0.0] * 30 + [0.5] * 15 + [1.0] * 5
        >>> low, high = studentized_bootstrap(values)
        >>> 0.25 - low < high - 0.25
        True

    References:
        Efron and Tibshirani (1993), An introduction to the bootstrap, 12.5.
    """
    sample, alpha = _checked("studentized_bootstrap", values, confidence, resamples, seed)
    if (point := _point(sample)) is not None:
        return point
    mean = float(sample.mean())
    centred = sample - mean
    # In units of the largest deviation, so that no square overflows or vanishes.
    unit = float(np.abs(centred).max())
    centred /= unit
    statistics = np.sort(
        np.concatenate([_student(block) for block in _resampled(centred, resamples, seed)])
    )
    # Order statistics instead of interpolation: they survive infinities, and mirror.
    tail = max(math.floor((resamples + 1) * alpha + _ROUNDING), 1) - 1
    n = len(centred)

    error = unit * math.sqrt(float(np.dot(centred, centred)) / (n * (n - 1)))
    return (
        mean - error * float(statistics[resamples - 1 - tail]),
        mean - error * float(statistics[tail]),
    )


def _checked(
    owner: str, values: ArrayLike, confidence: float, resamples: int, seed: int
) -> tuple[FloatArray, float]:
    """Return the checked sample and the error probability on each side."""
    arguments.resampling(owner, resamples, seed)
    alpha = (1 - arguments.probability(owner, "confidence", confidence)) / 2
    sample = arguments.sample(owner, "values", values)
    if (size := float(np.abs(sample).max(initial=0.0))) > _LARGEST:
        allowed = f"numbers of at most {_LARGEST:g} in size, whose sums are finite"
        raise OptionError(owner, "values", size, allowed)
    return sample, alpha


def _point(sample: FloatArray) -> tuple[float, float] | None:
    """Return the limits of a sample without spread, its value twice; None for other samples."""
    if len(sample) and sample.min() < sample.max():
        return None
    value = float(sample[0]) if len(sample) else math.nan
    return value, value


def _resampled(sample: FloatArray, resamples: int, seed: int) -> Iterator[FloatArray]:
    """Yield blocks (rows, n) of resamples; the rows do not depend on the size of the blocks."""
    n = len(sample)
    rng = np.random.default_rng(seed)
    rows = max(1, _BLOCK_BYTES // (8 * n))
    for start in range(0, resamples, rows):
        yield sample[rng.integers(0, n, size=(min(rows, resamples - start), n))]


def _resampled_means(sample: FloatArray, resamples: int, seed: int) -> FloatArray:
    return np.concatenate([block.mean(axis=1) for block in _resampled(sample, resamples, seed)])


def _quantiles(means: FloatArray, lower: float, upper: float) -> tuple[float, float]:
    low, high = np.quantile(means, [lower, upper])
    return float(low), float(high)


def _student(block: FloatArray) -> FloatArray:
    """Return mean / standard error of each row; infinite without spread, 0 for a mean of 0."""
    n = block.shape[1]
    means = block.mean(axis=1)
    squares = np.einsum("ij,ij->i", block, block)
    spread = squares - n * means**2
    spread[spread <= _TIE * squares] = 0.0
    with np.errstate(divide="ignore", invalid="ignore"):
        statistics: FloatArray = means / np.sqrt(spread / (n * (n - 1)))
    return np.where(means == 0, 0.0, statistics)


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Statistic of all items, with its leave-one-out values for the jackknife.

    Attributes:
        value: The statistic of all items; NaN where it is undefined.
        without: Statistic without each item, shape (items,); NaN where it then is undefined; empty
            if `value` is undefined and has a `reason`.
        reason: Reason why the value is undefined; '' if it is defined.
    """

    value: float
    without: FloatArray
    reason: str = ""


# From a table (items, raters) to a value and its leave-one-out values.
Statistic = Callable[["FloatArray"], LeftOut]


def undefined(reason: str) -> LeftOut:
    """Return the result of a statistic that has no value, with the reason.

    The value is NaN; the leave-one-out values are an empty array.
    """
    return LeftOut(math.nan, np.empty(0), reason)


@dataclass(frozen=True, slots=True)
class JackknifeSpread:
    """Shifts of a statistic when groups of items are left out, on the scale from -1 to 1.

    `JackknifeSpread.of` and the function `plus_two` create it; `limits` returns the interval, or
    None without spread.

    Attributes:
        value: The statistic, on this scale.
        shifts: Change of the statistic when each group is left out; NaN where it then is undefined.
        n: Number of items.
        span: Smallest and largest possible value, on its own scale.
    """

    value: float
    shifts: FloatArray
    n: int
    span: tuple[float, float]

    @classmethod
    def of(
        cls,
        results: Sequence[LeftOut],
        used: Sequence[np.ndarray[Any, Any]],
        groups: np.ndarray[Any, np.dtype[np.int64]],
        span: tuple[float, float],
    ) -> JackknifeSpread:
        """Return the spread of the mean of a statistic over several tables.

        `used` marks the rows of a table that count, `groups` numbers the group of each item, `span`
        is the smallest and largest value. Each result needs a value; a group without a used row
        adds no shift.
        """
        unit = 2 / (span[1] - span[0])
        shifts = np.zeros(len(groups))
        for result, rows in zip(results, used, strict=True):
            shifts[rows] += unit * (result.without - result.value) / len(results)
        present = np.any(used, axis=0)
        every: FloatArray = np.bincount(groups[present], weights=shifts[present]).astype(float)
        sums = every[np.unique(groups[present])]
        value = unit * (float(np.mean([result.value for result in results])) - span[0]) - 1
        return cls(value, sums, int(present.sum()), span)

    @property
    def carriers(self) -> float:
        """Effective number of groups behind the spread: few if some groups shift it far more.

        The number is (sum of d^2)^2 / (sum of d^4) of the deviations d of the shifts. It is 0
        without spread, and where the statistic is undefined without some group.
        """
        if not np.all(np.isfinite(self.shifts)):
            return 0.0
        squares = (self.shifts - self.shifts.mean()) ** 2
        fourth = float((squares**2).sum())
        # rounded, so that the order of items does not decide where it is the limit itself
        return round(float(squares.sum()) ** 2 / fourth, 9) if fourth > 0 else 0.0

    def limits(self, confidence: float) -> tuple[float, float] | None:
        """Return the limits on the statistic's own scale; None where there is no spread.

        Spread is missing below two groups, where a shift is NaN, and where the value is -1 or 1 on
        the scale. `confidence` is inside (0, 1), and not checked here.
        """
        n_groups = len(self.shifts)
        if n_groups < 2 or not np.all(np.isfinite(self.shifts)) or abs(self.value) >= _CERTAIN:
            return None
        # the sum of squares x (n - 1) / n where each item is its own group
        squares = float(((self.shifts - self.shifts.mean()) ** 2).sum()) * n_groups / (n_groups - 1)
        error = math.sqrt(squares) * (self.n - 1) / self.n
        if error < _NO_SPREAD:
            return None
        centre = math.atanh(self.value)
        half = t_quantile((1 + confidence) / 2, n_groups - 1) * error / (1 - self.value**2)
        low, high = self.span
        width = (high - low) / 2
        return (
            low + width * (math.tanh(centre - half) + 1),
            low + width * (math.tanh(centre + half) + 1),
        )


def plus_two(
    statistic: Statistic,
    tables: Sequence[FloatArray],
    used: Sequence[np.ndarray[Any, Any]],
    groups: np.ndarray[Any, np.dtype[np.int64]],
    span: tuple[float, float],
) -> JackknifeSpread:
    """Return the jackknife spread after adding two extreme items to each table.

    Each added item is a group of its own. `used` marks the rows of a table that count, `span` is
    the smallest and the largest possible value. `groups` numbers the group of each item. On the
    added items the raters differ most, or agree where the statistic is below the middle of `span`.
    """
    centre = (span[0] + span[1]) / 2
    padded, rows = [], []
    for table, keep in zip(tables, used, strict=True):
        alike = statistic(table[keep]).value < centre
        padded.append(_with_opposites(table, keep, alike=alike))
        rows.append(np.concatenate((keep, [True, True])))
    results = []
    for table, keep in zip(padded, rows, strict=True):
        results.append(statistic(table[keep]))
    return JackknifeSpread.of(
        results, rows, np.concatenate((groups, groups.max() + np.array([1, 2]))), span
    )


def _with_opposites(table: FloatArray, used: np.ndarray[Any, Any], *, alike: bool) -> FloatArray:
    """Return the table with two more items, on which raters differ most, or agree if `alike`."""
    rated = table[used]
    axis = 0 if table.shape[1] == 2 else None  # two columns may have different scales
    low, high = (np.broadcast_to(end(rated, axis=axis), 2) for end in (np.nanmin, np.nanmax))
    if np.array_equal(low, high):
        high = high + 1  # only one level was used: any other level differs
    rows = np.full((2, table.shape[1]), np.nan)
    rows[:, :2] = [[low[0], high[1]], [high[0], low[1]]]
    if alike:
        rows[:, :2] = [[low[0], low[1]], [high[0], high[1]]]
    return np.concatenate((table, rows))
