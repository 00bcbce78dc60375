"""Families of comparisons: adjusted p-values by Holm, Benjamini-Hochberg and max-T."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ragbench.stats import arguments
from ragbench.stats.clusters import cluster_sums
from ragbench.stats.difference import paired_differences
from ragbench.stats.paired_tests import EXACT_UP_TO, all_flips, random_flips, tolerance
from ragbench.stats.resampling import RESAMPLES
from ragbench.types import FloatArray


def holm_p_values(p_values: ArrayLike) -> FloatArray:
    """Adjust p-values so that the chance of ANY false rejection in the family stays below alpha.

    The procedure is valid under any dependence between the tests.

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

    It promises less than Holm's adjustment: it is for screening many comparisons, not for a claim
    about one. Takes one p-value per comparison; NaN, a comparison that was not made, stays NaN and
    is not counted.

    Returns:
        Array of the same shape and order, values in [0, 1]: reject where it is at most alpha.

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


def _ascending(p: FloatArray) -> tuple[np.ndarray[tuple[int], np.dtype[np.intp]], int]:
    """Return the places of the p-values from small to large, without NaN, and their number."""
    m = int(np.count_nonzero(~np.isnan(p)))
    return np.argsort(p, kind="stable")[:m], m


def max_t_p_values(
    differences: ArrayLike, *, decrease: bool = False, resamples: int = RESAMPLES, seed: int = 0
) -> FloatArray:
    """Test each column of paired differences, adjusted for the family of all columns.

    The test compares |sum(d)| / sqrt(sum(d^2)) of each column with the largest such value of all
    columns under the same flips. Columns that say the same thing twice cost nothing, unlike in
    Holm's adjustment; the division lets measures of any scale share a family. The chance of any
    false rejection stays below alpha. The test is exact if at most 14 queries changed, all columns
    counted together.

    Args:
        differences: Table (n queries, m comparisons); NaN where a comparison is not scored.
        decrease: Test against a sum below 0 only, not against any difference.
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
    arguments.resampling(owner, resamples, seed)

    p_values = np.full(table.shape[1], np.nan)
    scored = ~np.isnan(table).all(axis=0)
    table = -table[:, scored] if decrease else table[:, scored]
    columns = _Standardized.of(table)
    observed = columns.observed if decrease else np.abs(columns.observed)
    # Most extreme first; rounding may order ties either way, since their p-values are levelled.
    order = np.argsort(-observed, kind="stable")
    d, threshold = columns.scale(np.nan_to_num(table))[:, order], (observed - columns.slack)[order]

    exact = int(np.count_nonzero(columns.changed)) <= EXACT_UP_TO
    blocks = all_flips(d[columns.changed]) if exact else random_flips(d, resamples, seed)
    extreme, total = np.zeros(d.shape[1]), 0
    for sums in blocks:
        sums = sums if decrease else np.abs(sums, out=sums)
        # Step down: a column is compared with itself and the less extreme columns after it.
        backwards = sums[:, ::-1]
        np.maximum.accumulate(backwards, axis=1, out=backwards)
        extreme += np.count_nonzero(sums >= threshold, axis=0)
        total += len(sums)
    ordered = extreme / total if exact else (extreme + 1) / (total + 1)
    adjusted = np.empty(d.shape[1])
    adjusted[order] = np.maximum.accumulate(ordered)
    p_values[scored] = adjusted
    return p_values


# How much larger than a difference the scores may be of which it is one: beyond it, rounding of
# their sums would come near to what counts as a tie.
_MOST_CANCELLED = 100
_BLOCK_BYTES = 8 * 2**20  # of flipped sums: more would not stay in the caches


class SystemPairs:
    """The scores of several systems, and the tests of their pairs.

    `values` has a row per query and a column per system, NaN where one is not scored. `p_values`
    has the adjusted p-value of each pair. Raises OptionError for `values` that are no table and,
    when `p_values` is first read, for `clusters` that are not one label per query.

    The sum of a difference under sign flips is the difference of two such sums. So all pairs, in
    every test, take one product for each system, where products of all pairs would take as many as
    there are pairs. Pairs are tested in blocks: memory grows with the number of systems, but for a
    few numbers per pair.

    Attributes:
        first: Number of the first column of each pair, from 0, in the order of
            `itertools.combinations`; shape (pairs,).
        second: Number of the second column of each pair.
    """

    def __init__(
        self,
        values: ArrayLike,
        clusters: ArrayLike | None = None,
        *,
        groups: Sequence[int] | None = None,
        resamples: int = RESAMPLES,
        seed: int = 0,
    ) -> None:
        """Take a table (n queries, s systems), NaN where a system is not scored.

        Pairs are in the order (0, 1), (0, 2), ...; fewer than two systems have none. `clusters` are
        n labels, checked on first use; None: each query is a unit.

        Args:
            values: Scores; those of several measures may stand side by side.
            clusters: Cluster labels.
            groups: Number of a group for each column: only columns of one group are paired, such
                as those of one measure; None pairs all.
            resamples: Number of random flips.
            seed: Equal seeds give equal p-values.

        Raises:
            OptionError: `values` is no table or holds an infinity, resamples is no integer from 1,
                or seed none from 0.
        """
        self._table = arguments.matrix("SystemPairs", "values", values)
        arguments.resampling("SystemPairs", resamples, seed)
        self._clusters, self._resamples, self._seed = clusters, resamples, seed
        columns = np.zeros(self._table.shape[1], dtype=np.intp) if groups is None else groups
        group_of = np.asarray(columns, dtype=np.intp)
        _, places, inverse = np.unique(group_of, return_index=True, return_inverse=True)
        # first column of each column's group
        self._origin = places[inverse]
        first, second = np.triu_indices(self._table.shape[1], 1)
        is_pair = group_of[first] == group_of[second]
        self.first, self.second = first[is_pair], second[is_pair]

    @cached_property
    def p_values(self) -> FloatArray:
        """P-values of all pairs by `max_t_p_values`.

        Shape (pairs,), in the order of `first`, adjusted for the family of all pairs; 1 where no
        common query differs, NaN without common queries. Raises OptionError if there is not one
        cluster label per query.
        """
        columns = self._standardized
        if np.count_nonzero(columns.changed) <= EXACT_UP_TO:
            changed = [np.nan_to_num(d)[columns.changed] for d in self._differences()]
            # a row of zeros changes no sum: where no query changed, p is 1
            d = np.vstack([np.zeros(len(columns.scored)), np.hstack(changed)])
            return np.where(columns.scored, max_t_p_values(d), np.nan)
        statistics = np.abs(columns.observed)
        # Most extreme first, as in `max_t_p_values`; the maxima run from the other end.
        order = np.argsort(-statistics, kind="stable")
        threshold = statistics - columns.slack
        extreme, highest = np.empty(len(order)), np.zeros(self._resamples)
        for block in self._blocks(order[::-1]):
            sums = self._sums(self.first[block], self.second[block])
            sums /= columns.largest[block]
            sums /= columns.norm[block]
            for pair, flipped in zip(block, np.abs(sums, out=sums).T, strict=True):
                np.maximum(highest, flipped, out=highest)
                extreme[pair] = np.count_nonzero(highest >= threshold[pair])
        p_values = np.empty(len(order))
        p_values[order] = np.maximum.accumulate((extreme[order] + 1) / (self._resamples + 1))
        return np.where(columns.scored, p_values, np.nan)

    def _sums(self, one: NDArray[np.intp], other: NDArray[np.intp]) -> FloatArray:
        """Return the sums of systems minus others, pair by pair, under the flips of the seed."""
        d = np.nan_to_num(self._by_unit(self._table[:, one], self._table[:, other]))
        sums: FloatArray = (self._flipped[one] - self._flipped[other]).T
        # where one of the three was not scored, a sum has queries that the difference has not
        lacks = np.isnan(self._table)
        uneven = (lacks != lacks[:, self._origin]).any(axis=0)
        apart = uneven[one] | uneven[other]
        size = np.abs(np.nan_to_num(self._basis)).sum(axis=0)
        apart |= size[one] + size[other] > _MOST_CANCELLED * np.abs(d).sum(axis=0)
        if apart.any():
            sums[:, apart] = self._flip(d[:, apart]).T
        return sums

    def _blocks(self, pairs: NDArray[np.intp]) -> Iterator[NDArray[np.intp]]:
        """Yield the pairs in blocks of bounded size, at least one block."""
        width = max(1, _BLOCK_BYTES // (8 * max(self._resamples, len(self._table))))
        for start in range(0, max(1, len(pairs)), width):
            yield pairs[start : start + width]

    def _differences(self) -> Iterator[FloatArray]:
        """Yield the differences of a block of pairs at a time, a row for each query or cluster."""
        for block in self._blocks(np.arange(len(self.first))):
            one, other = self.first[block], self.second[block]
            yield self._by_unit(self._table[:, one], self._table[:, other])

    def _by_unit(self, systems: FloatArray, rivals: FloatArray) -> FloatArray:
        """Return the differences of systems and rivals, summed over each unit."""
        differences = paired_differences(systems, rivals)
        return differences if self._clusters is None else cluster_sums(differences, self._clusters)

    @cached_property
    def _standardized(self) -> _Standardized:
        parts = [_Standardized.of(differences) for differences in self._differences()]
        changed = np.asarray(np.any([part.changed for part in parts], axis=0))
        columns = map(np.concatenate, zip(*(part[:-1] for part in parts), strict=True))
        scored, largest, norm, observed, slack = columns
        return _Standardized(scored, largest, norm, observed, slack, changed)

    @cached_property
    def _basis(self) -> FloatArray:
        """Differences of the systems from the first of their group, which lose few digits."""
        # With clusters, rows are sums over the scored queries of a cluster; NaN marks a cluster
        # without any.
        return self._by_unit(self._table, self._table[:, self._origin])

    @cached_property
    def _flipped(self) -> FloatArray:
        """Sums of the basis under the flips of the seed, shape (systems, resamples)."""
        return self._flip(np.nan_to_num(self._basis))

    @staticmethod
    def share_flips(families: Sequence[SystemPairs]) -> None:
        """Flip the signs of several families at once, which takes a third of the time.

        All have the same queries or clusters, and equal `resamples` and `seed`. P-values do not
        change. Raises OptionError if there is not one cluster label per query.
        """
        block, n_bytes = list[SystemPairs](), 0
        for family in families:
            # fewer changes need no random flips
            if np.count_nonzero(family._standardized.changed) <= EXACT_UP_TO:
                continue
            if block and n_bytes + family._basis.nbytes > _BLOCK_BYTES:
                _flip_block(block)
                block, n_bytes = [], 0
            block.append(family)
            n_bytes += family._basis.nbytes
        if block:
            _flip_block(block)

    def _flip(self, columns: FloatArray) -> FloatArray:
        """Return the sum of each column in each resample of flipped signs."""
        flipped = np.empty((columns.shape[1], self._resamples))
        end = 0
        for sums in random_flips(columns, self._resamples, self._seed):
            start, end = end, end + len(sums)
            flipped[:, start:end] = sums.T
        return flipped


def _flip_block(families: Sequence[SystemPairs]) -> None:
    """Store the sums under the flips of the seed in each family."""
    columns = [np.nan_to_num(family._basis) for family in families]
    sums = families[0]._flip(np.hstack(columns))
    for family in families:
        family._flipped, sums = np.split(sums, [family._table.shape[1]])


class _Standardized(NamedTuple):
    """Columns of differences over the roots of their sums of squares, which no flip changes."""

    scored: NDArray[np.bool_]  # true for each column with a value
    # largest size of a value of each column, or 1: the first factor of the root
    largest: FloatArray
    norm: FloatArray  # second factor of the root, or 1
    observed: FloatArray  # sum of each column after the division
    slack: FloatArray  # rounding error of this sum
    changed: NDArray[np.bool_]  # true for each row that is not 0 in every column

    @classmethod
    def of(cls, differences: FloatArray) -> _Standardized:
        """Return the roots, sums and marks of a table of differences; NaN counts as 0."""
        d = np.nan_to_num(differences)
        most = np.abs(d).max(axis=0, initial=0.0)
        largest = np.where(most > 0, most, 1.0)
        norm = np.sqrt(((d / largest) ** 2).sum(axis=0))  # so that no square overflows or vanishes
        norm = np.where(norm > 0, norm, 1.0)
        scored, d = ~np.isnan(differences).all(axis=0), d / largest / norm
        changed = np.asarray(d.any(axis=1))
        return cls(np.asarray(scored), largest, norm, d.sum(axis=0), tolerance(d), changed)

    def scale(self, differences: FloatArray) -> FloatArray:
        """Return a table of the same columns, each divided by `largest` and `norm`."""
        scaled: FloatArray = differences / self.largest / self.norm
        return scaled
