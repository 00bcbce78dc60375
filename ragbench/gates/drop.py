"""Rule G: whether a system has become worse by more than a margin, and what few queries cannot say.

`decide_drop` is `max_drop`, `decide_queries_worse` is `max_queries_worse`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from ragbench.comparison.interim import look_confidence, look_of, paired_interval
from ragbench.comparison.method import Method
from ragbench.comparison.pairs import PairedScores, at_least, worst_queries
from ragbench.comparison.summary import finite
from ragbench.gates.change import queries_to_decide, shown_needed
from ragbench.stats import DifferenceInterval
from ragbench.types import FloatArray

Verdict = Literal["pass", "fail", "undecided"]
"""What a gate says."""
Decide = Literal["interval", "mean"]
"""`interval`: of all such queries; `mean`: of exactly these."""

ENOUGH_CLUSTERS = 10
"""Fewer say too little of how clusters differ."""
ENOUGH_QUERIES = 12
"""Fewer decide no small margin, unless the systems are identical on them: ten total losses would,
and ten queries that a release is stopped for should be looked at by a person."""
SMALL_MARGIN = 0.05
"""Up to this share of the score's range a margin is small."""


@dataclass(frozen=True, slots=True)
class GateVerdict:
    """What became of one gate, and the numbers behind it."""

    verdict: Verdict
    """`undecided` is neither: the data cannot tell."""
    why: str
    """The numbers in words."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """The numbers in full, JSON-ready, for `summary.json`."""


def decide_drop(
    pairs: PairedScores, max_drop: float, method: Method, *, decide: Decide = "interval"
) -> GateVerdict:
    """Decide whether the mean paired difference is a drop by more than `max_drop`.

    Up is better: where lower scores are better, differences are turned round. With [L, U] the
    interval that comparisons print: pass where L > -max_drop, fail where U < -max_drop, else
    undecided, with the queries that it would take. No difference on any query passes. Queries that
    failed count at their worst and at their best: a verdict that they could turn is undecided.
    Clusters, where there are any, are the unit; fewer than 10 are undecided. Fewer than 12 queries
    decide no margin up to a twentieth of the range.

    Args:
        pairs: The two columns.
        max_drop: The margin, 0 or more, in the unit of the score.
        method: Confidence and resampling.
        decide: `mean` looks at the mean of these queries alone: for a fixed set of them.

    Returns:
        The verdict; its facts hold difference and interval as they are printed (not turned
        round), the number of queries, and those that became worst.

    Example:
        One of eight queries lost its hit, which says next to nothing about all others.

        >>> from ragbench.score.base import ScoreColumn
        >>> from ragbench.signature import Signature
        >>> column = lambda *values: ScoreColumn(
        ...     "hit", np.array(values), np.zeros(len(values), np.uint8), Signature("hit"))
        >>> pairs = PairedScores(column(0.0, *[1.0] * 7), column(*[1.0] * 8), "abcdefgh")
        >>> found = decide_drop(pairs, 0.05, Method())
        >>> found.verdict, found.facts["queries_needed"]
        ('undecided', {'equal': 1380, 'as_observed': 615})
        >>> decide_drop(pairs, 0.05, Method(), decide="mean").verdict
        'fail'
    """
    d = pairs.differences()
    n_failed = int(pairs.failed.sum())
    if np.isnan(d).all():
        open_pairs = f"; {n_failed} failed" if n_failed else ""
        return GateVerdict("undecided", f"no query has a score in both{open_pairs}", {"n": 0})
    rule = _by_mean if decide == "mean" else _by_interval
    found = rule(d, pairs, max_drop, method)
    facts = {**found.facts, "n_failed": n_failed, "worst_queries": worst_queries(pairs)}
    if n_failed and found.verdict != "undecided":
        turned = _turned_by_failures(found.verdict, pairs, max_drop, method, decide)
        if turned:
            return GateVerdict("undecided", f"{turned}; of the others: {found.why}", facts)
    return replace(found, facts=facts)


def decide_queries_worse(pairs: PairedScores, max_queries: int, by: float = 0.0) -> GateVerdict:
    """Decide whether more than `max_queries` queries became worse, each by at least `by`.

    A mean can hide that some questions broke; this looks at each. It is a count over these
    queries, not a guess at others. `by: 0` counts every query that became worse at all. A query
    that failed may have become worse: a verdict that such queries could turn is undecided.

    Args:
        pairs: The two columns.
        max_queries: So many may.
        by: Smallest drop that counts.

    Returns:
        The verdict; its facts hold the count and the queries that became worst.
    """
    d = pairs.differences()
    is_worse = at_least(-d, by) & (d < 0)
    count, n = int(is_worse.sum()), int((~np.isnan(d)).sum())
    could = pairs.with_failed("worst")
    n_open = int((pairs.failed & at_least(-could, by) & (could < 0)).sum())
    least = f"by {by:g} or more" if by else "at all"
    why = f"{count} of {n} queries became worse {least}; allowed: {max_queries}"
    facts = {
        "n": n,
        "n_worse": count,
        "n_failed": int(pairs.failed.sum()),
        "worst_queries": worst_queries(pairs),
    }
    if count > max_queries:
        return GateVerdict("fail", why, facts)
    if not n and not n_open:
        return GateVerdict("undecided", "no query has a score in both", facts)
    if count + n_open > max_queries:
        return GateVerdict("undecided", f"{why}; {n_open} that failed could turn it", facts)
    return GateVerdict("pass", why, facts)


def _by_interval(
    d: FloatArray, pairs: PairedScores, max_drop: float, method: Method
) -> GateVerdict:
    """Rule G on differences of which up is better, NaN where there is none."""
    look = look_of(pairs.system, pairs.baseline)
    clusters = None if pairs.clusters is None else np.asarray(pairs.clusters)
    found = paired_interval(d, method, range=pairs.range, clusters=clusters, look=look)
    facts = _facts(found, pairs.sign)
    # what did not change on the first queries may change on those that nobody judged
    if found.n_changed == 0 and not (look is not None and look.stopped):
        return GateVerdict("pass", _identical(found, max_drop, pairs.range, method), facts)
    if found.n_clusters is not None and found.n_clusters < ENOUGH_CLUSTERS:
        few = f"{found.n_clusters} clusters are too few; from {ENOUGH_CLUSTERS} on they can decide"
        return GateVerdict("undecided", few, facts)
    if math.isnan(found.lower):
        few = f"only {found.n_changed} of {found.n} queries changed, and the score has no bound"
        return GateVerdict("undecided", few, facts)
    interval = _shown_interval(found, pairs.sign)
    unit = "queries" if found.n_clusters is None else "clusters"
    confidence = look_confidence(look, method.confidence)
    needed = queries_to_decide(found.mean + max_drop, max_drop, found.sd, found.n_units, confidence)
    if found.n_units < ENOUGH_QUERIES and max_drop <= SMALL_MARGIN * _width(pairs.range):
        few = f"fewer than {ENOUGH_QUERIES} {unit} decide no margin as small as {max_drop:g}"
        why = f"{interval}: {few}; {shown_needed(needed, unit)}"
        return GateVerdict("undecided", why, {**facts, "queries_needed": needed})
    if found.lower > -max_drop:
        return GateVerdict("pass", f"{interval}: no drop by {max_drop:g} or more", facts)
    if found.upper < -max_drop:
        return GateVerdict("fail", f"{interval}: a drop by more than {max_drop:g}", facts)
    why = f"{interval} holds a drop by {max_drop:g}; {shown_needed(needed, unit)}"
    return GateVerdict("undecided", why, {**facts, "queries_needed": needed})


def _by_mean(d: FloatArray, pairs: PairedScores, max_drop: float, method: Method) -> GateVerdict:
    """The mean of exactly these queries, which needs no interval."""
    d = d[~np.isnan(d)]
    mean, n_changed = float(d.mean()), int(np.count_nonzero(d))
    facts = {"difference": pairs.sign * mean + 0.0, "n": len(d), "n_changed": n_changed}
    why = f"{pairs.sign * mean + 0.0:+.4g} over these {len(d)} queries"
    if bool(at_least(np.array([mean]), -max_drop)[0]):
        return GateVerdict("pass", f"{why}: no drop by more than {max_drop:g}", facts)
    return GateVerdict("fail", f"{why}: a drop by more than {max_drop:g}", facts)


def _turned_by_failures(
    verdict: Verdict, pairs: PairedScores, max_drop: float, method: Method, decide: Decide
) -> str:
    """Say how the queries that failed could turn a verdict; nothing where they cannot."""
    rule = _by_mean if decide == "mean" else _by_interval
    ends: tuple[Literal["worst", "best"], ...] = ("worst", "best")
    for end in ends:
        d = pairs.with_failed(end)
        if np.isinf(d).any() or rule(d, pairs, max_drop, method).verdict != verdict:
            return f"{int(pairs.failed.sum())} queries failed, which could turn {verdict}"
    return ""


def _facts(found: DifferenceInterval, sign: int) -> dict[str, Any]:
    ends = sorted((sign * found.lower + 0.0, sign * found.upper + 0.0))
    return {
        "difference": finite(sign * found.mean + 0.0),
        "interval": [finite(end) for end in ends],
        "n": found.n,
        "n_changed": found.n_changed,
        "rule": found.rule,
        **({} if found.n_clusters is None else {"n_clusters": found.n_clusters}),
    }


def _identical(
    found: DifferenceInterval, max_drop: float, score_range: tuple[float, float], method: Method
) -> str:
    """Say that nothing changed, and where n is small, how little that excludes."""
    n, unit = found.n_units, "queries" if found.n_clusters is None else "clusters"
    why = f"identical on all {found.n} queries" if found.n > 1 else "identical on the only query"
    # with so many unchanged ones, changes in a larger share of all would have shown
    limit = -math.log((1 - method.confidence) / 2)
    if n * max_drop >= limit * _width(score_range):
        return why
    share = limit / n
    if share >= 1:
        return f"{why}, too few to exclude changes in others"
    return f"{why}; excludes changes in more than {share:.2g} of all {unit}"


def _width(score_range: tuple[float, float]) -> float:
    return score_range[1] - score_range[0]


def _shown_interval(found: DifferenceInterval, sign: int) -> str:
    low, high = sorted((sign * found.lower + 0.0, sign * found.upper + 0.0))
    turned = "" if sign == 1 else ", lower is better"
    mean = sign * found.mean + 0.0
    return f"{mean:+.4g} [{low:+.4g}, {high:+.4g}] over {found.n} queries{turned}"
