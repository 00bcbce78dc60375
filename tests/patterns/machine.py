"""A matcher for patterns of `re` that counts its steps: seconds depend on the machine.

It compiles the tree of Python's own parser to a small program, and backtracks as `re` does: first
alternatives first. A test compares its matches with those of `re`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any

try:
    from re import _parser as parser
except ImportError:  # Python 3.10
    import sre_parse as parser

MANY = 1_000
"""A repeat that may take so many turns counts as one without a limit."""

_FLAGS = int(re.IGNORECASE | re.DOTALL | re.ASCII)
"""Flags that decide whether a node accepts a character."""

Accepts = Callable[[str], bool]
Groups = Mapping[tuple[int, str], int]
Instruction = tuple[Any, ...]
State = tuple[int, Groups]


class TooManySteps(Exception):
    """The matches take more steps than the caller allows."""


def tree_of(pattern: re.Pattern[Any]) -> Any:
    """Return the tree of a pattern."""
    return parser.parse(pattern.pattern, pattern.flags)


class Machine:
    """A pattern as a program, with the number of steps that its matches took."""

    def __init__(self, pattern: re.Pattern[Any], most: int = 5_000_000) -> None:
        self.steps, self._most = 0, most
        self._operations = {
            name: getattr(self, f"_{name}")
            for name in ("leave", "at", "back", "look", "atomic", "if")
        }
        self._program = _program(pattern)

    def spans(self, text: str, method: str) -> list[tuple[int, int]]:
        """Return (start, end) of the matches that a method of a pattern finds in a text.

        Raises:
            TooManySteps: All matches of this machine took more steps than `most`.
        """
        if method in ("match", "fullmatch"):
            end = self._match(text, 0, is_whole=method == "fullmatch")
            return [] if end is None else [(0, end)]
        spans = self._search(text)
        return [span] if method == "search" and (span := next(spans, None)) else list(spans)

    def _search(self, text: str) -> Iterator[tuple[int, int]]:
        """Yield (start, end) of each match from left to right, as `finditer` does."""
        start, was_empty = 0, False
        while start <= len(text):
            # the match after an empty one takes a character, or begins later
            end = self._match(text, start, wrong_end=start if was_empty else -1)
            if end is None:
                start, was_empty = start + 1, False
                continue
            yield start, end
            start, was_empty = end, end == start

    def _match(
        self, text: str, start: int, *, is_whole: bool = False, wrong_end: int = -1
    ) -> int | None:
        """Return the end of the match that begins at `start`, or None."""
        for end, _ in self._ends(self._program, text, start, {}):
            if end != wrong_end and (end == len(text) or not is_whole):
                return end
        return None

    def _ends(
        self, program: list[Instruction], text: str, start: int, groups: Groups
    ) -> Iterator[State]:
        """Yield the (end, groups) of a program from a position, in the order of backtracking."""
        stack, steps, size = [(0, start, groups)], 0, len(text)
        while stack:
            pc, position, groups = stack.pop()
            while pc < len(program):
                steps += 1
                operation, value, other = program[pc]
                pc += 1
                if operation == "char":
                    if position == size or not value(text[position]):
                        break
                    position += 1
                elif operation == "split":
                    stack.append((other, position, groups))
                    pc = value
                elif operation == "jump":
                    pc = value
                elif operation == "save":
                    groups = {**groups, value: position}
                else:
                    state = self._operations[operation](text, position, groups, value, other)
                    if state is None:
                        break
                    jump, position, groups = state
                    pc = pc if jump is None else jump
            else:
                self.steps, steps = self.steps + steps, 0
                yield position, groups
            if self.steps + steps > self._most:
                raise TooManySteps
        self.steps += steps

    # One method per operation, which returns (next instruction or None, position, groups), or None
    # where the text does not match.

    def _leave(self, text, position, groups, name, target):
        """Leave a loop whose last turn took no character."""
        return (target if groups[name] == position else None), position, groups

    def _at(self, text, position, groups, holds, _):
        return (None, position, groups) if holds(text, position) else None

    def _back(self, text, position, groups, group, fold):
        if (group, "end") not in groups:
            return None
        word = text[groups[group, "start"] : groups[group, "end"]]
        self.steps += len(word)
        end = position + len(word)
        return (None, end, groups) if fold(text[position:end]) == fold(word) else None

    def _look(self, text, position, groups, value, is_wanted):
        program, width = value
        start = position - width
        state = next(self._ends(program, text, start, groups), None) if start >= 0 else None
        if (state is not None) != is_wanted:
            return None
        return None, position, groups if state is None else state[1]

    def _atomic(self, text, position, groups, program, _):
        state = next(self._ends(program, text, position, groups), None)
        return None if state is None else (None, *state)

    def _if(self, text, position, groups, group, target):
        return (None if (group, "end") in groups else target), position, groups


class _Compiler:
    """Compile trees to programs."""

    def __init__(self, flags: int) -> None:
        self._flags = flags
        self._loops = 0

    def program(self, tree: Any) -> list[Instruction]:
        """Return the program of a tree."""
        out: list[Instruction] = []
        self._add(tree, out)
        return out

    def _add(self, tree: Any, out: list[Instruction]) -> None:
        for operation, value in tree:
            name = str(operation).lower()
            if accepts := accepts_of(name, value, self._flags):
                out.append(("char", accepts, None))
            else:
                getattr(self, f"_{name}")(value, out)

    def _at(self, value: Any, out: list[Instruction]) -> None:
        out.append(("at", _place(str(value).lower(), self._flags), None))

    def _groupref(self, value: int, out: list[Instruction]) -> None:
        is_folded = self._flags & re.IGNORECASE
        out.append(("back", value, str.lower if is_folded else str))

    def _subpattern(self, value: Any, out: list[Instruction]) -> None:
        group, added, removed, tree = value
        before, self._flags = self._flags, (self._flags | added) & ~removed
        if group is not None:
            out.append(("save", (group, "start"), None))
        self._add(tree, out)
        if group is not None:
            out.append(("save", (group, "end"), None))
        self._flags = before

    def _branch(self, value: Any, out: list[Instruction]) -> None:
        ends = []
        for tree in value[1][:-1]:
            split = _reserve(out)
            self._add(tree, out)
            ends.append(_reserve(out))
            out[split] = ("split", split + 1, len(out))
        self._add(value[1][-1], out)
        for end in ends:
            out[end] = ("jump", len(out), None)

    def _max_repeat(self, value: Any, out: list[Instruction], is_greedy: bool = True) -> None:
        least, most, tree = value
        for _ in range(int(least)):
            self._add(tree, out)
        if int(most) >= MANY:
            self._loop(tree, out, is_greedy)
            return
        splits = []
        for _ in range(int(most) - int(least)):
            splits.append(_reserve(out))
            self._add(tree, out)
        for split in splits:
            targets = (split + 1, len(out)) if is_greedy else (len(out), split + 1)
            out[split] = ("split", *targets)

    def _min_repeat(self, value: Any, out: list[Instruction]) -> None:
        self._max_repeat(value, out, is_greedy=False)

    def _possessive_repeat(self, value: Any, out: list[Instruction]) -> None:
        inner: list[Instruction] = []
        self._max_repeat(value, inner)
        out.append(("atomic", inner, None))

    def _loop(self, tree: Any, out: list[Instruction], is_greedy: bool) -> None:
        """Add a loop without a limit; a turn that takes no character is its last one."""
        self._loops += 1
        name = (-self._loops, "start")
        split = _reserve(out)
        may_be_empty = tree.getwidth()[0] == 0
        if may_be_empty:
            out.append(("save", name, None))
        self._add(tree, out)
        leave = _reserve(out) if may_be_empty else None
        out.append(("jump", split, None))
        if leave is not None:
            out[leave] = ("leave", name, len(out))
        targets = (split + 1, len(out)) if is_greedy else (len(out), split + 1)
        out[split] = ("split", *targets)

    def _atomic_group(self, tree: Any, out: list[Instruction]) -> None:
        out.append(("atomic", self.program(tree), None))

    def _assert(self, value: Any, out: list[Instruction], is_wanted: bool = True) -> None:
        direction, tree = value
        width = tree.getwidth()[0] if direction < 0 else 0
        out.append(("look", (self.program(tree), width), is_wanted))

    def _assert_not(self, value: Any, out: list[Instruction]) -> None:
        self._assert(value, out, is_wanted=False)

    def _groupref_exists(self, value: Any, out: list[Instruction]) -> None:
        group, tree, other_tree = value
        condition = _reserve(out)
        self._add(tree, out)
        end = _reserve(out)
        out[condition] = ("if", group, len(out))
        self._add(other_tree or [], out)
        out[end] = ("jump", len(out), None)


@cache  # to compile takes longer than to read a text
def _program(pattern: re.Pattern[Any]) -> list[Instruction]:
    return _Compiler(pattern.flags).program(tree_of(pattern))


def _reserve(out: list[Instruction]) -> int:
    """Return the place of an instruction whose target is not known yet."""
    out.append(())
    return len(out) - 1


def accepts_of(name: str, value: Any, flags: int) -> Accepts | None:
    """Return a function that tells if a node accepts a character; None for nodes of another kind.

    Python's own `re` decides, once for each character.
    """
    if name not in ("literal", "not_literal", "any", "in"):
        return None
    return _accepts(_one_character(name, value), flags & _FLAGS)


class _Acceptance(dict[str, bool]):
    """Character -> True if a pattern of one character matches it."""

    def __init__(self, pattern: re.Pattern[str]) -> None:
        self._pattern = pattern

    def __missing__(self, character: str) -> bool:
        self[character] = self._pattern.fullmatch(character) is not None
        return self[character]


@cache
def _accepts(node: str, flags: int) -> Accepts:
    return _Acceptance(re.compile(node, flags)).__getitem__


def _one_character(name: str, value: Any) -> str:
    """Return the pattern of a node that takes one character."""
    if name == "any":
        return "."
    if name in ("literal", "not_literal"):
        return f"[{'^' if name == 'not_literal' else ''}{_escaped(value)}]"
    return "[" + "".join(_item(str(kind).lower(), item) for kind, item in value) + "]"


def _item(kind: str, value: Any) -> str:
    """Return an item of a set."""
    if kind == "negate":
        return "^"
    if kind == "literal":
        return _escaped(value)
    if kind == "range":
        return f"{_escaped(value[0])}-{_escaped(value[1])}"
    return {"digit": r"\d", "space": r"\s", "word": r"\w"}.get(
        category := str(value).lower().removeprefix("category_"),
        "\\" + category.removeprefix("not_")[0].upper(),
    )


def _escaped(code: int) -> str:
    return f"\\U{code:08x}"


def _place(name: str, flags: int) -> Callable[[str, int], bool]:
    """Return a function that tells if a place such as `^` is at a position."""
    is_multiline = flags & re.MULTILINE
    signs = {
        "at_beginning": "^" if is_multiline else r"\A",
        "at_beginning_line": "(?m:^)",
        "at_beginning_string": r"\A",
        "at_end": "(?m:$)" if is_multiline else "$",
        "at_end_string": r"\Z",
        "at_boundary": r"\b",
        "at_non_boundary": r"\B",
    }
    sign = re.compile(signs[name], flags & (re.MULTILINE | re.ASCII))
    return lambda text, position: sign.match(text, position) is not None
