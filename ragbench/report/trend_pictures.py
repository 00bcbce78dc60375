"""Pictures of scores over several runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain

from ragbench.comparison.compared_rows import short_names
from ragbench.pictures import svg
from ragbench.records.comparison import ComparedRuns
from ragbench.records.score import SystemScore
from ragbench.report.text import ends_of, significant

_MOST_LABELS = 6  # runs whose names all fit below the axis


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
