"""Hostile texts of a pattern: what its repeats accept, many times, and then what ends no match."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

from tests.patterns.machine import MANY, Accepts, accepts_of, tree_of

_COMMON = " \t\n\"'`<>[](){}:;,.=-_/\\#&@%$*+!?|0aZ\u00e9\u4e2d\u0000"
_ENDS = ("", "\x00", "\n")
_LOOK = ("assert", "assert_not")


@dataclass(frozen=True)
class HostileText:
    """A text of any length: a start, a piece that is repeated, and an end."""

    start: str
    piece: str
    end: str

    def of_length(self, length: int) -> str:
        """Return the text with the piece repeated to a length."""
        return self.start + self.piece * (length // len(self.piece)) + self.end


@cache
def hostile_texts(pattern: re.Pattern[Any]) -> list[HostileText]:
    """Return the hostile texts of a pattern.

    A character of each kind that its nodes tell apart, each literal word, and an example of each
    repeated part are repeated: alone, and after an example of what stands before the repeat.
    """
    nodes = _Nodes(pattern)
    texts = {HostileText("", piece, end) for piece in nodes.pieces() for end in _ENDS[:2]}
    for start, tree, rest in nodes.repeats():
        for piece in nodes.pieces_in(tree):
            ends = {*_ENDS, rest[:-1] + "\x00"}
            texts |= {HostileText(start, piece, end) for end in ends}
    return sorted(texts, key=repr)


def has_open_repeat(pattern: re.Pattern[Any]) -> bool:
    """Return True if a pattern has a repeat without a limit."""
    return _has_open_repeat(tree_of(pattern))


def _has_open_repeat(tree: Any) -> bool:
    for operation, value in tree:
        name = str(operation).lower()
        if name.endswith("_repeat") and int(value[1]) >= MANY:
            return True
        if any(map(_has_open_repeat, _trees(name, value))):
            return True
    return False


class _Nodes:
    """The tree of a pattern, with examples of the texts that its parts accept."""

    def __init__(self, pattern: re.Pattern[Any]) -> None:
        self._tree, self._flags = tree_of(pattern), pattern.flags
        self._groups: dict[int, Any] = {}
        self._singles = list(self._accepting(self._tree))

    def _accepting(self, tree: Any) -> Iterator[Accepts]:
        """Yield the nodes that accept one character."""
        for operation, value in tree:
            name = str(operation).lower()
            if accepts := accepts_of(name, value, self._flags):
                yield accepts
            if name == "subpattern" and value[0] is not None:
                self._groups[value[0]] = value[3]
            for inner in _trees(name, value):
                yield from self._accepting(inner)

    @cached_property
    def _characters(self) -> list[str]:
        """Return a character of each kind that the nodes of the pattern tell apart."""
        by_kind: dict[tuple[bool, ...], str] = {}
        for character in dict.fromkeys((*_COMMON, *self._literals(self._tree))):
            kind = tuple(accepts(character) for accepts in self._singles)
            by_kind.setdefault(kind, character)
        return list(by_kind.values())

    def _literals(self, tree: Any) -> Iterator[str]:
        """Yield the characters that a pattern names."""
        for operation, value in tree:
            name = str(operation).lower()
            if name in ("literal", "not_literal"):
                yield chr(value)
            elif name == "in":
                for kind, item in value:
                    if str(kind) == "LITERAL":
                        yield chr(item)
                    elif str(kind) == "RANGE":
                        yield from map(chr, item)
            for inner in _trees(name, value):
                yield from self._literals(inner)

    def pieces(self) -> list[str]:
        """Return the pieces for texts without a start."""
        words = {self.example(self._tree)}
        for start, body, _ in self.repeats():
            # openings without an end
            words |= {start, start + self.example(body)}
        return list(dict.fromkeys([*self._characters, *sorted(words - {""})]))

    def pieces_in(self, tree: Any) -> list[str]:
        """Return the pieces that the body of a repeat accepts, at least in part."""
        singles = list(self._accepting(tree))
        pieces = [c for c in self._characters if any(accepts(c) for accepts in singles)]
        examples = [example for part in self._parts(tree) if (example := self.example(part))]
        return list(dict.fromkeys([*pieces, *examples]))

    def _parts(self, tree: Any) -> Iterator[Any]:
        """Yield a tree, the trees in it, and its beginnings before each repeat."""
        yield tree
        for position, (operation, value) in enumerate(tree):
            name = str(operation).lower()
            if name.endswith("_repeat") and position:
                yield tree[:position]
            for inner in _trees(name, value):
                yield from self._parts(inner)

    def repeats(self) -> Iterator[tuple[str, Any, str]]:
        """Yield (example of what stands before, body, example of the rest) of each open repeat."""
        yield from self._repeats(self._tree, "", "")

    def _repeats(self, tree: Any, start: str, rest: str) -> Iterator[tuple[str, Any, str]]:
        for position, (operation, value) in enumerate(tree):
            name = str(operation).lower()
            before = start + self.example(tree[:position])
            after = self.example(tree[position + 1 :]) + rest
            if name.endswith("_repeat") and int(value[1]) >= MANY:
                yield before, value[2], after
            for inner in _trees(name, value):
                yield from self._repeats(inner, before, after)

    def example(self, tree: Any) -> str:
        """Return a short text that a tree accepts, not regarding what stands around it."""
        return "".join(self._example(str(operation).lower(), value) for operation, value in tree)

    def _example(self, name: str, value: Any) -> str:
        if accepts := accepts_of(name, value, self._flags):
            return next(filter(accepts, self._candidates), "")
        if name == "groupref":
            return self.example(self._groups.get(value, []))
        if name.endswith("_repeat"):
            # one turn even of an optional part: it is what follows that fails
            return self.example(value[2]) * max(1, min(int(value[0]), 50))
        if name in _LOOK:
            return ""
        trees = _trees(name, value)
        return self.example(trees[0]) if trees else ""

    @cached_property
    def _candidates(self) -> str:
        return "".join(dict.fromkeys(("aZ0", *_COMMON, *self._literals(self._tree))))


def _trees(name: str, value: Any) -> list[Any]:
    """Return the trees in a node."""
    if name == "subpattern":
        return [value[3]]
    if name == "branch":
        return list(value[1])
    if name.endswith("_repeat"):
        return [value[2]]
    if name in _LOOK:
        return [value[1]]
    if name == "atomic_group":
        return [value]
    if name == "groupref_exists":
        return [tree for tree in value[1:] if tree]
    return []
