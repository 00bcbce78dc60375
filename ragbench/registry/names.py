"""Nearest names and one-line summaries, for messages and lists."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Iterable
from typing import Any


def nearest(word: str, allowed: Iterable[str]) -> str | None:
    """Return the allowed name that is spelt most like a wrong one, or None.

    Example:
        >>> nearest("fuson", ["fusion", "bm25"])
        'fusion'
    """
    by_fold = {name.casefold(): name for name in allowed}
    close = difflib.get_close_matches(word.casefold(), by_fold, n=1, cutoff=0.6)
    return by_fold[close[0]] if close else None


def summary_line(component: Any) -> str:
    """Return the first line of a component's docstring, without the full stop."""
    return (inspect.getdoc(component) or "").split("\n", 1)[0].strip().rstrip(".")
