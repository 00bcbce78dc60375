"""How systems are compared: the test of each pair, its adjustment for a family, and early looks."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray

from ragbench import stats
from ragbench.registry import Option, check_values, declared_options
from ragbench.score.base import Look, ScoreColumn
from ragbench.types import FloatArray

if TYPE_CHECKING:
    from ragbench.records.score import Early
    from ragbench.stats.paired_tests import SumsOf

Test = Literal["randomization", "t", "wilcoxon", "mcnemar"]
Correction = Literal["holm", "benjamini_hochberg", "bh", "max_t", "none"]

# by name: `ragbench score` needs none of them, and is started as often as anything
_WITHOUT_RESAMPLES: Mapping[str, str] = {
    "t": "t_test_p_values",
    "wilcoxon": "wilcoxon_p_values",
    "mcnemar": "mcnemar_p_values",
}

_ADJUSTMENTS: Mapping[str, str] = {
    "holm": "holm_p_values",
    "benjamini_hochberg": "benjamini_hochberg_p_values",
    "bh": "benjamini_hochberg_p_values",
}

Families = Literal["measure", "all"]
"""What is corrected for together: the comparisons by one measure, or by all."""


def check_options(owner: str, record: object) -> None:
    """Check the options of a frozen record; numbers of NumPy become Python's own first.

    Raises:
        OptionError: A value is not allowed.
    """
    values = {name: getattr(record, name) for name in declared_options(type(record))}
    for name, value in values.items():
        if isinstance(value, np.generic):  # seeds and levels come out of arrays and tables
            values[name] = value.item()
            object.__setattr__(record, name, values[name])
    check_values(owner, declared_options(type(record)), values)


Confidence = Annotated[float, Option("Level of the intervals.", gt=0, lt=1)]


@dataclass(frozen=True, slots=True, kw_only=True)
class IntervalsAndTests:
    """How intervals and tests are computed; 1 - `confidence` is the error rate of each family."""

    confidence: Confidence = 0.95
    resamples: Annotated[int, Option("Resamples and sign flips.", ge=100)] = 10_000
    test: Annotated[Test, Option("Paired test over queries; `mcnemar`: of hits and misses.")] = (
        "randomization"
    )
    correction: Annotated[
        Correction,
        Option(
            "Correction for several comparisons; `bh` is short for benjamini_hochberg, `none` "
            "leaves each p-value as it is."
        ),
    ] = "holm"
    family: Annotated[
        Families,
        Option("Comparisons that are corrected together: those of one measure, or of all."),
    ] = "measure"


@dataclass(frozen=True, slots=True, kw_only=True)
class Method(IntervalsAndTests):
    """How systems are compared; `comparisons.json` has it in fields of these names."""

    seed: Annotated[int, Option("Seed of resamples and sign flips.", ge=0)] = 13
    cluster: str | None = None
    """What names the clusters; None where each query stands for itself."""

    def __post_init__(self) -> None:
        check_options("compare", self)


@dataclass(frozen=True, slots=True)
class FamilyResult:
    """What the tests of one family give, an entry per comparison."""

    p: FloatArray
    """P-values before adjustment; NaN where nothing could be compared."""
    adjusted: FloatArray
    tests: list[Test]
    """Which test each p-value is of."""
    resamples: int
    """Sign flips that were drawn; more than asked for where the family needs them."""


def adjust_family(
    differences: FloatArray,
    *,
    test: Test = "randomization",
    correction: Correction = "holm",
    alpha: float = 0.05,
    resamples: int = 10_000,
    seed: int = 0,
    sums: SumsOf | None = None,
) -> FamilyResult:
    """Test every column of differences (n queries or clusters, m comparisons), and adjust for all.

    McNemar's test is of hits and misses. A column with other differences gets the randomization
    test, which on hits and misses is the same. One of m can only be rejected by B sign flips if
    1 / (B + 1) is at most alpha / m, so Holm and Benjamini-Hochberg get as many as that takes;
    `max_t` has sign flips of its own, and `none` needs no more for many comparisons than for one.
    `sums` gives the sums of columns under as many flips as were asked for, where these are known.

    Example:
        >>> found = adjust_family(np.array([[0.1, 0.3]] * 6), correction="holm")
        >>> found.p.tolist(), found.adjusted.tolist(), found.tests[0]
        ([0.03125, 0.03125], [0.0625, 0.0625], 'randomization')
    """
    m = differences.shape[1]
    if correction != "max_t" and m:
        needed = stats.resamples_needed(1 if correction == "none" else m, alpha=alpha)
        # known sums are of as many flips as were asked for: too few here
        sums = sums if resamples >= needed else None
        resamples = max(resamples, needed)
    tests = [_fitting(test, column) for column in differences.T]
    p = np.full(m, np.nan)
    for each in dict.fromkeys(tests):
        columns = np.flatnonzero([word == each for word in tests])
        own = None if sums is None else partial(_some, sums, columns)
        p[columns] = _p_values(each, differences[:, columns], resamples, seed, own)
    if correction == "max_t":
        adjusted = stats.max_t_p_values(differences, resamples=resamples, seed=seed, _sums=sums)
    else:
        adjusted = p.copy() if correction == "none" else _by_name(_ADJUSTMENTS[correction])(p)
    return FamilyResult(p, adjusted, tests, resamples)


def _fitting(test: Test, d: FloatArray) -> Test:
    graded = test == "mcnemar" and not np.isin(d[~np.isnan(d)], (-1.0, 0.0, 1.0)).all()
    return "randomization" if graded else test


def _some(sums: SumsOf, columns: NDArray[np.intp], places: NDArray[np.intp]) -> FloatArray:
    return sums(columns[places])


def _p_values(
    test: Test, differences: FloatArray, resamples: int, seed: int, sums: SumsOf | None
) -> FloatArray:
    if test == "randomization":
        return stats.randomization_p_values(differences, resamples=resamples, seed=seed, _sums=sums)
    return _by_name(_WITHOUT_RESAMPLES[test])(differences)


def _by_name(name: str) -> Callable[[FloatArray], FloatArray]:
    found: Callable[[FloatArray], FloatArray] = getattr(stats, name)
    return found


Labels = np.ndarray[tuple[int], np.dtype[Any]]
"""Which cluster each query is in."""
Ends = tuple[float, float]


def look_of(system: ScoreColumn, baseline: ScoreColumn) -> Look | None:
    """Return the look that a difference must allow for: the earlier one, where both have one."""
    looks = [column.look for column in (system, baseline) if column.look is not None]
    return min(looks, key=lambda look: look.judged / look.queries, default=None)


def early_of(look: Look | None) -> Early | None:
    """Return a look as files have it."""
    if look is None:
        return None
    from ragbench.records.score import Early

    return Early(
        stopped=look.stopped,
        judged=look.judged,
        queries=look.queries,
        look=look.number,
        sizes=look.sizes,
        always_valid=look.always_valid,
    )


def look_confidence(look: Look | None, confidence: float) -> float:
    """Return the confidence of a look's own interval, so that all looks together have the stated.

    Example:
        The first of five looks has to be all but certain, the last one hardly surer than usual.

        >>> [round(look_confidence(Look(k, (20, 40, 60, 80, 100), 20 * k, 100), 0.95), 4)
        ...  for k in (1, 3, 5)]
        [1.0, 0.9926, 0.9577]
    """
    if look is None or look.always_valid:
        return confidence
    return math.erf(_bound(look, confidence) / math.sqrt(2))


def paired_interval(
    differences: FloatArray,
    method: Method,
    *,
    range: Ends = (0.0, 1.0),
    clusters: Labels | None = None,
    look: Look | None = None,
) -> stats.DifferenceInterval:
    """Give the mean difference with the interval that may be printed; rows are queries.

    Without a look it is `difference_interval`, at a planned one `interim_interval`. Where looks
    are always valid the limits are those of `betting_interval` in the order of judging, and the
    rule is `betting`. `range` holds the smallest and the largest possible score of one system.
    """
    kept = ~np.isnan(differences)
    d = differences[kept]
    given: dict[str, Any] = {
        "range": range,
        "clusters": None if clusters is None else clusters[kept],
        "resamples": method.resamples,
        "seed": method.seed,
    }
    if look is None or look.always_valid:
        found = stats.difference_interval(d, confidence=method.confidence, **given)
    else:
        found = stats.interim_interval(d, _bound(look, method.confidence), **given)
    if look is None or not look.always_valid or not len(d):
        return found
    ordered = d[_in_order(look, kept)]
    low, high = stats.betting_interval(ordered, range=range, confidence=method.confidence)
    return replace(found, lower=low, upper=high, rule="betting")


def betting_mean(column: ScoreColumn, look: Look, confidence: float) -> Ends:
    """Give the interval of a mean that may be looked at at any time."""
    kept = ~np.isnan(column.values)
    above = (column.values[kept] - column.low)[_in_order(look, kept)]
    ends = (column.low, column.high)
    low, high = stats.betting_interval(above, range=ends, confidence=confidence)
    return column.low + max(low, 0.0), min(column.low + high, column.high)


def which_differ(
    family: Sequence[tuple[FloatArray, Look, Ends]], method: Method, clusters: Labels | None = None
) -> list[bool]:
    """Say of each comparison of a family whether it shows a difference, by Holm over intervals.

    A p-value of sign flips cannot be as small as an early look asks for, so that intervals decide:
    with k of m comparisons shown, the others are held at the level of m - k. A method
    that corrects nothing holds each at its own level.

    References:
        Ye, Li, Liu and Yao (2013), A group sequential Holm procedure with multiple primary
        endpoints.
    """
    alpha, n_shown = 1 - method.confidence, -1
    shown = [False] * len(family)
    while sum(shown) > n_shown and not all(shown):
        n_shown = sum(shown)
        n_left = 1 if method.correction == "none" else len(family) - n_shown
        level = replace(method, confidence=1 - alpha / n_left)
        for place, (d, look, ends) in enumerate(family):
            if not shown[place]:
                found = paired_interval(d, level, range=ends, clusters=clusters, look=look)
                shown[place] = not found.lower <= 0 <= found.upper and found.n > 0
    return shown


def _bound(look: Look, confidence: float) -> float:
    return stats.spending_bounds(look.sizes, confidence=confidence)[look.number - 1]


def _in_order(look: Look, kept: np.ndarray[Any, np.dtype[np.bool_]]) -> np.ndarray[Any, Any]:
    """Where each kept query is, in the order of judging; as they stand where that is unknown."""
    places = np.arange(len(kept)) if look.places is None else look.places
    return np.argsort(places[kept], kind="stable")
