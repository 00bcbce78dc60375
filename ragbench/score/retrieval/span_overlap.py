"""Overlap of retrieved passages with gold spans, in characters: chunkers compared on one gold.

A character counts once, however many passages hold it. The cut-off counts passages as they were
retrieved. Functions of one list are in `ragbench.score.retrieval.single`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from ragbench.score.retrieval import base, single
from ragbench.score.retrieval.base import Cutoff, RetrievedSpans
from ragbench.types import Cause, FloatArray

_measure = partial(
    base.measure,
    group="gold spans",
    range=(0.0, 1.0),
    reads="spans",
    # without a cut-off, a ranking of the whole corpus would have recall 1
    cutoff="required",
    nan_means=Cause.NO_GOLD_SPAN,
)


def _scores(
    of_one: Callable[..., float], retrieved: RetrievedSpans, k: Cutoff | None
) -> FloatArray:
    """Return the value of a function of one list for each query; NaN with an unplaced passage."""
    values = np.full(len(retrieved.passages), np.nan)
    for row, (spans, gold) in enumerate(zip(retrieved.passages, retrieved.gold, strict=True)):
        # cut before the check: a passage below rank k that cannot be placed does no harm
        first = spans[:k]
        # an unplaced passage may hold all of the gold or none: any number would be invented
        if gold and None not in first:
            values[row] = of_one(first, gold)
    return values


@_measure("span_recall")
def span_recall(retrieved: RetrievedSpans, *, k: Cutoff | None = None) -> FloatArray:
    """Compute the share of the gold characters that the first k passages hold.

    The value is NaN for a query without a gold span, or with one of the first k passages that
    cannot be placed. Without k all passages count.

    Returns:
        Array of shape (n,), values in [0, 1].

    Raises:
        OptionError: `k` is below 1.
        ValueError: The lists of passages and of gold spans have different lengths.

    Example:
        The passage holds 30 of 40 gold characters.

        >>> from ragbench.types import Span
        >>> spans = RetrievedSpans([[Span("d1", 0, 50)]], [[Span("d1", 20, 60)]])
        >>> span_recall(spans, k=5)
        array([0.75])

    References:
        Smith and Troynikov (2024), Evaluating Chunking Strategies for Retrieval. Chroma technical
        report: recall, of tokens.
    """
    return _scores(single.span_recall, retrieved, k)


@_measure("span_precision")
def span_precision(retrieved: RetrievedSpans, *, k: Cutoff | None = None) -> FloatArray:
    """Compute the share of the characters of the first k passages that are gold.

    It is 0 if they have no characters. The value is NaN for a query without a gold span, or with
    one of the first k passages that cannot be placed. In the report overlapping passages count
    twice in the divisor; here once. Without k all passages count.

    Returns:
        Array of shape (n,), values in [0, 1].

    Raises:
        OptionError: `k` is below 1.
        ValueError: The lists of passages and of gold spans have different lengths.

    Example:
        30 of 50 retrieved characters are gold.

        >>> from ragbench.types import Span
        >>> spans = RetrievedSpans([[Span("d1", 0, 50)]], [[Span("d1", 20, 60)]])
        >>> span_precision(spans, k=5)
        array([0.6])

    References:
        Smith and Troynikov (2024), as for `span_recall`: precision, of tokens.
    """
    return _scores(single.span_precision, retrieved, k)


@_measure("span_iou")
def span_iou(retrieved: RetrievedSpans, *, k: Cutoff | None = None) -> FloatArray:
    """Compute the characters that are both gold and retrieved over those that are either.

    The value is NaN for a query without a gold span, or with one of the first k passages that
    cannot be placed. Without k all passages count.

    Returns:
        Array of shape (n,), values in [0, 1].

    Raises:
        OptionError: `k` is below 1.
        ValueError: The lists of passages and of gold spans have different lengths.

    Example:
        30 characters are both, 60 are either.

        >>> from ragbench.types import Span
        >>> spans = RetrievedSpans([[Span("d1", 0, 50)]], [[Span("d1", 20, 60)]])
        >>> span_iou(spans, k=5)
        array([0.5])

    References:
        Jaccard (1912), The Distribution of the Flora in the Alpine Zone. New Phytologist 11.
        Smith and Troynikov (2024), as for `span_recall`: IoU, of tokens.
    """
    return _scores(single.span_iou, retrieved, k)
