"""Stemmers against nltk: snowball is a faster front of it, porter a form of its own."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench.errors import OptionError
from ragbench.text.analyzer import load_stemmer
from ragbench.text.languages import LANGUAGES
from ragbench.text.porter import porter_stem
from tests.lazy import Lazy

nltk = Lazy("nltk.stem.porter")
snowball_stemmer = Lazy("nltk.stem.snowball")

WORDS = [
    "generously",
    "relational",
    "conditional",
    "flying",
    "dies",
    "national",
    "3.14",
    "café",
    "don't",
    "sky",
    "a",
]


def test_agrees_with_nltk():
    porter, snowball = nltk.PorterStemmer(), snowball_stemmer.SnowballStemmer("german")
    for _ in range(2):  # the second time from memory
        assert [load_stemmer("porter")(word) for word in WORDS] == [porter.stem(w) for w in WORDS]
        assert load_stemmer("snowball", "de")("häuser") == snowball.stem("häuser")
        assert load_stemmer("snowball", "german") is load_stemmer("snowball", "de")


# every ending that a step looks at, and letters that decide what is left of it
ENDINGS = [
    "ational",
    "tional",
    "enci",
    "anci",
    "izer",
    "bli",
    "alli",
    "entli",
    "eli",
    "ousli",
    "ization",
    "ation",
    "ator",
    "alism",
    "iveness",
    "fulness",
    "ousness",
    "aliti",
    "iviti",
    "biliti",
    "fulli",
    "logi",
    "icate",
    "ative",
    "alize",
    "iciti",
    "ical",
    "ful",
    "ness",
    "al",
    "ance",
    "ence",
    "er",
    "ic",
    "able",
    "ible",
    "ant",
    "ement",
    "ment",
    "ent",
    "ion",
    "ou",
    "ism",
    "ate",
    "iti",
    "ous",
    "ive",
    "ize",
    "ies",
    "ied",
    "sses",
    "ss",
    "s",
    "eed",
    "ed",
    "ing",
    "y",
    "e",
    "ll",
    "at",
    "bl",
    "iz",
    "l",
    "z",
    "t",
    "bb",
    "ly",
]
LETTERS = st.text(alphabet="aeiouybcltswxzé1'İẞ", max_size=6)


@given(LETTERS, st.lists(st.sampled_from(ENDINGS), max_size=3), st.booleans())
@settings(max_examples=50)
def test_porter_agrees_with_nltk(start, endings, upper):
    word = start + "".join(endings)
    word = word.upper() if upper else word

    assert porter_stem(word) == nltk.PorterStemmer().stem(word)


def test_every_ending_is_replaced_as_in_nltk():
    starts = ("t", "feas", "respons", "gener", "adopt")
    words = [start + ending for ending in ENDINGS for start in starts]
    stemmer = nltk.PorterStemmer()

    assert {word: porter_stem(word) for word in words} == {w: stemmer.stem(w) for w in words}


SPECIAL = [
    *("Skies", "", "As", "İs"),
    *("snowed", "boxing", "played"),  # no e behind w, x, y
    *("byed", "sensationally", "ology"),  # y stays in two letters; -ly, -ational; l of -logi
]


def test_words_that_are_special_to_porter():
    theirs = nltk.PorterStemmer()
    for word in (*theirs.pool, *SPECIAL):
        # what older versions take for special is in lower case
        stem = word.lower() if word.lower() in theirs.pool else word
        assert porter_stem(word) == theirs.stem(stem), word


@pytest.mark.parametrize(
    ("word", "stem"),
    [
        pytest.param("caresses", "caress", id="1a: sses, ss"),
        pytest.param("feed", "feed", id="1b: no vowel and consonant before eed"),
        pytest.param("hopping", "hop", id="1b: ing, then pp, p"),
        pytest.param("falling", "fall", id="1b: ll stays"),
        pytest.param("filing", "file", id="1b: ing, then e behind a short stem"),
        pytest.param("generalizations", "gener", id="ations, ize, al"),
        pytest.param("oscillators", "oscil", id="ators, ate, then ll, l"),
        pytest.param("adoption", "adopt", id="4: ion behind t"),
        pytest.param("cease", "ceas", id="5a: e behind m = 1 that is not short"),
    ],
)
def test_examples_of_the_paper(word, stem):
    # Porter (1980), sections 2 and 3
    assert porter_stem(word) == stem


def test_the_languages_are_those_of_nltk():
    assert {*LANGUAGES.values(), "porter"} == {*snowball_stemmer.SnowballStemmer.languages}


def test_none_changes_nothing():
    assert load_stemmer("none", "xx")("Running") == "Running"


@pytest.mark.parametrize(
    ("arguments", "place"),
    [
        (("portr",), "stemmer: name"),
        (("snowball", "zh"), "stemmer: language"),
        (("snowball", "germn"), "stemmer: language"),
    ],
)
def test_bad_names_say_what_is_allowed(arguments, place, assert_message):
    with pytest.raises(OptionError) as caught:
        load_stemmer(*arguments)
    assert_message(caught.value, place)
