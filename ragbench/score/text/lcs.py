"""Longest common subsequences, 64 or more table cells per step.

A row of the dynamic-programming table is one integer: bit j is set where the length does not
grow at token j of the second text (Hyyro 2004, after Crochemore et al. 2001).
"""

from __future__ import annotations

from collections.abc import Sequence


def lcs_length(first: Sequence[str], second: Sequence[str]) -> int:
    """Return the length of the longest common subsequence.

    Example:
        >>> lcs_length("the cat sat here".split(), "the sat cat".split())
        2
    """
    masks = _masks(second)
    row = full = (1 << len(second)) - 1
    for mask in filter(None, map(masks.get, first)):
        matched = row & mask
        row = (row + matched) | (row - matched)
    return len(second) - (row & full).bit_count()


def lcs_positions(first: Sequence[str], second: Sequence[str]) -> list[int]:
    """Return the positions in `first` of one longest common subsequence, last one first.

    Of several, it is the one that rouge-score's walk back through its table finds: from the end,
    where the tokens differ, go back in `second` if that keeps more than going back in `first`.
    """
    masks = _masks(second)
    full = (1 << len(second)) - 1
    row, rows = full, [full]
    for token in first:
        matched = row & masks.get(token, 0)
        row = ((row + matched) | (row - matched)) & full
        rows.append(row)

    positions = []
    i, j = len(first), len(second)
    length = j - row.bit_count()
    while i and j:
        if first[i - 1] == second[j - 1]:
            i, j = i - 1, j - 1
            positions.append(i)
            length -= 1
        elif rows[i] >> (j - 1) & 1 and _length(rows[i - 1], j) < length:
            j -= 1
        else:
            i -= 1
    return positions


def _masks(tokens: Sequence[str]) -> dict[str, int]:
    """For each token, the bits of the positions where it stands."""
    masks: dict[str, int] = {}
    bits = map((1).__lshift__, range(len(tokens)))
    for token, bit in zip(tokens, bits, strict=True):
        if token in masks:
            masks[token] |= bit
        else:
            masks[token] = bit
    return masks


def _length(row: int, j: int) -> int:
    """The table's value in the first j columns of a row."""
    return j - (row & ((1 << j) - 1)).bit_count()
