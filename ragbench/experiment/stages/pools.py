"""Pools of queries: the hits of a retriever that are outside of them are dropped and counted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from ragbench.comparison.passage_places import document_resolver
from ragbench.types import Document, Run, ScoredDocument
from ragbench.types.documents import documents_by_id

if TYPE_CHECKING:
    from ragbench.experiment.plan.records import Plan

# Note on hits outside the pools, with their number.
OUTSIDE_NOTE = "hits outside the pool of their question, dropped before scoring: {}"


class PoolFilter:
    """Filter for hits outside the pool of their query; `inside(pool)` returns its condition.

    A hit counts by its document. A hit that the corpus lacks counts as the document that its path,
    file name or title means.
    """

    def __init__(self, documents: Sequence[Document] | None) -> None:
        self._documents = documents or ()

    @cached_property
    def _ids(self) -> dict[str, Document]:
        return documents_by_id(self._documents)

    @cached_property
    def _document_of(self) -> Callable[[ScoredDocument], str | None]:
        return document_resolver(self._documents)

    def inside(self, pool: Sequence[str] | None) -> Callable[[ScoredDocument], bool] | None:
        """Return the condition for a hit of a query with this pool; None without a pool."""
        if pool is None:
            return None
        ids = frozenset(pool)

        def is_inside(hit: ScoredDocument) -> bool:
            """Return True for a hit whose document is in the pool."""
            name = hit.id if hit.document is None else hit.document
            if name in ids or name in self._ids or not self._documents:
                return name in ids
            return self._document_of(hit) in ids

        return is_inside


class PooledRun:
    """Rankings of a run file within the pools of the queries; a call returns them.

    `n_outside()` returns the number of hits outside the pools. `read` returns the rankings of the
    file; they are filtered once.
    """

    def __init__(self, read: Callable[[], Run], plan: Plan) -> None:
        self._read, self._plan = read, plan
        self._filtered: tuple[Run, Run] | None = None

    def __call__(self) -> Run:
        """Return the rankings without the hits outside the pools."""
        run = self._read()
        if self._filtered is None or self._filtered[0] is not run:
            self._filtered = run, self._inside(run)
        return self._filtered[1]

    def n_outside(self) -> int:
        """Return the number of hits outside the pools."""
        run = self()
        return 0 if self._filtered is None else len(self._filtered[0]) - len(run)

    def _inside(self, run: Run) -> Run:
        """Return the run without the hits outside the pools."""
        pools, keep = PoolFilter(self._plan.collection.documents), np.ones(len(run), dtype=bool)
        for query in self._plan.queries:
            is_inside, place = pools.inside(query.pool), run.query_index.get(query.id)
            if is_inside is None or place is None:
                continue
            start, end = int(run.starts[place]), int(run.starts[place + 1])
            for row, name in enumerate(run.documents[start:end], start):
                keep[row] = is_inside(ScoredDocument(name))
        return run.only(keep)


def has_pools(plan: Plan) -> bool:
    """Return True if a query of the data set has a pool."""
    return plan.collection.fingerprint("pools") is not None
