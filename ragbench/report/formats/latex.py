"""Reports as LaTeX: the tables alone, with booktabs rules, for papers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import ClassVar

from ragbench.errors import OptionError
from ragbench.report.formats.base import Screen
from ragbench.report.table import (
    SIGNS,
    Block,
    Heading,
    Table,
    TableCell,
    TableReport,
    signs_of,
)

_PACKAGES = "% needs \\usepackage{booktabs}"
_SCALING = "% needs \\usepackage{booktabs,graphicx}"
# signs of a label that LaTeX reads as they are
_LABEL = r"[A-Za-z0-9_:./+-]+"
# characters of a row that fit a page of the class `article`; those of an interval are smaller
_WIDTH, _SMALL = 70, 0.75
# characters of the narrowest column of sentences
_NARROWEST = 20
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


@dataclass(frozen=True, slots=True)
class Latex:
    r"""LaTeX tables with booktabs rules; a table that is too wide for a page is scaled.

    A value that is surely better than all others is bold; letters are raised, intervals are small.
    Sentences of a report are left out, but for captions: the caption of a table, the subject of the
    report, notes, and the meaning of the signs in the table.

    Attributes:
        caption: Caption in place of these sentences, which become comments; several tables have
            their titles behind it. Empty keeps the sentences.
        label: Label of the first table, for `\ref`; further tables have `-2`, `-3` behind it.
        plain: Leave out the intervals.
        columns: Number of measures of a table, before it goes on in another; None for all.

    Raises:
        OptionError: The label has signs that a label cannot have, or `columns` is below 1.
    """

    caption: str = ""
    label: str = ""
    plain: bool = False
    columns: int | None = None
    is_exact: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.label and not re.fullmatch(_LABEL, self.label):
            raise OptionError("latex", "label", self.label, "letters, digits and :._/+-")
        if self.columns is not None and self.columns < 1:
            raise OptionError("latex", "columns", self.columns, "an integer >= 1")

    def render(self, report: TableReport, screen: Screen) -> str:
        """Return the tables of a report; without tables it is the comment on packages alone."""
        tables = list(_titled_tables(report.blocks))
        lines, number = [], 0
        for title, full_table in tables:
            table = full_table
            if self.plain:
                table = full_table.with_cells(lambda cell: replace(cell, interval=""))
            legend = []
            for sign, text in signs_of(table, report.blocks):
                if sign != SIGNS["best"]:
                    legend.append(f"{sign}: {text}.")
            head = ": ".join(filter(None, (title, report.subject)))
            sentences = []
            for line in filter(None, (head, *table.notes)):
                sentences.append(line if line.endswith(":") else f"{line}.")
            caption, short = " ".join([*sentences, *legend]), title or report.subject
            if self.caption:
                for line in (*sentences, *legend):
                    lines.append(f"% {line}")
                short = f"{self.caption} ({title})" if len(tables) > 1 else self.caption
                caption = short
            for place, part in enumerate(_parts(table, self.columns)):
                number += 1
                text = escape_latex(f"{short.rstrip('.')}, continued." if place else caption)
                label = f"{self.label}-{number}" if self.label and number > 1 else self.label
                lines += _table_lines(table, part, text, label)
        packages = _SCALING if any(r"\resizebox" in line for line in lines) else _PACKAGES
        return "\n".join([packages, *lines]) + "\n"


def _titled_tables(blocks: Iterable[Block]) -> Iterator[tuple[str, Table]]:
    """Yield the caption, heading or first head of each table, and the table; no details."""
    title = ""
    for block in blocks:
        if isinstance(block, Table):
            if block.in_papers:
                yield block.caption or title or block.heads[0], block
        elif isinstance(block, Heading):
            title = block.text


def escape_latex(text: str) -> str:
    r"""Return a text with escapes, so that LaTeX shows it literally.

    Line ends stay.

    Example:
        >>> print(escape_latex("hit_rate@1 & 95 %"))
        hit\_rate@1 \& 95 \%
    """
    return "".join(_ESCAPES.get(sign, sign) for sign in text)


def _parts(table: Table, most: int | None) -> Iterator[list[int]]:
    """Yield the numbers of the columns of each table, of at most `most` groups of columns."""
    # a group begins at a column that may break; columns before the first group repeat
    repeated, groups = list[int](), list[list[int]]()
    for n, column in enumerate(table.columns):
        if column.kind == "bar":
            continue
        if column.breaks:
            groups.append([])
        (groups[-1] if groups else repeated).append(n)
    size = most or max(len(groups), 1)
    for start in range(0, max(len(groups), 1), size):
        yield [*repeated, *chain.from_iterable(groups[start : start + size])]


def _width(table: Table, place: int) -> float:
    """Return the width of a column in characters, with the gap behind it; sentences wrap."""
    if table.columns[place].kind == "words":
        return _NARROWEST + 2
    texts = []
    for row in table.rows:
        cell = row[place]
        texts.append(len(cell.text + cell.letters) + _SMALL * len(cell.interval))
    return max([len(table.columns[place].head), *texts]) + 2


def _table_lines(table: Table, places: Sequence[int], caption: str, label: str) -> Iterator[str]:
    """Yield the lines of a `table` environment with some columns; `caption` is LaTeX."""
    is_wide = sum(_width(table, n) for n in places) > _WIDTH
    heads = " & ".join(escape_latex(table.heads[n]) for n in places)
    yield from (r"\begin{table}", r"\centering", rf"\caption{{{caption}}}")
    if label:
        yield rf"\label{{{label}}}"
    if is_wide:
        yield r"\resizebox{\linewidth}{!}{%"
    yield rf"\begin{{tabular}}{{{''.join(_alignments(table, places))}}}"
    yield from (r"\toprule", rf"{heads} \\", r"\midrule") if any(table.heads) else (r"\toprule",)
    for row in table.rows:
        yield rf"{' & '.join(_cell(row[n]) for n in places)} \\"
    yield from (r"\bottomrule", r"\end{tabular}}" if is_wide else r"\end{tabular}", r"\end{table}")


def _alignments(table: Table, places: Sequence[int]) -> Iterator[str]:
    """Yield the letter of each column: numbers at the right, sentences in lines of some width."""
    n_words, used_width = 0, 0.0
    for n in places:
        if table.columns[n].kind == "words":
            n_words += 1
        else:
            used_width += _width(table, n)
    for n in places:
        kind = table.columns[n].kind
        if kind == "words":
            room = max(_WIDTH - used_width - 2 * n_words, _NARROWEST * n_words) / n_words
            yield rf"p{{{room / _WIDTH:.2f}\linewidth}}"
        else:
            is_plain = kind == "number" and not any(row[n].interval for row in table.rows)
            yield "r" if is_plain else "l"


def _cell(cell: TableCell) -> str:
    """Return a cell as LaTeX: value, raised letters and sign, interval in small type."""
    text = escape_latex(cell.text)
    value = rf"\textbf{{{text}}}" if cell.mark == "best" else text
    raised = cell.letters + (SIGNS["tied"] if cell.mark == "tied" else "")
    sign = rf"$^{{{raised}}}$" if raised else ""
    return value + sign + (rf" {{\scriptsize {cell.interval}}}" if cell.interval else "")
