"""Retriever that reads the rankings of another program from a file: `type: run_file`."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import replace
from itertools import starmap
from pathlib import Path
from typing import Annotated

from ragbench.data.files.trec_files import read_run
from ragbench.errors import DataError
from ragbench.registry import Option
from ragbench.retrieve.base import Retriever
from ragbench.types import Query, Run, ScoredDocument
from ragbench.types.byte_ids import PADDING
from ragbench.types.score_order import ScoreSteps

FILES_IN_MEMORY = 16  # rankings that stay in memory, those of the files read last


class RunFile(Retriever):
    """Take the rankings from a TREC run file, plain or gzip.

    Hits are sorted by score, ties by document id descending, as in trec_eval; the rank column is
    ignored. Bytes of an id that are not UTF-8 become surrogates (`surrogateescape`). A query that
    the file lacks counts as missing, not as empty. There is no latency. The rankings of the 16
    files read last stay in memory. The constructor raises DataError for a file that cannot be read,
    and a search for one that has changed since. `notes` tells of scores that never fall.
    """

    same_results = "its rankings stand in a file"
    ranks_by_score = True
    asks_one_by_one = True

    def __init__(
        self,
        *,
        path: Annotated[Path, Option("The run file, or a folder of run_*.json.", refers_to="path")],
    ) -> None:
        path = Path(path)  # from Python it may be a text
        self._path, self._state = path, _state_of(path)
        self._read = None if self._state else _sorted_ranking(path)
        run, self._notes = self._ranked()
        self.query_ids = frozenset(run.query_ids)
        # our files allow no NUL in an id: of a file with one, `read_hits` checks each hit
        self._is_plain = bool(run.document_ids.data[: -len(PADDING)].all())

    def recorded(self) -> Run | None:
        """Return the rankings of the file; None if a document id contains NUL.

        Raises:
            DataError: The file has changed since it was read, or cannot be read again.
        """
        return self._ranked()[0] if self._is_plain else None

    @property
    def notes(self) -> list[str]:
        """Notes on scores that never fall within a ranking."""
        return self._notes

    def retrieve(self, queries: Sequence[Query], top_k: int) -> list[list[ScoredDocument]]:
        """Return the ranking of each query, cut at `top_k`; empty for a query that the file lacks.

        The ranking of a query with a pool is whole: hits outside the pool are dropped before a cut.

        Raises:
            DataError: The file has changed since it was read, or cannot be read again.
        """
        run, _ = self._ranked()
        hits = []
        for query in queries:
            ranking = run.ranking(query.id)
            ranking = ranking[:top_k] if query.pool is None else ranking
            hits.append([*starmap(ScoredDocument, ranking)])
        return hits

    def _ranked(self) -> tuple[Run, list[str]]:
        """Return the rankings, read again if not in memory, and notes on their scores."""
        if self._state != _state_of(self._path):
            raise DataError("changed while it was in use", file=self._path, allowed="a new run")
        return _cached_ranking(self._path, self._state) if self._read is None else self._read


def _sorted_ranking(path: Path) -> tuple[Run, list[str]]:
    """Return the rankings of a run file, each best first, and notes on their scores."""
    in_file = read_run(path, "run")
    notes = ScoreSteps.of(in_file.scores, in_file.starts).notes(from_file=True)
    run = in_file.best_first()
    # adding 0 turns -0.0 into 0.0, so that the two tie
    return replace(run, scores=run.scores + 0.0, duplicates={}), notes


@functools.lru_cache(maxsize=FILES_IN_MEMORY)
def _cached_ranking(path: Path, state: tuple[int, int] | None) -> tuple[Run, list[str]]:
    """Return the rankings and notes of a file; `state`, its size and time, makes a new key."""
    return _sorted_ranking(path)


def _state_of(path: Path) -> tuple[int, int] | None:
    """Return size and modification time of a file; None for a pipe, which can be read only once."""
    if not path.is_file():
        return None
    stat = path.stat()
    return stat.st_size, stat.st_mtime_ns
