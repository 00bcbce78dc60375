"""Texts that are longer than a model can read, counted and said in one voice."""

from __future__ import annotations

from collections.abc import Sequence


def count_longer(lengths: Sequence[int], limit: int | None) -> int:
    """Return how many texts have more tokens than the model reads; None is any number.

    Example:
        >>> count_longer([3, 64, 65], 64), count_longer([3, 64, 65], None)
        (1, 0)
    """
    return 0 if limit is None else sum(length > limit for length in lengths)


def truncation_notes(
    count: int, total: int, noun: str, limit: int | None, lost: str, model: str = "the model"
) -> list[str]:
    """Say how many texts are too long, and what that costs; nothing where none is.

    Example:
        >>> truncation_notes(412, 5183, "documents", 256, "; their end is not searched")
        ['412 of 5,183 documents are longer than the 256 tokens that the model reads; their end is
        not searched']
    """
    if not count:
        return []
    longer = f"{count:,} of {total:,} {noun} are longer than the {limit} tokens that {model} reads"
    return [f"{longer}{lost}"]
