"""`ragbench report --format`: the scores of a run as LaTeX, CSV or Markdown."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from ragbench.data.runs.run_folder import to_csv
from ragbench.records.comparison import Comparisons
from ragbench.records.summary import Summary
from ragbench.report.base import SIGNS, Layout, ScoreCell
from ragbench.report.comparison import LATEX_COLUMNS, LATEX_PACKAGES, escape_latex, latex_table
from ragbench.report.layout import lay_out
from ragbench.report.markdown import escape, join_blocks, list_lines, section_blocks

COLUMNS = (
    *("system", "score", "mean", "low", "high", "n", "n_failed", "not_applicable"),
    *("bound_low", "bound_high", "kind", "direction", "aggregate", "signature"),
)


def render_csv(summary: Summary, comparisons: Comparisons) -> str:
    """Return the scores as CSV with all digits, a row per system and score in their order.

    The header is `COLUMNS`; without scores it is all. A missing value is an empty cell.
    `comparisons` are not shown: `ragbench compare --format csv` has them.
    """
    rows: list[list[str | float | None]] = [
        [
            *(system.name, name, score.mean, *(score.interval or (None, None))),
            *map(str, (score.n, score.n_failed, score.not_applicable)),
            *(score.bounds or (None, None)),
            *(score.kind, score.direction, score.aggregate, score.signature),
        ]
        for system in summary.systems
        for name, score in system.scores.items()
    ]
    return to_csv(COLUMNS, rows)


def render_markdown(summary: Summary, comparisons: Comparisons) -> str:
    """Return the scores as Markdown, a table for each kind and judge, with the meaning of signs.

    Without scores it is the line on the data set alone. The text ends with a line end.
    """
    page = _lay_out(summary, comparisons)
    blocks = [[escape(page.subject)]]
    for section in page.sections:
        blocks += section_blocks(section)
    return join_blocks([*blocks, list_lines(f"{sign}: {text}" for sign, text in page.legend)])


def render_latex(summary: Summary, comparisons: Comparisons) -> str:
    """Return the scores as LaTeX tables with booktabs rules, for each kind and judge.

    A table has at most 3 measures, which fit the page of the class `article` beside the systems.
    The best value of a measure is bold; intervals are small. Without scores it is the comment on
    booktabs alone.
    """
    page = _lay_out(summary, comparisons)
    tables = []
    for section in page.sections:
        legend = [f"{sign}: {text}." for sign, text in page.legend if sign != SIGNS["best"]]
        caption = (
            f"{section.title}: {page.subject}.",
            *(f"{line}." for line in (*section.labels, *section.counts)),
        )
        for start in range(0, len(section.measures), LATEX_COLUMNS):
            measures = section.measures[start : start + LATEX_COLUMNS]
            columns = (map(_latex_cell, measure.scores) for measure in measures)
            rows = zip(map(escape_latex, section.systems), *columns, strict=True)
            heads = ["System", *(measure.title for measure in measures)]
            tables.append(latex_table(heads, rows, " ".join([*caption, *legend])))
    return "\n".join([LATEX_PACKAGES, *tables])


RENDERERS: Mapping[str, Callable[[Summary, Comparisons], str]] = {
    "latex": render_latex,
    "csv": render_csv,
    "markdown": render_markdown,
}


def _lay_out(summary: Summary, comparisons: Comparisons) -> Layout:
    """Return the report with the means alone: its sections have no differences."""
    page = lay_out(replace(summary, gates=()), replace(comparisons, slices=()))
    sections = tuple(replace(section, against="") for section in page.sections)
    signs = ("[low, high]", *SIGNS.values(), "-")
    legend = tuple(entry for entry in page.legend if entry[0] in signs)
    return replace(page, sections=sections, legend=legend)


def _latex_cell(cell: ScoreCell) -> str:
    """Return a cell as LaTeX: the best value bold, a tied one with its sign, the interval small."""
    value = rf"\textbf{{{cell.value}}}" if cell.mark == "best" else cell.value
    sign = rf"$^{{{SIGNS['tied']}}}$" if cell.mark == "tied" else ""
    return value + sign + (rf" {{\scriptsize {cell.interval}}}" if cell.interval else "")
