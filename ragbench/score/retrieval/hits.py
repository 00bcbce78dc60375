"""Ranks of the judged documents among the hits of a run.

Hits of files and columns are joined with the qrels by the hashes of their ids, then by their bytes.
In dictionaries the judged ids are looked up instead, which hashes no unjudged id and is 1.9 times
as fast.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from ragbench.score.retrieval.judgements import LookedUp
from ragbench.score.retrieval.positions import Groups, SortedLists, TiedMembers, as_singles
from ragbench.types import IntArray, Qrels
from ragbench.types.byte_ids import ByteIds, HashArray, query_keys, spans
from ragbench.types.rows import HitBlock

_FEWEST_BITS = 16  # of the filter of rows: 64 KiB fit into the nearest cache
_MOST_BITS = 24
_LOWER = (1 << 32) - 1
_MANY = 4  # hits per judgement from which the filter saves more than it costs


@dataclass(frozen=True, eq=False)
class Keyed:
    """Documents of several queries with nearly unique hash keys.

    Attributes:
        query: Row -> number of the query.
        documents: Row -> id of the document.
        keys: Row -> hash of query and document.
    """

    query: IntArray
    documents: ByteIds
    keys: HashArray

    @classmethod
    def of(cls, query: IntArray, documents: ByteIds, hashes: HashArray | None = None) -> Keyed:
        """Return the documents with keys, from given hashes of the documents or new ones.

        `hashes` has a hash per document, in their order.
        """
        hashes = documents.hashes() if hashes is None else hashes
        return cls(query, documents, query_keys(hashes, query))

    @classmethod
    def of_block(cls, block: HitBlock) -> Keyed:
        """Return the hits of a block with their keys.

        Queries are numbered from 0 by their place in the block.
        """
        lengths = np.diff(block.starts)
        return cls.of(np.repeat(np.arange(len(lengths)), lengths), block.documents)

    def take(self, rows: IntArray) -> Keyed:
        """Return the given rows, in their order."""
        return Keyed(self.query[rows], self.documents.take(rows), self.keys[rows])

    def __len__(self) -> int:
        return len(self.keys)


def join(hits: Keyed, judged: Keyed) -> tuple[IntArray, IntArray]:
    """Return the rows of the judged hits, ascending, and the rows of their judgements.

    Pairs of query and document must be distinct on each side. Both arrays are parallel and count
    from 0; empty if no hit is judged.
    """
    # with many hits, one pass removes nearly all unjudged ones; then both sides are sorted by key,
    # so that equal keys become neighbours
    some = _possible(hits.keys, judged.keys) if len(hits) > _MANY * len(judged) else None
    pairs = _neighbours(hits.keys if some is None else hits.keys[some], judged.keys)
    if pairs is None:
        return _compared(hits, judged)
    rows, gold = pairs if some is None else (some[pairs[0]], pairs[1])
    # two ids may have equal hashes: only equal bytes are one document
    same = hits.documents.take(rows).equal(judged.documents.take(gold))
    return rows[same], gold[same]


def _neighbours(keys: HashArray, gold_keys: HashArray) -> tuple[IntArray, IntArray] | None:
    """Return the pairs of rows with equal upper bits of the key; None if three rows share them.

    Hits are first in a pair, ascending, and judgements second; pairs may have equal bits of
    different ids.
    """
    # the lower bits hold the row number: NumPy sorts numbers several times as fast as it finds
    # their order
    n = len(keys)
    bits = np.uint64((n + len(gold_keys)).bit_length())
    numbered = np.concatenate((keys, gold_keys)) >> bits << bits
    numbered |= np.arange(len(numbered), dtype=np.uint64)
    numbered.sort()
    upper = numbered >> bits
    first = np.flatnonzero(upper[1:] == upper[:-1])
    if (first[1:] == first[:-1] + 1).any():
        return None
    number = (numbered & ((np.uint64(1) << bits) - np.uint64(1))).view(np.int64)
    hit, judged = number[first], number[first + 1]  # hits have the lower numbers
    mixed = (hit < n) & (judged >= n)
    # in the order of the hits, so that later look-ups read neighbouring memory
    pairs = np.sort((hit[mixed] << 32) + (judged[mixed] - n))
    return pairs >> 32, pairs & _LOWER


def _compared(hits: Keyed, judged: Keyed) -> tuple[IntArray, IntArray]:
    """Join hits and judgements by comparing ids: for the rare block with equal hashes.

    The result is that of `join`.
    """
    table = {(query, judged.documents[row]): row for row, query in enumerate(judged.query.tolist())}
    places = enumerate(hits.query.tolist())
    judgements = [table.get((query, hits.documents[row]), -1) for row, query in places]
    columns = np.array(judgements, np.int64)
    rows = np.flatnonzero(columns >= 0)
    return rows, columns[rows]


def _possible(keys: HashArray, gold_keys: HashArray) -> IntArray:
    """Return the rows whose key may be judged, a superset, by a filter on the upper bits.

    They are ascending.
    """
    bits = min(max(_FEWEST_BITS, len(gold_keys).bit_length() + 3), _MOST_BITS)
    shift = np.uint64(64 - bits)
    marked: NDArray[np.bool_] = np.zeros(1 << bits, bool)
    marked[(gold_keys >> shift).view(np.int64)] = True
    return np.flatnonzero(marked[(keys >> shift).view(np.int64)])


@dataclass(frozen=True, eq=False)
class Hits:
    """Judged documents that were retrieved, in any order.

    Attributes:
        query: Row -> number of the query.
        rank: Row -> rank of the document, 1 is the best.
        first: Row -> best rank of its tie group, equal to the rank without a tie.
        last: Row -> worst rank of its tie group.
        judged: Row -> row of its judgement in the qrels.
    """

    query: IntArray
    rank: IntArray
    first: IntArray
    last: IntArray
    judged: IntArray

    @classmethod
    def from_places(
        cls, places: IntArray, groups: Groups, starts: IntArray, query: IntArray, judged: IntArray
    ) -> Hits:
        """Return hits with ranks from places in the joined lists.

        `starts` is the place at which the list of each hit starts. Ranks count from 1.
        """
        offset = starts - 1
        return cls(query, places - offset, groups.first - offset, groups.end - starts, judged)

    @classmethod
    def joined(cls, parts: Sequence[Hits]) -> Hits:
        """Return the concatenated hits of all parts.

        In the order of the parts; no parts give empty arrays.
        """
        empty = np.zeros(0, np.int64)
        return cls(
            *(
                np.concatenate([empty, *(getattr(part, column.name) for part in parts)])
                for column in fields(cls)
            )
        )

    def down_to(self, depth: int) -> Hits:
        """Return the hits of the first `depth` ranks.

        Tie groups are cut there too.
        """
        near = self.rank <= depth
        last = np.minimum(self.last[near], depth)
        return Hits(self.query[near], self.rank[near], self.first[near], last, self.judged[near])


def find_hits(lists: LookedUp, judged: Qrels, *, stable: bool, singles: bool) -> Hits:
    """Return the ranks of the judged documents of some lists, found by their scores.

    Tied documents keep their order if `stable`, else they are in falling order of the bytes of
    their ids. `singles` compares scores as 32-bit floats. Rows are in the order of the judgements;
    empty if nothing judged was retrieved.
    """
    starts = judged.starts[lists.first : lists.first + len(lists.starts)]
    rows = np.flatnonzero(~np.isnan(lists.judged_scores))
    query = np.repeat(np.arange(len(starts) - 1), np.diff(starts))[rows]
    scores, judged_scores = lists.scores, lists.judged_scores[rows]
    if singles:
        scores, judged_scores = as_singles(scores), as_singles(judged_scores)
    ordered = SortedLists.of(scores, lists.starts)
    groups = ordered.groups(query, judged_scores)
    place, tied = groups.first.copy(), groups.tied
    if len(tied):
        members = TiedMembers.of(groups, ordered)
        texts = [*map(lists.documents.__getitem__, members.rows.tolist())]
        tied_ids = map(lists.judged.__getitem__, rows[tied].tolist())
        first, end = members.first, members.first + (groups.end - groups.first)[tied]
        # a scan of each tie group: faster than a table of all ids, even for 1,000 tied documents
        member = [*map(texts.index, tied_ids, first.tolist(), end.tolist())]
        place[tied] = members.in_order(None if stable else ByteIds.of(texts))[member]
    return Hits.from_places(
        place, groups, lists.starts[query], query + lists.first, rows + int(starts[0])
    )


def join_hits(
    block: HitBlock, hits: Keyed, codes: IntArray, judged: Qrels, *, stable: bool, singles: bool
) -> Hits:
    """Return the ranks of the judged hits of a block.

    `codes` is the position of each query of the block in the qrels, -1 for a query without
    judgements. `stable` and `singles` are those of `find_hits`. Rows are in the order of the hits;
    a query with the code -1 has none.
    """
    queries = np.flatnonzero(codes >= 0)
    first, end = judged.starts[codes[queries]], judged.starts[codes[queries] + 1]
    rows, query = spans(first, end), np.repeat(queries, end - first)
    hit, gold = join(
        hits, Keyed.of(query, judged.document_ids.take(rows), judged.document_hashes[rows])
    )
    scores = as_singles(block.scores) if singles else block.scores
    lists = SortedLists.of(scores, block.starts)
    query = hits.query[hit]
    groups = lists.groups_of(hit, query, scores[hit])
    place = lists.places(hit, groups, None if stable else hits.documents)
    return Hits.from_places(place, groups, block.starts[query], codes[query], rows[gold])
