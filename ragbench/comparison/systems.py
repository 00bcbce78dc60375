"""A system: its scores, their means with what these rest on, and what it is compared with.

A query with several answers has a score where one of them has; those that failed leave it open
between the mean with all of them at the worst, and at the best.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ragbench.data.runs.scored_systems import SystemParts, SystemScores
from ragbench.errors import RagbenchError
from ragbench.records.score import Kind, SystemScore
from ragbench.registry import PYTHON
from ragbench.signature import Signature
from ragbench.stats import mean_interval
from ragbench.stats.mean import finite
from ragbench.types import Cause, FloatArray, ScoreColumn
from ragbench.types.score_column import aggregate


def with_cost_column(system: SystemScores, cost: str) -> SystemScores:
    """Return the system with a cost as its only column; with none where it is not known.

    `latency_ms.p95` is of the times that `latency_ms` has.
    """
    values = system.costs.get(cost, system.costs.get(cost.partition(".")[0]))
    if values is None:
        return replace(system, columns={})
    causes = np.where(np.isnan(values), Cause.NO_ANSWER, Cause.SCORED).astype(np.uint8)
    column = ScoreColumn(cost, values, causes, Signature(cost), "lower", 0.0, math.inf)
    return replace(system, columns={cost: column})


S = TypeVar("S", bound=SystemParts)


def baseline_of(system: S, systems: Mapping[str, S], retriever: str | None) -> S | None:
    """Return the system that `system` is compared with, or None where it is the baseline itself.

    A retriever is compared with the baseline retriever, a pair with the baseline retriever's
    pair of the same generator, or where the generator does not run on it, with the generator's
    first pair; a control with what it is a control of, which is that pair; an app with the first
    system of the baseline retriever; systems of the records with the one that is named, or the
    first.
    """
    candidates = [s for s in systems.values() if s.role != "control"]
    if system.role == "app":
        of_retriever = [s for s in candidates if retriever in (s.retriever, s.name)]
        baseline = [*of_retriever, *candidates][0]
    elif system.retriever is None:
        recorded = {s.name: s for s in candidates if s.retriever is None}
        baseline = recorded.get(retriever or "", next(iter(recorded.values())))
    else:
        peers = [s for s in candidates if s.generator == system.generator and s.retriever]
        if not peers:  # a control of a generator that no retriever has
            return None
        baseline = next((s for s in peers if s.retriever == retriever), peers[0])
    return None if baseline is system else baseline


def baselines(
    systems: Sequence[SystemScores], retriever: str | None
) -> dict[str, dict[str, SystemScores | None]]:
    """Return score -> system that has it -> what it is compared with by this score."""
    names = dict.fromkeys(name for system in systems for name in system.columns)
    having = {name: {s.name: s for s in systems if name in s.columns} for name in names}
    return {
        score: {name: baseline_of(s, by_name, retriever) for name, s in by_name.items()}
        for score, by_name in having.items()
    }


_FIRST_FAILURE = min(cause for cause in Cause if cause.failed)


def failed_share(column: ScoreColumn) -> FloatArray:
    """Return the share of each item that failed, shape (n,), from 0 to 1: all of it.

    What a score does not apply to is no part of it: of five answers, one of which failed and one
    makes no claim, a quarter of the score failed.

    Example:
        >>> from ragbench.signature import Signature
        >>> of_answers = np.array([[0, 0, 0], [0, Cause.TIMEOUT, 0]], np.uint8)
        >>> column = ScoreColumn("f1", np.array([1.0, 0.5]), np.zeros(2, np.uint8), Signature("f1"),
        ...     answer_causes=of_answers)
        >>> failed_share(column).round(2).tolist()
        [0.0, 0.33]
    """
    share: FloatArray = (column.causes >= _FIRST_FAILURE).astype(np.float64)
    if column.answer_causes is None:
        return share
    failed = (column.answer_causes >= _FIRST_FAILURE).sum(axis=1)
    counted = failed + (column.answer_causes == Cause.SCORED).sum(axis=1)
    is_scored = column.causes == Cause.SCORED
    share[is_scored] = (failed / np.maximum(counted, 1))[is_scored]
    return share


def with_failed_at(column: ScoreColumn, end: float) -> FloatArray:
    """Return the values, shape (n,), with all that failed at `end`, which may be infinite.

    NaN where the score does not apply.
    """
    share = failed_share(column)
    opened = share > 0
    values: FloatArray = column.values.copy()
    known = np.where(np.isnan(values), 0.0, values)[opened]
    values[opened] = (1 - share[opened]) * known + share[opened] * end
    return values


def is_open(column: ScoreColumn) -> NDArray[np.bool_]:
    """Return True for items that a failure leaves open, in whole or in part; shape (n,)."""
    opened: NDArray[np.bool_] = failed_share(column) > 0
    return opened


def summarize(
    column: ScoreColumn,
    *,
    confidence: float = 0.95,
    clusters: Sequence[str] | None = None,
    kind: Kind | None = None,
) -> SystemScore:
    """Aggregate a column of scores.

    Queries without a score are left out of the mean, and counted: those that failed by cause,
    the others as not applicable. The bounds say how much the failed ones could matter. With
    clusters, a label per query, the interval is made of these. What has no number is None.

    Example:
        >>> from ragbench.signature import Signature
        >>> values, causes = np.array([1.0, 0.5, np.nan]), np.array([0, 0, Cause.TIMEOUT], np.uint8)
        >>> summary = summarize(ScoreColumn("f1", values, causes, Signature("f1")))
        >>> summary.mean, summary.n, summary.failed, [round(x, 2) for x in summary.bounds]
        (0.75, 2, {'timeout': 1}, [0.5, 0.83])
    """
    is_scored = column.causes == Cause.SCORED
    scored = column.values[is_scored]
    labels = None if clusters is None else np.asarray(clusters)[is_scored]
    counts = enumerate(np.bincount(column.causes).tolist())
    failed = {Cause(code).word: n for code, n in counts if n and Cause(code).failed}
    return SystemScore(
        mean=finite(column.mean),
        interval=_pair(_interval(scored, column, confidence, labels)),
        n=len(scored),
        failed=failed,
        not_applicable=len(column.values) - len(scored) - sum(failed.values()),
        bounds=_pair(bounds_of(column)),
        kind=kind,
        direction=column.direction,
        aggregate=column.aggregate,
        range=_pair((column.low, column.high)),
        signature=str(column.signature),
    )


def _pair(limits: tuple[float, float]) -> tuple[float | None, float | None]:
    return finite(limits[0]), finite(limits[1])


def _interval(
    scored: FloatArray,
    column: ScoreColumn,
    confidence: float,
    clusters: np.ndarray[tuple[int], np.dtype[Any]] | None,
) -> tuple[float, float]:
    """The interval of the mean; a count over the queries has none."""
    if column.aggregate == "sum" or not len(scored):
        return (math.nan, math.nan)
    ends = (column.low, column.high)
    found = mean_interval(scored, range=ends, confidence=confidence, clusters=clusters)
    if column.aggregate == "geometric_mean":  # the values are logarithms
        return (math.exp(found.lower), math.exp(found.upper))
    if column.aggregate == "corpus":  # the values of single queries are not bounded, the number is
        return (max(found.lower, 0.0), min(found.upper, _corpus_high(column)))
    # equal texts have a BLEU of 1 + 4e-16, as sacrebleu rounds: the interval still holds the mean
    return (min(found.lower, found.mean), max(found.upper, found.mean))


def _corpus_high(column: ScoreColumn) -> float:
    """The largest number that all predictions together may have: rates of errors have none."""
    return 1.0 if column.direction == "higher" else math.inf


def bounds_of(column: ScoreColumn) -> tuple[float, float]:
    """Return the aggregate with all that failed at the worst end, and at the best.

    Both are the mean where nothing failed; an end is infinite where the score has no bound.
    """
    if not is_open(column).any():
        return (column.mean, column.mean)
    if column.aggregate == "corpus":
        high = _corpus_high(column)
        return (0.0, high) if column.direction == "higher" else (high, 0.0)
    ends = (column.low, column.high) if column.direction == "higher" else (column.high, column.low)
    at_ends = (with_failed_at(column, end) for end in ends)
    worst, best = (aggregate(values[~np.isnan(values)], column.aggregate) for values in at_ends)
    return (worst, best)


def find_score(name: str, scores: Sequence[str]) -> str | None:
    """Return the one of some score names that a name means in another spelling; None if none does.

    Example:
        >>> find_score("nDCG@10", ["map", "ndcg@10"])
        'ndcg@10'
    """
    if name in scores:
        return name
    score = canonical(name)
    if score is None:
        return None
    # a run folder is data: code that its scores name is not imported
    safe = (each for each in scores if not each.startswith(PYTHON))
    return next((each for each in safe if canonical(each) == score), None)


def canonical(name: str) -> str | None:
    """Return the one spelling of a measure or metric; None for any other name.

    Example:
        >>> canonical("nDCG@10"), canonical("em"), canonical("faithfulness")
        ('ndcg@10', 'exact_match', None)
    """
    from ragbench.score.retrieval.notation import parse_measure
    from ragbench.score.text.notation import parse_metric

    try:
        return parse_measure(name).name
    except RagbenchError:  # no measure; it may be a metric
        pass
    try:
        return parse_metric(name).canonical
    except RagbenchError:
        return None
