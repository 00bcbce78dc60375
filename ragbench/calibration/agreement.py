"""How well a judge agrees with people, and people with each other."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from ragbench.calibration.labels import Ratings
from ragbench.calibration.scale import Scale
from ragbench.records.certificate import Confusion
from ragbench.stats.agreement import Agreement, Level, mean_agreement, raw_share
from ragbench.stats.jackknife import Statistic
from ragbench.stats.kappa import confusion_table, kappa
from ragbench.stats.krippendorff import alpha
from ragbench.stats.rank_correlation import rank_rho, rank_tau, roc_area

if TYPE_CHECKING:
    from ragbench.types import FloatArray


@dataclass(frozen=True, slots=True)
class _Row:
    """One line of the table."""

    statistic: Statistic
    level: Level
    on_levels: bool
    """Whether scores are put on the nearest level first; else they are taken as they are."""
    low: float = -1.0


_TABLE = {
    "raw": _Row(raw_share, "nominal", True, 0.0),
    "kappa": _Row(kappa, "nominal", True),
    "kappa_linear": _Row(partial(kappa, weights="linear"), "interval", True),
    "kappa_quadratic": _Row(partial(kappa, weights="quadratic"), "interval", True),
    "alpha_nominal": _Row(partial(alpha, level="nominal"), "nominal", True),
    "alpha_ordinal": _Row(partial(alpha, level="ordinal"), "ordinal", True),
    "alpha_interval": _Row(partial(alpha, level="interval"), "interval", False),
    "spearman": _Row(rank_rho, "ordinal", False),
    "kendall": _Row(rank_tau, "ordinal", False),
}
"""What is computed for each pair of raters, judge or people."""

_ALPHAS = ("alpha_nominal", "alpha_ordinal", "alpha_interval")


def judge_against_people(
    ratings: Ratings, *, good: float | None, confidence: float
) -> dict[str, Agreement]:
    """Compare the judge with each rater and average over the raters.

    So the numbers can be laid beside those of the raters among each other. `auc` is how well the
    judge's score tells answers that a rater finds good from the others.

    Args:
        ratings: What both said.
        good: Score from 0 to 1 from which a label is good; None: above the middle.
        confidence: Coverage of the intervals.
    """
    pairs = [(ratings.judge, column) for column in ratings.people.T]
    found = _compare(ratings, pairs, confidence)
    halves = [
        np.column_stack((ratings.judge, np.where(np.isnan(column), np.nan, _good(column, good))))
        for column in ratings.people.T
    ]
    found["auc"] = mean_agreement(
        roc_area,
        halves,
        level="ordinal",
        span=(0.0, 1.0),
        groups=ratings.queries,
        confidence=confidence,
    )
    return found


def people_against_people(ratings: Ratings, *, confidence: float) -> dict[str, Agreement]:
    """Compare each two raters and average: no judge can be expected to do better.

    Alpha is that of all raters together. Empty where there is one rater.
    """
    if len(ratings.raters) < 2:
        return {}
    pairs = list(itertools.combinations(ratings.people.T, 2))
    found = _compare(ratings, pairs, confidence)
    if len(pairs) > 1:
        found |= {
            name: _one(ratings, _TABLE[name], [ratings.people], confidence) for name in _ALPHAS
        }
    return found


def confusion(ratings: Ratings) -> Confusion:
    """Count the labels of all raters (rows) by the judge's level (columns)."""
    levels = ratings.scale.levels
    if not levels:
        return Confusion(levels=(), counts=())
    judge = ratings.scale.nearest_levels(ratings.judge)
    counts = sum(
        confusion_table(ratings.scale.nearest_levels(column), judge, levels)
        for column in ratings.people.T
    )
    return Confusion(levels=levels, counts=tuple(map(tuple, np.asarray(counts).tolist())))


def good_from(scale: Scale, good: float | None) -> str:
    """Say which labels count as good, in words."""
    if good is not None:
        return f"labels from {good:g} on"
    return f"labels beyond {(scale.low + scale.high) / 2:g}"


def _good(column: FloatArray, good: float | None) -> FloatArray:
    slack = 1e-9
    is_good = column >= good - slack if good is not None else column > 0.5 + slack
    return np.asarray(is_good, dtype=np.float64)


def _compare(
    ratings: Ratings, pairs: Sequence[tuple[FloatArray, FloatArray]], confidence: float
) -> dict[str, Agreement]:
    tables = [np.column_stack(pair) for pair in pairs]
    return {name: _one(ratings, row, tables, confidence) for name, row in _TABLE.items()}


def _one(ratings: Ratings, row: _Row, tables: Sequence[FloatArray], confidence: float) -> Agreement:
    if row.on_levels and not ratings.scale.levels:
        n = int(np.count_nonzero(np.isfinite(ratings.people).any(axis=1)))
        why = f"the scale {ratings.scale} has no levels"
        return Agreement(np.nan, np.nan, np.nan, n, row.level, "undefined", why)
    placed = [ratings.scale.nearest_levels(table) for table in tables] if row.on_levels else tables
    return mean_agreement(
        row.statistic,
        placed,
        level=row.level,
        span=(row.low, 1.0),
        groups=ratings.queries,
        confidence=confidence,
    )
