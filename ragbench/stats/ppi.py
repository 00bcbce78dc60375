"""Prediction-powered inference: a judge's mean, corrected by labels of people (PPI++)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ragbench.errors import OptionError
from ragbench.stats import arguments
from ragbench.stats.mean import mean_interval
from ragbench.stats.student import t_quantile

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from ragbench.types import FloatArray

FEWEST_LABELS = 20
"""With fewer labels neither their spread nor that of the judge's errors is known."""


@dataclass(frozen=True, slots=True)
class CorrectedMean:
    """A mean that people would have given, from few labels and many judgements."""

    mean: float
    lower: float
    upper: float
    judge_mean: float
    """What the judge says: the mean of all its scores."""
    labels_mean: float
    labels_lower: float
    labels_upper: float
    weight: float
    """Lambda: how far the judge is believed; 0 leaves the labels alone."""
    n_labels: int
    """How many items have a label."""
    n_judged: int
    """How many items the judge scored, labelled ones included."""

    @property
    def width_ratio(self) -> float:
        """Width of the interval / width from the labels alone: what the judge is worth."""
        alone = self.labels_upper - self.labels_lower
        return (self.upper - self.lower) / alone if alone else math.nan

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready mapping; what is undefined is null, never NaN."""
        limits = {
            "interval": [self.lower, self.upper],
            "labels_interval": [self.labels_lower, self.labels_upper],
        }
        return {
            "mean": self.mean,
            "judge_mean": self.judge_mean,
            "labels_mean": self.labels_mean,
            "width_ratio": _finite(self.width_ratio),
            "lambda": self.weight,
            "n_labels": self.n_labels,
            "n_judged": self.n_judged,
        } | {name: [*map(_finite, pair)] for name, pair in limits.items()}


def ppi_mean(
    labels: ArrayLike,
    judged: ArrayLike,
    unlabelled: ArrayLike,
    *,
    random: bool,
    range: tuple[float, float] = (-math.inf, math.inf),
    confidence: float = 0.95,
) -> CorrectedMean:
    """Estimate the mean that people would give to all items from labels of a random part.

    labels_mean + lambda (mean of the judge elsewhere - mean of the judge on the labelled items),
    with the lambda that makes the variance smallest, estimated from the same data (`plug-in`):
    cov(labels, judged) / ((1 + n / N) var(judge)). A judge that knows nothing gets lambda near 0,
    so that it cannot do much harm; a biased one is corrected. The interval is Student's t with
    n - 1 degrees of freedom; where all labels are equal it is that of the labels alone.

    Args:
        labels: What people say of n items.
        judged: What the judge says of the same items.
        unlabelled: What the judge says of N other items.
        random: Whether the n were drawn at random from all n + N. There is no default: labels of
            the interesting cases correct nothing.
        range: Smallest and largest possible label; limits are kept inside.
        confidence: Coverage that is aimed at.

    Returns:
        The mean with its limits; NaN for the limits where all labels are equal and the range has
        no ends, since nothing then says how they vary.

    Raises:
        OptionError: random is false, fewer than 20 labels, or fewer than two unlabelled items.

    Example:
        The judge is right but for a constant .2: its mean of .4 becomes .2, with a third of the
        width that the labels have alone.

        >>> found = ppi_mean([0.0, 0.4] * 10, [0.2, 0.6] * 10, [0.2, 0.6] * 90, random=True)
        >>> round(found.judge_mean, 3), round(found.mean, 3), round(found.width_ratio, 2)
        (0.4, 0.2, 0.31)

    References:
        Angelopoulos, Duchi and Zrnic (2023), PPI++: efficient prediction-powered inference, 6.
    """
    owner = "ppi_mean"
    arguments.probability(owner, "confidence", confidence)
    y = arguments.sample(owner, "labels", labels)
    f = arguments.sample(owner, "judged", judged)
    other = arguments.sample(owner, "unlabelled", unlabelled)
    _check(owner, y, f, other, random)
    n, n_other = len(y), len(other)

    alone = mean_interval(y, range=range, confidence=confidence)
    every = np.concatenate((f, other))
    spread = float(every.var(ddof=1))
    covariance = float(np.cov(y, f, ddof=1)[0, 1])
    constant = bool(y.min() == y.max())
    weight = 0.0 if constant or spread == 0 else covariance / ((1 + n / n_other) * spread)
    mean = float(y.mean()) + weight * (float(other.mean()) - float(f.mean()))
    if constant:
        lower, upper = alone.lower, alone.upper
    else:
        variance = float((y - weight * f).var(ddof=1)) / n
        variance += weight**2 * float(other.var(ddof=1)) / n_other
        half = t_quantile((1 + confidence) / 2, n - 1) * math.sqrt(variance)
        lower, upper = max(mean - half, range[0]), min(mean + half, range[1])
    half = t_quantile((1 + confidence) / 2, n - 1) * float(y.std(ddof=1)) / math.sqrt(n)
    ends = (alone.lower, alone.upper) if constant else (alone.mean - half, alone.mean + half)
    return CorrectedMean(
        mean=min(max(mean, range[0]), range[1]),
        lower=lower,
        upper=upper,
        judge_mean=float(every.mean()),
        labels_mean=alone.mean,
        labels_lower=max(ends[0], range[0]),
        labels_upper=min(ends[1], range[1]),
        weight=weight,
        n_labels=n,
        n_judged=n + n_other,
    )


def ppi_difference(
    labels: tuple[ArrayLike, ArrayLike],
    judged: tuple[ArrayLike, ArrayLike],
    unlabelled: tuple[ArrayLike, ArrayLike],
    *,
    random: bool,
    range: tuple[float, float] = (-math.inf, math.inf),
    confidence: float = 0.95,
) -> CorrectedMean:
    """Estimate the mean paired difference of two systems that people would find.

    It is `ppi_mean` of the differences per query, system minus baseline.

    Args:
        labels: Labels of n queries for the system, and for the baseline.
        judged: The judge's scores of the same.
        unlabelled: The judge's scores of N other queries, for both.
        random: Whether the n queries were drawn at random from all.
        range: Smallest and largest possible label of ONE system.
        confidence: Coverage that is aimed at.

    Example:
        >>> labels = ([1.0, 0.5] * 10, [0.5, 0.5] * 10)
        >>> found = ppi_difference(labels, labels, ([1.0, 0.5] * 40, [0.5, 0.5] * 40), random=True)
        >>> round(found.mean, 3), found.n_judged
        (0.25, 100)
    """
    pairs = []
    named = {"labels": labels, "judged": judged, "unlabelled": unlabelled}
    for option, (system, baseline) in named.items():
        b = arguments.sample("ppi_difference", option, system)
        a = arguments.sample("ppi_difference", option, baseline)
        if len(a) != len(b):
            found = f"{len(b)} for the system, {len(a)} for the baseline"
            raise OptionError("ppi_difference", option, found, "the same queries for both")
        pairs.append(b - a)
    width = range[1] - range[0]
    return ppi_mean(*pairs, random=random, range=(-width, width), confidence=confidence)


def _check(owner: str, y: FloatArray, f: FloatArray, other: FloatArray, random: bool) -> None:
    if not random:
        allowed = "labels of items that were drawn at random"
        raise OptionError(owner, "random", random, allowed)
    if len(y) < FEWEST_LABELS:
        raise OptionError(owner, "labels", len(y), f"{FEWEST_LABELS} labels or more")
    if len(f) != len(y):
        raise OptionError(owner, "judged", len(f), f"{len(y)} scores, one for each label")
    if len(other) < 2:
        raise OptionError(owner, "unlabelled", len(other), "two scores or more")


def _finite(value: float) -> float | None:
    return None if math.isnan(value) else value
