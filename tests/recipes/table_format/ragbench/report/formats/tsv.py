"""Reports as values with tabs between them, for the tools of a shell."""

from __future__ import annotations

from collections.abc import Iterable

from ragbench.report.formats.base import Screen
from ragbench.report.table import TableReport


class TSV:
    """Rows with tabs: a row for each thing; a missing value is empty."""

    is_exact = True

    def render(self, report: TableReport, screen: Screen) -> str:
        """Return the rows of a report under the names of their columns."""
        rows = [_line(report.rows.heads)]
        for row in report.rows.rows:
            rows.append(_line("" if cell.value is None else str(cell.value) for cell in row))
        return "".join(rows)


def _line(values: Iterable[str]) -> str:
    """Return a line of values; white space within a value becomes a blank."""
    return "\t".join(" ".join(value.split()) for value in values) + "\n"
