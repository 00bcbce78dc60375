"""The text of an id: one rule for runs, qrels, tables, hits and gold."""

from __future__ import annotations

import re
from numbers import Integral, Real
from typing import Any
from uuid import UUID

# From here on, a double does not hold each integer: 2**53 + 1 becomes 2**53.
_EXACT = 2**53
# An integer as pandas writes it beside an empty cell, `7.0`, or a long one, `1.23456789012346e+18`;
# spreadsheets write `1.23457E+18`.
_WHOLE = re.compile(r"(-?(?:0|[1-9]\d*))\.0+")
_ROUNDED = re.compile(r"-?\d(?:\.\d+)?[eE]\+\d+")
_NO_ID = "is not text or an integer"
_LOST = "has lost digits: a float holds integers below 2**53 only"


def id_text(value: Any) -> str:
    """Return an id as text: text as it is, an integer and a whole float as digits, a UUID.

    NumPy numbers count as numbers.

    Raises:
        ValueError: the value is no id, such as null, True, bytes or 0.5, or it is a float from
            2**53 on; says why.

    Example:
        >>> id_text("7"), id_text(7), id_text(7.0)
        ('7', '7', '7')
    """
    if isinstance(value, (str, UUID)):
        return str(value)
    # True is an integer in Python
    if isinstance(value, bool) or not isinstance(value, Real):
        raise ValueError(_NO_ID)
    if isinstance(value, Integral):
        return str(int(value))
    number = float(value)
    if not number.is_integer():
        raise ValueError(_NO_ID)
    if abs(number) >= _EXACT:
        raise ValueError(_LOST)
    return str(int(number))


def whole_text(text: str) -> str:
    """Return the digits of a text such as `7.0`, an integer in a column of floats; else the text.

    Raises:
        ValueError: The text is a number that lost digits when it was written, such as `1.2e+18`.

    Example:
        >>> whole_text("7.0"), whole_text("7.50"), whole_text("007.0")
        ('7', '7.50', '007.0')
    """
    whole = _WHOLE.fullmatch(text)
    if _ROUNDED.fullmatch(text) or (whole and abs(int(whole[1])) >= _EXACT):
        raise ValueError(_LOST)
    return whole[1] if whole else text
