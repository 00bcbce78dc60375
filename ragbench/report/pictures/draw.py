"""The pictures of a run: of its summary, its comparisons, and the values of its queries."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from ragbench.records.comparison import (
    ComparedRuns,
    Comparisons,
    Difference,
    MeasureComparison,
)
from ragbench.records.summary import Latency, Summary, SystemSummary
from ragbench.report.pictures.causes import causes_pictures
from ragbench.report.pictures.curves import Curves, curve_pictures
from ragbench.report.pictures.svg import (
    Drawing,
    Picture,
    Scale,
    axis_below,
    axis_left,
    colour_of,
    legend_of,
    slug,
    width_of,
)
from ragbench.report.pictures.trend import trend_pictures
from ragbench.report.text import counted, ends_of, significant

_ROW = 20
_PLOT, _GAP = 230.0, 40.0
_DEEPEST = 100
_BINS = 10
Values = Mapping[str, Mapping[str, Sequence[float | None]]]
"""System -> score -> the value of each query."""


def pictures(
    summary: Summary, comparisons: Comparisons, curves: Curves, values: Values
) -> list[Picture]:
    """Draw every picture that the results of a run have something for."""
    found = [
        *causes_pictures(summary, comparisons),
        *(trend_pictures(comparisons) if isinstance(comparisons, ComparedRuns) else ()),
        *interval_pictures(summary, comparisons),
        *curve_pictures(curves),
        *trade_pictures(summary),
        *judge_pictures(summary, values),
        *control_pictures(comparisons),
        *slice_pictures(comparisons),
    ]
    return [picture for picture in found if picture is not None]


def interval_pictures(summary: Summary, comparisons: Comparisons) -> Iterator[Picture]:
    """Means with intervals, and beside them the paired differences, which decide."""
    families = {family.measure: family for family in comparisons.measures}
    names = dict.fromkeys(name for system in summary.systems for name in system.scores)
    for number, name in enumerate(names):
        systems = [
            s for s in summary.systems if name in s.scores and s.scores[name].mean is not None
        ]
        if systems:
            yield _intervals(
                f"intervals-{number:02}-{slug(name)}", name, systems, families.get(name)
            )


def _intervals(
    file: str, name: str, systems: Sequence[SystemSummary], family: MeasureComparison | None
) -> Picture:
    made = {} if family is None else {c.system: c for c in family.comparisons}
    made = {s: c for s, c in made.items() if c.difference is not None}
    drawing, left = Drawing(), width_of([s.name for s in systems]) + 12
    bottom = 24.0 + _ROW * len(systems)
    scores = [(s, s.scores[name], ends_of(s.scores[name].interval)) for s in systems]
    seen = [x for _, score, ends in scores for x in (score.mean or 0.0, *(ends or ()))]
    means = Scale.fit(seen, left, left + _PLOT)
    axis_below(drawing, means, 20, bottom)
    best = family.best if family is not None else None
    shows_best = any(system.name == best for system in systems)
    drawing.text(left, 13, f"{name}{'; triangle: the best' if shows_best else ''}")
    changes = [
        x for c in made.values() for x in (c.difference or 0.0, *(ends_of(c.interval) or ()))
    ]
    apart = Scale.fit(changes, left + _PLOT + _GAP, left + 2 * _PLOT + _GAP, zero=True)
    if made:
        axis_below(drawing, apart, 20, bottom)
        drawing.rule(apart(0), 20, down=bottom - 20, strong=True)
        drawing.text(left + _PLOT + _GAP, 13, "difference from the baseline")
    told = []
    for row, (system, score, ends) in enumerate(scores):
        y = 34.0 + row * _ROW
        drawing.text(left - 8, y + 4, system.name, at="end")
        said = f"{system.name} {significant(score.mean)}"
        colour = 2 if system.name == best else 0
        _whisker(drawing, means, y, score.mean or 0.0, ends, colour, said)
        told.append(said)
        change = made.get(system.name)
        if change is not None and change.difference is not None:
            said = f"{change.difference:+.3g} against {change.baseline}"
            colour = _outcome_colour(change, score.direction)
            _whisker(drawing, apart, y, change.difference, ends_of(change.interval), colour, said)
            told.append(said)
    lower = " (lower is better)" if scores[0][1].direction == "lower" else ""
    width = left + _PLOT + 20 + (_PLOT + _GAP if made else 0)
    return drawing.done(file, f"{name}{lower}", "; ".join(told), width, bottom + 20)


def _whisker(
    drawing: Drawing,
    scale: Scale,
    y: float,
    value: float,
    ends: tuple[float, float] | None,
    colour: int,
    said: str,
) -> None:
    if ends is not None:
        drawing.line([(scale(ends[0]), y), (scale(ends[1]), y)], colour)
    drawing.mark(scale(value), y, colour, said)


def _outcome_colour(change: Difference, direction: str) -> int:
    """Green triangle for better, orange square for worse, grey diamond for neither."""
    if not change.differs:
        return 7
    return 2 if ((change.difference or 0) > 0) == (direction != "lower") else 1


def trade_pictures(summary: Summary) -> Iterator[Picture]:
    """Quality against what it takes; what nothing beats on both is joined."""
    for kind in ("retrieval", "generation", "judge"):
        for what, unit in (("latency", "median ms a query"), ("cost", "USD for all queries")):
            having = []
            name = next(
                (n for s in summary.systems for n, score in s.scores.items() if score.kind == kind),
                None,
            )
            for system in summary.systems:
                if system.role == "control":  # nobody could choose it
                    continue
                score = system.scores.get(name or "")
                times = summary.timing.of(system.name).latency_ms or Latency()
                taken = system.usd if what == "cost" else times.p50
                if score is not None and score.mean is not None and taken is not None and taken > 0:
                    having.append((system.name, taken, score.mean))
                    lower = score.direction == "lower"
            if name is not None and len(having) > 1:
                yield _trade(f"{slug(name)}-against-{what}", name, unit, having, lower)


def _trade(
    file: str, name: str, unit: str, points: Sequence[tuple[str, float, float]], lower: bool
) -> Picture:
    drawing, left, right, bottom = Drawing(), 46.0, 46.0 + 2 * _PLOT, 260.0
    across = Scale.fit([math.log10(x) for _, x, _ in points], left + 10, right - 10)
    up = Scale.fit([y for *_, y in points], bottom - 10, 34)
    axis_left(drawing, up, left, right)
    for tick in _log_ticks(across):
        drawing.rule(across(math.log10(tick)), 24, down=bottom - 24)
        drawing.text(across(math.log10(tick)), bottom + 14, f"{tick:.3g}", at="middle", soft=True)
    sign = -1 if lower else 1
    front = [
        p for p in points if not any(q[1] <= p[1] and sign * (q[2] - p[2]) > 0 for q in points)
    ]
    front.sort(key=lambda p: p[1])
    placed = [(across(math.log10(x)), up(y)) for _, x, y in front]
    if len(placed) > 1:
        drawing.line(placed, 7, width=1.5)
    told = []
    for number, (system, x, y) in enumerate(points):
        said = f"{system}: {name} {significant(y)}, {x:.3g} {unit}"
        drawing.mark(across(math.log10(x)), up(y), number, said, size=6)
        told.append(said)
    drawing.text(left, 13, f"{name}{', lower is better' if lower else ''}")
    drawing.text(right, bottom + 28, f"{unit} (log scale)", at="end")
    names = [p[0] for p in points]
    end = legend_of(drawing, names, right + 18, 36)
    told.append(f"on the front: {', '.join(p[0] for p in front)}")
    width = right + 40 + width_of(names)
    return drawing.done(
        file, f"{name} against {unit}", "; ".join(told), width, max(bottom + 34, end)
    )


def _log_ticks(scale: Scale) -> list[float]:
    """Round values on an axis of logarithms; both its ends where fewer than two are on it."""
    powers = range(math.floor(scale.low), math.ceil(scale.high) + 1)
    found = [
        tick
        for power in powers
        for tick in (10.0**power, 2 * 10.0**power, 5 * 10.0**power)
        if scale.low <= math.log10(tick) <= scale.high
    ]
    return found if len(found) > 1 else [10**scale.low, 10**scale.high]


def judge_pictures(summary: Summary, values: Values) -> Iterator[Picture | None]:
    """How the scores of judges are spread, and how far two judges agree on one rubric."""
    judged = {
        name: score.judge
        for system in summary.systems
        for name, score in system.scores.items()
        if score.judge is not None
    }
    for name in judged:
        having = {s.name: values.get(s.name, {}).get(name, ()) for s in summary.systems}
        known = {s: [v for v in own if v is not None] for s, own in having.items()}
        known = {s: own for s, own in known.items() if own}
        if known:
            yield _histograms(f"spread-{slug(name)}", name, known)
    by_rubric: dict[str, list[str]] = defaultdict(list)
    for name in judged:
        by_rubric[name.partition("(")[0]].append(name)
    for rubric, names in by_rubric.items():
        for n, first in enumerate(names):
            for second in names[n + 1 :]:
                yield _agreement(rubric, first, second, values)


def _histograms(file: str, name: str, known: Mapping[str, Sequence[float]]) -> Picture:
    drawing, left = Drawing(), width_of(list(known)) + 12
    low, high = 0.0, max(1.0, *(v for own in known.values() for v in own))
    across = Scale(low, high, left, left + _PLOT * 1.5)
    height, told = 44.0, []
    for row, (system, own) in enumerate(known.items()):
        bottom = 30.0 + (row + 1) * height
        counts = [0] * _BINS
        for value in own:
            counts[min(_BINS - 1, max(0, int((value - low) / (high - low) * _BINS)))] += 1
        step = (across.end - across.start) / _BINS
        for place, count in enumerate(counts):
            tall = (height - 10) * count / max(counts)
            wide = (high - low) / _BINS
            ends = f"{low + place * wide:.2g} to {low + (place + 1) * wide:.2g}"
            said = f"{system}: {count} of {len(own)} from {ends}"
            drawing.bar(left + place * step + 1, bottom - tall, step - 2, tall, colour_of(0), said)
        drawing.rule(left, bottom, right=across.end - left, strong=True)
        drawing.text(left - 8, bottom - 8, system, at="end")
        told.append(f"{system}: {counts[0]} lowest, {counts[-1]} highest, of {len(own)}")
    bottom = 30.0 + len(known) * height
    axis_below(drawing, across, bottom, bottom)
    drawing.text(left, 16, name)
    title = f"{name}: how many answers have which score"
    return drawing.done(file, title, "; ".join(told), across.end + 20, bottom + 22)


def _agreement(rubric: str, first: str, second: str, values: Values) -> Picture | None:
    pairs = [
        (a, b)
        for own in values.values()
        for a, b in zip(own.get(first, ()), own.get(second, ()), strict=False)
        if a is not None and b is not None
    ]
    if not pairs:
        return None
    drawing, left, bottom = Drawing(), 46.0, 270.0
    # room for the marks at the ends, which are the largest: they would cover the numbers
    across, up = Scale(0, 1, left + 14, left + 226), Scale(0, 1, bottom - 14, bottom - 226)
    axis_left(drawing, up, left, left + 240)
    axis_below(drawing, across, bottom - 240, bottom)
    drawing.line([(across(0), up(0)), (across(1), up(1))], 7, width=1)
    counts: dict[tuple[float, float], int] = defaultdict(int)
    for a, b in pairs:
        counts[round(a, 1), round(b, 1)] += 1
    most = max(counts.values())
    for (a, b), count in counts.items():
        size = 3 + 9 * math.sqrt(count / most)
        drawing.mark(across(a), up(b), 0, f"{count} answers: {a:g} and {b:g}", size=round(size, 1))
    drawing.text(left, 20, second)
    drawing.text(left + 240, bottom + 30, first, at="end")
    near = sum(abs(a - b) <= 0.1 for a, b in pairs)
    told = f"{near} of {len(pairs)} answers lie within 0.1 of each other"
    name = f"agreement-{slug(first)}-{slug(second)}"
    return drawing.done(name, f"agreement on {rubric}: {told}", told, left + 270, bottom + 36)


def control_pictures(comparisons: Comparisons) -> Iterator[Picture]:
    """What perfect passages, none or wrong ones give, beside what the baseline's give."""
    by_score = defaultdict(list)
    for control in comparisons.controls:
        if control.mean is not None:
            by_score[control.score].append(control)
    for score, controls in by_score.items():
        rows = [(c.generator, 0, f"{c.control}/{c.generator}", c.mean or 0.0) for c in controls]
        rows += {
            (c.generator, 1, c.system, c.system_mean) for c in controls if c.system_mean is not None
        }
        # those of a generator one below the other, the best first
        rows.sort(key=lambda row: (row[0], -row[3]))
        drawing, left = Drawing(), width_of([name for *_, name, _ in rows]) + 12
        bottom = 24.0 + _ROW * len(rows)
        scale = Scale.fit([row[3] for row in rows], left, left + 1.5 * _PLOT, zero=True)
        axis_below(drawing, scale, 20, bottom)
        for row, (_, own, name, mean) in enumerate(rows):
            y, wide = 34.0 + row * _ROW, scale(mean) - scale(0)
            drawing.text(left - 8, y + 4, name, at="end")
            drawing.bar(scale(0), y - 6, wide, 12, colour_of(own), f"{name} {mean:.3g}")
        for own, text in enumerate(("with other passages", "with what was retrieved")):
            x = left + 150 * own
            drawing.bar(x, bottom + 26, 12, 12, colour_of(own), text)
            drawing.text(x + 17, bottom + 36, text)
        told = "; ".join(f"{name} {mean:.3g}" for *_, name, mean in rows)
        title = f"{score} with gold, no or other passages than what was retrieved"
        width = max(scale.end, left + 310) + 20
        yield drawing.done(f"controls-{slug(score)}", title, told, width, bottom + 44)


