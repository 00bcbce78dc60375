"""`ragbench score --format table`: for people, a row per score and a column per run."""

from __future__ import annotations

from collections.abc import Sequence

from ragbench.comparison.summary import ScoreSummary, finite
from ragbench.report.counts import count_lines
from ragbench.report.digits import interval, printable, significant
from ragbench.report.scores.base import ALL, Scored
from ragbench.report.wrapped import side_by_side
from ragbench.types.checks import id_bytes

Key = tuple[str | None, str]
"""Query and score of a row; None stands for all queries."""


def render_table(
    systems: Sequence[Scored],
    *,
    per_query: bool = False,
    summary: bool = True,
    notes: Sequence[str] = (),
    width: int = 100,
) -> str:
    """Draw the scores as aligned text, with intervals and counts.

    Args:
        systems: The runs or predictions, in order.
        per_query: Draw a row for each query and score, before those of all queries.
        summary: Draw the rows of all queries, and the counts.
        notes: What a reader should know, one sentence a line, at the end.
        width: Runs that do not fit beside each other go into a further table below.
    """
    keys = _keys(systems, per_query, summary)
    heads = ("query", "measure") if per_query else ("measure",)
    start = [
        [head, *(printable(ALL if key[place] is None else key[place]) for key in keys)]
        for place, head in enumerate(heads, start=2 - len(heads))
    ]
    columns = [[printable(scored.name), *_cells(scored, keys)] for scored in systems]
    lines = side_by_side(start, columns, width)
    lines += _counts(systems) if summary else []
    return "\n".join([*lines, *(f"note: {printable(note)}" for note in notes)]) + "\n"


def _counts(systems: Sequence[Scored]) -> list[str]:
    """How many queries stand behind the numbers: once where all systems agree."""
    by_system = {}
    for scored in systems:
        scores = {name: score.to_dict() for name, score in scored.evaluation.summary.items()}
        by_system[scored.name] = count_lines({scored.name: scores}, list(scores))
    if len(set(map(tuple, by_system.values()))) == 1:
        return by_system[systems[0].name]
    return [f"{printable(name)}: {line}" for name, lines in by_system.items() for line in lines]


def _keys(systems: Sequence[Scored], per_query: bool, summary: bool) -> list[Key]:
    """(query, score) of every row; a query is shown if any of the systems has it."""
    found = {query for scored in systems for query, _ in scored.rows()} if per_query else set()
    names = list(systems[0].evaluation.columns)
    keys: list[Key] = [(query, name) for query in sorted(found, key=id_bytes) for name in names]
    return keys + ([(None, name) for name in names] if summary else [])


def _cells(scored: Scored, keys: Sequence[Key]) -> list[str]:
    """The values of one system, those over all queries with their interval."""
    rows = dict(scored.rows()) if any(query is not None for query, _ in keys) else {}
    of_all = scored.evaluation.summary
    sums = {name for name, score in of_all.items() if score.aggregate == "sum"}
    cells = []
    for query, name in keys:
        if query is None:
            value, ends = finite(of_all[name].mean), _ends(of_all[name])
        else:
            value, ends = rows.get(query, {}).get(name), ""
        text = f"{value:.0f}" if value is not None and name in sums else significant(value)
        cells.append(f"{text} {ends}".rstrip())
    return cells


def _ends(score: ScoreSummary) -> str:
    low, high = map(finite, score.interval)
    return "" if low is None or high is None else interval((low, high))
