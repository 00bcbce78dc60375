"""Sign flips of paired differences: what both randomization tests are computed from.

A flip is a 0 or 1 per query; 1 changes the sign of its difference. Flips of all queries reach
all columns of a table at once, by one matrix product per block.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ragbench.types import FloatArray

EXACT_UP_TO = 14
"""With at most this many queries to flip, all 2^14 = 16,384 flips are enumerated."""

_BLOCK_BYTES = 32 * 2**20
_TIE = 1e-12


def random_flips(differences: FloatArray, resamples: int, seed: int) -> Iterator[FloatArray]:
    """Yield blocks (rows, m) of column sums under random flips of the n rows of differences.

    The flips depend on n and the seed alone, neither on the columns nor on the size of the
    blocks: a column has the same p-value in whatever company it is tested.
    """
    n, m = differences.shape
    rng = np.random.default_rng(seed)
    words = -(-n // 64)
    rows = max(1, _BLOCK_BYTES // (8 * (n + 2 * m + 1)))
    for start in range(0, resamples, rows):
        size = (min(rows, resamples - start), words)
        drawn = rng.integers(0, 2**64, size=size, dtype=np.uint64).astype("<u8", copy=False)
        flips = np.unpackbits(drawn.view(np.uint8), axis=1, count=n)
        yield _flipped_sums(flips, differences)


def all_flips(differences: FloatArray) -> Iterator[FloatArray]:
    """Yield blocks (rows, m) of column sums under each of the 2^n flips of n rows."""
    n, m = differences.shape
    rows = max(1, _BLOCK_BYTES // (8 * (n + 2 * m + 1)))
    for start in range(0, 2**n, rows):
        numbers = np.arange(start, min(start + rows, 2**n))
        yield _flipped_sums((numbers[:, np.newaxis] >> np.arange(n)) & 1, differences)


def tolerance(differences: FloatArray) -> FloatArray:
    """Give how much rounding may move a sum of each column: ties within it count as ties.

    Without it tied flips are lost to rounding, and p is too small for every seed.
    """
    slack: FloatArray = _TIE * np.abs(differences).sum(axis=0)
    return slack


def _flipped_sums(flips: np.ndarray, differences: FloatArray) -> FloatArray:
    sums: FloatArray = flips.astype(np.float64) @ differences
    sums *= -2.0
    sums += differences.sum(axis=0)
    return sums
