"""The order of a ranking: by score, ties by document id descending."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ragbench.types import FloatArray, IntArray


def id_ranks(ids: Sequence[str]) -> IntArray:
    """Return each id's place among all of them, sorted by their bytes as trec_eval sorts them.

    Example:
        >>> id_ranks(["b", "a", "c"])
        array([1, 0, 2])
    """
    keys = [identifier.encode("utf-8", "surrogateescape") for identifier in ids]
    ranks = np.empty(len(keys), dtype=np.int64)
    ranks[sorted(range(len(keys)), key=keys.__getitem__)] = np.arange(len(keys))
    return ranks


def best_rows(rows: IntArray, scores: FloatArray, ranks: IntArray, top_k: int) -> IntArray:
    """Return the positions in `rows` of the best ones, best first.

    Args:
        rows: Rows of documents.
        scores: The score of each.
        ranks: For every row of the corpus, the place of its id; the larger id wins a tie.
        top_k: How many are wanted.

    Example:
        >>> best_rows(np.array([4, 7, 9]), np.array([1.0, 2.0, 1.0]), np.arange(10), top_k=2)
        array([1, 2])
    """
    best: IntArray = np.lexsort((-ranks[rows], -scores))[:top_k]
    return best
