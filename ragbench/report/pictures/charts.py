"""The charts of a page: where answers are lost, scores along a list, scores over runs."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from ragbench.comparison.compare_runs import short_names
from ragbench.records.causes import CAUSES, AnswerCause
from ragbench.records.comparison import ComparedRuns, Comparisons
from ragbench.records.score import SystemScore
from ragbench.records.summary import Summary
from ragbench.report.pictures.svg import (
    MARGIN,
    NARROW,
    Drawing,
    Picture,
    Rows,
    Scale,
    axis_left,
    room_of,
    slug,
    width_of,
)
from ragbench.report.text import cause_words, ends_of, significant
from ragbench.types import FloatArray, IntArray
from ragbench.types.byte_ids import spans

_LONGEST_BAR = 230.0
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
_ON: Mapping[str, str] = {
    "failed": "text",
    **dict.fromkeys(("right", "not_in_corpus", "refused", "should_have_refused"), "dark"),
}
"""What numbers stand on, where it is not light."""

_CURVES_WIDTH = 460.0
_DEEPEST = 100
_TOGETHER = 1_000  # queries that are added at once
_KS = np.arange(1.0, _DEEPEST + 1)
_DISCOUNTS = np.log2(_KS + 1)
_TENTHS = [tenth / 10 for tenth in range(11)]

_TREND_WIDTH = 340.0
_NAMED = 6  # runs whose names have room below the axis


def causes_pictures(
    summary: Summary, comparisons: Comparisons, narrow: bool = False
) -> Iterator[Picture]:
    """Where answers are lost, a bar for each system; and which queries moved where."""
    systems = [s for s in summary.systems if s.causes]
    if not systems:
        return
    drawing, rows = Drawing(), Rows([s.name for s in systems], narrow, 26)
    left, wide, told = rows.left, rows.right(2.2 * _LONGEST_BAR) - rows.left, []
    occurring = [c for c in CAUSES if any(s.causes.get(c) for s in systems)]
    for row, system in enumerate(systems):
        y, x, n = rows.place(drawing, 8, row) - 9, left, sum(system.causes.values())
        for cause in occurring:
            count = system.causes.get(cause, 0)
            if not count:
                continue
            width, colour = wide * count / n, _CAUSE_COLOURS[cause]
            said = f"{system.name}: {count} of {n} {cause_words(cause)}"
            drawing.bar(x, y, width - 1, 18, colour, said, system=system.name, cause=cause)
            if width > 22:
                drawing.count(x + 4, y + 13, count, _ON.get(cause, "light"))
            x += width
        parts = ", ".join(
            f"{system.causes[c]} {cause_words(c)}" for c in occurring if system.causes.get(c)
        )
        told.append(f"of {n} questions {system.name} has {parts}")
    x, y = left, rows.bottom(8) + 20
    for cause in occurring:
        if x > left and x + 22 + width_of([cause]) > left + wide:
            x, y = left, y + 18
        drawing.bar(x, y - 10, 12, 12, _CAUSE_COLOURS[cause], cause)
        drawing.text(x + 17, y, cause_words(cause))
        x += 34 + width_of([cause])
    yield drawing.done(
        "causes", "where answers are lost", "; ".join(told), left + wide + MARGIN, y + 14
    )
    for flow in comparisons.causes:
        if flow.moves:
            yield _flow(
                flow.baseline,
                flow.system,
                [(m.before, m.after, len(m.queries)) for m in flow.moves],
                flow.same,
                narrow,
            )


def _flow(
    before: str,
    after: str,
    moves: Sequence[tuple[AnswerCause, AnswerCause, int]],
    same: int,
    narrow: bool,
) -> Picture:
    total = sum(n for *_, n in moves)
    labels = [f"{total} {cause_words(cause)}" for move in moves for cause in move[:2]]
    drawing, left = Drawing(), max(150.0, width_of([before, *labels]) + 28)
    right = left + _LONGEST_BAR
    inside, ends_of_names = 16, ("end", "start")
    if narrow:  # the words stand on the bands
        left, right, inside, ends_of_names = MARGIN, NARROW - MARGIN, -6, ("start", "end")
    scale = 170 / total
    starts = {c: sum(n for a, _, n in moves if a == c) for c in CAUSES}
    ends = {c: sum(n for _, b, n in moves if b == c) for c in CAUSES}
    at: dict[tuple[str, AnswerCause], float] = {}
    bottom = 0.0
    top = 50.0 if narrow else 34.0
    words = [(left, 16.0, before, ends_of_names[0]), (right, top - 18, after, ends_of_names[1])]
    sides = zip("ab", (starts, ends), (left, right), ends_of_names, strict=True)
    for side, counts, x, anchor in sides:
        y = top
        for cause in CAUSES:
            if counts[cause]:
                tall = counts[cause] * scale
                at[side, cause] = y
                bar_x, text_x = (x - 10, x - inside) if side == "a" else (x, x + inside)
                drawing.bar(bar_x, y, 10, tall, _CAUSE_COLOURS[cause], cause)
                words.append((text_x, y + 10, f"{counts[cause]} {cause_words(cause)}", anchor))
                y += max(tall, 14.0) + 6
        bottom = max(bottom, y)
    for a, b, n in sorted(moves, key=lambda move: -move[2]):
        tall, y, z = n * scale, at["a", a], at["b", b]
        at["a", a], at["b", b] = y + tall, z + tall
        said = f"{n} from {cause_words(a)} to {cause_words(b)}"
        drawing.band((left, y), (right, z), tall, _CAUSE_COLOURS[b], said)
    for at_x, y, text, anchor in words:  # over the bands, not below them
        drawing.text(at_x, y, text, at=anchor)
    told = "; ".join(f"{n} from {cause_words(a)} to {cause_words(b)}" for a, b, n in moves)
    title = f"{before} to {after}: {total} queries changed their cause, {same} did not"
    name = f"causes-{slug(before)}-to-{slug(after)}"
    beyond = MARGIN if narrow else max(170.0, width_of([after, *labels]) + 28)
    return drawing.done(name, title, told, right + beyond, bottom + 10)


@dataclass(slots=True)
class Curves:
    """Where rankings have what is relevant, added up over the judged queries."""

    queries: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    ndcg: dict[str, FloatArray] = field(default_factory=dict)
    recall: dict[str, FloatArray] = field(default_factory=dict)
    precision: dict[str, FloatArray] = field(default_factory=dict)
    interpolated: dict[str, FloatArray] = field(default_factory=dict)

    def add(self, ranking: str, ranks: IntArray, grades: IntArray, starts: IntArray) -> None:
        """Add queries, at the cost of some passes over so many ranks as are drawn.

        Args:
            ranking: The name of the ranking.
            ranks: Where each relevant document was found, from 1; 0 where it was not. Those of a
                query stand together, the best grade first.
            grades: The grade of each; above 0.
            starts: Where each query's documents start, and the end; one without any adds nothing.
        """
        sizes = np.diff(starts)
        queries = np.flatnonzero(sizes)
        for first in range(0, len(queries), _TOGETHER):
            own = queries[first : first + _TOGETHER]
            rows = spans(starts[own], starts[own + 1])
            self._add(ranking, ranks[rows], grades[rows], sizes[own])

    def _add(self, ranking: str, ranks: IntArray, grades: IntArray, sizes: IntArray) -> None:
        n = len(sizes)
        query = np.repeat(np.arange(n), sizes)
        place = np.arange(len(query)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        hits, gains, ideal = np.zeros((3, n, _DEEPEST))
        drawn = (ranks > 0) & (ranks <= _DEEPEST)
        hits[query[drawn], ranks[drawn] - 1] = 1
        gains[query[drawn], ranks[drawn] - 1] = grades[drawn]
        best = place < _DEEPEST
        ideal[query[best], place[best]] = grades[best]
        counts, most = np.cumsum(hits, axis=1), np.cumsum(ideal / _DISCOUNTS, axis=1)
        self.queries[ranking] += n
        for sums, values in (
            (self.ndcg, np.cumsum(gains / _DISCOUNTS, axis=1) / most),
            (self.recall, counts / sizes[:, np.newaxis]),
            (self.precision, counts / _KS),
            (self.interpolated, _interpolated(query, ranks, sizes)),
        ):
            sums[ranking] = sums.get(ranking, 0.0) + values.sum(axis=0)

    def means(self, sums: Mapping[str, FloatArray]) -> dict[str, list[float]]:
        """Return the means of some sums, by ranking."""
        return {name: (own / self.queries[name]).tolist() for name, own in sums.items()}


def _interpolated(query: IntArray, ranks: IntArray, sizes: IntArray) -> FloatArray:
    """Give the best precision at each recall or beyond: trec_eval's iprec_at_recall."""
    found = np.flatnonzero(ranks)
    order = found[np.lexsort((ranks[found], query[found]))]
    whose = query[order]
    first = np.searchsorted(whose, np.arange(len(sizes)))
    nth = np.arange(1, len(order) + 1) - first[whose]
    recall, precision = nth / sizes[whose], nth / ranks[order]
    points = np.zeros((len(sizes), len(_TENTHS)))
    for column, tenth in enumerate(_TENTHS):
        reached = recall >= tenth - 1e-9
        np.maximum.at(points[:, column], whose[reached], precision[reached])
    return points


