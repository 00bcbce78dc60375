"""Finds the ranks of judged documents in two ways that give the same: row by row, and sparsely.

Neither sorts what is sorted already, and neither looks at the ids of documents outside the tie
groups that hold a judged one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, repeat
from typing import cast

import numpy as np
from numpy.typing import NDArray

from ragbench.types import FloatArray, IntArray
from ragbench.types.cells import id_bytes
from ragbench.types.columnar import borders

_UNJUDGED = -(2**62)  # outside what a grade can be


@dataclass(frozen=True, eq=False)
class Lists:
    """The retrieved documents of n queries, in the order in which the caller listed them."""

    documents: Sequence[Collection[str]]
    """The ids, one collection a query."""
    scores: FloatArray
    """The scores of all queries one after the other."""
    starts: IntArray
    """Shape (n + 1,): where each query's scores start."""
    missing: frozenset[int]
    """Queries that the run lacks."""
    singles: bool = False
    """Whether scores are compared as 32-bit floats."""

    def rounded(self) -> Lists:
        """Return the same lists with scores as 32-bit floats, which tie more often."""
        return replace(self, scores=_as_singles(self.scores), singles=True)

    def scores_of(self, ids: Sequence[Collection[str]], n: int) -> FloatArray:
        """Look up the scores of n of the documents; the lists must be dictionaries."""
        tables = cast(Sequence[Mapping[str, float]], self.documents)
        found = (map(table.__getitem__, some) for table, some in zip(tables, ids, strict=True))
        scores = np.fromiter(chain.from_iterable(found), np.float64, n)
        return _as_singles(scores) if self.singles else scores

    def unsorted(self) -> frozenset[int]:
        """Return the queries whose scores rise somewhere."""
        rises = np.flatnonzero(self.scores[1:] > self.scores[:-1])
        # of rows i and i + 1: an empty query shares its start with the next, hence the right side
        before, after = (
            np.searchsorted(self.starts, rows, side="right") for rows in (rises, rises + 1)
        )
        return frozenset((before[before == after] - 1).tolist())

    def in_order(self, query: int, unsorted: bool) -> list[str]:
        """Return one query's ids by falling score, ties as listed."""
        ids = list(self.documents[query])
        if not unsorted:
            return ids
        scores = self.scores[self.starts[query] : self.starts[query + 1]]
        return [ids[place] for place in np.argsort(-scores, kind="stable").tolist()]


@dataclass(frozen=True, eq=False)
class Hits:
    """Judged documents that were retrieved, in any order."""

    query: IntArray
    rank: IntArray
    grades: IntArray


def from_rows(lists: Lists, judged: Sequence[Mapping[str, int]], stable: bool) -> Hits:
    """Look every retrieved document up in the judgements: quick where lists are short."""
    n = len(lists.scores)
    getters = [grades.get for grades in judged]
    looked_up = map(map, getters, lists.documents, repeat(repeat(_UNJUDGED)))
    grades = np.fromiter(chain.from_iterable(looked_up), np.int64, n)
    rows = np.flatnonzero(grades != _UNJUDGED)
    query_of = np.repeat(np.arange(len(judged)), np.diff(lists.starts))

    scores, place, order = lists.scores, rows, None
    one_query = query_of[1:] == query_of[:-1]
    if (one_query & (scores[1:] > scores[:-1])).any():
        order = np.lexsort((-scores, query_of))
        scores, place = scores[order], _inverse(order)[rows]
    # one_query holds for the sorted column too: sorting moves rows within queries only
    same = one_query & (scores[1:] == scores[:-1])
    if same.any() and not stable:
        place = _place_ties(lists, same, place, order)
    query = query_of[rows]
    return Hits(query, place - lists.starts[query] + 1, grades[rows])


def _place_ties(
    lists: Lists, same: NDArray[np.bool_], place: IntArray, order: IntArray | None
) -> IntArray:
    """Move places within their tie groups; `same` tells which rows tie with the one before."""
    ids = list(chain.from_iterable(lists.documents))
    if order is not None:
        ids = [ids[row] for row in order.tolist()]
    edges = np.concatenate(([0], np.flatnonzero(~same) + 1, [len(ids)]))
    group = np.searchsorted(edges, place, side="right") - 1
    left, right = edges[group], edges[group + 1]
    tied = np.flatnonzero(right - left > 1)
    wanted = [ids[at] for at in place[tied].tolist()]
    moved: IntArray = place.copy()
    moved[tied] = left[tied] + _offsets(wanted, left[tied], right[tied], ids, stable=False)
    return moved


def from_many(lists: Lists, judged: Sequence[Mapping[str, int]], stable: bool) -> Hits:
    """Look the judged documents up among the retrieved: quick where lists are long.

    The rank of a document is the number of higher scores, found by bisection, plus what the tie
    rule adds. The lists must be dictionaries.
    """
    tables = cast(Sequence[Mapping[str, float]], lists.documents)
    # sets, but each is walked in one and the same order below
    hits = [table.keys() & grades.keys() for table, grades in zip(tables, judged, strict=True)]
    bounds = borders(map(len, hits), len(hits))
    n = int(bounds[-1])
    looked_up = (map(grades.__getitem__, found) for grades, found in zip(judged, hits, strict=True))
    grades = np.fromiter(chain.from_iterable(looked_up), np.int64, n)

    left, right = np.empty(n, np.int64), np.empty(n, np.int64)
    edges, spans = lists.starts.tolist(), bounds.tolist()
    wanted, rising = -lists.scores_of(hits, n), -lists.scores
    unsorted = lists.unsorted()
    for index in np.flatnonzero(np.diff(bounds)).tolist():
        column = rising[edges[index] : edges[index + 1]]
        if index in unsorted:
            column.sort()
        start, end = spans[index], spans[index + 1]
        left[start:end] = column.searchsorted(wanted[start:end])
        right[start:end] = column.searchsorted(wanted[start:end], "right")
    query = np.repeat(np.arange(len(judged)), np.diff(bounds))
    place = left.copy()
    for index in np.unique(query[right - left > 1]).tolist():
        span = slice(spans[index], spans[index + 1])
        ids = lists.in_order(index, index in unsorted)
        place[span] += _offsets(hits[index], left[span], right[span], ids, stable)
    return Hits(query, place + 1, grades)


def _offsets(
    wanted: Iterable[str], left: IntArray, right: IntArray, ids: Sequence[str], stable: bool
) -> list[int]:
    """Return the places of documents within their tie groups, each of them ids[left:right]."""
    groups: dict[int, Sequence[str]] = {}
    offsets = []
    for document, start, end in zip(wanted, left.tolist(), right.tolist(), strict=True):
        if end - start == 1:
            offsets.append(0)
            continue
        if (group := groups.get(start)) is None:
            group = ids[start:end]
            groups[start] = group = group if stable else falling_ids(group)
        offsets.append(group.index(document))
    return offsets


def falling_ids(ids: Sequence[str]) -> list[str]:
    """Sort ids by their bytes, the largest first: trec_eval's rule for equal scores."""
    # Python orders text by code point, which is the order of its UTF-8 bytes but for surrogates
    return sorted(ids, key=None if "".join(ids).isascii() else id_bytes, reverse=True)


def _as_singles(scores: FloatArray) -> FloatArray:
    """Round to 32-bit floats, kept as doubles; what is too large becomes infinite, and so ties."""
    with np.errstate(over="ignore"):
        return scores.astype(np.float32).astype(np.float64)


def _inverse(order: IntArray) -> IntArray:
    """Return where each row went."""
    places = np.empty(len(order), np.int64)
    places[order] = np.arange(len(order))
    return places
