"""Passages within a budget of tokens: which ones a model gets to see."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from ragbench.types import Document

_CHARACTERS_A_TOKEN = 4
_WORD = re.compile(r"\s*\S+")


def estimate_tokens(text: str) -> int:
    """Estimate the tokens of a text without the model's tokeniser.

    Four ASCII characters are a token, as OpenAI's help page says of English; every other character
    counts as one, which is about what Chinese and Japanese take, and more than other scripts do.

    Example:
        >>> estimate_tokens("volcanoes"), estimate_tokens("火山"), estimate_tokens("")
        (3, 2, 0)
    """
    plain = sum(character < "\x80" for character in text)
    return -(-plain // _CHARACTERS_A_TOKEN) + len(text) - plain


def fit(
    passages: Sequence[Document],
    budget: int | None,
    count: Callable[[str], int] = estimate_tokens,
) -> list[Document]:
    """Return the passages that fit into a budget of tokens, best first.

    Whole passages are taken as long as they fit. The first that does not is cut after the last
    word that does, or left out where not one fits; those after it are left out.

    Args:
        passages: Best first.
        budget: Tokens of all titles and texts together; None takes all.
        count: Counts the tokens of a text.

    Example:
        >>> passages = [Document("a", "one two"), Document("b", "three four five"), Document("c")]
        >>> [document.text for document in fit(passages, 4)]
        ['one two', 'three']
    """
    if budget is None:
        return list(passages)
    kept: list[Document] = []
    left = budget
    for passage in passages:
        tokens = count(passage.full_text)
        if tokens <= left:
            kept.append(passage)
            left -= tokens
            continue
        if (cut := _cut(passage, left, count)) is not None:
            kept.append(cut)
        break
    return kept


def _cut(passage: Document, left: int, count: Callable[[str], int]) -> Document | None:
    """The passage up to the last word that fits, found by halving; None where none does."""
    ends = [match.end() for match in _WORD.finditer(passage.text)]
    low, high = 0, len(ends)
    while low < high:
        middle = (low + high + 1) // 2
        text = replace(passage, text=passage.text[: ends[middle - 1]]).full_text
        low, high = (middle, high) if count(text) <= left else (low, middle - 1)
    return replace(passage, text=passage.text[: ends[low - 1]]) if low else None
