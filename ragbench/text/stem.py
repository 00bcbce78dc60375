"""Stemmers by name, with a memory of the words that they have seen."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ragbench.errors import OptionError
from ragbench.registry import nearest
from ragbench.text.languages import language_name
from ragbench.text.memory import Memory


def load_stemmer(name: str, language: str = "en") -> Callable[[str], str]:
    """Return a function that reduces a word to its stem.

    Args:
        name: `porter` (English; the one that rouge-score uses), `snowball` (by language), `none`.
        language: ISO 639-1 code or English name; read by `snowball` alone.

    Raises:
        OptionError: No such stemmer, or no snowball stemmer for this language.

    Example:
        >>> stem = load_stemmer("porter")
        >>> stem("retrieval"), stem("retrieved"), load_stemmer("none")("retrieved")
        ('retriev', 'retriev', 'retrieved')
    """
    builder = _BUILDERS.get(name)
    if builder is None:
        raise OptionError("stemmer", "name", name, ", ".join(_BUILDERS), nearest(name, _BUILDERS))
    return builder(language_name(language) if name == "snowball" else "")


def _unchanged(word: str) -> str:
    return word


def _no_stemmer(_: str) -> Callable[[str], str]:
    return _unchanged


@functools.cache
def _porter(_: str) -> Callable[[str], str]:
    return Memory(_porter_stem).__getitem__


def _porter_stem(word: str) -> str:
    stem: str = _porter_of_nltk().stem(word)
    return stem


@functools.cache
def _porter_of_nltk() -> Any:
    # on the first word: importing it takes longer than a run that has everything stored
    from nltk.stem.porter import PorterStemmer

    return PorterStemmer()


@functools.cache
def _snowball(language: str) -> Callable[[str], str]:
    from nltk.stem.snowball import SnowballStemmer

    languages = [known for known in SnowballStemmer.languages if known != "porter"]
    if language not in languages:
        allowed = ", ".join(languages)
        raise OptionError("stemmer", "language", language, allowed, nearest(language, languages))
    return Memory(SnowballStemmer(language).stem).__getitem__


_BUILDERS: dict[str, Callable[[str], Callable[[str], str]]] = {
    "porter": _porter,
    "snowball": _snowball,
    "none": _no_stemmer,
}
