"""Pools of queries: the hits of a run file within them, and remarks on hits outside."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import numpy as np

from ragbench.comparison.hit_documents import PoolFilter
from ragbench.experiment.calls import Outcome
from ragbench.types import Retrieved, Run, ScoredDocument

if TYPE_CHECKING:
    from ragbench.experiment.plan.records import Plan


class PooledRun:
    """Rankings of a run file within the pools of the queries; a call returns them.

    `n_outside(query)` returns the number of hits of a query outside its pool. `read` returns the
    rankings of the file; they are filtered once.
    """

    def __init__(self, read: Callable[[], Run], plan: Plan) -> None:
        self._read, self._plan = read, plan
        self._filtered: tuple[Run, Run] | None = None
        self._n_outside: dict[str, int] = {}

    def __call__(self) -> Run:
        """Return the rankings without the hits outside the pools."""
        run = self._read()
        if self._filtered is None or self._filtered[0] is not run:
            self._filtered = run, self._inside(run)
        return self._filtered[1]

    def n_outside(self, query: str) -> int:
        """Return the number of hits of a query outside its pool; 0 for an unknown query."""
        self()
        return self._n_outside.get(query, 0)

    def _inside(self, run: Run) -> Run:
        """Return the run without the hits outside the pools, and count these."""
        pools, keep = PoolFilter(self._plan.collection.documents), np.ones(len(run), dtype=bool)
        for query in self._plan.queries:
            is_inside, place = pools.inside(query.pool), run.query_index.get(query.id)
            if is_inside is None or place is None:
                continue
            start, end = int(run.starts[place]), int(run.starts[place + 1])
            for row, name in enumerate(run.documents[start:end], start):
                keep[row] = is_inside(ScoredDocument(name))
            self._n_outside[query.id] = end - start - int(keep[start:end].sum())
        return run.only(keep)


def has_pools(plan: Plan) -> bool:
    """Return True if a query of the data set has a pool."""
    return plan.collection.fingerprint("pools") is not None


def remarks_on_pools(
    outcomes: Iterable[Outcome[Retrieved]], plan: Plan, top_k: int
) -> tuple[list[str], list[str]]:
    """Return (notes, warnings) on the hits of a retriever outside the pools; empty without any."""
    n_outside, n_short, n_rankings = 0, 0, 0
    for query, outcome in zip(plan.queries, outcomes, strict=True):
        retrieved = outcome.value
        if query.pool is None or retrieved is None:
            continue
        n_rankings += 1
        n_outside += retrieved.n_outside
        documents = {hit.document or hit.id for hit in retrieved.documents}
        is_short = len(documents) < min(top_k, len(query.pool))
        n_short += is_short and retrieved.n_outside > 0
    if not n_outside:
        return [], []
    note = f"hits outside the pool of their question, dropped before scoring: {n_outside}"
    if not n_short:
        return [note], []
    warning = (
        f"hits outside the pool took the places of documents in it in {n_short} of {n_rankings} "
        "rankings: search the pool alone (own code takes pool=), or retrieve more hits"
    )
    return [note], [warning]
