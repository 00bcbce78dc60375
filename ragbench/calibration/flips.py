"""How often a judge that is asked twice gives another level."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ragbench.calibration.scale import Scale
from ragbench.stats.agreement import FEWEST, raw_agreement
from ragbench.stats.mean import mean_interval

if TYPE_CHECKING:
    from ragbench.types import FloatArray


def flips(
    first: FloatArray,
    second: FloatArray,
    queries: Sequence[str],
    scale: Scale,
    *,
    confidence: float,
) -> dict[str, Any]:
    """Compare the scores of two askings about the same n answers; n is at least 1.

    Args:
        first: Scores from 0 to 1.
        second: Scores of the same answers.
        queries: The query of each: answers to one query vary together.
        scale: Its levels are compared; the scores themselves where it has none.
        confidence: Coverage of the interval.

    Returns:
        `flip_rate`, the share that differs, with `flip_interval`, null where there are too few
        queries for one; `mean_difference`, the mean absolute difference of the scores; `unit`.
    """
    levels = [scale.nearest_levels(side) if scale.levels else side for side in (first, second)]
    flipped = levels[0] != levels[1]
    return {
        "flip_rate": float(np.mean(flipped)),
        "flip_interval": _interval(levels, queries, confidence),
        "mean_difference": float(np.abs(first - second).mean()),
        "unit": "level" if scale.levels else "score",
    }


def _interval(
    levels: Sequence[FloatArray], queries: Sequence[str], confidence: float
) -> list[float] | None:
    """The limits of the flip rate over the queries; None where there are too few."""
    same = raw_agreement(*levels, groups=list(queries), confidence=confidence)
    if same.rule != "undefined":
        return [1 - same.upper, 1 - same.lower]
    if same.value > 0 or same.n < FEWEST:
        return None
    # all differ: nothing varies that could be left out, but a share of hits still has its limits
    hits = mean_interval(np.ones(len(set(queries))), confidence=confidence)
    return [hits.lower, hits.upper]
