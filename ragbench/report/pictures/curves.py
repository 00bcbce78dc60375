"""Scores over the length of the list that is read, and precision over recall."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from ragbench.report.pictures.svg import MARGIN, NARROW, Drawing, Picture, Scale, axis_left, room_of
from ragbench.types import FloatArray, IntArray
from ragbench.types.byte_ids import spans

_PLOT = 460.0
_DEEPEST = 100
_TOGETHER = 1_000  # queries that are added at once
_KS = np.arange(1.0, _DEEPEST + 1)
_DISCOUNTS = np.log2(_KS + 1)
_TENTHS = [tenth / 10 - 1e-9 for tenth in range(11)]


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
        reached = recall >= tenth
        np.maximum.at(points[:, column], whose[reached], precision[reached])
    return points


def curve_pictures(curves: Curves, narrow: bool = False) -> Iterator[Picture]:
    """Scores over the length of the list that is read, and precision over recall."""
    if not curves.queries:
        return
    counted = max(curves.queries.values())
    drawn = (("nDCG", curves.ndcg), ("recall", curves.recall), ("precision", curves.precision))
    for name, sums in drawn:
        means = curves.means(sums)
        title = f"{name}@k over k, {counted} judged queries"
        file = f"{name.lower()}-over-k"
        yield _lines(file, title, ("k", name), _KS.tolist(), means, narrow, logarithmic=True)
    tenths = [tenth / 10 for tenth in range(11)]
    means = curves.means(curves.interpolated)
    title = f"interpolated precision over recall, {counted} judged queries"
    yield _lines("precision-recall", title, ("recall", "precision"), tenths, means, narrow)


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
    right = NARROW - MARGIN if narrow else left + _PLOT
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
