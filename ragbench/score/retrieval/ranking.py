"""Ranking of a run against qrels, once for all measures: order, ties, and the join of both.

Hits of files and columns are joined with the qrels by the hashes of their ids, then by their bytes.
In dictionaries the judged ids are looked up instead, which hashes no unjudged id and is 1.9 times
as fast.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import chain
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ragbench.score.retrieval.base import RankedGrades
from ragbench.score.retrieval.judgements import LookedUp, as_qrels, line_up, line_up_rows
from ragbench.score.retrieval.positions import (
    Groups,
    SortedLists,
    TiedMembers,
    TieGroups,
    as_singles,
)
from ragbench.types import IntArray, Qrels, Run
from ragbench.types.byte_ids import ByteIds, HashArray, keep_freed_memory, query_keys, spans
from ragbench.types.checks import LARGEST_GRADE, has_plain_form, id_bytes, with_text_ids
from ragbench.types.lookups import take_items
from ragbench.types.rows import HitBlock, borders, repeated_rows, without_repeats
from ragbench.types.score_order import NO_STEPS, ScoreSteps

_FEWEST_BITS = 18  # of the filter of rows: 256 KiB fit into a cache of a core
_MOST_BITS = 24
_LOWER = (1 << 32) - 1
_MANY = 4  # hits per judgement from which the filter saves more than it costs


@dataclass(frozen=True, eq=False)
class Keyed:
    """Documents of several queries with nearly unique hash keys.

    `of` and `of_block` create it. Different documents may have equal keys, so `join` compares ids
    too.

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

        `query` and `hashes` have an entry per document, in their order.
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
        """Return the given rows, in their order.

        Numbers count from 0. Raises IndexError for one that is too large.
        """
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
    """Return the pairs of rows with equal upper bits of the key; None if three rows share them."""
    # Hits are first in a pair. Equal bits may be those of different ids.
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
    """Join hits and judgements by comparing ids: for the rare block with equal hashes."""
    table = {(query, judged.documents[row]): row for row, query in enumerate(judged.query.tolist())}
    places = enumerate(hits.query.tolist())
    judgements = [table.get((query, hits.documents[row]), -1) for row, query in places]
    columns = np.array(judgements, np.int64)
    rows = np.flatnonzero(columns >= 0)
    return rows, columns[rows]


def _possible(keys: HashArray, gold_keys: HashArray) -> IntArray:
    """Return the rows whose key may be judged, a superset, by a filter on the upper bits."""
    bits = min(max(_FEWEST_BITS, len(gold_keys).bit_length() + 3), _MOST_BITS)
    shift = np.uint64(64 - bits)
    marked: NDArray[np.bool_] = np.zeros(1 << bits, bool)
    marked[(gold_keys >> shift).view(np.int64)] = True
    return np.flatnonzero(marked[(keys >> shift).view(np.int64)])


