"""A score over runs: a line for each system."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ragbench.comparison.compare_runs import short_names
from ragbench.records.comparison import ComparedRuns
from ragbench.records.summary import SystemScore
from ragbench.report.pictures.svg import MARGIN, NARROW, Drawing, Picture, Scale, axis_left, room_of
from ragbench.report.text import ends_of, significant

_PLOT = 340.0
_NAMED = 6  # runs whose names have room below the axis

Trend = Mapping[str, Sequence[SystemScore | None]]
"""System -> its score in each run; None where a run lacks it."""


def trend_picture(
    name: str, measure: str, runs: Sequence[str], trend: Trend, narrow: bool = False
) -> Picture:
    """Draw the means of a score over runs, with the interval of each."""
    drawing, left, bottom = Drawing(), 46.0, 220.0
    right = NARROW - MARGIN if narrow else left + _PLOT
    means = [s.mean for own in trend.values() for s in own if s is not None and s.mean is not None]
    ends = [ends_of(s.interval) for own in trend.values() for s in own if s is not None]
    up = Scale.fit([*means, *(x for pair in ends if pair for x in pair)], bottom, 24)
    across = Scale.fit([0.0, max(1.0, len(runs) - 1.0)], left + 20, right - 20)
    axis_left(drawing, up, left, right)
    drawing.text(left, 13, measure)
    for place, run in enumerate(runs):
        if len(runs) <= (_NAMED // 2 if narrow else _NAMED) or place in (0, len(runs) - 1):
            # the name's end tells runs of one day apart
            short = run if len(run) <= 13 else f"…{run[-12:]}"
            drawing.text(across(place), bottom + 18, short, at="middle", soft=True)
    told = []
    for number, (system, scores) in enumerate(trend.items()):
        # side by side, so that intervals of one run do not cover each other
        aside = (number - (len(trend) - 1) / 2) * min(7.0, 30 / len(trend))
        points: list[tuple[float, float]] = []
        for place, score in enumerate(scores):
            if score is None or score.mean is None:
                points = _joined(drawing, points, number)
                continue
            x = across(place) + aside
            points.append((x, up(score.mean)))
            if pair := ends_of(score.interval):
                drawing.line([(x, up(pair[0])), (x, up(pair[1]))], number, width=1)
            said = f"{system} {significant(score.mean)} in {run_of(runs, place)}"
            drawing.mark(x, up(score.mean), number, said, size=4)
        _joined(drawing, points, number)
        values = (significant(None if score is None else score.mean) for score in scores)
        told.append(f"{system}: {', '.join(values)}")
    size = room_of(drawing, list(trend), right, bottom + 30, narrow)
    title = f"{measure} over {len(runs)} runs"
    return drawing.done(name, title, "; ".join(told), *size)


def run_of(runs: Sequence[str], place: int) -> str:
    """Return the name of a run, with its place."""
    return f"run {place + 1}, {runs[place]}"


def _joined(
    drawing: Drawing, points: Sequence[tuple[float, float]], number: int
) -> list[tuple[float, float]]:
    """Join what is there so far, and begin anew."""
    if len(points) > 1:
        drawing.line(points, number)
    return []


def trend_pictures(found: ComparedRuns, narrow: bool = False) -> Iterator[Picture]:
    """Draw the first score of each kind over the runs that are compared, in their order."""
    if len(found.runs) < 2:
        return
    names = short_names(found.sources)
    for number, family in enumerate(found.firsts):
        trend: dict[str, list[SystemScore | None]] = {}
        for system in found.systems:
            if family.measure in system.scores:
                own = trend.setdefault(system.system, [None] * len(names))
                own[found.sources.index(system.source)] = system.scores[family.measure]
        yield trend_picture(f"trend-{number}", family.measure, names, trend, narrow)
