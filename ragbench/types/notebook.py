"""How results look in a notebook: small tables of HTML, in which every text is escaped."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from html import escape

_LONGEST = 2_000
"""Characters of a cell; a notebook is saved with all that it shows."""
_CONTROL = {code: f"\\u{code:04x}" for code in (*range(0x202A, 0x202F), *range(0x2066, 0x206A))}
_CONTROL |= {code: f"\\x{code:02x}" for code in range(32) if code not in (9, 10)}


def html_table(caption: str, heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table as HTML without script or style; what a text holds shows as it is.

    Example:
        >>> html_table("a run", ["system"], [["<b>"]])
        '<table><caption>a run</caption><tr><th>system</th></tr><tr><td>&lt;b&gt;</td></tr></table>'
    """
    head = "".join(f"<th>{_cell(text)}</th>" for text in heads)
    body = "".join(f"<tr>{''.join(f'<td>{_cell(text)}</td>' for text in row)}</tr>" for row in rows)
    return f"<table><caption>{_cell(caption)}</caption><tr>{head}</tr>{body}</table>"


def _cell(text: str) -> str:
    shown = text if len(text) <= _LONGEST else f"{text[:_LONGEST]} ..."
    plain = shown.encode("utf-8", "backslashreplace").decode("utf-8")  # half characters
    return escape(plain.translate(_CONTROL)).replace("\n", "<br>")


def number(value: float | None, interval: Sequence[float | None] | None = None) -> str:
    """Write a value with three significant digits, and its interval where it has one.

    Example:
        >>> number(0.5938, (0.505, 0.677)), number(None), number(1.0)
        ('0.594 [0.505, 0.677]', '-', '1.00')
    """
    if value is None or math.isnan(value):
        return "-"
    ends = [end for end in interval or () if end is not None and not math.isnan(end)]
    limits = f" [{_digits(ends[0])}, {_digits(ends[1])}]" if len(ends) == 2 else ""
    return _digits(value) + limits


def _digits(value: float) -> str:
    return f"{value:#.3g}".rstrip(".")
