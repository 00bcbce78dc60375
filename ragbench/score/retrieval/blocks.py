"""Ranks a run that comes in blocks of queries, and keeps of each block what measures need."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace

import numpy as np
from numpy.typing import NDArray

from ragbench.score.retrieval.base import RankedGrades
from ragbench.score.retrieval.hits import Hits
from ragbench.score.retrieval.judged_index import JudgedIndex, Keyed
from ragbench.score.retrieval.positions import SortedLists, as_singles
from ragbench.score.retrieval.ranking import Ties, TrecEval, check_ties, in_rank_order, rank_order
from ragbench.score.retrieval.tie_groups import TieGroups
from ragbench.types import IntArray, Qrels
from ragbench.types.byte_ids import HashArray
from ragbench.types.hit_block import HitBlock

_FEWEST_SLOT_BITS, _MOST_SLOT_BITS = 17, 24
_MOST_ROUNDS = 32  # of looking for repeated keys; one or two are usual


@dataclass(frozen=True, eq=False)
class _BlockHits:
    """The judged documents among the hits of some queries, in any order."""

    query: IntArray
    """Row -> position of its query in the qrels."""
    rank: IntArray
    """Row -> rank of the document."""
    first: IntArray
    """Row -> best rank of its tie group."""
    last: IntArray
    """Row -> worst rank of its tie group."""
    judged: IntArray
    """Row -> the row of the qrels that judges it."""


class BlockRanker:
    """Finds the ranks of judged documents, block by block.

    Sparse: a document that is not judged is counted, hashed and passed over. Time grows with the
    hits, what is kept with the qrels.
    """

    def __init__(
        self,
        qrels: Qrels,
        *,
        ties: Ties = "docid",
        trec_eval: TrecEval = 10,
        depth: int | None = None,
    ) -> None:
        """Index the qrels.

        Args:
            qrels: The judgements.
            ties: How equal scores are ordered; `stable` keeps the order of the file. See `rank`.
            trec_eval: 10 compares scores as doubles, 9 as 32-bit floats.
            depth: Look at the first so many retrieved documents of a query only; None at all.

        Raises:
            OptionError: No such rule.
        """
        check_ties(ties, trec_eval, depth)
        self._qrels, self._index = qrels, JudgedIndex(qrels)
        self._ties, self._trec_eval, self._depth = ties, trec_eval, depth
        self._slots = np.empty(1 << _FEWEST_SLOT_BITS, np.int32)
        self._found: list[_BlockHits] = []
        self._n_retrieved = np.zeros(len(qrels.query_ids), np.int64)
        self._seen = np.zeros(len(qrels.query_ids), bool)
        self.unknown = 0
        """Queries of the run that the qrels lack."""
        self.duplicates = 0
        """Hits that were dropped because their query had the document already."""

    def rank(self, blocks: Iterable[HitBlock]) -> RankedGrades:
        """Rank all blocks of one run; each query comes once."""
        for block in blocks:
            self._found.append(self._rank_block(block))
        query, rank, first, last, judged = self._columns()
        n_retrieved = self._n_retrieved
        if self._depth is not None:
            depth = min(self._depth, np.iinfo(np.int64).max)  # of arrays: Python's has no end
            n_retrieved = np.minimum(n_retrieved, depth)
            seen = rank <= depth
            query, rank, first, judged = query[seen], rank[seen], first[seen], judged[seen]
            last = np.minimum(last[seen], depth)
        missing = frozenset(np.flatnonzero(~self._seen).tolist())
        order = rank_order(query, rank)
        groups = TieGroups(first[order], last[order])
        ranked = in_rank_order(
            self._qrels, Hits(query, rank, self._qrels.grades[judged]), n_retrieved, missing
        )
        return replace(
            ranked,
            find_ties=lambda: groups,
            averaged=self._ties == "average",
            trec_eval=self._trec_eval,
        )

    def _columns(self) -> tuple[IntArray, ...]:
        """Return the columns of all blocks, one after the other."""
        empty = np.zeros(0, np.int64)
        return tuple(
            np.concatenate([empty, *(getattr(hits, column.name) for hits in self._found)])
            for column in fields(_BlockHits)
        )

    def _rank_block(self, block: HitBlock) -> _BlockHits:
        query = np.repeat(np.arange(len(block.query_ids)), np.diff(block.starts))
        hits = Keyed.of(query, block.documents)
        bits = min(len(hits).bit_length() + 2, _MOST_SLOT_BITS)
        if len(self._slots) < 1 << bits:
            self._slots = np.empty(1 << bits, np.int32)
        suspects = _suspects(hits.keys, self._slots)
        if len(suspects):
            block, kept = _without_duplicates(block, query, suspects)
            self.duplicates += len(hits) - len(kept)
            hits = hits.take(kept)
        codes = np.array([self._index.code(name) for name in block.query_ids], np.int64)
        known = codes[codes >= 0]
        self._n_retrieved[known] = np.diff(block.starts)[codes >= 0]
        self._seen[known] = True
        self.unknown += len(codes) - len(known)

        join = self._index.join(codes, hits)
        scores = as_singles(block.scores) if self._trec_eval == 9 else block.scores
        lists = SortedLists.of(scores, block.starts)
        at = hits.query[join.rows]
        groups = lists.groups_of(join.rows, at, scores[join.rows])
        ids = None if self._ties == "stable" else hits.documents
        place = lists.places(join.rows, groups, ids)
        start = block.starts[at]
        rank, first, last = place - start + 1, groups.first - start + 1, groups.end - start
        return _BlockHits(codes[at], rank, first, last, join.judged)


def _suspects(keys: HashArray, slots: NDArray[np.int32]) -> IntArray:
    """Return all rows that share their key with another; none is by far the usual case."""
    if not _repeats(keys, slots):
        return np.zeros(0, np.int64)
    rows = np.argsort(keys)
    twice = keys[rows[1:]] == keys[rows[:-1]]
    shared = np.concatenate((twice, [False])) | np.concatenate(([False], twice))
    return np.sort(rows[shared])


def _repeats(keys: HashArray, slots: NDArray[np.int32]) -> bool:
    """Whether a key is there twice.

    Every row is written into the slot of its key, and the last one stays. The few others share
    a slot by chance, or because they share the key: either with the one that stayed, or with one
    that lost the slot too, which the next round over the losers finds.
    """
    shift = np.uint64(65 - len(slots).bit_length())
    for _ in range(_MOST_ROUNDS):
        if not len(keys):
            return False
        numbers = np.arange(len(keys), dtype=np.int32)
        slot = (keys >> shift).view(np.int64)
        slots[slot] = numbers
        winner = slots[slot]
        losers = np.flatnonzero(winner != numbers)
        if (keys[losers] == keys[winner[losers]]).any():
            return True
        keys = keys[losers]
    return True  # perhaps: so many ids share a slot that sorting is quicker


def _without_duplicates(
    block: HitBlock, query: IntArray, suspects: IntArray
) -> tuple[HitBlock, IntArray]:
    """Keep each document of a query once, where it came first, at its best score.

    Returns:
        The block, and which of its rows were kept.
    """
    scores, keep = block.scores.copy(), np.ones(len(block), bool)
    first: dict[tuple[int, bytes], int] = {}
    for row, number in zip(suspects.tolist(), query[suspects].tolist(), strict=True):
        before = first.setdefault((number, block.documents[row]), row)
        if before != row:
            keep[row] = False
            scores[before] = max(scores[before], scores[row])
    kept = np.flatnonzero(keep)
    starts = np.concatenate(([0], np.cumsum(keep)))[block.starts]
    return HitBlock(block.query_ids, starts, block.documents.take(kept), scores[kept]), kept
