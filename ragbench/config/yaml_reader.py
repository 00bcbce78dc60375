"""Reader of YAML as a tree with places; syntax errors become problems in plain words."""

from __future__ import annotations

import functools
import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from ragbench.config.tree import (
    MAX_DEPTH,
    SURROGATE,
    UNREADABLE,
    KeyEntry,
    KeyPath,
    Node,
    Report,
    ScalarError,
    is_level,
    resolve,
)
from ragbench.errors import Place

# Values in a config, aliases counted in full: an alias of aliases of aliases grows quickly.
MAX_NODES = 100_000

# The parser in C is much faster, and PyYAML may be built without it
_PARSER = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
_TAG = "tag:yaml.org,2002:"
_TAGS = {
    "scalar": {f"{_TAG}{name}" for name in ("str", "int", "float", "bool", "null")},
    "list": {f"{_TAG}seq"},
    "mapping": {f"{_TAG}map"},
}
# The line breaks that the YAML parser counts, so that columns fit its marks
_BREAK = re.compile("\r\n|[\n\r\x85\u2028\u2029]")
# Everything outside the printable set of YAML, which the parser would report without a place. The
# characters themselves: Python compiles them in a tenth of the time of a set of all others.
_UNPRINTABLE = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\ud800-\udfff\ufeff\ufffe\uffff]"
)


_TOO_DEEP = f"more than {MAX_DEPTH} levels deep"


@functools.cache
def _loader(parser: Any) -> Any:
    """Return a subclass of a loader of PyYAML; its nodes have an empty tag if the text has none."""

    class Loader(parser):  # type: ignore[misc]
        def resolve(self, kind: Any, value: Any, implicit: Any) -> str:
            return ""

    return Loader


class _StopReadingError(Exception):
    """The rest of the text cannot be read; the problem is in the report."""


def read_file(path: Path, report: Report) -> Node | None:
    """Return the tree of a config file; None, with a problem, if it is no YAML mapping in UTF-8."""
    file = os.fspath(path)
    try:
        data = path.read_bytes()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        reason = "no such file" if isinstance(error, FileNotFoundError) else reason
        reason = "a folder, not a file" if os.path.isdir(path) else reason
        report.add(Place(file), (), reason, "a YAML file")
        return None
    text = _decode(data, file, report)
    tree = None if text is None else read_yaml(text, file, report)
    if tree is None or isinstance(tree.value, dict):
        return tree
    is_empty = tree.value is None and not tree.source
    problem = "the file is empty" if is_empty else f"found {tree.quote()}"
    report.wrong(tree, problem, "a mapping with the key 'dataset'")
    return None


def read_yaml(text: str, file: str | None, report: Report) -> Node | None:
    """Return the tree of a YAML text; None, with a problem, if it cannot be read at all.

    An empty text gives a null. Mistakes that leave a tree, such as repeated keys, are problems too.

    Args:
        text: The text.
        file: Name of the file, for places; None for a text without a file.
        report: Receives the problems.
    """
    reader = _YamlReader(text, file, report)
    tree = reader.read()
    if tree is None:
        report.conceal(reader.lines)
    return tree


def read_value(text: str, place: Place, path: KeyPath, report: Report) -> Node | None:
    """Return the tree of a value, as in `--set key=value`; None, with a problem, if it is no YAML.

    An empty text is null.

    Args:
        text: The value.
        place: Place of everything in it, such as the override.
        path: Path of the value.
        report: Receives the problems.
    """
    return _YamlReader(text, place.file, report, place, path).read()


