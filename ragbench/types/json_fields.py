"""Field declarations for `records/codec.py`: texts with possible secrets, and optional keys."""

from __future__ import annotations

from dataclasses import field
from typing import Annotated, Any


class MayHoldSecrets:
    """Mark, inside `Annotated`, of texts from outside that may hold secrets, such as errors.

    The class itself is the mark, as in `Prose`; it has no instances.
    """


# Text that may hold a secret, such as the text of an error; `cleaned` masks it before writing.
Prose = Annotated[str, MayHoldSecrets]

# Metadata key of a field that is left out of the file if it has its default value.
OMITTED = "omitted"


def optional(default: Any = None) -> Any:
    """Declare a dataclass field that is left out of the file if it equals its default value.

    If `default` is a list or dictionary, the default is an empty one, whatever it holds. Without
    `default` it is None.
    """
    # Each instance gets its own copy of a mutable default.
    if isinstance(default, (dict, list)):
        return field(default_factory=type(default), metadata={OMITTED: True})
    return field(default=default, metadata={OMITTED: True})
