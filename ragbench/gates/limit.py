"""Gates on one number: a score, a share of failed items, a cost, a judge's certificate."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from ragbench.comparison.pairs import at_least
from ragbench.comparison.summary import ScoreSummary, finite, summarize
from ragbench.gates.drop import Decide, GateVerdict, Verdict
from ragbench.score.base import ScoreColumn
from ragbench.types import Cause


def decide_score(
    column: ScoreColumn,
    *,
    least: float | None = None,
    most: float | None = None,
    decide: Decide = "mean",
    confidence: float = 0.95,
) -> GateVerdict:
    """Decide whether the mean of a score is at least, or at most, a limit.

    Queries that failed count at their worst and at their best: a verdict that they could turn is
    undecided. A score of no query is undecided.

    Args:
        column: The score of all queries.
        least: `min:`; either this or `most` is given.
        most: `max:`.
        decide: `mean` compares the mean, `interval` the worse end of its interval.
        confidence: Of the interval.

    Returns:
        The verdict; its facts hold mean, interval, and how many queries were scored and failed.

    Example:
        >>> from ragbench.signature import Signature
        >>> hits = ScoreColumn(
        ...     "hit", np.array([1.0, 1.0, 1.0, 0.0]), np.zeros(4, np.uint8), Signature("hit"))
        >>> decide_score(hits, least=0.7).verdict
        'pass'
        >>> decide_score(hits, least=0.7, decide="interval").why
        'mean 0.75 [0.3006, 0.9544] over 4 queries; its lower end is compared'
    """
    found = summarize(column, confidence=confidence)
    n_failed = sum(found.failed.values())
    facts = {
        "mean": finite(found.mean),
        "interval": [finite(end) for end in found.interval],
        "n": found.n,
        "n_failed": n_failed,
    }
    is_least = least is not None
    value = _compared(found, is_least, decide)
    if math.isnan(value):
        failed = f"; {n_failed} failed" if n_failed else ""
        nothing = "the score has no interval" if found.n else f"nothing was scored{failed}"
        return GateVerdict("undecided", nothing, facts)
    verdict = _within(value, least, most)
    why = f"mean {found.mean:.4g} over {found.n} queries"
    if decide == "interval":
        low, high = found.interval
        why = f"mean {found.mean:.4g} [{low:.4g}, {high:.4g}] over {found.n} queries; "
        why += f"its {'lower' if is_least else 'upper'} end is compared"
    if n_failed:
        ends = _at_worst_and_best(column, found, is_least, decide, confidence)
        if any(math.isnan(end) or _within(end, least, most) != verdict for end in ends):
            turned = f"{n_failed} queries failed, which could turn {verdict}; of the others: {why}"
            return GateVerdict("undecided", turned, facts)
    return GateVerdict(verdict, why, facts)


def decide_failed(column: ScoreColumn, most: float) -> GateVerdict:
    """Decide whether at most a share of the items of a score failed.

    What does not apply is no failure, and not among the items.
    """
    found = summarize(column)
    n_failed = sum(found.failed.values())
    n = found.n + n_failed
    facts = {"n": found.n, "n_failed": n_failed}
    if not n:
        return GateVerdict("undecided", "the score applies to no query", facts)
    causes = ", ".join(f"{count} {cause}" for cause, count in found.failed.items())
    why = f"{n_failed} of {n} failed" + (f" ({causes})" if causes else "")
    return GateVerdict(_within(n_failed / n, None, most), why, facts)


def decide_cost(value: float | None, most: float) -> GateVerdict:
    """Decide whether a latency, a price or a number of tokens is at most a limit."""
    if value is None:
        return GateVerdict("undecided", "not known", {"value": None})
    return GateVerdict(_within(value, None, most), f"it is {value:.4g}", {"value": value})


def decide_kappa(
    certificate: Mapping[str, Any], rubric: str, least: float, *, decide: Decide = "mean"
) -> GateVerdict:
    """Decide whether people agree with a judge, by the certificate of `ragbench calibrate`.

    Args:
        certificate: The content of a `ragbench.certificate/1`.
        rubric: The rubric, or the name of the score, that it certifies.
        least: Smallest Cohen's kappa that passes.
        decide: `interval` compares the lower end of its interval.

    Returns:
        The verdict. Undecided where kappa is not defined: labels that are all the same say nothing
        of the judge.
    """
    kappa = certificate["rubrics"][rubric]["agreement"]["kappa"]
    value, (low, high) = kappa["value"], kappa["interval"]
    compared = low if decide == "interval" else value
    facts = {"kappa": value, "interval": [low, high], "n": kappa["n"]}
    if value is None or compared is None:
        reason = f": {kappa['reason']}" if kappa.get("reason") else ""
        return GateVerdict("undecided", f"kappa is not defined{reason}", facts)
    shown = "" if low is None or high is None else f" [{low:.4g}, {high:.4g}]"
    why = f"kappa {value:.4g}{shown} over {kappa['n']} labelled answers"
    return GateVerdict(_within(compared, least, None), why, facts)


def _within(value: float, least: float | None, most: float | None) -> Verdict:
    """Whether a number reaches its limit, rounding errors aside."""
    if least is not None:
        return "pass" if at_least(np.array([value]), least).all() else "fail"
    return "pass" if most is None or at_least(np.array([-value]), -most).all() else "fail"


def _compared(found: ScoreSummary, is_least: bool, decide: Decide) -> float:
    """The number that is held against the limit; NaN where there is none."""
    return found.interval[0 if is_least else 1] if decide == "interval" else found.mean


def _at_worst_and_best(
    column: ScoreColumn, found: ScoreSummary, is_least: bool, decide: Decide, confidence: float
) -> tuple[float, float]:
    """The same number with every failed item at one end, then at the other."""
    if decide == "mean":
        return found.bounds
    bounded = math.isfinite(column.low) and math.isfinite(column.high)
    if not bounded or column.total is not None:  # it could be anything
        return (math.nan, math.nan)
    failed = np.array([Cause(code).failed for code in column.causes.tolist()])
    causes = np.where(failed, Cause.SCORED, column.causes).astype(np.uint8)
    low, high = (
        summarize(
            replace(column, values=np.where(failed, end, column.values), causes=causes),
            confidence=confidence,
        )
        for end in (column.low, column.high)
    )
    return (_compared(low, is_least, decide), _compared(high, is_least, decide))
