"""Sentences: where they end and where they do not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragbench.text.tokenize import sentences


@pytest.mark.parametrize(
    "expected",
    [
        ["One. ".strip(), "Two!", "Three?"],
        ["Dr. Smith met Mr. Jones.", "They talked."],
        ["It costs 3.14 euros.", "That is cheap."],
        ["J. R. R. Tolkien wrote it.", "He was English."],
        ["He lives in the U.S. Army base.", "It is big."],
        ["He moved to the U.S.", "The move was hard."],
        ["See Fig. 3 and No. 7.", "No.", "That is all."],
        ["Use e.g. a list, i.e. items.", "Good."],
        ['He said "Stop!"', "She did not."],
        ["'Why?' he asked.", "(Nobody knew.)", "End."],
        ["Wait... what?", "Yes."],
        ["Apples, pears, etc. are fruit.", "So are plums."],
        ["visit example.com for more.", "It is free."],
        ["Version 2.0 is out!", "1. Open it.", "2. Close it."],
        ["no capitals here.", "none there."],
        ["Это первое.", "Это второе."],
    ],
)
def test_joined_by_spaces_they_are_found_again(expected):
    assert sentences(" ".join(expected)) == expected


def test_scripts_with_their_own_stops():
    assert sentences("今日は。元気？はい！「そう。」と") == [
        "今日は。",
        "元気？",
        "はい！",
        "「そう。」",
        "と",
    ]
    assert sentences("यह एक है। यह दो है।") == ["यह एक है।", "यह दो है।"]


def test_lists_and_paragraphs():
    text = "Steps:\n1. Open the box\n2. Look inside\n\n- a cat\n- no cat\nat all"
    assert sentences(text) == [
        "Steps:",
        "1. Open the box",
        "2. Look inside",
        "- a cat",
        "- no cat\nat all",
    ]


@pytest.mark.parametrize("text", ["", "  \n ", "\n\n\n"])
def test_nothing_in_nothing(text):
    assert sentences(text) == []


@given(st.text() | st.text("aB. !?\n1)-\u3002\"'", max_size=40))
def test_no_word_is_lost_or_added(text):
    parts = sentences(text)
    assert "".join("".join(parts).split()) == "".join(text.split())
    assert all(sentence and sentence == sentence.strip() for sentence in parts)
