"""N-grams that two texts share, for many pairs of texts at once.

The longest n-gram that starts at each place becomes one integer: the pair in its high bits, then
one symbol after the other. One sort of these brings equal n-grams of a pair together, for every
n, since the shorter ones are prefixes of the longer.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    import numpy as np

    from ragbench.types import IntArray

Text = TypeVar("Text", bound=Sequence[str])

_BITS = 63
_BLOCK = 65_536  # symbols; more do not fit into the cache of a core, which doubles the time
_SPARSE = 16  # table entries per symbol; above, sorting the symbols is faster than a table


def shared_ngrams(pairs: Sequence[tuple[Text, Text]], order: int) -> Iterator[list[int] | None]:
    """Count the n-grams that the two texts of a pair share, each at most as often as both have it.

    Args:
        pairs: Texts as strings, whose symbols are characters, or as lists of tokens.
        order: The longest n.

    Yields:
        For each pair in order its counts for n = 1 to `order`; None where it has too many different
        symbols for n-grams of this length to be one integer.

    Example:
        `an` occurs in both twice, `ba` and `na` once.

        >>> list(shared_ngrams([("banana", "bandana"), ("", "a")], 3))
        [[6, 4, 2], [0, 0, 0]]
    """
    sizes = [len(first) + len(second) for first, second in pairs]
    start = total = 0
    for end, size in enumerate(sizes, start=1):
        total += size
        if total >= _BLOCK or end == len(sizes):
            yield from _count(pairs[start:end], order)
            start, total = end, 0


def _count(pairs: Sequence[tuple[Text, Text]], order: int) -> list[list[int] | None]:
    """Count in one block; in halves of it where its alphabet is too large."""
    counts = _count_block(pairs, order)
    if counts is not None:
        return list(counts.T.tolist())
    if len(pairs) == 1:
        return [None]
    middle = len(pairs) // 2
    return _count(pairs[:middle], order) + _count(pairs[middle:], order)


def _count_block(pairs: Sequence[tuple[Text, Text]], order: int) -> IntArray | None:
    import numpy as np

    lengths = np.array([(len(first), len(second)) for first, second in pairs]).reshape(-1)
    symbols, alphabet = _compact(_symbols(pairs))
    bits = alphabet.bit_length()
    if bits * order + len(pairs).bit_length() + 1 > _BITS:
        return None
    sides = np.arange(len(lengths))
    left = np.repeat(lengths.cumsum(), lengths) - np.arange(len(symbols))  # to the end of the text
    keys = np.repeat(sides >> 1, lengths)
    for n in range(order):
        keys <<= bits
        keys |= np.where(left > n, np.roll(symbols, -n), 0)
    keys = (keys << 1) | np.repeat(sides & 1, lengths)
    keys.sort()
    return _count_runs(keys, bits, order, len(pairs))


def _count_runs(keys: IntArray, bits: int, order: int, n_pairs: int) -> IntArray:
    """Count what both sides have in each run of equal n-grams, from the longest n to the first."""
    import numpy as np

    counts = np.zeros((order, n_pairs), dtype=np.int64)
    if not len(keys):
        return counts
    second, keys = keys & 1, keys >> 1
    for n in range(order, 0, -1):
        starts = np.flatnonzero(np.concatenate(([True], keys[1:] != keys[:-1])))
        ngrams = keys[starts]
        in_second = np.add.reduceat(second, starts)
        both = np.minimum(in_second, np.diff(starts, append=len(keys)) - in_second)
        both[ngrams & ((1 << bits) - 1) == 0] = 0  # the text ends before the n-gram does
        counts[n - 1] = np.bincount(ngrams >> (bits * n), weights=both, minlength=n_pairs)
        keys >>= bits
    return counts


def _symbols(pairs: Sequence[tuple[Text, Text]]) -> np.ndarray:
    """Every symbol of every text as a number, the same for the same symbol."""
    import numpy as np

    texts = list(itertools.chain.from_iterable(pairs))
    if isinstance(texts[0], str):
        joined = "".join(itertools.chain.from_iterable(texts))
        return np.frombuffer(joined.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
    numbers: dict[str, int] = {}
    tokens = itertools.chain.from_iterable(texts)
    return np.array([numbers.setdefault(token, len(numbers)) for token in tokens], dtype=np.int64)


def _compact(symbols: np.ndarray) -> tuple[IntArray, int]:
    """Number the symbols that occur from 1 on; 0 is left for what comes after a text's end."""
    import numpy as np

    if not len(symbols):
        return np.zeros(0, dtype=np.int64), 0
    top = int(symbols.max())
    if top > _SPARSE * len(symbols):
        known, numbered = np.unique(symbols, return_inverse=True)
        return numbered.astype(np.int64) + 1, len(known)
    seen = np.zeros(top + 1, dtype=bool)
    seen[symbols] = True
    numbers = seen.cumsum(dtype=np.int64)
    return numbers[symbols], int(numbers[-1])
