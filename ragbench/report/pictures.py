"""Pictures of a run: causes, scores, differences, also by slice, and trends.

Pictures of scores and differences have a row with an interval for each system. A picture is drawn
once and scales with the page.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np

from ragbench.comparison.compared_rows import short_names
from ragbench.errors import OptionError
from ragbench.pictures import svg
from ragbench.pictures.intervals import Whisker, interval_picture
from ragbench.records.causes import AnswerCause
from ragbench.records.comparison import ComparedRuns, Comparisons
from ragbench.records.score import SystemScore
from ragbench.records.summary import Summary
from ragbench.registry import nearest
from ragbench.report.causes import present_causes, with_causes
from ragbench.report.headline import outcome_of
from ragbench.report.text import cause_words, ends_of, questions, significant, total_of
from ragbench.types import FloatArray

# numbers of series: a green triangle, an orange square, a grey diamond
_BETTER, _WORSE, _NEITHER = 2, 1, 7
_MOST_BARS, _PANEL = 300, 150.0  # queries and height of a plot with bars
_MOST_LABELS = 6  # runs whose names all fit below the axis
# Colour of each cause in pictures and bars.
CAUSE_COLOURS: Mapping[AnswerCause, str] = {
    "right": "#009e73",
    "found": "#009e73",
    "read_forbidden": "#8c1c13",
    "not_in_corpus": "#666666",
    "not_retrieved": "#d55e00",
    "ranked_too_low": "#e69f00",
    "wrong_passage": "#f0e442",
    "not_used": "#56b4e9",
    "unsupported": "#cc79a7",
    "refused": "#7a5195",
    "should_have_refused": "#0072b2",
    "failed": "currentColor",  # black on a light page, white on a dark one
    "unknown": "#b5bcc4",
}
# shade of the bar of a cause, for the colour of a number on it; all other bars are light
_SHADES: Mapping[str, str] = {
    "failed": "text",
    **dict.fromkeys(("right", "found", "read_forbidden", "not_in_corpus"), "dark"),
    **dict.fromkeys(("refused", "should_have_refused"), "dark"),
}


def pictures(summary: Summary, comparisons: Comparisons) -> list[svg.Picture]:
    """Return all pictures that the results of a run have data for: causes, trends, scores, slices.

    The differences of a measure stand beside its scores.
    """
    causes = causes_picture(summary)
    return [
        *([causes] if causes is not None else ()),
        *(trend_pictures(comparisons) if isinstance(comparisons, ComparedRuns) else ()),
        *score_pictures(summary, comparisons),
        *slice_pictures(comparisons),
    ]


def score_pictures(summary: Summary, comparisons: Comparisons) -> Iterator[svg.Picture]:
    """Yield a picture of the means and one of the paired differences, measure by measure.

    A measure without any mean has no picture of the means. A measure without differences, as with
    a single system, has no picture of the differences.
    """
    means, differences = mean_pictures(summary, comparisons), difference_pictures(comparisons)
    for measure in summary.score_names():
        for of in (means, differences):
            if measure in of:
                yield of[measure]


def mean_pictures(summary: Summary, comparisons: Comparisons) -> dict[str, svg.Picture]:
    """Return measure -> picture of the means of the systems; measures without means are absent."""
    families = comparisons.by_measure()
    pictures = {}
    # the number keeps file names distinct: `slug` may map two names to one
    for number, measure in enumerate(summary.score_names()):
        best = families[measure].sure_best if measure in families else None
        scores = []
        for s in summary.systems:
            if measure in s.scores:
                scores.append((s.name, s.scores[measure]))
        whiskers = []
        for name, score in scores:
            if score.mean is not None:
                ends, text = ends_of(score.interval), f"{name} {significant(score.mean)}"
                colour = _BETTER if name == best and len(scores) > 1 else 0
                whiskers.append(Whisker(name, score.mean, ends, colour, text))
        if whiskers:
            lower = " (lower is better)" if scores[0][1].direction == "lower" else ""
            has_best = len(whiskers) > 1 and any(w.name == best for w in whiskers)
            head = measure + ("; triangle: surely the best" if has_best else "")
            file = f"intervals-{number:02}-{svg.slug(measure)}"
            pictures[measure] = interval_picture(file, f"{measure}{lower}", head, whiskers)
    return pictures


def difference_pictures(comparisons: Comparisons) -> dict[str, svg.Picture]:
    """Return measure -> picture of the paired differences from the baselines.

    Measures without differences are absent.
    """
    pictures = {}
    for number, family in enumerate(comparisons.measures):
        whiskers = []
        for row in family.comparisons:
            if row.difference is not None:
                outcome, ends = outcome_of(row, family.direction), ends_of(row.interval)
                colour = {"better": _BETTER, "worse": _WORSE}.get(outcome, _NEITHER)
                text = f"{row.system} {row.difference:+.3g} against {row.baseline}"
                whiskers.append(Whisker(row.system, row.difference, ends, colour, text))
        if whiskers:
            file = f"differences-{number:02}-{svg.slug(family.measure)}"
            title = f"{family.measure}: difference from the baseline"
            head = f"{family.measure}, minus the baseline"
            pictures[family.measure] = interval_picture(file, title, head, whiskers, zero=True)
    return pictures


class QueryDifferences(NamedTuple):
    """Differences of a system from its baseline, query by query.

    Attributes:
        system: Name of the system.
        baseline: Name of its baseline.
        query_ids: Ids of the queries.
        values: Score minus baseline of each query; NaN without a score of both.
    """

    system: str
    baseline: str
    query_ids: Sequence[str]
    values: FloatArray


def differences_by_query(
    comparisons: Comparisons, per_query: Mapping[str, Mapping[str, Mapping[str, float]]]
) -> dict[str, list[QueryDifferences]]:
    """Return measure -> differences of each comparison; `per_query` is as `Experiment` has it."""
    by_measure: dict[str, list[QueryDifferences]] = {}
    for family in comparisons.measures:
        for row in family.comparisons:
            scores = per_query[row.system][family.measure]
            base = per_query[row.baseline][family.measure]
            common = []
            for query in scores:
                if query in base:
                    common.append(query)
            values = np.array([scores[query] - base[query] for query in common])
            entry = QueryDifferences(row.system, row.baseline, common, values)
            by_measure.setdefault(family.measure, []).append(entry)
    return by_measure


def query_pictures(
    comparisons: Comparisons, by_measure: Mapping[str, Sequence[QueryDifferences]]
) -> dict[str, svg.Picture]:
    """Return measure -> picture of the difference of each query, largest first, as bars.

    A system has a plot of its own. Of more than 300 queries, 300 at equal steps of that order are
    drawn. Measures without differences are absent.
    """
    pictures = {}
    for number, family in enumerate(comparisons.measures):
        rows = []
        for row in by_measure.get(family.measure, ()):
            if np.isfinite(row.values).any():
                rows.append(row)
        if not rows:
            continue
        drawing, x0 = svg.Drawing(), 46.0
        words = []
        for place, row in enumerate(rows):
            top = _PANEL * place
            drawing.text(x0, top + 13, f"{family.measure}: {row.system} minus {row.baseline}")
            words.append(_draw_bars(drawing, row, family.direction == "lower", x0, top))
        file = f"queries-{number:02}-{svg.slug(family.measure)}"
        title = f"{family.measure}: difference of each query"
        size = x0 + svg.PLOT + svg.MARGIN, _PANEL * len(rows)
        pictures[family.measure] = drawing.done(file, title, "; ".join(words), *size)
    return pictures


def _draw_bars(
    drawing: svg.Drawing, row: QueryDifferences, lower_is_better: bool, x0: float, top: float
) -> str:
    """Draw a bar per query, largest difference first; return the counts of gains and losses."""
    values = row.values[np.isfinite(row.values)]
    ids = []
    for n in np.flatnonzero(np.isfinite(row.values)).tolist():
        ids.append(row.query_ids[n])
    order = np.argsort(-values, kind="stable")
    if len(order) > _MOST_BARS:
        order = order[np.linspace(0, len(order) - 1, _MOST_BARS).round().astype(int)]
    up = svg.Scale.fit(values.tolist(), top + _PANEL - 20, top + 24, zero=True)
    svg.axis_left(drawing, up, x0, x0 + svg.PLOT)
    step = svg.PLOT / len(order)
    for place, n in enumerate(order.tolist()):
        value = float(values[n])
        end, zero = up(value), up(0)
        colour = CAUSE_COLOURS["right" if (value > 0) != lower_is_better else "not_retrieved"]
        height, label = abs(end - zero), f"{ids[n]} {value:+.3g}"
        drawing.bar(x0 + step * place, min(end, zero), 0.9 * step, height, colour, label)
    drawing.rule(x0, up(0), right=svg.PLOT, strong=True)
    sign = -1 if lower_is_better else 1
    better, worse = (sign * values > 0).sum(), (sign * values < 0).sum()
    name = f"{row.system} against {row.baseline}"
    return f"{name}: {better} queries better, {worse} worse, {(values == 0).sum()} equal"


def picture_of(pictures: Mapping[str, svg.Picture], measure: str | None) -> svg.Picture:
    """Return the picture of a measure, or with None the first one.

    Raises:
        OptionError: There is no such picture.
    """
    if measure is None and pictures:
        return next(iter(pictures.values()))
    if measure is None or measure not in pictures:
        allowed = ", ".join(pictures) or "a result with such scores"
        raise OptionError("plot", "measure", measure, allowed, nearest(str(measure), pictures))
    return pictures[measure]


def slice_pictures(comparisons: Comparisons) -> Iterator[svg.Picture]:
    """Yield a picture of the paired differences by slice for each field and measure."""
    groups = defaultdict[tuple[str, str], list[Whisker]](list)
    for row in comparisons.slices:
        if row.difference is not None:
            name = f"{row.slice}: {row.system}"
            colour = _WORSE if row.worse else _NEITHER
            label = f"{name} {row.difference:+.3g} over {row.n} queries"
            whisker = Whisker(name, row.difference, ends_of(row.interval), colour, label)
            groups[row.field, row.measure].append(whisker)
    for (name, measure), whiskers in groups.items():
        title = f"{measure} by {name}: difference from the baseline"
        file = f"slices-{svg.slug(name)}-{svg.slug(measure)}"
        yield interval_picture(file, title, f"{measure}, minus the baseline", whiskers, zero=True)


def causes_picture(summary: Summary) -> svg.Picture | None:
    """Return a picture of the causes, a bar for each system; None without known causes."""
    systems = with_causes(summary.systems)
    if not systems:
        return None
    drawing, plot = svg.Drawing(), 1.5 * svg.PLOT
    x0, height = svg.width_of([system.name for system in systems]) + 12, 26.0
    present = present_causes(systems)
    words = []
    for row, system in enumerate(systems):
        x, y, n = x0, 8 + height * row, total_of(system.causes)
        drawing.text(x0 - 8, y + 17, system.name, anchor="end")
        counts = []
        for cause in present:
            if system.causes.get(cause):
                counts.append((cause, system.causes[cause]))
        for cause, count in counts:
            width = plot * count / n
            label = f"{system.name}: {questions(count)} of {n} {cause_words(cause)}"
            colour = CAUSE_COLOURS[cause]
            drawing.bar(x, y + 4, width - 1, 18, colour, label, system=system.name, cause=cause)
            if width > 22:  # a narrower bar has no room for its count
                drawing.count(x + 4, y + 17, questions(count), _SHADES.get(cause, "light"))
            x += width
        parts = ", ".join(f"{questions(count)} {cause_words(cause)}" for cause, count in counts)
        words.append(f"of {n} questions {system.name} has {parts}")
    x, y = x0, 28 + height * len(systems)
    for cause in present:
        if x > x0 and x + 22 + svg.width_of([cause]) > x0 + plot:
            x, y = x0, y + 18
        drawing.bar(x, y - 10, 12, 12, CAUSE_COLOURS[cause], cause)
        drawing.text(x + 17, y, cause_words(cause))
        x += 34 + svg.width_of([cause])
    title = "where answers are lost"
    return drawing.done("causes", title, "; ".join(words), x0 + plot + svg.MARGIN, y + 14)


def trend_pictures(compared: ComparedRuns) -> Iterator[svg.Picture]:
    """Yield a picture of the first score of each kind over several runs, in their order."""
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
) -> svg.Picture:
    """Return a picture of the means of each system over runs, with their intervals.

    Each series has as many scores as there are runs.

    Args:
        file: Name of the picture's file, without an ending.
        measure: Name of the score.
        runs: Names of the runs.
        trend: System -> its score in each run; None is a gap in its line.
    """
    drawing, x0, bottom, right = svg.Drawing(), 46.0, 220.0, 46.0 + svg.PLOT
    up = svg.Scale.fit(_trend_values(trend), bottom, 24)
    across = svg.Scale.fit([0.0, max(1.0, len(runs) - 1.0)], x0 + 20, right - 20)
    svg.axis_left(drawing, up, x0, right)
    drawing.text(x0, 13, measure)
    for place, run in enumerate(runs):
        if len(runs) <= _MOST_LABELS or place in (0, len(runs) - 1):
            # the end of a name distinguishes runs of one day
            label = run if len(run) <= 13 else f"…{run[-12:]}"
            drawing.text(across(place), bottom + 18, label, anchor="middle", soft=True)
    words = []
    for number, (system, of_system) in enumerate(trend.items()):
        # side by side, so that intervals of one run do not cover each other
        aside = (number - (len(trend) - 1) / 2) * min(7.0, 30 / len(trend))
        points: list[tuple[float, float]] = []
        means = []
        for place, score in enumerate(of_system):
            mean = None if score is None else score.mean
            means.append(significant(mean))
            if score is None or mean is None:  # a gap in the line
                drawing.line(points, number)
                points = []
                continue
            x = across(place) + aside
            points.append((x, up(mean)))
            if ends := ends_of(score.interval):
                drawing.line([(x, up(end)) for end in ends], number, width=1)
            label = f"{system} {significant(mean)} in run {place + 1}, {runs[place]}"
            drawing.mark(x, up(mean), number, label, size=4)
        drawing.line(points, number)
        words.append(f"{system}: {', '.join(means)}")
    size = svg.draw_legend(drawing, list(trend), right, bottom + 30)
    return drawing.done(file, f"{measure} over {len(runs)} runs", "; ".join(words), *size)


def _trend_values(trend: Mapping[str, Sequence[SystemScore | None]]) -> list[float]:
    """Return the means of all systems in all runs, and the ends of their intervals."""
    values: list[float] = []
    for score in chain.from_iterable(trend.values()):
        if score is not None:
            values += [] if score.mean is None else [score.mean]
            values += ends_of(score.interval) or ()
    return values
