"""Reads qrels for ranking: checked, as dictionaries for look-ups and as columns for arithmetic."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain

import numpy as np

from ragbench.types import IntArray, Qrels
from ragbench.types.byte_ids import ByteIds
from ragbench.types.cells import LARGEST_GRADE, check_ids
from ragbench.types.columnar import borders
from ragbench.types.qrels_digest import qrels_digest


@dataclass(frozen=True, eq=False)
class Judgements:
    """Qrels with text ids and integer grades."""

    by_query: Mapping[str, Mapping[str, int]]
    """{query id: {document id: grade}}; may be the caller's own, so not to be changed."""
    grades: IntArray
    """The grades of all queries one after the other."""
    starts: IntArray
    """Shape (n queries + 1,): where each query's grades start."""
    source: Qrels | None = None
    """The qrels that this was read from, where they were `Qrels`."""

    @property
    def query_ids(self) -> tuple[str, ...]:
        """The judged queries."""
        return tuple(self.by_query)

    def fingerprint(self) -> str:
        """Return the fingerprint of the qrels; `Qrels` work theirs out once."""
        if self.source is not None:
            return self.source.fingerprint()
        documents = ByteIds.of([*chain.from_iterable(self.by_query.values())])
        return qrels_digest(self.query_ids, self.starts, documents.hashes(), self.grades)

    @classmethod
    def read(cls, qrels: Qrels | Mapping[str, Mapping[str, int]]) -> Judgements:
        """Check qrels; nothing is copied where all is in order.

        Raises:
            DataError: An id is not text, or a grade is not an integer of 32 bits.
        """
        if isinstance(qrels, Qrels):
            return cls(qrels.by_query, qrels.grades, qrels.starts, qrels)
        if type(qrels) is dict and {*map(type, qrels.values())} == {dict}:
            starts = borders(map(len, qrels.values()), len(qrels))
            grades = _small_integers(qrels.values(), int(starts[-1]))
            if grades is not None:
                check_ids(qrels, "qrels")
                return cls(qrels, grades, starts)
        return cls.read(Qrels.from_dict(qrels))


def _small_integers(rows: Iterable[Mapping[str, int]], n: int) -> IntArray | None:
    """Return n grades one after the other; None where one is not an int of 32 bits."""
    values = [*chain.from_iterable(row.values() for row in rows)]
    if {*map(type, values)} <= {int}:
        with suppress(OverflowError):
            grades = np.fromiter(values, np.int64, n)
            if (np.abs(grades) <= LARGEST_GRADE).all():
                return grades
    return None
