"""Tables in LaTeX with booktabs rules."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from ragbench.report.base import SIGNS, ScoreCell, Section

# First line of tables in LaTeX.
LATEX_PACKAGES = "% needs \\usepackage{booktabs}"
# Columns of a mean and an interval that fit a page of the class `article` beside the systems.
LATEX_COLUMNS = 3
# in one pass over the text, so that no escape is escaped again
_ESCAPES = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
}


def escape_latex(text: str) -> str:
    r"""Return a text with escapes, so that LaTeX shows it literally.

    Line ends stay.

    Example:
        >>> print(escape_latex("hit_rate@1 & 95 %"))
        hit\_rate@1 \& 95 \%
    """
    return "".join(_ESCAPES.get(sign, sign) for sign in text)


def latex_table(heads: Sequence[str], rows: Iterable[Iterable[str]], caption: str) -> str:
    """Return a `table` environment with a line end; `rows` have cells in LaTeX.

    `heads` and `caption` are plain text, which is escaped here.
    """
    lines = [
        *(r"\begin{table}", r"\centering", rf"\caption{{{escape_latex(caption)}}}"),
        rf"\begin{{tabular}}{{{'l' * len(heads)}}}",
        *(r"\toprule", rf"{' & '.join(map(escape_latex, heads))} \\", r"\midrule"),
        *(rf"{' & '.join(row)} \\" for row in rows),
        *(r"\bottomrule", r"\end{tabular}", r"\end{table}", ""),
    ]
    return "\n".join(lines)


def section_tables(section: Section, caption: str) -> Iterator[str]:
    """Yield the tables of the scores of a section, of at most 3 measures each.

    A value that is surely better than all others is bold, a tied one has its sign; letters are
    raised, and intervals are small.
    """
    for start in range(0, len(section.measures), LATEX_COLUMNS):
        measures = section.measures[start : start + LATEX_COLUMNS]
        columns = (map(_cell, measure.scores) for measure in measures)
        rows = zip(map(escape_latex, section.systems), *columns, strict=True)
        yield latex_table(["System", *(measure.title for measure in measures)], rows, caption)


def _cell(cell: ScoreCell) -> str:
    """Return a cell as LaTeX: value, raised letters and sign, interval in small type."""
    value = rf"\textbf{{{cell.value}}}" if cell.mark == "best" else cell.value
    raised = cell.letters + (SIGNS["tied"] if cell.mark == "tied" else "")
    sign = rf"$^{{{raised}}}$" if raised else ""
    return value + sign + (rf" {{\scriptsize {cell.interval}}}" if cell.interval else "")
