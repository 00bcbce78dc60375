"""Index terms of a text: words without stop words, as stems; and stemmers by name."""

from __future__ import annotations

import functools
from array import array
from collections.abc import Callable, Iterable, Iterator
from importlib.metadata import version
from pathlib import Path
from unicodedata import unidata_version

from ragbench.registry import check_allowed
from ragbench.signature import fingerprint
from ragbench.text.languages import LANGUAGES, built_in, language_name, load
from ragbench.text.porter import porter_stem
from ragbench.text.tokenize import Memory, words


class Analyzer:
    """Analyzer of texts and queries: splits words, drops stop words, and stems.

    A call with a text returns the list of its terms, in order and with repeated ones. `stemmer` is
    that of `load_stemmer`, `stopwords` a name or path for `ragbench.text.languages.load`, and
    `language` a code.

    The constructor raises OptionError for an unknown stemmer, language or list of stop words, and
    DataError for an unreadable file of stop words.
    """

    def __init__(
        self, *, stemmer: str = "porter", stopwords: str = "english", language: str = "en"
    ) -> None:
        self._language, self._stemmer = language, stemmer
        self._stopwords = load(stopwords)
        # stems are equal for equal words, so stop words can go before the costlier step
        self._stem = None if stemmer == "none" else load_stemmer(stemmer, language)

    @classmethod
    def for_language(cls, language: str) -> Analyzer:
        """Return the default analyzer of a language: Porter for English, else Snowball.

        `language` is a code or an English name. A language without a stemmer or without stop words
        has none; an unknown one has neither.
        """
        name = language_name(language)
        stemmer = "snowball" if name in LANGUAGES.values() else "none"
        if name == "english":
            stemmer = "porter"
        stopwords = name if name in built_in() else "none"
        return cls(stemmer=stemmer, stopwords=stopwords, language=language)

    @property
    def settings(self) -> tuple[str, str, frozenset[str]]:
        """Stemmer, language and stop words: analyzers with equal ones give equal terms."""
        return self._stemmer, self._language, frozenset(self._stopwords)

    @property
    def identity(self) -> str:
        """Hash of all that terms depend on: options, stop words, code and library."""
        files = filter(Path.is_file, sorted(Path(__file__).parent.iterdir()))
        code = map(Path.read_bytes, files)
        library = version("nltk") if self._stemmer == "snowball" else ""
        chosen = [self._stemmer, self._language, library, str(len(self._stopwords))]
        return fingerprint([*chosen, *sorted(self._stopwords), *code, unidata_version], 32)

    def __call__(self, text: str) -> list[str]:
        """Return the terms of a text, in order; none for a text of stop words only."""
        dropped, stem = self._stopwords, self._stem
        terms = [word for word in words(text, self._language) if word not in dropped]
        return terms if stem is None else list(map(stem, terms))

    def numbers(self, texts: Iterable[str], vocabulary: dict[str, int]) -> Iterator[array[int]]:
        """Yield the numbers of the terms of each text, in order; 4 bytes each.

        `vocabulary`, term -> number, gets the next number for each new term.
        """
        dropped, stem = self._stopwords, self._stem

        def number(word: str) -> int:
            """Return the number of the term of a word; -1 for a stop word."""
            if word in dropped:
                return -1
            return vocabulary.setdefault(word if stem is None else stem(word), len(vocabulary))

        # one look-up for each word of a long corpus, in place of three
        number_of = Memory(number).__getitem__
        for text in texts:
            numbers = map(number_of, words(text, self._language))
            yield array("i", [n for n in numbers if n >= 0])


def load_stemmer(name: str, language: str = "en") -> Callable[[str], str]:
    """Return a function that reduces a word to its stem.

    Args:
        name: `porter` (English, as in rouge-score), `snowball` (by language), or `none`, which
            returns words unchanged.
        language: Code or English name, for `snowball`.

    Raises:
        OptionError: The name, or the language of `snowball`, is unknown.

    Example:
        >>> stem = load_stemmer("porter")
        >>> stem("retrieval"), stem("retrieved"), load_stemmer("none")("retrieved")
        ('retriev', 'retriev', 'retrieved')
    """
    check_allowed("stemmer", "name", [name], _STEMMERS)
    return _stemmer(name, language_name(language) if name == "snowball" else "")


_STEMMERS = ("porter", "snowball", "none")


@functools.cache
def _stemmer(name: str, language: str) -> Callable[[str], str]:
    if name == "none":
        return str
    if name == "porter":
        return Memory(porter_stem).__getitem__
    # on first use: importing it takes longer than a run that has everything stored
    from nltk.stem.snowball import SnowballStemmer

    languages = list(SnowballStemmer.languages)
    languages.remove("porter")  # which is an algorithm
    check_allowed("stemmer", "language", [language], languages)
    return Memory(SnowballStemmer(language).stem).__getitem__
