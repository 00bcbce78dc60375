"""The sections of a page: the systems and measures of one kind, and what judges prefer of pairs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from ragbench.records.comparison import Comparisons, Difference, MeasureComparison, PreferredPair
from ragbench.records.comparison import Preference as Ranked
from ragbench.records.score import Kind, SystemScore
from ragbench.records.summary import Fill, Judge, PreferredSystem, Summary
from ragbench.report.base import Chapter, Detail, DifferenceCell, Grid, Measure, ScoreCell, Section
from ragbench.report.headline import outcome_of
from ragbench.report.text import (
    MISSING,
    causes,
    difference,
    ends_of,
    interval,
    listed,
    percent,
    printable,
    probability,
    significant,
    with_interval,
)

Scores = Mapping[str, Mapping[str, SystemScore]]
"""System -> measure -> its score."""
Group = tuple[Kind, str]
"""A section: its kind, and the judge's name where the kind is `judge`."""

_RANKING = ("system", "rank", "strength", "win rate", "wins", "ties", "losses", "failed", "n/a")
_PAIRS = ("pair", "win rate", "wins", "ties", "losses", "failed", "n/a", "bounds", "p", "verdict")
_METHOD = (
    "each pair in both orders, disagreement is a tie; win rate: wins and half the ties; strength: "
    "log-odds against the average of the systems (Bradley-Terry)"
)
# two systems are one pair, which the table of pairs has
_SMALLEST_MATRIX = 3


def build_section(
    group: Group,
    scores: Scores,
    summary: Summary,
    families: Mapping[str, MeasureComparison],
) -> Section:
    """Build the table of one kind of scores; systems and measures in the order of `scores`."""
    kind, judge = group
    names = list(dict.fromkeys(measure for by_measure in scores.values() for measure in by_measure))
    baselines = baselines_of(summary, scores)
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


def baselines_of(summary: Summary, scores: Scores) -> dict[str, str | None]:
    """Return the system that each system of a section is compared with; None for a baseline."""
    return {
        system.name: system.baseline_by(next(iter(scores[system.name]), ""))
        for system in summary.systems
        if system.name in scores
    }


def _head(baseline: str | None, baselines: Mapping[str, str | None]) -> str:
    against = {name for name in baselines.values() if name is not None}
    # a generator on the baseline is named after it: `bm25/gpt`
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
    first = present[0]
    remarks = [] if first.aggregate == "mean" else [first.aggregate.replace("_", " ")]
    remarks += ["lower is better"] if first.direction == "lower" else []
    return Measure(
        name=printable(name),
        title=printable(name) + (f" ({', '.join(remarks)})" if remarks else ""),
        scores=tuple(
            _score_cell(system, score, family if rivals else None)
            for system, score in column.items()
        ),
        differences=tuple(
            DifferenceCell(outcome="baseline" if score is not None and made else "")
            if (other := baselines[system]) is None
            else _difference_cell(made.get((system, other)), present[0].direction)
            for system, score in column.items()
        ),
        details=tuple(None if score is None else _detail(score) for score in column.values()),
    )


