"""Languages by ISO 639-1 code and by English name."""

from __future__ import annotations

NAMES = {
    "ar": "arabic",
    "da": "danish",
    "de": "german",
    "en": "english",
    "es": "spanish",
    "fi": "finnish",
    "fr": "french",
    "hu": "hungarian",
    "it": "italian",
    "nl": "dutch",
    "no": "norwegian",
    "pt": "portuguese",
    "ro": "romanian",
    "ru": "russian",
    "sv": "swedish",
}
"""Code -> name, for the languages that stemmers and stop words know."""


def language_name(language: str) -> str:
    """Return the English name, in lower case, of a language given by code or name.

    What is neither is returned in lower case: the caller says what is allowed.

    Example:
        >>> language_name("de"), language_name("German")
        ('german', 'german')
    """
    word = language.strip().lower()
    return NAMES.get(word, word)
