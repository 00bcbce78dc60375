"""BLEU: equal to sacrebleu to the last bit before the division, by hand, and by definition."""

import json
import math
import pickle
import random

import numpy as np
import pytest
import sacrebleu
from hypothesis import given, settings
from hypothesis import strategies as st
from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a

from ragbench.errors import OptionError
from ragbench.score.text.bleu import bleu
from ragbench.score.text.tokenizers import tokenizer
from tests.score.text.scoring import score_texts
from tests.score.text.strategies import WORDS, texts

SMOOTHINGS = [("exp", None), ("floor", None), ("floor", 0.01), ("add-k", None), ("none", None)]


def oracle(prediction, references, **options):
    names = {"smooth": "smooth_method", "max_order": "max_ngram_order"}
    options = {names.get(key, key): value for key, value in options.items()}
    return sacrebleu.BLEU(effective_order=True, **options).sentence_score(prediction, references)


@given(texts)
@settings(max_examples=50)
def test_13a_equals_sacrebleu(text):
    assert tokenizer("bleu", "13a")(text) == Tokenizer13a()(text.rstrip()).split()


@given(
    texts,
    st.lists(texts, min_size=1, max_size=3),
    st.sampled_from(SMOOTHINGS),
    st.integers(1, 6),
    st.booleans(),
)
@settings(max_examples=30)
def test_equals_sacrebleu(prediction, references, smoothing, max_order, lowercase):
    smooth, value = smoothing
    options = {"smooth": smooth, "smooth_value": value, "max_order": max_order}
    theirs = oracle(prediction, references, lowercase=lowercase, **options)
    ours = bleu(prediction, references, lowercase=lowercase, **options)

    assert ours.score == theirs.score / 100
    assert ours.brevity_penalty == theirs.bp
    assert (ours.prediction_length, ours.reference_length) == (theirs.sys_len, theirs.ref_len)
    if smooth != "add-k":  # there sacrebleu adds to the counts that it returns
        counts = zip(theirs.counts, theirs.totals, strict=True)
        assert ours.precisions == tuple(c / t if t else 0.0 for c, t in counts)


@pytest.mark.parametrize("tokenize", ["intl", "char", "none", "zh"])
def test_other_tokenizers_are_sacrebleus(tokenize):
    prediction, references = "The cat 東京 sat, 3.14!", ["a cat 東京 sat, 3.1", "the Cat"]
    theirs = oracle(prediction, references, tokenize=tokenize)
    assert bleu(prediction, references, tokenize=tokenize).score == theirs.score / 100


def test_long_texts_equal_sacrebleu():
    draw = random.Random(3)
    rows = []
    for _ in range(15):
        reference = draw.choices(WORDS, k=draw.choice([5, 80, 300]))
        words = [word if draw.random() < 0.8 else draw.choice(WORDS) for word in reference]
        rows.append((" ".join(words), [" ".join(reference), " ".join(reference[3:])]))
    names = ["bleu", "bleu1", "bleu2", "bleu4", "bleu.precision3"]
    columns = score_texts(*zip(*rows, strict=True), names)
    for column, order in zip(columns[:4], (4, 1, 2, 4), strict=True):
        expected = [oracle(p, r, max_order=order).score / 100 for p, r in rows]
        assert column.values.tolist() == expected
    assert columns[4].values.tolist() == [bleu(p, r).precisions[2] for p, r in rows]


def test_hand_worked():
    assert bleu("six six six six six", "six").precisions[0] == 1 / 5
    result = bleu("the cat", "the cat sat on")
    assert result.precisions == (1.0, 1.0, 0.0, 0.0), "two words have no longer n-gram"
    assert result.brevity_penalty == math.exp(1 - 4 / 2)
    assert result.score == pytest.approx(math.exp(-1))
    assert bleu("", "a").score == 0.0
    assert bleu("a", "").score == 0.0
    assert bleu("a b c", ["a", "b c d e"]).reference_length == 4, "1 and 2 away: the closer one"
    assert bleu("a b", ["a", "b c d"]).reference_length == 1, "both 1 away: the shorter one"


@pytest.mark.parametrize(
    ("options", "place"),
    [
        ({"max_order": 0}, "bleu: max_order"),
        ({"max_order": [4]}, "bleu: max_order"),
        ({"smooth": "expo"}, "bleu: smooth"),
        ({"smooth": "floor", "smooth_value": -1.0}, "bleu: smooth_value"),
        ({"tokenize": "13b"}, "bleu: tokenize"),
    ],
)
def test_bad_options_say_what_is_allowed(options, place, assert_message):
    with pytest.raises(OptionError) as caught:
        bleu("a", "b", **options)
    assert_message(caught.value, place)


def test_no_reference():
    with pytest.raises(OptionError, match="at least one"):
        bleu("a", [])


def test_a_score_is_a_number_with_parts():
    """A tuple was true at 0, was repeated by `* 100`, and made a column of objects in pandas."""
    score = bleu("six six six six six", "six")

    assert score * 100 == score.score * 100 == pytest.approx(10.68, abs=0.01)
    assert f"{score:.3f}" == "0.107"
    assert round(score, 1) == 0.1 < score < sum([score, score])
    assert not bleu("a", "b")
    assert sorted([bleu("a", "a"), score])[0] is score
    assert json.loads(json.dumps({"bleu": score})) == {"bleu": score.score}
    assert np.array([score, score]).dtype == np.float64
    copy = pickle.loads(pickle.dumps(score))
    assert (copy, copy.to_dict()) == (score, score.to_dict())
    assert copy.precisions == score.precisions == (0.2, 0.0, 0.0, 0.0)
