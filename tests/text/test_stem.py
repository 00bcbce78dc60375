"""Stemmers against nltk, of which they are a faster front."""

import subprocess
import sys

import pytest
from nltk.stem.porter import PorterStemmer
from nltk.stem.snowball import SnowballStemmer

from ragbench.errors import OptionError
from ragbench.text.analyze import load_stemmer

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
    porter, snowball = PorterStemmer(), SnowballStemmer("german")
    for _ in range(2):  # the second time from memory
        assert [load_stemmer("porter")(word) for word in WORDS] == [porter.stem(w) for w in WORDS]
        assert load_stemmer("snowball", "de")("häuser") == snowball.stem("häuser")
        assert load_stemmer("snowball", "german") is load_stemmer("snowball", "de")


def test_none_changes_nothing():
    assert load_stemmer("none", "xx")("Running") == "Running"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("portr",), r"allowed: porter, snowball, none; did you mean 'porter'"),
        (("snowball", "zh"), r"language: found 'zh', allowed: arabic, danish"),
        (("snowball", "germn"), r"did you mean 'german'"),
    ],
)
def test_bad_names_say_what_is_allowed(arguments, message):
    with pytest.raises(OptionError, match=message):
        load_stemmer(*arguments)


@pytest.mark.slow
def test_nltk_is_imported_by_the_first_word_alone():
    """It takes longer than a run that has everything stored."""
    code = """if True:
        import sys
        from ragbench.text.analyze import Analyzer
        analyzer = Analyzer.for_language("en")
        before = "nltk" in sys.modules
        print(before, analyzer("retrieved"), "nltk" in sys.modules)"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout == "False ['retriev'] True\n"
