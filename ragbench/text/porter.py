"""Porter's stemmer of English words, with the endings in `porter.txt`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from ragbench.text.languages import data_lines


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
