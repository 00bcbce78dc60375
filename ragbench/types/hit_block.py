"""Some queries of a run with all their hits, as a file holds them: what streams are made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ragbench.types.byte_ids import ByteIds


@dataclass(frozen=True, eq=False)
class HitBlock:
    """Whole queries, a row per hit, the rows of a query together.

    A document may be there twice: whoever ranks the block counts it once, at its best score.
    """

    query_ids: Sequence[bytes]
    """The queries; row i of query q lies between starts[q] and starts[q + 1]."""
    starts: NDArray[np.int64]
    """Shape (n queries + 1,): where each query's rows start; no query is empty."""
    documents: ByteIds
    """The document of every row."""
    scores: NDArray[np.float64]
    """The score of every row; never NaN."""

    def __len__(self) -> int:
        return len(self.scores)

    def first(self, n_queries: int) -> HitBlock:
        """Return the first queries alone."""
        rows = slice(0, int(self.starts[n_queries]))
        documents = self.documents
        return HitBlock(
            self.query_ids[:n_queries],
            self.starts[: n_queries + 1],
            ByteIds(documents.data, documents.starts[rows], documents.lengths[rows]),
            self.scores[rows],
        )
