"""Batches of texts of similar length, so that little of a batch is padding."""

from __future__ import annotations

from collections.abc import Iterator, Sequence


def bucketed(lengths: Sequence[int], budget: int, most: int | None = None) -> Iterator[list[int]]:
    """Group positions by length, longest first.

    The longest come first, so that a batch which does not fit into memory fails at the start.

    Args:
        lengths: Tokens of each text.
        budget: Tokens of a batch, padding included; a longer text is a batch of its own.
        most: Texts of a batch; None leaves that to the budget.

    Example:
        >>> list(bucketed([2, 9, 3, 3], budget=8))
        [[1], [2, 3], [0]]
    """
    batch: list[int] = []
    longest = 0
    for position in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        full = (len(batch) + 1) * longest > budget or len(batch) == most
        if batch and full:
            yield batch
            batch = []
        if not batch:
            longest = max(lengths[position], 1)
        batch.append(position)
    if batch:
        yield batch
