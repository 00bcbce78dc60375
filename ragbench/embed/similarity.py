"""Dot products of vectors, each the same whatever it is computed beside."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ragbench.embed.base import Vectors
    from ragbench.types import FloatArray

_ROWS = 4096  # vectors that are doubles at a time


def dot_products(vectors: Vectors, vector: Vectors) -> FloatArray:
    """Return the dot product of each row with a vector, in doubles.

    Products of floats are exact in doubles, and a row's sum is taken in one order whatever the
    other rows are: equal rows have equal values, which a matrix product does not promise.

    Args:
        vectors: Shape (n, d).
        vector: Shape (d,).

    Returns:
        Shape (n,).

    Example:
        >>> import numpy as np
        >>> dot_products(np.eye(2, dtype=np.float32), np.array([3, 4], dtype=np.float32))
        array([3., 4.])
    """
    import numpy as np

    found = np.empty(len(vectors), dtype=np.float64)
    doubles = vector.astype(np.float64)
    for start in range(0, len(vectors), _ROWS):
        products = vectors[start : start + _ROWS] * doubles
        found[start : start + _ROWS] = products.sum(axis=1)
    return found


def normalize_rows(vectors: Vectors) -> None:
    """Give each row the length 1, in place; a row of zeros stays.

    Example:
        >>> import numpy as np
        >>> vectors = np.array([[3, 4], [0, 0]], dtype=np.float32)
        >>> normalize_rows(vectors)
        >>> vectors.tolist()
        [[0.6000000238418579, 0.800000011920929], [0.0, 0.0]]
    """
    import numpy as np

    for start in range(0, len(vectors), _ROWS):
        block = vectors[start : start + _ROWS].astype(np.float64)
        lengths = np.sqrt((block * block).sum(axis=1, keepdims=True))
        vectors[start : start + _ROWS] = block / np.where(lengths > 0, lengths, 1.0)
