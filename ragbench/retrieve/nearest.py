"""The order of a ranking: by score, ties by document id descending."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import cast

import numpy as np

from ragbench.embed.base import Vectors
from ragbench.embed.sentence_transformers import dot_products
from ragbench.types import FloatArray, IntArray


def id_ranks(ids: Sequence[str]) -> IntArray:
    """Return each id's place among all of them, sorted by their bytes as trec_eval sorts them."""
    keys = [identifier.encode("utf-8", "surrogateescape") for identifier in ids]
    ranks = np.empty(len(keys), dtype=np.int64)
    ranks[sorted(range(len(keys)), key=keys.__getitem__)] = np.arange(len(keys))
    return ranks


def best_rows(rows: IntArray, scores: FloatArray, ranks: IntArray, top_k: int) -> IntArray:
    """Return the positions in `rows` of the best ones, best first.

    `ranks` has for every row of the corpus the place of its id; the larger one wins a tie.
    """
    return np.lexsort((-ranks[rows], -scores))[:top_k]


_BLOCK = 8192  # documents of a block
_QUERIES = 256  # queries of a block: 8 MB of scores with so many documents
_FLOAT = np.finfo(np.float32)


class Exact:
    """Looks at all vectors, in blocks: what it needs of memory does not grow with the corpus.

    A matrix product of floats ranks roughly: how its sums are rounded depends on the shape of the
    block. So whoever could be among the best in spite of the largest possible error is a
    candidate, and whoever asks decides in doubles.

    References:
        Higham (2002), Accuracy and Stability of Numerical Algorithms, 3.1: a dot product of d
        numbers errs by at most d u / (1 - d u) times the product of the lengths.
    """

    def __init__(self, vectors: Vectors, longest: float | None = None) -> None:
        """Take the vectors, and the length of the longest where it is known."""
        self._vectors = vectors
        self._longest = longest_of(vectors) if longest is None else longest

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


def longest_of(vectors: Vectors) -> float:
    """Return the length of the longest of some vectors."""
    parts = (vectors[start : start + _BLOCK] for start in range(0, len(vectors), _BLOCK))
    return max(float(_lengths(part).max()) for part in parts)


def score_candidates(vectors: Vectors, query: Vectors, rows: IntArray) -> FloatArray:
    """Return the similarity of some rows to a query, in doubles.

    Equal vectors have equal similarities, so that the document id decides between them.
    """
    found = np.empty(len(rows), dtype=np.float64)
    for start in range(0, len(rows), _BLOCK):  # where all tie, all are candidates
        part = slice(start, start + _BLOCK)
        found[part] = dot_products(vectors[rows[part]], query)
    return found


DEFAULT_PROBES = 32
_PER_LIST = 39  # faiss warns where it learns a list from fewer vectors
_SEED = 1234


class InvertedFile:
    """Sorts vectors into lists by the nearest of some centres, and searches the nearest lists.

    What lies in another list is not found: misses of the index are charged to the retriever. Of
    vectors that tie at the cut, faiss chooses. The same vectors always give the same lists.

    References:
        Jegou, Douze and Schmid (2011), Product Quantization for Nearest Neighbor Search, 4 (the
        inverted file; without its compression).
    """

    def __init__(self, vectors: Vectors, probes: int, file: Path | None = None) -> None:
        """Sort the vectors, or map the lists that `write` put into a file."""
        import faiss

        if file is None:
            count, width = vectors.shape
            # 4 sqrt(n) lists, as the manual of faiss says for up to a million vectors
            lists = max(1, min(int(4 * math.sqrt(count)), count // _PER_LIST))
            self._centres = faiss.IndexFlatIP(width)  # the index does not keep it alive by itself
            self._index = faiss.IndexIVFFlat(
                self._centres, width, lists, faiss.METRIC_INNER_PRODUCT
            )
            self._index.cp.seed = _SEED
            self._index.cp.min_points_per_centroid = 1
            self._index.train(vectors)
            self._index.add(vectors)
        else:
            mapped = faiss.read_index(str(file), faiss.IO_FLAG_MMAP | faiss.IO_FLAG_READ_ONLY)
            self._index = cast("faiss.IndexIVFFlat", mapped)
        self._index.nprobe = min(probes, self._index.nlist)

    def write(self, file: Path) -> None:
        """Put the lists into a file."""
        import faiss

        faiss.write_index(self._index, str(file))

    def candidates(self, queries: Vectors, top_k: int) -> Iterator[IntArray]:
        """Yield for each query the rows of the nearest vectors that were found."""
        import faiss

        wanted = min(top_k, self._index.ntotal)
        # from so many on, queries are compared by a matrix product, whose rounding depends on the
        # shape: a query must find the same whatever is asked with it
        block = max(1, faiss.cvar.distance_compute_blas_threshold - 1)
        for start in range(0, len(queries), block):
            part = np.ascontiguousarray(queries[start : start + block])
            _, rows = self._index.search(part, wanted)
            for found in rows:
                yield found[found >= 0]  # -1 where the lists held fewer
