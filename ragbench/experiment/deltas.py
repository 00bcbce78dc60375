"""What a retriever over another one adds to it: the delta of a reranker over its first stage."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ragbench.comparison.paired import Method, describe
from ragbench.comparison.pairs import pair_columns
from ragbench.comparison.systems import SystemScores
from ragbench.experiment.records import Plan


def describe_deltas(
    plan: Plan, systems: Sequence[SystemScores], method: Method
) -> list[dict[str, Any]]:
    """Compare each retriever over exactly one other with that one, if both are scored.

    Returns:
        A row for each of them and measure: the difference with its interval, paired over queries.
    """
    by_name = {system.name: system for system in systems if system.generator is None}
    rows = []
    for name in plan.systems:
        sources = plan.retrievers[name].sources
        if len(sources) != 1 or sources[0] not in by_name or name not in by_name:
            continue
        first = by_name[sources[0]]
        for measure, column in by_name[name].columns.items():
            other = first.columns.get(measure)
            if other is None or column.aggregate == "sum":
                continue
            found = describe(pair_columns(measure, by_name[name], first), method, None)
            kept = {key: found[key] for key in ("difference", "interval", "n", "n_changed")}
            rows.append({"system": name, "over": first.name, "measure": measure, **kept})
    return rows


def delta_notes(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Say in a sentence each what it adds, by its first measure."""
    notes = []
    for name in dict.fromkeys(row["system"] for row in rows):
        row = next(row for row in rows if row["system"] == name)
        if row["difference"] is None or None in row["interval"]:
            continue
        low, high = row["interval"]
        notes.append(
            f"{name} over {row['over']}: {row['measure']} {row['difference']:+.3f} "
            f"[{low:+.3f}, {high:+.3f}]"
        )
    return notes
