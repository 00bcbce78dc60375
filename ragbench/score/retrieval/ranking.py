"""Ranking of a run against qrels, once for all measures: order, ties, and the join of both."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, get_args

import numpy as np

from ragbench.errors import OptionError
from ragbench.score.retrieval.base import RankedGrades
from ragbench.score.retrieval.hits import Hits, Keyed, find_hits, join_hits
from ragbench.score.retrieval.judgements import as_qrels, line_up, line_up_rows
from ragbench.score.retrieval.positions import TieGroups
from ragbench.types import IntArray, Qrels, Run
from ragbench.types.byte_ids import keep_freed_memory
from ragbench.types.checks import LARGEST_GRADE, check_ids, has_plain_form, id_bytes
from ragbench.types.rows import HitBlock, Repeats, borders, without_repeats

Ties = Literal["docid", "stable", "average"]
TrecEval = Literal[9, 10]

_FEW_JUDGED = 3000  # with fewer judgements a join has hardly begun to pay
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

    Returns:
        Judged documents that were retrieved, in rank order by query; empty arrays without any.

    Raises:
        OptionError: An unknown rule, or a depth with ties=average.
        DataError: The run or the qrels are malformed: an id is no text, a score no number, a grade
            no integer.

    Example:
        >>> ranked = rank({"q": {"d1": 1, "d2": 3}}, {"q": {"d9": 9.0, "d2": 8.0}})
        >>> ranked.rank, ranked.grades, ranked.judged_grades
        (array([2]), array([3]), array([3, 1]))
    """
    judged = as_qrels(qrels)
    check_ties(ties, trec_eval, depth)
    if not isinstance(run, Run):
        if not has_plain_form(run, "run"):
            check_ids(run, "run")
        # a join of short lists with long judgements takes two thirds of the time of look-ups
        if len(judged) >= max(sum(map(len, run.values())), _FEW_JUDGED):
            run = Run.from_dict(run)
    rules = {"stable": ties == "stable", "singles": trec_eval == 9}
    # for runs that are ranked one after the other: a sixth of the time went into pages that the
    # system clears anew
    keep_freed_memory()
    if isinstance(run, Run):
        n_retrieved, missing, blocks = line_up_rows(run, judged)
        parts = [
            join_hits(block, Keyed.of_block(block), codes, judged, **rules)
            for codes, block in blocks
        ]
    else:
        n_retrieved, missing, lists = line_up(run, judged)
        parts = [find_hits(block, judged, **rules) for block in lists]
    return _in_rank_order(judged, parts, n_retrieved, missing, ties, trec_eval, depth)


def ranked_documents(
    run: Run, *, ties: Ties = "docid", trec_eval: TrecEval = 10
) -> dict[str, list[str]]:
    """Return query id -> documents in rank order, with ties ordered by the rules.

    Queries keep the order of the run; ties=average orders by id.

    Raises:
        OptionError: An unknown rule.

    Example:
        >>> ranked_documents(Run.from_dict({"q": {"d1": 1.0, "d2": 1.0, "d3": 2.0}}))
        {'q': ['d3', 'd2', 'd1']}
    """
    # with every document judged, so that the ranking keeps all of them
    every = Qrels(run.query_ids, run.starts, run.documents, np.zeros(len(run), np.int64))
    ranked = rank(every, run, ties=ties, trec_eval=trec_eval)
    documents = [run.documents[row] for row in ranked.rows.tolist()]
    spans_of = zip(run.query_ids, ranked.starts.tolist(), ranked.starts[1:].tolist(), strict=False)
    return {query: documents[start:end] for query, start, end in spans_of}


def check_ties(ties: str, trec_eval: int, depth: int | None = None) -> None:
    """Raise OptionError for unknown tie rules, or for a depth with ties=average."""
    if ties not in get_args(Ties):
        raise OptionError("rank", "ties", ties, ", ".join(get_args(Ties)))
    if trec_eval not in get_args(TrecEval) or isinstance(trec_eval, bool):
        raise OptionError("rank", "trec_eval", trec_eval, "9 or 10")
    if ties == "average" and depth is not None:
        raise OptionError("rank", "depth", depth, "no depth with ties=average; cut with @k")


def _in_rank_order(
    judged: Qrels,
    parts: Sequence[Hits],
    n_retrieved: IntArray,
    missing: frozenset[int],
    ties: Ties,
    trec_eval: TrecEval,
    depth: int | None,
) -> RankedGrades:
    """Return the hits in rank order, and the judged grades in the ideal order.

    Of `depth` only the first documents of a query count.
    """
    hits = Hits.joined(parts)
    if depth is not None:
        depth = min(depth, np.iinfo(np.int64).max)  # arrays have a largest integer
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
    """Return the grades of each query in falling order.

    Queries keep their order; the input is not changed.
    """
    # sorted as one number: the query, and below it the grade, the largest first
    query = np.repeat(np.arange(len(starts) - 1) << _GRADE_BITS, np.diff(starts))
    ideal: IntArray = np.sort(query + (LARGEST_GRADE - grades))
    return LARGEST_GRADE - (ideal & ((1 << _GRADE_BITS) - 1))


