"""Systems against the baseline, paired over queries, and which tie with the best."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ragbench.comparison.summary import finite, mean_of
from ragbench.comparison.systems import SystemScores, baseline_of
from ragbench.score.base import ScoreColumn
from ragbench.stats import (
    difference_interval,
    effect_size,
    holm_p_values,
    minimum_detectable_difference,
    paired_differences,
    randomization_p_values,
    resamples_needed,
    tied_with_best,
)
from ragbench.types import FloatArray

SCHEMA = "ragbench.comparison/1"


@dataclass(frozen=True, slots=True)
class Method:
    """How systems are compared."""

    confidence: float = 0.95
    """Level of every interval; 1 minus it is the error rate of every family of tests."""
    resamples: int = 10_000
    """Sign flips of a randomization test, and bootstrap resamples."""
    seed: int = 13
    """Seed of all resampling."""


def compare_systems(
    systems: Sequence[SystemScores], baseline: str | None, method: Method
) -> dict[str, Any]:
    """Compare the systems that have a measure, measure by measure.

    The family of a measure is its comparisons with the baseline: their p-values are adjusted
    together by Holm's procedure. Only queries that both systems have a score for are compared.

    Args:
        systems: All systems of one experiment, over the same queries in the same order.
        baseline: The retriever that the others are compared with.
        method: Confidence, resampling, seed.

    Returns:
        The mapping of `comparisons.json`, JSON-ready.
    """
    by_name = {system.name: system for system in systems}
    names = dict.fromkeys(name for system in systems for name in system.columns)
    return {
        "schema": SCHEMA,
        "baseline": baseline,
        "confidence": method.confidence,
        "test": "randomization",
        "correction": "holm",
        "resamples": method.resamples,
        "seed": method.seed,
        "measures": [_compare_measure(name, by_name, baseline, method) for name in names],
    }


def _compare_measure(
    name: str, systems: Mapping[str, SystemScores], baseline: str | None, method: Method
) -> dict[str, Any]:
    having = {s.name: s for s in systems.values() if name in s.columns}
    first = next(iter(having.values()))
    column = first.columns[name]
    best, tied = _best(name, having, method)
    pairs = [
        (system, other)
        for system in having.values()
        if (other := baseline_of(system, having, baseline)) is not None
    ]
    return {
        "measure": name,
        "kind": first.kinds[name],
        "direction": column.direction,
        "signature": str(column.signature),
        "best": best,
        "tied_with_best": tied,
        "comparisons": _compare_pairs(name, pairs, method) if column.aggregate != "sum" else [],
    }


def _best(
    name: str, having: Mapping[str, SystemScores], method: Method
) -> tuple[str | None, list[str]]:
    """The system with the best mean and those that max-T does not tell from it, in config order."""
    columns = [system.columns[name] for system in having.values()]
    means = np.array([mean_of(column) for column in columns])
    if columns[0].aggregate == "sum" or not np.isfinite(means).any():
        return None, []
    higher = columns[0].direction == "higher"
    names = list(having)
    best = names[int(np.nanargmax(means if higher else -means))]
    mask = tied_with_best(
        np.column_stack([column.values for column in columns]),
        higher_is_better=higher,
        alpha=1 - method.confidence,
        resamples=method.resamples,
        seed=method.seed,
    )
    return best, [each for each, tied in zip(names, mask, strict=True) if tied]


def _compare_pairs(
    name: str, pairs: Sequence[tuple[SystemScores, SystemScores]], method: Method
) -> list[dict[str, Any]]:
    """Test the pairs as one family; a query that one of the two has no score for is left out."""
    if not pairs:
        return []
    columns = [(system.columns[name], other.columns[name]) for system, other in pairs]
    table = np.column_stack([paired_differences(x.values, y.values) for x, y in columns])
    alpha = 1 - method.confidence
    # as many flips as Holm's smallest threshold needs, or no pair could ever differ
    resamples = max(method.resamples, resamples_needed(len(pairs), alpha=alpha))
    p_values = randomization_p_values(table, resamples=resamples, seed=method.seed)
    return [
        {
            "system": system.name,
            "baseline": other.name,
            **_describe(difference[~np.isnan(difference)], column, method),
            "p": finite(p),
            "p_adjusted": finite(adjusted),
            "differs": bool(adjusted <= alpha),
        }
        for (system, other), (column, _), difference, p, adjusted in zip(
            pairs, columns, table.T, p_values, holm_p_values(p_values), strict=True
        )
    ]


def _describe(d: FloatArray, column: ScoreColumn, method: Method) -> dict[str, Any]:
    if not len(d):
        nothing = dict.fromkeys(("difference", "rule", "effect_size", "minimum_detectable"))
        return {**nothing, "interval": [None, None], "n": 0, "n_changed": 0}
    found = difference_interval(
        d,
        range=(column.low, column.high),
        confidence=method.confidence,
        resamples=method.resamples,
        seed=method.seed,
    )
    detectable = (
        minimum_detectable_difference(found.sd, found.n, confidence=method.confidence)
        if found.n > 1
        else float("nan")
    )
    return {
        "difference": finite(found.mean),
        "interval": [finite(found.lower), finite(found.upper)],
        "n": found.n,
        "n_changed": found.n_changed,
        "rule": found.rule,
        "effect_size": finite(effect_size(d)),
        "minimum_detectable": finite(detectable),
    }
