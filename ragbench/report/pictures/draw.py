"""The pictures of a run: of its summary, its comparisons, and the values of its queries."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from ragbench.records.comparison import ComparedRuns, Comparisons, Difference, MeasureComparison
from ragbench.records.summary import Latency, Summary, SystemSummary
from ragbench.report.pictures.charts import Curves, causes_pictures, curve_pictures, trend_pictures
from ragbench.report.pictures.svg import (
    MARGIN,
    NARROW,
    Drawing,
    Picture,
    Rows,
    Scale,
    axis_below,
    axis_left,
    colour_of,
    room_of,
    slug,
)
from ragbench.report.text import counted, ends_of, significant

_PLOT = 230.0
_BINS = 10
Values = Mapping[str, Mapping[str, Sequence[float | None]]]
"""System -> score -> the value of each query."""


def pictures(
    summary: Summary, comparisons: Comparisons, curves: Curves, values: Values
) -> list[Picture]:
    """Draw every picture that the results of a run have something for, each for telephones, too."""
    wide, narrow = (
        [
            *causes_pictures(summary, comparisons, small),
            *(trend_pictures(comparisons, small) if isinstance(comparisons, ComparedRuns) else ()),
            *interval_pictures(summary, comparisons, small),
            *curve_pictures(curves, small),
            *trade_pictures(summary, small),
            *judge_pictures(summary, values, small),
            *control_pictures(comparisons, small),
            *slice_pictures(comparisons, small),
        ]
        for small in (False, True)
    )
    return [replace(own, narrow=small) for own, small in zip(wide, narrow, strict=True) if own]


def interval_pictures(
    summary: Summary, comparisons: Comparisons, narrow: bool = False
) -> Iterator[Picture]:
    """Means with intervals, and beside them the paired differences, which decide."""
    families = {family.measure: family for family in comparisons.measures}
    names = dict.fromkeys(name for system in summary.systems for name in system.scores)
    for number, name in enumerate(names):
        systems = [
            s for s in summary.systems if name in s.scores and s.scores[name].mean is not None
        ]
        if systems:
            file = f"intervals-{number:02}-{slug(name)}"
            yield _intervals(file, name, systems, families.get(name), narrow)


def _intervals(
    file: str,
    name: str,
    systems: Sequence[SystemSummary],
    family: MeasureComparison | None,
    narrow: bool,
) -> Picture:
    made = {} if family is None else {c.system: c for c in family.comparisons}
    made = {s: c for s, c in made.items() if c.difference is not None}
    drawing, rows = Drawing(), Rows([s.name for s in systems], narrow)
    left, bottom, plot = rows.left, rows.bottom(24), (138.0 if narrow and made else _PLOT)
    beside = left + plot + (2 * MARGIN if narrow else 40)
    scores = [(s, s.scores[name], ends_of(s.scores[name].interval)) for s in systems]
    seen = [x for _, score, ends in scores for x in (score.mean or 0.0, *(ends or ()))]
    means = Scale.fit(seen, left, left + plot)
    axis_below(drawing, means, 20, bottom)
    best = family.best if family is not None else None
    shows_best = any(system.name == best for system in systems)
    # on a page the name stands above the picture as well
    best_is = "triangle: the best" if shows_best else ""
    drawing.text(left, 13, best_is if narrow else "; ".join(filter(None, [name, best_is])))
    changes = [
        x for c in made.values() for x in (c.difference or 0.0, *(ends_of(c.interval) or ()))
    ]
    apart = Scale.fit(changes, beside, beside + plot, zero=True)
    if made:
        axis_below(drawing, apart, 20, bottom)
        drawing.rule(apart(0), 20, down=bottom - 20, strong=True)
        drawing.text(beside, 13, "difference" if narrow else "difference from the baseline")
    told = []
    for row, (system, score, ends) in enumerate(scores):
        y = rows.place(drawing, 24, row)
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
    width = (beside if made else left) + plot + MARGIN
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


def trade_pictures(summary: Summary, narrow: bool = False) -> Iterator[Picture]:
    """Quality against what it takes; what nothing beats on both is joined."""
    for kind in ("retrieval", "generation", "judge"):
        names = (n for s in summary.systems for n, own in s.scores.items() if own.kind == kind)
        name = next(names, "")
        for what, unit in (("latency", "median ms a query"), ("cost", "USD for all queries")):
            having = []
            for system in summary.systems:
                if system.role == "control":  # nobody could choose it
                    continue
                score = system.scores.get(name)
                times = summary.timing.of(system.name).latency_ms or Latency()
                taken = system.usd if what == "cost" else times.p50
                if score is not None and score.mean is not None and taken is not None and taken > 0:
                    having.append((system.name, taken, score.mean))
                    lower = score.direction == "lower"
            if len(having) > 1:
                file = f"{slug(name)}-against-{what}"
                yield _trade(file, name, unit, having, lower=lower, narrow=narrow)


def _trade(
    file: str,
    name: str,
    unit: str,
    points: Sequence[tuple[str, float, float]],
    *,
    lower: bool,
    narrow: bool,
) -> Picture:
    drawing, left, bottom = Drawing(), 46.0, 260.0
    right = NARROW - MARGIN if narrow else left + 2 * _PLOT
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
    size = room_of(drawing, [p[0] for p in points], right, bottom + 34, narrow)
    told.append(f"on the front: {', '.join(p[0] for p in front)}")
    return drawing.done(file, f"{name} against {unit}", "; ".join(told), *size)


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


def judge_pictures(
    summary: Summary, values: Values, narrow: bool = False
) -> Iterator[Picture | None]:
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
            yield _histograms(f"spread-{slug(name)}", name, known, narrow)
    by_rubric: dict[str, list[str]] = defaultdict(list)
    for name in judged:
        by_rubric[name.partition("(")[0]].append(name)
    for rubric, names in by_rubric.items():
        for n, first in enumerate(names):
            for second in names[n + 1 :]:
                yield _agreement(rubric, first, second, values)


def _histograms(
    file: str, name: str, known: Mapping[str, Sequence[float]], narrow: bool
) -> Picture:
    height = 44.0
    drawing, rows = Drawing(), Rows(list(known), narrow, height)
    left = rows.left
    low, high = 0.0, max(1.0, *(v for own in known.values() for v in own))
    across, told = Scale(low, high, left, rows.right(_PLOT * 1.5)), []
    for row, (system, own) in enumerate(known.items()):
        bottom = rows.place(drawing, 30, row) + height / 2
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
        told.append(f"{system}: {counts[0]} lowest, {counts[-1]} highest, of {len(own)}")
    bottom = rows.bottom(30)
    axis_below(drawing, across, bottom, bottom)
    drawing.text(left, 16, name)
    title = f"{name}: how many answers have which score"
    return drawing.done(file, title, "; ".join(told), across.end + MARGIN, bottom + 22)


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


def control_pictures(comparisons: Comparisons, narrow: bool = False) -> Iterator[Picture]:
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
        drawing, bars = Drawing(), Rows([name for *_, name, _ in rows], narrow)
        left, bottom = bars.left, bars.bottom(24)
        scale = Scale.fit([row[3] for row in rows], left, bars.right(1.5 * _PLOT), zero=True)
        axis_below(drawing, scale, 20, bottom)
        for row, (_, own, name, mean) in enumerate(rows):
            y, wide = bars.place(drawing, 24, row), scale(mean) - scale(0)
            drawing.bar(scale(0), y - 6, wide, 12, colour_of(own), f"{name} {mean:.3g}")
        for own, text in enumerate(("with other passages", "with what was retrieved")):
            x = left + 150 * own
            drawing.bar(x, bottom + 26, 12, 12, colour_of(own), text)
            drawing.text(x + 17, bottom + 36, text)
        told = "; ".join(f"{name} {mean:.3g}" for *_, name, mean in rows)
        title = f"{score} with gold, no or other passages than what was retrieved"
        width = max(scale.end + MARGIN, left + 310)
        yield drawing.done(f"controls-{slug(score)}", title, told, width, bottom + 44)


def slice_pictures(comparisons: Comparisons, narrow: bool = False) -> Iterator[Picture]:
    """Differences by slices of the queries, with their intervals."""
    groups = defaultdict(list)
    for row in comparisons.slices:
        if row.difference is not None:
            groups[row.field, row.measure].append(row)
    for (name, measure), rows in groups.items():
        found = []
        for row in rows:
            label, change = f"{row.slice}: {row.system}", row.difference or 0.0
            said = f"{label} {change:+.3g} over {row.n} queries"
            found.append((label, change, ends_of(row.interval), 1 if row.worse else 7, said))
        title = f"{measure} by {name}: difference from the baseline"
        yield _changes(f"slices-{slug(name)}-{slug(measure)}", title, found, narrow)


def difference_pictures(comparisons: Comparisons) -> Iterator[Picture]:
    """Paired differences from the baselines by each measure, where the means are not at hand."""
    for family in comparisons.measures:
        found = []
        for made in family.comparisons:
            if made.difference is not None:
                said = f"{made.system} {made.difference:+.3g} against {made.baseline}"
                colour = _outcome_colour(made, family.direction)
                found.append((made.system, made.difference, ends_of(made.interval), colour, said))
        if found:
            title = f"{family.measure}: difference from the baseline"
            yield _changes(f"differences-{slug(family.measure)}", title, found)


def _changes(
    file: str,
    title: str,
    found: Sequence[tuple[str, float, tuple[float, float] | None, int, str]],
    narrow: bool = False,
) -> Picture:
    """Name, difference, interval, colour and words of each row, beside the line of none."""
    drawing, rows = Drawing(), Rows([name for name, *_ in found], narrow)
    seen = [x for _, change, ends, *_ in found for x in (change, *(ends or ()))]
    left, bottom = rows.left, rows.bottom(24)
    scale = Scale.fit(seen, left, rows.right(1.5 * _PLOT), zero=True)
    axis_below(drawing, scale, 20, bottom)
    drawing.rule(scale(0), 20, down=bottom - 20, strong=True)
    for row, (_, change, ends, colour, said) in enumerate(found):
        _whisker(drawing, scale, rows.place(drawing, 24, row), change, ends, colour, said)
    told = "; ".join(said for *_, said in found[:40])
    return drawing.done(file, title, told, scale.end + MARGIN, bottom + 20)


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
    wide = max(step - 0.5, 0.5)
    for place, (change, query) in enumerate(changes):
        top, bottom = sorted((up(change), up(0)))
        colour, said = colour_of(2 if (change > 0) != lower else 1), f"{query} {change:+.3g}"
        if change:
            drawing.bar(left + place * step, top, wide, bottom - top, colour, said)
    drawing.rule(left, up(0), right=right - left, strong=True)
    gained, lost = sum(c > 0 for c, _ in changes), sum(c < 0 for c, _ in changes)
    told = f"{counted(gained, 'queries')} up, {lost} down, {len(changes) - gained - lost} the same"
    drawing.text(left, 13, f"{name}: {system} minus {baseline}; {told}"[:90])
    file = f"queries-{slug(name)}-{slug(system)}"
    return drawing.done(
        file, f"{name} of {system} minus {baseline}, by query", told, right + 20, 264
    )
