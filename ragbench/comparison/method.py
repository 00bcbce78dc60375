"""Methods of comparison: the test of each pair, the correction for a family, the interval."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np
from numpy.typing import NDArray

from ragbench import stats
from ragbench.registry import Option, check_values, declared_options
from ragbench.types import FloatArray

if TYPE_CHECKING:
    from ragbench.stats.paired_tests import SumsOf

Test = Literal["randomization", "t", "wilcoxon", "mcnemar"]
Correction = Literal["holm", "benjamini_hochberg", "bh", "max_t", "none"]

# What is corrected for together: the comparisons by one measure, or by all.
Families = Literal["measure", "all"]


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
    """How systems are compared; `comparisons.json` has it in fields of these names.

    Attributes:
        cluster: What names the clusters; None where each query stands for itself.
    """

    seed: Annotated[int, Option("Seed of resamples and sign flips.", ge=0)] = 13
    cluster: str | None = None

    def __post_init__(self) -> None:
        check_options("compare", self)


@dataclass(frozen=True, slots=True)
class FamilyResult:
    """The results of the tests of one family, an entry per comparison.

    Attributes:
        p: P-values before adjustment; NaN where nothing could be compared.
        tests: The test of each p-value.
        resamples: Sign flips that were drawn; more than asked for where the family needs them.
    """

    p: FloatArray
    adjusted: FloatArray
    tests: list[Test]
    resamples: int


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
        >>> result = adjust_family(np.array([[0.1, 0.3]] * 6), correction="holm")
        >>> result.p.tolist(), result.adjusted.tolist(), result.tests[0]
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
    for kind in dict.fromkeys(tests):
        columns = np.flatnonzero([name == kind for name in tests])
        if kind == "randomization":
            p[columns] = stats.randomization_p_values(
                differences[:, columns],
                resamples=resamples,
                seed=seed,
                _sums=None if sums is None else partial(_some, sums, columns),
            )
        else:
            name = "t_test" if kind == "t" else kind
            p[columns] = getattr(stats, f"{name}_p_values")(differences[:, columns])
    if correction == "max_t":
        adjusted = stats.max_t_p_values(differences, resamples=resamples, seed=seed, _sums=sums)
    elif correction == "none":
        adjusted = p.copy()
    else:
        procedure = "benjamini_hochberg" if correction == "bh" else correction
        adjusted = getattr(stats, f"{procedure}_p_values")(p)
    return FamilyResult(p, adjusted, tests, resamples)


def _fitting(test: Test, d: FloatArray) -> Test:
    graded = test == "mcnemar" and not np.isin(d[~np.isnan(d)], (-1.0, 0.0, 1.0)).all()
    return "randomization" if graded else test


def _some(sums: SumsOf, columns: NDArray[np.intp], places: NDArray[np.intp]) -> FloatArray:
    return sums(columns[places])
