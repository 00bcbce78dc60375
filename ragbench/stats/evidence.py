"""Evidence that adds up over commits: bets that a score fell, whenever one looks.

`max_drop` with `against: history/main.jsonl` reads it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ragbench.errors import OptionError
from ragbench.stats import arguments
from ragbench.stats.arguments import cluster_codes
from ragbench.types import FloatArray

__all__ = ["DropEvidence", "drop_evidence"]

ENOUGH_UNITS = 12
"""A commit with fewer scored queries, or clusters, is not bet on."""

_STAKES = np.array([0.05, 0.1, 0.2, 0.35, 0.5, 0.7, 0.9])
"""Shares of the capital; between them they cover drops of a hundredth to a half of the variance."""
_MOST = 0.95
"""Share of the capital that may be lost on one query."""
_NEWEST = 0.4
"""Weight of the newest commit in the running average of the earlier ones."""
_RIDGE = 1e-6
"""Share of the sum of squares of the earlier scores, which may be copies of each other."""
_ROUNDING = 1e-12
"""A sum of squares below it comes from rounding: the earlier scores are all the same."""


@dataclass(frozen=True, slots=True)
class DropEvidence:
    """What the commits so far say against 'the mean never dropped by more than the margin'."""

    e_values: FloatArray
    """The e-value after each commit, the newest last; shape (commits,)."""
    fails_from: float
    """From this e-value on the drop is shown: 1 / (1 - confidence)."""
    n_commits: int
    """How many commits were bet on; those that changed no score are not among them."""

    @property
    def e(self) -> float:
        """The e-value now; 1 before any commit."""
        return float(self.e_values[-1]) if len(self.e_values) else 1.0


def drop_evidence(
    differences: ArrayLike,
    max_drop: float,
    *,
    range: tuple[float, float] = (0.0, 1.0),
    clusters: ArrayLike | None = None,
    confidence: float = 0.95,
) -> DropEvidence:
    r"""Weigh the evidence of all commits since a record that the mean dropped by more than allowed.

    A gambler starts with capital 1 and bets, commit after commit, that the mean difference from the
    record is below `-max_drop`. The capital is the e-value. If no commit dropped by more than the
    margin, it ever exceeds 1 / (1 - confidence) with probability 1 - confidence at most, however
    often one looks.

    The same queries are scored at each commit, so only what is new at a commit is evidence. The
    difference of each query is predicted from those at the last commit, at all earlier commits and
    at the recent ones, by regression over the queries of this commit; the bet is on what is left.
    A commit that changed no score leaves the capital as it is. Predictions take away only what
    looked like a drop before; a gain is not predicted to last.

    With u what is left of a query, moved by the margin, the capital is multiplied by the product
    of `1 - stake * u` over the queries. Capital is spread over stakes, and over the commits at
    which the drop may have begun: half on the first, 1/6 on the second, 1 / (k (k + 1)) on the
    k-th.

    Proved (Ville): if queries are scored independently at each commit, given the earlier commits,
    and what is left has a mean of at least 0, no product is above 1 in expectation. Simulated
    (`benchmarks/evidence_trials.py`): that estimating the prediction on the same commit, and
    predicting from three summaries of the past, keep false alarms below that probability.

    Args:
        differences: Score at a commit minus score in the record, up is better; a row per commit,
            the oldest first, a column per query. NaN where a query has no pair.
        max_drop: The largest drop of the mean that is allowed.
        range: Smallest and largest possible score of one query, both finite.
        clusters: Which queries belong together; each cluster then is one unit.
        confidence: 1 minus the probability of ever showing a drop where none is.

    Raises:
        OptionError: differences is no table or holds one too large for the range, the range is
            not finite, max_drop is outside 0..its width, or confidence is outside (0, 1).

    Example:
        One of ten queries is lost, other ones at each commit: each commit says little, eight
        together much.

        >>> lost = np.array([[-float(query % 10 == commit) for query in np.arange(60)]
        ...                  for commit in np.arange(8)])
        >>> found = drop_evidence(lost, 0.02)
        >>> found.e_values[0] < found.fails_from < found.e
        True

        Had the same ones been lost each time, the first commit would have said it all.

        >>> bool(drop_evidence(lost[[0] * 8], 0.02).e == found.e_values[0])
        True

    References:
        Ville (1939), Étude critique de la notion de collectif. Robbins (1970), Statistical methods
        related to the law of the iterated logarithm. Shafer (2021), Testing by betting. Grünwald,
        de Heide and Koolen (2024), Safe testing. Waudby-Smith and Ramdas (2024), Estimating means
        of bounded random variables by betting.
    """
    owner = "drop_evidence"
    d = arguments.matrix(owner, "differences", differences)
    alpha = 1 - arguments.probability(owner, "confidence", confidence)
    units = _units(owner, d, max_drop, range, clusters)
    values, fresh = evidence_path(units, max_drop / (range[1] - range[0]))
    return DropEvidence(values, round(1 / alpha, 9), int(fresh.sum()))  # 20, not 19.99...


def _units(
    owner: str,
    d: FloatArray,
    max_drop: float,
    ends: tuple[float, float],
    clusters: ArrayLike | None,
) -> FloatArray:
    """Give differences as shares of the range; a mean over its largest size for each cluster."""
    low, high = arguments.value_range(owner, ends)
    width = high - low
    if not math.isfinite(width):
        raise OptionError(owner, "range", ends, "two finite ends: bets need a bound")
    if not 0 <= max_drop <= width:
        raise OptionError(owner, "max_drop", max_drop, f"a number from 0 to {width:g}")
    known = ~np.isnan(d)
    arguments.within(owner, "differences", d[known], -width, width)
    x = np.clip(d / width, -1.0, 1.0)
    if clusters is None:
        return x
    codes, n_clusters = cluster_codes(owner, clusters, d.shape[1])
    margin, sizes = max_drop / width, np.bincount(codes, minlength=n_clusters)
    sums, counts = np.zeros((2, len(d), n_clusters))
    for row, (values, has) in enumerate(zip(x, known, strict=True)):
        # the margin counts for each query of a cluster, not once for all of them
        sums[row] = np.bincount(codes[has], values[has] + margin, n_clusters)
        counts[row] = np.bincount(codes[has], minlength=n_clusters)
    return np.where(counts > 0, sums / sizes.max(initial=1) - margin, np.nan)


def evidence_path(differences: FloatArray, margin: float) -> tuple[FloatArray, NDArray[np.bool_]]:
    """Give the e-value after each commit, and which commits were bet on.

    Many histories can be weighed at once: differences, from -1 to 1 and NaN where there is none,
    have the shape (..., commits, units), both results (..., commits).
    """
    *shape, n_commits, n_units = differences.shape
    y_all = differences.reshape(math.prod(shape), n_commits, n_units) + margin
    # in the record itself no query differs
    past = _Past(np.where(np.isnan(y_all).all(axis=1), np.nan, margin))
    # logarithms of what stands on each stake, and the share of the first capital not yet staked
    staked = np.full((len(y_all), len(_STAKES)), -np.inf)
    held, starts = np.ones(len(y_all)), np.zeros(len(y_all))
    values, fresh = np.ones((2, len(y_all), n_commits))
    for commit in np.arange(n_commits):
        y = y_all[:, commit]
        is_fresh = past.differs(y) & (np.isfinite(y).sum(axis=1) >= ENOUGH_UNITS)
        new = 1 / ((starts + 1) * (starts + 2))
        bets = _log_factors(y, past.prediction(y), margin) + np.logaddexp(
            staked, np.log(new)[:, np.newaxis]
        )
        staked = np.where(is_fresh[:, np.newaxis], bets, staked)
        held = held - is_fresh * new
        starts = starts + is_fresh
        past.add(y, is_fresh)
        # a capital of 1e300 says all that there is to say
        values[:, commit] = np.exp(np.minimum(staked, 690.0)).mean(axis=1) + held
        fresh[:, commit] = is_fresh
    return values.reshape(*shape, n_commits), fresh.reshape(*shape, n_commits) > 0


def _log_factors(y: FloatArray, predicted: FloatArray, margin: float) -> FloatArray:
    """Give by how much each stake grows: rows are histories, columns stakes."""
    left = np.where(np.isnan(y), 0.0, y - predicted)
    largest = 1 + margin - predicted.min(axis=1, initial=0.0)
    stakes = np.minimum(_STAKES, (_MOST / largest)[:, np.newaxis])
    return np.stack(
        [np.log1p(-stake[:, np.newaxis] * left).sum(axis=1) for stake in stakes.T], axis=1
    )


class _Past:
    """What the earlier commits of each history say of its next one; rows are histories."""

    def __init__(self, record: FloatArray) -> None:
        self._line = record  # the last commit; below, the last score of each unit
        self._last, self._recent, self._sum, self._count = np.zeros((4, *record.shape))

    def differs(self, y: FloatArray) -> NDArray[np.bool_]:
        """Tell which histories' next commit is not the same as the one before."""
        same = (y == self._line) | (np.isnan(y) & np.isnan(self._line))
        found: NDArray[np.bool_] = ~same.all(axis=1)
        return found

    def add(self, y: FloatArray, which: NDArray[np.bool_]) -> None:
        """Take a commit into the past of some of the histories."""
        new = which[:, np.newaxis] & ~np.isnan(y)
        first = new & (self._count == 0)
        moved = np.where(first, y, (1 - _NEWEST) * self._recent + _NEWEST * y)
        self._recent = np.where(new, moved, self._recent)
        self._last = np.where(new, y, self._last)
        self._sum = self._sum + np.where(new, y, 0.0)
        self._count = self._count + new
        self._line = np.where(which[:, np.newaxis], y, self._line)

    def prediction(self, y: FloatArray) -> FloatArray:
        """Give what the past says of each unit at this commit; its mean is never above 0.

        By least squares over the units, with an intercept, which takes no part in the prediction:
        a drop at this commit must not be predicted by itself.
        """
        seen = (self._count > 0) & ~np.isnan(y)
        n = np.maximum(seen.sum(axis=1), 1)
        means = np.divide(self._sum, self._count, out=np.zeros_like(y), where=self._count > 0)
        x = np.stack([self._last, means, self._recent], axis=2) * seen[:, :, np.newaxis]
        middle = x.sum(axis=1) / n[:, np.newaxis]
        centred = (x - middle[:, np.newaxis]) * seen[:, :, np.newaxis]
        known = np.where(seen, y, 0.0)
        rest = (known - (known.sum(axis=1) / n)[:, np.newaxis]) * seen
        squares = np.swapaxes(centred, 1, 2) @ centred
        ridge = _RIDGE * np.trace(squares, axis1=1, axis2=2) + _ROUNDING
        inverse = np.linalg.inv(squares + ridge[:, np.newaxis, np.newaxis] * np.eye(3))
        slopes = np.einsum("hpq,huq,hu->hp", inverse, centred, rest, optimize=True)
        fitted = np.einsum("hup,hp->hu", centred, slopes)
        # scores that rose and fell again: the level of the whole past is not that of now
        level = np.minimum((middle * slopes).sum(axis=1), slopes.sum(axis=1) * middle[:, 2])
        found: FloatArray = (fitted + np.minimum(level, 0.0)[:, np.newaxis]) * seen
        return found
