"""Pictures of the differences between two systems, query by query."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ragbench.pictures import svg
from ragbench.records.comparison import Comparisons
from ragbench.report.pictures import CAUSE_COLOURS
from ragbench.types import FloatArray

_MOST_BARS, _PANEL = 300, 150.0  # queries and height of a plot with bars


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
