"""The result in words: who is best, by how much, and whether the difference is real."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ragbench.records.comparison import Difference, MeasureComparison
from ragbench.records.summary import SystemScore
from ragbench.report.base import Outcome
from ragbench.report.text import (
    difference,
    listed,
    percent,
    printable,
    probability,
    significant,
    with_interval,
)


def outcome_of(comparison: Difference, direction: str) -> Outcome:
    """Say in a word or two what a comparison shows; up is better unless the direction is `lower`.

    Every page and table has its verdict from here. Without a query that both have a score for there
    is no difference, and no verdict.
    """
    change, differs = comparison.difference, comparison.differs
    if change is None:
        return "not compared"
    if comparison.n_changed == 0:
        return "identical"
    if differs is None:
        return ""
    if not differs:
        return "undecided"
    return "better" if (change > 0) == (direction != "lower") else "worse"


def headline(
    measure: str,
    scores: Mapping[str, SystemScore],
    family: MeasureComparison | None,
    baselines: Mapping[str, str | None],
    confidence: float = 0.95,
    *,
    corrected: bool = True,
) -> str:
    """Write one sentence for a measure, without a full stop, lower case but for names.

    `baselines` holds the system that each system is compared with; None for a baseline.
    `corrected` tells whether p is adjusted for the other comparisons.
    """
    measured = {name: score for name, score in scores.items() if score.mean is not None}
    name = printable(measure)
    if not measured:
        return f"no system has a value of {name}: nothing was scored"
    best = None if family is None else family.best
    if family is None or best is None or len(measured) == 1 or best not in measured:
        return _without_comparison(name, measured, confidence)
    others = [s for s in family.untold if s in measured]
    against = baselines.get(best)
    pairs = (c for c in family.comparisons if (c.system, c.baseline) == (best, against))
    comparison = next(pairs, None)
    if against is None or comparison is None or comparison.difference is None:
        by_outcome: dict[str, Outcome] = {}
        for c in family.comparisons:
            if best in (c.system, c.baseline):
                other = c.system if c.baseline == best else c.baseline
                by_outcome[other] = outcome_of(c, "higher")
        is_baseline = best in {c.baseline for c in family.comparisons}
        return _best_is_baseline(name, best, measured, others, by_outcome, is_baseline)
    certainty = f"{percent(confidence)} confidence"
    if comparison.early is not None:
        certainty += " over all looks"
    else:
        p = probability(comparison.p_adjusted)
        certainty += f", adjusted p {p}" if corrected else f", p {p}, not corrected"
    return _best_against_baseline(
        name, best, measured, [s for s in others if s != against], comparison, certainty
    )


def says_nothing(measures: Sequence[str], why: str) -> str:
    """Write that measures tell no system from another, and why.

    Example:
        >>> says_nothing(["mrr", "map"], "both systems have 0 on every query")
        'mrr and map tell nothing here: both systems have 0 on every query'
    """
    verb = "tells" if len(measures) == 1 else "tell"
    return f"{listed([*map(printable, measures)])} {verb} nothing here: {printable(why)}"


def nothing_told(families: Iterable[MeasureComparison]) -> list[str]:
    """Write a sentence for each reason why measures tell nothing."""
    by_reason: dict[tuple[str, str | None], list[str]] = {}
    for family in families:
        if family.tells_nothing:
            reason = (family.tells_nothing, family.kind)
            by_reason.setdefault(reason, []).append(family.measure)
    return [says_nothing(measures, why) for (why, _), measures in by_reason.items()]


def _without_comparison(name: str, measured: Mapping[str, SystemScore], confidence: float) -> str:
    values = [
        f"{printable(system)} has {name} {with_interval(score.mean, score.interval)}"
        for system, score in measured.items()
    ]
    if len(values) == 1:
        return f"{values[0]} ({percent(confidence)} interval); there is nothing to compare it with"
    return f"{len(values)} systems have {name}; they were not compared"


def _best_is_baseline(
    name: str,
    best: str,
    measured: Mapping[str, SystemScore],
    others: Sequence[str],
    outcomes: Mapping[str, Outcome],
    baseline: bool,
) -> str:
    role = ", which the others are compared with," if baseline else ""
    value = with_interval(measured[best].mean, measured[best].interval)
    equal = [system for system in others if outcomes.get(system) == "identical"]
    apart = [system for system in measured if outcomes.get(system) == "not compared"]
    untold = [system for system in others if system not in (*equal, *apart)]
    if equal and len(equal) == len(measured) - 1:
        every = listed([printable(system) for system in (best, *equal)])
        return f"{every} have the same {name} on every query, {value}"
    parts = [f"{printable(best)}{role} is best on {name}, {value}"]
    if equal:
        verb = "has" if len(equal) == 1 else "have"
        names = listed([printable(system) for system in equal])
        parts.append(f"{names} {verb} the same value on every query")
    if untold:
        parts.append(f"{_untold(untold)}, which is undecided, not equal")
    if apart:
        names = listed([printable(system) for system in apart])
        parts.append(f"{names}: not compared, as no query has a score of both")
    if len(parts) == 1:
        parts.append("it differs from every other system")
    return "; ".join(parts)


def _untold(systems: Sequence[str]) -> str:
    return f"{listed([*map(printable, systems)])} cannot be told from it"


def _best_against_baseline(
    name: str,
    best: str,
    measured: Mapping[str, SystemScore],
    others: Sequence[str],
    comparison: Difference,
    certainty: str,
) -> str:
    against = printable(comparison.baseline)
    change = " ".join(filter(None, difference(comparison.difference or 0.0, comparison.interval)))
    outcome = outcome_of(comparison, measured[best].direction)
    value = significant(measured[best].mean)
    if outcome == "better":
        text = (
            f"{printable(best)} is best on {name}, {value}: {change} against {against}, "
            f"a real difference ({certainty})"
        )
    elif outcome == "identical":
        text = f"{printable(best)} and {against} have the same {name} on every query, {value}"
    else:
        text = f"{printable(best)} has the best {name}, {value}, but "
        text += _doubt(outcome, against, change, certainty)
        detectable = comparison.minimum_detectable
        if outcome == "undecided" and detectable is not None:
            text += f"; this data set could show one of {significant(detectable)}"
    return f"{text}; {_untold(others)}" if others else text


def _doubt(outcome: Outcome, against: str, change: str, certainty: str) -> str:
    if outcome == "worse":  # the means are over different queries, the difference is not
        return f"on the queries that both have it is worse than {against}: {change} ({certainty})"
    if outcome == "undecided":
        return f"its difference from {against}, {change}, is undecided ({certainty})"
    return f"its difference from {against}, {change}, was not tested"
