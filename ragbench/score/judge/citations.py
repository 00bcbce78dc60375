"""Markers that cite passages: `[1]`, `[2, 3]`, `[1-3]`; the first passage is 1."""

from __future__ import annotations

import re
from typing import NamedTuple

from ragbench.text.tokenize import sentences

_NUMBERS = r"\^?\d{1,3}(?:\s*[,;\u2013-]\s*\^?\d{1,3})*"
_MARKER = re.compile(rf"\s*(?:\[\s*({_NUMBERS})\s*\]|\u3010\s*({_NUMBERS})\s*\u3011)")
_PART = re.compile(r"\^?(\d{1,3})(?:\s*[\u2013-]\s*\^?(\d{1,3}))?")
_LEADING = re.compile(rf"^(?:{_MARKER.pattern})+")
# a marker behind the full stop: a space after it lets the sentence end before the marker
_GLUED = re.compile(rf"(?<=[.!?])(?=(?:{_MARKER.pattern})+(?:\s|$))")


class CitedSentence(NamedTuple):
    """A sentence with the passages that it cites."""

    text: str
    """Without its markers."""
    cited: frozenset[int]
    """Passages, counted from 1; also numbers that no passage has."""


def cited_sentences(text: str) -> list[CitedSentence]:
    """Split a text into sentences, each with the passages that it cites.

    Markers may stand before the full stop or behind it: those at the start of a sentence belong
    to the sentence before. A text without markers cites nothing.
    """
    return [CitedSentence(plain, frozenset(cited)) for plain, cited in _sentences(text)]


def first_cited(text: str) -> list[tuple[str, int | None]]:
    """Split a text as `cited_sentences` does, each sentence with the passage that it cites first.

    Example:
        >>> first_cited("It is red [3, 1]. It is old.")
        [('It is red.', 3), ('It is old.', None)]
    """
    return [(plain, cited[0] if cited else None) for plain, cited in _sentences(text)]


def _sentences(text: str) -> list[tuple[str, list[int]]]:
    """The sentences without their markers, and what they cite, in the order of the text."""
    found: list[tuple[str, list[int]]] = []
    for sentence in sentences(_GLUED.sub(" ", text)):
        leading = _LEADING.match(sentence)
        if leading and found:
            found[-1][1].extend(_numbers(leading.group()))
            sentence = sentence[leading.end() :].strip()
        plain = without_markers(sentence)
        if plain:
            found.append((plain, _numbers(sentence)))
    return found


def markers(text: str) -> frozenset[int]:
    """Return the numbers that a text cites."""
    return frozenset(_numbers(text))


def _numbers(text: str) -> list[int]:
    found: list[int] = []
    for marker in _MARKER.finditer(text):
        for part in _PART.finditer(marker.group(1) or marker.group(2)):
            first = int(part.group(1))
            found.extend(range(first, int(part.group(2) or first) + 1))
    return found


def without_markers(text: str) -> str:
    """Return a text without its markers, stripped."""
    return _MARKER.sub("", text).strip()