def slice_pictures(comparisons: Comparisons) -> Iterator[Picture]:
    """Differences by slices of the queries, with their intervals."""
    groups = defaultdict(list)
    for row in comparisons.slices:
        if row.difference is not None:
            groups[row.field, row.measure].append(row)
    for (name, measure), rows in groups.items():
        labels = [f"{row.slice}: {row.system}" for row in rows]
        drawing, left = Drawing(), width_of(labels) + 12
        bottom = 24.0 + _ROW * len(rows)
        seen = [x for r in rows for x in (r.difference or 0.0, *(ends_of(r.interval) or ()))]
        scale = Scale.fit(seen, left, left + 1.5 * _PLOT, zero=True)
        axis_below(drawing, scale, 20, bottom)
        drawing.rule(scale(0), 20, down=bottom - 20, strong=True)
        told = []
        for n, (row, label) in enumerate(zip(rows, labels, strict=True)):
            y = 34.0 + n * _ROW
            said = f"{label} {row.difference:+.3g} over {row.n} queries"
            drawing.text(left - 8, y + 4, label, at="end")
            _whisker(
                drawing,
                scale,
                y,
                row.difference or 0.0,
                ends_of(row.interval),
                1 if row.worse else 7,
                said,
            )
            told.append(said)
        title = f"{measure} by {name}: difference from the baseline"
        file = f"slices-{slug(name)}-{slug(measure)}"
        yield drawing.done(file, title, "; ".join(told[:40]), scale.end + 20, bottom + 20)


