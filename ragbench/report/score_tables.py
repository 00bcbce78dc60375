"""`ragbench report --format`: the scores of a run as LaTeX, CSV or Markdown."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from msgspec import structs

from ragbench.data.runs.run_folder import to_csv
from ragbench.records.comparison import Comparisons
from ragbench.records.summary import Summary
from ragbench.report.base import SIGNS, Layout
from ragbench.report.latex import LATEX_PACKAGES, section_tables
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
    A value that is surely better than all others is bold; intervals are small. Without scores it is
    the comment on booktabs alone.
    """
    page = _lay_out(summary, comparisons)
    legend = [f"{sign}: {text}." for sign, text in page.legend if sign != SIGNS["best"]]
    tables: list[str] = []
    for section in page.sections:
        labels = (f"{line}." for line in (*section.labels, *section.counts))
        caption = " ".join([f"{section.title}: {page.subject}.", *labels, *legend])
        tables += section_tables(section, caption)
    return "\n".join([LATEX_PACKAGES, *tables])


RENDERERS: Mapping[str, Callable[[Summary, Comparisons], str]] = {
    "latex": render_latex,
    "csv": render_csv,
    "markdown": render_markdown,
}


def _lay_out(summary: Summary, comparisons: Comparisons) -> Layout:
    """Return the report with the means alone, without differences, gates and slices."""
    page = lay_out(structs.replace(summary, gates=()), structs.replace(comparisons, slices=()))
    sections = tuple(replace(section, against="") for section in page.sections)
    signs = ("[low, high]", *SIGNS.values(), "-")
    legend = tuple(entry for entry in page.legend if entry[0] in signs)
    return replace(page, sections=sections, legend=legend)
