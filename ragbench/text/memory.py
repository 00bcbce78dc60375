"""A function of words with a memory: a vocabulary is small, texts are long."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

Value = TypeVar("Value")

ROOM = 200_000
"""Words; for stems some 20 MB, more than the vocabulary of most corpora."""


class Memory(dict[str, Value]):
    """Word -> value, computed when first asked for; emptied when full.

    Words of more than `longest` characters are not worth remembering.
    """

    def __init__(
        self, compute: Callable[[str], Value], room: int = ROOM, longest: int | None = None
    ) -> None:
        super().__init__()
        self._compute, self._room, self._longest = compute, room, longest

    def __missing__(self, word: str) -> Value:
        value = self._compute(word)
        if self._longest is None or len(word) <= self._longest:
            if len(self) >= self._room:
                self.clear()
            self[word] = value
        return value
