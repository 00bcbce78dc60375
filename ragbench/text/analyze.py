"""From text to index terms: words, without stop words, as stems."""

from __future__ import annotations

from ragbench.text.languages import NAMES, language_name
from ragbench.text.stem import load_stemmer
from ragbench.text.stopwords import built_in, load
from ragbench.text.tokenize import words


class Analyzer:
    """Turn texts into terms that can be matched.

    Example:
        >>> Analyzer(stemmer="porter", stopwords="english")("The retrievers retrieved it.")
        ['retriev', 'retriev']
    """

    def __init__(
        self, *, stemmer: str = "porter", stopwords: str = "english", language: str = "en"
    ) -> None:
        """Load what the names stand for.

        Raises:
            OptionError: No such stemmer or list of stop words.
        """
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
        return cls(
            stemmer="porter" if name == "english" else _snowball_or_none(name),
            stopwords=name if name in built_in() else "none",
            language=language,
        )

    def __call__(self, text: str) -> list[str]:
        """Return the terms of a text, in order."""
        dropped, stem = self._stopwords, self._stem
        kept = [word for word in words(text, self._language) if word not in dropped]
        return kept if stem is None else [stem(word) for word in kept]


def _snowball_or_none(name: str) -> str:
    return "snowball" if name in NAMES.values() else "none"
