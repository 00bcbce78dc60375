"""Qrels as they are ranked against, and the lists of a run lined up with them, some at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain, repeat
from struct import pack_into

import numpy as np

from ragbench.types import FloatArray, IntArray, Qrels, Run
from ragbench.types.byte_ids import ByteIds, spans
from ragbench.types.checks import LARGEST_GRADE, all_text, check_ids
from ragbench.types.rows import NUMBER_ERRORS, HitBlock, borders, score_column


def as_qrels(qrels: Qrels | Mapping[str, Mapping[str, int]]) -> Qrels:
    """Check qrels; no dictionary is copied where all is in order, so that it may not be changed."""
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
    """Return n grades one after the other; None where one is not an int of 32 bits."""
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
    """The lists of some queries in the order of the qrels, and the scores of their judgements.

    Attributes:
        first: The position of the first query in the qrels.
        starts: Shape (n + 1,): where each query's scores start.
        scores: The scores of all queries one after the other, as the caller listed them.
        documents: The document of each score.
        judged: The judged documents of all queries one after the other.
        judged_scores: The score of each judged document, NaN where it was not retrieved.
    """

    first: int
    starts: IntArray
    scores: FloatArray
    documents: list[str]
    judged: list[str]
    judged_scores: FloatArray


def line_up(run: Scores, judged: Qrels) -> tuple[IntArray, frozenset[int], Iterator[LookedUp]]:
    """Line up the lists of a run with the judged queries; the other queries are not ranked.

    Returns how many documents each judged query retrieved, the positions of the queries that the
    run lacks, and the lists, some queries at a time. Linear in the retrieved and the judged
    documents, which are looked up while the dictionary of their query is in the cache of the
    processor. Ids that are no text are refused here; those of judged queries, and scores, when they
    are read.
    """
    tables = [*map(run.get, judged.query_ids, repeat(_NOTHING))]
    missing = frozenset(i for i, table in enumerate(tables) if table is _NOTHING)
    if len(run) > len(tables) - len(missing):
        unjudged = run.keys() - {*judged.query_ids}
        if not all_text(run[query_id] for query_id in unjudged):
            check_ids(run, "run")
    starts = borders(map(len, tables), len(tables))

    def blocks() -> Iterator[LookedUp]:
        grades = [*judged.by_query.values()]
        for first, end in _blocks(starts + judged.starts):
            try:
                lists = _look_up(first, tables[first:end], grades[first:end])
            except NUMBER_ERRORS:
                # names what is wrong: first a score, then an id
                score_column(dict(zip(judged.query_ids, tables, strict=True)), int(starts[-1]))
                check_ids(run, "run")
                raise
            yield lists

    return np.diff(starts), missing, blocks()


def _look_up(
    first: int, tables: list[Mapping[str, float]], judged: list[Mapping[str, int]]
) -> LookedUp:
    """Read scores, see that ids are text, and look judged ids up, all while a table is at hand.

    Raises:
        TypeError: An id is not text.
        ValueError: A score is NaN or no number; so say other errors of `NUMBER_ERRORS`.
    """
    starts = borders(map(len, tables), len(tables))
    scores = np.empty(int(starts[-1]), np.float64)
    target = memoryview(scores)  # type: ignore[arg-type]  # an array is a buffer since Python 3.12
    documents: list[str] = []
    judged_scores: list[float] = []
    absent = repeat(np.nan)
    for table, ids, start in zip(tables, judged, starts.tolist(), strict=False):
        # packed by C, which refuses what is no number and costs no array for each query
        pack_into(f"{len(table)}d", target, 8 * start, *table.values())
        names = [*table]
        "".join(names)  # raises where an id is not text, quicker than a look at each
        documents += names
        judged_scores += map(table.get, ids, absent)
    if np.isnan(scores).any():  # a score of NaN would look as if it had not been retrieved
        raise ValueError("NaN")
    column = np.fromiter(judged_scores, np.float64, len(judged_scores))
    return LookedUp(first, starts, scores, documents, [*chain.from_iterable(judged)], column)


def line_up_rows(
    run: Run, judged: Qrels
) -> tuple[IntArray, frozenset[int], Iterator[tuple[IntArray, HitBlock]]]:
    """Do what `line_up` does for columns: each block has the positions of its queries."""
    rows_of = np.array([run.query_index.get(query, -1) for query in judged.query_ids], np.int64)
    codes, rows = np.flatnonzero(rows_of >= 0), rows_of[rows_of >= 0]
    lengths = np.append(np.diff(run.starts), 0)[rows_of]  # the 0 is that of -1
    starts = borders(lengths[codes].tolist(), len(codes))
    documents = run.document_ids

    def blocks() -> Iterator[tuple[IntArray, HitBlock]]:
        for first, end in _blocks(starts):
            places = spans(run.starts[rows[first:end]], run.starts[rows[first:end] + 1])
            borders = starts[first : end + 1] - starts[first]
            block = HitBlock((), borders, documents.take(places), run.scores[places])
            yield codes[first:end], block

    missing = np.flatnonzero(rows_of < 0)
    return lengths, frozenset(missing.tolist()), blocks()


def _blocks(starts: IntArray) -> Iterator[tuple[int, int]]:
    """Cut queries into blocks, from a first to before an end, of about as many rows each."""
    first = 0
    while first < len(starts) - 1:
        end = int(np.searchsorted(starts, starts[first] + _BLOCK_ROWS, side="right")) - 1
        end = max(end, first + 1)
        yield first, end
        first = end
