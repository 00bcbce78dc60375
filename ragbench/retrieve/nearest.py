"""Search for the nearest vectors, and the order of a ranking: ties by document id descending."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import cast

import numpy as np

from ragbench.embed.base import Vectors
from ragbench.embed.sentence_transformers import dot_products
from ragbench.types import FloatArray, IntArray
from ragbench.types.checks import id_bytes


def id_ranks(ids: Sequence[str]) -> IntArray:
    """Return the position of each id in the order of their bytes, which trec_eval uses.

    Ranks count from 0 for the smallest. The shape is (n,).
    """
    keys = list(map(id_bytes, ids))
    ranks = np.empty(len(keys), dtype=np.int64)
    ranks[sorted(range(len(keys)), key=keys.__getitem__)] = np.arange(len(keys))
    return ranks


def best_rows(rows: IntArray, scores: FloatArray, ranks: IntArray, top_k: int) -> IntArray:
    """Return the positions in `rows` of the `top_k` best rows, or of all if there are fewer.

    Args:
        rows: Rows of the corpus.
        scores: Score of each of these rows.
        ranks: For every row of the corpus the position of its id; the larger one wins a tie.
        top_k: Largest number of positions.
    """
    return np.lexsort((-ranks[rows], -scores))[:top_k]


_BLOCK = 8192  # documents of a block
_QUERIES = 256  # queries of a block: 8 MB of scores with so many documents
_FLOAT = np.finfo(np.float32)


class Exact:
    """Exact search: compares a query with all vectors, in blocks of constant memory.

    A matrix product of floats ranks only roughly, because the rounding of its sums depends on the
    shape of the block. Every row that could be among the best, given the largest possible rounding
    error, is therefore a candidate; the caller ranks the candidates in doubles.

    References:
        Higham (2002), Accuracy and Stability of Numerical Algorithms, 3.1: a dot product of d
        numbers errs by at most d u / (1 - d u) times the product of the lengths.
    """

    def __init__(self, vectors: Vectors, longest: float | None = None) -> None:
        """Take the vectors, shape (n, d), and the length of the longest; None computes it.

        There must be a vector.
        """
        self._vectors = vectors
        self._longest = longest_of(vectors) if longest is None else longest

    def candidates(self, queries: Vectors, top_k: int) -> Iterator[IntArray]:
        """Yield for each query the rows, from 0, that may be among its `top_k` nearest."""
        for start in range(0, len(queries), _QUERIES):
            yield from self._candidates(queries[start : start + _QUERIES], top_k)

    def _candidates(self, queries: Vectors, top_k: int) -> Iterator[IntArray]:
        """Yield the rows that may be among the best of each query."""
        slack = self._slack(queries)
        floor = np.full(len(queries), -np.inf)
        blocks: list[tuple[IntArray, IntArray, Vectors]] = []
        size = max(_BLOCK, 4 * top_k)  # so that most of a block falls below the floor
        for start in range(0, len(self._vectors), size):
            scores = queries @ self._vectors[start : start + size].T
            floor = np.maximum(floor, _kth_best(scores, top_k))
            query, row = np.nonzero(scores >= _as_floor(floor - slack)[:, None])
            blocks.append((query, row + start, scores[query, row]))
        query, row, score = (np.concatenate(parts) for parts in zip(*blocks, strict=True))
        by_query = np.argsort(query, kind="stable")
        ends = np.searchsorted(query[by_query], np.arange(1, len(queries)))
        for position, entries in enumerate(np.split(by_query, ends)):
            # again: the floor of the first blocks was lower than the final one
            kth = _kth_best(score[None, entries], top_k)
            yield row[entries][score[entries] >= _as_floor(kth - slack[position])]

    def _slack(self, queries: Vectors) -> FloatArray:
        """Return for each query the largest error of a difference of two rough scores."""
        error = (queries.shape[1] + 1) * float(_FLOAT.eps) / 2
        underflow = queries.shape[1] * float(_FLOAT.tiny)
        relative = 2 * error / (1 - error) * self._longest
        slack: FloatArray = relative * _lengths(queries) + underflow
        return slack


def _kth_best(scores: Vectors, k: int) -> FloatArray:
    """Return the k-th largest score of each row; minus infinity if a row has fewer scores."""
    width = scores.shape[1]
    if width < k:
        return np.full(len(scores), -np.inf)
    return np.partition(scores, width - k, axis=1)[:, width - k].astype(np.float64)


def _as_floor(bounds: FloatArray) -> Vectors:
    """Return the bounds as floats, rounded down: rounding to the nearest could exclude a row."""
    floors: Vectors = np.nextafter(bounds.astype(np.float32), np.float32(-np.inf))
    return floors


def _lengths(vectors: Vectors) -> FloatArray:
    """Return the Euclidean length of each vector, in doubles."""
    doubles = vectors.astype(np.float64)
    lengths: FloatArray = np.sqrt((doubles * doubles).sum(axis=1))
    return lengths


def longest_of(vectors: Vectors) -> float:
    """Return the length of the longest vector; there must be at least one."""
    parts = (vectors[start : start + _BLOCK] for start in range(0, len(vectors), _BLOCK))
    return max(float(_lengths(part).max()) for part in parts)


def score_candidates(vectors: Vectors, query: Vectors, rows: IntArray) -> FloatArray:
    """Return the similarity of each of `rows` to a query, in doubles, of shape (rows,).

    Equal vectors have equal similarities, so that the document id decides between them.
    """
    similarities = np.empty(len(rows), dtype=np.float64)
    for start in range(0, len(rows), _BLOCK):  # in blocks: if all rows tie, all are candidates
        part = slice(start, start + _BLOCK)
        similarities[part] = dot_products(vectors[rows[part]], query)
    return similarities


DEFAULT_PROBES = 32
_PER_LIST = 39  # faiss warns where it learns a list from fewer vectors
_SEED = 1234  # of the clustering: the same vectors give the same lists


class InvertedFile:
    """Approximate search by faiss: sorts vectors into lists by the nearest centre.

    A query is compared with the vectors of its nearest lists only; documents in other lists are
    missed, and the retriever's scores show it. If vectors tie at the cut, faiss chooses. The same
    vectors always give the same lists.

    References:
        Jegou, Douze and Schmid (2011), Product Quantization for Nearest Neighbor Search, 4 (the
        inverted file; without its compression).
    """

    def __init__(self, vectors: Vectors, probes: int, file: Path | None = None) -> None:
        """Sort the vectors into lists, or map the lists of a file that `write` wrote.

        `probes` is the number of lists that are searched for a query. A file that cannot be read is
        a RuntimeError of faiss.
        """
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
        """Write the lists to a file; faiss raises RuntimeError if that fails."""
        import faiss

        faiss.write_index(self._index, str(file))

    def candidates(self, queries: Vectors, top_k: int) -> Iterator[IntArray]:
        """Yield for each query the rows of at most `top_k` near vectors, the nearest first."""
        import faiss

        count = min(top_k, self._index.ntotal)
        # from this many queries on, faiss uses a matrix product, whose rounding depends on its
        # shape: the hits of a query must not depend on the other queries of the call
        block = max(1, faiss.cvar.distance_compute_blas_threshold - 1)
        for start in range(0, len(queries), block):
            part = np.ascontiguousarray(queries[start : start + block])
            _, rows = self._index.search(part, count)
            for nearest in rows:
                yield nearest[nearest >= 0]  # faiss fills up with -1 if the lists have fewer
