"""Agreement and correlation of a judge with people, and of people with each other."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from ragbench.calibration.labels import Ratings
from ragbench.records.certificate import (
    KAPPA,
    AgreementFound,
    Confusion,
    CorrelationLevel,
    Correlations,
)
from ragbench.records.codec import from_json
from ragbench.stats import correlation
from ragbench.stats.agreement import (
    Agreement,
    Level,
    alpha,
    confusion_table,
    kappa,
    mean_agreement,
    raw_share,
)
from ragbench.stats.resampling import Statistic
from ragbench.types import FloatArray


@dataclass(frozen=True, slots=True)
class _Row:
    """Row of the table of agreement: a statistic and its properties.

    Attributes:
        statistic: Function of a table with two or more raters.
        level: Level of measurement.
        on_levels: True: scores are rounded to levels first; False: they are taken unchanged.
        low: Smallest possible value; the largest is 1.
    """

    statistic: Statistic
    level: Level
    on_levels: bool
    low: float = -1.0

    def mean(self, tables: Sequence[FloatArray], **options: Any) -> AgreementFound:
        """Return the mean of the statistic over tables; options are those of `mean_agreement`.

        Limits are None where the interval is undefined. IndexError without tables.
        """
        span = (self.low, 1.0)
        return _record(
            mean_agreement(self.statistic, tables, level=self.level, span=span, **options)
        )


# Name -> statistic of each pair of raters, of the judge and people alike.
_TABLE = {
    "raw": _Row(raw_share, "nominal", True, 0.0),
    KAPPA: _Row(kappa, "nominal", True),
    "kappa_linear": _Row(partial(kappa, weights="linear"), "interval", True),
    "kappa_quadratic": _Row(partial(kappa, weights="quadratic"), "interval", True),
    "alpha_nominal": _Row(partial(alpha, level="nominal"), "nominal", True),
    "alpha_ordinal": _Row(partial(alpha, level="ordinal"), "ordinal", True),
    "alpha_interval": _Row(partial(alpha, level="interval"), "interval", False),
    "pearson": _Row(correlation.product_moment, "interval", False),
    "spearman": _Row(correlation.rank_rho, "ordinal", False),
    "kendall": _Row(correlation.rank_tau, "ordinal", False),
}

_AUC = _Row(correlation.roc_area, "ordinal", False, 0.0)
_COEFFICIENTS: tuple[correlation.Coefficient, ...] = ("pearson", "spearman", "kendall")
# statistics of any number of raters: people are compared all at once, not pair by pair
_ALPHAS = ("alpha_nominal", "alpha_ordinal", "alpha_interval")
_SLACK = 1e-9  # rounding error of a label that was scaled to 0..1


def judge_against_people(
    ratings: Ratings, *, good: float | None, confidence: float
) -> dict[str, AgreementFound]:
    """Return statistic -> agreement of the judge with each rater, averaged over the raters.

    Averages over single raters are comparable with those of `people_against_people`. `auc` is the
    area under the ROC curve of the judge's score for good answers: those with a label of at least
    `good`, a score from 0 to 1; None: above the middle. The keys are `raw`, `kappa`,
    `kappa_linear`, `kappa_quadratic`, the three alphas, `pearson`, `spearman`, `kendall` and `auc`.
    A statistic without a value is None, with its reason. OptionError if confidence is outside (0,
    1).
    """
    people, judge = ratings.people, ratings.judge
    is_good = people > 0.5 + _SLACK if good is None else people >= good - _SLACK
    # NaN compares as False: a missing label must not count as a bad answer
    goodness = np.where(np.isnan(people), np.nan, is_good)
    halves = [np.column_stack((judge, column)) for column in goodness.T]
    tables = [np.column_stack((judge, column)) for column in people.T]
    return {
        **{name: _mean(ratings, row, tables, confidence) for name, row in _TABLE.items()},
        "auc": _mean(ratings, _AUC, halves, confidence),
    }


def people_against_people(ratings: Ratings, *, confidence: float) -> dict[str, AgreementFound]:
    """Return statistic -> agreement of each two raters, averaged over the pairs.

    No judge can be expected to agree better. Alpha is computed over all raters together. Empty if
    there is only one rater. The keys are those of `judge_against_people` without `auc`. OptionError
    if confidence is outside (0, 1).
    """
    people = ratings.people
    pairs = [np.column_stack(pair) for pair in itertools.combinations(people.T, 2)]
    if not pairs:
        return {}
    return {
        name: _mean(ratings, row, [people] if name in _ALPHAS else pairs, confidence)
        for name, row in _TABLE.items()
    }


def correlations(ratings: Ratings, *, confidence: float) -> Correlations:
    """Correlate the judge's scores with the mean labels per item, per question and per system.

    Intervals treat queries as the sample for items and questions, and systems for systems.
    Coefficients have the keys `pearson`, `spearman` and `kendall`; a value is None, with its
    reason, where nothing can be ordered. OptionError if confidence is outside (0, 1).
    """
    # rounded: means of equal labels in another order of summation would not tie
    people, judge = ratings.mean_labels.round(12), ratings.judge.round(12)
    table = np.column_stack((judge, people))
    grouped = {
        name: correlation.mean_correlation(
            people, judge, ratings.queries, coefficient=name, confidence=confidence
        )
        for name in _COEFFICIENTS
    }
    inside = next(iter(grouped.values()))  # all coefficients leave out the same queries
    # means of the answers of each system, by its number
    _, codes, sizes = np.unique(
        [system for system, _ in ratings.keys], return_inverse=True, return_counts=True
    )
    means = np.column_stack(
        [(np.bincount(codes, weights=of) / sizes).round(12) for of in (judge, people)]
    )
    return Correlations(
        item=CorrelationLevel(
            unit="answers",
            n=len(ratings.keys),
            coefficients={
                name: _mean(ratings, _TABLE[name], [table], confidence) for name in _COEFFICIENTS
            },
        ),
        question=CorrelationLevel(
            unit="queries",
            n=inside.mean.n,
            constant_people=inside.constant_x,
            constant_judge=inside.constant_y,
            single=inside.single,
            coefficients={name: _record(of.mean) for name, of in grouped.items()},
        ),
        system=CorrelationLevel(
            unit="systems",
            n=len(sizes),
            coefficients={
                name: _TABLE[name].mean([means], confidence=confidence, rare=False)
                for name in _COEFFICIENTS
            },
        ),
    )


def confusion(ratings: Ratings) -> Confusion:
    """Count the labels of all raters (rows) by the judge's level (columns).

    Empty if the scale has no levels; other labels are rounded to the nearest level. Levels rise
    from `low` to `high` of the scale.
    """
    levels = ratings.scale.levels
    if not levels:
        return Confusion(levels=(), counts=())
    judge = ratings.scale.nearest_levels(ratings.judge)
    counts = sum(
        confusion_table(ratings.scale.nearest_levels(column), judge, levels)
        for column in ratings.people.T
    )
    return Confusion(levels=levels, counts=tuple(map(tuple, np.asarray(counts).tolist())))


def _mean(
    ratings: Ratings, row: _Row, tables: Sequence[FloatArray], confidence: float
) -> AgreementFound:
    """Return the mean of a statistic over tables of raters; undefined if it needs levels.

    The queries are the groups of the interval.
    """
    if row.on_levels and not ratings.scale.levels:
        n = int(np.count_nonzero(np.isfinite(ratings.people).any(axis=1)))
        why = f"the scale {ratings.scale} has no levels"
        return _record(Agreement(np.nan, np.nan, np.nan, n, row.level, "undefined", why))
    placed = [ratings.scale.nearest_levels(table) for table in tables] if row.on_levels else tables
    return row.mean(placed, groups=ratings.queries, confidence=confidence)


def _record(agreement: Agreement) -> AgreementFound:
    return from_json(AgreementFound, agreement.to_dict())
