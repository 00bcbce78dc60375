"""Nearest names and one-line summaries, for messages and lists."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Iterable
from typing import Any


def nearest(word: str, allowed: Iterable[str]) -> str | None:
    """Return the allowed name that is spelt most like a wrong one, or None."""
    by_fold = {name.casefold(): name for name in allowed}
    close = difflib.get_close_matches(word.casefold(), by_fold, n=1, cutoff=0.6)
    return by_fold[close[0]] if close else None


def shown(value: Any) -> str:
    """Return a foreign value as error messages show it: cut where it is long, no addresses.

    An address would differ from run to run; a coroutine says what is likely wrong.

    Example:
        >>> shown([1, 2]), shown(object())
        ('[1, 2]', 'an object')
    """
    if inspect.isawaitable(value) or inspect.isasyncgen(value):
        if inspect.iscoroutine(value):
            value.close()  # it is never awaited, and would warn
        return "a coroutine (async functions are not supported)"
    text = repr(value)
    if " at 0x" in text:
        name = type(value).__name__
        return f"{'an' if name[0] in 'aeiou' else 'a'} {name}"
    return text if len(text) <= 80 else f"{text[:77]}..."


def summary_line(component: Any) -> str:
    """Return the first line of a component's docstring, without the full stop."""
    return (inspect.getdoc(component) or "").split("\n", 1)[0].strip().rstrip(".")
