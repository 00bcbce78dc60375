"""Reads qrels for ranking: checked, as dictionaries for look-ups and as columns for arithmetic."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain

import numpy as np

from ragbench.types import IntArray, Qrels
from ragbench.types.cells import LARGEST_GRADE, check_ids
from ragbench.types.columnar import borders


@dataclass(frozen=True, eq=False)
class Judgements:
    """Qrels with text ids and integer grades."""

    by_query: Mapping[str, Mapping[str, int]]
    """{query id: {document id: grade}}; may be the caller's own, so not to be changed."""
    grades: IntArray
    """The grades of all queries one after the other."""
    starts: IntArray
    """Shape (n queries + 1,): where each query's grades start."""

    @classmethod
    def read(cls, qrels: Qrels | Mapping[str, Mapping[str, int]]) -> Judgements:
        """Check qrels; nothing is copied where all is in order.

        Raises:
            DataError: An id is not text, or a grade is not an integer of 32 bits.
        """
        if isinstance(qrels, Qrels):
            return cls(qrels.by_query, qrels.grades, qrels.starts)
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
