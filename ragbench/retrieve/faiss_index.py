"""The vectors that are probably nearest to a query's, by an inverted file of faiss."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from ragbench.embed.checkpoint import need_packages
from ragbench.types import IntArray

if TYPE_CHECKING:
    from ragbench.embed.base import Vectors

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

    def __init__(self, vectors: Vectors, probes: int, owner: str) -> None:
        """Learn the centres and sort the vectors.

        Args:
            vectors: Shape (n, d), n > 0.
            probes: How many lists are searched.
            owner: How messages name what needs faiss.

        Raises:
            MissingExtra: faiss is not installed.
        """
        check_faiss(owner)
        import faiss

        count, width = vectors.shape
        # 4 sqrt(n) lists, as the manual of faiss says for up to a million vectors
        lists = max(1, min(int(4 * math.sqrt(count)), count // _PER_LIST))
        self._centres = faiss.IndexFlatIP(width)  # the index does not keep it alive by itself
        self._index = faiss.IndexIVFFlat(self._centres, width, lists, faiss.METRIC_INNER_PRODUCT)
        self._index.cp.seed = _SEED
        self._index.cp.min_points_per_centroid = 1
        self._index.nprobe = min(probes, lists)
        self._index.train(vectors)
        self._index.add(vectors)

    def candidates(self, queries: Vectors, top_k: int) -> Iterator[IntArray]:
        """Yield for each query the rows of the nearest vectors that were found."""
        wanted = min(top_k, self._index.ntotal)
        _, rows = self._index.search(np.ascontiguousarray(queries), wanted)
        for found in rows:
            yield found[found >= 0]  # -1 where the lists held fewer


def check_faiss(owner: str) -> None:
    """See whether faiss is there, before anything is encoded.

    Raises:
        MissingExtra: It is not installed.
    """
    need_packages(owner, "faiss", {"faiss": "faiss-cpu"})
