"""Scores over the length of the list that is read, and precision over recall."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from ragbench.report.pictures.svg import Drawing, Picture, Scale, axis_left, legend_of, width_of
from ragbench.types import FloatArray

_PLOT = 460.0
_DEEPEST = 100
_KS = np.arange(1, _DEEPEST + 1)
_TENTHS = np.array([tenth / 10 - 1e-9 for tenth in range(11)])


@dataclass(slots=True)
class Curves:
    """Where rankings have what is relevant, added up over the judged queries."""

    queries: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    recall: dict[str, FloatArray] = field(default_factory=dict)
    precision: dict[str, FloatArray] = field(default_factory=dict)
    interpolated: dict[str, FloatArray] = field(default_factory=dict)

    def add(self, ranking: str, ranks: Sequence[int], n_relevant: int) -> None:
        """Add one query: the ranks, from 1, of what is relevant and was found."""
        if not n_relevant:
            return
        self.queries[ranking] += 1
        recall = self.recall.setdefault(ranking, np.zeros(_DEEPEST))
        precision = self.precision.setdefault(ranking, np.zeros(_DEEPEST))
        points = self.interpolated.setdefault(ranking, np.zeros(11))
        found = np.array(sorted(ranks))
        if not len(found):
            return
        hits = np.searchsorted(found, _KS, side="right")
        recall += hits / n_relevant
        precision += hits / _KS
        # the best precision at each recall or beyond: trec_eval's iprec_at_recall
        numbers = np.arange(1, len(found) + 1)
        best = np.maximum.accumulate((numbers / found)[::-1])[::-1]
        at = np.searchsorted(numbers / n_relevant, _TENTHS)
        points[at < len(found)] += best[at[at < len(found)]]

    def means(self, sums: Mapping[str, FloatArray]) -> dict[str, list[float]]:
        """Return the means of some sums, by ranking."""
        return {name: (own / self.queries[name]).tolist() for name, own in sums.items()}


def curve_pictures(curves: Curves) -> Iterator[Picture]:
    """Scores over the length of the list that is read, and precision over recall."""
    if not curves.queries:
        return
    counted = max(curves.queries.values())
    ks = [float(k) for k in range(1, _DEEPEST + 1)]
    for name, sums in (("recall", curves.recall), ("precision", curves.precision)):
        means = curves.means(sums)
        title = f"{name}@k over k, {counted} judged queries"
        yield _lines(f"{name}-over-k", title, "k", name, ks, means, logarithmic=True)
    tenths = [tenth / 10 for tenth in range(11)]
    means = curves.means(curves.interpolated)
    title = f"interpolated precision over recall, {counted} judged queries"
    yield _lines("precision-recall", title, "recall", "precision", tenths, means)


def _lines(
    file: str,
    title: str,
    below: str,
    beside: str,
    xs: Sequence[float],
    series: Mapping[str, Sequence[float]],
    *,
    logarithmic: bool = False,
) -> Picture:
    drawing, left, right, bottom = Drawing(), 46.0, 46.0 + _PLOT, 260.0
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
    end = legend_of(drawing, list(series), right + 18, 36)
    width = right + 40 + width_of(list(series))
    return drawing.done(file, title, "; ".join(told), width, max(bottom + 34, end))
