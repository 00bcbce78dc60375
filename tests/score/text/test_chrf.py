"""chrF and chrF++: equal to sacrebleu to the last bit before the division, and by hand."""

import random

import pytest
import sacrebleu
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench.errors import OptionError
from ragbench.score.text.chrf import chrf
from tests.score.text.scoring import score_texts
from tests.score.text.strategies import WORDS, texts

pytestmark = pytest.mark.slow  # seconds in all: real runs, servers or many made cases

OPTIONS = st.fixed_dictionaries(
    {},
    optional={
        "char_order": st.sampled_from([1, 2, 6, 10]),
        "word_order": st.integers(0, 3),
        "beta": st.sampled_from([0, 1, 2, 3.5]),
        "lowercase": st.booleans(),
        "whitespace": st.booleans(),
        "eps_smoothing": st.booleans(),
    },
)


def oracle(prediction, references, **options):
    return sacrebleu.CHRF(**options).sentence_score(prediction, references).score / 100


@given(texts, st.lists(texts, min_size=1, max_size=3), OPTIONS)
@settings(max_examples=30)
def test_equals_sacrebleu(prediction, references, options):
    assert chrf(prediction, references, **options) == oracle(prediction, references, **options)


@given(
    st.lists(st.tuples(texts, st.lists(texts, min_size=1, max_size=3)), max_size=6),
    OPTIONS,
)
@settings(max_examples=12)
def test_many_rows_equal_sacrebleu(rows, options):
    options_text = ",".join(f"{name}={str(value).lower()}" for name, value in options.items())
    names = [f"chrf({options_text})", f"chrf++({options_text})"]
    plain, plus = score_texts([p for p, _ in rows], [r for _, r in rows], names)
    for column, usual in ((plain, 0), (plus, 2)):
        chosen = {"word_order": usual} | options
        assert column.values.tolist() == [oracle(p, r, **chosen) for p, r in rows]


def test_long_texts_equal_sacrebleu():
    draw = random.Random(3)
    reference = draw.choices([*WORDS, *(f"word{n}" for n in range(500))], k=5_000)
    words = [word if draw.random() < 0.8 else "other" for word in reference]
    prediction, gold = " ".join(words), " ".join(reference)
    (column,) = score_texts([prediction], [gold], ["chrf++"])
    assert column.values[0] == oracle(prediction, [gold], word_order=2)


@pytest.mark.parametrize(
    ("prediction", "reference", "options", "expected"),
    [
        pytest.param("ab", "abc", {"char_order": 2, "beta": 1}, 14 / 19, id="P 1, R (2/3+1/2)/2"),
        pytest.param("aaa", "a", {"char_order": 1, "beta": 1}, 0.5, id="clipped: P 1/3, R 1"),
        pytest.param("a b", "ab", {}, 1.0, id="white space does not count"),
        pytest.param("a.", "a .", {"word_order": 2}, 1.0, id="punctuation is a word"),
        pytest.param("A", "a", {"lowercase": True}, 1.0, id="case on request"),
        pytest.param("", "a", {}, 0.0, id="empty prediction"),
        pytest.param("a", "", {}, 0.0, id="empty reference"),
        pytest.param("", "", {}, 0.0, id="both empty"),
    ],
)
def test_hand_worked(prediction, reference, options, expected):
    assert chrf(prediction, reference, **options) == pytest.approx(expected)


def test_the_best_reference_counts():
    assert chrf("cat", ["dog", "cat", "cot"]) == 1.0


@pytest.mark.parametrize(
    ("options", "place"),
    [
        ({"char_order": 0}, "chrf: char_order"),
        ({"word_order": -1}, "chrf: word_order"),
        ({"beta": -1}, "chrf: beta"),
    ],
)
def test_bad_options_say_what_is_allowed(options, place, assert_message):
    with pytest.raises(OptionError) as caught:
        chrf("a", "b", **options)
    assert_message(caught.value, place)


def test_no_reference():
    with pytest.raises(OptionError, match="at least one"):
        chrf("a", [])
