"""From text to index terms: words, without stop words, as stems; and stemmers by name."""

from __future__ import annotations

import functools
from collections.abc import Callable

from ragbench.errors import OptionError
from ragbench.registry import nearest
from ragbench.text.porter import porter_stem
from ragbench.text.stopwords import LANGUAGES, built_in, language_name, load
from ragbench.text.tokenize import Memory, words


class Analyzer:
    """Turn texts into terms that can be matched."""

    def __init__(
        self, *, stemmer: str = "porter", stopwords: str = "english", language: str = "en"
    ) -> None:
        self._language = language
        self._stopwords = load(stopwords)
        # stems are equal for equal words, so stop words can go before the costlier step
        self._stem = None if stemmer == "none" else load_stemmer(stemmer, language)

    @classmethod
    def for_language(cls, language: str) -> Analyzer:
        """Return the usual analysis of a language: Porter for English, else snowball.

        A language without a stemmer or without stop words goes without them.
        """
        name = language_name(language)
        known = name in LANGUAGES.values()
        return cls(
            stemmer="porter" if name == "english" else "snowball" if known else "none",
            stopwords=name if name in built_in() else "none",
            language=language,
        )

    def __call__(self, text: str) -> list[str]:
        """Return the terms of a text, in order."""
        dropped, stem = self._stopwords, self._stem
        kept = [word for word in words(text, self._language) if word not in dropped]
        return kept if stem is None else [stem(word) for word in kept]


def load_stemmer(name: str, language: str = "en") -> Callable[[str], str]:
    """Return a function that reduces a word to its stem.

    `porter` (English; the one that rouge-score uses), `snowball` (by language), or `none`.

    Example:
        >>> stem = load_stemmer("porter")
        >>> stem("retrieval"), stem("retrieved"), load_stemmer("none")("retrieved")
        ('retriev', 'retriev', 'retrieved')
    """
    builder = _BUILDERS.get(name)
    if builder is None:
        raise OptionError("stemmer", "name", name, ", ".join(_BUILDERS), nearest(name, _BUILDERS))
    return builder(language_name(language) if name == "snowball" else "")


@functools.cache
def _porter(_: str) -> Callable[[str], str]:
    return Memory(porter_stem).__getitem__


@functools.cache
def _snowball(language: str) -> Callable[[str], str]:
    # when it is asked for: importing it takes longer than a run that has everything stored
    from nltk.stem.snowball import SnowballStemmer

    languages = [known for known in SnowballStemmer.languages if known != "porter"]
    if language not in languages:
        allowed = ", ".join(languages)
        raise OptionError("stemmer", "language", language, allowed, nearest(language, languages))
    return Memory(SnowballStemmer(language).stem).__getitem__


_BUILDERS: dict[str, Callable[[str], Callable[[str], str]]] = {
    "porter": _porter,
    "snowball": _snowball,
    "none": lambda _: str,
}
