"""Sentences of a text, by rules: full stops that end one, and full stops that do not."""

# ruff: noqa: RUF001 - the punctuation of many scripts is the subject here

from __future__ import annotations

import functools
import re
from pathlib import Path

from ragbench.text.stopwords import load

_CLOSERS = "\"'”’»)\\]"
_BOUNDARY = re.compile(
    rf"[.!?…](?![.!?…])[{_CLOSERS}]*(?=\s)"  # Latin and alike: a space must follow
    r"|[。！？｡]+[”’」』）]*"  # Chinese and Japanese: nothing need follow
    r"|[।؟](?=\s)"  # Hindi, Arabic
    r"|(?=\n[ \t]*\n)"  # an empty line ends a sentence whatever it ends with
    r"|(?=\n[ \t]*(?:[-*•]|\d{1,3}[.)])[ \t])"  # the next line is an item of a list
)
_LAST_WORD = re.compile(r"(\S+?)\.+[" + _CLOSERS + r"]*$")
_NEXT_WORD = re.compile(r"[\s\"'“‘«(\[]*(\w+)")
_OPENERS = "\"'“‘«([¿¡"
# These are abbreviations only before a number: No. 7, Fig. 3, pp. 12
_BEFORE_NUMBERS = frozenset(
    ["art", "ch", "chap", "eq", "eqs", "fig", "figs", "no", "nos", "nr", "p", "pp", "sec", "vol"]
)
# These may end a sentence: they do where a function word starts the next one.
_MAY_END = frozenset(["co", "corp", "etc", "inc", "jr", "ltd", "a.m", "p.m", "u.s", "u.k", "e.u"])


def sentences(text: str) -> list[str]:
    """Split a text into sentences, stripped, in order; no word is lost or added.

    Decimals, initials (`J. Smith`), common abbreviations and a full stop before a word in lower
    case end no sentence; quotes and brackets stay with the sentence that they close. Items of a
    list and paragraphs are sentences of their own. An empty text has none.

    Example:
        >>> sentences("Dr. Smith paid 3.14 euros. 'Really?' she asked. It was J. R. Smith.")
        ['Dr. Smith paid 3.14 euros.', "'Really?' she asked.", 'It was J. R. Smith.']
        >>> sentences("これは本です。あれはペンです。")
        ['これは本です。', 'あれはペンです。']
    """
    # Where nothing is in upper case, a lower-case start says nothing.
    cased = not text.islower()
    found, start = [], 0
    for boundary in _BOUNDARY.finditer(text):
        end = boundary.end()
        if boundary.group() and not _ends(text, start, end, cased):
            continue
        if piece := text[start:end].strip():
            found.append(piece)
        start = end
    if piece := text[start:].strip():
        found.append(piece)
    return found


def _ends(text: str, start: int, end: int, cased: bool) -> bool:
    """Whether the punctuation before `end` ends the sentence that began at `start`."""
    following = _NEXT_WORD.match(text, end)
    next_word = following.group(1) if following else ""
    if cased and next_word[:1].islower():
        return False
    last = _LAST_WORD.search(text, max(start, end - 60), end)
    if last is None:  # it ends in ! or ?, or in a stop of another script
        return True
    word = last.group(1).lstrip(_OPENERS)
    folded = word.lower()
    if folded in _BEFORE_NUMBERS:
        return not next_word[:1].isdigit()
    if folded in _MAY_END or (len(word) == 1 and word.isupper()):
        return not next_word or next_word.lower() in load("english")
    # "1. Open the door": the number of an item, at the start of its sentence
    if word.isdigit() and text[start:end].strip() == last.group():
        return False
    return folded not in _abbreviations()


@functools.cache
def _abbreviations() -> frozenset[str]:
    lines = Path(__file__).with_name("abbreviations.txt").read_text(encoding="utf-8").splitlines()
    return frozenset(word for line in lines if not line.startswith("#") for word in line.split())
