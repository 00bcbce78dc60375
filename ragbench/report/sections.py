"""One section of a page: the systems and measures of one kind, with marks and differences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from ragbench.records.comparison import Difference, MeasureComparison
from ragbench.records.summary import Fill, Judge, Summary, SystemScore
from ragbench.report.base import Detail, DifferenceCell, Kind, Mark, Measure, ScoreCell, Section
from ragbench.report.headline import outcome_of
from ragbench.report.text import (
    MISSING,
    causes,
    difference,
    ends_of,
    interval,
    listed,
    printable,
    probability,
    significant,
)

Scores = Mapping[str, Mapping[str, SystemScore]]
"""System -> measure -> its score."""
Group = tuple[Kind, str]
"""A section: its kind, and the judge's name where the kind is `judge`."""


def build_section(
    group: Group,
    scores: Scores,
    summary: Summary,
    families: Mapping[str, MeasureComparison],
) -> Section:
    """Build the table of one kind of scores; systems and measures in the order of `scores`."""
    kind, judge = group
    names = list(dict.fromkeys(measure for by_measure in scores.values() for measure in by_measure))
    baselines = find_baselines(summary, scores)
    measures = tuple(_measure(name, scores, families.get(name), baselines) for name in names)
    compared = any(cell.outcome or cell.p for m in measures for cell in m.differences)
    return Section(
        kind=kind,
        title=f"judge {printable(judge)}".rstrip() if kind == "judge" else kind,
        labels=tuple(_labels(group, scores, summary)),
        systems=tuple(printable(system) for system in scores),
        measures=measures,
        against=_head(summary.baseline, baselines) if compared else "",
        counts=tuple(count_lines(scores, names)),
    )


def find_baselines(summary: Summary, scores: Scores) -> dict[str, str | None]:
    """Return the system that each system of a section is compared with; None for a baseline."""
    return {
        system.name: system.baseline_by(next(iter(scores[system.name]), ""))
        for system in summary.systems
        if system.name in scores
    }


def _head(baseline: str | None, baselines: Mapping[str, str | None]) -> str:
    against = {name for name in baselines.values() if name is not None}
    usual = all(name == baseline or name.startswith(f"{baseline}/") for name in against)
    return f"vs {printable(baseline)}" if usual else "vs baseline"


def _measure(
    name: str,
    scores: Scores,
    family: MeasureComparison | None,
    baselines: Mapping[str, str | None],
) -> Measure:
    column = {system: by_measure.get(name) for system, by_measure in scores.items()}
    present = [score for score in column.values() if score is not None]
    comparisons = () if family is None else family.comparisons
    made = {(c.system, c.baseline): c for c in comparisons}
    rivals = sum(score.mean is not None for score in present) > 1
    return Measure(
        name=printable(name),
        title=_title(name, present[0]),
        scores=tuple(
            _score_cell(score, _mark(system, family) if rivals else "")
            for system, score in column.items()
        ),
        differences=tuple(
            DifferenceCell(outcome="baseline" if score is not None and made else "")
            if (other := baselines[system]) is None
            else _difference_cell(made.get((system, other)), present[0].direction)
            for system, score in column.items()
        ),
        details=tuple(map(_detail, column.values())),
    )


def _title(name: str, score: SystemScore) -> str:
    remarks = ["lower is better"] if score.direction == "lower" else []
    if score.aggregate != "mean":
        remarks.insert(0, score.aggregate.replace("_", " "))
    return f"{printable(name)} ({', '.join(remarks)})" if remarks else printable(name)


def _mark(system: str, family: MeasureComparison | None) -> Mark:
    if family is None:
        return ""
    return "best" if system == family.best else "tied" if system in family.untold else ""


def _score_cell(score: SystemScore | None, mark: Mark) -> ScoreCell:
    if score is None or score.mean is None:
        return ScoreCell(MISSING)
    return ScoreCell(
        value=significant(score.mean),
        interval=interval(score.interval),
        mark=mark,
        mean=score.mean,
        ends=ends_of(score.interval),
    )


def _difference_cell(comparison: Difference | None, direction: str) -> DifferenceCell:
    if comparison is None:
        return DifferenceCell(value=MISSING)
    outcome = outcome_of(comparison, direction)
    if comparison.difference is None:
        return DifferenceCell(outcome, MISSING)
    value, ends = difference(comparison.difference, comparison.interval)
    return DifferenceCell(
        outcome=outcome,
        value=value,
        interval=ends,
        p=probability(comparison.p_adjusted),
    )


def _detail(score: SystemScore | None) -> Detail | None:
    if score is None:
        return None
    bounds = interval(score.bounds) or MISSING
    return Detail(score.n, score.n_failed, score.not_applicable, bounds)


def _labels(group: Group, scores: Scores, summary: Summary) -> list[str]:
    kind, judge = group
    if kind == "judge":
        return _judge_labels(judge, scores, summary)
    return [_fill_label(summary.fill)] if kind == "retrieval" and summary.fill else []


