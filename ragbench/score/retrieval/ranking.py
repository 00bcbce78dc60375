"""Ranks a run against qrels, once for all measures: order, ties, and the join of the two."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import copy
from typing import Literal, get_args

import numpy as np

from ragbench.errors import OptionError
from ragbench.score.retrieval.base import RankedGrades
from ragbench.score.retrieval.hits import Hits, JudgedIndex, Keyed, find_hits
from ragbench.score.retrieval.judgements import as_qrels, line_up
from ragbench.score.retrieval.positions import SortedLists, TieGroups, as_singles
from ragbench.types import IntArray, Qrels, Run
from ragbench.types.checks import LARGEST_GRADE
from ragbench.types.rows import HitBlock, Repeats, borders, without_repeats

Ties = Literal["docid", "stable", "average"]
TrecEval = Literal[9, 10]

_FEW_GRADES = 20
_GRADE_BITS = 33  # hold LARGEST_GRADE minus any grade


def rank(
    qrels: Qrels | Mapping[str, Mapping[str, int]],
    run: Run | Mapping[str, Mapping[str, float]],
    *,
    ties: Ties = "docid",
    trec_eval: TrecEval = 10,
    depth: int | None = None,
) -> RankedGrades:
    """Find the rank of every judged document that a run retrieved.

    The queries are those of the qrels, in their order. One that the run lacks is empty and listed
    in `missing`; one without qrels is not looked at. Sorting is skipped where scores fall already.

    Args:
        qrels: {query id: {document id: grade}}, or `Qrels`.
        run: {query id: {document id: score}}, or `Run`; the scores count, higher is better.
        ties: How equal scores are ordered: `docid` (descending, as bytes: trec_eval's rule),
            `stable` (as listed), or `average`: measures give their expectation over all orders.
        trec_eval: 10 compares scores as doubles; 9 as 32-bit floats, so that it sees more ties.
        depth: Look at the first so many retrieved documents of a query only; None at all.

    Example:
        >>> ranked = rank({"q": {"d1": 1, "d2": 3}}, {"q": {"d9": 9.0, "d2": 8.0}})
        >>> ranked.rank, ranked.grades, ranked.judged_grades
        (array([2]), array([3]), array([3, 1]))
    """
    judged = as_qrels(qrels)
    check_ties(ties, trec_eval, depth)
    lines = line_up(run, judged)
    rules = {"stable": ties == "stable", "singles": trec_eval == 9}
    parts = [
        find_hits(lines.read(first, end), judged, first, **rules)
        for first, end in lines.blocks(judged)
    ]
    hits, n_retrieved = Hits.joined(parts), np.diff(lines.starts)
    return _in_rank_order(judged, hits, n_retrieved, lines.missing, ties, trec_eval, depth)


def ranked_documents(
    run: Run, *, ties: Ties = "docid", trec_eval: TrecEval = 10
) -> dict[str, list[str]]:
    """Return query id -> its documents in the order that the rules give.

    Example:
        >>> ranked_documents(Run.from_dict({"q": {"d1": 1.0, "d2": 1.0, "d3": 2.0}}))
        {'q': ['d3', 'd2', 'd1']}
    """
    # as if every document were judged
    every = Qrels(run.query_ids, run.starts, run.documents, np.zeros(len(run), np.int64))
    ranked = rank(every, run, ties=ties, trec_eval=trec_eval)
    documents = [run.documents[row] for row in ranked.rows.tolist()]
    spans_of = zip(run.query_ids, ranked.starts.tolist(), ranked.starts[1:].tolist(), strict=False)
    return {query: documents[start:end] for query, start, end in spans_of}


def check_ties(ties: str, trec_eval: int, depth: int | None = None) -> None:
    """Refuse tie rules that do not exist, and a depth that would cut through an average."""
    if ties not in get_args(Ties):
        raise OptionError("rank", "ties", ties, ", ".join(get_args(Ties)))
    if trec_eval not in get_args(TrecEval) or isinstance(trec_eval, bool):
        raise OptionError("rank", "trec_eval", trec_eval, "9 or 10")
    if ties == "average" and depth is not None:
        raise OptionError("rank", "depth", depth, "no depth with ties=average; cut with @k")


def _in_rank_order(
    judged: Qrels,
    hits: Hits,
    n_retrieved: IntArray,
    missing: frozenset[int],
    ties: Ties,
    trec_eval: TrecEval,
    depth: int | None,
) -> RankedGrades:
    """Put the hits into rank order and the judged grades into the ideal one."""
    if depth is not None:
        depth = min(depth, np.iinfo(np.int64).max)  # of arrays: Python's has no end
        hits, n_retrieved = hits.down_to(depth), np.minimum(n_retrieved, depth)
    order = rank_order(hits.query, hits.rank)
    query, rows = hits.query[order], hits.judged[order]
    n = len(judged.starts) - 1
    return RankedGrades(
        query_ids=judged.query_ids,
        query=query,
        rank=hits.rank[order],
        grades=judged.grades[rows],
        starts=borders(np.bincount(query, minlength=n).tolist(), n),
        n_retrieved=n_retrieved,
        judged_grades=ideal_order(judged.grades, judged.starts),
        judged_starts=judged.starts,
        ties=TieGroups(hits.first[order], hits.last[order]),
        missing=missing,
        averaged=ties == "average",
        trec_eval=trec_eval,
        rows=rows,
    )


def ideal_order(grades: IntArray, starts: IntArray) -> IntArray:
    """Sort the grades of each query, the best first."""
    best, lowest = int(grades.max(initial=0)), int(grades.min(initial=0))
    n, n_grades = len(starts) - 1, best - lowest + 1
    if n_grades <= _FEW_GRADES:  # counting them is several times as quick as sorting them
        number = np.repeat(np.arange(n, dtype=np.int64) * n_grades + best, np.diff(starts))
        counts = np.bincount(number - grades, minlength=n * n_grades)
        return np.tile(np.arange(best, lowest - 1, -1, dtype=np.int64), n).repeat(counts)
    # sorted as one number: the query, and below it the grade, the largest first
    query = np.repeat(np.arange(n, dtype=np.int64) << _GRADE_BITS, np.diff(starts))
    ideal: IntArray = np.sort(query + (LARGEST_GRADE - grades))
    return LARGEST_GRADE - (ideal & ((1 << _GRADE_BITS) - 1))


def rank_order(query: IntArray, rank: IntArray) -> IntArray:
    """Return the order that sorts by query and then by rank; no pair of them is there twice."""
    keys = (query << 32) + rank  # one number sorts quicker than two
    return np.argsort(keys, kind="stable")  # quick where most of it is sorted already


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
        self._start()

    def _start(self) -> None:
        self._repeats = Repeats()
        self._found: list[Hits] = []
        self._n_retrieved = np.zeros(len(self._qrels.query_ids), np.int64)
        self._seen = np.zeros(len(self._qrels.query_ids), bool)
        self.unknown = 0
        """Queries of the run that the qrels lack."""
        self.duplicates = 0
        """Hits that were dropped because their query had the document already."""

    def rank(self, blocks: Iterable[HitBlock]) -> RankedGrades:
        """Rank all blocks of one run; each query comes once."""
        self._start()
        self._found = [self._rank_block(block) for block in blocks]
        return self._ranked()

    def rank_parts(self, parts: Iterable[Iterable[HitBlock]], threads: int) -> RankedGrades:
        """Rank the parts of one run by several threads: NumPy lets the others work meanwhile."""
        # only here: short files need no threads
        from concurrent.futures import ThreadPoolExecutor

        self._start()
        ended = False  # by an error or an interrupt: no part need be read to its end

        def ranked(part: Iterable[HitBlock]) -> BlockRanker:
            nonlocal ended
            own = copy(self)
            own._start()
            try:
                for block in part:
                    if ended:
                        break
                    own._found.append(own._rank_block(block))
            except BaseException:
                ended = True
                raise
            return own

        with ThreadPoolExecutor(threads) as pool:
            try:
                for own in pool.map(ranked, parts):
                    self._found += own._found
                    self._n_retrieved += own._n_retrieved
                    self._seen |= own._seen
                    self.unknown += own.unknown
                    self.duplicates += own.duplicates
            finally:
                ended = True
        return self._ranked()

    def _ranked(self) -> RankedGrades:
        return _in_rank_order(
            self._qrels,
            Hits.joined(self._found),
            self._n_retrieved,
            frozenset(np.flatnonzero(~self._seen).tolist()),
            self._ties,
            self._trec_eval,
            self._depth,
        )

    def _rank_block(self, block: HitBlock) -> Hits:
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
        return Hits.at(place, groups, block.starts[at], codes[at], join.judged)
