"""chrF and chrF++: equal to sacrebleu to the last bit before the division, and by hand."""

import random

import pytest
import sacrebleu
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench.errors import OptionError
from ragbench.score.text import chrf as shared_ngrams
from ragbench.score.text.chrf import chrf
from ragbench.score.text.columns import score_texts
from ragbench.score.text.tokenizers import TokenizedText, overlap
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
@settings(max_examples=300)
def test_equals_sacrebleu(prediction, references, options):
    assert chrf(prediction, references, **options) == oracle(prediction, references, **options)


@given(
    st.lists(st.tuples(texts, st.lists(texts, min_size=1, max_size=3)), max_size=6),
    OPTIONS,
)
@settings(max_examples=200)
def test_many_rows_equal_sacrebleu(rows, options):
    written = ",".join(f"{name}={str(value).lower()}" for name, value in options.items())
    names = [f"chrf({written})", f"chrf++({written})"]
    plain, plus = score_texts([p for p, _ in rows], [r for _, r in rows], names)
    for column, usual in ((plain, 0), (plus, 2)):
        chosen = {"word_order": usual} | options
        assert column.values.tolist() == [oracle(p, r, **chosen) for p, r in rows]


@given(st.lists(st.tuples(texts, texts), max_size=5), st.integers(1, 7))
def test_n_grams_counted_together_are_those_counted_apart(pairs, order):
    for together, (first, second) in zip(
        shared_ngrams.shared_ngrams(pairs, order), pairs, strict=True
    ):
        apart = [overlap(first, TokenizedText(second).counts(n), n) for n in range(1, order + 1)]
        assert together == apart


@pytest.mark.parametrize("block", [1, 100, 1_000_000])
def test_blocks_change_nothing(monkeypatch, block):
    monkeypatch.setattr(shared_ngrams, "_BLOCK", block)
    draw = random.Random(4)
    rows = [tuple(" ".join(draw.choices(WORDS, k=draw.randrange(40))) for _ in "pr") for _ in "ab"]
    (column,) = score_texts([p for p, _ in rows], [r for _, r in rows], ["chrf++"])
    assert column.values.tolist() == [oracle(p, [r], word_order=2) for p, r in rows]


def test_an_alphabet_too_large_for_arrays():
    """600 characters take ten bits, and n-grams of seven of them more than an integer has."""
    text = "".join(chr(code) for code in range(0x4E00, 0x4E00 + 600))
    other = text[::2] + text[100:500]
    assert list(shared_ngrams.shared_ngrams([(text, other)], 7)) == [None]
    (column,) = score_texts(["ab", text], ["abc", other], ["chrf(char_order=7)"])
    assert column.values.tolist() == [
        oracle("ab", ["abc"], char_order=7),
        oracle(text, [other], char_order=7),
    ]


def test_long_texts_equal_sacrebleu():
    draw = random.Random(3)
    reference = draw.choices([*WORDS, *(f"word{n}" for n in range(500))], k=100_000)
    kept = [word if draw.random() < 0.8 else "other" for word in reference]
    prediction, gold = " ".join(kept), " ".join(reference)
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
    ("options", "message"),
    [
        ({"char_order": 0}, "char_order: found 0, allowed: an integer from 1 to 20"),
        ({"word_order": -1}, "word_order: found -1, allowed: an integer from 0 to 20"),
        ({"beta": -1}, "beta: found -1, allowed: a number from 0 to 100"),
    ],
)
def test_bad_options_say_what_is_allowed(options, message):
    with pytest.raises(OptionError, match=message):
        chrf("a", "b", **options)


def test_no_reference():
    with pytest.raises(OptionError, match="at least one"):
        chrf("a", [])
