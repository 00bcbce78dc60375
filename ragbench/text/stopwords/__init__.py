"""Stop words: one list per language, `<language>.txt` in this folder, or a file of the user's."""

from __future__ import annotations

import functools
import unicodedata
from pathlib import Path

from ragbench.errors import DataError, OptionError
from ragbench.registry import nearest

_FOLDER = Path(__file__).parent

LANGUAGES = {
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
    return LANGUAGES.get(word, word)


def load(name: str) -> frozenset[str]:
    """Return a set of stop words, in lower case.

    The name is a language (`english` or `en`), `none` for the empty set, or the path of a file with
    one word a line, where lines that start with `#` are comments.
    """
    if name == "none":
        return frozenset()
    if (language := language_name(name)) in built_in():
        return _read_built_in(language)
    path = Path(name)
    if path.is_file():
        return _read(path)
    allowed = f"{', '.join([*built_in(), 'none'])}, or the path of a file"
    raise OptionError("stopwords", "name", name, allowed, nearest(name, built_in()))


@functools.cache
def built_in() -> tuple[str, ...]:
    """Return the names of the lists that come with ragbench."""
    return tuple(sorted(path.stem for path in _FOLDER.glob("*.txt")))


@functools.cache
def _read_built_in(language: str) -> frozenset[str]:
    return _read(_FOLDER / f"{language}.txt")


def _read(path: Path) -> frozenset[str]:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"cannot be read as UTF-8 text: {error}", file=path) from error
    lines = (unicodedata.normalize("NFC", line.strip().lower()) for line in text.splitlines())
    return frozenset(line for line in lines if line and not line.startswith("#"))
