"""Formats of tables: `--format` of all commands that print tables."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ragbench.report.formats.base import Screen, TableFormat
    from ragbench.report.table import TableReport

_PACKAGE = "ragbench.report.formats"
# name -> `module:Name`; the first is the default of `--format`
FORMATS = {
    "table": f"{_PACKAGE}.terminal:Terminal",
    "markdown": f"{_PACKAGE}.markdown:Markdown",
    "csv": f"{_PACKAGE}.csv:CSV",
    "latex": f"{_PACKAGE}.latex:Latex",
}

# lines of one screen of a command, at 80 columns
MOST_LINES = 24


def load_format(name: str) -> TableFormat:
    """Import a format and return an object of it; raise KeyError if the name is not registered."""
    module, _, class_name = FORMATS[name].partition(":")
    table_format: TableFormat = getattr(import_module(module), class_name)()
    return table_format


def render(report: TableReport, name: str = "table", screen: Screen | None = None) -> str:
    """Return a report in a format, with a line end at its end.

    Args:
        report: The report.
        name: A key of `FORMATS`.
        screen: The terminal; None means output that is piped. Formats for files ignore it.

    Raises:
        KeyError: The format is not registered.
    """
    from ragbench.report.formats.base import Screen

    return load_format(name).render(report, screen or Screen())


def fit_screen(
    reports: Iterable[TableReport], screen: Screen, n_lines: int = MOST_LINES
) -> TableReport:
    """Return the first report that fits a screen; the last one if none does.

    Args:
        reports: The same report, shorter each time; one at least.
        screen: The terminal.
        n_lines: Lines of the screen.

    Raises:
        ValueError: There is no report.
    """
    report = None
    for report in reports:
        if render(report, "table", screen).count("\n") <= n_lines:
            break
    if report is None:
        raise ValueError("found no report, allowed: one at least")
    return report
