"""Results in words: the best system, its difference and the verdict; and the legend of signs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ragbench.records.causes import CAUSES
from ragbench.records.comparison import Comparisons, Difference, MeasureComparison
from ragbench.records.score import SystemScore
from ragbench.records.summary import CheapestSystem, Summary, SystemSummary, cost_text
from ragbench.report import text as fmt
from ragbench.report.base import SIGNS, Mark, Outcome, ScoreCell, Section
from ragbench.types.display import printable

# names of options -> names that readers know
_CORRECTIONS = {
    "holm": "Holm",
    "benjamini_hochberg": "Benjamini-Hochberg",
    "max_t": "studentized max-T",
}
_TESTS = {
    "t": "paired t test",
    "unpaired": "inverted two-sample interval",
    "wilcoxon": "Wilcoxon signed-rank test",
    "mcnemar": "McNemar test of hits and misses, randomization test of other scores",
}


def outcome_of(comparison: Difference, direction: str) -> Outcome:
    """Return the verdict of a comparison; a higher score is better unless `direction` is `lower`.

    All formats use this verdict. `not compared` without a common query with two scores, `identical`
    if no score changed, empty if the difference was not tested.
    """
    change, differs = comparison.difference, comparison.differs
    # the order matters: identical scores have a difference of 0 and no verdict
    if change is None:
        return "not compared"
    if comparison.n_changed == 0:
        return "identical"
    if differs is None:
        return ""
    if not differs:
        return "not shown"
    return "better" if (change > 0) == (direction != "lower") else "worse"


def headline(
    measure: str,
    scores: Mapping[str, SystemScore],
    family: MeasureComparison | None,
    baselines: Mapping[str, str | None],
    comparisons: Comparisons,
) -> str:
    """Return a sentence on the best system by a measure, and on its difference from its baseline.

    The sentence has mean, difference, interval and p, and no full stop. It says so if the systems
    were not compared, or if no system has a mean.

    Args:
        measure: Name of the measure.
        scores: System -> score; a system without a mean is left out.
        family: Comparisons by the measure; None without a test.
        baselines: System -> its baseline; None for a system that is a baseline.
        comparisons: Confidence of the intervals, and the correction of p.
    """
    confidence = comparisons.confidence or 0.95
    corrected = comparisons.correction != "none"
    measured = {name: score for name, score in scores.items() if score.mean is not None}
    name = printable(measure)
    if not measured:
        return f"no system has a value of {name}: nothing was scored"
    best = None if family is None else family.best
    if family is None or best is None or len(measured) == 1 or best not in measured:
        some = family is not None and any(c.difference is not None for c in family.comparisons)
        return _without_comparison(name, measured, confidence, some=some)
    tied = [system for system in family.untold if system in measured]
    against = baselines.get(best)
    # a system may be compared with several others; only its baseline counts here
    pairs = (c for c in family.comparisons if (c.system, c.baseline) == (best, against))
    comparison = next(pairs, None)
    if against is None or comparison is None or comparison.difference is None:
        # without `baselines`, comparisons tell whether others were compared with it
        role = " (the baseline)" if any(c.baseline == best for c in family.comparisons) else ""
        value = fmt.with_interval(measured[best].mean, measured[best].interval)
        text = f"{name}: {printable(best)}{role} is best, {value}"
    else:
        text = _best_against_baseline(name, measured[best], comparison, confidence, corrected)
        # the sentence names the baseline already
        tied = [system for system in tied if system != against]
    verb = "is" if len(tied) == 1 else "are"
    names = fmt.listed([*map(printable, tied)])
    return f"{text}; {names} {verb} not shown to be worse" if tied else text


def cheapest_sentence(cheapest: CheapestSystem, scores: Mapping[str, SystemScore]) -> str:
    """Return a sentence on the cheapest system that is surely not much worse than the best.

    `scores` has the scores of both systems by the measure, else a KeyError. If no cheaper system is
    within the margin, it says so. The sentence has no full stop.
    """
    margin, measure = f"{cheapest.margin:g}", printable(cheapest.measure)
    if cheapest.system is None:
        return f"no cheaper system is surely within {margin} of the best by {measure}"
    costs = cheapest.costs
    means = " against ".join(fmt.significant(scores[name].mean) for name in costs)
    text = f"{measure} {means}, {cost_text(cheapest.cost, *costs.values())}"
    return f"cheapest within {margin} of the best: {printable(cheapest.system)} ({text})"


def lead(summary: Summary, families: Iterable[MeasureComparison] = ()) -> str:
    """Return the first sentence of a report: questions that a system answers, and lost ones.

    Counts are those of the causes. A system without any answer finds the gold instead. Lost
    questions are sorted by their number; those of an unknown cause count separately. If none is
    right and some are unknown, it is the list of all causes. '' if the system has no causes, or if
    it is never right and a measure tells nothing: then the reason is the first sentence.

    Example: 'mychain answers 21 of 30 questions; lost: 5 not retrieved, 4 not used'.
    """
    system = leading_system(summary)
    if system is None or not system.causes:
        return ""
    name, n_right = printable(system.name), system.causes.get("right", 0)
    n_unknown = system.causes.get("unknown", 0)
    if not n_right and nothing_told(families):
        return ""
    if n_unknown and not n_right:  # it may be that no answer could be checked
        return f"{name}: {fmt.cause_sentence(system.causes)}"
    questions = fmt.counted(sum(system.causes.values()) - n_unknown, "questions")
    text = f"{name} answers {n_right} of {questions}"
    if not _answers(system):
        text = f"{name} finds the gold of {n_right} of {questions}"
        text += (
            f" in its first {fmt.counted(summary.hits_read, 'hits')}" if summary.hits_read else ""
        )
    losses = [c for c in CAUSES if c not in ("right", "unknown") and system.causes.get(c)]
    losses.sort(key=lambda cause: -system.causes[cause])
    lost = ", ".join(f"{system.causes[cause]} {fmt.cause_words(cause)}" for cause in losses)
    text += f"; lost: {lost}" if lost else ""
    return f"{text}; unknown: {n_unknown}" if n_unknown else text


def leading_system(summary: Summary) -> SystemSummary | None:
    """Return the system with which a report starts: the user's own, else the best one.

    The best one has the most right answers, or finds the gold of most questions if no system
    answers; of equal ones the first. Controls, and systems without causes, do not compete. None if
    no system is the user's own and none competes.
    """
    users = None if summary.user_system is None else summary.system(summary.user_system)
    rivals = [s for s in summary.systems if s.causes and s.role != "control"]
    rivals = [s for s in rivals if _answers(s)] or rivals
    return users or max(rivals, key=lambda s: s.causes.get("right", 0), default=None)


def _answers(system: SystemSummary) -> bool:
    """Return True if answers of a system were scored; hits alone have scores of retrieval."""
    return any(score.kind != "retrieval" for score in system.scores.values())


def nothing_told(families: Iterable[MeasureComparison]) -> list[str]:
    """Return a sentence for each reason why measures cannot distinguish the systems.

    Measures with one reason and kind share a sentence; [] without any.
    """
    by_reason: dict[tuple[str, str | None], list[str]] = {}
    for family in families:
        if family.tells_nothing:
            reason = (family.tells_nothing, family.kind)
            by_reason.setdefault(reason, []).append(printable(family.measure))
    return [
        f"{fmt.listed(names)} tell{'s' * (len(names) == 1)} nothing here: {printable(why)}"
        for (why, _), names in by_reason.items()
    ]


def _without_comparison(
    name: str, measured: Mapping[str, SystemScore], confidence: float, *, some: bool
) -> str:
    """Return the sentence on values without a best one, as not all systems were compared.

    A single one stands there with its interval; of several only the number of systems. `measured`
    has at least one system (ValueError), each with a mean. `some` is True if some were compared.
    """
    if len(measured) > 1:
        compared = "not all of them were compared" if some else "they were not compared"
        return f"{len(measured)} systems have {name}; {compared}"
    [(system, score)] = measured.items()
    value = f"{fmt.with_interval(score.mean, score.interval)} ({fmt.percent(confidence)} interval)"
    return f"{printable(system)} has {name} {value}; there is nothing to compare it with"


def _best_against_baseline(
    name: str, score: SystemScore, comparison: Difference, confidence: float, corrected: bool
) -> str:
    """Return the sentence on a best system that was compared with its baseline.

    `score` is that of the best system; `corrected` is True if p is adjusted. The sentence ends with
    the detectable difference if none was shown.
    """
    best, against = printable(comparison.system), printable(comparison.baseline)
    change = " ".join(fmt.difference(comparison.difference or 0.0, comparison.interval)).rstrip()
    outcome, value = outcome_of(comparison, score.direction), fmt.significant(score.mean)
    p = fmt.probability(comparison.p_adjusted)
    certainty = f"{fmt.percent(confidence)} confidence, "
    certainty += f"adjusted p {p}" if corrected else f"p {p}, not corrected"
    if outcome == "identical":
        return f"{best} and {against} have the same {name} on every query, {value}"
    verdicts: Mapping[Outcome, str] = {
        "better": "surely better than",
        # the means are over different queries, the difference is not
        "worse": "but, on the queries that both have, surely worse than",
        "not shown": "but not shown to be better than",
    }
    verdict = verdicts.get(outcome, "not tested against")
    text = f"{name}: {best} is best, {value}, {verdict} {against}: {change} ({certainty})"
    detectable = comparison.minimum_detectable
    if outcome != "not shown" or detectable is None:
        return text
    n = fmt.counted(comparison.n, "queries")
    return f"{text}; {n} would show a difference of {fmt.significant(detectable)} in 4 of 5 cases"


NOT_COMPARED = (
    "not compared",
    "no query has a score of both systems, or their scores are made in different ways",
)
NOT_SHOWN = (
    "not shown",
    # one alone may show a difference: p looks at the queries that changed, the interval at all
    "no difference was shown, which does not mean equal; a verdict needs a small p, which tests "
    "whether gains and losses are symmetric, and an interval of the mean without 0",
)
_VERDICTS: Mapping[Outcome, tuple[str, str]] = {
    "not shown": NOT_SHOWN,
    "identical": ("identical", "the same score as its baseline on every query"),
    "not compared": NOT_COMPARED,
}


def legend(
    sections: Sequence[Section], comparisons: Comparisons, several_answers: bool = False
) -> list[tuple[str, str]]:
    """Return sign and meaning of the signs that occur in the sections.

    `several_answers` is True if a query has several answers, which the intervals then cover. In a
    fixed order: scores, differences, verdicts, then `-`; [] without signs.
    """
    confidence = fmt.percent(comparisons.confidence or 0.95)
    cells = [cell for s in sections for m in s.measures for cell in m.scores]
    differences = [cell for s in sections for m in s.measures for cell in m.differences]
    outcomes = {cell.outcome for cell in differences}
    explained = []
    if any(cell.interval for cell in cells):
        text = f"{confidence} interval of the mean for other samples of such queries"
        text += " and of answers to them" if several_answers else ""
        text += ", not for another corpus, model or judge"
        explained.append(("[low, high]", text))
    explained += mark_meanings(cells)
    explained += _of_differences(sections, comparisons)
    if outcomes & {"better", "worse"}:
        text = f"surely better or worse than its baseline ({confidence} confidence)"
        explained.append(("better, worse", text))
    explained += [_VERDICTS[outcome] for outcome in _VERDICTS if outcome in outcomes]
    if fmt.MISSING in {cell.value for cell in cells} | {cell.value for cell in differences}:
        explained.append((fmt.MISSING, "no value: nothing was scored or compared"))
    return explained


def mark_meanings(cells: Iterable[ScoreCell]) -> list[tuple[str, str]]:
    """Return sign and meaning of the marks that occur in cells of scores; [] without marks."""
    meanings: dict[Mark, str] = {"best": "best", "tied": "not shown to be worse than the best"}
    marks = {cell.mark for cell in cells}
    return [(SIGNS[mark], meaning) for mark, meaning in meanings.items() if mark in marks]


def _of_differences(sections: Sequence[Section], comparisons: Comparisons) -> list[tuple[str, str]]:
    """Return the legend of the columns of differences; empty without them."""
    # the same baseline has the same head in all sections
    heads = list(dict.fromkeys(s.against for s in sections if s.against))
    if not heads:
        return []
    text = "difference over the queries that both have"
    if any(s.against and s.kind != "retrieval" for s in sections):
        text += ", between pairs with the same generator"
    if cluster := comparisons.cluster:
        text += f"; queries with the same {printable(cluster)} are one unit"
    return [(", ".join(heads), text), ("p", p_meaning(comparisons))]


def p_meaning(comparisons: Comparisons) -> str:
    """Return the name of the test, the correction and the comparisons that it corrects for.

    Of a test with resamples, their number and seed follow.
    """
    test = printable(_TESTS.get(comparisons.test, f"{comparisons.test} test"))
    correction = printable(_CORRECTIONS.get(comparisons.correction, comparisons.correction))
    scope = "all measures" if comparisons.family == "all" else "one measure"
    # without a correction the family does not matter
    if comparisons.correction == "none":
        p = f"{test}, not corrected for the number of comparisons"
    else:
        p = f"{test}, {correction} over the comparisons of {scope}"
    if resamples := comparisons.resamples:
        p += f"; {resamples} resamples, seed {comparisons.seed}"
    return p
