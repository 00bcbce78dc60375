"""Tests of paired differences: randomization, t, Wilcoxon's signed ranks, McNemar.

Each takes a table of n queries and m pairs of systems, NaN where a pair is not scored, and returns
an array of shape (m,): p-values, 1 where no query changed, NaN where none is scored.

A sign flip is a 0 or 1 per query; 1 changes the sign of its difference. Flips of all queries reach
all columns of a table at once, by one matrix product per block.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import ArrayLike

from ragbench.errors import OptionError
from ragbench.stats import arguments
from ragbench.stats.student import t_sf
from ragbench.types import FloatArray

RESAMPLES = 100_000
# Most queries to flip for which all 2^14 = 16,384 flips are enumerated.
EXACT_UP_TO = 14
# Most changed queries for which the exact distribution of the rank sum is computed.
EXACT_RANKS_UP_TO = 50

_BLOCK_BYTES = 8 * 2**20  # of flips and products: more would not stay in the caches
_GROUP = 64  # flips of one product
_UNSHARED = 2**18  # multiplications of a product, up to which OpenBLAS uses one thread
_TIE = 1e-12


def random_flips(differences: FloatArray, resamples: int, seed: int) -> Iterator[FloatArray]:
    """Yield blocks (rows, m) of column sums under random flips of the n rows of differences.

    The flips depend on n and the seed alone, neither on the columns nor on the size of the
    blocks: the p-value of a column does not depend on the other columns. There are `resamples` rows
    in all; the same seed gives the same flips.
    """
    n = len(differences)
    rng = np.random.default_rng(seed)
    words = -(-n // 64)
    sums = _FlippedSums(differences, resamples)
    for start in range(0, resamples, sums.rows):
        size = (min(sums.rows, resamples - start), words)
        drawn = rng.integers(0, 2**64, size=size, dtype=np.uint64).astype("<u8", copy=False)
        yield sums.of(np.unpackbits(drawn.view(np.uint8), axis=1, count=n))


def all_flips(differences: FloatArray) -> Iterator[FloatArray]:
    """Yield blocks (rows, m) of column sums under each of the 2^n flips of n rows.

    The first row is the sum without a flip.
    """
    n = len(differences)
    sums = _FlippedSums(differences, 2**n)
    for start in range(0, 2**n, sums.rows):
        numbers = np.arange(start, min(start + sums.rows, 2**n))
        yield sums.of((numbers[:, np.newaxis] >> np.arange(n)) & 1)


class _FlippedSums:
    """Column sums of differences with the signs of some rows flipped, for blocks of flips."""

    # One product of whole blocks would wait for memory, and BLAS would share it among threads,
    # which spend more time on waiting for each other. Products of parts so small that BLAS does not
    # share them take a half to a quarter of its CPU time.

    def __init__(self, differences: FloatArray, flips: int) -> None:
        n, m = differences.shape
        most = min(_GROUP * _GROUP // max(m, _GROUP), _BLOCK_BYTES // (8 * max(n, 1)))
        self._group = max(1, most)
        width = max(1, min(n, _UNSHARED // (self._group * max(m, 1))))
        parts = -(-n // width)
        groups = _BLOCK_BYTES // (8 * self._group * max(1, parts * (width + m)))
        # Flips of a block.
        self.rows = self._group * max(1, min(groups, -(-flips // self._group)))
        self._total, self._n = differences.sum(axis=0), n
        padded = np.zeros((parts * width, m))
        padded[:n] = differences
        self._parts = padded.reshape(parts, 1, width, m)
        self._flips = np.zeros((self.rows, parts * width))
        in_groups = self._flips.reshape(self.rows // self._group, self._group, parts, width)
        self._by_part = in_groups.transpose(2, 0, 1, 3)

    def of(self, flips: np.ndarray) -> FloatArray:
        """Return the sums under a block of flips, `rows` at most."""
        self._flips[: len(flips), : self._n] = flips
        products = np.matmul(self._by_part, self._parts)
        sums: FloatArray = products.sum(axis=0).reshape(self.rows, len(self._total))[: len(flips)]
        sums *= -2.0
        sums += self._total
        return sums


def tolerance(differences: FloatArray) -> FloatArray:
    """Return the rounding error of each column's sum: sums within it count as ties.

    Without it, rounding would lose tied flips, and p would be too small for every seed.
    """
    slack: FloatArray = _TIE * np.abs(differences).sum(axis=0)
    return slack


def randomization_p_values(
    differences: ArrayLike, *, resamples: int = RESAMPLES, seed: int = 0
) -> FloatArray:
    """Test each column of paired differences for a distribution symmetric about 0.

    The test is two-sided. If the two systems did not differ, each difference could as well have the
    other sign; p is the share of all signs that make the sum at least as far from 0. Where at most
    14 queries changed, p is exact: all 2^14 signs are tried. Else the same random signs serve all
    columns, the observed ones count as one of them, and p is at least 1 / (resamples + 1).

    100,000 resamples of 1,000 queries and 45 columns take about half a second; memory stays
    bounded.

    Args:
        differences: Table (n queries, m pairs of systems); NaN where a pair is not scored.
        resamples: Number of random signs.
        seed: Equal seeds give equal p-values, whatever other columns there are.

    Returns:
        Array of shape (m,), in the order of the columns: p-values in (0, 1]; 1 where no query
        changed, NaN where none is scored.

    Raises:
        OptionError: differences is no table or holds an infinity, or an option is not allowed.

    Example:
        All ten queries won: only all + and all - are as extreme, 2 / 2^10.

        >>> randomization_p_values([[0.1]] * 10).tolist()
        [0.001953125]

    References:
        Fisher (1935), The design of experiments, 21. Phipson and Smyth (2010), Permutation
        p-values should never be zero.
    """
    owner = "randomization_p_values"
    table = arguments.matrix(owner, "differences", differences)
    arguments.resampling(owner, resamples, seed)

    d = np.nan_to_num(table)
    p_values = np.full(d.shape[1], np.nan)
    n_changed = np.count_nonzero(d, axis=0)
    scored = ~np.isnan(table).all(axis=0)
    for column in np.flatnonzero(scored & (n_changed <= EXACT_UP_TO)):
        changed = d[d[:, column] != 0, column][:, np.newaxis]
        p_values[column] = _count_extreme(all_flips(changed), changed)[0] / 2 ** len(changed)
    many = n_changed > EXACT_UP_TO
    if many.any():
        columns = d[:, many]
        extreme = _count_extreme(random_flips(columns, resamples, seed), columns)
        p_values[many] = (extreme + 1) / (resamples + 1)
    return p_values


def _count_extreme(blocks: Iterator[FloatArray], d: FloatArray) -> FloatArray:
    """Return the number of flipped sums per column at least as far from 0 as the observed sum."""
    threshold = np.abs(d.sum(axis=0)) - tolerance(d)
    extreme = np.zeros(d.shape[1])
    for sums in blocks:
        extreme += np.count_nonzero(np.abs(sums, out=sums) >= threshold, axis=0)
    return extreme


def t_test_p_values(differences: ArrayLike) -> FloatArray:
    """Test each column of paired differences for a mean of 0, two-sided.

    The test assumes that the mean of the differences is close to normal. That is doubtful where
    few queries changed, and there `randomization_p_values` is the better test.

    Returns:
        Array of shape (m,), values in [0, 1]. The value is 1 where no query changed, and NaN where
        none is scored, the only one changed, or all changed by the same amount: then there is no
        spread to divide by.

    Raises:
        OptionError: differences is no table or holds an infinity.

    Example:
        Mean 2, standard error 1 / sqrt(3): t is 3.46 with two degrees of freedom.

        >>> t_test_p_values([[1.0], [2.0], [3.0]]).round(4).tolist()
        [0.0742]

    References:
        Student (1908), The probable error of a mean.
    """
    return _by_column("t_test_p_values", _t_test_p_value, differences)


def _by_column(
    owner: str, p_value: Callable[[FloatArray], float], differences: ArrayLike
) -> FloatArray:
    """Return the p-value of each column over its scored queries."""
    table = arguments.matrix(owner, "differences", differences)
    columns = []
    for column in table.T:
        columns.append(column[~np.isnan(column)])
    return np.array([p_value(d) for d in columns], dtype=np.float64)


def _t_test_p_value(d: FloatArray) -> float:
    if not len(d):
        return math.nan
    if not d.any():
        return 1.0
    if len(d) < 2 or d.min() == d.max():
        return math.nan
    d = d / float(np.abs(d).max())  # so that no square overflows or vanishes
    t = float(d.mean()) / (float(d.std(ddof=1)) / math.sqrt(len(d)))
    return 2 * t_sf(abs(t), len(d) - 1)


def wilcoxon_p_values(differences: ArrayLike) -> FloatArray:
    """Test each column of paired differences for a distribution symmetric about 0, by ranks.

    The test is two-sided. Unchanged queries are left out; equal sizes share their mean rank, and so
    do sizes that differ by rounding alone. The test is exact up to 50 changed queries, ties
    included; beyond, it uses the normal approximation with the variance that the ties leave. One
    huge difference counts no more than the largest rank, so this is no test of the mean.

    Returns:
        Array of shape (m,), values in [0, 1]: 1 where no query changed, NaN where none is scored;
        0 only where p is too small for a float, below 1e-323.

    Raises:
        OptionError: differences is no table or holds an infinity.

    Example:
        All of five queries won: the rank sum is as large as can be, 2 / 2^5.

        >>> wilcoxon_p_values([[0.1], [0.2], [0.3], [0.4], [0.5]]).tolist()
        [0.0625]

    References:
        Wilcoxon (1945), Individual comparisons by ranking methods.
    """
    return _by_column("wilcoxon_p_values", _signed_rank_p_value, differences)


def _signed_rank_p_value(d: FloatArray) -> float:
    if not len(d):
        return math.nan
    changed = d[d != 0]
    if not len(changed):
        return 1.0
    doubled = _doubled_ranks(np.abs(changed))
    won, total = int(doubled[changed > 0].sum()), int(doubled.sum())
    if len(changed) <= EXACT_RANKS_UP_TO:
        # twice the probability of a rank sum up to `smaller` if all signs are equally likely
        probability = np.zeros(int(doubled.sum()) + 1)
        probability[0] = 1.0
        for rank in doubled.tolist():
            with_rank = np.zeros_like(probability)
            with_rank[rank:] = probability[: len(probability) - rank]
            probability = (probability + with_rank) / 2
        return min(2 * float(probability[: min(won, total - won) + 1].sum()), 1.0)
    sd = math.sqrt(float((doubled.astype(np.float64) ** 2).sum())) / 2
    z = (total / 2 - min(won, total - won)) / sd
    # both tails; NormalDist().cdf rounds small tails to 0 before Python 3.12
    return math.erfc(z / math.sqrt(2))


def _doubled_ranks(sizes: FloatArray) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Return twice the mean rank of each size, an integer also for ties."""
    order = np.argsort(sizes, kind="stable")
    ascending = sizes[order]
    starts_anew = np.diff(ascending, prepend=-math.inf) > _TIE * ascending
    first = np.flatnonzero(starts_anew)
    last = np.append(first[1:], len(sizes)) - 1
    ranks = np.empty(len(sizes), dtype=np.int64)
    ranks[order] = (first + last + 2)[np.cumsum(starts_anew) - 1]
    return ranks


