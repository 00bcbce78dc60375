"""Protocol of formats of tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from ragbench.report.table import TableReport


@dataclass(frozen=True, slots=True)
class Screen:
    """Terminal or pipe where a text is read; the default is a pipe.

    Attributes:
        width: Columns that tables may take.
        is_terminal: True wraps sentences, too; in a pipe, a line of `grep` is a whole sentence.
        has_color: True for colours.
    """

    width: int = 100
    is_terminal: bool = False
    has_color: bool = False


class TableFormat(Protocol):
    """Format of a report, such as Markdown.

    A class is registered by its line in `FORMATS`; every command that prints tables then has it.

    Attributes:
        is_exact: True if the text is for programs, and is written unchanged.
    """

    is_exact: bool

    def render(self, report: TableReport, screen: Screen) -> str:
        """Return a report as text, with a line end at its end."""
        ...
