"""Statistics of agreement between a judge and people, and among people; correlations by level."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from ragbench.calibration.ratings import Ratings
from ragbench.records import certificate
from ragbench.records.codec import from_json
from ragbench.stats import agreement, correlation
from ragbench.stats.agreement import cohen_kappa, krippendorff_alpha
from ragbench.stats.resampling import Statistic
from ragbench.types import FloatArray


@dataclass(frozen=True, slots=True)
class _Row:
    """Row of the table of agreement: a statistic and its properties."""

    statistic: Statistic  # function of a table with two or more raters
    level: agreement.Level  # level of measurement
    on_levels: bool  # true: scores are rounded to levels first; False: they are taken unchanged
    low: float = -1.0  # smallest possible value; the largest is 1


# Name -> statistic of each pair of raters, of the judge and people alike.
_TABLE = {
    "raw": _Row(agreement.raw_agreement, "nominal", True, 0.0),
    certificate.KAPPA: _Row(cohen_kappa, "nominal", True),
    "kappa_linear": _Row(partial(cohen_kappa, weights="linear"), "interval", True),
    "kappa_quadratic": _Row(partial(cohen_kappa, weights="quadratic"), "interval", True),
    "alpha_nominal": _Row(partial(krippendorff_alpha, level="nominal"), "nominal", True),
    "alpha_ordinal": _Row(partial(krippendorff_alpha, level="ordinal"), "ordinal", True),
    "alpha_interval": _Row(partial(krippendorff_alpha, level="interval"), "interval", False),
    "pearson": _Row(correlation.pearson, "interval", False),
    "spearman": _Row(correlation.spearman, "ordinal", False),
    "kendall": _Row(correlation.kendall_tau_b, "ordinal", False),
}

_AUC = _Row(correlation.roc_auc, "ordinal", False, 0.0)
_COEFFICIENTS = ("pearson", "spearman", "kendall")
# statistics of any number of raters: people are compared all at once, not pair by pair
_ALPHAS = ("alpha_nominal", "alpha_ordinal", "alpha_interval")
_SLACK = 1e-9  # rounding error of a label that was scaled to 0..1


def judge_against_people(
    ratings: Ratings, *, good: float | None, confidence: float
) -> dict[str, certificate.AgreementResult]:
    """Return statistic -> agreement of the judge with each rater, averaged over the raters.

    Averages over single raters are comparable with those of `people_against_people`. `auc` is the
    area under the ROC curve of the judge's score for good answers: those with a label of at least
    `good`, a score from 0 to 1; None: above the middle. The keys are `raw`, `kappa`,
    `kappa_linear`, `kappa_quadratic`, `alpha_nominal`, `alpha_ordinal`, `alpha_interval`,
    `pearson`, `spearman`, `kendall` and `auc`. A statistic without a value is None, with its
    reason. Raises OptionError if confidence is outside (0, 1), IndexError without raters.
    """
    people, judge = ratings.people, ratings.judge
    is_good = people > 0.5 + _SLACK if good is None else people >= good - _SLACK
    # NaN compares as False: a missing label must not count as a bad answer
    goodness = np.where(np.isnan(people), np.nan, is_good)
    tables, means = _beside(judge, people), {}
    for name, row in _TABLE.items():
        means[name] = _mean(ratings, row, tables, confidence)
    means["auc"] = _mean(ratings, _AUC, _beside(judge, goodness), confidence)
    return means


def _beside(judge: FloatArray, people: FloatArray) -> list[FloatArray]:
    """Return a table of the judge and each rater: two columns, a row per answer."""
    return [np.column_stack((judge, column)) for column in people.T]


def level_agreement(
    ratings: Ratings, *, confidence: float
) -> dict[str, certificate.AgreementResult]:
    """Return `raw` and `kappa` of judge and people, averaged over the raters."""
    tables, means = _beside(ratings.judge, ratings.people), {}
    for name in ("raw", certificate.KAPPA):
        means[name] = _mean(ratings, _TABLE[name], tables, confidence)
    return means


def people_against_people(
    ratings: Ratings, *, confidence: float
) -> dict[str, certificate.AgreementResult]:
    """Return statistic -> agreement of each two raters, averaged over the pairs.

    No judge can be expected to agree better. Alpha is computed over all raters together. The result
    is empty if there is only one rater. The keys are `raw`, `kappa`, `kappa_linear`,
    `kappa_quadratic`, `alpha_nominal`, `alpha_ordinal`, `alpha_interval`, `pearson`, `spearman` and
    `kendall`. Raises OptionError if confidence is outside (0, 1).
    """
    people = ratings.people
    pairs = [np.column_stack(pair) for pair in itertools.combinations(people.T, 2)]
    if not pairs:
        return {}
    means = {}
    for name, row in _TABLE.items():
        tables = [people] if name in _ALPHAS else pairs
        means[name] = _mean(ratings, row, tables, confidence)
    return means


def correlations(ratings: Ratings, *, confidence: float) -> certificate.Correlations:
    """Correlate the judge's scores with the mean labels per item, per question and per system.

    Intervals treat queries as the sample for items and questions, and systems for systems.
    Coefficients have the keys `pearson`, `spearman` and `kendall`; a value is None, with its
    reason, where nothing can be ordered. Raises OptionError if confidence is outside (0, 1).
    """
    # rounded: means of equal labels in another order of summation would not tie
    people, judge = ratings.mean_labels.round(12), ratings.judge.round(12)
    table = np.column_stack((judge, people))
    # people first: a group in which both are constant counts as theirs
    people_first, by_question = table[:, ::-1], {}
    for name in _COEFFICIENTS:
        row = _TABLE[name]
        inside = correlation.mean_correlation(
            row.statistic, people_first, ratings.queries, row.level, confidence
        )
        by_question[name] = agreement_record(inside.mean)
    # means of the answers of each system, by its number
    _, codes, sizes = np.unique(
        [system for system, _ in ratings.keys], return_inverse=True, return_counts=True
    )
    sums = np.bincount(codes, weights=judge), np.bincount(codes, weights=people)
    means = (np.column_stack(sums) / sizes[:, np.newaxis]).round(12)

    def coefficients(table: FloatArray, **options: Any) -> dict[str, certificate.AgreementResult]:
        """Return the coefficients of correlation of scores and labels by name."""
        coefficients = {}
        for name in _COEFFICIENTS:
            coefficients[name] = _mean(ratings, _TABLE[name], [table], confidence, **options)
        return coefficients

    return certificate.Correlations(
        item=certificate.CorrelationLevel(
            unit="answers",
            n=len(ratings.keys),
            coefficients=coefficients(table),
        ),
        question=certificate.CorrelationLevel(
            unit="queries",
            # all coefficients leave out the same queries
            n=inside.mean.n,
            constant_people=inside.constant_x,
            constant_judge=inside.constant_y,
            single=inside.single,
            coefficients=by_question,
        ),
        system=certificate.CorrelationLevel(
            unit="systems",
            n=len(sizes),
            coefficients=coefficients(means, groups=None, rare=False),
        ),
    )


def _mean(
    ratings: Ratings, row: _Row, tables: Sequence[FloatArray], confidence: float, **options: Any
) -> certificate.AgreementResult:
    """Return the mean of a statistic over tables of raters."""
    if row.on_levels and not ratings.scale.levels:
        n = int(np.count_nonzero(np.isfinite(ratings.people).any(axis=1)))
        why = f"the scale {ratings.scale} has no levels"
        nan = np.nan
        return agreement_record(agreement.Agreement(nan, nan, nan, n, row.level, "undefined", why))
    if row.on_levels:
        tables = [ratings.scale.nearest_levels(table) for table in tables]
    options = {"groups": ratings.queries, **options, "confidence": confidence}
    span = (row.low, 1.0)
    return agreement_record(
        agreement.mean_agreement(row.statistic, tables, level=row.level, span=span, **options)
    )


def agreement_record(result: agreement.Agreement) -> certificate.AgreementResult:
    """Return an agreement as a record of the certificate."""
    return from_json(certificate.AgreementResult, result.to_dict())
