"""Queries that belong together: sums over clusters, the units of tests and intervals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ragbench.errors import OptionError
from ragbench.stats import arguments

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from ragbench.types import FloatArray

_ROUNDING = 1e-12


def cluster_sums(differences: ArrayLike, clusters: ArrayLike) -> FloatArray:
    """Sum each column of paired differences over the queries of a cluster.

    Questions about one document, or paraphrases of one question, are won and lost together:
    counted as independent they make chance look like evidence. A test of the sums flips, or
    ranks, whole clusters, and keeps its error rate whatever happens inside them.

    Args:
        differences: Table (n queries, m pairs of systems); NaN where a pair is not scored.
        clusters: n labels; equal ones belong together.

    Returns:
        Table (clusters, m) in the order of the sorted labels; NaN where no query of a cluster is
        scored. Sums of rounding errors are 0.

    Example:
        >>> cluster_sums([[0.5], [0.25], [-0.5]], ["a", "b", "a"]).tolist()
        [[0.0], [0.25]]
    """
    table = arguments.matrix("cluster_sums", "differences", differences)
    codes, n_clusters = cluster_codes("cluster_sums", clusters, len(table))
    scored = ~np.isnan(table)
    known = np.where(scored, table, 0.0)
    shape = (n_clusters, table.shape[1])
    sums, sizes, counts = (np.zeros(shape) for _ in range(3))
    np.add.at(sums, codes, known)
    np.add.at(sizes, codes, np.abs(known))
    np.add.at(counts, codes, scored)
    sums[np.abs(sums) <= _ROUNDING * sizes] = 0.0  # .1 + .2 - .3: no change
    sums[counts == 0] = np.nan
    return sums


def cluster_codes(owner: str, clusters: ArrayLike, n: int) -> tuple[NDArray[np.intp], int]:
    """Number the clusters from 0; give the number of each query's and how many there are."""
    labels: NDArray[Any] = np.asarray(clusters)
    if labels.ndim != 1 or len(labels) != n:
        raise OptionError(owner, "clusters", f"shape {labels.shape}", f"{n} labels, one per query")
    found, codes = np.unique(labels, return_inverse=True)
    return codes.reshape(-1), len(found)


def cluster_units(d: FloatArray, codes: NDArray[np.intp], n_clusters: int) -> FloatArray:
    """Give one value per cluster with the mean of d, that vary as much as the clusters do.

    The mean of d is a ratio, sum over size, of which both vary from cluster to cluster; the
    values are its linearisation, so that their standard error is the ratio's.

    References:
        Cochran (1977), Sampling techniques, 6.3 and 9.2.
    """
    mean = float(d.mean())
    residuals = np.bincount(codes, weights=d - mean, minlength=n_clusters)
    rounding = _ROUNDING * np.bincount(codes, weights=np.abs(d), minlength=n_clusters)
    residuals[np.abs(residuals) <= rounding] = 0.0  # equal scores have no spread
    return np.asarray(mean + residuals * (n_clusters / len(d)), dtype=np.float64)
