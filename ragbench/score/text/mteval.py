"""The tokeniser `13a` of mteval-v13a and sacrebleu, one word at a time and from memory."""

from __future__ import annotations

import itertools
import re

from ragbench.text.memory import Memory

_REMEMBERED = 100_000  # words
_LONGEST = 64  # characters of a word that is worth remembering

_SYMBOL = re.compile(r"([!-&(-+/:-@\[-`{-~])")
_POINT_AFTER_NON_DIGIT = re.compile(r"([^0-9])([.,])")
_POINT_BEFORE_NON_DIGIT = re.compile(r"([.,])([^0-9])")
_DASH_AFTER_DIGIT = re.compile(r"([0-9])(-)")


def _split(word: str) -> tuple[str, ...]:
    """Split the punctuation off one word without white space in it."""
    if word.isalnum():
        return (word,)
    word = _SYMBOL.sub(r" \1 ", f" {word} ")
    word = _POINT_AFTER_NON_DIGIT.sub(r"\1 \2 ", word)
    word = _POINT_BEFORE_NON_DIGIT.sub(r" \1 \2", word)
    return tuple(_DASH_AFTER_DIGIT.sub(r"\1 \2 ", word).split())


_split_remembered = Memory(_split, _REMEMBERED, _LONGEST).__getitem__


def tokenize_13a(text: str) -> list[str]:
    """Split a text into the tokens that sacrebleu's default tokeniser gives.

    No rule of 13a looks across white space once `<skipped>`, hyphenated line ends and the four
    entities are resolved, so that words can be split one by one and remembered.

    Example:
        >>> tokenize_13a("It's 3.14, e.g. &quot;pi&quot;.")
        ["It's", '3.14', ',', 'e', '.', 'g', '.', '"', 'pi', '"', '.']
    """
    text = text.rstrip()
    if "<skipped>" in text:
        text = text.replace("<skipped>", "")
    if "-\n" in text:
        text = text.replace("-\n", "")
    if "&" in text:
        for entity, character in _ENTITIES:
            text = text.replace(entity, character)
    return list(itertools.chain.from_iterable(map(_split_remembered, text.split())))


# In this order: `&amp;lt;` becomes `<`, as in the original.
_ENTITIES = (("&quot;", '"'), ("&amp;", "&"), ("&lt;", "<"), ("&gt;", ">"))
