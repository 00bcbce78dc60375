"""What every statistic of agreement shares: its record, its interval, raw agreement.

A statistic of n items gives its value and its n values without one item each: the jackknife. From
these comes the interval, for one pair of raters, for the mean over several pairs, and for items
that are not independent because they belong to the same query.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ragbench.errors import OptionError
from ragbench.stats import arguments
from ragbench.stats.student import t_quantile

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from ragbench.types import FloatArray

Level = Literal["nominal", "ordinal", "interval"]
"""What a statistic takes from ratings: whether they are equal, their order, or their distances."""

AgreementRule = Literal["jackknife", "plus_two", "undefined"]

FEWEST = 3
"""With fewer items there is no interval."""

_CARRIERS = 6
"""The spread must come from as many items, by (sum of d^2)^2 / (sum of d^4). In 400 simulations of
each of 15 worlds (kappa, alpha, rho, tau, AUC; n = 20, 50, 200) the interval then covers in 90 to
100 %, in 42 of the 45 cells in 94 or more."""

_ROUNDING = 1e-12
_CERTAIN = 1 - _ROUNDING


@dataclass(frozen=True, slots=True)
class Agreement:
    """How well two raters agree, and how well they would on all such items."""

    value: float
    """The statistic; NaN where it is undefined, with the reason."""
    lower: float
    """Lower limit; NaN where the rule is `undefined`."""
    upper: float
    """Upper limit; NaN where the rule is `undefined`."""
    n: int
    """How many items it is computed from."""
    level: Level
    """The level of measurement that it assumes."""
    rule: AgreementRule
    """How the limits were found."""
    reason: str = ""
    """Why there is no value or no interval, or what was left out."""

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready mapping; what is undefined is null, never NaN."""
        value, lower, upper = (
            None if math.isnan(number) else float(number)
            for number in (self.value, self.lower, self.upper)
        )
        return {
            "value": value,
            "interval": [lower, upper],
            "n": self.n,
            "level": self.level,
            "rule": self.rule,
            "reason": self.reason,
        }


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A statistic, and what it is without each of its items."""

    value: float
    """The statistic of all items; NaN where it is undefined."""
    without: FloatArray
    """The statistic without item i; NaN where that is undefined."""
    reason: str = ""
    """Why the value is undefined."""


Statistic = Callable[["FloatArray"], LeftOut]
"""From a table (items, raters) to a value and its leave-one-out values."""


def undefined(reason: str) -> LeftOut:
    """Return the result of a statistic that has no value, with the reason."""
    return LeftOut(math.nan, np.empty(0), reason)


def mean_agreement(
    statistic: Statistic,
    tables: Sequence[FloatArray],
    *,
    level: Level,
    span: tuple[float, float] = (-1.0, 1.0),
    groups: ArrayLike | None = None,
    confidence: float = 0.95,
) -> Agreement:
    """Give the mean of a statistic over several tables of the same n items, with its interval.

    - `jackknife`: Student's t on Fisher's scale, atanh, with the jackknife's standard error.
    - `plus_two`: joined with the one after adding two items on which the raters differ as much as
      they ever did, one either way; the wider limit wins on each side. Used where the spread
      comes from fewer than six items, such as the few bad answers of a good system: jackknife
      alone then covers in as few as 40 % of samples, and takes perfect agreement for certain.

    Args:
        statistic: What is computed from one table.
        tables: One (n, raters) table for each pair of raters; NaN where a rating is missing. A
            row counts where it has two ratings or more.
        level: The level of measurement, for the record.
        span: Smallest and largest possible value.
        groups: What the n items belong to; items of a group vary together, so that the groups
            are what is sampled. By default each item is its own group.
        confidence: Coverage that is aimed at.

    Returns:
        The mean over the tables in which the statistic is defined, with the number of items. NaN
        with the reason where it is defined in none.

    Raises:
        OptionError: groups are not as many as items, or confidence is outside (0, 1).
    """
    arguments.probability("agreement", "confidence", confidence)
    labels = _group_numbers(groups, len(tables[0]))
    used = [np.count_nonzero(np.isfinite(table), axis=1) >= 2 for table in tables]
    n = int(np.count_nonzero(np.any(used, axis=0)))
    plain = [statistic(table[rows]) for table, rows in zip(tables, used, strict=True)]
    defined = [place for place, found in enumerate(plain) if not math.isnan(found.value)]
    reasons = list(dict.fromkeys(found.reason for found in plain if found.reason))
    if not defined:
        return Agreement(math.nan, math.nan, math.nan, n, level, "undefined", "; ".join(reasons))
    value = float(np.mean([plain[place].value for place in defined]))
    reason = f"{len(plain) - len(defined)} of {len(plain)} left out: " if reasons else ""
    reason += "; ".join(reasons)
    if n < FEWEST:
        why = f"{n} items say nothing about others: {FEWEST} are the fewest"
        return Agreement(value, math.nan, math.nan, n, level, "undefined", why)

    tables, used = [tables[place] for place in defined], [used[place] for place in defined]
    spread = _Spread.of([plain[place] for place in defined], used, labels, span)
    limits, rule = [spread.limits(confidence)], "jackknife"
    if spread.carriers < _CARRIERS:
        limits.append(_plus_two(statistic, tables, used, labels, span).limits(confidence))
        rule = "plus_two"
    known = [pair for pair in limits if pair is not None]
    if not known:
        why = "too few items differ to see how it varies"
        return Agreement(value, math.nan, math.nan, n, level, "undefined", why)
    lower = min(value, *(low for low, _ in known))
    upper = max(value, *(high for _, high in known))
    return Agreement(
        value, lower, upper, n, level, "jackknife" if rule == "jackknife" else "plus_two", reason
    )


def raw_agreement(
    x: ArrayLike,
    y: ArrayLike,
    *,
    groups: ArrayLike | None = None,
    confidence: float = 0.95,
) -> Agreement:
    """Give the share of items that two raters rate alike.

    It flatters: two who always say 'good' agree fully. Kappa takes off what chance explains.

    Args:
        x: Ratings of n items; NaN where missing.
        y: Ratings of the same items by another.
        groups: What the items belong to, see `mean_agreement`.
        confidence: Coverage that is aimed at.

    Returns:
        A share in [0, 1]; NaN where no item has both ratings. Constants are no special case.

    Raises:
        OptionError: x and y are not of one length, or hold an infinity.

    Example:
        >>> raw_agreement([1, 1, 2, 2], [1, 2, 2, 2]).value
        0.75
    """
    table = pair_of("raw_agreement", x, y)
    return mean_agreement(
        raw_share,
        [table],
        level="nominal",
        span=(0.0, 1.0),
        groups=groups,
        confidence=confidence,
    )


def raw_share(table: FloatArray) -> LeftOut:
    """Give the share of rows whose two ratings are equal."""
    n = len(table)
    if n == 0:
        return undefined(NO_ITEMS)
    same = (table[:, 0] == table[:, 1]).astype(np.float64)
    total = float(same.sum())
    without = (total - same) / (n - 1) if n > 1 else np.full(1, np.nan)
    return LeftOut(total / n, without)


NO_ITEMS = "no item has two ratings"


def pair_of(owner: str, x: ArrayLike, y: ArrayLike) -> FloatArray:
    """Give two columns of ratings as a table (n, 2), or refuse them.

    Raises:
        OptionError: They are not of one length, or hold an infinity.
    """
    columns = [np.asarray(column, dtype=np.float64) for column in (x, y)]
    for option, column in zip("xy", columns, strict=True):
        if column.ndim != 1:
            raise OptionError(owner, option, f"{column.ndim} dimensions", "one dimension")
    if len(columns[0]) != len(columns[1]):
        raise OptionError(owner, "y", f"{len(columns[1])} ratings", f"{len(columns[0])}, as in x")
    return arguments.matrix(owner, "x and y", np.column_stack(columns))


def constant(column: FloatArray) -> bool:
    """Whether all values of a column are equal."""
    return bool(column.min() == column.max())


def _group_numbers(groups: ArrayLike | None, n: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    if groups is None:
        return np.arange(n)
    given = np.asarray(groups)
    if given.shape != (n,):
        raise OptionError("agreement", "groups", f"shape {given.shape}", f"one for each of {n}")
    return np.unique(given, return_inverse=True)[1].reshape(n).astype(np.int64)


@dataclass(frozen=True, slots=True)
class _Spread:
    """How a statistic moves when groups of items are left out, on the scale from -1 to 1."""

    value: float
    """The statistic."""
    shifts: FloatArray
    """What leaving out each group adds to it; NaN where it then is undefined."""
    n: int
    """How many items there are."""
    span: tuple[float, float]
    """Smallest and largest possible value, on its own scale."""

    @classmethod
    def of(
        cls,
        found: Sequence[LeftOut],
        used: Sequence[np.ndarray[Any, Any]],
        groups: np.ndarray[Any, np.dtype[np.int64]],
        span: tuple[float, float],
    ) -> _Spread:
        """Collect the mean over several tables."""
        unit = 2 / (span[1] - span[0])
        shifts = np.zeros(len(groups))
        for each, rows in zip(found, used, strict=True):
            shifts[rows] += unit * (each.without - each.value) / len(found)
        present = np.any(used, axis=0)
        every: FloatArray = np.bincount(groups[present], weights=shifts[present]).astype(float)
        sums = every[np.unique(groups[present])]
        value = unit * (float(np.mean([each.value for each in found])) - span[0]) - 1
        return cls(value, sums, int(present.sum()), span)

    @property
    def carriers(self) -> float:
        """From how many groups the spread comes; 0 where leaving one out leaves nothing."""
        if not np.all(np.isfinite(self.shifts)):
            return 0.0
        squares = (self.shifts - self.shifts.mean()) ** 2
        fourth = float((squares**2).sum())
        return float(squares.sum()) ** 2 / fourth if fourth > 0 else 0.0

    def limits(self, confidence: float) -> tuple[float, float] | None:
        """Give the limits on the statistic's own scale; None where there is no spread."""
        n_groups = len(self.shifts)
        if n_groups < 2 or not np.all(np.isfinite(self.shifts)) or abs(self.value) >= _CERTAIN:
            return None
        # the sum of squares x (n - 1) / n where each item is its own group
        squares = float(((self.shifts - self.shifts.mean()) ** 2).sum()) * n_groups / (n_groups - 1)
        error = math.sqrt(squares) * (self.n - 1) / self.n
        if error < _ROUNDING:
            return None
        centre = math.atanh(self.value)
        half = t_quantile((1 + confidence) / 2, n_groups - 1) * error / (1 - self.value**2)
        low, high = self.span
        width = (high - low) / 2
        return (
            low + width * (math.tanh(centre - half) + 1),
            low + width * (math.tanh(centre + half) + 1),
        )


