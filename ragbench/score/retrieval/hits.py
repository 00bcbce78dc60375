"""Finds judged documents among those that a run in memory retrieved, and their ranks.

In two ways that give the same: the judged are looked up among the retrieved, or the retrieved
among the judged, whichever are fewer.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import repeat

import numpy as np

from ragbench.score.retrieval.judged_index import Keyed, join
from ragbench.score.retrieval.judgements import JudgedPart
from ragbench.score.retrieval.lists import Listed, LookedUp
from ragbench.score.retrieval.positions import SortedLists, TiedMembers, as_singles
from ragbench.types import FloatArray, IntArray
from ragbench.types.byte_ids import ByteIds

_FEW = 30  # documents that tie, up to which walking through them beats a table


@dataclass(frozen=True, eq=False)
class Hits:
    """Judged documents that were retrieved, in any order."""

    query: IntArray
    rank: IntArray
    grades: IntArray

    @classmethod
    def joined(cls, parts: Sequence[Hits], firsts: Sequence[int]) -> Hits:
        """Return the hits of all parts.

        Args:
            parts: Hits, their queries numbered from 0 in each part.
            firsts: Part -> number of its first query among all.
        """
        empty = np.zeros(0, np.int64)
        numbers = [part.query + first for part, first in zip(parts, firsts, strict=True)]
        return cls(
            np.concatenate([empty, *numbers]),
            np.concatenate([empty, *(part.rank for part in parts)]),
            np.concatenate([empty, *(part.grades for part in parts)]),
        )

    def down_to(self, depth: int) -> Hits:
        """Return those of the first `depth` ranks."""
        seen = self.rank <= depth
        return Hits(self.query[seen], self.rank[seen], self.grades[seen])


def find_hits(lists: Listed | LookedUp, judged: JudgedPart, *, stable: bool, singles: bool) -> Hits:
    """Find the judged documents and their ranks.

    Args:
        lists: What was retrieved.
        judged: The judgements of the same queries.
        stable: Whether documents that tie keep their order; else their ids fall, as bytes.
        singles: Whether scores are compared as 32-bit floats.
    """
    scores = as_singles(lists.scores) if singles else lists.scores
    if isinstance(lists, LookedUp):
        return _from_judged(lists, scores, judged, stable, singles)
    return _from_retrieved(lists, scores, judged, stable)


def _from_retrieved(lists: Listed, scores: FloatArray, judged: JudgedPart, stable: bool) -> Hits:
    """Join all that was retrieved with all that is judged: quick where lists are short."""
    ordered = SortedLists.of(scores, lists.starts)
    wanted = Keyed.of(_numbers(judged.starts), judged.document_ids, judged.document_hashes)
    found = join(Keyed.of(_numbers(lists.starts), lists.documents), wanted)
    query = wanted.query[found.judged]
    groups = ordered.groups_of(found.rows, query, scores[found.rows])
    place = ordered.places(found.rows, groups, None if stable else lists.documents)
    return Hits(query, place - lists.starts[query] + 1, judged.grades[found.judged])


def _from_judged(
    lists: LookedUp, scores: FloatArray, judged: JudgedPart, stable: bool, singles: bool
) -> Hits:
    """Find the places of scores that were looked up: quick where lists are long."""
    rows = np.flatnonzero(~np.isnan(lists.wanted))
    wanted = lists.wanted[rows]
    query = _numbers(judged.starts)[rows]
    ordered = SortedLists.of(scores, lists.starts)
    groups = ordered.groups(query, as_singles(wanted) if singles else wanted)
    place, tied = groups.first.copy(), groups.tied
    if len(tied):
        members = TiedMembers.of(groups, ordered)
        texts = [*map(lists.documents.__getitem__, members.rows.tolist())]
        wanted_texts = map(lists.judged.__getitem__, rows[tied].tolist())
        at = _find(texts, wanted_texts, members.first, (groups.end - groups.first)[tied])
        places = members.by_row() if stable else members.by_id(ByteIds.of(texts))
        place[tied] = places[at]
    return Hits(query, place - lists.starts[query] + 1, judged.grades[rows])


def _numbers(starts: IntArray) -> IntArray:
    """Return the number of each row's query."""
    return np.repeat(np.arange(len(starts) - 1), np.diff(starts))


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
