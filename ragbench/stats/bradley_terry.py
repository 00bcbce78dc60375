"""Bradley-Terry: one scale of strength for several systems, from comparisons of pairs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from ragbench.errors import OptionError, Phrase
from ragbench.stats import arguments
from ragbench.stats.student import t_quantile
from ragbench.types import FloatArray
from ragbench.types.rows import BoolArray

StrengthRule = Literal["mle", "plus_tie"]

_OWNER = "bradley_terry_strengths"
_PRECISE = 1e-10
_STEPS = 100_000  # a few hundred are usual; a chain of rare wins takes thousands


@dataclass(frozen=True, eq=False)
class Strengths:
    """Strengths of systems, as log-odds: i beats j with odds exp(values[i] - values[j]).

    `bradley_terry_strengths` creates it.

    Attributes:
        values: Shape (n systems,), with mean 0 in each group; NaN for a system that nothing was
            compared with.
        lower: Lower limits, shape (n systems,), against the average of the group; NaN as in
            `values`.
        groups: Numbers of the systems, from 0, that comparisons connect; a system without
            comparisons is alone. Strengths of different groups say nothing of each other.
        rule: `mle`: the likelihood has a maximum. `plus_tie`: some systems never lost to the
            others, so that it has none, and one tie was added to each pair that was compared.
        n: Number of queries with a comparison.
        upper: Upper limits, shape (n systems,); NaN as in `values`.
    """

    values: FloatArray
    lower: FloatArray
    upper: FloatArray
    groups: tuple[tuple[int, ...], ...]
    rule: StrengthRule
    n: int


def bradley_terry_strengths(
    outcomes: ArrayLike, pairs: Sequence[tuple[int, int]], *, confidence: float = 0.95
) -> Strengths:
    """Estimate the strength of each system from the outcomes of its comparisons.

    The queries are the sample: comparisons on one query may depend on each other, as those of one
    system with two others do, and the intervals allow for that. They are made with one tie more in
    each pair, as `mean_interval` adds pseudo-queries, so that equal outcomes do not look certain.

    Args:
        outcomes: Table (queries, pairs): 1 where the first of a pair won, 0 where it lost, 0.5 for
            a tie, which counts as half a win of each; NaN where there is no outcome.
        pairs: The two systems of each column, counted from 0.
        confidence: Coverage that is aimed at.

    Returns:
        Strengths with their limits, for the systems 0 to the largest number in `pairs`; all NaN
        where there is no outcome at all, empty without pairs.

    Raises:
        OptionError: An outcome is outside 0..1, `pairs` do not fit to `outcomes`, or confidence is
            outside (0, 1).

    Example:
        Three wins in four have odds of 3: half of log 3 above, and half below the average.

        >>> found = bradley_terry_strengths([[1.0], [1.0], [1.0], [0.0]], [(0, 1)])
        >>> found.values.round(4), found.rule
        (array([ 0.5493, -0.5493]), 'mle')

    References:
        Bradley and Terry (1952), Rank analysis of incomplete block designs.
        Ford (1957), Solution of a ranking problem from binary comparisons: when there is a maximum.
        Hunter (2004), MM algorithms for generalized Bradley-Terry models.
        Liang and Zeger (1986), Longitudinal data analysis using generalized linear models, for the
        variance over queries.
    """
    arguments.probability(_OWNER, "confidence", confidence)
    table = arguments.matrix(_OWNER, "outcomes", outcomes)
    arguments.within(_OWNER, "outcomes", table[~np.isnan(table)], 0.0, 1.0)
    if len(pairs) != table.shape[1]:
        allowed = f"one per column: {table.shape[1]}"
        raise OptionError(_OWNER, "pairs", Phrase(f"{len(pairs)} pairs"), allowed)
    for first, second in pairs:
        # a negative number would count from the last system, and give a wrong strength
        if first == second or min(first, second) < 0:
            raise OptionError(_OWNER, "pairs", (first, second), "two different systems, from 0 on")
    wins = win_matrix(table, pairs)
    n = int(np.count_nonzero(~np.isnan(table).all(axis=1)))
    joined = _reached(wins + wins.T > 0)
    groups = tuple(dict.fromkeys(tuple(np.flatnonzero(row).tolist()) for row in joined))
    beaten = _reached(wins > 0)
    connected = all(beaten[np.ix_(group, group)].all() for group in groups if len(group) > 1)

    # one tie more in each compared pair, as in the limits
    with_ties = wins + 0.5 * (wins + wins.T > 0)
    values, centres = (np.full(len(wins), np.nan) for _ in range(2))
    for group in groups:
        if len(group) == 1:
            continue
        of_group = np.ix_(group, group)
        centre = _maximum(with_ties[of_group])
        centres[list(group)] = centre
        values[list(group)] = _maximum(wins[of_group]) if connected else centre
    spread = _standard_errors(table, pairs, centres, wins + wins.T)
    half = t_quantile((1 + confidence) / 2, n + 1) * spread
    return Strengths(
        values=values,
        lower=np.fmin(centres - half, values),
        upper=np.fmax(centres + half, values),
        groups=groups,
        rule="mle" if connected else "plus_tie",
        n=n,
    )


def win_matrix(table: FloatArray, pairs: Sequence[tuple[int, int]]) -> FloatArray:
    """Return (systems, systems): how often the row beat the column, ties as half a win of each.

    There are as many systems as the largest number in `pairs` plus 1; without pairs the shape is
    (0, 0).

    Example:
        >>> win_matrix(np.array([[1.0, 0.5], [0.0, np.nan]]), [(0, 1), (0, 2)])
        array([[0. , 1. , 0.5],
               [1. , 0. , 0. ],
               [0.5, 0. , 0. ]])
    """
    size = 1 + max((max(pair) for pair in pairs), default=-1)
    wins = np.zeros((size, size))
    for (first, second), column in zip(pairs, table.T, strict=True):
        outcomes = column[~np.isnan(column)]
        wins[first, second] += outcomes.sum()
        wins[second, first] += len(outcomes) - outcomes.sum()
    return wins


def _reached(edges: BoolArray) -> BoolArray:
    """Return True where a path of edges leads from the system of the row to that of the column."""
    reached = edges | np.eye(len(edges), dtype=bool)
    while True:
        further = (reached.astype(np.int64) @ reached.astype(np.int64)) > 0
        if (further == reached).all():
            return reached
        reached = further


def _maximum(wins: FloatArray) -> FloatArray:
    """Return the strengths of the maximum likelihood, as log-odds with mean 0."""
    # The maximum exists only if every system reaches every other one by wins.
    games, total = wins + wins.T, wins.sum(axis=1)
    skill = np.ones(len(wins))
    for _ in range(_STEPS):
        expected = games / (skill[:, None] + skill[None, :])
        better = total / expected.sum(axis=1)
        better /= np.exp(np.log(better).mean())
        moved = float(np.abs(np.log(better / skill)).max())
        skill = better
        if moved < _PRECISE:
            break
    return np.asarray(np.log(skill), dtype=np.float64)


def _standard_errors(
    table: FloatArray, pairs: Sequence[tuple[int, int]], values: FloatArray, games: FloatArray
) -> FloatArray:
    """Return the error of each strength over queries, with one tie more in each compared pair."""
    size = len(games)
    information, variation = np.zeros((size, size)), np.zeros((size, size))
    scores = np.zeros((len(table), size))
    for (first, second), column in zip(pairs, table.T, strict=True):
        if np.isnan(column).all():
            continue
        chance = 1 / (1 + np.exp(values[second] - values[first]))
        surprise = np.nan_to_num(column - chance)
        scores[:, first] += surprise
        scores[:, second] -= surprise
    for first, second in np.argwhere(np.triu(games) > 0):
        chance = 1 / (1 + np.exp(values[second] - values[first]))
        side = np.zeros(size)
        side[first], side[second] = 1, -1
        direction = np.outer(side, side)
        information += (games[first, second] + 1) * chance * (1 - chance) * direction
        # the tie as half a win and half a loss: two outcomes that differ, as in `plus_two`
        variation += 0.5 * (chance**2 + (1 - chance) ** 2) * direction
    inverse = np.linalg.pinv(information, hermitian=True)
    variation += scores.T @ scores
    return np.asarray(np.sqrt(np.diag(inverse @ variation @ inverse)), dtype=np.float64)
