"""Normalised answers, remembered for the metrics that read the same text one after the other."""

from __future__ import annotations

import functools
from typing import NamedTuple

from ragbench.text.normalize import normalize_answer


class Normalized(NamedTuple):
    """An answer in normal form."""

    text: str
    """Lower-case, without punctuation, articles and extra white space."""
    tokens: tuple[str, ...]
    """Its words."""


@functools.lru_cache(maxsize=512)  # metrics run row by row: only the texts of a row come again
def normalized(text: str) -> Normalized:
    """Return the normal form of an answer and its words."""
    normal = normalize_answer(text)
    return Normalized(normal, tuple(normal.split()))
