"""Declare fields for `records/codec.py`: texts that may hold secrets, keys that may be omitted."""

from __future__ import annotations

from dataclasses import field
from typing import Annotated, Any


class MayHoldSecrets:
    """Marks texts that somebody else wrote: errors, names made of paths."""


# Text that may hold the value of a variable, as the text of an error may: see `cleaned`.
Prose = Annotated[str, MayHoldSecrets]

# Any JSON value, whose texts and keys may all hold it: what somebody's tool was given.
ProseTree = Annotated[object, MayHoldSecrets]

# Key of the metadata of a field that is left out of the file where it has its default.
OMITTED = "omitted"


def optional(default: Any = None) -> Any:
    """Declare a field that is left out of the file where it has its default."""
    if isinstance(default, (dict, list)):
        return field(default_factory=type(default), metadata={OMITTED: True})
    return field(default=default, metadata={OMITTED: True})
