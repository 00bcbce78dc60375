"""Gold that a reader gets from stored rankings, and from fusions of them, by question."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ragbench.fixes.fusion_table import FusionSetting, FusionTable, RankedRows
from ragbench.records.manifest import HitsRow
from ragbench.score.retrieval.ranking import Ties, TrecEval, rank
from ragbench.types import IntArray, Qrels, Run
from ragbench.types.byte_ids import spans
from ragbench.types.lookups import index_positions, take_items
from ragbench.types.rows import BoolArray, borders

NEVER = int(np.iinfo(np.int64).max)  # depth of gold that is not ranked
_QUERIES = 512  # of a table


class StoredRankings:
    """Ranks at which stored rankings meet the gold of queries.

    Results have a value per query of `gold`, in its order; a query that a ranking lacks has no hits
    there. Methods raise KeyError for an unknown ranking.

    Attributes:
        gold: Relevant documents of the queries; a query may have none.
        needs_all: True if an answer needs all of its gold, False if any of it suffices.
        runs: Rankings by name, each query best first.
        hits: Ranking -> query -> its stored hits, where hits are passages or gold is no whole
            document: they tell which gold is met. Absent for other rankings.
        doubts: Ranking -> first rank of each query at which a hit may have gold that is not known
            to be met: 0 for a query without gold for this ranking, `NEVER` if all is known.
    """

    def __init__(
        self,
        gold: Qrels,
        runs: Mapping[str, Run],
        *,
        needs_all: bool = False,
        ties: Ties = "docid",
        trec_eval: TrecEval = 10,
        failures: Mapping[str, BoolArray] | None = None,
        hits: Mapping[str, Mapping[str, HitsRow]] | None = None,
        doubts: Mapping[str, IntArray] | None = None,
    ) -> None:
        """Find the ranks of the gold by the rules of a run.

        Args:
            gold: Relevant documents alone; grades have no effect.
            runs: Rankings by name.
            needs_all: True if an answer needs all of its gold.
            ties: Order of equal scores; `average` orders by id.
            trec_eval: 9 compares scores as 32-bit floats.
            failures: Ranking -> whether it failed, for each query; a fusion with it fails as well.
            hits: Stored hits of rankings that have them; a query without a row has no gold.
            doubts: Ranks from which gold is not known; all is known in rankings without them.
        """
        self.gold, self.needs_all = gold, needs_all
        certain = np.full(len(gold.query_ids), NEVER)
        self.hits = hits or {}
        self.doubts = dict.fromkeys(runs, certain) | dict(doubts or {})
        self.runs = {name: run.best_first() for name, run in runs.items()}
        self._is_single, self._failures = trec_eval == 9, failures or {}
        self._query = np.repeat(np.arange(len(gold.query_ids)), np.diff(gold.starts))
        self._ranks, self._rows = dict[str, IntArray](), dict[str, tuple[IntArray, IntArray]]()
        for name, run in self.runs.items():
            ranked = rank(
                gold, run, ties="docid" if ties == "average" else ties, trec_eval=trec_eval
            )
            self._ranks[name] = np.zeros(len(gold), np.int64)
            self._ranks[name][ranked.rows] = ranked.rank
            # a query that the run lacks has no rows
            ends = np.append(run.starts, run.starts[-1])
            n = len(run.query_ids)
            places = np.array([run.query_index.get(q, n) for q in gold.query_ids], np.int64)
            self._rows[name] = ends[places], ends[places + 1]
        # many changes read the depths of one ranking
        self._depths = {name: self.document_depths(name) for name in runs}
        for name in self.hits:
            ranks_of_gold = [row.gold_rank or NEVER for row in self._rows_of(name)]
            self._depths[name] = np.array(ranks_of_gold, np.int64)
        self._hashes = {name: run.document_ids.hashes() for name, run in self.runs.items()}

    def n_hits(self, name: str) -> IntArray:
        """Return the number of stored hits of each query: of passages, if hits are passages."""
        if name in self.hits:
            return np.array([len(row.hits) for row in self._rows_of(name)], np.int64)
        starts, ends = self._rows[name]
        return ends - starts

    def depths(self, name: str) -> IntArray:
        """Return the number of first hits of each query with which its gold is read.

        This is the rank, from 1, of the first hit that has gold, or down to which hits have all of
        it if all is needed; `NEVER` if the gold is not met.
        """
        return self._depths[name]

    def document_depths(self, name: str) -> IntArray:
        """Return the depths of the gold documents in a ranking, whatever its passages have."""
        ranks = self._ranks[name]
        reduce = np.maximum if self.needs_all else np.minimum
        return self._by_query(reduce, np.where(ranks > 0, ranks, NEVER), NEVER)

    def is_clear(self, name: str, k: int) -> BoolArray:
        """Return True for each query of which the first k hits tell whether its gold is read."""
        certain: BoolArray = (self.depths(name) <= k) | (k < self.doubts[name])
        return certain

    def _rows_of(self, name: str) -> Iterator[HitsRow]:
        """Yield the stored hits of each query; of a query without a row, one without gold."""
        rows = self.hits[name]
        return (rows.get(query) or HitsRow(query_id=query) for query in self.gold.query_ids)

    def passages(self, name: str, query: str) -> Iterator[tuple[str, Set[str]]]:
        """Yield (id, names of its gold) of the first hits of a query, best first.

        These are all hits of a ranking of documents, and of other rankings those that are stored
        without a gap.
        """
        if name not in self.hits:
            run, gold = self.runs[name], self.gold.by_query[query].keys()
            row = run.query_index.get(query)
            rows = slice(0) if row is None else slice(run.starts[row], run.starts[row + 1])
            for document in run.documents[rows]:
                yield (document, {document} & gold)
        elif query in self.hits[name]:
            for rank, hit in enumerate(self.hits[name][query].hits, start=1):
                if hit.rank != rank:
                    return
                yield hit.id, {*hit.gold}

    def is_met(self, name: str, query: str, gold: Set[str]) -> bool:
        """Return True if some names of gold are those that a query needs; False without gold."""
        needs: Set[str] = self.gold.by_query[query].keys()
        if name in self.hits:
            needs = {*self.hits[name][query].needs} if query in self.hits[name] else set()
        return bool(needs) and (needs <= gold if self.needs_all else not needs.isdisjoint(gold))

    def perfect(self, name: str, depth: int, k: int) -> BoolArray | None:
        """Return True for each query whose gold a perfect reranker brings into the first k ranks.

        It reorders the first `depth` hits. False where all gold is needed, and more than k hits for
        it. The result is None if stored hits do not tell how many: a passage may have several gold
        spans.
        """
        is_deep: BoolArray = self.depths(name) <= depth
        if not self.needs_all:
            return is_deep
        n_needs = np.diff(self.gold.starts)
        if name in self.hits:
            rows, gold = [*self._rows_of(name)], self.gold.by_query
            n_needs = np.array([len(row.needs) for row in rows], np.int64)
            # a passage is of one document, and so meets one of several whole documents
            is_span = []
            for row in rows:
                is_span.append(not gold[row.query_id].keys() >= {*row.needs})
            if np.any(is_deep & (n_needs > k) & np.array(is_span, bool)):
                return None
        # no order of the hits fits more than k of them into k places
        return is_deep & (n_needs <= k)

    def fused_hits(self, settings: Sequence[FusionSetting], k: int) -> BoolArray:
        """Return True where the first k documents of a fusion have the gold of a query.

        The result has the shape (settings, queries). The result equals that of `type: fusion` over
        these rankings. A query without ranked gold is not clear, nor is one on which a ranking
        failed.
        """
        hits = np.zeros((len(settings), len(self.gold.query_ids)), bool)
        groups: dict[tuple[str, ...], list[int]] = {}
        for number, setting in enumerate(settings):
            groups.setdefault(setting.sources, []).append(number)
        places = index_positions(self.runs)
        reach = np.zeros((len(places), hits.shape[1]), np.int64)
        is_open = np.zeros_like(hits)
        for sources, group in groups.items():
            is_ranked, rivals = self._rivals(sources)
            # a document is counted once for each ranking that has it above
            # Such a query is right in every fusion of these sources, whatever the weights: it needs
            # no table of documents.
            hits[group] = is_ranked & (rivals.sum(axis=0) < k)
            is_open[group] = is_ranked & ~hits[group[0]]
            for source, depths in zip(sources, rivals * is_open[group[0]], strict=True):
                np.maximum(reach[places[source]], depths, out=reach[places[source]])
        queries = np.flatnonzero(is_open.any(axis=0))
        # Blocks bound the memory, and their tables stay in the caches of a core.
        for block in np.split(queries, np.arange(_QUERIES, len(queries), _QUERIES)):
            if len(block):
                table = self._table(block, reach[:, block])
                for row, setting in enumerate(settings):
                    hits[row, block] |= table.reads_gold(setting, k, is_open[row, block])
        return hits

    def _rivals(self, sources: Sequence[str]) -> tuple[BoolArray, IntArray]:
        """Return (True where a fusion ranks the gold of a query, hits that may get above it)."""
        # A document gets above a gold document only if it is above it in a ranking, or in a ranking
        # without it. Of several gold documents, the one with the fewest such hits counts.
        ranks = np.stack(take_items(self._ranks, sources))
        lengths = np.stack([end - first for first, end in map(self._rows.__getitem__, sources)])
        # A ranking without the gold adds 0 to it, so that each of its hits may get above.
        above = np.where(ranks > 0, ranks - 1, lengths[:, self._query])
        is_stored: BoolArray = np.any(ranks > 0, axis=0)
        reduce = np.logical_and if self.needs_all else np.logical_or
        is_ranked = self._by_query(reduce, is_stored, False)
        for source in sources:
            if source in self._failures:
                is_ranked &= ~self._failures[source]
        if self.needs_all:
            return is_ranked, np.stack([self._by_query(np.maximum, row, 0) for row in above])
        # the row in the lowest digits: the minimum names it
        n = max(len(self.gold), 1)
        total = np.where(is_stored, above.sum(axis=0), NEVER // n - 1)
        best = self._by_query(np.minimum, total * n + np.arange(len(self.gold)), 0) % n
        return is_ranked, above[:, best] if len(self.gold) else np.zeros((len(ranks), 0), np.int64)

    def _by_query(self, reduce: np.ufunc, values: NDArray[Any], empty: object) -> NDArray[Any]:
        """Return the values of gold documents, reduced to one per query; `empty` without gold."""
        result = np.full(len(self.gold.query_ids), empty, values.dtype)
        # `reduceat` gives a query without gold the first value of the next query instead of no
        # value.
        judged = np.flatnonzero(np.diff(self.gold.starts))
        if len(judged):
            result[judged] = reduce.reduceat(values, self.gold.starts[judged])
        return result

    def _table(self, queries: IntArray, reach: IntArray) -> FusionTable:
        """Return the parts of the gold of some queries and of the first `reach` hits."""
        rankings = {}
        for name, run in self.runs.items():
            first, end = (edge[queries] for edge in self._rows[name])
            rows = spans(first, end)
            rankings[name] = RankedRows(
                starts=borders(end - first, len(queries)),
                scores=run.scores[rows],
                hashes=self._hashes[name][rows],
                documents=run.document_ids,
                places=rows,
            )
        first, end = self.gold.starts[queries], self.gold.starts[queries + 1]
        rows = spans(first, end)
        gold = RankedRows(
            starts=borders(end - first, len(queries)),
            scores=np.zeros(0),
            hashes=self.gold.document_hashes[rows],
            documents=self.gold.document_ids,
            places=rows,
        )
        return FusionTable(
            rankings, gold, reach, needs_all=self.needs_all, is_single=self._is_single
        )
