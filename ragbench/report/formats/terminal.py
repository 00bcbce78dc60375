"""Reports as aligned text, for a terminal and for pipes."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from io import StringIO
from itertools import chain, pairwise
from typing import Literal, TypeAlias

from ragbench.report.formats.base import Screen
from ragbench.report.table import (
    Block,
    ColumnKind,
    Fold,
    Heading,
    Legend,
    Link,
    Paragraph,
    SentenceList,
    Table,
    TableReport,
)
from ragbench.types.display import counted, display_width, wrap

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
# between two columns
_GAP = "  "
# what is kept whole where a column is wrapped
Unit: TypeAlias = Literal["word", "value", "letter"]
# narrowest column of sentences, unless even names are wrapped
_NARROWEST = 24


class Terminal:
    """Aligned text; a table that is too wide goes on in a further table, or wraps at words."""

    is_exact = False

    def render(self, report: TableReport, screen: Screen) -> str:
        """Return the blocks of a report in their order, without an empty line at the start."""
        lines = list(_lines(report.blocks, screen))
        return "\n".join(lines[1:] if lines[:1] == [""] else lines) + "\n"


def _lines(
    blocks: Iterable[Block], screen: Screen, is_below_heading: bool = False
) -> Iterator[str]:
    """Yield the lines of blocks; an empty line is above each table and part."""
    for block in blocks:
        if isinstance(block, Table) and block.terminal is not None:
            block = block.terminal
        # a table stands directly below its heading and the sentences between them
        if isinstance(block, Heading):
            yield from ("", *_title_lines(block.text, screen))
            is_below_heading = True
        elif isinstance(block, Fold):
            yield from ("", *_title_lines(block.title, screen))
            yield from _lines(block.blocks, screen, is_below_heading=True)
            is_below_heading = False
        elif isinstance(block, Table):
            yield from () if is_below_heading and not block.caption else ("",)
            yield from _table_lines(block, screen)
            is_below_heading = False
        elif isinstance(block, Link):
            yield from _wrapped(f"{block.text}: {block.url}", screen)
        else:
            yield from _sentences(block, screen)


def _sentences(block: Paragraph | SentenceList | Legend, screen: Screen) -> Iterator[str]:
    """Yield the lines of sentences; on a terminal, long ones are wrapped at words."""
    if isinstance(block, Legend):
        lines, is_apart, tone = [f"{sign}: {text}" for sign, text in block.entries], True, ""
    else:
        lines, is_apart = list(block.lines), block.is_apart
        tone = block.tone if isinstance(block, Paragraph) else ""
    yield from ("",) if lines and is_apart else ()
    for line in lines:
        for part in _wrapped(line, screen):
            yield _style(part, tone, screen)


def _title_lines(title: str, screen: Screen) -> list[str]:
    """Return a title in lines that fit a terminal, in the style of titles."""
    return [_style(line, "title", screen) for line in _wrapped(title, screen)]


def _wrapped(line: str, screen: Screen) -> list[str]:
    """Return a sentence in lines that fit a terminal; in a pipe it stays one line."""
    if not screen.is_terminal or display_width(line) <= screen.width:
        return [line]
    return wrap(line, screen.width, " " * (len(line) - len(line.lstrip()) + 2))


def _table_lines(table: Table, screen: Screen) -> Iterator[str]:
    """Yield caption, rows and notes of a table."""
    yield from _title_lines(table.caption, screen) if table.caption else ()
    yield from draw_table(table, screen)
    n_more = 0 if table.most is None else len(table.rows) - table.most
    if n_more > 0:
        noun, colon, hint = table.more.partition(":")
        text = f"{counted(n_more, noun)}{colon}{hint}" if colon else f"{n_more} {table.more}"
        yield from _wrapped(f"  and {text}", screen)
    for line in table.notes:
        yield from _wrapped(line, screen)


def draw_table(table: Table, screen: Screen) -> list[str]:
    """Return the lines of a table, as many as its columns need at a width.

    A column is never split; an empty line is between two tables. On a terminal, a single group of
    columns that is too wide wraps its sentences, then its names, at words. In a pipe a row is a
    line.
    """
    columns, widths = [], []
    for place in range(len(table.columns)):
        cells = _column(table, place, screen)
        columns.append(cells)
        widths.append(max(map(display_width, cells), default=0) + len(_GAP))
    lines: list[str] = []
    is_whole = table.keeps_rows and not screen.is_terminal
    room = sys.maxsize if is_whole else screen.width + len(_GAP)
    for part in _parts(table, widths, room):
        texts, kinds, width = [], [], -len(_GAP)
        for place in part:
            texts.append(columns[place])
            kinds.append(table.columns[place].kind)
            width += widths[place]
        lines.append("")
        if width > screen.width and screen.is_terminal:
            lines += _fit(texts, kinds, screen.width, has_color=screen.has_color)
        else:
            for row in align(texts):
                lines.append(_GAP.join(row).rstrip())
    return lines[1:]


def _column(table: Table, place: int, screen: Screen) -> list[str]:
    """Return the cells of a column as text, its head first; intervals are aligned."""
    cells, longest, has_interval = [], 0, False
    for row in table.rows[: table.most]:
        cell = row[place]
        cells.append(cell)
        longest = max(longest, len(cell.marked))
        has_interval |= bool(cell.interval and cell.marked)
    if not has_interval:
        longest = 0
    texts = []
    if any(table.heads):
        texts.append(_style(table.columns[place].head, "title", screen))
    for cell in cells:
        text = f"{cell.marked:{longest}} {cell.interval}".rstrip()
        texts.append(_style(text, cell.mark or cell.tone, screen))
    return texts


def _parts(table: Table, widths: Sequence[int], room: int) -> list[list[int]]:
    """Return the numbers of the columns of each table that fits, where columns break."""
    starts, widths = [], [*widths]
    for n, column in enumerate(table.columns):
        if column.breaks:
            starts.append(n)
        # sentences need no table of their own: they are wrapped
        if column.kind == "words":
            widths[n] = min(widths[n], _NARROWEST)
    repeated = list(range(starts[0] if starts else len(widths)))
    parts = [[*repeated]]
    for start, end in pairwise([*starts, len(widths)]):
        group = range(start, end)
        is_full = sum(widths[n] for n in (*parts[-1], *group)) > room
        if is_full and len(parts[-1]) > len(repeated):
            parts.append([*repeated])
        parts[-1] += group
    return parts


def align(columns: Sequence[Sequence[str]]) -> list[list[str]]:
    """Pad the cells of each column at their ends to one display width, and return the rows.

    Raises:
        ValueError: A column has no cell, or columns differ in length.
    """
    padded = []
    for cells in columns:
        widest = max(map(display_width, cells))
        padded.append([cell + " " * (widest - display_width(cell)) for cell in cells])
    return list(map(list, zip(*padded, strict=True)))


def _fit(
    columns: Sequence[Sequence[str]], kinds: Sequence[ColumnKind], width: int, *, has_color: bool
) -> list[str]:
    """Return the lines of a table that is too wide, wrapped at words; bars need too much room."""
    # rich takes 75 us a cell, and 90 ms for its import: tables that fit do without
    from rich.console import Console
    from rich.table import Table as RichTable
    from rich.text import Text

    widths = _shrink(columns, kinds, width)
    sentences = []
    for column_width, kind in zip(widths, kinds, strict=True):
        if kind == "words":
            sentences.append(column_width)
    if "bar" in kinds and min(sentences, default=0) < _NARROWEST:
        columns = [c for c, kind in zip(columns, kinds, strict=True) if kind != "bar"]
        kinds = [kind for kind in kinds if kind != "bar"]
        widths = _shrink(columns, kinds, width)
    columns = list(map(_interval_below, columns, kinds, widths))
    drawn = RichTable(box=None, show_header=False, pad_edge=False, padding=(0, len(_GAP), 0, 0))
    for column_width in widths:
        drawn.add_column(width=column_width, overflow="fold")
    for row in zip(*columns, strict=True):
        drawn.add_row(*map(Text.from_ansi, row))
    console = Console(
        file=StringIO(),
        width=sum(widths) + len(_GAP) * len(widths),
        color_system="standard" if has_color else None,
        force_terminal=has_color,
        legacy_windows=False,
    )
    with console.capture() as capture:
        console.print(drawn)
    return list(map(_without_end_blanks, capture.get().splitlines()))


def _without_end_blanks(line: str) -> str:
    """Return a line without blanks at its end, which may stand before the end of a style."""
    line = line.rstrip()
    return f"{line[: -len(_RESET)].rstrip()}{_RESET}" if line.endswith(_RESET) else line


def _interval_below(cells: Sequence[str], kind: ColumnKind, width: int) -> Sequence[str]:
    """Return cells whose intervals stand below their values if they do not fit beside them."""
    if kind != "number" or max(map(display_width, cells)) <= width:
        return cells
    lines = []
    for cell in cells:
        value, bracket, interval = cell.partition(" [")
        lines.append(f"{value.rstrip()}\n[{interval}" if bracket else cell)
    return lines


def _pieces(cell: str, unit: Unit) -> list[str]:
    """Return the parts of a cell that a wrapped column keeps whole."""
    value, bracket, interval = cell.partition(" [")
    if unit == "value" and bracket:
        return [value.rstrip(), f"[{interval}"]
    return [] if unit == "letter" else cell.split()


# What may be wrapped to make a table narrower, in turns: columns of a kind, down to a width,
# between words, between a value and its interval, or within a word.
_TURNS: tuple[tuple[ColumnKind, int, Unit], ...] = (
    ("words", _NARROWEST, "word"),
    ("name", 0, "word"),
    ("words", 0, "word"),
    ("number", 0, "value"),
    ("name", 12, "letter"),
    ("words", 12, "letter"),
    ("number", 0, "word"),
    ("name", 4, "letter"),
    ("words", 4, "letter"),
)


def _shrink(columns: Sequence[Sequence[str]], kinds: Sequence[ColumnKind], width: int) -> list[int]:
    """Return widths of columns that fit, if sentences, names and numbers can be wrapped so far."""
    widths = [max(map(display_width, cells)) for cells in columns]
    excess = sum(widths) + len(_GAP) * (len(widths) - 1) - width
    for kind, narrowest, unit in _TURNS:
        least = {}
        for n in range(len(columns)):
            if excess > 0 and kinds[n] == kind:
                pieces = chain.from_iterable(_pieces(cell, unit) for cell in columns[n])
                least[n] = min(widths[n], max([narrowest, *map(display_width, pieces)]))
        while excess > 0:
            shrinkable = []
            for n in least:
                if widths[n] > least[n]:
                    shrinkable.append(n)
            if not shrinkable:
                break
            widths[max(shrinkable, key=widths.__getitem__)] -= 1
            excess -= 1
    return widths


def _style(text: str, style: str, screen: Screen) -> str:
    """Return a text in the colour of a style; unchanged without colours or known style."""
    if not screen.has_color or style not in _STYLES or not text.strip():
        return text
    return f"{_STYLES[style]}{text}{_RESET}"
