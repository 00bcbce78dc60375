"""JSON as models write it: single quotes, Python's words, trailing commas, cut off at the end.

What is mended never changes a value. An unfinished number, word or text is dropped with its key,
and an unfinished list is refused: what is missing from it cannot be known. NaN, infinities,
repeated keys and numbers as words are refused.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any

from ragbench.llm.unreadable import Broken, Unreadable

_SPACE = re.compile(r"[ \t\r\n]*")
_NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][-+]?\d+)?", re.ASCII)
_WORD = re.compile(r"[-+]?[A-Za-z_][A-Za-z_0-9]*", re.ASCII)
_WORDS = {"true": True, "false": False, "null": None, "True": True, "False": False, "None": None}
_NO_NUMBERS = frozenset({"nan", "infinity", "inf"})
_ESCAPES = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_DEEPEST = 100


class _CutOff(Exception):
    """The text ended inside a value."""


def read_lenient(text: str, start: int) -> tuple[Any, int]:
    """Return the object or list that starts at a position, and where it ends.

    Raises:
        Broken: There is an object, and what stands in it cannot be told for certain.
        Unreadable: There is none: brackets stand in prose as well.

    Example:
        >>> read_lenient("{'supported': True, 'level': 4,}", 0)
        ({'supported': True, 'level': 4}, 32)
        >>> read_lenient('{"level": 4, "why": "it was cu', 0)
        ({'level': 4}, 30)
        >>> read_lenient('{"level": 1', 0)  # 1, or the beginning of 10?
        ({}, 11)
    """
    reader = _Reader(text, start)
    try:
        return reader.value(0), reader.at
    except _CutOff:
        problem = "the reply is cut off inside a list"
    except Unreadable as error:
        problem = str(error)
    raise (Broken if reader.has_key else Unreadable)(problem)


def number(written: str) -> int | float:
    """Return the number that a JSON number stands for.

    Raises:
        Unreadable: It is beyond what a float can hold, or absurdly long.
    """
    if len(written) > 300:
        raise Unreadable(f"a number of {len(written)} digits")
    if not set(".eE") & set(written):
        return int(written)
    value = float(written)
    if not math.isfinite(value):
        raise Unreadable(f"{written} is too large for a number")
    return value


def unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the mapping of some pairs.

    Raises:
        Unreadable: A key is there twice: which value counts?
    """
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        repeated = next(key for key in keys if keys.count(key) > 1)
        raise Unreadable(f"the key {json.dumps(repeated)} is there twice")
    return found


class _Reader:
    """A recursive-descent reader over one text."""

    def __init__(self, text: str, at: int) -> None:
        self.text, self.at = text, at
        self.has_key = False  # whether a key was read: prose has brackets, but no keys

    def value(self, depth: int) -> Any:
        if depth > _DEEPEST:
            raise Unreadable(f"values are nested more than {_DEEPEST} deep")
        sign = self._peek()
        if sign == "{":
            return self._object(depth)
        if sign == "[":
            return self._list(depth)
        if sign in "\"'":
            return self._text()
        return self._scalar()

    def _object(self, depth: int) -> dict[str, Any]:
        pairs: list[tuple[str, Any]] = []
        self.at += 1
        try:
            while self._peek() != "}":
                if self._peek() not in "\"'":
                    raise self._unexpected("a key in quotes")
                key = self._text()
                self._take(":")
                self.has_key = True
                pairs.append((key, self.value(depth + 1)))
                if self._peek() != "}":
                    self._take(",")
            self.at += 1
        except _CutOff:
            if depth:  # an inner value that lacks a part is not the value
                raise
            self.at = len(self.text)
        return unique_keys(pairs)

    def _list(self, depth: int) -> list[Any]:
        values = []
        self.at += 1
        while self._peek() != "]":
            values.append(self.value(depth + 1))
            if self._peek() != "]":
                self._take(",")
        self.at += 1
        return values

    def _text(self) -> str:
        quote = self.text[self.at]
        parts: list[str] = []
        self.at += 1
        while True:
            sign = self._sign()
            if sign == quote:
                return "".join(parts)
            parts.append(self._escaped() if sign == "\\" else sign)

    def _escaped(self) -> str:
        sign = self._sign()
        if sign != "u":
            return _ESCAPES.get(sign, sign)
        digits = self.text[self.at : self.at + 4]
        if self.at + 4 > len(self.text):
            raise _CutOff
        if re.fullmatch(r"[0-9a-fA-F]{4}", digits) is None:
            raise self._unexpected("four hexadecimal digits")
        self.at += 4
        return chr(int(digits, 16))

    def _scalar(self) -> Any:
        match = _NUMBER.match(self.text, self.at) or _WORD.match(self.text, self.at)
        if match is None:
            raise self._unexpected("a value")
        self.at = match.end()
        if self.at == len(self.text):
            raise _CutOff  # who knows how it goes on
        written = match.group()
        if self.text[self.at] not in ",}] \t\r\n":
            raise self._unexpected(f"the end of the value after {written}")
        if written in _WORDS:
            return _WORDS[written]
        if written.lstrip("+-").lower() in _NO_NUMBERS:
            raise Unreadable(f"{written} is no number")
        if match.re is _WORD:
            raise Unreadable(f"{written} is no JSON value; texts stand in quotes")
        return number(written)

    def _peek(self) -> str:
        match = _SPACE.match(self.text, self.at)
        self.at = match.end() if match else self.at
        if self.at >= len(self.text):
            raise _CutOff
        return self.text[self.at]

    def _sign(self) -> str:
        if self.at >= len(self.text):
            raise _CutOff
        self.at += 1
        return self.text[self.at - 1]

    def _take(self, sign: str) -> None:
        if self._peek() != sign:
            raise self._unexpected(f"'{sign}'")
        self.at += 1

    def _unexpected(self, wanted: str) -> Unreadable:
        found = self.text[self.at : self.at + 20]
        return Unreadable(f"expected {wanted} at character {self.at + 1}, found {found!r}")
