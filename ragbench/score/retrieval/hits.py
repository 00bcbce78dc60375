"""Finds judged documents among those that a run in memory retrieved, and their ranks.

In two ways that give the same: the judged are looked up among the retrieved, or the retrieved
among the judged, whichever are fewer.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, repeat
from typing import Any, cast

import numpy as np

from ragbench.score.retrieval.judgements import Judgements
from ragbench.score.retrieval.positions import SortedLists, TiedMembers, as_singles
from ragbench.types import FloatArray, IntArray
from ragbench.types.byte_ids import ByteIds

_UNJUDGED = -(2**62)  # outside what a grade can be
_FEW = 30  # documents that tie, up to which walking through them beats a table


@dataclass(frozen=True, eq=False)
class Slices(Sequence[Collection[str]]):
    """Parts of one long list of ids, cut when they are asked for."""

    ids: Sequence[str]
    starts: Sequence[int]
    ends: Sequence[int]

    def __len__(self) -> int:
        return len(self.starts)

    def __getitem__(self, number: Any) -> Any:
        return self.ids[self.starts[number] : self.ends[number]]

    def __iter__(self) -> Iterator[Collection[str]]:
        return map(self.ids.__getitem__, map(slice, self.starts, self.ends))


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

    def texts(self, rows: IntArray, *, check: bool = False) -> list[str]:
        """Return the ids of some rows.

        Args:
            rows: Ascending from query to query.
            check: See on the way that ALL ids are text: while they are in the cache of the
                processor, that costs half of a pass of its own.

        Raises:
            TypeError: An id is not text.
        """
        query = np.searchsorted(self.starts, rows, side="right") - 1
        local = (rows - self.starts[query]).tolist()
        ends = np.searchsorted(query, np.arange(len(self.documents)), side="right").tolist()
        texts: list[str] = []
        for documents, end in zip(self.documents, ends, strict=True):
            if end > len(texts):
                ids = list(documents)
                texts += map(ids.__getitem__, local[len(texts) : end])
                documents = ids
            if check:
                "".join(documents)
        return texts


@dataclass(frozen=True, eq=False)
class Hits:
    """Judged documents that were retrieved, in any order."""

    query: IntArray
    rank: IntArray
    grades: IntArray

    def down_to(self, depth: int) -> Hits:
        """Return those of the first `depth` ranks."""
        seen = self.rank <= depth
        return Hits(self.query[seen], self.rank[seen], self.grades[seen])


def from_retrieved(lists: Lists, judged: Judgements, stable: bool, singles: bool) -> Hits:
    """Look every retrieved document up in the judgements: quick where lists are short."""
    getters = [grades.get for grades in judged.by_query.values()]
    looked_up = map(map, getters, lists.documents, repeat(repeat(_UNJUDGED)))
    grades = np.fromiter(chain.from_iterable(looked_up), np.int64, len(lists.scores))
    rows = np.flatnonzero(grades != _UNJUDGED)
    query = np.repeat(np.arange(len(getters)), np.diff(lists.starts))[rows]
    scores = as_singles(lists.scores) if singles else lists.scores
    ordered = SortedLists.of(scores, lists.starts)
    place = ordered.places(rows).copy()
    first, end = ordered.groups(query, scores[rows])
    tied = np.flatnonzero(end - first > 1)
    if len(tied) and not stable:
        members = TiedMembers.of(first[tied], end[tied])
        ids = ByteIds.of(lists.texts(ordered.rows(members.places)))
        place[tied] = members.by_id(ids)[members.first + place[tied] - first[tied]]
    return Hits(query, place - lists.starts[query] + 1, grades[rows])


def from_judged(lists: Lists, judged: Judgements, stable: bool, singles: bool) -> Hits:
    """Look the judged documents up among the retrieved: quick where lists are long.

    The lists must be dictionaries.

    Raises:
        TypeError: An id of the run is not text.
    """
    tables = cast(Sequence[Mapping[str, float]], lists.documents)
    looked_up = map(
        map, [table.get for table in tables], judged.by_query.values(), repeat(repeat(np.nan))
    )
    wanted = np.fromiter(chain.from_iterable(looked_up), np.float64, len(judged.grades))
    rows = np.flatnonzero(~np.isnan(wanted))
    query = np.repeat(np.arange(len(tables)), np.diff(judged.starts))[rows]
    scores, wanted = lists.scores, wanted[rows]
    if singles:
        scores, wanted = as_singles(scores), as_singles(wanted)
    ordered = SortedLists.of(scores, lists.starts)
    place, end = ordered.groups(query, wanted)
    tied = np.flatnonzero(end - place > 1)
    members = TiedMembers.of(place[tied], end[tied])
    texts = lists.texts(ordered.rows(members.places), check=True)
    if len(tied):
        names = [*chain.from_iterable(judged.by_query.values())]
        wanted_texts = map(names.__getitem__, rows[tied].tolist())
        at = _find(texts, wanted_texts, members.first, end[tied] - place[tied])
        places = members.places if stable else members.by_id(ByteIds.of(texts))
        place[tied] = places[at]
    return Hits(query, place - lists.starts[query] + 1, judged.grades[rows])


def _find(texts: list[str], wanted: Iterable[str], first: IntArray, sizes: IntArray) -> list[int]:
    """Return where each wanted text is among those from `first` on.

    Args:
        texts: The ids of tie groups, one group after the other.
        wanted: One id of the group that starts at `first`.
        first: Where its group starts.
        sizes: How long its group is.
    """
    if int(sizes.sum()) < _FEW * len(sizes):
        ends = (first + sizes).tolist()
        return [*map(texts.index, wanted, first.tolist(), ends)]
    place: dict[tuple[int, str], int] = {}
    for start, end in {*zip(first.tolist(), (first + sizes).tolist(), strict=True)}:
        place.update(zip(zip(repeat(start), texts[start:end]), range(start, end), strict=False))
    return [place[key] for key in zip(first.tolist(), wanted, strict=True)]
