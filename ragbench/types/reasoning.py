"""Reasoning of models: where it ends in a text, and where the answer begins.

Models write their reasoning in front of the answer, between tags such as `<think>`. A text that
mentions such a tag, in code or in a sentence, has no reasoning.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal, NamedTuple, get_args

from ragbench.errors import OptionError

# cut: an answer is read without the reasoning in front of it; keep: as it was written.
Reasoning = Literal["cut", "keep"]

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
# Texts of several blocks of reasoning in a row; a longer row is no text of a model.
_MOST_BLOCKS = 20

# Channels of gpt-oss, and what is left of them where the server leaves out special tokens.
_CHANNELS = re.compile(r"\s*(?:<\|start\|>assistant)?<\|channel\|>(?:analysis|commentary|final)")
_MESSAGE = re.compile(
    r"<\|channel\|>(\w+)\b[^<]*(?:<\|constrain\|>[^<]*)?<\|message\|>"
    r"(.*?)(?=<\|(?:end|return|call|start|channel)\|>|\Z)",
    re.DOTALL,
)
_BARE_CHANNELS = re.compile(r"\s*analysis(?=\w)")
_BARE_ANALYSIS = re.compile(r"\s*analysis(?=[A-Z])")
_BARE_FINAL = "assistantfinal"

# Tags around a whole answer, which some models write behind their reasoning.
_WRAPPERS = {
    "<answer>": "</answer>",
    "<response>": "</response>",
    "<output>": "</output>",
    "<|begin_of_solution|>": "<|end_of_solution|>",
    "<|start_response|>": "<|end_response|>",
}
_WRAPPER = re.compile("|".join(map(re.escape, _WRAPPERS)), re.IGNORECASE)


def check_reasoning(owner: str, value: object) -> None:
    """Raise an OptionError of `owner` for another value of the option than `cut` and `keep`."""
    if value not in get_args(Reasoning):
        raise OptionError(owner, "reasoning", value, ", ".join(get_args(Reasoning)))


class _Tag(NamedTuple):
    """Opening or closing tag in a text."""

    start: int
    end: int  # behind its last character
    closes: bool
    at_line: bool  # at the start of a line, or in front of a line end
    in_code: bool


def split_reasoning(text: str) -> tuple[str, str]:
    r"""Return the reasoning and the answer of a text; '' and the text if it has no reasoning.

    Reasoning stands between an opening tag at the beginning of the text and its closing tag:
    `<think>`, `<thinking>`, `<thought>`, `<reasoning>`, `[THINK]`, `◁think▷` and their like, or in
    the channels of gpt-oss. The opening tag may be missing, since some templates put it into the
    prompt; a text that begins as JSON has no reasoning then. The reasoning may quote the closing
    tag: a closing tag on a line of its own comes before one inside a line. Tags around the whole
    answer (`<answer>`) are left out. If the closing tag is missing, the answer is empty.

    Example:
        >>> split_reasoning("<think>\nTwo.\n</think>\n\n4")
        ('Two.', '4')
        >>> split_reasoning("<think>Two and"), split_reasoning("4")
        (('Two and', ''), ('', '4'))
        >>> split_reasoning("End the block with `</think>`.")
        ('', 'End the block with `</think>`.')
    """
    if (parts := _split_channels(text)) is not None:
        return parts
    blocks: list[str] = []
    answer = text
    for _ in range(_MOST_BLOCKS):
        opening = _OPENING.match(answer)
        if opening is None and blocks:
            break
        block = _lone_block(answer) if opening is None else _block(answer, opening)
        if block is None:
            break
        start, end, following = block
        blocks.append(answer[start:end].strip())
        answer = answer[following:].lstrip()
    if not blocks:
        return "", text
    return "\n\n".join(filter(None, blocks)), _unwrapped(answer)


def _block(text: str, opening: re.Match[str]) -> tuple[int, int, int] | None:
    """Return start and end of a block of reasoning, and the position behind its closing tag."""
    tags = list(_tags_of(opening[1].lower(), text, opening.end()))
    is_subject = _SUBJECT.match(text, opening.end()) is not None
    for in_code in (False, True):
        closing = _matching([tag for tag in tags if tag.at_line and tag.in_code == in_code])
        if closing is not None:
            return opening.end(), closing.start, closing.end
    last = next((tag for tag in reversed(tags) if tag.closes and not tag.in_code), None)
    if last is None:
        return None if is_subject else (opening.end(), len(text), len(text))
    if is_subject and _IN_SENTENCE.match(text, last.end):
        return None
    return opening.end(), last.start, last.end


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


def _lone_block(text: str) -> tuple[int, int, int] | None:
    """Return start and end of reasoning whose opening tag is in the prompt."""
    if text.lstrip()[:1] in ("{", "[") or not any(mark in text for mark in _MARKS):
        return None
    lowered = text.lower()
    for opening, closing in _TAGS.items():
        if closing not in lowered:
            continue
        tags = [tag for tag in _tags_of(opening, text, 0) if not tag.in_code]
        if (tag := _lone_closing(text, tags)) is not None:
            return 0, tag.start, tag.end
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


def _split_channels(text: str) -> tuple[str, str] | None:
    """Return the reasoning and the answer of a text of gpt-oss; None for any other text."""
    if _CHANNELS.match(text):
        answer, thoughts = "", list[str]()
        for channel, content in _MESSAGE.findall(text):
            if channel == "final":
                answer = content.strip()  # of several the last counts
            else:
                thoughts.append(content.strip())
        return "\n\n".join(thoughts), answer
    if (opening := _BARE_CHANNELS.match(text)) and _BARE_FINAL in text:
        thought, _, answer = text[opening.end() :].rpartition(_BARE_FINAL)
        return thought.strip(), answer.strip()
    if opening := _BARE_ANALYSIS.match(text):
        return text[opening.end() :].strip(), ""
    return None


def _unwrapped(answer: str) -> str:
    """Return an answer without the tags around all of it; the closing one may be missing."""
    opening = _WRAPPER.match(answer)
    if opening is None:
        return answer
    closing = _WRAPPERS[opening[0].lower()]
    inner = answer[opening.end() :].strip()
    if inner[-len(closing) :].lower() == closing:
        inner = inner[: -len(closing)].strip()
    return answer if closing in inner.lower() else inner
