"""Nugget recall: how many of the facts that matter an answer has."""

from __future__ import annotations

from collections.abc import Sequence


def nugget_recall(importances: Sequence[str], supports: Sequence[str]) -> float | None:
    """Return the share of vital nuggets that an answer supports in full.

    Args:
        importances: `vital` or `okay`, one for each nugget.
        supports: `support`, `partial_support` or `not_support`, one for each nugget.

    Returns:
        A number from 0 to 1; None where no nugget is vital. What is okay or supported in part does
        not count: this is the strict score that TREC ranks systems by.

    Example:
        >>> nugget_recall(["vital", "vital", "okay"], ["support", "partial_support", "support"])
        0.5

    References:
        Pradeep et al. (2024), Initial Nugget Evaluation Results for the TREC 2024 RAG Track.
    """
    vital = [
        support == "support"
        for importance, support in zip(importances, supports, strict=True)
        if importance == "vital"
    ]
    return sum(vital) / len(vital) if vital else None
