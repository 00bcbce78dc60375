"""Short representations of records, for notebooks and messages."""

from __future__ import annotations

from dataclasses import MISSING, fields
from reprlib import Repr
from typing import Any

_SHORTENER = Repr()
# characters of a text, and of a record within a record
_SHORTENER.maxstring = _SHORTENER.maxother = 80
_SHORTENER.maxlist = _SHORTENER.maxtuple = 3


def short_repr(record: Any) -> str:
    """Return the repr of a dataclass instance without the fields that have their default value.

    Long texts are cut in the middle, lists after three items and mappings after four.

    Example:
        >>> from ragbench.types import Document
        >>> len(short_repr(Document("d1", "word " * 1000)))
        102
    """
    parts = []
    for field in fields(record):
        value, make = getattr(record, field.name), field.default_factory
        if value != (field.default if make is MISSING else make()):
            parts.append(f"{field.name}={_SHORTENER.repr(value)}")
    return f"{type(record).__name__}({', '.join(parts)})"
