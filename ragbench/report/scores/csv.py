"""`ragbench score --format csv`: a row per run, or per run and query, a column per score."""

from __future__ import annotations

from collections.abc import Sequence

from ragbench.comparison.summary import finite
from ragbench.data.run_folder import to_csv
from ragbench.report.scores.base import ALL, Scored


def render_csv(systems: Sequence[Scored], *, per_query: bool = False, summary: bool = True) -> str:
    """Write the scores as CSV with all their digits; an empty cell where there is no value.

    Args:
        systems: The runs or predictions, in order.
        per_query: Write a row for each query, before that of all.
        summary: Write the row of all queries, whose `query_id` is `all`.
    """
    rows: list[list[str | float | None]] = []
    names = list(systems[0].evaluation.columns)
    for scored in systems:
        if per_query:
            rows += [[scored.name, query, *values.values()] for query, values in scored.rows()]
        if summary:
            means = scored.evaluation.mean
            rows.append([scored.name, ALL, *(finite(means[name]) for name in names)])
    return to_csv(["system", "query_id", *names], rows)
