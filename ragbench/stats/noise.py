"""Shares of the variance of a mean: how much comes from the questions, the app and the judge.

Scores of repeated runs form a table with one axis for the questions and one for each level that was
repeated, the judge innermost: shape (n, repeats of the app, repeats of the judge). Each level adds
its own chance variation to the values of the level above (a nested random-effects model), so that

    Var(mean) = questions / n + app / (n r) + judge / (n r m)

where `questions`, `app` and `judge` are variances of one question, one run and one judgement.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
from numpy.typing import ArrayLike

from ragbench.errors import OptionError
from ragbench.stats import arguments
from ragbench.types import FloatArray
from ragbench.types.rows import BoolArray

# Name of the outermost level in all results.
QUESTIONS = "questions"
_RESAMPLES = 2000


@dataclass(frozen=True)
class NoisePart:
    """Part of a level in the variance of a mean.

    Attributes:
        variance: Variance that the level adds to the mean, with the repeats that were made.
        share: Part of the variance of the mean, from 0 to 1; 0 where nothing varies.
        low: Lower limit of the share.
        high: Upper limit of the share.
    """

    variance: float
    share: float
    low: float
    high: float


@dataclass(frozen=True)
class Purchase:
    """More of one level for a given sum, and the standard error of the mean that it leaves.

    Attributes:
        level: `questions`, or the level that is repeated more often.
        factor: Number of questions or repeats, as a multiple of those that were made.
        standard_error: Standard error of the mean after the purchase.
    """

    level: str
    factor: float
    standard_error: float


@dataclass(frozen=True)
class _NestedSums:
    """Sums per question from which the variances of all levels follow."""

    # `squares[k]` and `freedom[k]` have the sum of squares and the degrees of freedom of level k
    # within each question; `inner[k, l]` weighs the variance of a deeper level l in these squares,
    # and `outer[l]` in the mean of the question. Levels are counted from the outermost repeat.

    means: FloatArray
    squares: FloatArray
    freedom: FloatArray
    inner: FloatArray
    outer: FloatArray


def noise_parts(
    scores: ArrayLike,
    levels: Sequence[str],
    *,
    against: ArrayLike | None = None,
    confidence: float = 0.95,
    seed: int = 0,
) -> dict[str, NoisePart]:
    """Return the parts of the questions and of each level in the variance of the mean score.

    A level without a repeat has no part of its own: its variation counts for the level above. The
    parts add up to the variance of the mean of the questions' means over n. With `against` they are
    parts in the variance of the mean difference of two systems on the same questions: each level
    then has the sum of both.

    Variances are estimated by the method of moments: the mean square within a level, less what the
    deeper levels put into it, and at least 0. Limits come from resampled questions.

    Args:
        scores: Shape (n, repeats of the first level, ...), NaN where a score is absent. A question
            without any score is left out.
        levels: Names of the repeated levels, the outermost first, such as `["app", "judge"]`.
        against: Scores of a second system, of the same n questions and levels; the numbers of
            repeats may differ.
        confidence: Confidence of the limits.
        seed: Seed of the resampling.

    Returns:
        Part of `questions`, then of each level that has a repeat. The result is empty with fewer
        than two questions.

    Raises:
        OptionError: The shape does not fit to the levels, or an option is out of range.

    Example:
        Two questions whose answers never change, and two that flip from run to run:

        >>> parts = noise_parts([[1, 1], [0, 0], [1, 0], [0, 1]], ["app"])
        >>> {name: round(part.share, 2) for name, part in parts.items()}
        {'questions': 0.25, 'app': 0.75}

    References:
        Searle, Casella and McCulloch (1992), Variance components, chapter 3 (nested models).
    """
    confidence = arguments.probability("noise_parts", "confidence", confidence)
    tables = [_checked(scores, levels)]
    if against is not None:
        tables.append(_checked(against, levels))
        if len(tables[0]) != len(tables[1]):
            raise OptionError("noise_parts", "against", len(tables[1]), f"{len(tables[0])} rows")
    has_scores = np.all([_has_scores(table) for table in tables], axis=0)
    n = int(has_scores.sum())
    if n < 2:
        return {}
    sums = [_sums(table[has_scores]) for table in tables]

    means = sums[0].means - sums[1].means if against is not None else sums[0].means
    weights = np.ones((1, n))
    point = _parts(sums, means, weights)[0]
    rng = np.random.default_rng(seed)
    samples = rng.multinomial(n, np.full(n, 1 / n), size=_RESAMPLES).astype(float)
    # a sample with replacement varies less than the questions do, by this factor
    shares = _shares(_parts(sums, means * math.sqrt(n / (n - 1)), samples))
    tail = (1 - confidence) / 2
    low, high = np.quantile(shares, [tail, 1 - tail], axis=0)

    share = _shares(point[None])[0]
    is_repeated = [any(table.freedom[k].any() for table in sums) for k in range(len(levels))]
    noise = {}
    for k, name in enumerate([QUESTIONS, *levels]):
        if k == 0 or is_repeated[k - 1]:
            values = point[k], share[k], low[k], high[k]
            noise[name] = NoisePart(*map(float, values))
    return noise


def next_purchases(
    parts: Mapping[str, NoisePart], costs: Mapping[str, float], repeats: Mapping[str, float]
) -> list[Purchase]:
    """Return the purchases that cost as much as the run so far, the most useful one first.

    More questions are asked with the repeats of the run. More repeats of a level are paid with all
    deeper levels below it.

    Args:
        parts: Parts of `noise_parts`.
        costs: Level -> cost of one item of the level alone, in any unit.
        repeats: Level -> number of repeats in the run, of all levels in their order.

    Example:
        A judgement that costs as much as an answer, and a judge that answers the same each time:

        >>> parts = {
        ...     "questions": NoisePart(0.03, 0.75, 0.5, 0.9),
        ...     "app": NoisePart(0.01, 0.25, 0.1, 0.5),
        ...     "judge": NoisePart(0.0, 0.0, 0.0, 0.1),
        ... }
        >>> ways = next_purchases(parts, {"app": 1, "judge": 1}, {"app": 2, "judge": 2})
        >>> [(way.level, round(way.factor, 2), round(way.standard_error, 3)) for way in ways]
        [('questions', 2.0, 0.141), ('app', 2.0, 0.187), ('judge', 2.5, 0.2)]
    """
    levels = [*repeats]
    items = accumulate((repeats[level] for level in levels), operator.mul)
    bill = []
    for level, count in zip(levels, items, strict=True):
        bill.append(count * costs.get(level, 0.0))
    total = sum(bill)
    variance = {name: part.variance for name, part in parts.items()}
    purchases = [Purchase(QUESTIONS, 2.0, math.sqrt(sum(variance.values()) / 2))]
    for k, level in enumerate(levels):
        price = sum(bill[k:])
        if level not in parts or not price:
            continue
        factor = 1 + total / price
        # more repeats of a level divide its own part and those of the deeper levels
        divided = sum(variance.get(name, 0.0) for name in levels[k:])
        undivided = sum(variance.values()) - divided
        purchases.append(Purchase(level, factor, math.sqrt(undivided + divided / factor)))
    return sorted(purchases, key=lambda purchase: purchase.standard_error)


def pass_all(passes: int, repeats: int, k: int) -> float:
    """Return pass^k: the probability that k of the repeats, drawn without replacement, all pass.

    Example:
        Two of three passed; of the three pairs one has both:

        >>> round(pass_all(2, 3, 2), 3)
        0.333
    """
    _check_draw("pass^k", repeats, k)
    return math.comb(passes, k) / math.comb(repeats, k)


def pass_any(passes: int, repeats: int, k: int) -> float:
    """Return pass@k: the probability that one of k repeats, drawn without replacement, passes.

    Example:
        >>> pass_any(2, 3, 2)
        1.0

    References:
        Chen et al. (2021), Evaluating large language models trained on code, section 2.1.
    """
    _check_draw("pass@k", repeats, k)
    return 1 - math.comb(repeats - passes, k) / math.comb(repeats, k)


def _check_draw(name: str, repeats: int, k: int) -> None:
    if not 1 <= k <= repeats:
        raise OptionError(name, "k", k, f"an integer from 1 to the number of repeats, {repeats}")


def _checked(scores: ArrayLike, levels: Sequence[str]) -> FloatArray:
    table = np.asarray(scores, dtype=np.float64)
    if table.ndim != 1 + len(levels):
        allowed = f"one axis for the questions and one for each of {len(levels)} levels"
        raise OptionError("noise_parts", "scores", f"shape {table.shape}", allowed)
    if np.isinf(table).any():
        raise OptionError("noise_parts", "scores", "an infinite score", "finite scores, or NaN")
    return table


def _has_scores(table: FloatArray) -> BoolArray:
    has_scores: BoolArray = np.any(~np.isnan(table), axis=tuple(range(1, table.ndim)))
    return has_scores


def _sums(table: FloatArray) -> _NestedSums:
    """Return the sums of each question; every question has a score."""
    n, depth = len(table), table.ndim - 1
    squares, freedom = np.zeros((depth, n)), np.zeros((depth, n))
    inner, factors = np.zeros((depth, depth, n)), np.zeros((depth, *table.shape))
    values = table
    for k in reversed(range(depth)):
        is_present = ~np.isnan(values)
        count = is_present.sum(axis=-1)
        divisor = np.maximum(count, 1)
        mean = np.where(is_present, values, 0.0).sum(axis=-1) / divisor
        gaps = np.where(is_present, values - mean[..., None], 0.0)
        df = np.maximum(count - 1, 0)
        squares[k] = (gaps**2).sum(axis=-1).reshape(n, -1).sum(axis=1)
        freedom[k] = df.reshape(n, -1).sum(axis=1)
        # `factors[l]` weighs the variance of level l in each value of this level
        total = np.where(is_present, factors, 0.0).sum(axis=-1)
        inner[k] = (total / divisor * df).reshape(depth, n, -1).sum(axis=2)
        factors = total / divisor**2
        factors[k] = 1 / divisor
        values = np.where(count > 0, mean, np.nan)
    return _NestedSums(values, squares, freedom, inner, factors)


def _parts(tables: Sequence[_NestedSums], means: FloatArray, weights: FloatArray) -> FloatArray:
    """Return the parts of the questions and of each level in the variance of the mean."""
    # `weights` has a row of weights of the questions for each resample.
    size = weights.sum(axis=1)
    mean = weights @ means / size
    spread = (weights @ means**2 / size - mean**2) * size / (size - 1)
    depth = len(tables[0].squares)
    noise = np.zeros((len(weights), depth))
    for table in tables:
        variances = np.zeros((len(weights), depth))
        for k in reversed(range(depth)):
            df = weights @ table.freedom[k]
            deeper = (variances[:, k + 1 :] * (weights @ table.inner[k, k + 1 :].T)).sum(axis=1)
            square = weights @ table.squares[k] - deeper
            variances[:, k] = np.maximum(square, 0) / np.where(df > 0, df, 1) * (df > 0)
        noise += variances * (weights @ table.outer.T) / size[:, None]
    questions = np.maximum(spread - noise.sum(axis=1), 0)
    parts: FloatArray = np.column_stack([questions, noise]) / size[:, None]
    return parts


def _shares(parts: FloatArray) -> FloatArray:
    total = parts.sum(axis=1, keepdims=True)
    shares: FloatArray = parts / np.where(total > 0, total, 1.0)
    return shares
