"""Macro means: the mean over several collections of queries, each with the same weight."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ragbench.errors import OptionError
from ragbench.types import FloatArray

# A mean with the limits of its interval.
Estimate = tuple[float, float, float]


def macro_mean(estimates: Sequence[Estimate]) -> Estimate:
    """Return mean, lower and upper limit of the macro mean of independent estimates.

    The limits are recovered from those of the estimates (MOVER): the squared distances from each
    estimate to its limit add up as variances do, so that an asymmetric interval stays asymmetric.
    They are for other queries in the same collections, not for other collections. NaN in a limit
    gives NaN there, or infinity if another limit is infinite; a NaN estimate gives NaN in all
    three. The estimates must not be infinite.

    Args:
        estimates: Estimate, lower and upper limit of each collection, of one level.

    Raises:
        OptionError: There are no estimates.

    Example:
        The mean of 0.3 and 0.5; half of sqrt(0.06^2 + 0.08^2) is 0.05.

        >>> limits = macro_mean([(0.3, 0.24, 0.36), (0.5, 0.42, 0.58)])
        >>> [round(number, 9) for number in limits]
        [0.4, 0.35, 0.45]

    References:
        Zou and Donner (2008), Construction of confidence intervals about effect measures: a
        general approach.
    """
    if not estimates:
        raise OptionError("macro_mean", "estimates", [], "at least one estimate")
    count = len(estimates)
    mean = math.fsum(value for value, _, _ in estimates) / count
    # Independent collections: the covariances are 0, and only squares remain below the root.
    down = math.hypot(*(value - low for value, low, _ in estimates)) / count
    up = math.hypot(*(high - value for value, _, high in estimates)) / count
    return mean, mean - down, mean + up


def stratified_units(differences: Sequence[FloatArray]) -> FloatArray:
    """Return the differences of all collections as one column whose sum is their macro mean.

    A sign flip of a row is that of one query within its collection: `randomization_p_values` of
    the column is the stratified randomization test of the macro mean.

    Args:
        differences: Differences of each collection, one for each query, NaN without both scores;
            none of the arrays may be without a number.

    Returns:
        Array of shape (queries of all collections,), in their order.

    Raises:
        ValueError: There are no collections.

    Example:
        Two queries of one collection, one of another: (0.2 + 0.4) / 2 and 0.1, halved.

        >>> stratified_units([np.array([0.2, 0.4]), np.array([0.1])]).round(9).tolist()
        [0.05, 0.1, 0.05]

    References:
        Edgington and Onghena (2007), Randomization Tests, 4th edition (stratified designs).
    """
    count = len(differences)
    # By the queries that have both scores: a NaN must not lower the mean of its collection.
    scaled = []
    for difference in differences:
        scaled.append(difference / (np.count_nonzero(~np.isnan(difference)) * count))
    column: FloatArray = np.concatenate(scaled)
    return column
