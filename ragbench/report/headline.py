"""The result in words: who is best, by how much, whether it is real; what marks mean."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ragbench.records.comparison import Comparisons, Difference, MeasureComparison
from ragbench.records.score import SystemScore
from ragbench.report.base import SIGNS, Outcome, Section
from ragbench.report.text import (
    MISSING,
    difference,
    ends_of,
    listed,
    percent,
    printable,
    probability,
    significant,
    with_interval,
)

_CORRECTIONS = {
    "holm": "Holm",
    "benjamini_hochberg": "Benjamini-Hochberg",
    "max_t": "studentized max-T",
}
_TESTS = {
    "t": "paired t test",
    "wilcoxon": "Wilcoxon signed-rank test",
    "mcnemar": "McNemar test of hits and misses, randomization test of other scores",
}


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
    p = probability(comparison.p_adjusted)
    certainty = f"{percent(confidence)} confidence"
    certainty += f", adjusted p {p}" if corrected else f", p {p}, not corrected"
    return _best_against_baseline(
        name, best, measured, [s for s in others if s != against], comparison, certainty
    )


def nothing_told(families: Iterable[MeasureComparison]) -> list[str]:
    """Write a sentence for each reason why measures tell no system from another."""
    by_reason: dict[tuple[str, str | None], list[str]] = {}
    for family in families:
        if family.tells_nothing:
            reason = (family.tells_nothing, family.kind)
            by_reason.setdefault(reason, []).append(printable(family.measure))
    return [
        f"{listed(names)} {'tells' if len(names) == 1 else 'tell'} nothing here: {printable(why)}"
        for (why, _), names in by_reason.items()
    ]


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
        detectable = comparison.minimum_detectable
        if outcome == "worse":  # the means are over different queries, the difference is not
            text += f"on the queries that both have it is worse than {against}: {change} "
            text += f"({certainty})"
        elif outcome == "undecided":
            text += f"its difference from {against}, {change}, is undecided ({certainty})"
            if detectable is not None:
                text += f"; this data set could show one of {significant(detectable)}"
        else:
            text += f"its difference from {against}, {change}, was not tested"
    return f"{text}; {_untold(others)}" if others else text


NOT_COMPARED = ("not compared", "no query has a score of both systems: there is nothing to say")
"""What a verdict means that is none."""


def legend(
    sections: Sequence[Section], comparisons: Comparisons, several_answers: bool = False
) -> list[tuple[str, str]]:
    """Explain the signs that occur in the sections: each sign and its meaning in one line."""
    confidence = percent(comparisons.confidence or 0.95)
    cells = [cell for s in sections for m in s.measures for cell in m.scores]
    differences = [cell for s in sections for m in s.measures for cell in m.differences]
    marks, outcomes = {cell.mark for cell in cells}, {cell.outcome for cell in differences}
    explained = []
    if any(cell.interval for cell in cells):
        text = f"{confidence} interval of the mean: what another sample of such queries"
        text += ", and other answers to them, would give" if several_answers else " would give"
        text += "; it does not cover another corpus, model or judge"
        explained.append(("[low, high]", text))
    if "best" in marks:
        explained.append((SIGNS["best"], "best value of the measure"))
    if "tied" in marks:
        text = (
            f"cannot be told from the best ({confidence}): a system and what it is compared with "
        )
        text += "by their own test, see p; all other pairs by max-T over all pairs"
        explained.append((SIGNS["tied"], text))
    explained += _of_differences(sections, comparisons)
    if outcomes & {"better", "worse"}:
        explained.append(("better, worse", f"differs from its baseline ({confidence} confidence)"))
    if "undecided" in outcomes:
        explained.append(("undecided", "no difference was shown, which is not equality"))
    if "identical" in outcomes:
        explained.append(("identical", "the same score as its baseline on every query"))
    if "not compared" in outcomes:
        explained.append(NOT_COMPARED)
    if MISSING in {cell.value for cell in cells} | {cell.value for cell in differences}:
        explained.append((MISSING, "no value: nothing was scored or compared"))
    return explained


def _of_differences(sections: Sequence[Section], comparisons: Comparisons) -> list[tuple[str, str]]:
    heads = list(dict.fromkeys(s.against for s in sections if s.against))
    if not heads:
        return []
    text = "paired difference over the queries that both have"
    if any(s.against and s.kind != "retrieval" for s in sections):
        text += "; a pair is compared with the baseline's pair of the same generator"
    if cluster := comparisons.cluster:
        text += f"; queries with the same {printable(cluster)} are one unit"
    shown = {m.name for s in sections for m in s.measures if m.differences}
    return [
        (", ".join(heads), text),
        ("p", p_meaning(comparisons)),
        *interval_and_p(
            [family for family in comparisons.measures if family.measure in shown],
            corrected=comparisons.correction != "none",
        ),
    ]


def interval_and_p(
    families: Sequence[MeasureComparison], *, corrected: bool = True
) -> list[tuple[str, str]]:
    """Explain a difference whose interval and p seem to disagree, where there is one.

    The interval is not that of the test: that asks for the signs of the queries that changed alone,
    and a corrected p is of a whole family. With 5 of 30 hits lost p is 0.0625, and the interval
    reaches from -0.340 to -0.043.
    """
    made = [c for family in families for c in family.comparisons if c.p is not None]
    known = [(c, ends) for c in made if (ends := ends_of(c.interval)) is not None]
    explained = []
    if any(c.differs and low <= 0 <= high for c, (low, high) in known):
        text = (
            "p asks whether chance would move the queries that changed so far to one side; the "
            "interval also allows for changes that no query here shows, and may hold 0 beside a "
            "better or worse. A gate reads the interval"
        )
        explained.append(("interval with 0, and better or worse", text))
    if any(c.n_changed and not c.differs and not low <= 0 <= high for c, (low, high) in known):
        text = (
            "p is corrected for all comparisons of its family and counts the queries that changed; "
            "the interval is of one comparison and counts those that did not change as well"
        )
        if not corrected:
            text = "p counts the queries that changed, the interval those that did not as well"
        explained.append(("interval without 0, and undecided", text))
    return explained


def p_meaning(comparisons: Comparisons) -> str:
    """Name the test behind the p values, and over what they are corrected."""
    word = comparisons.test
    test = printable(_TESTS.get(word, f"{word} test"))
    correction = comparisons.correction
    named = printable(_CORRECTIONS.get(correction, correction))
    sizes = [len(family.comparisons) for family in comparisons.measures if family.comparisons]
    if correction == "none":
        p = f"{test}, not corrected for {_counted(*sizes)} of one measure"
    elif comparisons.family == "all":
        p = f"{test}, {named} over {_counted(sum(sizes))} of all measures"
    else:
        p = f"{test}, {named} over {_counted(*sizes)} of one measure"
    if resamples := comparisons.resamples:
        p += f"; {resamples} resamples, seed {comparisons.seed}"
    return p


def _counted(*sizes: int) -> str:
    """Say over how many comparisons the p values are corrected: `the 2 to 5 comparisons`."""
    if set(sizes) == {1}:
        return "the 1 comparison"
    ends = [min(sizes, default=""), max(sizes, default="")]
    return f"the {' to '.join(map(str, dict.fromkeys(ends)))} comparisons"
