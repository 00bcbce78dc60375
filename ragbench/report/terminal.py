"""The terminal's tables: plain aligned text, the same with and without a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ragbench.records.comparison import Comparisons
from ragbench.records.summary import Summary
from ragbench.report.base import SIGNS, Grid, Layout, Measure, Section
from ragbench.report.layout import lay_out
from ragbench.report.text import GAP, align, cause_lines, display_width, printable

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
STYLES = (_RESET, *dict.fromkeys(_STYLES.values()))
"""All that is sent to a terminal besides text."""


@dataclass(frozen=True, slots=True)
class _Column:
    """A column of text with the style of each cell; the head is its first cell."""

    cells: tuple[str, ...]
    styles: tuple[str, ...]


def render_terminal(
    summary: Summary,
    comparisons: Comparisons,
    *,
    width: int = 100,
    color: bool = False,
    notes: bool = True,
    report: str | None = None,
) -> str:
    """Draw the results as text; the first line names the experiment, the data and the baseline.

    Measures that do not fit into `width` go into a further table below; nothing is cut, so that a
    single one that is wider makes a wider line. Colours repeat what the characters say. Without
    `notes` the warnings are printed all the same; the place of the `report` is the last line.
    """
    page = lay_out(summary, comparisons, narrow=True)
    lines = [_style(f"{page.name}: {page.subject}", "title", color), *page.headlines]
    if page.gates:
        lines += ["", *(_gate_lines(page, color))]
    for section in page.sections:
        lines += ["", _style(section.title, "title", color), *section.labels]
        lines += _tables(section, width, color)
        lines += section.counts
    for preference in page.preferences:
        lines += ["", _style(preference.title, "title", color), *preference.labels]
        lines += [line for grid in preference.grids for line in _grid(grid, color)]
    lost = cause_lines(summary.systems, width)
    if lost:
        lines += ["", _style("where answers are lost", "title", color), *lost]
    if page.legend:
        lines += ["", *(f"{sign}: {meaning}" for sign, meaning in page.legend)]
    closing = [f"note: {note}" for note in page.notes if notes]
    closing += [_style(f"warning: {text}", "warning", color) for text in page.warnings]
    closing += [f"report: {printable(report)}"] if report else []
    lines += ["", *closing] if closing else []
    return "\n".join(lines) + "\n"


def _gate_lines(page: Layout, color: bool) -> list[str]:
    return [
        _style(f"gate {gate.verdict}: {gate.gate}", gate.verdict, color)
        + (f" ({gate.system})" if gate.system else "")
        + (f": {gate.why}" if gate.why else "")
        for gate in page.gates
    ]


def _tables(section: Section, width: int, color: bool) -> list[str]:
    names = _Column(("system", *section.systems), ("title", *[""] * len(section.systems)))
    blocks: list[list[_Column]] = [[names]]
    for measure in section.measures:
        columns = [_scores(measure)]
        if measure.differences and section.against:
            columns += _differences(measure, section.against)
        needed = sum(max(map(display_width, c.cells)) for c in [*blocks[-1], *columns])
        needed += len(GAP) * (len(blocks[-1]) + len(columns) - 1)
        if needed > width and len(blocks[-1]) > 1:
            blocks.append([names])
        blocks[-1] += columns
    drawn = [["", *_draw(block, color)] for block in blocks]
    # the first table stands right below its title
    return [line for lines in drawn for line in lines][1:]


def _grid(grid: Grid, color: bool) -> list[str]:
    columns = [
        _Column(cells, ("title", *[""] * len(grid.rows)))
        for cells in zip(grid.heads, *grid.rows, strict=True)
    ]
    return ["", grid.caption, *_draw(columns, color)]


def _scores(measure: Measure) -> _Column:
    """Write value, mark and interval; the mark has its own place, so that intervals line up."""
    marked = any(cell.mark for cell in measure.scores)
    # a mark is one place wide: `marked` is added as 0 or 1
    longest = max(len(cell.value) for cell in measure.scores)
    cells = [
        f"{cell.value + SIGNS[cell.mark]:{longest + marked}} {cell.interval}".rstrip()
        for cell in measure.scores
    ]
    return _Column((measure.title, *cells), ("title", *(cell.mark for cell in measure.scores)))


def _differences(measure: Measure, against: str) -> list[_Column]:
    cells = measure.differences
    plain = ("title", *[""] * len(cells))
    changes = (f"{cell.value} {cell.interval}".rstrip() for cell in cells)
    return [
        _Column((against, *changes), plain),
        _Column(("p", *(cell.p for cell in cells)), plain),
        _Column(
            ("verdict", *(cell.outcome for cell in cells)),
            ("title", *(cell.outcome for cell in cells)),
        ),
    ]


def _draw(columns: Sequence[_Column], color: bool) -> list[str]:
    rows = align([column.cells for column in columns])
    styles = zip(*(column.styles for column in columns), strict=True)
    return [
        GAP.join(_style(cell, style, color) for cell, style in zip(row, of_row, strict=True))
        if color
        else GAP.join(row).rstrip()
        for row, of_row in zip(rows, styles, strict=True)
    ]


def _style(text: str, style: str, color: bool) -> str:
    """Put a style around the text, but not around the blanks that pad it."""
    if not color or style not in _STYLES or not text.strip():
        return text
    bare = text.rstrip(" ")
    return f"{_STYLES[style]}{bare}{_RESET}{text[len(bare) :]}"
