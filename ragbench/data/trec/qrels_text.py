"""Reads regular qrels quickly: four columns, the lines of a query together."""

from __future__ import annotations

import os

import numpy as np
from numpy.typing import NDArray

from ragbench.data.files.lines import WholeLines, opened, reader
from ragbench.data.trec.decimals import read_integers
from ragbench.data.trec.run_text import separators
from ragbench.errors import DataError
from ragbench.types import IntArray, Qrels
from ragbench.types.byte_ids import ByteIds, HashArray, TextIds, joined_bytes, query_keys

_CHUNK_BYTES = 1 << 20
_HASH = ord("#")


def read_regular_qrels(path: str | os.PathLike[str]) -> Qrels | None:
    """Read TREC qrels with one space or tab between four columns; some 0.2 s a million lines.

    Returns:
        None where anything is not regular, where a pair is judged twice, and where the second
        column changes: what reads line by line can tell what it is, and whether it is wrong.
    """
    columns = _Columns()
    try:
        with opened(path, os.fspath(path)) as stream:
            lines = WholeLines(reader(stream), os.fspath(path))
            while not lines.at_end:
                if not columns.add(lines.read(_CHUNK_BYTES)):
                    return None
    except DataError:
        return None
    return columns.qrels()


class _Columns:
    """The columns of qrels, chunk by chunk."""

    def __init__(self) -> None:
        self._query_ids: list[bytes] = []
        self._starts: list[int] = []
        self._documents: list[TextIds] = []
        self._grades: list[IntArray] = []
        self._keys: list[HashArray] = []
        self._n_rows = 0
        self._iteration = b""

    def add(self, text: bytes) -> bool:
        """Add whole lines; return whether they are regular."""
        if not text:
            return True
        text = text.replace(b"\r\n", b"\n")
        data = joined_bytes([text])
        table = separators(data, data[: len(text)] <= ord(" "), 4)
        if table is None:
            return False
        starts = np.concatenate((np.zeros(1, np.int64), table[:-1, -1] + 1))
        grades = read_integers(data, table[:, 2] + 1, table[:, 3])
        if grades is None or (data[starts] == _HASH).any():
            return False
        second = table[:, 0] + 1
        if not self._same_iteration(ByteIds(data, second, table[:, 1] - second)):
            return False
        query = self._add_queries(ByteIds(data, starts, table[:, 0] - starts))
        first = table[:, 1] + 1
        ids = ByteIds(data, first, table[:, 2] - first)
        self._keys.append(query_keys(ids.hashes(), query))
        self._documents.append(TextIds.of(ids))
        self._grades.append(grades)
        self._n_rows += len(grades)
        return True

    def _same_iteration(self, ids: ByteIds) -> bool:
        """Whether the second column is the same everywhere; else it may name subtopics."""
        self._iteration = self._iteration or ids[0]
        return ids[0] == self._iteration and not ids.differ_from_last().any()

    def _add_queries(self, ids: ByteIds) -> NDArray[np.int64]:
        """Note where queries start; return the number of each row's query."""
        new = np.concatenate(([ids[0] != (self._query_ids or [b""])[-1]], ids.differ_from_last()))
        first = np.flatnonzero(new)
        before = len(self._query_ids) - 1
        self._query_ids += [ids[row] for row in first.tolist()]
        self._starts += (first + self._n_rows).tolist()
        return before + np.cumsum(new)

    def qrels(self) -> Qrels | None:
        """Return what was added; None where a query or a pair came up again."""
        if not self._n_rows or len(set(self._query_ids)) < len(self._query_ids):
            return None
        keys = np.sort(np.concatenate(self._keys))
        if (keys[1:] == keys[:-1]).any():
            return None
        return Qrels(
            tuple(query.decode("utf-8", "surrogateescape") for query in self._query_ids),
            np.array([*self._starts, self._n_rows], np.int64),
            TextIds.joined(self._documents),
            np.concatenate(self._grades),
        )
