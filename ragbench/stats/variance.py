"""Where the noise of a paired difference comes from: queries, generator runs, judge runs."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from ragbench.errors import OptionError
from ragbench.stats import arguments
from ragbench.types import FloatArray

__all__ = ["Design", "VarianceComponent", "VarianceSplit", "cheapest_design", "split_variance"]

Level = Literal["query", "generator", "judge"]
_LEVELS: tuple[Level, ...] = ("query", "generator", "judge")

_MOST_REPEATS = 16
"""More repeats of one query than this never pay: the noise of the queries is left."""


@dataclass(frozen=True, slots=True)
class VarianceComponent:
    """What one source, or several that the data cannot tell apart, adds to the variance."""

    levels: tuple[Level, ...]
    """The sources; more than one where a single repeat confounds them."""
    variance: float
    """Never negative: an estimate below 0 is 0."""
    df: int
    """Degrees of freedom behind it."""

    @property
    def confounded(self) -> bool:
        """Whether several sources are in it."""
        return len(self.levels) > 1


@dataclass(frozen=True, slots=True)
class VarianceSplit:
    """The components of the variance of a paired difference, and the design they are from."""

    components: tuple[VarianceComponent, ...]
    """From the queries down."""
    queries: int
    """Queries with all their repeats; the others were left out."""
    generations: int
    """Generator runs of each query."""
    judgements: int
    """Judge runs of each generated answer."""

    def standard_error(self, queries: int, generations: int, judgements: int) -> float:
        """Give the standard error of the mean difference in another design."""
        units = {"query": queries, "generator": queries * generations}
        units["judge"] = units["generator"] * judgements
        return float(sum(c.variance / units[c.levels[0]] for c in self.components) ** 0.5)


@dataclass(frozen=True, slots=True)
class Design:
    """How many of everything to ask for, and what that gives."""

    queries: int
    generations: int
    """Per query."""
    judgements: int
    """Per generated answer."""
    cost: float
    """In the unit of the prices."""
    standard_error: float
    """Of the mean difference."""


def split_variance(differences: ArrayLike) -> VarianceSplit:
    """Split the variance of paired differences by the method of moments.

    Judge runs lie within generator runs, those within queries. The mean squares of the nested
    levels are set equal to what they estimate. A level with a single repeat cannot be told from
    the one above it: the two are reported as one component.

    Args:
        differences: Array (n queries, generator runs, judge runs) of the system's score minus
            the baseline's; with fewer dimensions there is one run of the missing levels. Queries
            with NaN are left out.

    Returns:
        The components and the design; a variance is NaN where fewer than two queries are left.

    Raises:
        OptionError: differences has no or over three dimensions, no runs, or holds an infinity.

    Example:
        Two queries that differ by 1 on average, and runs that differ by 0.2 within each.

        >>> split = split_variance([[0.0, 0.2], [1.0, 1.2]])
        >>> [(c.levels, round(c.variance, 3)) for c in split.components]
        [(('query',), 0.49), (('generator', 'judge'), 0.02)]

    References:
        Searle, Casella and McCulloch (1992), Variance components, 3.6 and 5.2.
    """
    x = _complete(differences)
    n, generations, judgements = x.shape
    of_answers, of_queries = x.mean(axis=2), x.mean(axis=(1, 2))
    squares = (
        ((x - of_answers[:, :, np.newaxis]) ** 2, n * generations * (judgements - 1)),
        (judgements * (of_answers - of_queries[:, np.newaxis]) ** 2, n * (generations - 1)),
        # numpy warns of the mean of nothing
        (generations * judgements * (of_queries - x.mean() if n else of_queries) ** 2, n - 1),
    )
    components: list[VarianceComponent] = []
    below, levels, repeats = 0.0, tuple[Level, ...](), 1
    sizes = (judgements, generations, n)
    for level, size, (square, df) in zip(reversed(_LEVELS), sizes, squares, strict=True):
        levels = (level, *levels)
        if size == 1 and level != "query":
            continue  # no spread at this level: it is in the one above
        mean_square = float(square.sum()) / df if df > 0 else float("nan")
        excess = (mean_square - below) / repeats
        # a negative estimate counts as 0; written so that nan stays nan
        components.insert(0, VarianceComponent(levels, excess if not excess < 0 else 0.0, df))
        below, levels, repeats = mean_square, (), repeats * size
    return VarianceSplit(tuple(components), n, generations, judgements)


def cheapest_design(
    split: VarianceSplit,
    standard_error: float,
    *,
    query_cost: float = 0.0,
    generation_cost: float = 1.0,
    judgement_cost: float = 1.0,
) -> Design | None:
    """Give the cheapest design with a standard error at most the one that is asked for.

    Only what the split tells apart is asked for again: whether a second judge run pays cannot be
    known from answers that were judged once.

    Args:
        split: From the differences of a first run.
        standard_error: Of the mean difference; the interval is about four times as wide.
        query_cost: Of one more query, labels included.
        generation_cost: Of the answers of both systems to one query.
        judgement_cost: Of judging these answers once.

    Returns:
        The design; None where the variance is not known.

    Raises:
        OptionError: standard_error is not above 0, a cost is negative, or all costs are 0.

    Example:
        Judge noise is most of it, and judging is cheap: several runs of the judge.

        >>> noisy = VarianceSplit((VarianceComponent(("query", "generator"), 0.01, 99),
        ...                        VarianceComponent(("judge",), 0.09, 100)), 100, 1, 2)
        >>> design = cheapest_design(noisy, 0.02, generation_cost=5.0)
        >>> design.queries, design.judgements, design.cost, round(design.standard_error, 4)
        (63, 6, 693.0, 0.0199)

    References:
        Cochran (1977), Sampling techniques, 10.6.
    """
    owner = "cheapest_design"
    if not 0 < standard_error < float("inf"):
        raise OptionError(owner, "standard_error", standard_error, "a number above 0")
    arguments.size(owner, "query_cost", query_cost)
    arguments.size(owner, "generation_cost", generation_cost)
    arguments.size(owner, "judgement_cost", judgement_cost)
    if not (query_cost or generation_cost or judgement_cost):
        raise OptionError(owner, "query_cost", 0.0, "a number above 0, or another cost above 0")
    if not all(component.variance >= 0 for component in split.components):
        return None
    repeats, designs = range(1, _MOST_REPEATS + 1), []
    # Repeats of what is confounded change no standard error, so the cheapest has one of them.
    for g, j in product(repeats, repeats):
        # 1e-9: where the ratio is whole, rounding asks for no further query
        n = max(2, int(np.ceil((split.standard_error(1, g, j) / standard_error) ** 2 - 1e-9)))
        cost = n * (query_cost + g * (generation_cost + j * judgement_cost))
        designs.append(Design(n, g, j, cost, split.standard_error(n, g, j)))
    return min(designs, key=lambda design: (design.cost, design.generations, design.judgements))


def _complete(differences: ArrayLike) -> FloatArray:
    """Give the queries that have all their repeats, in three dimensions."""
    x = np.asarray(differences, dtype=np.float64)
    if not 1 <= x.ndim <= 3:
        allowed = "one to three: queries x generator runs x judge runs"
        raise OptionError("split_variance", "differences", f"{x.ndim} dimensions", allowed)
    if 0 in x.shape[1:]:
        raise OptionError("split_variance", "differences", "no runs", "one run or more")
    if np.isinf(x).any():
        allowed = "finite numbers, or NaN for no value"
        raise OptionError("split_variance", "differences", "an infinity", allowed)
    x = x.reshape(x.shape + (1,) * (3 - x.ndim))
    return x[~np.isnan(x).any(axis=(1, 2))]
