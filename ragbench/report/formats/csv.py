"""Reports as CSV: their rows for programs, a line each."""

from __future__ import annotations

from ragbench.data.runs.run_folder import to_csv
from ragbench.report.formats.base import Screen
from ragbench.report.table import Raw, TableReport


class CSV:
    """CSV with all digits, as pandas reads it: a row for each result, an empty cell if missing.

    A text that a spreadsheet would run as a formula gets an apostrophe in front.
    """

    is_exact = True

    def render(self, report: TableReport, screen: Screen) -> str:
        """Return the rows of a report under the names of their columns; without rows the names."""
        rows = []
        for row in report.rows.rows:
            rows.append([_cell(cell.value) for cell in row])
        return to_csv(report.rows.heads, rows)


def _cell(value: Raw) -> str | float | None:
    """Return a value for `to_csv`, which writes the integer 1 as 1.0."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int) else value
