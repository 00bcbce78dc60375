"""Coefficients of agreement and correlation beside SciPy, scikit-learn, or their definition."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from ragbench import stats
from tests.conformance.cases import samples
from tests.conformance.reference import ROUNDING, Pairs, Reference, of_cases
from tests.lazy import Lazy
from tests.stats.test_krippendorff import _by_pairs

scipy = Lazy("scipy.stats")
sklearn = Lazy("sklearn.metrics")

Array = np.ndarray


def _ratings(times: int, n: int, levels: int = 5) -> Iterator[tuple[Array, Array]]:
    """Two raters who agree more often than not, neither of them constant."""
    rng = np.random.default_rng(8)
    for _ in range(n * times):
        x = rng.integers(1, levels + 1, int(rng.integers(4, 30)))
        y = np.clip(x + rng.choice([0, 0, 0, 1, -1, 2], len(x)), 1, levels)
        # two levels on each side: a constant rater has no correlation
        x[:2], y[:2] = (1, 2), (1, 3)
        yield x, y


def _value(statistic: Callable, **options: str) -> Callable[[Array, Array], float]:
    """Return the value of a statistic of two raters as a function of their ratings."""
    return lambda x, y: statistic(np.column_stack((x, y)), **options).value


def _alpha(table: Array, level: str) -> float:
    # a single rating pairs with nothing, and the definition leaves it out
    rated = table[np.isfinite(table).sum(axis=1) >= 2]
    return stats.krippendorff_alpha(rated, level).value


def _alphas(level: str) -> Callable[[int], Pairs]:
    def pairs(times: int) -> Pairs:
        rng = np.random.default_rng(13)
        for _ in range(40 * times):
            table = rng.integers(1, 5, (int(rng.integers(3, 12)), int(rng.integers(2, 5))))
            table = np.where(rng.random(table.shape) < 0.2, np.nan, table)
            # a pair that agrees and one that does not: else chance alone decides alpha
            table[:2, :2] = [[1, 2], [3, 3]]
            yield _alpha(table, level), _by_pairs(table, level)

    return pairs


def _auc(times: int) -> Pairs:
    rng = np.random.default_rng(14)
    for scores in samples(times, 200):
        good = rng.integers(0, 2, len(scores))
        # both classes: the area is not defined for one
        good[:2] = 0, 1
        yield (
            stats.roc_auc(np.column_stack((scores, good))).value,
            sklearn.roc_auc_score(good, scores),
        )


def _by_question(ours: Callable, theirs: str) -> Callable:
    """Five questions with the ratings of several systems each, none of them constant."""

    def pairs(times: int) -> Pairs:
        oracle = getattr(scipy, theirs)
        cases = list(_ratings(times, 100))
        for start in range(0, len(cases), 5):
            some = cases[start : start + 5]
            x, y = (np.concatenate(side) for side in zip(*some, strict=True))
            groups = np.repeat(range(len(some)), [len(labels) for labels, _ in some])
            # SciPy has no mean over groups, so that its values are averaged here
            mean = stats.mean_correlation(ours, np.column_stack((x, y)), groups).mean
            yield mean.value, np.mean([oracle(*labels)[0] for labels in some])

    return pairs


def _two_levels(times: int) -> Iterator[tuple[Array, Array]]:
    """Levels of a judge and of people, both of which have passes and fails."""
    rng = np.random.default_rng(21)
    for _ in range(100 * times):
        people = rng.random(int(rng.integers(5, 40))) < rng.uniform(0.2, 0.9)
        judge = np.where(rng.random(len(people)) < 0.2, ~people, people)
        # a pass and a fail on both sides: precision and recall divide by them
        people[:2], judge[:2] = (True, False), (True, False)
        yield judge, people


def _two_level(name: str, theirs: str) -> Reference:
    def pairs(times: int) -> Pairs:
        for judge, people in _two_levels(times):
            ours = stats.two_level_agreement(judge, people)
            options = {} if name == "balanced_accuracy" else {"pos_label": ours.rare == "pass"}
            yield (
                ours.statistics[name].value,
                getattr(sklearn, theirs)(people, judge, **options),
            )

    return Reference("two_level_agreement", f"scikit-learn `{theirs}`", ROUNDING, pairs)


def _kappas(ours: str, theirs: str | None) -> Reference:
    return Reference(
        "cohen_kappa",
        f"scikit-learn `cohen_kappa_score`, `weights={theirs!r}`",
        ROUNDING,
        of_cases(
            _value(stats.cohen_kappa, weights=ours),
            lambda x, y: sklearn.cohen_kappa_score(x, y, labels=[1, 2, 3, 4, 5], weights=theirs),
            _ratings,
            200,
        ),
    )


REFERENCES = [
    Reference(
        "raw_agreement",
        "scikit-learn `accuracy_score`",
        ROUNDING,
        of_cases(
            _value(stats.raw_agreement),
            lambda x, y: sklearn.accuracy_score(x, y),
            _ratings,
            200,
        ),
    ),
    _two_level("balanced_accuracy", "balanced_accuracy_score"),
    _two_level("precision", "precision_score"),
    _two_level("recall", "recall_score"),
    _two_level("f1", "f1_score"),
    _kappas("equal", None),
    _kappas("linear", "linear"),
    _kappas("quadratic", "quadratic"),
    *(
        Reference("krippendorff_alpha", f"plainly, pair by pair: {level}", ROUNDING, _alphas(level))
        for level in ("nominal", "ordinal", "interval")
    ),
    Reference(
        "pearson",
        "SciPy `pearsonr`",
        ROUNDING,
        of_cases(
            _value(stats.pearson),
            lambda x, y: scipy.pearsonr(x, y)[0],
            _ratings,
            200,
        ),
    ),
    *(
        Reference(
            "mean_correlation",
            f"mean of SciPy `{theirs}` over questions: {name}",
            ROUNDING,
            _by_question(ours, theirs),
        )
        for name, ours, theirs in (
            ("pearson", stats.pearson, "pearsonr"),
            ("spearman", stats.spearman, "spearmanr"),
            ("kendall", stats.kendall_tau_b, "kendalltau"),
        )
    ),
    Reference(
        "spearman",
        "SciPy `spearmanr`",
        ROUNDING,
        of_cases(
            _value(stats.spearman),
            lambda x, y: scipy.spearmanr(x, y)[0],
            _ratings,
            200,
        ),
    ),
    Reference(
        "kendall_tau_b",
        "SciPy `kendalltau`",
        ROUNDING,
        of_cases(
            _value(stats.kendall_tau_b),
            lambda x, y: scipy.kendalltau(x, y)[0],
            _ratings,
            200,
        ),
    ),
    Reference("roc_auc", "scikit-learn `roc_auc_score`", ROUNDING, _auc),
]
