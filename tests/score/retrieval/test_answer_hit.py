"""`answer_hit`: whole words in a row, against a plain search and worked by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragbench.errors import OptionError
from ragbench.score.retrieval.base import RetrievedPassages
from ragbench.score.retrieval.notation import parse_measures
from ragbench.score.retrieval.passage_matching import answer_hit
from ragbench.score.retrieval.score_run import Rules, score_passages
from ragbench.score.text.gold_words import GoldAnswers
from ragbench.text.tokenize import normalize_answer
from ragbench.types import Cause


def value_of(passages, answers, k=None):
    return answer_hit(RetrievedPassages([passages], [answers]), k=k)[0]


@pytest.mark.parametrize(
    ("passages", "answers", "k", "expected"),
    [
        pytest.param(["I know."], ["no"], None, 0.0, id="no is not in know"),
        pytest.param(["I say no."], ["No!"], None, 1.0, id="a word, whatever its case"),
        pytest.param(["the Alps, the sea"], ["sea the Alps"], None, 0.0, id="in another order"),
        pytest.param(["built in The Year 1889"], ["year 1889"], None, 1.0, id="articles go"),
        pytest.param(["x", "1889"], ["1889"], 1, 0.0, id="beyond the cut-off"),
        pytest.param(["x", "1889"], ["1889"], 2, 1.0, id="at the cut-off"),
        pytest.param(["1889"], ["1890", "1889"], None, 1.0, id="any answer will do"),
        pytest.param(["18", "89"], ["18 89"], None, 0.0, id="passages are not joined"),
        pytest.param(["the"], ["the"], None, 0.0, id="an answer without a word"),
        pytest.param([], ["1889"], None, 0.0, id="nothing retrieved"),
        pytest.param(["in 1,932 cases"], ["1932"], None, 1.0, id="a comma before three digits"),
        pytest.param(["in 19,32 cases"], ["1932"], None, 0.0, id="a comma before two digits"),
        pytest.param(["born in 1932, in May"], ["1932"], None, 1.0, id="a comma after a number"),
        pytest.param(["3.14 metres"], ["314"], None, 0.0, id="no number across a point"),
        pytest.param(["19\u00ad32"], ["1932"], None, 1.0, id="a soft hyphen is invisible"),
        pytest.param(["1914\u20141918"], ["1914"], None, 1.0, id="a dash separates"),
        pytest.param(["Caf\u0065\u0301 noir"], ["café noir"], None, 1.0, id="composed accents"),
    ],
)
def test_hand_worked(passages, answers, k, expected):
    assert value_of(passages, answers, k) == expected


@pytest.mark.parametrize(
    ("answers", "passage", "quote"),
    [
        (["30 days"], "It is paid within 30 days of the return.", "within 30 days of"),
        (["30 days"], "A reply in 30 minutes, on the next business day.", ""),
        (["the Alps"], "It rises\nin the  Alps!", "the Alps!"),
        (["Bonn", "Paris"], "Paris", "Paris"),
        (["北京"], "答案是北京大学。", "是北京大"),
        (["b" * 90], f"the {'b' * 90}.", f"the {'b' * 76} ..."),
        (["1500"], "It costs 1\u202f500 € (or more).", "costs 1 500 € (or"),
        (["25 °C"], "So it was 25°C.", "was 25°C."),
        (["-5"], "是\u22125\u200b度。", "是\u22125度"),
    ],
)
def test_the_words_that_match_are_quoted(answers, passage, quote):
    # With a word on either side, or a character where words have no spaces between them
    gold = GoldAnswers(answers)

    assert (gold.stand_in(passage), gold.quote(passage)) == (bool(quote), quote)


def test_no_answer_is_not_zero():
    assert np.isnan(value_of(["x"], []))


words = st.lists(st.sampled_from(["no", "know", "the", "a.", "b"]), max_size=6).map(" ".join)


@given(st.lists(words, max_size=4), st.lists(words, min_size=1, max_size=2), st.integers(1, 5))
def test_is_a_run_of_tokens(passages, answers, k):
    def holds(passage, answer):
        have, want = normalize_answer(passage).split(), normalize_answer(answer).split()
        windows = (have[i : i + len(want)] for i in range(len(have)))
        return bool(want) and want in list(windows)

    expected = any(holds(passage, answer) for passage in passages[:k] for answer in answers)

    assert value_of(passages, answers, k) == expected


@given(st.lists(words, max_size=4), st.lists(words, min_size=1, max_size=2))
def test_never_falls_with_k(passages, answers):
    values = [value_of(passages, answers, k) for k in (1, 2, 3, None)]

    assert values == sorted(values)


def test_what_does_not_fit_together_is_refused(assert_message):
    with pytest.raises(OptionError) as caught:
        value_of(["x"], ["a"], 0)
    assert_message(caught.value, "answer_hit: k")


def test_a_query_that_the_run_lacks_has_no_value_where_the_rules_skip_it():
    record = RetrievedPassages([["it is red"], []], [["red"], ["blue"]])

    skipped, zero = (
        score_passages(record, parse_measures("answer_hit@1"), Rules(missing=rule), missing=[1])[0]
        for rule in ("skip", "zero")
    )

    assert skipped.causes.tolist() == [Cause.SCORED, Cause.MISSING_QUERY]
    assert zero.values.tolist() == [1.0, 0.0]


mixed_texts = st.text("ab 5,.-'%€北กิ\u3099\u0301\u200bＡ½\n", max_size=20) | st.text(max_size=20)


@given(mixed_texts, mixed_texts, mixed_texts)
def test_a_passage_with_an_answer_is_quoted(prefix, answer, behind):
    gold = GoldAnswers([answer])
    passage = f"{prefix} x {answer} x {behind}"

    assert gold.stand_in(passage) is (gold.quote(passage) != "")
    # x keeps the number apart from those around it
    assert gold.stand_in(passage) or not gold.stand_in(answer)
