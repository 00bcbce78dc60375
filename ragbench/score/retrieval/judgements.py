"""Qrels as they are ranked against, and the lists of a run lined up with them, some at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain, repeat
from struct import pack_into

import numpy as np

from ragbench.types import FloatArray, IntArray, Qrels, Run
from ragbench.types.byte_ids import ByteIds, spans
from ragbench.types.checks import LARGEST_GRADE, all_text, check_ids, is_plain
from ragbench.types.rows import NO_NUMBER, borders, plain_scores, score_column


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
                known = {"document_ids": ByteIds.of(documents), "by_query": qrels}
                found = Qrels(tuple(qrels), starts, documents, grades)
                vars(found).update(known)  # what its cached properties would make anew
                return found
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


Scores = Mapping[str, Mapping[str, float]]
"""Query -> document -> score."""

_NOTHING: dict[str, float] = {}
_FEW = 3000  # judgements, up to which look-ups are done before a join has begun to pay
_BLOCK_ROWS = 1 << 17  # hits and judgements at a time: their columns stay in the caches


@dataclass(frozen=True, eq=False)
class Lists:
    """The scores of some queries, in the order in which the caller listed them."""

    scores: FloatArray
    """The scores of all queries one after the other."""
    starts: IntArray
    """Shape (n + 1,): where each query's scores start."""


@dataclass(frozen=True, eq=False)
class Listed(Lists):
    """Lists with the ids of their documents."""

    documents: ByteIds
    """The document of each score."""


@dataclass(frozen=True, eq=False)
class LookedUp(Lists):
    """Lists in which the judged documents were looked up."""

    documents: list[str]
    """The document of each score."""
    judged: list[str]
    """The judged documents of all queries one after the other."""
    wanted: FloatArray
    """The score of each judged document, NaN where it was not retrieved."""


@dataclass(frozen=True, eq=False)
class LineUp:
    """The lists of the judged queries, in their order; the other queries are not ranked."""

    starts: IntArray
    """Shape (n + 1,): where each query's hits would start if all stood in a row."""
    missing: frozenset[int]
    """Queries that the run lacks."""
    read: Callable[[int, int], Listed | LookedUp]
    """Reads the lists from one query to before another."""

    def blocks(self, judged: Qrels) -> Iterator[tuple[int, int]]:
        """Cut the queries into blocks, from a first to before an end, of as many rows each."""
        rows, first = self.starts + judged.starts, 0
        while first < len(rows) - 1:
            end = int(np.searchsorted(rows, rows[first] + _BLOCK_ROWS, side="right")) - 1
            end = max(end, first + 1)
            yield first, end
            first = end


def line_up(run: Run | Scores, judged: Qrels) -> LineUp:
    """Line up the lists of a run with the judged queries.

    Linear in what was retrieved. In dictionaries the judged are looked up on the way where they are
    few: a query's dictionary is then in the cache of the processor. Ids that are no text are
    refused here; those of judged queries, and scores, when they are read.
    """
    if isinstance(run, Run):
        return _of_run(run, judged.query_ids)
    if not is_plain(run, "run"):
        check_ids(run, "run")
    tables = [*map(run.get, judged.query_ids, repeat(_NOTHING))]
    missing = frozenset(i for i, table in enumerate(tables) if table is _NOTHING)
    if len(run) > len(tables) - len(missing):
        others = run.keys() - {*judged.query_ids}
        if not all_text(run[query_id] for query_id in others):
            check_ids(run, "run")
    starts = borders(map(len, tables), len(tables))
    look_up = few_judged(len(judged.grades), int(starts[-1]))
    wanted = [*judged.by_query.values()] if look_up else []

    def read(first: int, end: int) -> Listed | LookedUp:
        part = tables[first:end]
        try:
            if look_up:
                return _looked_up(part, wanted[first:end])
            documents = ByteIds.of([*chain.from_iterable(part)])
            scores = plain_scores(part, len(part), len(documents))
            return Listed(scores, borders(map(len, part), len(part)), documents)
        except NO_NUMBER:
            # names what is wrong: first a score, then an id
            score_column(dict(zip(judged.query_ids, tables, strict=True)), int(starts[-1]))
            check_ids(run, "run")
            raise

    return LineUp(starts, missing, read)


def few_judged(n_judged: int, n_retrieved: int) -> bool:
    """Tell whether to look the judged up in the dictionaries, not to join all with all.

    They are fewer than what was retrieved, or so few that the join would hardly begin to pay.
    """
    return n_judged < max(n_retrieved, _FEW)


def _looked_up(tables: list[Mapping[str, float]], judged: list[Mapping[str, int]]) -> LookedUp:
    """Read scores, see that ids are text, and look judged ids up, all while a table is at hand.

    Raises:
        TypeError: An id is not text.
        ValueError: A score is NaN or no number; so say other errors of `NO_NUMBER`.
    """
    starts = borders(map(len, tables), len(tables))
    scores = np.empty(int(starts[-1]), np.float64)
    target = memoryview(scores)  # type: ignore[arg-type]  # an array is a buffer since Python 3.12
    documents: list[str] = []
    wanted: list[float] = []
    absent = repeat(np.nan)
    for table, ids, start in zip(tables, judged, starts.tolist(), strict=False):
        # packed by C, which refuses what is no number and costs no array for each query
        pack_into(f"{len(table)}d", target, 8 * start, *table.values())
        names = [*table]
        "".join(names)  # raises where an id is not text, quicker than a look at each
        documents += names
        wanted += map(table.get, ids, absent)
    if np.isnan(scores).any():  # a score of NaN would look as if it had not been retrieved
        raise ValueError("NaN")
    found = np.fromiter(wanted, np.float64, len(wanted))
    return LookedUp(scores, starts, documents, [*chain.from_iterable(judged)], found)


def _of_run(run: Run, query_ids: tuple[str, ...]) -> LineUp:
    index = run.query_index
    queries = [index.get(query_id) for query_id in query_ids]
    missing = frozenset(i for i, query in enumerate(queries) if query is None)
    places = [len(run.starts) - 1 if query is None else query for query in queries]
    ends = np.append(run.starts, run.starts[-1])  # one empty list more, for what the run lacks
    firsts, ends = run.starts[places], ends[np.array(places, np.int64) + 1]
    starts = borders((ends - firsts).tolist(), len(places))
    documents = run.document_ids

    def read(first: int, end: int) -> Listed:
        rows = spans(firsts[first:end], ends[first:end])
        block = starts[first : end + 1] - starts[first]
        return Listed(run.scores[rows], block, documents.take(rows))

    return LineUp(starts, missing, read)