def _decode(data: bytes, file: str, report: Report) -> str | None:
    """Return the text of a file without a byte order mark; None, with a problem, if not UTF-8."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        lines = _BREAK.split(data[: error.start].decode("utf-8-sig", "replace"))
        tail = _BREAK.split(data[error.start : error.start + 200].decode("utf-8", "replace"))[0]
        place = Place(file, len(lines), len(lines[-1]) + 1, lines[-1] + tail)
        report.add(place, (), f"byte 0x{data[error.start]:02x} is not UTF-8", "a file in UTF-8")
        return None


@dataclass(slots=True)
class _YamlReader:
    """Converter of the YAML nodes of one text to the tree of a config; `read` returns the tree."""

    text: str
    file: str | None
    report: Report
    fixed: Place | None = None  # of all values; without it, their lines and columns
    root: KeyPath = ()
    lines: list[str] = field(init=False)
    # id of a YAML node -> its node and number of values: an alias is the same YAML node again
    items: dict[int, tuple[Node, int]] = field(default_factory=dict)
    nodes: int = 0  # values so far, aliases counted in full

    def __post_init__(self) -> None:
        self.lines = _BREAK.split(self.text)

    def read(self) -> Node | None:
        """Return the tree of the one document; None, with a problem, if it cannot be read."""
        if not self._is_printable():
            return None
        try:
            yaml_node = yaml.compose(self.text, Loader=_loader(_PARSER))
            if yaml_node is None:
                return Node(None, self._place_at(0, 0, 1), self.root)
            return self._item(yaml_node, self.root, 0)
        except yaml.MarkedYAMLError as error:
            self._explain(error)
        # the parser itself recurses, before the nesting is counted
        except RecursionError:
            self.report.add(self._place_at(0, 0, 1), self.root, _TOO_DEEP, "a flatter config")
        except _StopReadingError:
            pass
        return None

    def _is_printable(self) -> bool:
        """Return False, with a problem, if the text has a character that YAML forbids."""
        character = _UNPRINTABLE.search(self.text)
        if character is None:
            return True
        lines_before = _BREAK.split(self.text[: character.start()])
        place = self._place_at(len(lines_before) - 1, len(lines_before[-1]), 1)
        problem = f"the character U+{ord(character[0]):04X} is not allowed in YAML"
        self.report.add(place, self.root, problem, 'an escape in double quotes, such as "\\u0000"')
        return False

    def _item(self, yaml_node: Any, path: KeyPath, depth: int) -> Node:
        """Return the node of a YAML node."""
        place = self._place(yaml_node)
        if id(yaml_node) in self.items:
            # an alias: counted in full, as later checks visit all its values
            node, size = self.items[id(yaml_node)]
            self._count(size, place)
            return node
        start = self.nodes
        self._count(1, place)
        if depth > MAX_DEPTH:  # also reached by an alias inside its own anchor
            self._stop(place, _TOO_DEEP, "a flatter config")
        if isinstance(yaml_node, yaml.ScalarNode):
            node = self._scalar(yaml_node, place, path)
        elif isinstance(yaml_node, yaml.SequenceNode):
            self._check_tag(yaml_node, "list", place, path)
            parts = enumerate(yaml_node.value)
            items = tuple(self._item(part, (*path, str(i)), depth + 1) for i, part in parts)
            node = Node(items, place, path)
        else:
            node = self._mapping(yaml_node, place, path, depth)
        self.items[id(yaml_node)] = (node, self.nodes - start)
        return node

    def _count(self, more: int, place: Place) -> None:
        """Add to the number of values; stop reading at the limit."""
        self.nodes += more
        if self.nodes > MAX_NODES:
            self._stop(place, f"more than {MAX_NODES:,} values", "a smaller config")

    def _scalar(self, yaml_node: Any, place: Place, path: KeyPath) -> Node:
        """Return the node of a scalar; a number that is unclear is reported and `UNREADABLE`."""
        text = str(yaml_node.value)
        self._check_tag(yaml_node, "scalar", place, path)
        if SURROGATE.search(text):
            self.report.add(place, path, "text with half a character (a lone surrogate)")
            return Node(None, place, path, "null")
        if (yaml_node.style and yaml_node.tag in ("", "!")) or yaml_node.tag == f"{_TAG}str":
            return Node(text, place, path, text, quoted=True)
        try:
            return Node(resolve(text), place, path, text)
        except ScalarError as error:
            self.report.add(place, path, error.found, error.allowed)
            # as text it would get a second problem where a number is needed
            return Node(UNREADABLE, place, path, text)

    def _mapping(self, yaml_node: Any, place: Place, path: KeyPath, depth: int) -> Node:
        """Return the node of a mapping; repeated and unusable keys are reported."""
        self._check_tag(yaml_node, "mapping", place, path)
        entries: dict[str, KeyEntry] = {}
        for key_node, value in yaml_node.value:
            key = self._item(key_node, path, depth + 1)
            name = self._key(key, path)
            node = self._item(value, (*path, name or "?"), depth + 1)
            if name is None:
                continue
            first = entries.setdefault(name, KeyEntry(key.place, node))
            if first.node is not node:
                origin = f"line {first.place.line}" if first.place.line else "before"
                problem = f"the key '{name}' is repeated; its first place is {origin}"
                self.report.add(key.place, path, problem, "each key once")
        return Node(entries, place, path)

    def _key(self, key: Node, path: KeyPath) -> str | None:
        """Return a key as text; a number that is a level of a rubric becomes text too."""
        if key.value == "<<" and not key.quoted:
            problem = "the merge key '<<' is not part of YAML 1.2"
            self.report.add(key.place, path, problem, "an alias for a whole value, or the keys")
            return None
        if isinstance(key.value, str):
            return key.value
        if is_level(key.value, path):
            return key.source
        self.report.add(key.place, path, f"the key {key.quote()} is not text", "a key in quotes")
        return None

    def _check_tag(self, yaml_node: Any, kind: str, place: Place, path: KeyPath) -> None:
        """Report a tag such as `!!binary`, other than the usual one of its kind of value."""
        if yaml_node.tag not in ("", "!") and yaml_node.tag not in _TAGS[kind]:
            tag = yaml_node.tag.replace(_TAG, "!!")
            self.report.add(place, path, f"the tag '{tag}' is not understood here", "no tag")

    def _stop(self, place: Place, problem: str, allowed: str) -> None:
        """Report a problem that ends the reading."""
        self.report.add(place, self.root, problem, allowed)
        raise _StopReadingError

    def _place(self, yaml_node: Any) -> Place:
        """Return the place of a YAML node: all of a scalar, else its first character."""
        start_mark, end_mark = yaml_node.start_mark, yaml_node.end_mark
        width = end_mark.column - start_mark.column if end_mark.line == start_mark.line else None
        if not isinstance(yaml_node, yaml.ScalarNode):  # mark the bracket or the first key alone
            width = 1
        return self._place_at(start_mark.line, start_mark.column, width)

    def _place_at(self, line: int, column: int, width: int | None) -> Place:
        """Return the place of 0-based marks; without a width, up to the end of the line."""
        if self.fixed is not None:
            return self.fixed
        source = self.lines[line] if line < len(self.lines) else ""
        if width is None:
            width = len(source) - column
        return Place(self.file, line + 1, column + 1, source, max(1, width))

    def _explain(self, error: Any) -> None:
        """Report a syntax error at the character that a person would change."""
        mark, opened = error.problem_mark or error.context_mark, error.context_mark
        problem, context = str(error.problem), str(error.context or "")
        lines = [*self.lines, ""]  # a mark at the end of the text may be behind the last line
        line = lines[mark.line]
        word = line[mark.column :]
        if opened is not None:
            start = self._place_at(opened.line, opened.column, 1)
            bracket = lines[opened.line][opened.column : opened.column + 1]
            is_open = opened.line != mark.line or not word
            if "flow" in context and bracket in _CLOSING_BRACKET and is_open:
                problem_text = f"'{bracket}' is not closed"
                self.report.add(start, self.root, problem_text, f"a '{_CLOSING_BRACKET[bracket]}'")
                return
            # the parser marks the end of the file; a person looks for the first quote
            if "quoted scalar" in context and "end of stream" in problem:
                self.report.add(start, self.root, "the quote is not closed", "a quote")
                return
        problem_text, allowed = _describe_problem(
            problem, context, re.split(r"[\s,\]}]", word)[0] or word[:1]
        )
        # braces belong to YAML there, so that `${VAR}` without quotes cannot be read
        if word.startswith("{") and line[: mark.column].endswith("$"):
            problem_text, allowed = "'${' inside braces or brackets", '"${VAR}" in quotes'
        self.report.add(self._place_at(mark.line, mark.column, 1), self.root, problem_text, allowed)


_QUOTE = 'a value with a bracket, a brace or a comma in quotes: "precision[rel=2]@5"'
_CLOSING_BRACKET = {"[": "]", "{": "}"}


# Part of a message of the parser -> the mistake in plain words, what is allowed instead
_SYNTAX_ERRORS = (
    ("alias", "'{word}' refers to nothing", "the name of an anchor above"),
    ("another document", "a second document begins", "one document per file"),
    ("nesting depth", _TOO_DEEP, "a flatter config"),
    ("start any token", "a value cannot start with '{character}'", "the value in quotes"),
    (
        "mapping values",
        "': ' inside a value",
        "the value in quotes, or the key on a line of its own",
    ),
    ("could not find expected ':'", "a key without ':'", "key: value"),
)


def _describe_problem(problem: str, context: str, word: str) -> tuple[str, str | None]:
    """Return (syntax error in plain words, what is allowed instead or None)."""
    character = word[:1]
    if character == "\t":
        return "a tab in the indentation", "spaces"
    for part, message, allowed in _SYNTAX_ERRORS:
        if part in problem:
            return message.format(word=word, character=character), allowed
    if "flow" in context:
        message = f"'{character}' is not expected here" if character else "the file ends too early"
        return message, f"a comma between values; {_QUOTE}"
    if "block" in context:
        return "the indentation does not fit the lines above", "the same column for each key"
    return f"not YAML: {problem}", None
