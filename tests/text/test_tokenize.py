"""Words: what stays whole, what is split, in scripts with and without spaces; their memory."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragbench.text.tokenize import Memory, words


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        (" .,;!\n", []),
        ("Retrieval-Augmented Generation", ["retrieval", "augmented", "generation"]),
        ("pi is 3.14, not 3,14.", ["pi", "is", "3.14", "not", "3,14"]),
        ("1,000,000 people.", ["1,000,000", "people"]),
        ("the U.S. and e.g. this.", ["the", "u.s", "and", "e.g", "this"]),
        ("don't, it's NASA's", ["don't", "it", "nasa"]),
        ("don\u2019t \u2018quote\u2019", ["don't", "quote"]),
        ("snake_case file.txt", ["snake", "case", "file", "txt"]),
        ("Ünïcödé STRASSE Straße", ["ünïcödé", "strasse", "straße"]),
        ("данные и Ωmega", ["данные", "и", "ωmega"]),
        ("हिन्दी में", ["हिन्दी", "में"]),
        ("soft\u00adhyphen", ["softhyphen"]),
    ],
)
def test_worked_by_hand(text, expected):
    assert words(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("東京都", ["東京", "京都"], id="Han in pairs"),
        pytest.param("水", ["水"], id="one character"),
        pytest.param("GPT4は東京", ["gpt4", "は東", "東京"], id="mixed with Latin"),
        pytest.param("東京。大阪", ["東京", "大阪"], id="no pair across punctuation"),
        pytest.param("ไทย", ["ไท", "ทย"], id="Thai"),
    ],
)
def test_scripts_without_spaces_become_pairs(text, expected):
    assert words(text, "en") == words(text, "zh") == expected


def test_apostrophes_follow_the_language():
    assert words("l'homme d\u2019État", "fr") == ["l", "homme", "d", "état"]
    assert words("Peter's", "de") == ["peter's"]
    assert words("ISPARTA İzmir", "tr") == ["\u0131sparta", "izmir"]


@given(st.text())
def test_composed_and_decomposed_are_the_same(text):
    decomposed = unicodedata.normalize("NFD", text)
    assert words(decomposed) == words(unicodedata.normalize("NFC", decomposed))


@given(st.text(alphabet=st.characters(max_codepoint=127)))
def test_ascii_takes_the_same_way_as_everything_else(text):
    # The fast pattern and the general one agree: a further word changes no other
    assert words(f"{text} é") == [*words(text), "é"]


@given(st.text())
def test_words_are_lower_case_without_space(text):
    for word in words(text):
        assert word
        assert not any(character.isspace() for character in word)
        assert word == word.lower() or unicodedata.normalize("NFC", word.lower()) == word


def test_a_memory_stays_within_its_bounds():
    texts = []

    def shout(word):
        texts.append(word)
        return word.upper()

    memory = Memory(shout, room=2, longest=3)
    assert [memory[word] for word in ("a", "b", "a", "long", "long", "c", "a")] == [
        *("A", "B", "A", "LONG", "LONG", "C", "A")
    ]
    assert texts == ["a", "b", "long", "long", "c", "a"]
    assert set(memory) == {"c", "a"}, "emptied when c found it full"
