"""Tags around the reasoning of a model: where a block of reasoning begins and ends in a text.

A text that mentions such a tag, in code or in a sentence, has no reasoning.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

# Opening tag -> closing tag, in lower case.
_TAGS = {
    "<think>": "</think>",  # DeepSeek, Qwen and most others
    "<thinking>": "</thinking>",
    "<thought>": "</thought>",  # EXAONE
    "<reasoning>": "</reasoning>",  # usual in fine-tuning by rewards
    "[think]": "[/think]",  # Magistral
    "◁think▷": "◁/think▷",  # Kimi
    "<seed:think>": "</seed:think>",  # Seed-OSS
    "<|begin_of_thought|>": "<|end_of_thought|>",  # OpenThinker
    "<|start_thinking|>": "<|end_thinking|>",  # Command A
}
# First characters of closing tags: most texts have none of them.
_MARKS = sorted({closing[0] for closing in _TAGS.values()})
_OPENING = re.compile(rf"\s*({'|'.join(map(re.escape, _TAGS))})", re.IGNORECASE)
_EITHER: dict[str, re.Pattern[str]] = {}
for _opening, _closing in _TAGS.items():
    _either = f"{re.escape(_opening)}|{re.escape(_closing)}"
    _EITHER[_opening] = re.compile(_either, re.IGNORECASE)
# Fenced and inline code.
_CODE = re.compile(r"(```|~~~).*?\1|`[^`\n]+`", re.DOTALL)
# Words and marks behind a tag that is the subject of a sentence: "<think> is a tag".
_SUBJECT = re.compile(
    r"[ \t]+(?:is|are|was|were|and|or|tags?|tokens?|blocks?|marks?|opens?|starts?|begins?|means)\b"
    r"|[ \t]*[,;:)]"
)
_IN_SENTENCE = re.compile(r"[ \t]+[a-z]|[ \t]*[,.;:)]")
_QUOTES = frozenset("\"'“”‘’«»„")
_BRACKETS = frozenset("([{<`")
# Most blanks between a tag and the end of its line.
_INDENT = 16


class ReasoningBlock(NamedTuple):
    """Start and end of a block of reasoning in a text, and the position behind its closing tag."""

    start: int
    end: int
    following: int


class _Tag(NamedTuple):
    """Opening or closing tag in a text."""

    start: int
    end: int  # behind its last character
    closes: bool
    at_line: bool  # at the start of a line, or in front of a line end
    in_code: bool


def find_block(text: str, *, is_first: bool) -> ReasoningBlock | None:
    """Return the block of reasoning at the beginning of a text; None without one.

    The opening tag of the first block may be missing, since some templates put it into the prompt.

    Example:
        >>> find_block("<think>Two.</think> 4", is_first=True)
        ReasoningBlock(start=7, end=11, following=19)
    """
    opening = _OPENING.match(text)
    if opening is not None:
        return _block(text, opening)
    return _lone_block(text) if is_first else None


def _block(text: str, opening: re.Match[str]) -> ReasoningBlock | None:
    """Return the block behind an opening tag; None if the tag is the subject of a sentence."""
    tags = list(_tags_of(opening[1].lower(), text, opening.end()))
    is_subject = _SUBJECT.match(text, opening.end()) is not None
    for in_code in (False, True):
        closing = _matching([tag for tag in tags if tag.at_line and tag.in_code == in_code])
        if closing is not None:
            return ReasoningBlock(opening.end(), closing.start, closing.end)
    last = next((tag for tag in reversed(tags) if tag.closes and not tag.in_code), None)
    if last is None:
        return None if is_subject else ReasoningBlock(opening.end(), len(text), len(text))
    if is_subject and _IN_SENTENCE.match(text, last.end):
        return None
    return ReasoningBlock(opening.end(), last.start, last.end)


def _matching(tags: list[_Tag]) -> _Tag | None:
    """Return the closing tag that ends the block, by the depth of the tags; else the last one."""
    depth = 1
    for tag in tags:
        depth += -1 if tag.closes else 1
        if not depth:
            return tag
    for tag in reversed(tags):
        if tag.closes:
            return tag
    return None


def _lone_block(text: str) -> ReasoningBlock | None:
    """Return the block of reasoning whose opening tag is in the prompt."""
    if text.lstrip()[:1] in ("{", "[") or not any(mark in text for mark in _MARKS):
        return None
    lowered = text.lower()
    for opening, closing in _TAGS.items():
        if closing not in lowered:
            continue
        tags = [tag for tag in _tags_of(opening, text, 0) if not tag.in_code]
        if (tag := _lone_closing(text, tags)) is not None:
            return ReasoningBlock(0, tag.start, tag.end)
    return None


def _lone_closing(text: str, tags: list[_Tag]) -> _Tag | None:
    """Return the first closing tag on a line of its own, else the last one at the end of a word."""
    has_opening = has_line_opening = False
    inline = None
    for tag in tags:
        if not tag.closes:
            has_opening, has_line_opening = True, has_line_opening or tag.at_line
        elif tag.at_line and not has_line_opening:
            return tag
        elif not has_opening and not _is_mentioned(text, tag):
            inline = tag
    return inline


def _is_mentioned(text: str, tag: _Tag) -> bool:
    """Return True for a tag behind a blank or a bracket, or in quotation marks."""
    previous, following = text[max(0, tag.start - 1) : tag.start], text[tag.end : tag.end + 1]
    is_quoted = {previous, following} <= _QUOTES
    return previous.isspace() or previous in _BRACKETS or is_quoted


def _tags_of(opening: str, text: str, start: int) -> Iterator[_Tag]:
    """Yield the opening and closing tags of a kind from a position on, in their order."""
    codes = _CODE.finditer(text, start)
    code = next(codes, None)
    for match in _EITHER[opening].finditer(text, start):
        while code is not None and code.end() <= match.start():
            code = next(codes, None)
        yield _Tag(
            match.start(),
            match.end(),
            match[0].lower() != opening,
            _is_at_line(text, match),
            code is not None and code.start() < match.start(),
        )


def _is_at_line(text: str, tag: re.Match[str]) -> bool:
    """Return True for a tag at the start of a line but the first, or in front of a line end."""
    prefix = text[max(0, tag.start() - _INDENT) : tag.start()].rstrip(" \t")
    suffix = text[tag.end() : tag.end() + _INDENT].lstrip(" \t\r")
    return prefix.endswith("\n") or suffix.startswith("\n")