def difference_picture(
    name: str,
    system: str,
    baseline: str,
    pairs: Sequence[tuple[str, float, float]],
    *,
    lower: bool = False,
) -> Picture:
    """Draw each query's difference, sorted: how many gain, how many lose, and how much."""
    changes = sorted((a - b, query) for query, a, b in pairs)
    drawing, left, right = Drawing(), 46.0, 46.0 + 2 * _PLOT
    up = Scale.fit([change for change, _ in changes], 250, 24, zero=True)
    axis_left(drawing, up, left, right)
    step = (right - left) / len(changes)
    for place, (change, query) in enumerate(changes):
        top, bottom = sorted((up(change), up(0)))
        colour = colour_of(2 if (change > 0) != lower else 1)
        if change:
            drawing.bar(
                left + place * step,
                top,
                max(step - 0.5, 0.5),
                bottom - top,
                colour,
                f"{query} {change:+.3g}",
            )
    drawing.rule(left, up(0), right=right - left, strong=True)
    gained, lost = sum(c > 0 for c, _ in changes), sum(c < 0 for c, _ in changes)
    told = f"{counted(gained, 'queries')} up, {lost} down, {len(changes) - gained - lost} the same"
    drawing.text(left, 13, f"{name}: {system} minus {baseline}; {told}"[:90])
    file = f"queries-{slug(name)}-{slug(system)}"
    return drawing.done(
        file, f"{name} of {system} minus {baseline}, by query", told, right + 20, 264
    )
