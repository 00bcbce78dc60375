"""Model of what a command prints: sentences and tables, before a format draws them.

A feature builds a `TableReport`, and the classes of `report.formats` draw it. A text is one
printable line; a format escapes it and adds only layout. Numbers stand twice: as text for a reader,
and as a value with all digits for a program.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Literal, TypeAlias

from ragbench.report import text as fmt
from ragbench.types.display import printable

# `best`: surely better than all others; `tied`: the best value, and values not shown to be worse.
Mark = Literal["best", "tied", ""]
# The sign after a marked value, in every format.
SIGNS: dict[Mark, str] = {"best": "*", "tied": "=", "": ""}
# Value of a cell as files have it; None is missing.
Raw: TypeAlias = str | float | bool | None
_SUPERSCRIPTS = str.maketrans(
    "abcdefghijklmnoprstuvwxyz0123456789", "ᵃᵇᶜᵈᵉᶠᵍʰⁱʲᵏˡᵐⁿᵒᵖʳˢᵗᵘᵛʷˣʸᶻ⁰¹²³⁴⁵⁶⁷⁸⁹"
)


@dataclass(frozen=True, slots=True)
class TableCell:
    """Cell of a table: a text or number, with its interval and its mark of significance.

    Attributes:
        text: The value for a reader: a number has three significant digits, `-` is missing.
        value: The value for a program, with all digits; None if it is missing.
        interval: `[low, high]`; empty without an interval.
        ends: Ends of the interval as numbers; None without an interval.
        mark: `best` for a value that is surely better than all others of its column, `tied` for the
            best one and those that are not shown to be worse, else empty.
        letters: Letters of the systems that it is surely better than, if runs are compared.
        tone: Colour on a terminal, such as `better` or `fail`; it only repeats the text.
    """

    text: str = ""
    value: Raw = None
    interval: str = ""
    ends: tuple[float, float] | None = None
    mark: Mark = ""
    letters: str = ""
    tone: str = ""

    @property
    def marked(self) -> str:
        """Value with its raised letters and its sign: `0.446ᵃᵇ*`."""
        return self.text + self.letters.translate(_SUPERSCRIPTS) + SIGNS[self.mark]

    def __str__(self) -> str:
        """Return the whole cell: `0.446* [0.412, 0.480]`."""
        return f"{self.marked} {self.interval}".rstrip()


def label(value: object) -> TableCell:
    """Return the cell of a name or sentence; the text is printable, the value unchanged."""
    return TableCell(printable(value), str(value))


def number(value: float | None, ends: Sequence[float | None] | None = None) -> TableCell:
    """Return the cell of a number with three significant digits, and its interval."""
    pair = fmt.ends_of(ends)
    return TableCell(fmt.significant(value), value, fmt.interval(pair), pair)


def count(value: int | None) -> TableCell:
    """Return the cell of a whole number, with all its digits."""
    return TableCell(fmt.MISSING if value is None else str(value), value)


def change(value: float | None, ends: Sequence[float | None] | None = None) -> TableCell:
    """Return the cell of a difference, with signs and its interval."""
    if value is None:
        return TableCell(fmt.MISSING)
    text, interval = fmt.difference(value, ends)
    return TableCell(text, value, interval, fmt.ends_of(ends))


def probability(p: float | None) -> TableCell:
    """Return the cell of a p-value."""
    return TableCell(fmt.probability(p), p)


# `name`: short, wrapped last; `number`: never wrapped, at the right in formats that align;
# `words`: sentences, wrapped first; `bar`: a picture made of characters, for a terminal.
ColumnKind = Literal["name", "number", "words", "bar"]


@dataclass(frozen=True, slots=True)
class TableColumn:
    """Column of a table.

    Attributes:
        head: Head of the column; a table without any head has no line of heads.
        kind: Kind of its cells, which decides alignment and wrapping.
        breaks: True if a table that is too wide may go on in a further table from this column on.
            The columns before the first break are repeated there.
    """

    head: str
    kind: ColumnKind = "name"
    breaks: bool = False


@dataclass(frozen=True, slots=True)
class Heading:
    """Title of a part of a report."""

    text: str


@dataclass(frozen=True, slots=True)
class Paragraph:
    """Sentences, a line each.

    Attributes:
        lines: The sentences.
        tone: Colour on a terminal, such as `title` or `warning`.
        is_strong: True for the main result, which formats with fonts emphasize.
        is_apart: True for an empty line above it on a terminal.
    """

    lines: tuple[str, ...]
    tone: str = ""
    is_strong: bool = False
    is_apart: bool = False


@dataclass(frozen=True, slots=True)
class SentenceList:
    """List of sentences, an item each; two blanks in front of a sentence are a level.

    Attributes:
        lines: The items.
        is_apart: True for an empty line above it on a terminal.
    """

    lines: tuple[str, ...]
    is_apart: bool = False


@dataclass(frozen=True, slots=True)
class Legend:
    """Signs of the tables with their meanings, as (sign, meaning)."""

    entries: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Link:
    """Link, for formats that have links."""

    text: str
    url: str


@dataclass(frozen=True, slots=True)
class Fold:
    """Part of a report that a reader opens, where the format can fold it."""

    title: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """Table with a caption; rows have a cell for each column.

    Attributes:
        columns: Columns, of which the first has the names of the rows.
        rows: Cells of each row.
        caption: Line above the table.
        notes: Lines below the table.
        most: Rows that a terminal shows; None shows all.
        more: Remark of a terminal on rows beyond `most`, after their number; a plural noun ends at
            a colon: `systems: --verbose`.
        terminal: Block that a terminal draws in its place; None draws the table.
        keeps_rows: True if a row is one line in a pipe, for grep, although its columns break.
        has_queries: True if the first cell of each row is the id of a query, which the page links.
        in_papers: False if LaTeX leaves the table out; a paper shows another table of the report.
    """

    columns: tuple[TableColumn, ...]
    rows: tuple[tuple[TableCell, ...], ...]
    caption: str = ""
    notes: tuple[str, ...] = ()
    most: int | None = None
    more: str = ""
    terminal: Table | Paragraph | None = None
    keeps_rows: bool = False
    has_queries: bool = False
    in_papers: bool = True

    @property
    def heads(self) -> tuple[str, ...]:
        """Heads of the columns."""
        return tuple(column.head for column in self.columns)

    def with_cells(self, change: Callable[[TableCell], TableCell]) -> Table:
        """Return the table with each cell changed by a function."""
        rows = []
        for row in self.rows:
            rows.append(tuple(map(change, row)))
        return replace(self, rows=tuple(rows))

    @property
    def words(self) -> bool:
        """True if no column has numbers."""
        return all(column.kind != "number" for column in self.columns)


Block: TypeAlias = Heading | Paragraph | SentenceList | Legend | Link | Fold | Table


@dataclass(frozen=True, slots=True)
class TableReport:
    """Report of a command: blocks for a reader, and rows for a program.

    Attributes:
        blocks: Sentences and tables in their order.
        rows: Table for programs, with all digits and stable names of columns.
        subject: Line on the data, for captions of tables that stand alone; it names no paths.
    """

    blocks: tuple[Block, ...]
    rows: Table
    subject: str = ""


def paragraphs(lines: Iterable[str]) -> list[Paragraph]:
    """Return a paragraph for each line."""
    return [Paragraph((line,)) for line in lines]


def data_table(names: Sequence[str], rows: Iterable[Iterable[Raw]]) -> Table:
    """Return the rows for programs, under the stable names of their columns; they have no text."""
    cells = []
    for row in rows:
        cells.append(tuple(TableCell(value=value) for value in row))
    return Table(tuple(map(TableColumn, names)), tuple(cells))


def word_table(
    heads: Sequence[str],
    rows: Iterable[Iterable[str]],
    caption: str = "",
    *,
    has_queries: bool = False,
) -> Table:
    """Return a table of printable texts, of which long ones are wrapped in the last column."""
    columns = (*map(TableColumn, heads[:-1]), TableColumn(heads[-1], "words"))
    cells = []
    for row in rows:
        cells.append(tuple(TableCell(text, text) for text in row))
    return Table(columns, tuple(cells), caption, has_queries=has_queries)


def number_table(
    heads: Sequence[str],
    rows: Iterable[tuple[TableCell, ...]],
    caption: str = "",
    n_names: int = 1,
) -> Table:
    """Return a table whose columns are numbers, after `n_names` columns of names."""
    numbers = (TableColumn(head, "number") for head in heads[n_names:])
    return Table((*map(TableColumn, heads[:n_names]), *numbers), tuple(rows), caption)


def rewrite(blocks: Iterable[Block], change: Callable[[str], str]) -> Iterator[Block]:
    """Yield blocks whose texts are changed by a function, such as one that removes secrets."""

    def lines(texts: Iterable[str]) -> tuple[str, ...]:
        """Return the changed texts as lines of a block."""
        return tuple(map(change, texts))

    for block in blocks:
        if isinstance(block, Heading | Link):
            yield replace(block, text=change(block.text))
        elif isinstance(block, Paragraph | SentenceList):
            yield replace(block, lines=lines(block.lines))
        elif isinstance(block, Legend):
            yield Legend(tuple((sign, change(text)) for sign, text in block.entries))
        elif isinstance(block, Fold):
            yield Fold(change(block.title), tuple(rewrite(block.blocks, change)))
        else:
            table = block.with_cells(lambda cell: replace(cell, text=change(cell.text)))
            yield replace(table, caption=change(block.caption), notes=lines(block.notes))


def signs_of(table: Table, blocks: Iterable[Block]) -> list[tuple[str, str]]:
    """Return the entries of the legends of a report whose signs occur in a table."""
    signs = {*table.heads}
    for cell in chain.from_iterable(table.rows):
        signs |= {cell.text, SIGNS[cell.mark]}
        if cell.interval:
            signs.add(INTERVAL)
        if cell.letters:
            signs.add(LETTERS)
    entries = []
    for block in blocks:
        for sign, text in block.entries if isinstance(block, Legend) else ():
            if sign in signs or signs & {*sign.split(", ")}:
                entries.append((sign, text))
    return entries


# signs of a legend that are no text of a cell
INTERVAL = "[low, high]"
LETTERS = "letters behind a value"
