"""A comparison in each format, as `ragbench compare` prints it."""

from ragbench.records.comparison import ComparedRuns
from ragbench.report.comparison import comparison_report
from ragbench.report.formats import render
from ragbench.report.formats.base import Screen


def render_table(record: ComparedRuns, width: int = 100) -> str:
    return render(comparison_report(record), "table", Screen(width))


def render_markdown(record: ComparedRuns) -> str:
    return render(comparison_report(record), "markdown")


def render_csv(record: ComparedRuns) -> str:
    return render(comparison_report(record), "csv")


def render_latex(record: ComparedRuns) -> str:
    return render(comparison_report(record), "latex")
