"""Report for the terminal: plain aligned text, the same in a terminal and in a file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ragbench.records.comparison import Comparisons
from ragbench.records.summary import Summary
from ragbench.report import text as fmt
from ragbench.report.base import Chapter, Section
from ragbench.report.layout import lay_out
from ragbench.types.display import printable

_STYLES = {
    "title": "\x1b[1m",
    "best": "\x1b[1;32m",
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
    head: bool = False,
    report: str | None = None,
    verbose: bool = True,
) -> str:
    """Return the results as text; the first line is on the user's own system, or the best one.

    Comparisons, warnings and gates stand before the tables. The text ends with a line end.

    Args:
        summary: The run.
        comparisons: The tests of the run.
        width: Columns of the terminal; measures that do not fit go into a further table. A single
            measure that is wider is not cut.
        color: Add colours, which repeat the signs and words.
        head: Print the lines before the tables and the path of the report, nothing else.
        report: Path of the report for the last line; None leaves the line out.
        verbose: Print everything. False leaves out measures beyond the width, gates that passed,
            causes, preferences by pair, and notes beyond 30 lines; a line names the omitted parts.
    """
    page = lay_out(summary, comparisons, narrow=True)
    first, *headlines = filter(None, (page.lead, page.noise_sentence, *page.headlines))
    lines = [_style(first, "title", color), *headlines]
    # before the tables: a warning may say that their numbers mean nothing
    lines += [_style(f"warning: {text}", "warning", color) for text in page.warnings]
    for gate in page.gates:
        if verbose or gate.verdict != "pass":
            line = _style(f"gate {gate.verdict}: {gate.gate}", gate.verdict, color)
            # a gate on a judge has no system
            line += f" ({gate.system})" if gate.system else ""
            lines.append(line + (f": {gate.why}" if gate.why else ""))
    closing = [f"report: {printable(report)}"] if report else []
    if head:
        return "\n".join([*lines, *closing]) + "\n"
    lines.append(f"{page.name}: {page.subject}")
    n_omitted = 0
    for section in page.sections:
        if verbose:
            lines += ["", _style(section.title, "title", color), *section.labels]
            lines += [*score_tables(section, "system", width, color), *section.counts]
        else:  # the labels stand in the headline of the section
            table, n_hidden = _first_table(section, width, color)
            lines += ["", *table, *_failed_line(section)]
            n_omitted += n_hidden
    lost = fmt.cause_lines(summary.systems, width)
    if verbose:
        lines += _preferences(page.preferences, color)
        lines += ["", _style("where answers are lost", "title", color), *lost] if lost else []
    for grid in page.slices.grids if page.slices is not None else ():
        lines += fmt.grid_lines(grid, width)
    legend = [f"{sign}: {meaning}" for sign, meaning in page.legend]
    if legend:
        lines += ["", *(legend if verbose else ["; ".join(legend)])]
    remarks = [f"note: {note}" for note in page.notes]
    if verbose:
        lines += ["", *remarks, *closing] if remarks or closing else []
        return "\n".join(lines) + "\n"
    room = max(_MOST_LINES - len(lines) - len(closing) - 1, 0)
    n_passed = sum(gate.verdict == "pass" for gate in page.gates)
    counts = {"measures": n_omitted, "passed gates": n_passed, "notes": len(remarks[room:])}
    omitted = [fmt.counted(n, noun) for noun, n in counts.items() if n]
    omitted += ["preferences by pair"] if page.preferences else []
    omitted += ["where each system loses answers"] if lost else []
    if omitted:
        closing.insert(0, f"left out: {fmt.listed(omitted)}; pass --verbose, or open the report")
    return "\n".join([*lines, *remarks[:room], *closing]) + "\n"


# lines of a result that is not verbose; notes beyond are counted
_MOST_LINES = 30


def _failed_line(section: Section) -> list[str]:
    """Return a line with the failed items of each system, in its measure with most; [] if none."""
    parts = []
    for place, system in enumerate(section.systems):
        scores = [cell.score for m in section.measures if (cell := m.scores[place]).score]
        worst = max(scores, key=lambda score: score.n_failed, default=None)
        if worst is not None and worst.n_failed:
            parts.append(f"{worst.n_failed} of {system}{fmt.causes(worst.failed.items())}")
    return [f"failed: {', '.join(parts)}"] if parts else []


def _preferences(chapters: Sequence[Chapter], color: bool) -> list[str]:
    """Return the lines of the tables of preferences; [] without a pairwise rubric."""
    lines = []
    for chapter in chapters:
        lines += ["", _style(chapter.title, "title", color), *chapter.labels]
        lines += [line for grid in chapter.grids for line in fmt.grid_lines(grid)]
    return lines


def _first_table(section: Section, width: int, color: bool) -> tuple[list[str], int]:
    """Return the table of a section's measures that fit the width, and the number of the others.

    The first measure is in the table even if it does not fit.
    """
    n, measures = len(section.measures), section.measures
    lines = score_tables(section, section.title, width, color)
    while "" in lines:  # an empty line begins a further table
        n -= 1
        lines = score_tables(replace(section, measures=measures[:n]), section.title, width, color)
    return lines, len(measures) - n


def score_tables(section: Section, head: str, width: int, color: bool = False) -> list[str]:
    """Return the lines of a section's tables: each measure with its differences to the right.

    A group of columns is never split; an empty line is between two tables. `head` is the head of
    the column with the systems.
    """
    groups = []
    for measure in section.measures:
        marks: list[str] = [cell.mark for cell in measure.scores]
        values = [cell.marked for cell in measure.scores]
        texts = fmt.with_intervals(values, [cell.interval for cell in measure.scores])
        group = [(measure.title, texts, marks)]
        if measure.differences and section.against:
            cells = measure.differences
            changes = [f"{cell.value} {cell.interval}".rstrip() for cell in cells]
            group += [
                (section.against, changes, [""] * len(cells)),
                ("p", [cell.p for cell in cells], [""] * len(cells)),
                ("verdict", [cell.verdict for cell in cells], [cell.outcome for cell in cells]),
            ]
        groups.append([_column(*column, color) for column in group])
    names = _column(head, section.systems, [""] * len(section.systems), color)
    return fmt.side_by_side([names], groups, width)


def _column(head: str, cells: Sequence[str], styles: Sequence[str], color: bool) -> list[str]:
    """Return the head and cells of a column with their colours; `styles` has one for each cell."""
    styled = (_style(cell, style, color) for cell, style in zip(cells, styles, strict=True))
    return [_style(head, "title", color), *styled]


def _style(text: str, style: str, color: bool) -> str:
    """Return a text in the colour of a style; unchanged without `color`, text or known style."""
    if not color or style not in _STYLES or not text.strip():
        return text
    return f"{_STYLES[style]}{text}{_RESET}"
