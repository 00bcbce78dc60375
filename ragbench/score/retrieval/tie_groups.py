"""Tie groups: between which ranks a document may stand when the order of equal scores is open."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ragbench.types import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class TieGroups:
    """The ranks that the documents tied with each judged one take up, unjudged ones included."""

    first: IntArray
    """Row of `RankedGrades` -> best rank of its tie group; its own rank where nothing ties."""
    last: IntArray
    """Row -> worst rank of its tie group."""

    @property
    def size(self) -> IntArray:
        """Row -> number of documents in its tie group."""
        return self.last - self.first + 1

    def mean(
        self, weight: Callable[[IntArray], FloatArray], k: int | IntArray | None = None
    ) -> FloatArray:
        """Average a weight of ranks over the ranks of each row's tie group.

        Args:
            weight: Ranks -> what a document there weighs.
            k: The last rank that weighs anything; an array where it differs from row to row.

        Returns:
            Row -> expected weight, if every order of the tied documents is as likely.
        """
        depth = int(self.last.max(initial=0))
        sums = np.concatenate(([0.0], np.cumsum(weight(np.arange(1, depth + 1)))))
        before, until = self.first - 1, self.last
        if k is not None:
            before, until = np.minimum(before, k), np.minimum(until, k)
        expected: FloatArray = (sums[until] - sums[before]) / self.size
        return expected


def find_tie_groups(
    scores: FloatArray,
    starts: IntArray,
    query: IntArray,
    rank: IntArray,
    depth: int | None = None,
) -> TieGroups:
    """Find the tie groups of judged documents in the scores of all that was retrieved.

    Args:
        scores: The scores of all queries one after the other, in any order within a query.
        starts: Shape (n + 1,): where each query's scores start.
        query: Row -> position of its query.
        rank: Row -> rank of its document, ties in any order.
        depth: Ranks below this one are not looked at.
    """
    query_of = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    one_query = query_of[1:] == query_of[:-1]
    if (one_query & (scores[1:] > scores[:-1])).any():
        scores = scores[np.lexsort((-scores, query_of))]
    borders = np.flatnonzero(~(one_query & (scores[1:] == scores[:-1]))) + 1
    edges = np.concatenate(([0], borders, [len(scores)]))
    group = np.searchsorted(edges, starts[query] + rank - 1, side="right") - 1
    last = edges[group + 1] - starts[query]
    if depth is not None:
        last = np.minimum(last, depth)
    return TieGroups(edges[group] - starts[query] + 1, last)
