"""Method of a comparison: paired test, correction for several comparisons, interval."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Literal

import numpy as np

from ragbench import stats
from ragbench.registry import Option, OptionSet, check_values, declared_options
from ragbench.types import FloatArray, IntArray

Test = Literal["randomization", "t", "wilcoxon", "mcnemar"]
Correction = Literal["holm", "benjamini_hochberg", "bh", "max_t", "none"]
Families = Literal["measure", "all"]  # comparisons that are corrected together


def check_options(owner: str, record: object) -> None:
    """Check the declared options of a frozen record; NumPy numbers in it become Python numbers.

    `owner` is the name in front of the message.

    Raises:
        OptionError: A value is not allowed.
    """
    values = {}
    for name in declared_options(type(record)):
        value = getattr(record, name)
        if isinstance(value, np.generic):  # seeds and levels come out of arrays and tables
            value = value.item()
            object.__setattr__(record, name, value)
        values[name] = value
    check_values(owner, declared_options(type(record)), values)


Confidence = Annotated[float, Option("Level of the intervals.", gt=0, lt=1)]


class IntervalsAndTests(OptionSet):
    """Options of intervals and tests; 1 - `confidence` is the error rate of each family.

    Only `Method` checks the values.
    """

    confidence: Confidence = 0.95
    resamples: Annotated[int, Option("Resamples and sign flips.", ge=100)] = 10_000
    test: Annotated[Test, Option("Paired test over queries; `mcnemar`: of hits and misses.")] = (
        "randomization"
    )
    correction: Annotated[
        Correction,
        Option(
            "Correction for several comparisons; `bh` is short for benjamini_hochberg, "
            "`none` leaves each p-value as it is."
        ),
    ] = "holm"
    family: Annotated[
        Families,
        Option("Comparisons that are corrected together: those of one measure, or of all."),
    ] = "measure"


class Method(IntervalsAndTests):
    """Options of a comparison of systems; fields of `comparisons.json` have the same names.

    Raises OptionError if a value is not allowed.

    Attributes:
        cluster: Metadata field with the cluster of a query; None if queries are units.
    """

    seed: Annotated[int, Option("Seed of resamples and sign flips.", ge=0)] = 13
    cluster: str | None = None

    def __post_init__(self) -> None:
        check_options("compare", self)

    def of_runs(self) -> Method:
        """Return the method with which `ragbench compare` compares runs: a family per measure."""
        return replace(self, test="randomization", family="measure")


@dataclass(frozen=True, slots=True)
class FamilyResult:
    """Results of the tests of one family, one per comparison.

    Attributes:
        p: P-values before adjustment; NaN without paired scores.
        adjusted: P-values after adjustment.
        tests: Name of the test of each p-value.
        resamples: Number of sign flips; more than the caller set if the family needs more.
        n_comparisons: Number of comparisons that are corrected together; 1 without a correction.
    """

    p: FloatArray
    adjusted: FloatArray
    tests: list[Test]
    resamples: int
    n_comparisons: int


def adjust_family(differences: FloatArray, method: Method) -> FamilyResult:
    """Test every column of differences, and adjust the p-values of all columns together.

    McNemar's test needs hits and misses: a column with other differences gets the randomization
    test, which on hits and misses gives the same p-value. B sign flips can reject one of m
    comparisons only if 1 / (B + 1) <= alpha / m, so Holm and Benjamini-Hochberg get as many flips
    as that needs; `max_t` draws its own, and `none` needs those of one comparison.

    Args:
        differences: Shape (n, m): n queries or clusters, m comparisons; NaN without both scores.
        method: Paired test of each column, correction for m comparisons, error rate of the family
            (1 - confidence), number of sign flips, at least, and their seed.

    Returns:
        P-values in [0, 1], in the order of the columns; NaN without paired scores. 0 only where a
        p-value is too small for a float.

    Raises:
        OptionError: A difference is infinite.

    Example:
        >>> result = adjust_family(np.array([[0.1, 0.3]] * 6), Method())
        >>> result.p.tolist(), result.adjusted.tolist(), result.tests[0]
        ([0.03125, 0.03125], [0.0625, 0.0625], 'randomization')
    """
    return adjust_families([differences], method)[0]


def adjust_families(families: Sequence[FloatArray], method: Method) -> list[FamilyResult]:
    """Return the result of `adjust_family` for each family, all over the same queries or clusters.

    The families share their random sign flips, which take most of the time.
    """
    tests, resamples, p_values = [], [], []
    for differences in families:
        n_pairs = differences.shape[1]
        tests.append(_tests_of(differences, method.test))
        resamples.append(_resamples_of(n_pairs, method))
        p_values.append(np.full(n_pairs, np.nan))
    for number, kind, columns in _columns_by_test(tests):
        if kind != "randomization":
            name = "t_test" if kind == "t" else kind
            values = getattr(stats, f"{name}_p_values")(families[number][:, columns])
            p_values[number][columns] = values
    for flips in dict.fromkeys(resamples):
        flipped = []
        for number, kind, columns in _columns_by_test(tests):
            if kind == "randomization" and resamples[number] == flips:
                flipped.append((number, columns))
        if flipped:
            table = np.hstack([families[number][:, columns] for number, columns in flipped])
            values = stats.randomization_p_values(table, resamples=flips, seed=method.seed)
            for number, columns in flipped:
                p_values[number][columns], values = np.split(values, [len(columns)])
    results = []
    for differences, names, n, p in zip(families, tests, resamples, p_values, strict=True):
        adjusted = _adjust(p, differences, method, n)
        is_alone = method.correction == "none"
        n_comparisons = 1 if is_alone else int(np.count_nonzero(~np.isnan(p)))
        results.append(FamilyResult(p, adjusted, names, n, n_comparisons))
    return results


def _tests_of(differences: FloatArray, test: Test) -> list[Test]:
    """Return the test of each column."""
    # McNemar's test counts hits and misses, whose differences are -1, 0 and 1
    tests: list[Test] = []
    for d in differences.T:
        is_graded = not np.isin(d[~np.isnan(d)], (-1.0, 0.0, 1.0)).all()
        tests.append("randomization" if test == "mcnemar" and is_graded else test)
    return tests


def _resamples_of(m: int, method: Method) -> int:
    """Return the number of sign flips of a family of m comparisons."""
    if method.correction == "max_t" or not m:
        return method.resamples
    family = 1 if method.correction == "none" else m
    return max(method.resamples, stats.resamples_needed(family, alpha=1 - method.confidence))


def _columns_by_test(tests: Sequence[Sequence[Test]]) -> Iterator[tuple[int, Test, IntArray]]:
    """Yield (number of a family, test, columns with this test) for each family and its tests."""
    for number, names in enumerate(tests):
        for kind in dict.fromkeys(names):
            yield number, kind, np.flatnonzero([name == kind for name in names])


def _adjust(p: FloatArray, differences: FloatArray, method: Method, resamples: int) -> FloatArray:
    """Return the p-values of a family after the correction of the method."""
    adjusted: FloatArray = p
    if method.correction == "max_t":
        adjusted = stats.max_t_p_values(differences, resamples=resamples, seed=method.seed)
    elif method.correction != "none":
        name = "benjamini_hochberg" if method.correction == "bh" else method.correction
        adjusted = getattr(stats, f"{name}_p_values")(p)
    return adjusted
