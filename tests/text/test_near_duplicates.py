"""Near duplicates: pairs worked by hand, and every pair that a comparison of all texts gives."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench.errors import OptionError
from ragbench.text.near_duplicates import near_duplicates
from ragbench.text.similar_questions import same_questions
from ragbench.text.tokenize import words

_TEXTS = st.lists(st.lists(st.sampled_from("abcdefghij"), max_size=8).map(" ".join), max_size=12)
_THRESHOLDS = st.sampled_from([0.1, 0.3, 0.5, 0.55, 0.6, 2 / 3, 0.7, 0.75, 0.8, 0.9, 1.0])


def _all_pairs(texts, threshold):
    """Return the pairs at or above a threshold by comparing each text with each later one."""
    sets = [set(words(text)) for text in texts]
    return [
        (i, j, len(sets[i] & sets[j]) / len(sets[i] | sets[j]))
        for i in range(len(sets))
        for j in range(i + 1, len(sets))
        if sets[i] | sets[j] and len(sets[i] & sets[j]) / len(sets[i] | sets[j]) >= threshold
    ]


@pytest.mark.parametrize(
    ("texts", "threshold", "expected"),
    [
        pytest.param([], 0.8, [], id="no texts"),
        pytest.param(["", "", "?!"], 0.8, [], id="texts without a word"),
        pytest.param(["A b.", "b, a!"], 1.0, [(0, 1, 1.0)], id="same words, other order"),
        pytest.param(["a b c d", "a b c d e"], 0.8, [(0, 1, 0.8)], id="4 of 5"),
        pytest.param(["a b c", "a b d"], 0.51, [], id="2 of 4 is below"),
        pytest.param(["a a a b", "a b"], 1.0, [(0, 1, 1.0)], id="a word counts once"),
        pytest.param(["東京都は", "東京都が"], 0.5, [(0, 1, 0.5)], id="2 of 4 pairs of characters"),
    ],
)
def test_pairs_worked_by_hand(texts, threshold, expected):
    assert near_duplicates(texts, threshold) == expected


@given(_TEXTS, _THRESHOLDS)
def test_the_index_misses_no_pair_and_adds_none(texts, threshold):
    assert near_duplicates(texts, threshold) == _all_pairs(texts, threshold)


@settings(max_examples=30)
@given(_TEXTS, _THRESHOLDS, st.data())
def test_rows_select_the_pairs_that_have_one_of_them(texts, threshold, data):
    rows = data.draw(st.sets(st.integers(0, max(len(texts) - 1, 0)), max_size=len(texts)))
    expected = [p for p in near_duplicates(texts, threshold) if rows & {p[0], p[1]}]
    assert near_duplicates(texts, threshold, rows=rows) == expected


@pytest.mark.parametrize("threshold", [0, -0.1, 1.01, float("nan")])
def test_a_threshold_out_of_range_is_refused(threshold, assert_message):
    with pytest.raises(OptionError) as caught:
        near_duplicates(["a"], threshold)
    assert_message(caught.value, "near_duplicates: threshold")


_QUESTION_WORDS = [
    "who",
    "found",
    "the",
    "moon",
    "titan",
    "not",
    "first",
    "second",
    "7",
    "of",
    "name",
]
_QUESTIONS = st.lists(
    st.lists(st.sampled_from(_QUESTION_WORDS), max_size=12).map(" ".join), max_size=8
)


@given(st.lists(st.sets(st.sampled_from("bcdefghj"), min_size=1).map(" ".join), max_size=12))
def test_of_words_without_a_meaning_those_with_few_words_in_addition_ask_the_same(questions):
    contents = [frozenset(question.split()) for question in questions]
    expected = [
        (row, later, similarity)
        for row, later, similarity in near_duplicates(questions, 0.8)
        if contents[row] <= contents[later] or contents[later] <= contents[row]
    ]
    assert same_questions(questions, "none") == expected


@settings(max_examples=30)
@given(_QUESTIONS)
def test_the_index_finds_the_pairs_that_a_comparison_of_two_questions_finds(questions):
    expected = [
        (row, later)
        for row, first in enumerate(questions)
        for later, second in enumerate(questions)
        if row < later and same_questions([first, second])
    ]
    assert [(row, later) for row, later, _ in same_questions(questions)] == expected
