"""Gain of the best of several changes, from questions that did not choose it.

The questions are cut into ten parts. For each part, the other nine choose the change, and the part
gives its gain. So the mean of the gains is what to expect of the choice, not of the luck in it.

References:
    Stone (1974), Cross-validatory choice and assessment of statistical predictions.
    Nadeau and Bengio (2003), Inference for the generalization error.
    Chernozhukov et al. (2018), Double/debiased machine learning (cross-fitting).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ragbench.stats import difference_interval
from ragbench.types import FloatArray, IntArray
from ragbench.types.rows import BoolArray

_PARTS = 10
# Variances, in units of that of a mean: of the cross-fitted mean by Nadeau and Bengio, 1 + 10 / 9;
# of the mean of as many other questions, 1. The square root of 2 covers too seldom where many
# changes are alike: 90 % on Cranfield (benchmarks/fix.py).
_WIDER = math.sqrt(1 + _PARTS / (_PARTS - 1) + 1)


class Gain(NamedTuple):
    """Gain of a change in questions, as `gain_of` returns it.

    Attributes:
        mean: Questions that it gains, of as many as were counted.
        interval: Interval of the mean gain of such questions.
        untouched: Interval of the gain of a choice on as many other questions, which vary too; so
            do the choices of the parts, which share most of their questions: wider by 1.76.
    """

    mean: float
    interval: tuple[float, float]
    untouched: tuple[float, float]


def parts_of(
    n: int, seed: int, clusters: Sequence[str] | None = None, n_parts: int = _PARTS
) -> IntArray:
    """Return the part of each of n questions, from 0; questions of one cluster share it.

    Equal seeds give equal parts; all have about equal numbers of clusters, or of questions.
    """
    # Questions of a cluster rise and fall together. In two parts, one of them would choose and the
    # other confirm almost the same question.
    units = np.arange(n) if clusters is None else np.unique(clusters, return_inverse=True)[1]
    order = np.random.default_rng(seed).permutation(int(units.max(initial=-1)) + 1)
    # Parts of a permutation differ by one unit at most; independent draws could leave a part empty.
    parts: IntArray = order[units] % n_parts
    return parts


def choose(hits: BoolArray, base: BoolArray, parts: IntArray) -> tuple[int, FloatArray]:
    """Return the row with the most gain, and the gain of each question by a choice without it.

    That choice is made on the questions of the other nine parts; a gain is -1, 0 or 1. The first of
    equal rows is chosen: put the simplest one first.

    Args:
        hits: Shape (changes, questions): whether a question is right with a change.
        base: True for each question that is right now.
        parts: Part of each question, from 0 to 9.

    Raises:
        ValueError: There are no changes.
    """
    gains = hits.astype(np.float32) - base
    # No matrix product: BLAS would share it among threads, which then wait for .1 s of CPU time.
    # 32 bits are exact here: the sums are whole numbers far below 2^24.
    sums = np.stack([gains[:, parts == part].sum(axis=1) for part in range(_PARTS)], axis=1)
    # The total less a part is the gain on the other nine: ten choices from one pass over the data.
    choices = (sums.sum(axis=1, keepdims=True) - sums).argmax(axis=0)
    confirmed = gains[choices[parts], np.arange(len(parts))].astype(np.float64)
    return int(sums.sum(axis=1).argmax()), confirmed


def gain_of(
    differences: FloatArray, confidence: float, clusters: Sequence[str] | None = None
) -> Gain:
    """Return the gain of questions that got right (1), wrong (-1) or stayed (0).

    It is a number of questions: the sum of the differences, not their mean. The interval is that of
    gates, `difference_interval`. Without questions all numbers are NaN. Raises OptionError if
    confidence is outside (0, 1), or there is not one cluster label per question.
    """
    n = len(differences)
    ends = difference_interval(differences, confidence=confidence, clusters=clusters)
    lower, upper = ends.lower * n, ends.upper * n
    mean = ends.mean * n
    # Each side by itself: the interval is not symmetric if few questions change.
    untouched = mean - _WIDER * (mean - lower), mean + _WIDER * (upper - mean)
    return Gain(mean, (lower, upper), untouched)