def _score_cell(
    system: str, score: SystemScore | None, family: MeasureComparison | None
) -> ScoreCell:
    if score is None or score.mean is None:
        return ScoreCell(MISSING)
    best, tied = (None, ()) if family is None else (family.best, family.untold)
    return ScoreCell(
        value=significant(score.mean),
        interval=interval(score.interval),
        mark="best" if system == best else "tied" if system in tied else "",
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
    return DifferenceCell(outcome, value, ends, probability(comparison.p_adjusted))


def _detail(score: SystemScore) -> Detail:
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
    return [f"judged by {named}" + (f": {printable(declared.label)}" if declared.label else "")]


Key = tuple[int, tuple[tuple[str, int], ...], int]


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
    return score.n, failed, score.not_applicable


def _describe(key: Key) -> str:
    scored, failed, not_applicable = key
    total = sum(n for _, n in failed)
    return f"{scored} scored, {total} failed{causes(failed)}, {not_applicable} not applicable"


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


def lay_out_preferences(summary: Summary, comparisons: Comparisons) -> list[Chapter]:
    """Lay out the entries of `preferences` in comparisons.json, in their order."""
    return [_preference(entry, summary) for entry in comparisons.preferences]


def _preference(entry: Ranked, summary: Summary) -> Chapter:
    confidence = summary.confidence
    declared = summary.judges.get(entry.judge)
    label = None if declared is None else declared.label
    judged = f"judged by {printable(entry.model)}" + (f": {printable(label)}" if label else "")
    scope = f"each against {printable(entry.baseline)}" if entry.baseline else "every two systems"
    grids = [_ranking(entry.systems), _pairs(entry.comparisons, confidence)]
    if len(entry.systems) >= _SMALLEST_MATRIX:
        grids.append(_matrix(entry.systems, entry.win_matrix))
    return Chapter(
        title=f"preference (judge {printable(entry.judge)}): {printable(entry.rubric)}",
        headlines=(f"{_headline(entry, confidence)}; {judged}",),
        labels=(judged, f"{scope}, {_METHOD}", *map(printable, entry.notes)),
        grids=tuple(grids),
    )


def _headline(entry: Ranked, confidence: float) -> str:
    name, systems = printable(entry.name), entry.systems
    first = [system.system for system in systems if system.rank == 1]
    if not first:
        return f"no system has a rank by {name}"
    if len(first) > 1:
        return f"{listed([printable(each) for each in first])} rank equal by {name}"
    best, beaten = first[0], []
    for pair in entry.comparisons:
        if pair.differs and pair.win_rate is not None:
            if pair.system == best and pair.win_rate > 0.5:
                beaten.append(printable(pair.other))
            elif pair.other == best and pair.win_rate < 0.5:
                beaten.append(printable(pair.system))
    rate = significant(next(s.win_rate for s in systems if s.system == best))
    text = f"{printable(best)} ranks first by {name}, win rate {rate}"
    if not beaten:
        return f"{text}; that it is preferred to any other system was not shown"
    return f"{text}; preferred to {listed(beaten)} ({percent(confidence)} confidence)"


def _ranking(systems: Sequence[PreferredSystem]) -> Grid:
    """The strongest first; where there is no rank, in the order of the systems."""
    ordered = sorted(systems, key=lambda s: (s.rank is None, s.rank or 0))
    rows = [
        (
            printable(system.system),
            MISSING if system.rank is None else str(system.rank),
            with_interval(system.strength, system.interval),
            significant(system.win_rate),
            *map(str, (system.wins, system.ties, system.losses)),
            _failed(system),
            str(system.not_applicable),
        )
        for system in ordered
    ]
    return Grid("ranking", _RANKING, tuple(rows))


def _pairs(comparisons: Sequence[PreferredPair], confidence: float) -> Grid:
    rows = [
        (
            f"{printable(pair.system)} over {printable(pair.other)}",
            with_interval(pair.win_rate, pair.interval),
            *map(str, (pair.wins, pair.ties, pair.losses)),
            _failed(pair),
            str(pair.not_applicable),
            interval(pair.bounds) or MISSING,
            probability(pair.p_adjusted),
            _verdict(pair),
        )
        for pair in comparisons
    ]
    count = f"Holm over {len(comparisons)}"
    return Grid(f"pairs, with {percent(confidence)} intervals; p: {count}", _PAIRS, tuple(rows))


def _verdict(pair: PreferredPair) -> str:
    if pair.win_rate is None:
        return MISSING
    if not pair.differs:
        return "undecided"
    return "preferred" if pair.win_rate > 0.5 else "the other is preferred"


def _failed(counted: PreferredPair | PreferredSystem) -> str:
    return f"{counted.n_failed}{causes(counted.failed.items())}"


def _matrix(systems: Sequence[PreferredSystem], matrix: Mapping[str, Mapping[str, float]]) -> Grid:
    names = [system.system for system in systems]
    rows = [
        (printable(name), *(significant(matrix[name].get(other)) for other in names))
        for name in names
    ]
    heads = ("win rate of", *(f"over {printable(name)}" for name in names))
    return Grid("win rate of each system over each other", heads, tuple(rows))
