"""Texts for a screen: short representations of records, printable names, and their width."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import MISSING, fields
from reprlib import Repr
from typing import Any

import msgspec
from msgspec import structs

_SHORTENER = Repr()
# characters of a text, and of a record within a record
_SHORTENER.maxstring = _SHORTENER.maxother = 80
_SHORTENER.maxlist = _SHORTENER.maxtuple = 3

_LONGEST_LINE = 10_000
# colour codes of a terminal
_STYLE = re.compile("\x1b\\[[0-9;]*m")


def short_repr(record: Any) -> str:
    """Return the repr of a record or dataclass without the fields that have their default value.

    Long texts are cut in the middle, lists after three items and mappings after four.

    Example:
        >>> from ragbench.types import Document
        >>> len(short_repr(Document("d1", "word " * 1000)))
        104
    """
    parts = []
    is_struct = isinstance(record, msgspec.Struct)
    for field in structs.fields(record) if is_struct else fields(record):
        value, make = getattr(record, field.name), field.default_factory
        if value != (field.default if make in (MISSING, msgspec.NODEFAULT) else make()):
            parts.append(f"{field.name}={_SHORTENER.repr(value)}")
    return f"{type(record).__name__}({', '.join(parts)})"


def list_counts(counts: Mapping[str, int]) -> str:
    """Return the counts with their words, in their order; the text is empty without counts.

    Example:
        >>> list_counts({"timeout": 3, "refused": 1})
        '3 timeout, 1 refused'
    """
    return ", ".join(f"{count} {word}" for word, count in counts.items())


def printable(text: object) -> str:
    r"""Return a text on one line, with every invisible character written as an escape.

    Each run of white space, as a line break, becomes a blank; at the ends there is none. Characters
    that could move the cursor, turn the direction of the text or break a UTF-8 file become visible
    instead of active. A text is cut after 10,000 characters, with a remark. An object is its `str`.

    Example:
        >>> print(printable("two\nlines"), printable("red\x1b[31m"))
        two lines red\x1b[31m
    """
    line = " ".join(str(text).split())
    if len(line) > _LONGEST_LINE:
        line = f"{line[:_LONGEST_LINE]}… ({len(line) - _LONGEST_LINE:,} more characters)"
    if line.isprintable():
        return line
    return "".join(ch if ch.isprintable() else ch.encode("unicode_escape").decode() for ch in line)


def quoted_start(text: object, most: int = 60) -> str:
    r"""Return a text in quotes for a message, on one line and cut at `most` characters.

    Example:
        >>> print(quoted_start("Who is\nIo?"), quoted_start("Which moon is hot?", 14))
        'Who is Io?' 'Which moon ...'
    """
    return f"'{shorten_line(text, most)}'"


def shorten_line(text: object, most: int) -> str:
    """Return a text on one line, of which more than `most` characters become `...`.

    Example:
        >>> shorten_line("Which moon is hot?", 14)
        'Which moon ...'
    """
    line = printable(text)
    return line if len(line) <= most else f"{line[: most - 3]}..."


def counted(count: int, plural: str) -> str:
    """Format a count with its noun, given as a plural in -s or -ies: `1 query`, `66 queries`.

    Example:
        >>> counted(1, "queries"), counted(2, "queries"), counted(1, "systems")
        ('1 query', '2 queries', '1 system')
    """
    if count != 1:
        return f"{count} {plural}"
    return f"1 {plural[:-3]}y" if plural.endswith("ies") else f"1 {plural.removesuffix('s')}"


def display_width(text: str) -> int:
    r"""Return the width of a text on a terminal: wide characters count 2, colour codes 0.

    Example:
        >>> display_width("bm25"), display_width("检索"), display_width("\x1b[1mbm25\x1b[0m")
        (4, 4, 4)
    """
    from rich.cells import cell_len

    return cell_len(_STYLE.sub("", text))


def wrap(text: str, width: int, indent: str = "") -> list[str]:
    """Return a text in lines of at most a width, wrapped at words; a longer word is cut.

    Blanks at the start and between two words of a line stay. An empty text is one empty line.

    Args:
        text: The text, without line ends.
        width: Columns of the terminal; fewer than 20 count as 20.
        indent: Start of each further line.

    Example:
        >>> wrap("a word and another", 20, "  ")
        ['a word and another']
        >>> wrap("/a/path/that/is/longer/than/the/line", 20, "  ")
        ['/a/path/that/is/long', '  er/than/the/line']
    """
    from rich.cells import chop_cells

    width = max(width, 20)
    lines = list[str]()
    # at most half a line is indented, so that words have room
    line = start = text[: len(text) - len(text.lstrip())][: width // 2]
    indent = indent[: width // 2]
    # words, each after the blanks before it
    parts = ["", *re.split(r"(\s+)", text.strip())]
    for blanks, word in zip(parts[::2], parts[1::2], strict=True):
        if display_width(line + blanks + word) <= width:
            line += blanks + word
            continue
        if line != start:
            lines.append(line)
            line = start = indent
        while display_width(line + word) > width:
            piece = chop_cells(word[:width], width - display_width(line))[0]
            lines.append(line + piece)
            word = word[len(piece) :]
            line = start = indent
        line += word
    return [*lines, line]


def cut(text: str, width: int) -> str:
    """Return a text that fits a width of a terminal; a long one ends in `...`.

    Example:
        >>> cut("a long question", 10), cut("東京タワー", 8)
        ('a long...', '東京...')
    """
    from rich.cells import set_cell_size

    if display_width(text) <= width:
        return text
    return f"{set_cell_size(text, max(width - 3, 0)).rstrip()}..."
