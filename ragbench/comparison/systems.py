"""Scores of a system: mean, interval and bounds of a column, baseline of a system, score names.

A query with several answers has a score if one of them has. Failed answers leave it open: its
bounds are the means with all of them at the worst, and at the best value of the score.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ragbench.data.runs.scored_systems import SystemParts, SystemScores
from ragbench.errors import AdapterError, RagbenchError
from ragbench.records.score import Kind, SystemScore
from ragbench.registry import PYTHON, nearest
from ragbench.stats import mean_interval, share_upper_limit
from ragbench.stats.mean import finite
from ragbench.types import Cause, FloatArray, ScoreColumn
from ragbench.types.score_column import UPPER_LIMIT, aggregate

S = TypeVar("S", bound=SystemParts)


def baseline_of(system: S, systems: Mapping[str, S], retriever: str | None) -> S | None:
    """Return the baseline of a system; None if it is a baseline itself, or a control without one.

    - retriever: the baseline retriever, or the first retriever
    - pair of retriever and generator, control: the pair of the baseline retriever and the same
      generator, or the first pair of that generator
    - app: the first system of the baseline retriever or of this name, or the first system of all
    - system of the records: the system named `retriever`, or the first of the records

    Args:
        system: One of `systems`.
        systems: All systems by name.
        retriever: Name of the baseline retriever, or of the baseline app or system of records. With
            None the baseline of an app is the first app, or system of records.

    Raises:
        StopIteration: A system of the records is a control, and `systems` has no other one.
    """
    candidates = []
    for candidate in systems.values():
        if candidate.role != "control":
            candidates.append(candidate)
    if system.role == "app":
        of_retriever = []
        for candidate in candidates:
            if retriever in (candidate.retriever, candidate.name):
                of_retriever.append(candidate)
        baseline = [*of_retriever, *candidates][0]
    elif system.retriever is None:
        recorded = {}
        for candidate in candidates:
            if candidate.retriever is None:
                recorded[candidate.name] = candidate
        baseline = recorded.get(retriever or "", next(iter(recorded.values())))
    else:
        peers = []
        for s in candidates:
            if s.generator == system.generator and s.retriever:
                peers.append(s)
        if not peers:  # a control whose generator has no pair
            return None
        baseline = next((s for s in peers if s.retriever == retriever), peers[0])
    return None if baseline is system else baseline


def baselines(
    systems: Sequence[SystemScores], retriever: str | None
) -> dict[str, dict[str, SystemScores | None]]:
    """Return score -> system with this score -> its baseline by this score, None if it has none.

    `retriever` is the name that `baseline_of` gets; its StopIteration passes through. Scores are in
    the order in which the systems name them first; no systems give an empty dict.
    """
    systems_of: dict[str, dict[str, SystemScores]] = {}
    for system in systems:
        for score in system.columns:
            systems_of.setdefault(score, {})[system.name] = system
    baselines: dict[str, dict[str, SystemScores | None]] = {}
    for score, by_name in systems_of.items():
        baselines[score] = {name: baseline_of(s, by_name, retriever) for name, s in by_name.items()}
    return baselines


# Failures have the highest codes: this one and all above it.
_FIRST_FAILURE = min(cause for cause in Cause if cause.failed)


def failed_share(column: ScoreColumn) -> FloatArray:
    """Return the share of each item's answers that failed, from 0 to 1, shape (n,).

    Answers that the score does not apply to are not counted: if of five answers one failed and one
    makes no claim, the share is a quarter. An item with one answer has 0 or 1. An item without any
    counted answer has 1 if it failed, else 0.

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
    """Return the values of a column, shape (n,), with all failed answers at `end`.

    Items that the score does not apply to are NaN. `end` may be infinite. An item with some failed
    answers has the mean of its value and `end`, weighted by their shares.
    """
    share = failed_share(column)
    opened = share > 0
    values: FloatArray = column.values.copy()
    # an item without any score has weight 0 for its NaN
    scored = np.where(np.isnan(values), 0.0, values)[opened]
    values[opened] = (1 - share[opened]) * scored + share[opened] * end
    return values


def is_scored(column: ScoreColumn) -> bool:
    """Return True if an item of a column has a score."""
    return bool((column.causes == Cause.SCORED).any())


def is_open(column: ScoreColumn) -> NDArray[np.bool_]:
    """Return True for each item with a failed answer, shape (n,).

    False for an item that the score does not apply to.
    """
    opened: NDArray[np.bool_] = failed_share(column) > 0
    return opened


