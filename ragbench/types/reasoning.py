"""Reasoning of models: where it ends in a text, and where the answer begins.

Models write their reasoning in front of the answer, between tags such as `<think>`, or in channels.
"""

from __future__ import annotations

import re
from typing import Literal, get_args

from ragbench.errors import OptionError
from ragbench.types.reasoning_tags import find_block

# cut: an answer is read without the reasoning in front of it; keep: as it was written.
Reasoning = Literal["cut", "keep"]

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
        block = find_block(answer, is_first=not blocks)
        if block is None:
            break
        blocks.append(answer[block.start : block.end].strip())
        answer = answer[block.following :].lstrip()
    if not blocks:
        return "", text
    return "\n\n".join(filter(None, blocks)), _unwrapped(answer)


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
