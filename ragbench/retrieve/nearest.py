"""The vectors that are nearest to a query's, all looked at in blocks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Protocol

import numpy as np

from ragbench.embed.similarity import dot_products
from ragbench.types import FloatArray, IntArray

if TYPE_CHECKING:
    from ragbench.embed.base import Vectors

_BLOCK = 8192  # documents of a block
_QUERIES = 256  # queries of a block: 8 MB of scores with so many documents
_FLOAT = np.finfo(np.float32)


class Index(Protocol):
    """Something that finds candidates for the nearest vectors."""

    def candidates(self, queries: Vectors, top_k: int) -> Iterator[IntArray]:
        """Yield for each query the rows among which its nearest are."""
        ...


class Exact:
    """Looks at all vectors, in blocks: what it needs of memory does not grow with the corpus.

    A matrix product of floats ranks roughly: how its sums are rounded depends on the shape of the
    block. So whoever could be among the best in spite of the largest possible error is a
    candidate, and whoever asks decides in doubles.

    References:
        Higham (2002), Accuracy and Stability of Numerical Algorithms, 3.1: a dot product of d
        numbers errs by at most d u / (1 - d u) times the product of the lengths.
    """

    def __init__(self, vectors: Vectors) -> None:
        """Take vectors, shape (n, d), n > 0; they are not copied."""
        self._vectors = vectors
        self._longest = max(
            float(_lengths(vectors[start : start + _BLOCK]).max())
            for start in range(0, len(vectors), _BLOCK)
        )

    def candidates(self, queries: Vectors, top_k: int) -> Iterator[IntArray]:
        """Yield for each query the rows among which its nearest are: no other can be."""
        for start in range(0, len(queries), _QUERIES):
            yield from self._candidates(queries[start : start + _QUERIES], top_k)

    def _candidates(self, queries: Vectors, top_k: int) -> Iterator[IntArray]:
        slack = self._slack(queries)
        floor = np.full(len(queries), -np.inf)
        found: list[tuple[IntArray, IntArray, Vectors]] = []
        size = max(_BLOCK, 4 * top_k)  # so that most of a block falls below the floor
        for start in range(0, len(self._vectors), size):
            scores = queries @ self._vectors[start : start + size].T
            floor = np.maximum(floor, _kth_best(scores, top_k))
            query, row = np.nonzero(scores >= _as_floor(floor - slack)[:, None])
            found.append((query, row + start, scores[query, row]))
        query, row, score = (np.concatenate(parts) for parts in zip(*found, strict=True))
        by_query = np.argsort(query, kind="stable")
        ends = np.searchsorted(query[by_query], np.arange(1, len(queries)))
        for position, mine in enumerate(np.split(by_query, ends)):
            kth = _kth_best(score[None, mine], top_k)
            yield row[mine][score[mine] >= _as_floor(kth - slack[position])]

    def _slack(self, queries: Vectors) -> FloatArray:
        """How much less a rough score may be than another one where the exact one is not."""
        error = (queries.shape[1] + 1) * float(_FLOAT.eps) / 2
        underflow = queries.shape[1] * float(_FLOAT.tiny)
        relative = 2 * error / (1 - error) * self._longest
        slack: FloatArray = relative * _lengths(queries) + underflow
        return slack


def _kth_best(scores: Vectors, k: int) -> FloatArray:
    """The k-th largest score of each row; minus infinity where there are fewer."""
    width = scores.shape[1]
    if width < k:
        return np.full(len(scores), -np.inf)
    return np.partition(scores, width - k, axis=1)[:, width - k].astype(np.float64)


def _as_floor(bounds: FloatArray) -> Vectors:
    """The bounds as floats, rounded down."""
    floors: Vectors = np.nextafter(bounds.astype(np.float32), np.float32(-np.inf))
    return floors


def _lengths(vectors: Vectors) -> FloatArray:
    doubles = vectors.astype(np.float64)
    lengths: FloatArray = np.sqrt((doubles * doubles).sum(axis=1))
    return lengths


def score_candidates(vectors: Vectors, query: Vectors, rows: IntArray) -> FloatArray:
    """Return the similarity of some rows to a query, in doubles.

    Equal vectors have equal similarities, so that the document id decides between them.
    """
    found = np.empty(len(rows), dtype=np.float64)
    for start in range(0, len(rows), _BLOCK):  # where all tie, all are candidates
        part = slice(start, start + _BLOCK)
        found[part] = dot_products(vectors[rows[part]], query)
    return found
