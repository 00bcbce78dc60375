"""Stratified prediction-powered inference: labels with unequal probabilities correct a judge."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ragbench.errors import OptionError, Phrase
from ragbench.stats import arguments
from ragbench.stats.mean import FEWEST_LABELS, CorrectedMean
from ragbench.stats.student import t_quantile
from ragbench.types import FloatArray

Strata = NDArray[np.int64]

# Part of the labels that every stratum gets by its size alone, whatever its spread is expected to
# be: a judge that is sure and wrong costs at most 1 / sqrt(0.2) of the width of a uniform draw.
_UNIFORM_PART = 0.2
# Fewest labels of a stratum: the spread of two labels says little.
_FEWEST_IN_STRATUM = 3

# A judge that claims to be certain is expected to err in 2 % of its verdicts.
_LEAST_SPREAD = 0.02

_ROUNDING = 1e-15  # variance of scores that are equal but for rounding errors


def allocate_labels(sizes: ArrayLike, spreads: ArrayLike, n: int) -> Strata:
    """Divide n labels among strata: a part by size, the rest by size times spread (Neyman).

    Args:
        sizes: Number of items of each stratum, above 0.
        spreads: Expected standard deviation of the labels in each stratum, 0 or more; if all are 0,
            the labels go by size alone.
        n: Labels to divide.

    Returns:
        Labels of each stratum, n in all: at least three, or all items of a smaller stratum.

    Raises:
        OptionError: n is too small for that, or above the number of items; or sizes or spreads are
            no vector of finite numbers.
        ValueError: sizes and spreads have different lengths.

    Example:
        The judge is unsure about a quarter of the items, which gets 55 % of the labels.

        >>> allocate_labels([75, 25], [0.1, 0.5], 40)
        array([18, 22])

    References:
        Neyman (1934), On the two different aspects of the representative method.
    """
    size = arguments.sample("allocate_labels", "sizes", sizes)
    spread = arguments.sample("allocate_labels", "spreads", spreads)
    least = np.minimum(size, _FEWEST_IN_STRATUM)
    if not least.sum() <= n <= size.sum():
        allowed = f"{least.sum():.0f} to {size.sum():.0f} labels"
        raise OptionError("allocate_labels", "n", n, allowed)
    by_size = size / size.sum()
    by_spread = size * spread / (size @ spread) if spread.any() else by_size
    share = _UNIFORM_PART * by_size + (1 - _UNIFORM_PART) * by_spread
    counts = np.clip(np.floor(share * n), least, size)
    while counts.sum() != n:
        # one label at a time, to or from the stratum that is farthest from its share
        step = 1 if counts.sum() < n else -1
        is_free = counts < size if step > 0 else counts > least
        gap = np.where(is_free, step * (share * n - counts), -math.inf)
        counts[gap.argmax()] += step
    whole: Strata = counts.astype(np.int64)
    return whole


def stratified_ppi_mean(
    labels: ArrayLike,
    judged: ArrayLike,
    strata: ArrayLike,
    *,
    range: tuple[float, float] = (-math.inf, math.inf),
    confidence: float = 0.95,
) -> CorrectedMean:
    """Estimate the mean label of all items from labels that were drawn at random in each stratum.

    Sum over the strata of N_h / N (lambda mean of the judge + mean of (label - lambda judge) over
    the labelled items): the difference estimator, whose weights are N_h / n_h, one over the
    probability of an item. For any fixed lambda it is unbiased. Lambda makes the variance smallest
    (power tuning), estimated from the same data; with one stratum it is that of PPI++.

    The interval is Student's t with Satterthwaite's degrees of freedom. The spread in a stratum is
    at least a mixture of that of its labels and that which the scores of the judge imply, score
    times (1 - score), since rare errors of a sure judge are in none of few labels.

    Args:
        labels: n labels of people; NaN for an item without a label.
        judged: n scores of the judge; those of 0 to 1 say how sure it is.
        strata: Number of the stratum of each item. The labelled items of a stratum must be a random
            draw from it.
        range: Smallest and largest possible label; mean and limits are kept inside.
        confidence: Coverage that is aimed at.

    Returns:
        The corrected mean; `labels_mean` and its limits are those of the weighted labels without
        the judge.

    Raises:
        OptionError: The lengths differ, there are too few labels, or a value is out of range.

    Example:
        The judge is right but for a constant .2 in each of two strata.

        >>> labels = [0.0, 0.4] * 10 + [float("nan")] * 60
        >>> mean = stratified_ppi_mean(labels, [0.2, 0.6] * 40, [0, 0, 1, 1] * 20)
        >>> round(mean.judge_mean, 3), round(mean.mean, 3), round(mean.weight, 3)
        (0.4, 0.2, 1.083)

    References:
        Angelopoulos, Duchi and Zrnic (2023), PPI++: efficient prediction-powered inference.
        Fisch, Maynez, Hofer, Dhingra, Globerson and Cohen (2024), Stratified prediction-powered
        inference for hybrid language model evaluation.
        Zrnic and Candes (2024), Active statistical inference.
    """
    sides = [_Side.of("stratified_ppi_mean", labels, judged, strata, range)]
    return _corrected(sides, range, confidence)


def stratified_ppi_difference(
    labels: tuple[ArrayLike, ArrayLike],
    judged: tuple[ArrayLike, ArrayLike],
    strata: tuple[ArrayLike, ArrayLike],
    *,
    range: tuple[float, float] = (-math.inf, math.inf),
    confidence: float = 0.95,
) -> CorrectedMean:
    """Estimate the mean paired difference of two systems, system minus baseline.

    Each system has strata of its own, and a query may have a label for one system only. Queries
    with both labels lower the variance if the systems fail on the same queries. Both systems share
    one lambda, which makes the variance of the difference smallest: it counts the covariance of
    labels and scores of both systems on the queries with both labels.

    Args:
        labels: Labels of n queries for the system, and for the baseline; NaN without a label.
        judged: Scores of the judge for the same.
        strata: Strata of the same.
        range: Smallest and largest possible label of ONE system.
        confidence: Coverage that is aimed at.

    Returns:
        The difference; `n_labels` and `n_judged` count the answers of both systems.

    Raises:
        OptionError: The queries of the systems differ, there are too few labels, or a value is out
            of range.

    Example:
        >>> labels = [1.0, 0.5] * 10 + [float("nan")] * 60, [0.5] * 20 + [float("nan")] * 60
        >>> judged = [1.0, 0.5] * 40, [0.5] * 80
        >>> gain = stratified_ppi_difference(labels, judged, ([0] * 80, [0] * 80))
        >>> round(gain.mean, 3), gain.n_labels
        (0.25, 40)
    """
    owner = "stratified_ppi_difference"
    sides = []
    for arrays in zip(labels, judged, strata, strict=True):
        sides.append(_Side.of(owner, *arrays, range))
    if len(sides[0].judged) != len(sides[1].judged):
        n_ours, n_theirs = (len(side.judged) for side in sides)
        sizes = Phrase(f"{n_ours} queries of the system, {n_theirs} of the baseline")
        raise OptionError(owner, "judged", sizes, "the same queries for both")
    width = range[1] - range[0]
    return _corrected(sides, (-width, width), confidence)


@dataclass(frozen=True, slots=True)
class _Stratum:
    """Stratum of the answers of a system."""

    items: NDArray[np.intp]  # places of its answers
    labelled: NDArray[np.intp]  # places of its answers with a label
    expansion: float  # answers that a labelled one stands for, N_h / n_h


@dataclass(frozen=True, slots=True)
class _Side:
    """Labels and scores of one system, by stratum."""

    labels: FloatArray  # labels; NaN without one
    judged: FloatArray  # scores of the judge
    strata: Sequence[_Stratum]  # strata of the answers

    @classmethod
    def of(
        cls,
        owner: str,
        labels: ArrayLike,
        judged: ArrayLike,
        strata: ArrayLike,
        ends: tuple[float, float],
    ) -> _Side:
        """Return the checked labels, scores and strata of a system."""
        y, f = np.asarray(labels, dtype=np.float64), arguments.sample(owner, "judged", judged)
        h = np.asarray(strata)
        if not y.shape == f.shape == h.shape:
            sizes = Phrase(f"{y.size} labels, {f.size} scores, {h.size} strata")
            raise OptionError(owner, "labels", sizes, "one of each for every item")
        is_labelled = ~np.isnan(y)
        n = int(is_labelled.sum())
        if n < FEWEST_LABELS:
            raise OptionError(owner, "labels", Phrase(f"{n} labels"), f"{FEWEST_LABELS} or more")
        arguments.within(owner, "labels", y[is_labelled], *ends)
        parts = []
        for stratum in np.unique(h):
            items = np.flatnonzero(h == stratum)
            chosen = items[is_labelled[items]]
            if len(chosen) < min(2, len(items)):
                value = Phrase(f"{len(chosen)} in stratum {stratum}")
                raise OptionError(owner, "labels", value, "two or more in every stratum")
            parts.append(_Stratum(items, chosen, len(items) / len(chosen)))
        return cls(y, f, parts)

    def contributions(
        self, weight: float
    ) -> tuple[FloatArray, FloatArray, list[tuple[float, float, int]]]:
        """Return the predictions of all items, their corrections, and the variance by stratum."""
        # Corrections are weighted residuals of labels from predictions, 0 without a label, and sum
        # to 0 in a stratum. They lack the errors that the judge expects beyond the spread of the
        # labels: those errors belong to no query.
        predictions, corrections = weight * self.judged, np.zeros(len(self.judged))
        variances = []
        for part in self.strata:
            n, size = len(part.labelled), len(part.items)
            residuals = self.labels[part.labelled] - predictions[part.labelled]
            predictions[part.items] += residuals.mean()
            residuals = residuals - residuals.mean()
            if n == size:  # all are labelled: nothing is estimated
                corrections[part.labelled] = residuals
                continue
            spread = float(residuals.var(ddof=1))
            scores = self.judged[part.items].clip(0.0, 1.0)
            expected = max(float((scores * (1 - scores)).mean()), _LEAST_SPREAD)
            # the expected spread counts as much as one label: errors of a sure judge are often in
            # none of the few labels of its stratum, whose spread is then zero
            extra = max(expected - spread, 0.0) / n
            corrections[part.labelled] = residuals * math.sqrt(n / (n - 1)) * part.expansion
            variance = size * (part.expansion - 1) * (spread + extra)
            variances.append((variance, size * part.expansion * extra, n - 1))
        return predictions, corrections, variances


def _corrected(
    sides: Sequence[_Side], ends: tuple[float, float], confidence: float
) -> CorrectedMean:
    """Return the estimate of the first side, less that of the second if there is one."""
    arguments.probability("stratified_ppi", "confidence", confidence)
    weight = _judge_weight(sides)
    mean, lower, upper = _limits(sides, weight, ends, confidence)
    alone, alone_lower, alone_upper = _limits(sides, 0.0, ends, confidence)
    judge_means = [float(side.judged.mean()) for side in sides]
    return CorrectedMean(
        mean=mean,
        lower=lower,
        upper=upper,
        judge_mean=judge_means[0] - sum(judge_means[1:]),
        labels_mean=alone,
        labels_lower=alone_lower,
        labels_upper=alone_upper,
        weight=weight,
        n_labels=sum(int(np.isfinite(side.labels).sum()) for side in sides),
        n_judged=sum(len(side.judged) for side in sides),
    )


def _judge_weight(sides: Sequence[_Side]) -> float:
    """Return the lambda with the smallest variance; 0 if scores do not differ within strata."""
    # It is the covariance of labels and scores over the variance of scores, summed over all pairs
    # of strata, with the opposite sign between two systems. The factor of a pair is 0 if its labels
    # are drawn independently, and (N_h / N)^2 (1 / n_h - 1 / N_h) for a stratum with itself.
    covariance = spread = 0.0
    strata = []
    for side in sides:
        for part in side.strata:
            strata.append((side, part))
    for (one, part), (other, against) in itertools.product(strata, repeat=2):
        items = np.intersect1d(part.items, against.items)
        labelled = np.intersect1d(part.labelled, against.labelled)
        if len(labelled) > 1:
            factor = len(labelled) * part.expansion * against.expansion - len(items)
            factor *= (1 if one is other else -1) / len(one.judged) ** 2
            covariance += factor * np.cov(one.labels[labelled], other.judged[labelled])[0, 1]
            # of all items: they are more than the labelled ones
            spread += factor * np.cov(one.judged[items], other.judged[items])[0, 1]
    # scores that differ within strata by a rounding error alone say nothing there
    return float(covariance / spread) if spread > _ROUNDING else 0.0


def _limits(
    sides: Sequence[_Side], weight: float, ends: tuple[float, float], confidence: float
) -> tuple[float, float, float]:
    """Return estimate, lower and upper limit with this weight of the judge, inside `ends`."""
    n = len(sides[0].judged)
    # a total per query: labels of both systems on one query are not independent
    total = np.zeros(n)
    mean = expected = drawn = deviation = 0.0
    for side, sign in zip(sides, (1, -1), strict=False):
        predictions, corrections, variances = side.contributions(weight)
        mean += sign * float(predictions.mean())
        total += sign * (predictions + corrections)
        drawn += sum(variance for variance, _, _ in variances)
        expected += sum(squares for _, squares, _ in variances)
        # two systems with labels on the same queries have the degrees of freedom of one
        deviation += math.sqrt(sum(variance**2 / df for variance, _, df in variances))
    error = math.sqrt((float(total.var(ddof=1)) + expected / (n - 1)) / n)
    df = (drawn / deviation) ** 2 if deviation > 0 else n - 1
    half = t_quantile((1 + confidence) / 2, max(df, 1.0)) * error
    low, high = ends
    mean = min(max(mean, low), high)
    return mean, max(mean - half, low), min(mean + half, high)