def mcnemar_p_values(differences: ArrayLike) -> FloatArray:
    """Test each column of differences of hits and misses, -1, 0 and 1; exact, two-sided.

    If the systems did not differ, a query that one of them alone gets right would be either's
    with equal chance, so the wins are binomial. The p-value is that of the sign-flip test.

    Args:
        differences: Table (n queries, m pairs of systems) of -1, 0 and 1; NaN where a pair is
            not scored.

    Returns:
        Array of shape (m,), values in [0, 1]: 1 where no query changed, NaN where none is scored;
        0 only where p is too small for a float, below 1e-323.

    Raises:
        OptionError: A difference is none of -1, 0, 1 and NaN, or differences is no table.

    Example:
        Five won, one lost: 2 x (C(6,0) + C(6,1)) / 2^6.

        >>> mcnemar_p_values([[1.0]] * 5 + [[-1.0]] + [[0.0]] * 20).round(9).tolist()
        [0.21875]

    References:
        McNemar (1947), Note on the sampling error of the difference between correlated
        proportions or percentages.
    """
    table = arguments.matrix("mcnemar_p_values", "differences", differences)
    graded = table[~np.isin(table, (-1.0, 0.0, 1.0)) & ~np.isnan(table)]
    if graded.size:
        raise OptionError(
            "mcnemar_p_values", "differences", float(graded[0]), "-1, 0 or 1: hits and misses"
        )
    won, lost = (table == 1).sum(axis=0), (table == -1).sum(axis=0)
    unscored = np.isnan(table).all(axis=0)
    p_values = np.array([_binomial(int(w), int(x)) for w, x in zip(won, lost, strict=True)])
    return np.where(unscored, np.nan, p_values)


def _binomial(won: int, lost: int) -> float:
    """Return the two-sided p-value of a split of fair coins, at most 1."""
    n, smaller = won + lost, min(won, lost)
    k = np.arange(1, smaller + 1)
    # log C(n, k) - n log 2 for k = 0..smaller: the numbers themselves overflow
    logs = np.concatenate(([0.0], np.cumsum(np.log((n - k + 1) / k)))) - n * math.log(2)
    return min(2 * float(np.exp(logs).sum()), 1.0)
