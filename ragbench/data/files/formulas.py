"""Apostrophes before texts in CSV files that a spreadsheet would run as formulas."""

from __future__ import annotations

import re
from collections.abc import Iterable

# full-width = + - @ start formulas as well; with a comma as decimal sign, `;` ends a cell
# The blanks before a sign are no tabs: at a tab the next cell begins.
_FORMULA = re.compile(
    r"""(?:^|(?<=[;\t]))(?=(?:[^\S\t\r\n]|['"\ufeff])*[=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20])"""
)
_INERT = re.compile(f"{_FORMULA.pattern}'")
# Columns of the tables that ragbench writes for people to edit: questions, and sheets of labels.
_TABLES = (frozenset(["checks", "keep"]), frozenset(["item", "rubric", "draw"]))


def inert(text: str) -> str:
    """Return a text with an apostrophe before anything that a spreadsheet would run as a formula.

    A formula behind apostrophes gets another apostrophe, so that `original` restores the text. An
    apostrophe also follows `;` and tabs, which end a cell in some programs, and stands before
    quotes and blanks, which some programs drop. A tab or line end at the start counts as a formula.

    Example:
        >>> inert("=1+1"), inert("1 + 1"), inert("'=1+1"), inert("'quoted'")
        ("'=1+1", '1 + 1', "''=1+1", "'quoted'")
    """
    if text[:1].isalnum() and ";" not in text and "\t" not in text:
        return text  # nearly all texts; the pattern would look at each character
    return _FORMULA.sub("'", text)


def original(cell: str) -> str:
    """Return the text from which `inert` made a cell; other cells stay as they are.

    Example:
        >>> original("'=1+1"), original("'quoted'")
        ('=1+1', "'quoted'")
    """
    return _INERT.sub("", cell)


def is_own_table(columns: Iterable[str]) -> bool:
    """Return True for the columns of a table that ragbench wrote, whose cells are `inert`.

    A reader restores these cells by `original`. An apostrophe in another file belongs to its text.

    Example:
        >>> is_own_table(["question", "quote", "checks", "keep"]), is_own_table(["question"])
        (True, False)
    """
    return any(table.issubset(columns) for table in _TABLES)