def _fill_label(fill: Fill) -> str:
    """Keep judgements of people apart from those of a model: `12 by people, 34 by gpt-4o`."""
    counts = [
        f"{fill.people} judged by people",
        f"{fill.model} by {printable(fill.model_name)} ({printable(fill.rubric)})",
        f"{sum(fill.failed.values())} failed{causes(fill.failed.items())}",
    ]
    if fill.without_text:
        counts.append(f"{fill.without_text} without text")
    pool = f"{fill.pairs} pairs of query and passage in the best {fill.depth} of any retriever"
    return f"{pool}: {', '.join(counts)}"


def _judge_labels(judge: str, scores: Scores, summary: Summary) -> list[str]:
    """Name the models that judged, as they report themselves, and say what the judge is."""
    declared = summary.judges.get(judge) or Judge()
    reported = [score.model for by_measure in scores.values() for score in by_measure.values()]
    models = list(dict.fromkeys(printable(model) for model in reported if model))
    if not models and declared.model:
        models = [printable(declared.model)]
    named = listed(models) or printable(judge) or "an unnamed judge"
    judged_by = f"judged by {named}" + (f": {printable(declared.label)}" if declared.label else "")
    early = summary.early_stopping.get(judge)
    if early is None:
        return [judged_by]
    looks = f"look {early.look} of {len(early.sizes)}"
    counts = f"{early.judged} of {early.queries} queries"
    if early.over_budget:
        return [judged_by, f"{counts} judged, which the budget ended"]
    if not early.stopped:
        return [judged_by, f"judged to the end, in {len(early.sizes)} looks"]
    return [judged_by, f"stopped early, {counts} ({looks}); intervals allow for every look"]


Key = tuple[int, tuple[tuple[str, int], ...], int, int]


def count_lines(scores: Scores, measures: Sequence[str]) -> list[str]:
    """Describe the counts of a section: the usual ones first, then where they differ.

    One line where all scores have the same counts; otherwise one for the most frequent counts, one
    for each other count of scores that do not apply, and one for each system with failed items,
    which names the causes and the bounds of each mean.
    """
    groups: dict[Key, list[tuple[str, str]]] = {}
    for measure in measures:
        for system, by_measure in scores.items():
            if measure in by_measure:
                groups.setdefault(_key(by_measure[measure]), []).append((system, measure))
    if not groups:
        return []
    usual = max(groups, key=lambda key: len(groups[key]))
    rest = {key: places for key, places in groups.items() if key != usual}
    lines = _failed_lines(usual, groups[usual], scores) if usual[1] else [_describe(usual)]
    if rest and not usual[1]:
        lines[0] += " in every score but these:"
    for key, places in rest.items():
        if key[1]:
            lines += _failed_lines(key, places, scores)
        else:
            lines.append(f"{_describe(key)}: {_where(places, scores)}")
    return [*lines, *_failed_answers(scores, measures)]


def _failed_answers(scores: Scores, measures: Sequence[str]) -> list[str]:
    """A line for each system some of whose several answers failed where no query did as a whole."""
    lines = []
    for system, by_measure in scores.items():
        having = ((name, by_measure[name]) for name in measures if name in by_measure)
        left_open = [
            _with_bounds(name, score)
            for name, score in having
            if not score.n_failed and score.bounds not in (None, (score.mean, score.mean))
        ]
        if left_open:
            lines.append(f"{printable(system)}: some answers failed: {', '.join(left_open)}")
    return lines


def _key(score: SystemScore) -> Key:
    failed = tuple((cause, n) for cause, n in score.failed.items() if n)
    not_judged = score.not_judged or 0
    return score.n, failed, score.not_applicable - not_judged, not_judged


def _describe(key: Key) -> str:
    scored, failed, not_applicable, not_judged = key
    total = sum(n for _, n in failed)
    early = f", {not_judged} not judged" if not_judged else ""
    return (
        f"{scored} scored, {total} failed{causes(failed)}, {not_applicable} not applicable{early}"
    )


def _failed_lines(key: Key, places: Sequence[tuple[str, str]], scores: Scores) -> list[str]:
    by_system: dict[str, list[str]] = {}
    for system, measure in places:
        by_system.setdefault(system, []).append(_with_bounds(measure, scores[system][measure]))
    what = _describe(key)
    return [f"{printable(s)}: {what}: {', '.join(texts)}" for s, texts in by_system.items()]


def _with_bounds(measure: str, score: SystemScore) -> str:
    bounds = ends_of(score.bounds)
    if bounds is None:
        return printable(measure)
    low, high = map(significant, bounds)
    return f"{printable(measure)} (mean from {low} to {high}, whatever the failed would have been)"


def _where(places: Sequence[tuple[str, str]], scores: Scores) -> str:
    """Name the measures, and the systems only where not every system is meant."""
    having = Counter(measure for by_measure in scores.values() for measure in by_measure)
    by_measure: dict[str, list[str]] = {}
    for system, measure in places:
        by_measure.setdefault(measure, []).append(printable(system))
    return ", ".join(
        printable(measure)
        if len(systems) == having[measure]
        else f"{printable(measure)} of {', '.join(systems)}"
        for measure, systems in by_measure.items()
    )
