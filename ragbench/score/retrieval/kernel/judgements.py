"""Reads qrels for ranking: checked, as dictionaries for look-ups and as columns for arithmetic."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

import numpy as np

from ragbench.types import IntArray, Qrels
from ragbench.types.byte_ids import ByteIds, HashArray
from ragbench.types.checks import LARGEST_GRADE, all_text
from ragbench.types.columnar import QueryFingerprints, qrels_digest, query_digests
from ragbench.types.rows import borders


@dataclass(frozen=True, eq=False)
class JudgedPart:
    """The judgements of some queries, a row each."""

    grades: IntArray
    """Row -> grade."""
    starts: IntArray
    """Shape (n queries + 1,): where each query's rows start."""
    document_ids: ByteIds
    """Row -> document."""
    document_hashes: HashArray
    """Row -> hash of its document."""


@dataclass(frozen=True, eq=False)
class Judgements:
    """Qrels with text ids and integer grades."""

    query_ids: tuple[str, ...]
    grades: IntArray
    """The grades of all queries one after the other."""
    starts: IntArray
    """Shape (n queries + 1,): where each query's grades start."""
    document_ids: ByteIds
    """The document of every row."""
    source: Qrels | Mapping[str, Mapping[str, int]]
    """What this was read from; may be the caller's own, so not to be changed."""

    @cached_property
    def by_query(self) -> Mapping[str, Mapping[str, int]]:
        """{query id: {document id: grade}}, for look-ups one by one."""
        return self.source.by_query if isinstance(self.source, Qrels) else self.source

    @cached_property
    def tables(self) -> list[Mapping[str, int]]:
        """{document id: grade} of every query."""
        return [*self.by_query.values()]

    @cached_property
    def document_hashes(self) -> HashArray:
        """The hash of every row's document; `Qrels` work them out once."""
        if isinstance(self.source, Qrels):
            return self.source.document_hashes
        return self.document_ids.hashes()

    def part(self, first: int, end: int) -> JudgedPart:
        """Return the judgements of some queries, `end` not included."""
        rows = slice(int(self.starts[first]), int(self.starts[end]))
        ids = self.document_ids
        return JudgedPart(
            self.grades[rows],
            self.starts[first : end + 1] - rows.start,
            ByteIds(ids.data, ids.starts[rows], ids.lengths[rows]),
            self.document_hashes[rows],
        )

    def fingerprint(self) -> str:
        """Return the fingerprint of the qrels; `Qrels` work theirs out once."""
        if isinstance(self.source, Qrels):
            return self.source.fingerprint()
        return qrels_digest(self.query_ids, self.starts, self.document_hashes, self.grades)

    def query_fingerprints(self) -> QueryFingerprints:
        """Return part -> judged query -> fingerprint, as `Qrels.query_fingerprints`."""
        if isinstance(self.source, Qrels):
            return self.source.query_fingerprints()
        hashes = self.document_hashes
        return {"judgements": query_digests(self.query_ids, self.starts, hashes, self.grades)}

    @classmethod
    def read(cls, qrels: Qrels | Mapping[str, Mapping[str, int]]) -> Judgements:
        """Check qrels; no dictionary is copied where all is in order."""
        if isinstance(qrels, Qrels):
            return cls(qrels.query_ids, qrels.grades, qrels.starts, qrels.document_ids, qrels)
        if isinstance(qrels, dict) and {*map(type, qrels.values())} <= {dict} and all_text([qrels]):
            starts = borders(map(len, qrels.values()), len(qrels))
            grades = _small_integers(qrels, int(starts[-1]))
            if grades is not None:
                with suppress(TypeError):  # an id that is not text
                    ids = ByteIds.of([*chain.from_iterable(qrels.values())])
                    return cls(tuple(qrels), grades, starts, ids, qrels)
        return cls.read(Qrels.from_dict(qrels))


def _small_integers(qrels: dict[str, dict[str, int]], n: int) -> IntArray | None:
    """Return n grades one after the other; None where one is not an int of 32 bits."""
    values: list[int] = [*chain.from_iterable(map(dict.values, qrels.values()))]
    if {*map(type, values)} <= {int}:  # the exact type: True is an int, and no grade
        with suppress(OverflowError):
            grades = np.fromiter(values, np.int64, n)
            if (np.abs(grades) <= LARGEST_GRADE).all():
                return grades
    return None
