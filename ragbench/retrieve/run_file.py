"""Rankings that some other program wrote: `type: run_file`."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import numpy as np

from ragbench.data.files.judgements import trec_id
from ragbench.data.files.trec_files import ScatteredQueriesError, open_run_stream, read_run
from ragbench.errors import DataError
from ragbench.registry import Option
from ragbench.retrieve.base import Retriever
from ragbench.types import Query, Run, ScoredDocument
from ragbench.types.byte_ids import PADDING, TextIds, query_keys
from ragbench.types.rows import Repeats, borders, without_repeats

FILES_IN_MEMORY = 16


class RunFile(Retriever):
    """Take the rankings from a TREC run file, plain or gzip.

    The order is that of the scores, ties by document id descending, as trec_eval reads it; the
    rank column is ignored. A query that the file lacks counts as missing, not as empty. Nothing
    is asked, so there is no latency. The rankings of the 16 files read last stay in memory.
    """

    ranks_by_score = True
    asks_one_by_one = True

    def __init__(self, *, path: Annotated[Path, Option("The run file.", refers_to="path")]) -> None:
        self._path, self._state = path, _state_of(path)
        self._run = None if self._state else _sorted_ranking(path)
        run = self._ranked()
        self.query_ids = frozenset(run.query_ids)
        # our own files hold no NUL: hits of a file that does are checked one by one
        self._is_plain = bool(run.document_ids.data[: -len(PADDING)].all())

    def recorded(self) -> Run | None:
        """Return the rankings of the file."""
        return self._ranked() if self._is_plain else None

    def retrieve(self, queries: Sequence[Query], top_k: int) -> list[list[ScoredDocument]]:
        """Return the stored rankings, cut at `top_k`; an empty one for a query it lacks."""
        run = self._ranked()
        return [[ScoredDocument(*hit) for hit in run.ranking(q.id)[:top_k]] for q in queries]

    def _ranked(self) -> Run:
        """Return the rankings, read again where they are not in memory."""
        if self._state != _state_of(self._path):
            raise DataError("changed while it was in use", file=self._path, allowed="a new run")
        return _kept_ranking(self._path, self._state) if self._run is None else self._run


def _sorted_ranking(path: Path) -> Run:
    run = read_ranking(path).best_first()
    # adding 0 makes -0.0 what it is worth
    return replace(run, scores=run.scores + 0.0, duplicates={})


@functools.lru_cache(maxsize=FILES_IN_MEMORY)
def _kept_ranking(path: Path, state: tuple[int, int] | None) -> Run:
    """Return the rankings of a file in a state; those read last stay in memory."""
    return _sorted_ranking(path)


def _state_of(path: Path) -> tuple[int, int] | None:
    """Return size and time of a file, or None for a pipe, which is read once."""
    if not path.is_file():
        return None
    stat = path.stat()
    return stat.st_size, stat.st_mtime_ns


def read_ranking(path: Path) -> Run:
    """Read a run file query by query, as `ragbench score` does; it says what `read_run` does.

    Repeated documents are looked for some queries at a time, in tables that stay in the caches.
    """
    if not path.is_file():  # a pipe is read once
        return read_run(path)
    names, sizes, ids = list[str](), list[int](), list[TextIds]()
    repeats, scores = Repeats(), [np.zeros(0)]
    with open_run_stream(path) as stream:
        try:
            for block in stream.blocks():
                query = np.repeat(np.arange(len(block.query_ids)), np.diff(block.starts))
                suspects = repeats.suspects(query_keys(block.documents.hashes(), query))
                if len(suspects):
                    block, _ = without_repeats(block, query, suspects)
                names += map(trec_id, block.query_ids)
                sizes += np.diff(block.starts).tolist()
                ids.append(TextIds.of(block.documents))
                scores.append(block.scores)
        except ScatteredQueriesError:
            return read_run(path)
    starts = borders(sizes, len(names))
    return Run(tuple(names), starts, TextIds.joined(ids), np.concatenate(scores))
