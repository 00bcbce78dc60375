"""Markers that cite passages: which sentence they belong to, and what they name."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragbench.score.judge.sentences import cited_sentences, markers, without_markers
from ragbench.text.tokenize import sentences


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("It opened [1]. It is red.", [("It opened.", {1}), ("It is red.", set())]),
        pytest.param("It opened. [1] It is red. [2]", [("It opened.", {1}), ("It is red.", {2})]),
        pytest.param("It opened.[1] It is red.[2]", [("It opened.", {1}), ("It is red.", {2})]),
        pytest.param("Both [1][3].", [("Both.", {1, 3})]),
        pytest.param("Both [1, 3; 5].", [("Both.", {1, 3, 5})]),
        pytest.param("Range [2-4].", [("Range.", {2, 3, 4})]),
        pytest.param("Note [^2].", [("Note.", {2})]),
        pytest.param("- a [1]\n- b\u30102\u3011", [("- a", {1}), ("- b", {2})]),
        pytest.param("[1] opens it.", [("opens it.", {1})]),
        pytest.param("[2]", []),
        pytest.param("In [a] and [1932].", [("In [a] and [1932].", set())]),
        pytest.param("", []),
    ],
)
def test_sentences_and_what_they_cite(text, expected):
    assert [(text, set(cited)) for text, cited in cited_sentences(text)] == expected


def test_markers_and_text_are_parted():
    assert set(markers("a [1] b [3, 2]")) == {1, 2, 3}
    assert without_markers("a [1] b [3, 2].") == "a b."


@given(st.text(alphabet="ab. \n!?A", max_size=60))
def test_without_markers_sentences_are_what_they_are(text):
    assert [text for text, _ in cited_sentences(text)] == sentences(text)


@given(st.text(alphabet="ab. [1,2-]\u3010\u3011", max_size=60))
def test_what_sentences_cite_is_what_the_text_cites(text):
    found = cited_sentences(text)
    assert set(markers(text)) >= {number for _, cited in found for number in cited}
    assert all(sentence for sentence, _ in found)


@pytest.mark.parametrize("blank", [" ", "\n", "\t "])
def test_an_answer_that_repeats_blanks_takes_no_longer_than_others(blank):
    """Models do; of 20,000 blanks each was a start from which all others were looked through."""
    text = f"It is red [1].{blank * 100_000}It is old [2]."
    start = time.process_time()

    assert set(markers(text)) == {1, 2}
    assert without_markers(text).startswith("It is red.")
    assert [set(cited) for _, cited in cited_sentences(text)] == [{1}, {2}]
    assert time.process_time() - start < 5
