"""Index terms of a text: words without stop words, as stems; and stemmers by name."""

from __future__ import annotations

import functools
from array import array
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib.metadata import version
from pathlib import Path
from unicodedata import unidata_version

from ragbench.registry import check_allowed
from ragbench.signature import fingerprint
from ragbench.text.languages import LANGUAGES, built_in, data_lines, language_name, load
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


def _read_endings() -> dict[str, dict[str, str]]:
    """Return step of the stemmer -> ending or word -> what replaces it, from `porter.txt`."""
    endings = defaultdict[str, dict[str, str]](dict)
    for step, *pairs in map(str.split, data_lines("porter.txt")):
        for pair in pairs:
            ending, _, stem = pair.partition(":")
            endings[step][ending] = stem
    return endings


_ENDINGS = _read_endings()


def porter_stem(word: str) -> str:
    """Return the stem of an English word, in lower case.

    Letters of other alphabets, digits and signs count as consonants. Words of one or two letters
    are only put into lower case; an empty word stays empty.

    Example:
        >>> [porter_stem(word) for word in ("Retrieval", "relational", "dies", "sky", "3.14")]
        ['retriev', 'relat', 'die', 'sky', '3.14']

    References:
        Porter (1980), An algorithm for suffix stripping. Program 14.
    """
    stem = word.lower()
    if stem in _ENDINGS["irregular"]:
        return _ENDINGS["irregular"][stem]
    if len(word) <= 2:
        return stem
    stem = _derived(_without_y(_without_participle(_without_plural(stem))))
    word = _replaced(_replaced(stem, _ENDINGS["step_3"], 0), _ENDINGS["step_4"], 1)
    if word.endswith("e"):
        measure = _measure(word[:-1])
        if measure > 1 or (measure == 1 and not _is_short(word[:-1])):
            word = word[:-1]
    return word[:-1] if word.endswith("ll") and _measure(word[:-1]) > 1 else word


def _shape(stem: str) -> str:
    """Return `v` for each vowel and `c` for each consonant; y is a vowel after a consonant."""
    shape, previous = "", "v"
    for letter in stem:
        is_vowel = letter in "aeiou" or (letter == "y" and previous == "c")
        previous = "v" if is_vowel else "c"
        shape += previous
    return shape


def _measure(stem: str) -> int:
    """Return Porter's m: the number of vowels that a consonant follows."""
    return _shape(stem).count("vc")


def _is_short(stem: str) -> bool:
    """Return True if a stem ends as `hop` does, or is as `at`: Porter's *o."""
    shape = _shape(stem)
    return shape == "vc" or (shape.endswith("cvc") and stem[-1] not in "wxy")


def _without_plural(word: str) -> str:  # step 1a
    if word.endswith("ies"):
        return word[:-1] if len(word) == 4 else word[:-2]
    if word.endswith("sses"):
        return word[:-2]
    return word[:-1] if word.endswith("s") and not word.endswith("ss") else word


def _without_participle(word: str) -> str:  # step 1b
    if word.endswith("ied"):
        return word[:-1] if len(word) == 4 else word[:-2]
    if word.endswith("eed"):
        return word[:-1] if _measure(word[:-3]) else word
    stem = word.removesuffix("ed") if word.endswith("ed") else word.removesuffix("ing")
    if stem == word or "v" not in _shape(stem):
        return word
    if stem.endswith(("at", "bl", "iz")):
        return f"{stem}e"
    if stem[-2:-1] == stem[-1] and _shape(stem)[-1] == "c":
        return stem if stem[-1] in "lsz" else stem[:-1]
    return f"{stem}e" if _measure(stem) == 1 and _is_short(stem) else stem


def _without_y(word: str) -> str:  # step 1c
    is_ending = word.endswith("y") and len(word) > 2 and _shape(word[:-1])[-1] == "c"
    return f"{word[:-1]}i" if is_ending else word


def _derived(word: str) -> str:  # step 2
    if word.endswith("alli") and _measure(word[:-4]):
        return _derived(word[:-2])
    if word.endswith("logi"):  # the l belongs to the stem here
        return word[:-1] if _measure(word[:-3]) else word
    return _replaced(word, _ENDINGS["step_2"], 0)


def _replaced(word: str, endings: Mapping[str, str], least: int) -> str:
    """Return a word with its longest ending in `endings` replaced, if the stem has m > `least`."""
    for length in range(7, 1, -1):
        if (ending := word[-length:]) in endings:
            stem = word[: len(word) - len(ending)]
            # -ion is an ending only after s and t: -sion, -tion
            is_stem = ending == "ion" and not stem.endswith(("s", "t"))
            return word if is_stem or _measure(stem) <= least else stem + endings[ending]
    return word
