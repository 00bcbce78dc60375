"""Groups that hold more marked items than chance would give: Fisher's exact test for a family."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ragbench.errors import OptionError, Phrase
from ragbench.stats import arguments
from ragbench.types import FloatArray, IntArray

_OWNER = "overrepresentation"
# Permutations: the smallest adjusted p-value is 1 / 1,000.
_RESAMPLES = 999
# Equal p-values of two groups may differ by rounding.
_ROUNDING = 1e-9


class Overrepresentation(NamedTuple):
    """Marked items in each group of a family, in the order of the groups.

    `overrepresentation` creates it.

    Attributes:
        marked: Number of marked items in each group, shape (m,).
        expected: Number that chance would give: size of the group x share of marked items.
        p_values: One-sided exact p-values: probability of so many marked items, or more.
        adjusted: P-values, adjusted for the family of all groups.
    """

    marked: IntArray
    expected: FloatArray
    p_values: FloatArray
    adjusted: FloatArray


def overrepresentation(
    marked: ArrayLike, members: ArrayLike, *, resamples: int = _RESAMPLES, seed: int = 0
) -> Overrepresentation:
    """Test each group for more marked items than a random draw of as many items gives.

    The p-value of a group is the upper tail of the hypergeometric distribution, which is Fisher's
    exact test. It is adjusted by min-P: the share of random permutations of the marks in which any
    group has so small a p-value. If the marks are a random draw, the chance of any adjusted p-value
    at or below alpha is at most alpha, however the groups overlap. Each item is a unit: items that
    are marked together, as in a cluster, count as evidence for their common group.

    Args:
        marked: n truth values, one per item.
        members: Table (n items, m groups) of truth values; groups may overlap.
        resamples: Number of random permutations.
        seed: Equal seeds give equal p-values.

    Returns:
        Counts and p-values in (0, 1]; all p-values are 1 if no item or every item is marked.

    Raises:
        OptionError: members is no table of one row per item, or an option is not allowed.

    Example:
        All three marked items of six are among the first three: 1 / (6 over 3).

        >>> result = overrepresentation([1, 1, 1, 0, 0, 0], [[1, 0]] * 3 + [[0, 1]] * 3)
        >>> result.marked.tolist(), result.expected.tolist(), result.p_values.round(3).tolist()
        ([3, 0], [1.5, 1.5], [0.05, 1.0])

    References:
        Fisher (1935), The logic of inductive inference. Westfall and Young (1993),
        Resampling-based multiple testing, 2.3, for min-P.
    """
    is_marked = np.asarray(marked, dtype=np.bool_)
    table = arguments.matrix(_OWNER, "members", members) != 0
    if is_marked.shape != table.shape[:1]:
        rows = Phrase(f"{len(table)} rows")
        raise OptionError(_OWNER, "members", rows, f"{is_marked.size}, one per item of marked")
    groups = [np.flatnonzero(column) for column in table.T]
    return overrepresentation_of(is_marked, groups, resamples=resamples, seed=seed)


def overrepresentation_of(
    is_marked: NDArray[np.bool_],
    groups: Sequence[IntArray],
    *,
    resamples: int = _RESAMPLES,
    seed: int = 0,
) -> Overrepresentation:
    """Test groups as `overrepresentation` does; each is the ascending rows of its items.

    Memory grows with the members of all groups, not with the number of items times groups.
    """
    arguments.resampling(_OWNER, resamples, seed)
    n, m, n_marked = len(is_marked), len(groups), int(is_marked.sum())
    # The tail depends only on the size of a group, and few sizes occur: one serves many groups.
    # No count exceeds the size, so the tails of all sizes stand one after the other.
    group_sizes = np.array([len(rows) for rows in groups], np.int64)
    sizes, size_of = np.unique(group_sizes, return_inverse=True)
    tails_of_sizes = []
    for size in sizes:
        tails_of_sizes.append(_upper_tails(int(size), n, n_marked)[: size + 1])
    tails = np.concatenate([np.zeros(0), *tails_of_sizes])
    lengths = np.array([len(tail) for tail in tails_of_sizes], np.int64)
    starts = (np.cumsum(lengths) - lengths)[size_of]
    counts = np.array([np.count_nonzero(is_marked[rows]) for rows in groups], np.int64)
    p_values = tails[starts + counts]
    # a row per item with its groups, filled up with the number m, so that one count serves all
    items = np.concatenate([np.zeros(0, np.int64), *groups])
    order = np.argsort(items, kind="stable")
    items, group_of = items[order], np.repeat(np.arange(m), group_sizes)[order]
    position = np.arange(len(items)) - np.searchsorted(items, np.arange(n))[items]
    groups_of = np.full((n, int(position.max(initial=-1)) + 1), m)
    groups_of[items, position] = group_of
    # The whole row of marks is permuted, not group by group: so the resamples keep the overlap of
    # the groups, which makes min-P less strict than Bonferroni.
    rng, lowest = np.random.default_rng(seed), np.ones(resamples)
    for resample in range(resamples if m else 0):
        drawn = groups_of[rng.permutation(n)[:n_marked]]
        drawn_counts = np.bincount(drawn.ravel(), minlength=m + 1)[:m]
        lowest[resample] = tails[starts + drawn_counts].min()
    # `right`: a resample with an equal p-value counts against the group. The observed marks are one
    # more permutation, or an adjusted p-value could be 0.
    n_lower = np.searchsorted(np.sort(lowest), p_values * (1 + _ROUNDING), side="right")
    expected = group_sizes.astype(np.float64) * (n_marked / max(n, 1))
    return Overrepresentation(counts, expected, p_values, (n_lower + 1) / (resamples + 1))


def _upper_tails(size: int, n: int, n_marked: int) -> FloatArray:
    """Return P(at least k marked items in a group) for k from 0 to `n_marked`."""
    low, high = max(0, size + n_marked - n), min(size, n_marked)
    k = np.arange(low, high)
    # ratios of neighbours in logarithms: no factorial overflows
    ratios = np.log((size - k) * (n_marked - k)) - np.log((k + 1) * (n - size - n_marked + k + 1))
    logs = np.concatenate(([0.0], np.cumsum(ratios)))
    weights = np.exp(logs - logs.max())
    tails = np.zeros(n_marked + 1)
    tails[low : high + 1] = np.cumsum(weights[::-1])[::-1] / weights.sum()
    tails[: low + 1] = 1.0
    return np.minimum(tails, 1.0)