def summarize(
    column: ScoreColumn,
    *,
    confidence: float = 0.95,
    clusters: Sequence[str] | None = None,
    kind: Kind | None = None,
) -> SystemScore:
    """Return mean, interval, bounds and counts of a column of scores.

    Queries without a score are left out of the mean and counted by cause: failed ones, and those
    that the score does not apply to. The bounds are the mean with all failed queries at the worst,
    and at the best value. A share of leaks has the interval from 0 to its exact upper limit, unless
    there are clusters. A number that is not defined, such as the mean of no queries, is None;
    interval and bounds are then (None, None).

    Args:
        column: Scores of n queries.
        confidence: Level of the interval.
        clusters: Cluster label of each query, resampled as units; None if queries are units.
        kind: Kind of the score, for the record; None leaves it out.

    Raises:
        OptionError: A value is outside the range of the score, or confidence is outside (0, 1);
            without an interval nothing is checked.
        IndexError: Clusters have another length.

    Example:
        >>> from ragbench.signature import Signature
        >>> values, causes = np.array([1.0, 0.5, np.nan]), np.array([0, 0, Cause.TIMEOUT], np.uint8)
        >>> summary = summarize(ScoreColumn("f1", values, causes, Signature("f1")))
        >>> summary.mean, summary.n, summary.failed, [round(x, 2) for x in summary.bounds]
        (0.75, 2, {'timeout': 1}, [0.5, 0.83])
    """
    # once: exact sums of many values take longer than reading their files
    column = replace(column, total=column.mean)
    is_scored = column.causes == Cause.SCORED
    scored = column.values[is_scored]
    labels = None if clusters is None else np.asarray(clusters)[is_scored]
    failed, missing = {}, {}
    for code, n in enumerate(np.bincount(column.causes).tolist()):
        if n and Cause(code).failed:
            failed[Cause(code).word] = n
        elif n and Cause(code).status == "not_applicable":
            missing[Cause(code).word] = n
    return SystemScore(
        mean=finite(column.mean),
        interval=_finite_pair(_interval(scored, column, confidence, labels)),
        n=len(scored),
        failed=failed,
        not_applicable=sum(missing.values()),
        not_applicable_causes=missing,
        bounds=_finite_pair(bounds_of(column)),
        kind=kind,
        direction=column.direction,
        aggregate=column.aggregate,
        range=_finite_pair((column.low, column.high)),
        signature=str(column.signature),
    )


def _finite_pair(limits: tuple[float, float]) -> tuple[float | None, float | None]:
    """Return both limits, None in the place of NaN and infinity."""
    return finite(limits[0]), finite(limits[1])


def _interval(
    scored: FloatArray,
    column: ScoreColumn,
    confidence: float,
    clusters: np.ndarray[tuple[int], np.dtype[Any]] | None,
) -> tuple[float, float]:
    """Return the interval of the aggregate; NaN for a sum, or without scored queries."""
    if n_missing := int(np.count_nonzero(np.isnan(scored))):
        problem = f"found nan for {n_missing} of {len(scored)} queries"
        raise AdapterError(f"metric '{column.name}': {problem}, allowed: a finite number")
    if column.aggregate == "sum" or not len(scored):
        return (math.nan, math.nan)
    if clusters is None and has_upper_limit(column):
        n_events = int(np.count_nonzero(scored))
        return 0.0, share_upper_limit(n_events, len(scored), confidence=confidence)
    ends = (column.low, column.high)
    interval = mean_interval(scored, range=ends, confidence=confidence, clusters=clusters)
    if column.aggregate == "geometric_mean":  # the values are logarithms
        return (math.exp(interval.lower), math.exp(interval.upper))
    if column.aggregate == "corpus":  # the values of single queries are not bounded, the number is
        return (max(interval.lower, 0.0), min(interval.upper, _corpus_high(column)))
    # equal texts have a BLEU of 1 + 4e-16, as sacrebleu rounds: the interval still holds the mean
    return (min(interval.lower, interval.mean), max(interval.upper, interval.mean))


def has_upper_limit(column: ScoreColumn) -> bool:
    """Return True for a share of queries whose interval is one-sided, with an exact upper end.

    A column with other values than 0 and 1, the means of repetitions, has none.
    """
    is_share = column.signature.part("interval") == UPPER_LIMIT
    return is_share and bool(np.isin(column.values[column.causes == Cause.SCORED], (0, 1)).all())


def _corpus_high(column: ScoreColumn) -> float:
    """Return the largest score of a corpus: 1, or infinity for error rates."""
    return 1.0 if column.direction == "higher" else math.inf


def bounds_of(column: ScoreColumn) -> tuple[float, float]:
    """Return the aggregate with all failures at the worst value of the score, and at the best.

    The worst comes first. Without failures both are the mean, NaN without scores. A bound is
    infinite if the score has no limit on that side.
    """
    if not is_open(column).any():
        return (column.mean, column.mean)
    if column.aggregate == "corpus":
        high = _corpus_high(column)
        return (0.0, high) if column.direction == "higher" else (high, 0.0)
    ends = (column.low, column.high) if column.direction == "higher" else (column.high, column.low)
    bounds = []
    for end in ends:
        values = with_failed_at(column, end)
        bounds.append(aggregate(values[~np.isnan(values)], column.aggregate))
    worst, best = bounds
    return (worst, best)


def find_score(name: str, scores: Sequence[str]) -> str | None:
    """Return the score that a name means in any spelling; None if it means none of `scores`.

    Of `scores`, those that start with `python:` are found by equal text only; a `name` that starts
    so, and equals none of them, imports the code that it names. The first of several that match
    counts.

    Example:
        >>> find_score("nDCG@10", ["map", "ndcg@10"])
        'ndcg@10'
    """
    if name in scores:
        return name
    score = canonical(name)
    if score is None:
        return None
    # `python:...` names code, and a run folder is data: its code is not imported for a spelling
    for other in scores:
        if not other.startswith(PYTHON) and canonical(other) == score:
            return other
    return None


def nearest_score(name: str, scores: Sequence[str]) -> str | None:
    """Return the score that a misspelt name means, or else the one of the nearest spelling.

    Example:
        >>> nearest_score("p5", ["map@5", "precision@5"])
        'precision@5'
    """
    from ragbench.score.retrieval.notation import nearest_measure

    measure = nearest_measure(name)
    return (measure and find_score(measure, scores)) or nearest(name, scores)


def canonical(name: str) -> str | None:
    """Return the standard spelling of a measure or metric; None for any other name.

    A name `python:...` imports the code that it names; None if that fails.

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