def curve_pictures(curves: Curves, narrow: bool = False) -> Iterator[Picture]:
    """Scores over the length of the list that is read, and precision over recall."""
    if not curves.queries:
        return
    counted = max(curves.queries.values())
    drawn = (("nDCG", curves.ndcg), ("recall", curves.recall), ("precision", curves.precision))
    for name, sums in drawn:
        title, axes = f"{name}@k over k, {counted} judged queries", ("k", name)
        file, means = f"{name.lower()}-over-k", curves.means(sums)
        yield _lines(file, title, axes, _KS.tolist(), means, narrow, logarithmic=True)
    means = curves.means(curves.interpolated)
    title = f"interpolated precision over recall, {counted} judged queries"
    yield _lines("precision-recall", title, ("recall", "precision"), _TENTHS, means, narrow)


def _lines(
    file: str,
    title: str,
    axes: tuple[str, str],
    xs: Sequence[float],
    series: Mapping[str, Sequence[float]],
    narrow: bool,
    *,
    logarithmic: bool = False,
) -> Picture:
    drawing, left, bottom, (below, beside) = Drawing(), 46.0, 260.0, axes
    right = NARROW - MARGIN if narrow else left + _CURVES_WIDTH
    place = math.log10 if logarithmic else float
    across = Scale.fit([place(x) for x in xs], left, right)
    up = Scale.fit([y for own in series.values() for y in own], bottom, 24)
    axis_left(drawing, up, left, right)
    for x in (1, 2, 5, 10, 20, 50, 100) if logarithmic else (0, 0.2, 0.4, 0.6, 0.8, 1):
        drawing.rule(across(place(x)), 24, down=bottom - 24)
        drawing.text(across(place(x)), bottom + 14, f"{x:g}", at="middle", soft=True)
    drawing.text(left, 13, beside)
    drawing.text(right, bottom + 28, below, at="end")
    told = []
    for number, (name, ys) in enumerate(series.items()):
        points = [(across(place(x)), up(y)) for x, y in zip(xs, ys, strict=True)]
        drawing.line(points, number)
        at = 9 if logarithmic else 5
        said = f"{name}: {ys[at]:.3g} at {below} {xs[at]:g}"
        drawing.mark(*points[at], number, said)
        told.append(said)
    size = room_of(drawing, list(series), right, bottom + 34, narrow)
    return drawing.done(file, title, "; ".join(told), *size)


def trend_picture(
    name: str,
    measure: str,
    runs: Sequence[str],
    trend: Mapping[str, Sequence[SystemScore | None]],
    narrow: bool = False,
) -> Picture:
    """Draw the means of each system's score over runs, with their intervals."""
    drawing, left, bottom = Drawing(), 46.0, 220.0
    right = NARROW - MARGIN if narrow else left + _TREND_WIDTH
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
            said = f"{system} {significant(score.mean)} in run {place + 1}, {runs[place]}"
            drawing.mark(x, up(score.mean), number, said, size=4)
        _joined(drawing, points, number)
        values = (significant(None if score is None else score.mean) for score in scores)
        told.append(f"{system}: {', '.join(values)}")
    size = room_of(drawing, list(trend), right, bottom + 30, narrow)
    title = f"{measure} over {len(runs)} runs"
    return drawing.done(name, title, "; ".join(told), *size)


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
