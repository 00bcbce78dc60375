"""The section on slices: where a system got worse, and how much was looked at to find it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ragbench.report.base import SliceRow, Slices
from ragbench.report.digits import counted, difference, percent, printable, probability

Json = Mapping[str, Any]

MOST_ROWS = 10
"""Rows of a page; the file has them all."""


def build_slices(comparisons: Json) -> Slices | None:
    """Decide what a page says of the slices; None where none were asked for.

    Those that got worse are in the table, the surest first. What was tested, and what had too few
    queries for it, is said in a line per field.
    """
    rows = comparisons.get("slices") or ()
    if not rows:
        return None
    found = (row for row in rows if row.get("worse") and row.get("difference") is not None)
    worse = sorted(found, key=_sureness)
    confidence = percent(comparisons.get("confidence", 0.95))
    lines = [_field_line(field, rows) for field in dict.fromkeys(row["field"] for row in rows)]
    if len(worse) > MOST_ROWS:
        lines.insert(0, f"{len(worse) - MOST_ROWS} more that got worse are in comparisons.json")
    lines.append(
        f"'worse' is one-sided, with max-T over the slices of one field ({confidence}); the "
        "measures, systems and fields are not corrected for each other"
    )
    return Slices(tuple(map(_row, worse[:MOST_ROWS])), tuple(lines))


def _sureness(row: Json) -> tuple[float, float]:
    return (row.get("p_adjusted") or 0.0, -abs(row.get("difference") or 0.0))


def _row(row: Json) -> SliceRow:
    value, ends = difference(row["difference"], row.get("interval"))
    return SliceRow(
        slice=f"{printable(row['field'])}: {printable(row['slice'])}",
        system=printable(row["system"]),
        measure=printable(row["measure"]),
        queries=str(row.get("n") or 0),
        difference=f"{value} {ends}".rstrip(),
        p=probability(row.get("p_adjusted")),
    )


def _field_line(field: str, rows: Sequence[Json]) -> str:
    """Say how many slices of a field there are, how many were tested, and how many got worse."""
    own = [row for row in rows if row["field"] == field]
    slices = list(dict.fromkeys(str(row["slice"]) for row in own))
    tested = {str(row["slice"]) for row in own if row.get("worse") is not None}
    worse = {str(row["slice"]) for row in own if row.get("worse")}
    untested = [printable(name) for name in slices if name not in tested]
    line = f"{printable(field)}: {counted(len(slices), 'slices')}, {_none(len(worse))} worse"
    if not untested:
        return line
    shown = ", ".join(untested[:5]) + (", ..." if len(untested) > 5 else "")
    return f"{line}; not tested, too few queries (under 20): {shown}"


def _none(count: int) -> str:
    return str(count) if count else "none"
