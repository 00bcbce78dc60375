"""Rankings that some other program wrote: `type: run_file`."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated
from weakref import WeakKeyDictionary

import numpy as np

from ragbench.data.files.judgements import trec_id
from ragbench.data.files.trec_files import ScatteredQueriesError, open_run_stream, read_run
from ragbench.errors import DataError
from ragbench.registry import Option
from ragbench.retrieve.base import Retriever
from ragbench.types import Query, Run, ScoredDocument
from ragbench.types.byte_ids import PADDING, TextIds, query_keys
from ragbench.types.rows import Repeats, borders, without_repeats

KEPT_BYTES = 256 << 20
"""Of all rankings that are kept in memory; others are read again when somebody looks at them."""

_kept: WeakKeyDictionary[RunFile, Run] = WeakKeyDictionary()  # the one read last comes last
_lock = threading.Lock()


class RunFile(Retriever):
    """Take the rankings from a TREC run file, plain or gzip.

    The order is that of the scores, ties by document id descending, as trec_eval reads it; the
    rank column is ignored. A query that the file lacks counts as missing, not as empty. Nothing
    is asked, so there is no latency.

    Memory does not grow with the number of files: the rankings of those read last are kept, of
    256 MB at most and one at least.
    """

    ranks_by_score = True
    asks_one_by_one = True

    def __init__(self, *, path: Annotated[Path, Option("The run file.", refers_to="path")]) -> None:
        self._path = path
        self._state = _state_of(path)
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
        """The rankings, read again where they were not kept."""
        with _lock:
            if (run := _kept.get(self)) is not None:
                return run
            run = self._read()
            sizes = {other: _size(each) for other, each in _kept.items()}
            for other in [*sizes]:
                if sum(sizes.values()) + _size(run) > KEPT_BYTES and other._state is not None:
                    del _kept[other], sizes[other]
            _kept[self] = run
            return run

    def _read(self) -> Run:
        if self._state != _state_of(self._path):
            raise DataError("changed while it was in use", file=self._path, allowed="a new run")
        run = read_ranking(self._path).best_first()
        # adding 0 makes -0.0 what it is worth
        return replace(run, scores=run.scores + 0.0, duplicates={})


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


def _state_of(path: Path) -> tuple[int, int] | None:
    """What changes when a file does; None of a pipe and the like."""
    if not os.path.isfile(path):
        return None
    stat = path.stat()
    return stat.st_size, stat.st_mtime_ns


def _size(run: Run) -> int:
    ids = run.document_ids
    return run.scores.nbytes + ids.data.nbytes + ids.starts.nbytes + ids.lengths.nbytes
