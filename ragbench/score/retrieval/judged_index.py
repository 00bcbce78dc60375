"""Qrels by the hashes of their ids, so that blocks of a run can be joined with them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ragbench.types import IntArray, Qrels
from ragbench.types.byte_ids import GOLDEN, ByteIds, HashArray, spans
from ragbench.types.cells import id_bytes

_FEWEST_BITS = 16  # of the filter that most rows do not pass: 64 KiB lie in the nearest cache
_MOST_BITS = 24


@dataclass(frozen=True, eq=False)
class Join:
    """Rows of a block that are judged."""

    rows: IntArray
    """Positions in the block, ascending."""
    judged: IntArray
    """The row of the qrels that judges each."""


class JudgedIndex:
    """Finds the judged documents among the hits of a block of queries."""

    def __init__(self, qrels: Qrels) -> None:
        self._starts = qrels.starts
        self._codes = {id_bytes(query): code for code, query in enumerate(qrels.query_ids)}
        self._documents, self._hashes = qrels.document_ids, qrels.document_hashes

    def code(self, query: bytes) -> int:
        """Return the position of a query in the qrels; -1 where they lack it."""
        return self._codes.get(query, -1)

    def join(self, codes: IntArray, query: IntArray, keys: HashArray, documents: ByteIds) -> Join:
        """Find the rows that are judged.

        Args:
            codes: Query of the block -> its position in the qrels, or -1.
            query: Row -> query of the block.
            keys: Row -> what `query_keys` makes of its id.
            documents: Row -> its id.
        """
        known = np.flatnonzero(codes >= 0)
        first, end = self._starts[codes[known]], self._starts[codes[known] + 1]
        judged = spans(first, end)
        judged_query = np.repeat(known, end - first)
        wanted = query_keys(self._hashes[judged], judged_query)
        order = np.argsort(wanted)
        wanted, judged = wanted[order], judged[order]
        if (wanted[1:] == wanted[:-1]).any():
            return self._compared(judged, judged_query[order], query, documents)
        rows = _possible(keys, wanted)
        place = np.searchsorted(wanted, keys[rows])
        place[place == len(wanted)] = 0
        same = wanted[place] == keys[rows] if len(wanted) else np.zeros(0, bool)
        rows, judged = rows[same], judged[place[same]]
        # two ids may share a hash: only the same bytes are the same document
        same = documents.take(rows).equal(self._documents.take(judged))
        return Join(rows[same], judged[same])

    def _compared(
        self, judged: IntArray, judged_query: IntArray, query: IntArray, documents: ByteIds
    ) -> Join:
        """Join one by one: for the rare block in which judged ids share a hash."""
        places = zip(judged_query.tolist(), judged.tolist(), strict=True)
        table = {(code, self._documents[row]): row for code, row in places}
        found = [table.get((code, documents[row]), -1) for row, code in enumerate(query.tolist())]
        columns = np.array(found, np.int64)
        rows = np.flatnonzero(columns >= 0)
        return Join(rows, columns[rows])


def query_keys(hashes: HashArray, query: IntArray) -> HashArray:
    """Make hashes of ids differ from query to query of a block."""
    keys: HashArray = hashes + query.astype(np.uint64) * GOLDEN
    return keys


def _possible(keys: HashArray, wanted: HashArray) -> IntArray:
    """Return the rows whose key may be wanted: a few too many, quickly."""
    bits = min(max(_FEWEST_BITS, len(wanted).bit_length() + 5), _MOST_BITS)
    shift = np.uint64(64 - bits)
    marked: NDArray[np.bool_] = np.zeros(1 << bits, bool)
    marked[(wanted >> shift).view(np.int64)] = True
    return np.flatnonzero(marked[(keys >> shift).view(np.int64)])
