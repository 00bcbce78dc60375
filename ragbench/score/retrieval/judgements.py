"""Qrels for rankings, and the lists of a run in the order of the qrels, block by block."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain, repeat
from struct import pack_into

import numpy as np

from ragbench.types import FloatArray, IntArray, Qrels, Run
from ragbench.types.byte_ids import ByteIds, spans
from ragbench.types.checks import LARGEST_GRADE, all_text, with_text_ids
from ragbench.types.rows import NUMBER_ERRORS, HitBlock, borders, score_column


def as_qrels(qrels: Qrels | Mapping[str, Mapping[str, int]]) -> Qrels:
    """Return qrels as `Qrels`; valid dictionaries are shared, so that callers must not change them.

    The grade 1.0 counts as 1; True is no grade.

    Raises:
        DataError: `qrels` are no mapping of mappings, an id is no text, or a grade is no integer or
            too large.
    """
    if isinstance(qrels, Qrels):
        return qrels
    if isinstance(qrels, dict) and {*map(type, qrels.values())} <= {dict} and all_text([qrels]):
        starts = borders(map(len, qrels.values()), len(qrels))
        grades = _small_integers(qrels, int(starts[-1]))
        if grades is not None:
            documents = [*chain.from_iterable(qrels.values())]
            with suppress(TypeError):  # an id that is not text
                cached = {"document_ids": ByteIds.of(documents), "by_query": qrels}
                columns = Qrels(tuple(qrels), starts, documents, grades)
                vars(columns).update(cached)  # what its cached properties would make anew
                return columns
    return Qrels.from_dict(qrels)


def _small_integers(qrels: dict[str, dict[str, int]], n: int) -> IntArray | None:
    """Return the n grades of all queries, concatenated; None if one is no int of 32 bits."""
    values: list[int] = [*chain.from_iterable(map(dict.values, qrels.values()))]
    if {*map(type, values)} <= {int}:  # the exact type: True is an int, and no grade
        with suppress(OverflowError):
            grades = np.fromiter(values, np.int64, n)
            if (np.abs(grades) <= LARGEST_GRADE).all():
                return grades
    return None


# Query -> document -> score.
Scores = Mapping[str, Mapping[str, float]]

_NOTHING: dict[str, float] = {}
_BLOCK_ROWS = 1 << 17  # hits and judgements at a time: their columns stay in the caches


@dataclass(frozen=True, eq=False)
class LookedUp:
    """Lists of some queries in the order of the qrels, with the scores of judged documents.

    `line_up` creates them, block by block.

    Attributes:
        first: Position of the first query in the qrels.
        starts: Shape (n + 1,): first score of each query.
        scores: Scores of all queries, concatenated in input order.
        documents: Ids of the documents of each query, in the order of the scores.
        judged: Ids of the judged documents of all queries, concatenated.
        judged_scores: Score of each judged document; NaN if it was not retrieved.
    """

    first: int
    starts: IntArray
    scores: FloatArray
    documents: list[list[str]]
    judged: list[str]
    judged_scores: FloatArray


def line_up(run: Scores, judged: Qrels) -> tuple[IntArray, frozenset[int], Iterator[LookedUp]]:
    """Return the lists of a run in the order of the judged queries.

    Returns the number of retrieved documents per judged query, the positions of the queries that
    the run lacks, and blocks of lists, which can be read once. Time grows with the retrieved and
    judged documents. The number of documents has shape (n,), positions count from 0.

    Raises:
        DataError: An id or a score is wrong; those of judged queries are checked when their block
            is read.
    """
    # judged ids are looked up block by block, while the dictionaries are in the processor's cache
    tables = [*map(run.get, judged.query_ids, repeat(_NOTHING))]
    missing = frozenset(i for i, table in enumerate(tables) if table is _NOTHING)
    if len(run) > len(tables) - len(missing):
        unjudged = run.keys() - {*judged.query_ids}
        if not all_text(run[query_id] for query_id in unjudged):
            with_text_ids(run, "run")
    starts = borders(map(len, tables), len(tables))

    def blocks() -> Iterator[LookedUp]:
        """Yield the graded hits of each block of queries."""
        grades = [*judged.by_query.values()]
        for first, end in _blocks(starts + judged.starts):
            try:
                lists = _look_up(first, tables[first:end], grades[first:end])
            except NUMBER_ERRORS:
                # these two raise an error with the place: first of a score, then of an id
                rankings = dict(zip(judged.query_ids, tables, strict=True))
                score_column(rankings, int(starts[-1]))
                texts = [*with_text_ids(rankings, "run").values()]
                lists = _look_up(first, texts[first:end], grades[first:end])
            yield lists

    return np.diff(starts), missing, blocks()


def _look_up(
    first: int, tables: list[Mapping[str, float]], judged: list[Mapping[str, int]]
) -> LookedUp:
    """Return scores, ids and scores of judged ids of some queries, reading each table once."""
    starts = borders(map(len, tables), len(tables))
    scores = np.empty(int(starts[-1]), np.float64)
    target = memoryview(scores)  # type: ignore[arg-type]  # an array is a buffer since Python 3.12
    documents: list[list[str]] = []
    judged_scores: list[float] = []
    absent = repeat(np.nan)
    for table, ids, start in zip(tables, judged, starts.tolist(), strict=False):
        # packed in C: checks that scores are numbers, without an array per query
        pack_into(f"{len(table)}d", target, 8 * start, *table.values())
        names = [*table]
        "".join(names)  # raises TypeError for an id that is no text, faster than a check of each
        documents.append(names)
        judged_scores += map(table.get, ids, absent)
    if np.isnan(scores).any():  # NaN marks judged documents that were not retrieved
        raise ValueError("NaN")
    column = np.fromiter(judged_scores, np.float64, len(judged_scores))
    return LookedUp(first, starts, scores, documents, [*chain.from_iterable(judged)], column)


def line_up_rows(
    run: Run, judged: Qrels
) -> tuple[IntArray, frozenset[int], Iterator[tuple[IntArray, HitBlock]]]:
    """Return the result of `line_up` for columns: blocks with the positions of their queries.

    Ids and scores are not checked. Blocks come in the order of the qrels, and can be read once.
    """
    rows_of = np.array([run.query_index.get(query, -1) for query in judged.query_ids], np.int64)
    codes, rows = np.flatnonzero(rows_of >= 0), rows_of[rows_of >= 0]
    lengths = np.append(np.diff(run.starts), 0)[rows_of]  # the 0 is that of -1
    starts = borders(lengths[codes].tolist(), len(codes))
    documents = run.document_ids

    def blocks() -> Iterator[tuple[IntArray, HitBlock]]:
        """Yield the codes of queries with their block of hits."""
        for first, end in _blocks(starts):
            places = spans(run.starts[rows[first:end]], run.starts[rows[first:end] + 1])
            borders = starts[first : end + 1] - starts[first]
            block = HitBlock((), borders, documents.take(places), run.scores[places])
            yield codes[first:end], block

    missing = np.flatnonzero(rows_of < 0)
    return lengths, frozenset(missing.tolist()), blocks()


def _blocks(starts: IntArray) -> Iterator[tuple[int, int]]:
    """Yield first and end of blocks of queries with about equal numbers of rows."""
    first = 0
    while first < len(starts) - 1:
        end = int(np.searchsorted(starts, starts[first] + _BLOCK_ROWS, side="right")) - 1
        end = max(end, first + 1)
        yield first, end
        first = end
