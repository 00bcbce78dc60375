"""Reports as LaTeX: the tables alone, with booktabs rules, for papers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

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


class Latex:
    """LaTeX tables with booktabs rules; a table that is too wide for a page goes on in another.

    A value that is surely better than all others is bold; letters are raised, intervals are small.
    Sentences of a report are left out, but for captions: the caption of a table, the subject of the
    report, notes, and the meaning of the signs in the table.
    """

    is_exact = False

    def render(self, report: TableReport, screen: Screen) -> str:
        """Return the tables of a report; without tables it is the comment on booktabs alone."""
        lines = [_PACKAGES]
        for title, table in _titled_tables(report.blocks):
            signs = signs_of(table, report.blocks)
            legend = []
            for sign, text in signs:
                if sign != SIGNS["best"]:
                    legend.append(f"{sign}: {text}.")
            head = ": ".join(filter(None, (title, report.subject)))
            lines_of_caption = filter(None, (head, *table.notes))
            sentences = []
            for line in lines_of_caption:
                sentences.append(line if line.endswith(":") else f"{line}.")
            caption = escape_latex(" ".join([*sentences, *legend]))
            further = escape_latex(f"{title or report.subject}, continued.")
            for number, part in enumerate(_parts(table)):
                lines += _table_lines(table, part, further if number else caption)
        return "\n".join(lines) + "\n"


def _titled_tables(blocks: Iterable[Block]) -> Iterator[tuple[str, Table]]:
    """Yield the caption, heading or first head of each table, and the table; no details."""
    title = ""
    for block in blocks:
        if isinstance(block, Table):
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


def _parts(table: Table) -> Iterator[list[int]]:
    """Yield the numbers of the columns of each table; columns before the first break repeat."""
    columns = table.columns
    places = [n for n, column in enumerate(columns) if column.kind != "bar"]
    widths = [_width(table, place) for place in range(len(columns))]
    starts = [n for n in places if columns[n].breaks]
    first = starts[0] if starts else len(columns)
    repeated = [n for n in places if n < first]
    part: list[int] = []
    for start, end in pairwise([*starts, len(columns)]):
        group = [n for n in places if start <= n < end]
        if part and sum(widths[n] for n in (*repeated, *part, *group)) > _WIDTH:
            yield [*repeated, *part]
            part = []
        part += group
    yield [*repeated, *part]


def _width(table: Table, place: int) -> float:
    """Return the width of a column in characters, with the gap behind it; sentences wrap."""
    if table.columns[place].kind == "words":
        return _NARROWEST + 2
    cells = (row[place] for row in table.rows)
    texts = [len(cell.text + cell.letters) + _SMALL * len(cell.interval) for cell in cells]
    return max([len(table.columns[place].head), *texts]) + 2


def _table_lines(table: Table, places: Sequence[int], caption: str) -> Iterator[str]:
    """Yield the lines of a `table` environment with some columns; `caption` is LaTeX."""
    columns = [table.columns[n] for n in places]
    heads = " & ".join(escape_latex(column.head) for column in columns)
    yield from (r"\begin{table}", r"\centering", rf"\caption{{{caption}}}")
    yield rf"\begin{{tabular}}{{{''.join(_alignments(table, places))}}}"
    yield from (r"\toprule", rf"{heads} \\", r"\midrule") if any(table.heads) else (r"\toprule",)
    for row in table.rows:
        yield rf"{' & '.join(_cell(row[n]) for n in places)} \\"
    yield from (r"\bottomrule", r"\end{tabular}", r"\end{table}")


def _alignments(table: Table, places: Sequence[int]) -> Iterator[str]:
    """Yield the letter of each column: numbers at the right, sentences in lines of some width."""
    words = [n for n in places if table.columns[n].kind == "words"]
    used_width = sum(_width(table, n) for n in places if n not in words)
    for n in places:
        kind = table.columns[n].kind
        if kind == "words":
            room = max(_WIDTH - used_width - 2 * len(words), _NARROWEST * len(words)) / len(words)
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
