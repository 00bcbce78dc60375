"""Families of comparisons: adjusted p-values by Holm, Benjamini-Hochberg and max-T."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from itertools import combinations
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ragbench.errors import OptionError
from ragbench.stats import arguments
from ragbench.stats.arguments import cluster_sums
from ragbench.stats.difference import paired_differences
from ragbench.stats.paired_tests import EXACT_UP_TO, SumsOf, all_flips, random_flips, tolerance
from ragbench.stats.resampling import RESAMPLES
from ragbench.types import FloatArray


def holm_p_values(p_values: ArrayLike) -> FloatArray:
    """Adjust p-values so that the chance of ANY false rejection in the family stays below alpha.

    Valid under any dependence between the tests.

    Args:
        p_values: One p-value per comparison. NaN, a comparison that was not made, stays NaN and
            is not counted.

    Returns:
        Array of the same shape and order, values in [0, 1]: reject where it is at most alpha. No
        p-values give an empty array.

    Raises:
        OptionError: A p-value is outside 0..1, or `p_values` is no vector.

    Example:
        0.01 x 3, 0.02 x 2, and 0.03 x 1, which may not fall below the one before it.

        >>> holm_p_values([0.03, 0.01, 0.02]).tolist()
        [0.04, 0.03, 0.04]

    References:
        Holm (1979), A simple sequentially rejective multiple test procedure.
    """
    p = arguments.p_vector("holm_p_values", p_values)
    order, m = _ascending(p)
    adjusted = np.full(len(p), np.nan)
    adjusted[order] = np.minimum(np.maximum.accumulate(p[order] * np.arange(m, 0, -1)), 1.0)
    return adjusted


def benjamini_hochberg_p_values(p_values: ArrayLike) -> FloatArray:
    """Adjust p-values so that the expected share of false among all rejections is below alpha.

    Weaker than `holm_p_values`, of which argument and result are: for screening many comparisons,
    not for a claim about one.

    Raises:
        OptionError: A p-value is outside 0..1, or `p_values` is no vector.

    Example:
        0.04 x 3 / 3, 0.02 x 3 / 2, and 0.015 x 3 / 1, which may not exceed the one after it.

        >>> benjamini_hochberg_p_values([0.04, 0.015, 0.02]).tolist()
        [0.04, 0.03, 0.03]

    References:
        Benjamini and Hochberg (1995), Controlling the false discovery rate.
    """
    p = arguments.p_vector("benjamini_hochberg_p_values", p_values)
    order, m = _ascending(p)
    scaled = p[order] * (m / np.arange(1, m + 1))
    adjusted = np.full(len(p), np.nan)
    adjusted[order] = np.minimum(np.minimum.accumulate(scaled[::-1])[::-1], 1.0)
    return adjusted


def resamples_needed(n_comparisons: int, *, alpha: float = 0.05) -> int:
    """Return the fewest random resamples with which one of a family can be rejected after Holm.

    The smallest p-value of B resamples is 1 / (B + 1); with n comparisons it has to be at most
    alpha / n. 10,000 resamples can never reject in a family above 500.

    Raises:
        OptionError: n_comparisons is no integer from 1, or alpha is outside (0, 1).

    Example:
        >>> resamples_needed(500)
        9999
    """
    arguments.whole_number("resamples_needed", "n_comparisons", n_comparisons, least=1)
    arguments.probability("resamples_needed", "alpha", alpha)
    return max(1, math.ceil(n_comparisons / alpha) - 1)


def can_reject(resamples: int, n_comparisons: int, *, alpha: float = 0.05) -> bool:
    """Return True if so many random resamples can reject one of a family after Holm.

    Raises:
        OptionError: resamples or n_comparisons is no integer from 1, or alpha is outside (0, 1).

    Example:
        >>> can_reject(10_000, 500), can_reject(10_000, 501)
        (True, False)
    """
    arguments.whole_number("can_reject", "resamples", resamples, least=1)
    return resamples >= resamples_needed(n_comparisons, alpha=alpha)


def _ascending(p: FloatArray) -> tuple[np.ndarray[tuple[int], np.dtype[np.intp]], int]:
    """Return the places of the p-values from small to large, without NaN, and their number."""
    m = int(np.count_nonzero(~np.isnan(p)))
    return np.argsort(p, kind="stable")[:m], m


Steps = Literal["down", "single"]
Side = Literal["both", "lower", "upper"]


def max_t_p_values(
    differences: ArrayLike,
    *,
    steps: Steps = "down",
    side: Side = "both",
    resamples: int = RESAMPLES,
    seed: int = 0,
    _sums: SumsOf | None = None,
) -> FloatArray:
    """Test each column of paired differences, adjusted for the family of all columns.

    Compares |sum(d)| / sqrt(sum(d^2)) of each column with the largest such value of all columns
    under the same flips. Columns that say the same thing twice cost nothing, unlike in Holm's
    adjustment; the division lets measures of any scale share a family. The chance of any false
    rejection stays below alpha. Exact where at most 14 queries changed in any column. The p-values
    are those of `randomization_p_values` in form.

    Args:
        differences: Table (n queries, m comparisons); NaN where a comparison is not scored.
        steps: `down` compares a column with itself and the columns less extreme than it; `single`
            compares each with all, which is never smaller.
        side: `both`: any difference is looked for; `lower`: only sums below 0; `upper`: only
            sums above.
        resamples: Number of random flips.
        seed: Equal seeds give equal p-values. The order of the columns does not matter.

    Returns:
        Array of shape (m,), in the order of the columns: p-values in (0, 1]; 1 where no query
        changed, NaN where none is scored.

    Raises:
        OptionError: differences is no table or holds an infinity, or an option is not allowed.

    Example:
        Twice the same comparison, all of ten queries won: no price for the second, 2 / 2^10.

        >>> max_t_p_values([[0.1, 0.1]] * 10).tolist()
        [0.001953125, 0.001953125]

    References:
        Westfall and Young (1993), Resampling-based multiple testing, algorithms 2.5 and 2.8.
    """
    owner = "max_t_p_values"
    table = arguments.matrix(owner, "differences", differences)
    if steps not in ("down", "single"):
        raise OptionError(owner, "steps", steps, "down or single")
    if side not in ("both", "lower", "upper"):
        raise OptionError(owner, "side", side, "both, lower or upper")
    arguments.whole_number(owner, "resamples", resamples, least=1)
    arguments.whole_number(owner, "seed", seed, least=0)

    p_values = np.full(table.shape[1], np.nan)
    scored = ~np.isnan(table).all(axis=0)
    d = np.nan_to_num(table[:, scored])
    largest, norm = _scales(d)
    d = (-d if side == "lower" else d) / largest / norm
    observed = np.abs(d.sum(axis=0)) if side == "both" else d.sum(axis=0)
    # Most extreme first; rounding may order ties either way, since their p-values are levelled.
    order = np.argsort(-observed, kind="stable")
    d, threshold = d[:, order], (observed - tolerance(d))[order]

    changed = d.any(axis=1)
    exact = int(np.count_nonzero(changed)) <= EXACT_UP_TO
    if exact:
        blocks = all_flips(d[changed])
    elif _sums is None:
        blocks = random_flips(d, resamples, seed)
    else:
        block = (_sums(np.flatnonzero(scored)) / largest / norm)[:, order]
        blocks = iter([-block if side == "lower" else block])
    extreme, total = np.zeros(d.shape[1]), 0
    for sums in blocks:
        highest = _highest(np.abs(sums, out=sums) if side == "both" else sums, steps)
        extreme += np.count_nonzero(highest >= threshold, axis=0)
        total += len(sums)
    ordered = extreme / total if exact else (extreme + 1) / (total + 1)
    adjusted = np.empty(d.shape[1])
    adjusted[order] = np.maximum.accumulate(ordered)
    p_values[scored] = adjusted
    return p_values


def tied_with_best(
    values: ArrayLike,
    *,
    higher_is_better: bool = True,
    alpha: float = 0.05,
    clusters: ArrayLike | None = None,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> NDArray[np.bool_]:
    """Return True for the systems that do not differ significantly from the best one.

    Tests all pairs of systems by step-down max-T, each pair on the queries that both scored.

    Args:
        values: Table (n queries, s systems) of one measure; NaN where a system is not scored.
        higher_is_better: False for a latency or a cost.
        alpha: Chance of any false difference among all pairs.
        clusters: n labels; queries with equal ones belong together and are flipped together.
        resamples: Number of random flips.
        seed: Equal seeds give equal marks.

    Returns:
        Array of shape (s,). True for the best system, for each system that is not significantly
        different from it, and for one that shares no scored query with it. Where several have
        the best mean, a tie with any of them counts. False where a system has no score.

    Raises:
        OptionError: values is no table or holds an infinity, clusters has other than n labels, or
            an option is not allowed.

    Example:
        The second system is worse on all ten queries, the third on one only.

        >>> rows = [[0.9, 0.5, 0.9]] * 9 + [[0.9, 0.5, 0.8]]
        >>> tied_with_best(rows).tolist()
        [True, False, True]
    """
    table = arguments.matrix("tied_with_best", "values", values)
    pairs = SystemPairs(table, clusters, resamples=resamples, seed=seed)
    return pairs.tied_with_best(higher_is_better=higher_is_better, alpha=alpha)


# How much larger than a difference the scores may be of which it is one: beyond it, rounding of
# their sums would come near to what counts as a tie.
_MOST_CANCELLED = 100


class SystemPairs:
    """The scores of several systems by one measure, and the tests of their pairs.

    The sum of a difference under sign flips is the difference of two such sums. So all pairs, in
    every test, take one product for each system, where products of all pairs would take as many as
    there are pairs; and what is asked for twice is computed once. Pairs are in the order of
    `itertools.combinations`. OptionError if `values` is no table or holds an infinity; other
    options are checked on first use.

    Attributes:
        first: Number of the first system of each pair, from 0; shape (pairs,).
        second: Number of the second system of each pair.
    """

    def __init__(
        self,
        values: ArrayLike,
        clusters: ArrayLike | None = None,
        *,
        resamples: int = RESAMPLES,
        seed: int = 0,
    ) -> None:
        """Take a table (n queries, s systems) of one measure; NaN where a system is not scored."""
        self._table = arguments.matrix("SystemPairs", "values", values)
        self._clusters, self._resamples, self._seed = clusters, resamples, seed
        pairs = list(combinations(range(self._table.shape[1]), 2))
        self.first, self.second = np.array(pairs, dtype=np.intp).reshape(-1, 2).T

    @cached_property
    def differences(self) -> FloatArray:
        """The differences of all pairs, a row for each query or cluster.

        First minus second system, NaN where either is not scored. OptionError if there is not one
        cluster label per query.
        """
        return self._by_unit(self._table[:, self.first], self._table[:, self.second])

    def _by_unit(self, systems: FloatArray, rivals: FloatArray) -> FloatArray:
        differences = paired_differences(systems, rivals)
        return differences if self._clusters is None else cluster_sums(differences, self._clusters)

    @cached_property
    def p_values(self) -> FloatArray:
        """P-values of all pairs by `max_t_p_values`.

        Shape (pairs,), adjusted for the family of all pairs; NaN without common queries.
        OptionError for a wrong option.
        """
        return max_t_p_values(
            self.differences,
            resamples=self._resamples,
            seed=self._seed,
            _sums=lambda pairs: self.sums(self.first[pairs], self.second[pairs]),
        )

    def tied_with_best(self, *, higher_is_better: bool, alpha: float) -> NDArray[np.bool_]:
        """Return the result of the function `tied_with_best` for these scores.

        OptionError as that function.
        """
        arguments.probability("tied_with_best", "alpha", alpha)
        table = self._table
        tied = np.zeros(table.shape[1], dtype=np.bool_)
        best = _best(table if higher_is_better else -table)
        tied[best] = True
        scored = ~np.isnan(table).all(axis=0)
        # NaN too: a pair without common queries is not told apart
        alike = ~(self.p_values <= alpha)
        tied[self.first[alike & best[self.second]]] = True
        tied[self.second[alike & best[self.first]]] = True
        return tied & scored

    def sums(
        self, systems: Sequence[int] | NDArray[np.intp], rivals: Sequence[int] | NDArray[np.intp]
    ) -> FloatArray:
        """Return the sums of systems minus others, pair by pair, under the flips of the seed.

        Shape (resamples, pairs); the same as those of `random_flips`, rounding aside. A query that
        either system did not score counts 0. OptionError for a wrong cluster, seed or number.
        """
        one, other = np.asarray(systems, np.intp), np.asarray(rivals, np.intp)
        low, high = np.minimum(one, other), np.maximum(one, other)
        n_systems = self._table.shape[1]
        places = low * (2 * n_systems - low - 1) // 2 + high - low - 1  # among all combinations
        sign = np.where(one < other, 1.0, -1.0)
        d = np.nan_to_num(sign * self.differences[:, places])
        sums: FloatArray = self._flipped[:, one] - self._flipped[:, other]
        # where one of the three was not scored, a sum has queries that the difference has not
        lacks = np.isnan(self._table)
        uneven = (lacks != lacks[:, :1]).any(axis=0)
        apart = uneven[one] | uneven[other]
        size = np.abs(np.nan_to_num(self._basis)).sum(axis=0)
        apart |= size[one] + size[other] > _MOST_CANCELLED * np.abs(d).sum(axis=0)
        if apart.any():
            sums[:, apart] = self._flip(d[:, apart])
        return sums

    @cached_property
    def _basis(self) -> FloatArray:
        """Every system minus the first one: small numbers, of which differences lose little.

        Summed over clusters, if there are any; NaN where either is not scored.
        """
        return self._by_unit(self._table, self._table[:, :1])

    @cached_property
    def _flipped(self) -> FloatArray:
        return self._flip(np.nan_to_num(self._basis))

    def _flip(self, columns: FloatArray) -> FloatArray:
        return np.concatenate(list(random_flips(columns, self._resamples, self._seed)))


def _scales(d: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return two factors of the root of each column's sum of squares, which no flip changes.

    Both have shape (m,), and are 1 for a column of zeros.
    """
    most = np.abs(d).max(axis=0, initial=0.0)
    largest = np.where(most > 0, most, 1.0)
    norm = np.sqrt(((d / largest) ** 2).sum(axis=0))  # so that no square overflows or vanishes
    return largest, np.where(norm > 0, norm, 1.0)


def _highest(statistics: FloatArray, steps: Steps) -> FloatArray:
    """Give, for each flip, what each column is compared with; most extreme column first.

    With `single`, shape (flips, 1): the largest of all columns. With `down`, the largest of a
    column and those after it, computed in place in `statistics`.
    """
    if steps == "single":
        highest: FloatArray = statistics.max(axis=1, keepdims=True, initial=-np.inf)
        return highest
    backwards = statistics[:, ::-1]
    np.maximum.accumulate(backwards, axis=1, out=backwards)
    return statistics


def _best(table: FloatArray) -> NDArray[np.bool_]:
    """Mark the columns with the highest mean over their own scored rows, ties included.

    All False where nothing is scored.
    """
    scored = ~np.isnan(table)
    count = scored.sum(axis=0)
    means = np.full(table.shape[1], -np.inf)
    np.divide(np.nansum(table, axis=0), count, out=means, where=count > 0)
    if not count.any():
        return np.zeros(table.shape[1], dtype=np.bool_)
    rounding = 1e-12 * float(np.nanmax(np.abs(table)))
    best: NDArray[np.bool_] = means >= means.max() - rounding
    return best