@dataclass(frozen=True, eq=False)
class Hits:
    """Judged documents that were retrieved, in any order.

    `find_hits` and `join_hits` create them. Rows and queries count from 0, ranks from 1.

    Attributes:
        query: Row -> position of its query in the qrels.
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

        `starts` is the place at which the list of each hit starts, `groups` the places of its tie
        group. Ranks count from 1; `query` and `judged` stay as they are.
        """
        offset = starts - 1
        return cls(query, places - offset, groups.first - offset, groups.end - starts, judged)

    @classmethod
    def joined(cls, parts: Sequence[Hits]) -> Hits:
        """Return the concatenated hits of all parts."""
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
    their ids. `singles` compares scores as 32-bit floats. `judged` are all qrels, of which `lists`
    may be a part. Rows are in the order of the judgements; empty if nothing judged was retrieved.
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
        number = np.searchsorted(lists.starts, members.rows, side="right") - 1
        offsets = members.rows - lists.starts[number]
        places = zip(number.tolist(), offsets.tolist(), strict=True)
        texts = [lists.documents[query_number][offset] for query_number, offset in places]
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
    Values of `ties`, `trec_eval` and `depth` are not checked here: `score_run` checks them.

    Args:
        qrels: {query id: {document id: grade}}, or `Qrels`.
        run: {query id: {document id: score}}, or `Run`; the scores count, higher is better.
        ties: Order of equal scores: `docid` (descending, as bytes: trec_eval's rule),
            `stable` (as listed), or `average`: measures give their expectation over all orders.
        trec_eval: 10 compares scores as doubles; 9 as 32-bit floats, so that it sees more ties.
        depth: Number of retrieved documents of a query that count; None: all.

    Returns:
        Judged documents that were retrieved, in rank order by query; empty arrays without any.

    Raises:
        DataError: The run or the qrels are malformed: an id is no text, a score no number, a grade
            no integer or too large.

    Example:
        >>> ranked = rank({"q": {"d1": 1, "d2": 3}}, {"q": {"d9": 9.0, "d2": 8.0}})
        >>> ranked.rank, ranked.grades, ranked.judged_grades
        (array([2]), array([3]), array([3, 1]))
    """
    judged = as_qrels(qrels)
    if not isinstance(run, Run):
        if not has_plain_form(run, "run"):
            run = with_text_ids(run, "run")
        # a join of short lists with long judgements takes two thirds of the time of look-ups
        if len(judged) >= max(sum(map(len, run.values())), _FEW_JUDGED):
            run = Run.from_dict(run)
    rules = {"stable": ties == "stable", "singles": trec_eval == 9}
    # for runs that are ranked one after the other: a sixth of the time went into pages that the
    # system clears anew
    keep_freed_memory()
    if isinstance(run, Run):
        n_retrieved, missing, blocks = line_up_rows(run, judged)
        parts = []
        for codes, block in blocks:
            parts.append(join_hits(block, Keyed.of_block(block), codes, judged, **rules))
    else:
        n_retrieved, missing, lists = line_up(run, judged)
        parts = [find_hits(block, judged, **rules) for block in lists]
    return _in_rank_order(judged, parts, n_retrieved, missing, ties, trec_eval, depth)


def ranked_documents(
    run: Run, *, ties: Ties = "docid", trec_eval: TrecEval = 10
) -> dict[str, list[str]]:
    """Return query id -> documents in rank order, with ties ordered by the rules.

    Queries keep the order of the run; ties=average orders by id, as docid does. `trec_eval` is that
    of `rank`.

    Example:
        >>> ranked_documents(Run.from_dict({"q": {"d1": 1.0, "d2": 1.0, "d3": 2.0}}))
        {'q': ['d3', 'd2', 'd1']}
    """
    # with every document judged, so that the ranking keeps all of them
    every = Qrels(run.query_ids, run.starts, run.documents, np.zeros(len(run), np.int64))
    ranked = rank(every, run, ties=ties, trec_eval=trec_eval)
    # packed ids are decoded together: one by one takes ten times as long
    documents = take_items(run.documents[:], ranked.rows.tolist())
    spans_of = zip(run.query_ids, ranked.starts.tolist(), ranked.starts[1:].tolist(), strict=False)
    return {query: documents[start:end] for query, start, end in spans_of}


def _in_rank_order(
    judged: Qrels,
    parts: Sequence[Hits],
    n_retrieved: IntArray,
    missing: frozenset[int],
    ties: Ties,
    trec_eval: TrecEval,
    depth: int | None,
) -> RankedGrades:
    """Return the hits in rank order, and the judged grades in the ideal order."""
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

    Queries keep their order; the input is not changed. `starts` has shape (n + 1,): where the
    grades of each query start.
    """
    # sorted as one number: the query, and below it the grade, the largest first
    query = np.repeat(np.arange(len(starts) - 1) << _GRADE_BITS, np.diff(starts))
    ideal: IntArray = np.sort(query + (LARGEST_GRADE - grades))
    return LARGEST_GRADE - (ideal & ((1 << _GRADE_BITS) - 1))


def rank_order(query: IntArray, rank: IntArray) -> IntArray:
    """Return the order by query and then by rank; pairs of both are distinct."""
    keys = (query << 32) + rank  # one number sorts quicker than two
    return np.argsort(keys, kind="stable")  # quick where most of it is sorted already


class BlockRanker:
    """Ranker of the judged documents of a run, block by block.

    Sparse: unjudged documents are hashed and counted, but not kept. Time grows with the hits,
    memory with the qrels. `rank` reads one run and returns its `RankedGrades`, with every query of
    the qrels; a ranker may rank several runs, one after the other. Errors of reading the blocks
    pass through. The counts are 0 before the first ranking.

    Attributes:
        unknown: Number of queries of the run that the qrels lack.
        duplicates: Number of hits that were dropped since their query had the document already.
        steps: Steps between the scores of neighbouring hits, in the order of the file.
    """

    def __init__(
        self,
        qrels: Qrels,
        *,
        ties: Ties = "docid",
        trec_eval: TrecEval = 10,
        depth: int | None = None,
    ) -> None:
        """Index the qrels; `depth` is the number of documents a query that count, None all.

        `ties="stable"` keeps the order of the file.
        """
        self._qrels, self._ties, self._trec_eval, self._depth = qrels, ties, trec_eval, depth
        self._codes = {id_bytes(query): code for code, query in enumerate(qrels.query_ids)}
        self.unknown = 0
        self.duplicates = 0
        self.steps = NO_STEPS

    def rank(self, blocks: Iterable[HitBlock]) -> RankedGrades:
        """Return the ranking of all blocks of one run; each query is in one block."""
        return self.rank_parts([blocks], threads=1)

    def rank_parts(self, parts: Iterable[Iterable[HitBlock]], threads: int) -> RankedGrades:
        """Return the ranking of the parts of one run, by threads: NumPy releases the GIL.

        The call sets `unknown`, `duplicates` and `steps`. The first error of a part is raised, and
        no further part is begun. Each query is in one block.
        """
        self._n_retrieved = np.full(len(self._codes), -1)

        def rank_part(part: Iterable[HitBlock]) -> list[tuple[Hits, int, int, ScoreSteps]]:
            return [self._rank_block(block) for block in part]

        if threads == 1:
            blocks = list(chain.from_iterable(map(rank_part, parts)))
        else:
            # only here: short files need no threads
            from concurrent.futures import ThreadPoolExecutor

            with ThreadPoolExecutor(threads) as pool:
                # after an error or interrupt, `map` begins no further part
                blocks = list(chain.from_iterable(pool.map(rank_part, parts)))
        self.unknown = sum(unknown for _, unknown, *_ in blocks)
        self.duplicates = sum(duplicates for *_, duplicates, _ in blocks)
        self.steps = ScoreSteps.total(steps for *_, steps in blocks)
        missing = frozenset(np.flatnonzero(self._n_retrieved < 0).tolist())
        hits, n_retrieved = [hits for hits, *_ in blocks], self._n_retrieved.clip(min=0)
        rules = self._ties, self._trec_eval, self._depth
        return _in_rank_order(self._qrels, hits, n_retrieved, missing, *rules)

    def _rank_block(self, block: HitBlock) -> tuple[Hits, int, int, ScoreSteps]:
        """Return the judged hits of a block, its queries without qrels, and its dropped hits."""
        hits, duplicates = Keyed.of_block(block), 0
        steps = ScoreSteps.of(block.scores, block.starts)
        suspects = repeated_rows(hits.keys)
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
        return ranked, int((~is_judged).sum()), duplicates, steps
