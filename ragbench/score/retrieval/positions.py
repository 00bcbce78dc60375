"""Finds places in sorted lists: by score, and by id where scores tie.

Nothing is sorted that is sorted already, and no id is looked at outside the tie groups that hold
a judged document.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ragbench.types import FloatArray, IntArray
from ragbench.types.byte_ids import ByteIds, spans

_LONG = 200  # hits a query from which a sort for each is quicker than one for all


@dataclass(frozen=True, eq=False)
class SortedLists:
    """The scores of n queries one after the other, falling within each, ties as listed."""

    scores: FloatArray
    """Place -> score."""
    starts: IntArray
    """Shape (n + 1,): where each query's places start."""
    order: IntArray | None
    """Place -> row as the caller listed it; None where the rows were sorted already."""

    @classmethod
    def of(cls, scores: FloatArray, starts: IntArray) -> SortedLists:
        """Sort what is not sorted; n log n at worst."""
        rises = scores[1:] > scores[:-1]
        borders = starts[1:-1]
        rises[borders[(borders > 0) & (borders < len(scores))] - 1] = False
        if not rises.any():
            return cls(scores, starts, None)
        order = _falling_order(scores, starts, np.flatnonzero(rises))
        return cls(scores[order], starts, order)

    def places(self, rows: IntArray) -> IntArray:
        """Return where the sort put some rows."""
        if self.order is None:
            return rows
        places = np.empty(len(self.order), np.int64)
        places[self.order] = np.arange(len(self.order))
        return places[rows]

    def rows(self, places: IntArray) -> IntArray:
        """Return what stood in some places before the sort."""
        return places if self.order is None else self.order[places]

    def groups(self, query: IntArray, scores: FloatArray) -> tuple[IntArray, IntArray]:
        """Return where the tie group of each score starts and ends in the list of its query.

        By bisection, all scores at once: hits x log(retrieved).
        """
        start, end = self.starts[query], self.starts[query + 1]
        first = self._bisect(start, end, scores, after=False)
        last = first + 1
        # a score that is not there ties with nothing; nearly all others are alone in their group
        following = np.minimum(last, len(self.scores) - 1)
        tied = np.flatnonzero((last < end) & (self.scores[following] == scores))
        last[tied] = self._bisect(last[tied], end[tied], scores[tied], after=True)
        return first, last

    def _bisect(
        self, low: IntArray, high: IntArray, wanted: FloatArray, *, after: bool
    ) -> IntArray:
        """Return the first place in each span whose score is below the wanted one, or equal."""
        passes = np.greater_equal if after else np.greater
        for _ in range(int((high - low).max(initial=0)).bit_length()):
            middle = (low + high) >> 1
            # spans that are done have middle == high, which may lie behind the last place
            inside = middle < high
            right = passes(self.scores[np.minimum(middle, len(self.scores) - 1)], wanted) & inside
            low, high = np.where(right, middle + 1, low), np.where(right, high, middle)
        return low


def _falling_order(scores: FloatArray, starts: IntArray, rises: IntArray) -> IntArray:
    """Return the order that sorts each query by falling score, ties as they stand."""
    if len(scores) < _LONG * (len(starts) - 1):
        query = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
        return np.lexsort((-scores, query))
    order = np.arange(len(scores))
    unsorted = np.unique(np.searchsorted(starts, rises, side="right") - 1)
    for start, end in zip(starts[unsorted].tolist(), starts[unsorted + 1].tolist(), strict=True):
        order[start:end] = np.argsort(-scores[start:end], kind="stable") + start
    return order


@dataclass(frozen=True, eq=False)
class TiedMembers:
    """All documents of the tie groups that hold a hit, group by group."""

    places: IntArray
    """Member -> its place; ascending."""
    group: IntArray
    """Member -> number of its group."""
    first: IntArray
    """Hit -> which member is the first of its group."""

    @classmethod
    def of(cls, first: IntArray, end: IntArray) -> TiedMembers:
        """List the members of groups, given as the places from `first` to before `end`.

        Args:
            first: Hit -> where its group starts; hits may share a group.
            end: Hit -> where it ends.
        """
        order = np.argsort(first)
        rising = first[order]
        # not np.unique, which loads numpy.ma: a tenth of the start-up of NumPy
        new = np.diff(rising, prepend=-1) > 0
        starts, which = rising[new], np.empty(len(first), np.int64)
        which[order] = np.cumsum(new) - 1
        ends = np.empty_like(starts)
        ends[which] = end
        sizes = ends - starts
        number = np.repeat(np.arange(len(starts)), sizes)
        return cls(spans(starts, ends), number, (np.cumsum(sizes) - sizes)[which])

    def by_id(self, ids: ByteIds) -> IntArray:
        """Return the place of each member where ids fall, as bytes: trec_eval's rule.

        Args:
            ids: Member -> its id.
        """
        places = np.empty(len(self.places), np.int64)
        places[ids.falling_order(self.group)] = self.places
        return places


def as_singles(scores: FloatArray) -> FloatArray:
    """Round to 32-bit floats, kept as doubles; what is too large becomes infinite, and so ties."""
    with np.errstate(over="ignore"):
        return scores.astype(np.float32).astype(np.float64)
