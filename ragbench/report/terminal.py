"""Report for the terminal: plain aligned text, the same in a terminal and in a file."""

from __future__ import annotations

from collections.abc import Sequence

from ragbench.records.comparison import Comparisons
from ragbench.records.summary import Summary
from ragbench.report.base import SIGNS, MeasureColumn, Section
from ragbench.report.headline import footnotes
from ragbench.report.layout import lay_out
from ragbench.report.text import cause_lines, draw, printable, side_by_side, with_intervals

_STYLES = {
    "title": "\x1b[1m",
    "best": "\x1b[1;32m",
    "tied": "\x1b[32m",
    "better": "\x1b[32m",
    "worse": "\x1b[31m",
    "pass": "\x1b[32m",
    "fail": "\x1b[31m",
    "warning": "\x1b[33m",
}
_RESET = "\x1b[0m"
# All control codes that are sent to a terminal.
STYLES = (_RESET, *dict.fromkeys(_STYLES.values()))


def render_terminal(
    summary: Summary,
    comparisons: Comparisons,
    *,
    width: int = 100,
    color: bool = False,
    notes: bool = True,
    report: str | None = None,
) -> str:
    """Return the results as text; the first line names the experiment, the data and the baseline.

    The text ends with a line end.

    Args:
        summary: The run.
        comparisons: The tests of the run.
        width: Columns of the terminal; measures that do not fit go into a further table. A single
            measure that is wider is not cut.
        color: Add colours, which repeat the signs and words.
        notes: Print the notes; warnings are always printed.
        report: Path of the report for the last line; None leaves the line out.
    """
    page = lay_out(summary, comparisons, narrow=True)
    lines = [_style(f"{page.name}: {page.subject}", "title", color), *page.headlines]
    # before the tables: a warning may say that their numbers mean nothing
    lines += [_style(f"warning: {text}", "warning", color) for text in page.warnings]
    if page.gates:
        lines.append("")
    for gate in page.gates:
        line = _style(f"gate {gate.verdict}: {gate.gate}", gate.verdict, color)
        # a gate on a judge has no system
        line += f" ({gate.system})" if gate.system else ""
        lines.append(line + (f": {gate.why}" if gate.why else ""))
    for section in page.sections:
        lines += ["", _style(section.title, "title", color), *section.labels]
        lines += _tables(section, width, color)
        lines += section.counts
    for preference in page.preferences:
        lines += ["", _style(preference.title, "title", color), *preference.labels]
        for grid in preference.grids:
            # styled before drawing: `draw` ignores colour codes in widths
            heads = [_style(head, "title", color) for head in grid.heads]
            lines += ["", grid.caption, *draw(list(zip(heads, *grid.rows, strict=True)))]
    lost = cause_lines(summary.systems, width)
    if lost:
        lines += ["", _style("where answers are lost", "title", color), *lost]
    for grid in page.slice_grids:
        cells = draw(list(zip(grid.heads, *grid.rows, strict=True)), width)
        lines += ["", _style(grid.caption, "title", color), *cells]
    if page.legend:
        lines += ["", *footnotes(page.legend)]
    closing = [f"note: {note}" for note in page.notes if notes]
    closing += [f"report: {printable(report)}"] if report else []
    lines += ["", *closing] if closing else []
    return "\n".join(lines) + "\n"


def _tables(section: Section, width: int, color: bool) -> list[str]:
    """Return the lines of a section's tables: each measure with its differences to the right.

    A group of columns is never split.
    """
    groups = []
    for measure in section.measures:
        marks: list[str] = [cell.mark for cell in measure.scores]
        group = [(measure.title, _score_texts(measure), marks)]
        if measure.differences and section.against:
            cells = measure.differences
            changes = [f"{cell.value} {cell.interval}".rstrip() for cell in cells]
            group += [
                (section.against, changes, [""] * len(cells)),
                ("p", [cell.p for cell in cells], [""] * len(cells)),
                ("verdict", [cell.outcome for cell in cells], [cell.outcome for cell in cells]),
            ]
        groups.append([_column(*column, color) for column in group])
    names = _column("system", section.systems, [""] * len(section.systems), color)
    return side_by_side([names], groups, width)


def _column(head: str, cells: Sequence[str], styles: Sequence[str], color: bool) -> list[str]:
    """Return the head and cells of a column with their colours."""
    styled = (_style(cell, style, color) for cell, style in zip(cells, styles, strict=True))
    return [_style(head, "title", color), *styled]


def _score_texts(measure: MeasureColumn) -> list[str]:
    """Return value, mark and interval of each system, padded so that the intervals align."""
    marked = any(cell.mark for cell in measure.scores)
    values = [
        cell.value + (SIGNS[cell.mark] if cell.mark else " " * marked) for cell in measure.scores
    ]
    return with_intervals(values, [cell.interval for cell in measure.scores])


def _style(text: str, style: str, color: bool) -> str:
    """Return a text in the colour of a style; unchanged without colour or text."""
    if not color or style not in _STYLES or not text.strip():
        return text
    return f"{_STYLES[style]}{text}{_RESET}"
