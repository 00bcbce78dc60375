"""Declare fields for `records/codec.py`: texts that may hold secrets, keys that may be omitted."""

from __future__ import annotations

from dataclasses import field
from typing import Annotated, Any


class MayHoldSecrets:
    """Marks texts that somebody else wrote: errors, names made of paths."""


Prose = Annotated[str, MayHoldSecrets]
"""Text that may hold the value of a variable, as the text of an error may: see `cleaned`."""

ProseTree = Annotated[object, MayHoldSecrets]
"""Any JSON value, whose texts and keys may all hold it: what somebody's tool was given."""

OMITTED = "omitted"
"""Key of the metadata of a field that is left out of the file where it has its default."""


def optional(default: Any = None) -> Any:
    """Declare a field that is left out of the file where it has its default."""
    if isinstance(default, (dict, list)):
        return field(default_factory=type(default), metadata={OMITTED: True})
    return field(default=default, metadata={OMITTED: True})
