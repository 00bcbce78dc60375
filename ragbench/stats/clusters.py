"""Clusters of queries: their codes, and sums and units of values by cluster."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ragbench.errors import OptionError, Phrase
from ragbench.stats.arguments import matrix
from ragbench.types import FloatArray

# A sum this small, relative to what was summed, is a rounding error: .1 + .2 - .3.
_NO_CHANGE = 1e-12


def cluster_sums(differences: ArrayLike, clusters: ArrayLike) -> FloatArray:
    """Sum each column of paired differences over the queries of a cluster.

    Questions about one document, or paraphrases of one question, are won and lost together:
    counted as independent they make chance look like evidence. A test of the sums flips, or
    ranks, whole clusters, and keeps its error rate whatever happens inside them. Without queries
    the table has no rows.

    Args:
        differences: Table (n queries, m pairs of systems); NaN where a pair is not scored.
        clusters: n labels; equal ones belong together.

    Returns:
        Table (clusters, m) in the order of the sorted labels; NaN where no query of a cluster is
        scored. Sums of rounding errors are 0.

    Raises:
        OptionError: differences is no table or holds an infinity, or clusters has other than n
            labels.

    Example:
        >>> cluster_sums([[0.5], [0.25], [-0.5]], ["a", "b", "a"]).tolist()
        [[0.0], [0.25]]
    """
    table = matrix("cluster_sums", "differences", differences)
    codes, n_clusters = cluster_codes("cluster_sums", clusters, len(table))
    scored = ~np.isnan(table)
    filled = np.where(scored, table, 0.0)
    shape = (n_clusters, table.shape[1])
    sums, sizes, counts = (np.zeros(shape) for _ in range(3))
    np.add.at(sums, codes, filled)
    np.add.at(sizes, codes, np.abs(filled))
    np.add.at(counts, codes, scored)
    sums[np.abs(sums) <= _NO_CHANGE * sizes] = 0.0
    sums[counts == 0] = np.nan
    return sums


def cluster_codes(owner: str, clusters: ArrayLike | None, n: int) -> tuple[NDArray[np.intp], int]:
    """Return the number of the cluster of each of n queries, from 0, and the number of clusters.

    Without labels each query is its own cluster. Raises OptionError unless there is a label per
    query. Numbers follow the sorted labels.
    """
    if clusters is None:
        return np.arange(n), n
    labels: NDArray[Any] = np.asarray(clusters)
    if labels.ndim != 1 or len(labels) != n:
        shape = Phrase(f"shape {labels.shape}")
        raise OptionError(owner, "clusters", shape, f"{n} labels, one per query")
    distinct, codes = np.unique(labels, return_inverse=True)
    return codes.reshape(-1), len(distinct)


def cluster_units(d: FloatArray, codes: NDArray[np.intp], n_clusters: int) -> FloatArray:
    """Return a value per cluster, whose mean is that of d and whose spread is between clusters.

    The mean of d is a ratio of sum and size, both of which vary between clusters. The values are
    its linearisation, so that their standard error is that of the ratio. Shape (clusters,), in the
    order of the codes; d must not be empty.

    References:
        Cochran (1977), Sampling techniques, 6.3 and 9.2.
    """
    mean = float(d.mean())
    residuals = np.bincount(codes, weights=d - mean, minlength=n_clusters)
    rounding = _NO_CHANGE * np.bincount(codes, weights=np.abs(d), minlength=n_clusters)
    residuals[np.abs(residuals) <= rounding] = 0.0  # equal scores have no spread
    return np.asarray(mean + residuals * (n_clusters / len(d)), dtype=np.float64)
