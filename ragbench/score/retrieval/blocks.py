"""Ranks a run that comes in blocks of queries, and keeps of each block what measures need."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace

import numpy as np

from ragbench.score.retrieval.base import RankedGrades
from ragbench.score.retrieval.kernel.hits import Hits, JudgedIndex, Keyed
from ragbench.score.retrieval.kernel.positions import SortedLists, TieGroups, as_singles
from ragbench.score.retrieval.ranking import Ties, TrecEval, check_ties, in_rank_order, rank_order
from ragbench.types import IntArray, Qrels
from ragbench.types.hit_block import HitBlock, Repeats, without_repeats


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

        Ties that are `stable` keep the order of the file; `depth` is how many retrieved documents
        of a query are looked at.
        """
        check_ties(ties, trec_eval, depth)
        self._qrels, self._index = qrels, JudgedIndex(qrels)
        self._ties, self._trec_eval, self._depth = ties, trec_eval, depth
        self._repeats = Repeats()
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
        suspects = self._repeats.suspects(hits.keys)
        if len(suspects):
            block, kept = without_repeats(block, query, suspects)
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
