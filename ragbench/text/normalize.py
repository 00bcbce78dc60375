"""Answers in the normal form in which SQuAD compares them."""

from __future__ import annotations

import re
import string
import unicodedata

_ARTICLES = re.compile(r"\b(?:a|an|the)\b")
_ASCII_PUNCTUATION = str.maketrans("", "", string.punctuation)


class _Punctuation(dict[int, "int | None"]):
    """Code point -> None for punctuation, itself otherwise; filled as characters are met."""

    def __missing__(self, code: int) -> int | None:
        character = chr(code)
        drop = character in string.punctuation or unicodedata.category(character)[0] == "P"
        self[code] = None if drop else code
        return self[code]


_PUNCTUATION = _Punctuation()


def normalize_answer(text: str) -> str:
    """Lower-case, without punctuation, English articles and extra white space.

    For ASCII this is the normalisation of the SQuAD script. Beyond ASCII, composed and decomposed
    accents are the same (NFC), and punctuation of every script is dropped.

    Example:
        >>> normalize_answer("The  Eiffel-Tower, “Paris”!")
        'eiffeltower paris'

    References:
        Rajpurkar et al. (2016), SQuAD, section 6.1.
    """
    text = text.lower()
    if text.isascii():
        text = text.translate(_ASCII_PUNCTUATION)
    else:
        text = unicodedata.normalize("NFC", text).translate(_PUNCTUATION)
    return " ".join(_ARTICLES.sub(" ", text).split())
