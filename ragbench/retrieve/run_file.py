"""Rankings that some other program wrote: `type: run_file`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from ragbench.data.trec.trec_files import read_run
from ragbench.registry import Option
from ragbench.retrieve.base import Retriever
from ragbench.types import Query, Run, ScoredDocument


class RunFile(Retriever):
    """Take the rankings from a TREC run file, plain or gzip.

    The order is that of the scores, ties by document id descending, as trec_eval reads it; the
    rank column is ignored. A query that the file lacks counts as missing, not as empty.
    """

    ranks_by_score = True
    asks_one_by_one = True

    def __init__(self, *, path: Annotated[Path, Option("The run file.", refers_to="path")]) -> None:
        self._run: Run = read_run(path)
        self.query_ids = self._known = frozenset(self._run.query_ids)

    def retrieve(self, queries: Sequence[Query], top_k: int) -> list[list[ScoredDocument]]:
        """Return the stored rankings, cut at `top_k`; an empty one for a query it lacks."""
        known = {q.id: self._run.ranking(q.id)[:top_k] for q in queries if q.id in self._known}
        return [[ScoredDocument(*hit) for hit in known.get(query.id, ())] for query in queries]
