"""Places of documents in lists sorted by score, with ties ordered by id.

Sorted lists are not sorted again, and ids are compared only in tie groups with a judged document.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ragbench.types import FloatArray, IntArray
from ragbench.types.byte_ids import ByteIds, numbered, spans

_LONG = 200  # hits per query from which one sort per query is faster than one for all


@dataclass(frozen=True, eq=False)
class SortedLists:
    """Scores of n queries, concatenated, falling within each query, ties in any order.

    `of` creates it. Places and rows count from 0.

    Attributes:
        scores: Place -> score.
        starts: Shape (n + 1,): first place of each query.
        order: Place -> row in the input; None if the input was sorted.
    """

    scores: FloatArray
    starts: IntArray
    order: IntArray | None

    @classmethod
    def of(cls, scores: FloatArray, starts: IntArray) -> SortedLists:
        """Return the lists sorted by falling score; O(n) if they are sorted already.

        `starts` has shape (n + 1,): the first row of each query. The input is not changed. The
        caller has checked that no score is NaN.
        """
        rises = _within_lists(scores[1:] > scores[:-1], starts)
        if not rises.any():
            return cls(scores, starts, None)
        order = _falling_order(scores, starts, rises)
        return cls(scores[order], starts, order)

    @cached_property
    def _ties(self) -> tuple[IntArray, IntArray]:
        """First places and ends of the tie groups of two or more places, ascending."""
        as_next = _within_lists(self.scores[1:] == self.scores[:-1], self.starts)
        links = np.flatnonzero(as_next)  # consecutive links form a tie group
        first, last = np.ones((2, len(links)), bool)
        first[1:] = last[:-1] = links[1:] > links[:-1] + 1
        return links[first], links[last] + 2

    def groups(self, query: IntArray, scores: FloatArray) -> Groups:
        """Return the tie group of each score in the list of its query, as places in `self.scores`.

        Each score must be in the list of its query. Bisection of all scores at once takes
        O(hits x log(retrieved)). The shape is that of `query`.
        """
        return self._around(self._bisect(self.starts[query], self.starts[query + 1], scores))

    def groups_of(self, rows: IntArray, query: IntArray, scores: FloatArray) -> Groups:
        """Return the tie groups of rows; the row is the place if the input was sorted.

        Rows count from 0; `query` and `scores` are those of the rows.
        """
        return self._around(rows) if self.order is None else self.groups(query, scores)

    def _around(self, places: IntArray) -> Groups:
        """Return the tie groups that contain the places."""
        starts, ends = self._ties
        if not len(starts):
            return Groups(places, places + 1, starts)
        number = np.searchsorted(starts, places, side="right") - 1
        tied = np.flatnonzero(number >= 0)
        tied = tied[places[tied] < ends[number[tied]]]
        first, end = places.copy(), places + 1
        first[tied], end[tied] = starts[number[tied]], ends[number[tied]]
        return Groups(first, end, tied)

    def places(self, rows: IntArray, groups: Groups, ids: ByteIds | None) -> IntArray:
        """Return the places of rows in the sorted lists.

        Tied rows are in falling order of the bytes of their ids; with `ids` None, in input order.
        Places count from 0. `groups` are the tie groups of `rows`; `ids` are those of all rows of
        the input.
        """
        places: IntArray = groups.first.copy()
        tied = groups.tied
        if not len(tied):
            return places
        members = TiedMembers.of(groups, self)
        if self.order is None:
            member = members.first + rows[tied] - places[tied]
        else:
            by_row = np.argsort(members.rows)
            member = by_row[np.searchsorted(members.rows[by_row], rows[tied])]
        order = members.in_order(None if ids is None else ids.take(members.rows))
        places[tied] = order[member]
        return places

    def _bisect(self, low: IntArray, high: IntArray, target: FloatArray) -> IntArray:
        """Return the first place in each span whose score is at most the target."""
        for _ in range(int((high - low).max(initial=0)).bit_length()):
            middle = (low + high) >> 1
            # finished spans have middle == high, which may lie after the last place
            inside = middle < high
            right = (self.scores[np.minimum(middle, len(self.scores) - 1)] > target) & inside
            low, high = np.where(right, middle + 1, low), np.where(right, high, middle)
        return low


def _within_lists(marks: NDArray[np.bool_], starts: IntArray) -> NDArray[np.bool_]:
    """Return the marks without those at the last score of each list, whose successor is foreign."""
    # The last score of a list is followed by the first of another list.
    borders = starts[1:-1]
    # empty lists at either end have a border without a pair of neighbours
    marks[borders[(borders > 0) & (borders <= len(marks))] - 1] = False
    return marks


def _falling_order(scores: FloatArray, starts: IntArray, rises: NDArray[np.bool_]) -> IntArray:
    """Return the order that sorts each query by falling score, ties in any order."""
    if len(scores) < _LONG * (len(starts) - 1):
        query = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
        # one integer of query and score for the whole run: many short sorts cost more than one
        return np.argsort((query << 32) + numbered(-scores))
    order = np.arange(len(scores))
    # how often scores rise before each list: equal at both ends of one that is sorted
    rises_before = np.concatenate(([0, 0], np.cumsum(rises)))[starts]
    unsorted = np.flatnonzero(rises_before[1:] > rises_before[:-1])
    for start, end in zip(starts[unsorted].tolist(), starts[unsorted + 1].tolist(), strict=True):
        order[start:end] = np.argsort(-scores[start:end]) + start
    return order


@dataclass(frozen=True, eq=False)
class Groups:
    """Tie groups of hits, as places in `SortedLists`, whose `groups` creates them.

    Hits and places count from 0.

    Attributes:
        first: Hit -> first place of its group.
        end: Hit -> place after the last of its group.
        tied: Numbers of the hits that share their group with other documents, ascending.
    """

    first: IntArray
    end: IntArray
    tied: IntArray


@dataclass(frozen=True, eq=False)
class TiedMembers:
    """All documents of the tie groups of tied hits, group by group.

    `of` creates it; without tied hits its arrays are empty.

    Attributes:
        places: Member -> its place; ascending.
        rows: Member -> its row as the caller listed it.
        group: Member -> number of its group; ascending.
        first: Tied hit -> number of the first member of its group.
    """

    places: IntArray
    rows: IntArray
    group: IntArray
    first: IntArray

    @classmethod
    def of(cls, groups: Groups, lists: SortedLists) -> TiedMembers:
        """Return the members of the groups of tied hits; hits may share a group."""
        first, end = groups.first[groups.tied], groups.end[groups.tied]
        order = np.argsort(first)
        rising = first[order]
        # not np.unique, which loads numpy.ma: a tenth of the start-up of NumPy
        new = np.ones(len(first), bool)
        new[1:] = rising[1:] > rising[:-1]
        starts, which = rising[new], np.empty(len(first), np.int64)
        which[order] = np.cumsum(new) - 1
        ends = np.empty_like(starts)
        ends[which] = end
        sizes = ends - starts
        places = spans(starts, ends)
        rows = places if lists.order is None else lists.order[places]
        number = np.repeat(np.arange(len(starts)), sizes)
        return cls(places, rows, number, (np.cumsum(sizes) - sizes)[which])

    def in_order(self, ids: ByteIds | None) -> IntArray:
        """Return the place of each member where ids fall, as bytes: trec_eval's rule.

        `ids` has the id of each member. With None, members that tie keep their input order.
        """
        by_row = (self.group << 32) + self.rows
        order = np.argsort(by_row) if ids is None else ids.falling_order(self.group)
        places = np.empty(len(self.places), np.int64)
        places[order] = self.places
        return places


def as_singles(scores: FloatArray) -> FloatArray:
    """Return scores rounded to 32-bit floats, as doubles; too large ones are infinite, and so tie.

    NaN stays NaN. The input is not changed.
    """
    with np.errstate(over="ignore"):
        return scores.astype(np.float32).astype(np.float64)


def number_groups(query: IntArray, first: IntArray) -> tuple[IntArray, IntArray]:
    """Number the tie groups of rows in rank order, each known by its query and best rank.

    Returns the row at which each group starts, with the end of the last one, and the number of each
    row's group. Groups count from 0; no rows give `[0]` and an empty array.

    Example:
        >>> number_groups(np.array([0, 0, 0, 1]), np.array([1, 2, 2, 2]))
        (array([0, 1, 3, 4]), array([0, 1, 1, 2]))
    """
    is_new = (np.diff(first, prepend=-1) != 0) | (np.diff(query, prepend=-1) != 0)
    return np.append(np.flatnonzero(is_new), len(query)), np.cumsum(is_new) - 1


@dataclass(frozen=True, eq=False)
class TieGroups:
    """Ranks of the documents tied with each judged document, unjudged ones included.

    Attributes:
        first: Row of `RankedGrades` -> best rank of its tie group; its own rank where nothing ties.
        last: Row -> worst rank of its tie group.
    """

    first: IntArray
    last: IntArray

    @property
    def size(self) -> IntArray:
        """Row -> number of documents in its tie group."""
        return self.last - self.first + 1

    def mean(
        self, weight: Callable[[IntArray], FloatArray], k: int | IntArray | None = None
    ) -> FloatArray:
        """Return the mean weight of the ranks of each row's tie group.

        `weight` gets an array of ranks. Every order of the tied documents is as likely. `k` is the
        last rank that weighs anything, an array where it differs from row to row; None for all
        ranks. Shape (rows,); ranks count from 1.
        """
        depth = int(self.last.max(initial=0))
        sums = np.concatenate(([0.0], np.cumsum(weight(np.arange(1, depth + 1)))))
        start, until = self.first - 1, self.last
        if k is not None:
            start, until = np.minimum(start, k), np.minimum(until, k)
        return (sums[until] - sums[start]) / self.size