def rank_order(query: IntArray, rank: IntArray) -> IntArray:
    """Return the order by query and then by rank; pairs of both are distinct.

    An array of positions.
    """
    keys = (query << 32) + rank  # one number sorts quicker than two
    return np.argsort(keys, kind="stable")  # quick where most of it is sorted already


class BlockRanker:
    """Ranker of the judged documents of a run, block by block.

    Sparse: unjudged documents are hashed and counted, but not kept. Time grows with the hits,
    memory with the qrels.

    Attributes:
        unknown: Number of queries of the run that the qrels lack.
        duplicates: Number of hits that were dropped since their query had the document already.
    """

    def __init__(
        self,
        qrels: Qrels,
        *,
        ties: Ties = "docid",
        trec_eval: TrecEval = 10,
        depth: int | None = None,
    ) -> None:
        """Index the qrels; `depth` is the number of documents per query that count.

        `ties="stable"` keeps the order of the file.

        Raises:
            OptionError: Unknown tie rules, or a depth with ties=average.
        """
        check_ties(ties, trec_eval, depth)
        self._qrels, self._ties, self._trec_eval, self._depth = qrels, ties, trec_eval, depth
        self._codes = {id_bytes(query): code for code, query in enumerate(qrels.query_ids)}
        self.unknown = 0
        self.duplicates = 0

    def rank(self, blocks: Iterable[HitBlock]) -> RankedGrades:
        """Return the ranking of all blocks of one run; each query is in one block.

        Sets `unknown` and `duplicates`. DataError as reading the blocks raises it.
        """
        return self.rank_parts([blocks], threads=1)

    def rank_parts(self, parts: Iterable[Iterable[HitBlock]], threads: int) -> RankedGrades:
        """Return the ranking of the parts of one run, by threads: NumPy releases the GIL.

        Sets `unknown` and `duplicates`. The first error of a part is raised, and the other threads
        stop at their next block. Each query is in one block.
        """
        self._n_retrieved = np.full(len(self._codes), -1)
        has_ended = False  # after an error or interrupt, the other threads stop at their next block

        def rank_part(part: Iterable[HitBlock]) -> list[tuple[Hits, int, int]]:
            nonlocal has_ended
            repeats, ranked = Repeats(), []
            try:
                for block in part:
                    if has_ended:
                        break
                    ranked.append(self._rank_block(block, repeats))
            except BaseException:
                has_ended = True
                raise
            return ranked

        if threads == 1:
            blocks = [block for part in parts for block in rank_part(part)]
        else:
            # only here: short files need no threads
            from concurrent.futures import ThreadPoolExecutor

            with ThreadPoolExecutor(threads) as pool:
                try:
                    blocks = [block for part in pool.map(rank_part, parts) for block in part]
                finally:
                    has_ended = True
        self.unknown = sum(unknown for _, unknown, _ in blocks)
        self.duplicates = sum(duplicates for *_, duplicates in blocks)
        missing = frozenset(np.flatnonzero(self._n_retrieved < 0).tolist())
        hits, n_retrieved = [hits for hits, *_ in blocks], self._n_retrieved.clip(min=0)
        rules = self._ties, self._trec_eval, self._depth
        return _in_rank_order(self._qrels, hits, n_retrieved, missing, *rules)

    def _rank_block(self, block: HitBlock, repeats: Repeats) -> tuple[Hits, int, int]:
        """Return the judged hits of a block, its queries without qrels, and its dropped hits.

        The last two are numbers.
        """
        hits, duplicates = Keyed.of_block(block), 0
        suspects = repeats.suspects(hits.keys)
        if len(suspects):
            block, rows = without_repeats(block, hits.query, suspects)
            duplicates = len(hits) - len(rows)
            hits = hits.take(rows)
        codes = np.array([self._codes.get(name, -1) for name in block.query_ids], np.int64)
        is_judged = codes >= 0
        # threads write to different rows, since each query is in one block
        self._n_retrieved[codes[is_judged]] = np.diff(block.starts)[is_judged]
        rules = {"stable": self._ties == "stable", "singles": self._trec_eval == 9}
        ranked = join_hits(block, hits, codes, self._qrels, **rules)
        return ranked, int((~is_judged).sum()), duplicates