def _plus_two(
    statistic: Statistic,
    tables: Sequence[FloatArray],
    used: Sequence[np.ndarray[Any, Any]],
    groups: np.ndarray[Any, np.dtype[np.int64]],
    span: tuple[float, float],
) -> _Spread:
    """Give the spread after adding two items, each a group of its own."""
    centre = (span[0] + span[1]) / 2
    padded, rows = [], []
    for table, keep in zip(tables, used, strict=True):
        alike = statistic(table[keep]).value < centre
        padded.append(_with_opposites(table, keep, alike=alike))
        rows.append(np.concatenate((keep, [True, True])))
    found = [statistic(table[keep]) for table, keep in zip(padded, rows, strict=True)]
    return _Spread.of(found, rows, np.concatenate((groups, groups.max() + np.array([1, 2]))), span)


def _with_opposites(table: FloatArray, used: np.ndarray[Any, Any], *, alike: bool) -> FloatArray:
    """Add two items that are rated as far apart as possible, or alike where the value is low."""
    rated = table[used]
    axis = 0 if table.shape[1] == 2 else None  # two columns may be on scales of their own
    low, high = (np.broadcast_to(end(rated, axis=axis), 2) for end in (np.nanmin, np.nanmax))
    if np.array_equal(low, high):
        high = high + 1  # one level throughout: any other one is apart
    rows = np.full((2, table.shape[1]), np.nan)
    rows[:, :2] = [[low[0], high[1]], [high[0], low[1]]]
    if alike:
        rows[:, :2] = [[low[0], low[1]], [high[0], high[1]]]
    return np.concatenate((table, rows))
