"""Studentized max-T: a whole family of paired tests from one set of shared sign flips."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from ragbench.errors import OptionError
from ragbench.stats import arguments
from ragbench.stats.clusters import cluster_sums
from ragbench.stats.difference import paired_differences
from ragbench.stats.paired_tests import EXACT_UP_TO, all_flips, random_flips, tolerance

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from ragbench.types import FloatArray

Steps = Literal["down", "single"]
Side = Literal["both", "lower", "upper"]
RESAMPLES = 10_000


def max_t_p_values(
    differences: ArrayLike,
    *,
    steps: Steps = "down",
    side: Side = "both",
    resamples: int = RESAMPLES,
    seed: int = 0,
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
    d = _studentized(np.nan_to_num(table[:, scored]))
    d = -d if side == "lower" else d
    observed = np.abs(d.sum(axis=0)) if side == "both" else d.sum(axis=0)
    # Most extreme first; rounding may order ties either way, since their p-values are levelled.
    order = np.argsort(-observed, kind="stable")
    d, threshold = d[:, order], (observed - tolerance(d))[order]

    changed = d.any(axis=1)
    exact = int(np.count_nonzero(changed)) <= EXACT_UP_TO
    blocks = all_flips(d[changed]) if exact else random_flips(d, resamples, seed)
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
    """Mark the systems that the data do not tell from the one with the best mean.

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

    Example:
        The second system is worse on all ten queries, the third on one only.

        >>> rows = [[0.9, 0.5, 0.9]] * 9 + [[0.9, 0.5, 0.8]]
        >>> tied_with_best(rows).tolist()
        [True, False, True]
    """
    table = arguments.matrix("tied_with_best", "values", values)
    arguments.probability("tied_with_best", "alpha", alpha)
    tied = np.zeros(table.shape[1], dtype=np.bool_)
    best = _best(table if higher_is_better else -table)
    tied[best] = True

    pairs = list(combinations(range(table.shape[1]), 2))
    first, second = np.array(pairs, dtype=np.intp).reshape(-1, 2).T
    differences = paired_differences(table[:, first], table[:, second])
    if clusters is not None:
        differences = cluster_sums(differences, clusters)
    p_values = max_t_p_values(differences, resamples=resamples, seed=seed)
    scored = ~np.isnan(table).all(axis=0)
    alike = ~(p_values <= alpha)  # NaN too: a pair without common queries is not told apart
    tied[first[alike & best[second]]] = True
    tied[second[alike & best[first]]] = True
    return tied & scored


def _studentized(d: FloatArray) -> FloatArray:
    """Divide each column by the root of its sum of squares, which no flip changes."""
    largest = np.abs(d).max(axis=0, initial=0.0)
    unit = d / np.where(largest > 0, largest, 1.0)  # so that no square overflows or vanishes
    norm = np.sqrt((unit**2).sum(axis=0))
    studentized: FloatArray = unit / np.where(norm > 0, norm, 1.0)
    return studentized


def _highest(statistics: FloatArray, steps: Steps) -> FloatArray:
    """Give, for each flip, what each column is compared with; most extreme column first."""
    if steps == "single":
        highest: FloatArray = statistics.max(axis=1, keepdims=True, initial=-np.inf)
        return highest
    backwards = statistics[:, ::-1]
    np.maximum.accumulate(backwards, axis=1, out=backwards)
    return statistics


def _best(table: FloatArray) -> NDArray[np.bool_]:
    """Mark the columns with the highest mean over their own scored rows, ties included."""
    scored = ~np.isnan(table)
    count = scored.sum(axis=0)
    means = np.full(table.shape[1], -np.inf)
    np.divide(np.nansum(table, axis=0), count, out=means, where=count > 0)
    if not count.any():
        return np.zeros(table.shape[1], dtype=np.bool_)
    rounding = 1e-12 * float(np.nanmax(np.abs(table)))
    best: NDArray[np.bool_] = means >= means.max() - rounding
    return best
