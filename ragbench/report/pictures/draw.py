"""Draw the pictures of a run: causes, scores, differences, the queries one by one, and trends.

Scores and differences stand beside each other with their intervals, a row for each system. A
picture is drawn once, and scales with the page that shows it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from ragbench.comparison.compare_runs import short_names
from ragbench.records.causes import CAUSES, AnswerCause
from ragbench.records.comparison import ComparedRuns, Comparisons, MeasureComparison
from ragbench.records.score import SystemScore
from ragbench.records.summary import Summary
from ragbench.report.headline import outcome_of
from ragbench.report.pictures.svg import (
    MARGIN,
    Drawing,
    Picture,
    Scale,
    axis_left,
    axis_ticks,
    colour_of,
    draw_legend,
    slug,
    width_of,
)
from ragbench.report.text import cause_words, counted, ends_of, significant

# pixels of a plot
_PLOT = 300.0
# pixels of a row
_ROW = 20.0
# marks: a green triangle, an orange square, a grey diamond
_BETTER, _WORSE, _NEITHER = 2, 1, 7
_NAMED = 6  # runs whose names have room below the axis
_CAUSE_COLOURS: Mapping[AnswerCause, str] = {
    "right": "#009e73",
    "not_in_corpus": "#666666",
    "not_retrieved": "#d55e00",
    "ranked_too_low": "#e69f00",
    "not_used": "#56b4e9",
    "unsupported": "#cc79a7",
    "refused": "#7a5195",
    "should_have_refused": "#0072b2",
    "failed": "currentColor",  # the darkest on a light page, and the lightest on a dark one
    "unknown": "#b5bcc4",
}
# shade of a bar that a number stands on, where it is not light
_ON: Mapping[str, str] = {
    "failed": "text",
    **dict.fromkeys(("right", "not_in_corpus", "refused", "should_have_refused"), "dark"),
}


def pictures(summary: Summary, comparisons: Comparisons) -> list[Picture]:
    """Draw every picture that the results of a run have something for."""
    causes = causes_picture(summary)
    return [
        *([causes] if causes is not None else ()),
        *(trend_pictures(comparisons) if isinstance(comparisons, ComparedRuns) else ()),
        *score_pictures(summary, comparisons),
        *slice_pictures(comparisons),
    ]


class _Whisker(NamedTuple):
    """A row of a picture: a value with its interval.

    Attributes:
        label: Text of the mark, for those who point at it or do not see it.
    """

    name: str
    value: float
    ends: tuple[float, float] | None
    colour: int
    label: str


def score_pictures(summary: Summary, comparisons: Comparisons) -> Iterator[Picture]:
    """Draw the means of each measure with their intervals, then the paired differences."""
    families = {family.measure: family for family in comparisons.measures}
    names = dict.fromkeys(name for system in summary.systems for name in system.scores)
    for number, measure in enumerate(names):
        family = families.get(measure)
        best = None if family is None else family.best
        scores = [(s.name, s.scores[measure]) for s in summary.systems if measure in s.scores]
        whiskers = [
            _Whisker(
                name,
                score.mean,
                ends_of(score.interval),
                _BETTER if name == best else 0,
                f"{name} {significant(score.mean)}",
            )
            for name, score in scores
            if score.mean is not None
        ]
        if whiskers:
            lower = " (lower is better)" if scores[0][1].direction == "lower" else ""
            has_best = any(whisker.name == best for whisker in whiskers)
            head = measure + ("; triangle: the best" if has_best else "")
            file = f"intervals-{number:02}-{slug(measure)}"
            yield _whiskers(file, f"{measure}{lower}", head, whiskers)
        if family is not None:
            yield from _difference_rows(family, number)


def difference_pictures(comparisons: Comparisons) -> Iterator[Picture]:
    """Draw the paired differences from the baselines by each measure."""
    for number, family in enumerate(comparisons.measures):
        yield from _difference_rows(family, number)


def _difference_rows(family: MeasureComparison, number: int) -> Iterator[Picture]:
    whiskers = [
        _Whisker(
            row.system,
            row.difference,
            ends_of(row.interval),
            {"better": _BETTER, "worse": _WORSE}.get(outcome_of(row, family.direction), _NEITHER),
            f"{row.system} {row.difference:+.3g} against {row.baseline}",
        )
        for row in family.comparisons
        if row.difference is not None
    ]
    if whiskers:
        file = f"differences-{number:02}-{slug(family.measure)}"
        title = f"{family.measure}: difference from the baseline"
        yield _whiskers(file, title, f"{family.measure}, minus the baseline", whiskers, zero=True)


def slice_pictures(comparisons: Comparisons) -> Iterator[Picture]:
    """Draw the paired differences by slices of the queries, with their intervals."""
    groups = defaultdict[tuple[str, str], list[_Whisker]](list)
    for row in comparisons.slices:
        if row.difference is not None:
            name = f"{row.slice}: {row.system}"
            colour = _WORSE if row.worse else _NEITHER
            label = f"{name} {row.difference:+.3g} over {row.n} queries"
            whisker = _Whisker(name, row.difference, ends_of(row.interval), colour, label)
            groups[row.field, row.measure].append(whisker)
    for (name, measure), whiskers in groups.items():
        title = f"{measure} by {name}: difference from the baseline"
        file = f"slices-{slug(name)}-{slug(measure)}"
        yield _whiskers(file, title, f"{measure}, minus the baseline", whiskers, zero=True)


def _whiskers(
    file: str, title: str, head: str, whiskers: Sequence[_Whisker], *, zero: bool = False
) -> Picture:
    """Draw values with their intervals, a row each; with `zero`, beside the line of 0."""
    drawing, left = Drawing(), width_of([whisker.name for whisker in whiskers]) + 12
    bottom = 24 + _ROW * len(whiskers)
    values = [x for whisker in whiskers for x in (whisker.value, *(whisker.ends or ()))]
    scale = Scale.fit(values, left, left + _PLOT, zero=zero)
    for tick, label in axis_ticks(scale):
        drawing.rule(tick, 20, down=bottom - 20)
        drawing.text(tick, bottom + 14, label, at="middle", soft=True)
    if zero:
        drawing.rule(scale(0), 20, down=bottom - 20, strong=True)
    drawing.text(left, 13, head)
    for row, whisker in enumerate(whiskers):
        y = 24 + _ROW * (row + 0.5)
        drawing.text(left - 8, y + 4, whisker.name, at="end")
        if whisker.ends is not None:
            low, high = map(scale, whisker.ends)
            drawing.line([(low, y), (high, y)], whisker.colour)
        drawing.mark(scale(whisker.value), y, whisker.colour, whisker.label)
    words = "; ".join(whisker.label for whisker in whiskers[:40])
    return drawing.done(file, title, words, left + _PLOT + MARGIN, bottom + 20)


def query_picture(
    measure: str,
    system: str,
    baseline: str,
    pairs: Iterable[tuple[str, float, float]],
    *,
    lower: bool = False,
) -> Picture:
    """Draw the difference of each query, sorted: how many gain, how many lose, and how much.

    `pairs` are query, value of the system, value of the baseline.
    """
    changes = sorted((a - b, query) for query, a, b in pairs)
    drawing, left, right = Drawing(), 46.0, 46.0 + 1.5 * _PLOT
    up = Scale.fit([change for change, _ in changes], 250, 24, zero=True)
    axis_left(drawing, up, left, right)
    step = (right - left) / len(changes)
    for place, (change, query) in enumerate(changes):
        top, bottom = sorted((up(change), up(0)))
        colour = colour_of(_BETTER if (change > 0) != lower else _WORSE)
        if change:
            x, width = left + place * step, max(step - 0.5, 0.5)
            drawing.bar(x, top, width, bottom - top, colour, f"{query} {change:+.3g}")
    drawing.rule(left, up(0), right=right - left, strong=True)
    gained, lost = sum(c > 0 for c, _ in changes), sum(c < 0 for c, _ in changes)
    words = f"{counted(gained, 'queries')} up, {lost} down, {len(changes) - gained - lost} the same"
    drawing.text(left, 13, f"{measure}: {system} minus {baseline}; {words}"[:90])
    file = f"queries-{slug(measure)}-{slug(system)}"
    title = f"{measure} of {system} minus {baseline}, by query"
    return drawing.done(file, title, words, right + 20, 264)


def causes_picture(summary: Summary) -> Picture | None:
    """Draw where answers are lost, a bar for each system; None where no causes are counted."""
    systems = [system for system in summary.systems if system.causes]
    if not systems:
        return None
    drawing, plot = Drawing(), 1.5 * _PLOT
    left, tall = width_of([system.name for system in systems]) + 12, 26.0
    present = [cause for cause in CAUSES if any(s.causes.get(cause) for s in systems)]
    words = []
    for row, system in enumerate(systems):
        x, y, n = left, 8 + tall * row, sum(system.causes.values())
        drawing.text(left - 8, y + 17, system.name, at="end")
        counts = [(cause, system.causes[cause]) for cause in present if system.causes.get(cause)]
        for cause, count in counts:
            width = plot * count / n
            label = f"{system.name}: {count} of {n} {cause_words(cause)}"
            colour = _CAUSE_COLOURS[cause]
            drawing.bar(x, y + 4, width - 1, 18, colour, label, system=system.name, cause=cause)
            if width > 22:
                drawing.count(x + 4, y + 17, count, _ON.get(cause, "light"))
            x += width
        parts = ", ".join(f"{count} {cause_words(cause)}" for cause, count in counts)
        words.append(f"of {n} questions {system.name} has {parts}")
    x, y = left, 28 + tall * len(systems)
    for cause in present:
        if x > left and x + 22 + width_of([cause]) > left + plot:
            x, y = left, y + 18
        drawing.bar(x, y - 10, 12, 12, _CAUSE_COLOURS[cause], cause)
        drawing.text(x + 17, y, cause_words(cause))
        x += 34 + width_of([cause])
    title = "where answers are lost"
    return drawing.done("causes", title, "; ".join(words), left + plot + MARGIN, y + 14)


def trend_pictures(compared: ComparedRuns) -> Iterator[Picture]:
    """Draw the first score of each kind over the runs that are compared, in their order."""
    if len(compared.runs) < 2:
        return
    names = short_names(compared.sources)
    for number, family in enumerate(compared.firsts):
        trend: dict[str, list[SystemScore | None]] = {}
        for system in compared.systems:
            if family.measure in system.scores:
                scores = trend.setdefault(system.system, [None] * len(names))
                scores[compared.sources.index(system.source)] = system.scores[family.measure]
        yield trend_picture(f"trend-{number}", family.measure, names, trend)


def trend_picture(
    file: str,
    measure: str,
    runs: Sequence[str],
    trend: Mapping[str, Sequence[SystemScore | None]],
) -> Picture:
    """Draw the means of each system's score over runs, with their intervals."""
    drawing, left, bottom, right = Drawing(), 46.0, 220.0, 46.0 + _PLOT
    scores = [score for of_system in trend.values() for score in of_system if score is not None]
    values = [score.mean for score in scores if score.mean is not None]
    values += [end for score in scores for end in ends_of(score.interval) or ()]
    up = Scale.fit(values, bottom, 24)
    across = Scale.fit([0.0, max(1.0, len(runs) - 1.0)], left + 20, right - 20)
    axis_left(drawing, up, left, right)
    drawing.text(left, 13, measure)
    for place, run in enumerate(runs):
        if len(runs) <= _NAMED or place in (0, len(runs) - 1):
            # the name's end tells runs of one day apart
            label = run if len(run) <= 13 else f"…{run[-12:]}"
            drawing.text(across(place), bottom + 18, label, at="middle", soft=True)
    words = []
    for number, (system, of_system) in enumerate(trend.items()):
        # side by side, so that intervals of one run do not cover each other
        aside = (number - (len(trend) - 1) / 2) * min(7.0, 30 / len(trend))
        points: list[tuple[float, float]] = []
        for place, score in enumerate(of_system):
            if score is None or score.mean is None:  # a gap: what follows is not joined to it
                drawing.line(points, number)
                points = []
                continue
            x = across(place) + aside
            points.append((x, up(score.mean)))
            if ends := ends_of(score.interval):
                drawing.line([(x, up(end)) for end in ends], number, width=1)
            label = f"{system} {significant(score.mean)} in run {place + 1}, {runs[place]}"
            drawing.mark(x, up(score.mean), number, label, size=4)
        drawing.line(points, number)
        means = (significant(None if score is None else score.mean) for score in of_system)
        words.append(f"{system}: {', '.join(means)}")
    size = draw_legend(drawing, list(trend), right, bottom + 30)
    return drawing.done(file, f"{measure} over {len(runs)} runs", "; ".join(words), *size)
